"""Bytes to events: bounded inflate, readable poison, refusals with their place; nothing but IngestError comes out."""

import gzip
import json
import tracemalloc
import zlib
from random import Random
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.errors import IngestError
from ingest.repair import BigInteger
from ingest.wire import WireLimits, check_media_type, cut_nesting, inflate, parse_events, parse_json

LIMITS = WireLimits(max_body_bytes=100_000, max_events=10, max_event_bytes=10_000, max_nesting=64, max_key_bytes=512)


def refusal(call: Any, *arguments: Any) -> IngestError:
    with pytest.raises(IngestError) as caught:
        call(*arguments)
    return caught.value


@given(st.binary(max_size=300), st.sampled_from(["", "gzip", "deflate", "identity", "br"]))
def test_any_bytes_are_read_or_refused(body: bytes, encoding: str) -> None:
    """Only IngestError with a client's status comes out."""
    try:
        parse_events(inflate(body, encoding, 1_000), LIMITS)
    except IngestError as error:
        assert error.status in (400, 413, 415)


@given(st.text(st.sampled_from('[]{}",:\\u0d8NaInfity1-e. \n'), max_size=120))
def test_any_near_json_is_read_or_refused(text: str) -> None:
    """Text that is almost JSON is read or is a 400."""
    try:
        parse_json(text.encode(), 5)
    except IngestError as error:
        assert error.status == 400


@given(st.binary(min_size=1, max_size=3_000), st.integers(1, 9))
def test_every_encoding_comes_back_equal(body: bytes, level: int) -> None:
    """Case 30: gzip, two gzip members, deflate with and without its header."""
    raw = zlib.compressobj(level, zlib.DEFLATED, -zlib.MAX_WBITS)
    assert inflate(gzip.compress(body, level), "GZIP ", 10_000) == body
    assert inflate(gzip.compress(body) + gzip.compress(body), "x-gzip", 10_000) == body * 2
    assert inflate(zlib.compress(body, level), "deflate", 10_000) == body
    assert inflate(raw.compress(body) + raw.flush(), "deflate", 10_000) == body


@given(st.lists(st.integers(0, 200_000), min_size=1, max_size=4), st.integers(0, 2**32))
@settings(max_examples=20, deadline=None)
def test_members_come_back_wherever_their_ends_lie(sizes: list[int], seed: int) -> None:
    """A member may end anywhere in what is fed at once."""
    random = Random(seed)
    parts = [random.randbytes(size) for size in sizes]
    sent = b"".join(gzip.compress(part, 1) for part in parts)
    assert inflate(sent, "gzip", 1_000_000) == b"".join(parts)


def test_a_body_of_countless_members_is_refused() -> None:
    """Each empty member costs twenty bytes to send and a start to read."""
    error = refusal(inflate, gzip.compress(b"") * 200_000, "gzip", 8_000_000)
    assert (error.code, error.status) == ("bad_encoding", 400)
    assert inflate(gzip.compress(b"a") * 999, "gzip", 8_000_000) == b"a" * 999


@pytest.mark.parametrize("cut", [1, 5, 9, 20])
def test_broken_compression_is_400(cut: int) -> None:
    """Case 30: cut-off data is told from complete data."""
    body = gzip.compress(b"some body that is long enough to be cut off" * 3)
    assert refusal(inflate, body[:-cut], "gzip", 10_000).code == "bad_encoding"


def test_bomb_is_cut_off_within_its_limit() -> None:
    """Case 28: 200 KB that would become 200 MB never take more than the limit and a little."""
    bomb = gzip.compress(bytes(200_000_000))
    assert len(bomb) < 250_000
    tracemalloc.start()
    error = refusal(inflate, bomb, "gzip", 1_000_000)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert (error.code, error.status, error.extra["limit"]) == ("body_too_large", 413, 1_000_000)
    assert peak < 3_000_000


def test_exactly_the_limit_is_read() -> None:
    """The limit itself is allowed, in each encoding."""
    body = b"x" * 1_000
    assert inflate(body, "", 1_000) == inflate(gzip.compress(body), "gzip", 1_000) == body
    assert refusal(inflate, body + b"x", "", 1_000).status == 413
    assert refusal(inflate, gzip.compress(body + b"x"), "gzip", 1_000).status == 413


