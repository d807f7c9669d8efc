"""One value to a draft: times, ids, clocks, secrets and size; any value gives a draft or an IngestError."""

from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.events import EVENT_TYPES
from ingest.envelope import DRAFT_COLUMNS, EventDraft, parse_event, shown_id
from ingest.errors import IngestError
from ingest.times import NS_MAX, NS_MIN, parse_rfc3339, rfc3339, to_nanoseconds
from ingest.wire import WireLimits
from tests.ingest.test_repair import any_json, any_text

LIMITS = WireLimits(max_body_bytes=8_000_000, max_events=10, max_event_bytes=20_000, max_nesting=64, max_key_bytes=512)
NOW = to_nanoseconds(datetime(2026, 11, 30, 3, tzinfo=UTC))


def event(**fields: Any) -> dict[str, Any]:
    base = {"event_id": "e", "run_id": "r", "type": "turn.started", "occurred_at": "2026-11-30T03:00:00Z"}
    return {**base, **fields}


def draft(**fields: Any) -> EventDraft:
    return parse_event(event(**fields), 0, NOW, LIMITS)


def column(found: EventDraft, name: str) -> Any:
    return found.columns[DRAFT_COLUMNS.index(name)]


def words(found: EventDraft) -> list[str]:
    return list(orjson.loads(column(found, "repairs") or "[]"))


def data(found: EventDraft) -> dict[str, Any]:
    return dict(orjson.loads(column(found, "data")))


@given(any_json)
def test_any_value_is_a_draft_or_refused(value: Any) -> None:
    """Nothing but IngestError comes out, whatever stands where an event should."""
    with pytest.raises(IngestError):
        parse_event(value, 0, NOW, LIMITS)


@given(st.dictionaries(st.sampled_from([*DRAFT_COLUMNS, "occurred_at", "ended_at", "ended_at_unix_nano"]), any_json))
def test_any_fields_are_a_draft_or_refused(fields: dict[str, Any]) -> None:
    """The same for every field of the envelope, with a sentence that fits its column."""
    try:
        parse_event(event(**fields), 0, NOW, LIMITS)
    except IngestError as error:
        assert error.status == 400
        assert 0 < len(error.detail) <= 500


@pytest.mark.parametrize("name", EVENT_TYPES)
def test_every_published_example_is_accepted(name: str) -> None:
    """The examples of the event types pass the door unchanged."""
    found = draft(type=name, data=dict(EVENT_TYPES[name].example))
    assert words(found) == []


@given(st.integers(NS_MIN, NS_MAX))
def test_times_round_trip_exactly(nanoseconds: int) -> None:
    """Every nanosecond of 64 bits survives its text form, and the integer forms agree."""
    assert parse_rfc3339(rfc3339(nanoseconds)) == nanoseconds
    forms = [{"occurred_at": rfc3339(nanoseconds)}, {"occurred_at_unix_nano": nanoseconds}]
    forms.append({"occurred_at_unix_nano": str(nanoseconds)})
    assert {column(draft(**form), "occurred_ns") for form in forms} == {nanoseconds}


@given(st.datetimes(datetime(1700, 1, 1), datetime(2200, 1, 1)), st.integers(-23 * 60, 23 * 60))  # noqa: DTZ001
def test_offsets_are_exact(moment: datetime, minutes: int) -> None:
    """Local time and offset name the same nanosecond as UTC does."""
    sign, (hours, rest) = "-" if minutes < 0 else "+", divmod(abs(minutes), 60)
    local = f"{moment:%Y-%m-%dT%H:%M:%S}.{moment.microsecond:06d}{sign}{hours:02d}:{rest:02d}"
    utc = moment.replace(tzinfo=UTC) - timedelta(minutes=minutes)
    assert parse_rfc3339(local) == to_nanoseconds(utc)


def test_leap_second_is_the_next_minute() -> None:
    """RFC 3339 allows :60."""
    assert rfc3339(parse_rfc3339("2016-12-31T23:59:60Z")) == "2017-01-01T00:00:00.000000000Z"


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-29T03:00:00",
        "2026-02-30T03:00:00Z",
        "2026-11-30T24:00:00Z",
        "2026-11-30T03:60:00Z",
        "0000-01-01T00:00:00Z",
        "2026-11-30T03:00:61Z",
        "2026-11-30T03:00:00+24:00",
        "2026-11-30T03:00:00+03:60",
        "２026-11-30T03:00:00Z",
        "1600-01-01T00:00:00Z",
    ],
)
def test_wrong_times_are_refused_with_the_form(text: str) -> None:
    """The sentence names the field and what it must be, and does not repeat the text."""
    with pytest.raises(IngestError) as caught:
        draft(occurred_at=text)
    assert caught.value.code == "invalid_time"
    assert caught.value.detail.startswith("occurred_at must")
    assert text not in caught.value.detail


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        (
            {"occurred_at_unix_nano": 5 * 10**18, "ended_at_unix_nano": 5 * 10**18 - 1},
            ["clock_far", "end_before_start"],
        ),
        ({"occurred_at_unix_nano": NOW, "ended_at_unix_nano": NOW - 1}, ["end_before_start"]),
        ({"occurred_at_unix_nano": NOW, "ended_at_unix_nano": 0}, ["end_before_start"]),
        ({"occurred_at_unix_nano": 0, "ended_at_unix_nano": 0}, ["clock_far"]),
        ({"occurred_at_unix_nano": 2**63 - 1}, ["clock_far"]),
        ({"occurred_at_unix_nano": NOW // 1_000}, ["clock_far"]),
        ({"occurred_at_unix_nano": NOW - 27 * 3_600 * 10**9, "ended_at_unix_nano": NOW}, []),
        ({"occurred_at_unix_nano": NOW, "ended_at_unix_nano": NOW + 25 * 3_600 * 10**9}, ["clock_far"]),
        ({"occurred_at_unix_nano": NOW + 7 * 60 * 10**9}, []),
    ],
)
def test_odd_clocks_are_kept_and_flagged(fields: dict[str, int], expected: list[str]) -> None:
    """Cases 26, 27: the raw values stay; the event says what is odd about them."""
    found = draft(**fields)
    assert words(found) == expected
    assert column(found, "occurred_ns") == fields["occurred_at_unix_nano"]
    assert column(found, "ended_ns") == fields.get("ended_at_unix_nano")