@pytest.mark.parametrize(
    "content_type", ["application/json", "Application/JSON; charset=UTF-8", 'application/json;charset="utf-8";v=1', ""]
)
def test_json_types_are_taken(content_type: str) -> None:
    """Case 30: a charset parameter is fine."""
    check_media_type(content_type)


@pytest.mark.parametrize("content_type", ["text/plain", "application/x-protobuf", "application/json; charset=utf-16"])
def test_other_types_are_415(content_type: str) -> None:
    """The sentence says what to send."""
    error = refusal(check_media_type, content_type)
    assert (error.status, error.extra["field"]) == (415, "Content-Type")
    assert "send the events" in error.detail


def test_poison_reaches_its_event_and_costs_no_other() -> None:
    """Cases 7, 9, 18: bytes that are no UTF-8, half characters, NaN, long integers, bottomless nesting."""
    parts = [
        b'{"n":1}',
        b'"\xff"',
        b'"\\ud83d"',
        b"NaN",
        b"-Infinity",
        b"1" * 5_000,
        b"-9223372036854775809",
        b'"a\nb"',
    ]
    parts += [b"[" * 5_000 + b"]" * 5_000]
    good, byte, half, nan, infinite, long, low, control, deep = parse_events(
        b'{"events":[' + b",".join(parts) + b"]}", LIMITS
    )
    assert (good, byte, half, control) == ({"n": 1}, "\udcff", "\ud83d", "a\nb")
    assert nan != nan and infinite == float("-inf")
    assert (type(long), len(long), low) == (BigInteger, 5_000, -9223372036854775809)
    assert json.dumps(deep).count("[") == 70


def test_long_integers_are_exact() -> None:
    """Digits beyond 64 bits are never rounded through a float."""
    assert parse_json(b"[18446744073709551616, 1234567890123456789]", 5) == [2**64, 1234567890123456789]


@given(st.recursive(st.integers() | st.text(), lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner)))
def test_shallow_json_is_not_touched_by_the_cut(value: Any) -> None:
    """The cut sees brackets in texts for what they are."""
    text = json.dumps(value)
    assert cut_nesting(text, 500) is text
    json.loads(cut_nesting(text, 2))


def test_cut_keeps_what_is_shallow() -> None:
    """Only what lies deeper becomes null."""
    assert cut_nesting('[[[1],2],{"a":[3,"]"]},"[["]', 2) == '[[null,2],{"a":null},"[["]'


@pytest.mark.parametrize(
    ("body", "code", "part"),
    [
        (b"", "bad_json", "empty"),
        (b" \n", "bad_json", "empty"),
        (b'{"events": [1,}', "bad_json", "line 1, column 15"),
        (b'{"events": [] } x', "bad_json", "line 1"),
        (b"[" * 200_000, "too_nested", "72 levels"),
        (b"[]", "bad_body", "events"),
        (b'{"events": {}}', "bad_body", "events"),
        (b'{"events": null}', "bad_body", "events"),
        (b"17", "bad_body", "events"),
    ],
)
def test_what_is_no_list_of_events_is_400(body: bytes, code: str, part: str) -> None:
    """The refusal names the place and never the text."""
    error = refusal(parse_events, body, LIMITS)
    assert (error.code, error.status) == (code, 400)
    assert part in error.detail


def test_too_many_events_is_413() -> None:
    """Case 28: the count, the limit and the fix are in the sentence."""
    error = refusal(parse_events, b'{"events":[' + b",".join([b"1"] * 11) + b"]}", LIMITS)
    assert (error.code, error.status, error.extra["limit"]) == ("too_many_events", 413, 10)
    assert "11 events" in error.detail and "10" in error.detail and "split" in error.detail


def test_byte_order_mark_is_fine() -> None:
    """A body saved by an editor is read."""
    assert parse_events(b'\xef\xbb\xbf{"events": [1]}', LIMITS) == [1]