@pytest.mark.parametrize(
    ("fields", "code", "field"),
    [
        ({"event_id": ""}, "missing_field", "event_id"),
        ({"run_id": None}, "missing_field", "run_id"),
        ({"type": 7}, "invalid_field", "type"),
        ({"event_id": "x" * 201}, "field_too_long", "event_id"),
        ({"mcp_server": "x" * 10_000}, "field_too_long", "mcp_server"),
        ({"seq": -1}, "invalid_field", "seq"),
        ({"seq": 2**63}, "invalid_field", "seq"),
        ({"turn": True}, "invalid_field", "turn"),
        ({"turn": 1.5}, "invalid_field", "turn"),
        ({"data": []}, "invalid_field", "data"),
        ({"occurred_at": None}, "missing_field", "occurred_at"),
        ({"occurred_at_unix_nano": 2**63}, "invalid_time", "occurred_at_unix_nano"),
        ({"occurred_at_unix_nano": 1.0}, "invalid_time", "occurred_at_unix_nano"),
        ({"ended_at": "soon"}, "invalid_time", "ended_at"),
        (
            {"type": "activation.skipped", "data": {"trigger": "tool.failed", "skip_reason": "no"}},
            "invalid_data",
            "data",
        ),
        ({"type": "model.requested", "data": {"n_messages": 1, "new_messages": ["hi"]}}, "invalid_data", "data"),
    ],
)
def test_refusal_names_the_field(fields: dict[str, Any], code: str, field: str) -> None:
    """Each refusal has a stable code and starts with the field it is about."""
    with pytest.raises(IngestError) as caught:
        draft(**fields)
    assert (caught.value.code, caught.value.extra["field"]) == (code, field)
    assert caught.value.detail.startswith(field)


def test_strange_fields_are_kept_in_data() -> None:
    """What is no part of the envelope is neither lost nor mixed with the type's own fields."""
    found = draft(data={"a": 1}, level="warn", trace={"id": "t"})
    assert data(found) == {"a": 1, "unknown_fields": {"level": "warn", "trace": {"id": "t"}}}
    assert words(found) == ["unknown_field"]


def test_secret_across_the_cut_is_gone() -> None:
    """A token that would be cut in half is removed whole, because redaction comes first."""
    token = "ghp_" + "a1B2" * 9
    for pad in range(19_860, 19_960, 7):
        found = draft(data={"text": "x" * pad + " " + token + " " + "y" * 5_000})
        assert "ghp_" not in column(found, "data")
        assert words(found) == ["redacted", "cut"]
        assert len(column(found, "data").encode()) <= LIMITS.max_event_bytes


def test_secret_in_an_id_is_gone() -> None:
    """No column is spared, and ids without a secret stay as they are."""
    token = "ghp_" + "a1B2" * 9
    found = draft(tool=f"shell {token}", call_id="c-1")
    assert column(found, "tool") == "shell [REDACTED:github_token]"
    assert (column(found, "call_id"), words(found)) == ("c-1", ["redacted"])
    assert token not in str(shown_id(event(run_id=token), "run_id"))


def test_large_structure_is_refused_with_the_limit() -> None:
    """An event that cannot be cut names the limit."""
    with pytest.raises(IngestError) as caught:
        draft(data={"n": list(range(20_000))})
    assert (caught.value.code, caught.value.extra["limit"]) == ("event_too_large", 20_000)


def test_digest_tells_copies_apart() -> None:
    """Key order makes no difference; any value does, also one that is cut away or repaired later."""
    assert draft(data={"a": 1, "b": 2}).digest == draft(data={"b": 2, "a": 1}).digest
    assert draft(data={"a": 1}).digest != draft(data={"a": 2}).digest
    long = "x" * 50_000
    assert draft(data={"t": long + "1"}).digest != draft(data={"t": long + "2"}).digest


@given(any_text)
def test_shown_ids_are_storable(text: str) -> None:
    """The id beside a refusal fits its column and holds nothing that cannot be stored."""
    shown = shown_id({"event_id": text}, "event_id")
    assert shown is None or (len(shown) <= 200 and "\0" not in shown and shown.encode())
