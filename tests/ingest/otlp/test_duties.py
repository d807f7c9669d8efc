"""OTLP over HTTP, duty by duty: what is answered, in which type, and that a refusal changes nothing."""

import gzip
import json
import zlib
from collections.abc import Iterator
from typing import Any

import pytest
from django.db import OperationalError, connections
from django.test import Client

from ingest.authentication import revoke_key
from ingest.models import Event, Project, Reject, Run
from tests.ingest.otlp.sending import JSON, PROTOBUF, OtlpSender, as_json, logs, record, span, span_id, traces

pytestmark = pytest.mark.django_db

BOTH = pytest.mark.parametrize("media_type", [PROTOBUF, JSON])


@pytest.fixture
def sender() -> OtlpSender:
    return OtlpSender(Project.objects.create(slug="alpha", name="Alpha"))


def nothing_stored() -> bool:
    return not Event.objects.exists() and not Run.objects.exists() and not Reject.objects.exists()


@BOTH
def test_success_is_an_empty_response_of_the_type_sent(sender: OtlpSender, media_type: str) -> None:
    """Both spans are stored, and there is nothing to say about them."""
    answer = sender.send("traces", traces(span(1), span(2, 1)), media_type)
    assert (answer.status, answer.media_type) == (200, media_type)
    assert answer.success("traces") == {}
    assert set(sender.stored()) == {span_id(1).hex(), span_id(2).hex()}


@BOTH
def test_logs_are_answered_alike(sender: OtlpSender, media_type: str) -> None:
    """The other address has the other response, which is as empty."""
    answer = sender.send("logs", logs(record("hello")), media_type)
    assert (answer.media_type, answer.success("logs")) == (media_type, {})
    assert [event.type for event in sender.stored().values()] == ["log"]


def test_both_encodings_of_a_request_become_the_same_events(sender: OtlpSender) -> None:
    """Case 30: JSON is as good as protobuf, whatever is in the attributes."""
    attributes = {
        "text": "Zürich",
        "whole": 2**53 + 1,
        "real": 0.5,
        "yes": True,
        "raw": b"\x00\xff",
        "list": [1, "two", [3.5]],
        "map": {"inner": {"deep": 1}, "empty": {}},
        "unset": None,
    }
    request = traces(span(1, attributes=attributes), span(2, 1))
    other = OtlpSender(Project.objects.create(slug="beta", name="Beta"))
    sender.send("traces", request).success("traces")
    other.send("traces", request, JSON).success("traces")
    assert {key: event.data for key, event in sender.stored().items()} == {
        key: event.data for key, event in other.stored().items()
    }
    kept = sender.one(1).data["span"]["attributes"]
    assert kept == {**attributes, "raw": "AP8="}


@BOTH
def test_partial_success_is_200_with_count_and_reasons(sender: OtlpSender, media_type: str) -> None:
    """Each rejected span is named by its place and its reason, and is listed with its run."""
    answer = sender.send("traces", traces(span(1), span(2, span_id=b"\0" * 8), span(3, kind=99)), media_type)
    told = answer.success("traces")["partialSuccess"]
    assert told["rejectedSpans"] == "2"
    assert "[1] spanId is all zero" in told["errorMessage"]
    assert "[2] kind must be a number from 0 to 5" in told["errorMessage"]
    assert set(sender.stored()) == {span_id(1).hex()}
    assert set(Reject.objects.values_list("code", "run_id")) == {
        ("invalid_id", "0102030405060708090a0b0c0d0e0f10"),
        ("invalid_enum", "0102030405060708090a0b0c0d0e0f10"),
    }


@BOTH
def test_rejected_log_records_are_counted(sender: OtlpSender, media_type: str) -> None:
    """A record of no run is rejected, the one beside it is stored."""
    answer = sender.send("logs", logs(record("kept"), record("lost", trace_id=b"")), media_type)
    told = answer.success("logs")["partialSuccess"]
    assert (told["rejectedLogRecords"], "temporality.run_id" in told["errorMessage"]) == ("1", True)
    assert Reject.objects.get().code == "log_without_trace"
    assert len(sender.stored()) == 1


@pytest.mark.parametrize("media_type", [PROTOBUF, "application/protobuf", JSON, "application/json; charset=utf-8"])
@pytest.mark.parametrize("encoding", ["", "identity", "gzip", "deflate", "raw deflate"])
def test_case_30_types_with_parameters_and_encodings(sender: OtlpSender, media_type: str, encoding: str) -> None:
    """Charset parameter, gzip with JSON, deflate with and without its header are all read."""
    request = traces(span(1))
    body = json.dumps(as_json(request)).encode() if media_type.startswith(JSON) else request.SerializeToString()
    packed = {
        "gzip": gzip.compress(body),
        "deflate": zlib.compress(body),
        "raw deflate": zlib.compress(body)[2:-4],
    }.get(encoding, body)
    headers = {"Content_Encoding": encoding.split()[-1]} if encoding else {}
    answer = sender.send("traces", packed, media_type, **headers)
    assert answer.success("traces") == {}
    assert answer.media_type == (JSON if media_type.startswith(JSON) else PROTOBUF)
    assert len(sender.stored()) == 1


@BOTH
@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_case_30_empty_body_is_an_empty_success(sender: OtlpSender, media_type: str, signal: str) -> None:
    """An exporter that sends nothing is not told off."""
    assert sender.send(signal, b"", media_type).success(signal) == {}
    assert nothing_stored()


def test_requests_without_records_are_a_success(sender: OtlpSender) -> None:
    """An exporter that flushes nothing is told nothing."""
    assert sender.send("traces", traces()).success("traces") == {}
    assert sender.send("traces", {}, JSON).success("traces") == {}
    assert sender.send("traces", {"resourceSpans": None}, JSON).success("traces") == {}
    assert nothing_stored()


@pytest.mark.parametrize("media_type", ["text/plain", "application/x-www-form-urlencoded", "application/grpc", ""])
def test_other_types_are_415_and_say_what_is_read(sender: OtlpSender, media_type: str) -> None:
    """Form data, gRPC and plain text are told the two types that are read."""
    answer = sender.send("traces", traces(span(1)).SerializeToString(), media_type)
    assert (answer.status, answer.problem()["reason"]) == (415, "UNSUPPORTED_TYPE")
    assert "application/x-protobuf or application/json" in answer.problem()["message"]
    assert nothing_stored()


def test_json_in_another_charset_is_415(sender: OtlpSender) -> None:
    """OTLP/JSON is UTF-8."""
    answer = sender.send("traces", traces(span(1)), "application/json; charset=utf-16")
    assert (answer.status, nothing_stored()) == (415, True)


@pytest.mark.parametrize("method", ["get", "put", "patch", "delete", "head"])
@pytest.mark.parametrize("signal", ["traces", "logs"])
def test_case_30_other_methods_are_405(sender: OtlpSender, method: str, signal: str) -> None:
    """With and without a key: a person who opens the address is told that it is no page."""
    headers = {"Authorization": f"Bearer {sender.raw}"}
    assert getattr(sender.client, method)(f"/v1/{signal}", headers=headers).status_code == 405
    assert getattr(Client(), method)(f"/v1/{signal}").status_code == 405


@pytest.mark.parametrize(
    ("media_type", "body", "reason"),
    [
        (JSON, b'{"resourceSpans": [', "BAD_JSON"),
        (JSON, b"[1]", "BAD_BODY"),
        (JSON, b'"text"', "BAD_BODY"),
        (JSON, b'{"resourceSpans": {}}', "BAD_BODY"),
        (PROTOBUF, b"\xff\xff\xff", "BAD_PROTOBUF"),
        (PROTOBUF, b"plain text", "BAD_PROTOBUF"),
        (PROTOBUF, b'{"resourceSpans": []}', "BAD_PROTOBUF"),
        (PROTOBUF, traces(span(1)).SerializeToString()[:-5], "BAD_PROTOBUF"),
    ],
)
def test_case_30_malformed_bodies_are_400_with_a_status(
    sender: OtlpSender, media_type: str, body: bytes, reason: str
) -> None:
    """Not retryable, in the type sent, and without a word of the body."""
    answer = sender.send("traces", body, media_type)
    assert (answer.status, answer.media_type, answer.problem()["reason"]) == (400, media_type, reason)
    assert answer.problem()["code"] == 3
    assert "Retry-After" not in answer.headers
    assert nothing_stored()


@BOTH
@pytest.mark.parametrize("packed", [b"no gzip at all", gzip.compress(b"{}" * 500)[:-9]])
def test_case_30_broken_gzip_is_400(sender: OtlpSender, media_type: str, packed: bytes) -> None:
    """Sending the same again would not help, so no retry is asked for."""
    answer = sender.send("traces", packed, media_type, Content_Encoding="gzip")
    assert (answer.status, answer.problem()["reason"]) == (400, "BAD_ENCODING")
    assert nothing_stored()


def test_unknown_encoding_is_415(sender: OtlpSender) -> None:
    """An encoding that is not read is named as the fault."""
    answer = sender.send("traces", traces(span(1)), Content_Encoding="br")
    assert (answer.status, answer.problem()["reason"]) == (415, "UNSUPPORTED_ENCODING")
    assert nothing_stored()


@BOTH
def test_case_28_too_large_is_413_with_the_limit(sender: OtlpSender, media_type: str) -> None:
    """A person reads the limit in the text, a program in the metadata; a bomb is cut off at the limit."""
    big = b"x" * (8 * 1024 * 1024 + 1)
    bomb = gzip.compress(b"\0" * 200_000_000, 1)
    assert len(bomb) < 1_000_000
    for body, headers in ((big, {}), (bomb, {"Content_Encoding": "gzip"})):
        answer = sender.send("traces", body, media_type, **headers)
        assert (answer.status, answer.problem()["reason"]) == (413, "BODY_TOO_LARGE")
        assert answer.problem()["metadata"]["limit"] == "8388608"
        assert "8388608" in answer.problem()["message"]
    assert nothing_stored()


@BOTH
def test_case_28_too_many_spans_is_413_with_the_limit(sender: OtlpSender, media_type: str, settings: Any) -> None:
    """The limit is the setting; one span fewer is taken."""
    settings.INGEST_MAX_SPANS = 3
    answer = sender.send("traces", traces(*(span(number) for number in range(1, 5))), media_type)
    assert (answer.status, answer.problem()["reason"]) == (413, "TOO_MANY_RECORDS")
    assert answer.problem()["metadata"]["limit"] == "3"
    assert nothing_stored()
    assert sender.send("traces", traces(*(span(number) for number in range(1, 4))), media_type).success("traces") == {}


def test_case_28_1446_spans_of_one_request_are_stored(sender: OtlpSender) -> None:
    """No cap of a few hundred throws a long run away."""
    sender.traces(*(span(number, 1) for number in range(2, 1_448)))
    assert len(sender.stored()) == 1_446


def test_case_28_one_huge_field_is_cut_and_costs_no_other(sender: OtlpSender) -> None:
    """What fits the request and not the event is cut with a marker; its neighbours are whole."""
    assert sender.traces(span(1), span(2, attributes={"text": "x" * 5_000_000}), span(3)) == {}
    assert len(sender.stored()) == 3
    cut = sender.one(2)
    assert cut.repairs == ["cut"]
    assert "5000000 characters in all" in cut.data["span"]["attributes"]["text"]


@BOTH
def test_keys_are_checked(sender: OtlpSender, media_type: str) -> None:
    """401 without a key that holds, 403 without the scope, each as a Status."""
    reader = OtlpSender(sender.project, "read")
    answer = reader.send("traces", traces(span(1)), media_type)
    assert (answer.status, answer.problem()["reason"], answer.problem()["code"]) == (403, "SCOPE_MISSING", 7)
    revoke_key(sender.key)
    answer = sender.send("traces", traces(span(1)), media_type)
    assert (answer.status, answer.problem()["reason"], answer.problem()["code"]) == (401, "KEY_REVOKED", 16)
    assert nothing_stored()


def test_quota_asks_to_try_again_later(sender: OtlpSender) -> None:
    """429 with Retry-After is one of the few answers that an exporter repeats."""
    sender.key.events_per_minute = 1
    sender.key.save()
    assert sender.send("traces", traces(span(1))).success("traces") == {}
    answer = sender.send("traces", traces(span(2)))
    assert (answer.status, answer.problem()["reason"]) == (429, "QUOTA_EXCEEDED")
    assert int(answer.headers["Retry-After"]) >= 1
    assert len(sender.stored()) == 1


@pytest.fixture
def silent_database(sender: OtlpSender) -> Iterator[None]:
    """Every statement after the key's own query fails as it does when the server went away."""
    seen = 0

    def fail(execute: Any, sql: str, *arguments: Any) -> Any:
        nonlocal seen
        seen += 1
        if seen > 1:
            raise OperationalError("server closed the connection")
        return execute(sql, *arguments)

    with connections["default"].execute_wrapper(fail):
        yield


@BOTH
def test_case_30_silent_database_asks_to_try_again(sender: OtlpSender, silent_database: None, media_type: str) -> None:
    """503 with Retry-After, as a Status: nothing was taken."""
    answer = sender.send("traces", traces(span(1)), media_type)
    assert (answer.status, answer.problem()["code"]) == (503, 14)
    assert int(answer.headers["Retry-After"]) >= 1


def test_delivered_twice_is_stored_once(sender: OtlpSender) -> None:
    """A retry is a success, and an altered copy is counted as a conflict while the first stays."""
    request = traces(span(1, name="first"), span(2))
    for _ in range(2):
        assert sender.send("traces", request).success("traces") == {}
    sender.traces(span(1, name="second"))
    assert sender.one(1).data["span"]["name"] == "first"
    assert Run.objects.get().n_conflicts == 1
    assert [(row.code, row.event_id) for row in Reject.objects.all()] == [("conflict", span_id(1).hex())]


def test_delivered_twice_log_records_are_stored_once(sender: OtlpSender) -> None:
    """A record has no id: equal ones of one request are told apart, a repeated request is known."""
    request = logs(record("tick"), record("tick"), record("tock"))
    for _ in range(2):
        assert sender.send("logs", request).success("logs") == {}
    assert sorted(event.data["body"] for event in sender.stored().values()) == ["tick", "tick", "tock"]


def test_unknown_fields_are_ignored(sender: OtlpSender) -> None:
    """A newer sender is understood in both encodings."""
    document = as_json(traces(span(1)))
    document["later"] = {"x": 1}
    document["resourceSpans"][0]["later"] = [1]
    document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]["later"] = "x"
    assert sender.send("traces", document, JSON).success("traces") == {}
    newer = traces(span(1)).resource_spans[0].scope_spans[0].spans[0]
    newer.MergeFromString(b"\xf2\x3f\x03abc")  # field 1022, which no version knows
    assert sender.traces(newer) == {}


def test_json_numbers_and_ids_in_every_spelling(sender: OtlpSender) -> None:
    """64-bit numbers as text and as numbers, ids in either case, infinities by name."""
    document = as_json(traces(span(1)))
    sent = document["resourceSpans"][0]["scopeSpans"][0]["spans"][0]
    sent |= {"traceId": "ABCDEF" * 5 + "AB", "startTimeUnixNano": int(sent["startTimeUnixNano"])}
    sent["attributes"] = [
        {"key": "text", "value": {"intValue": "-9223372036854775808"}},
        {"key": "number", "value": {"intValue": 42}},
        {"key": "half", "value": {"doubleValue": "0.5"}},
        {"key": "endless", "value": {"doubleValue": "-Infinity"}},
        {"key": "nothing", "value": {}},
        {"key": "no value"},
    ]
    assert sender.send("traces", document, JSON).success("traces") == {}
    kept = sender.one(1)
    assert (kept.run_id, kept.repairs) == ("abcdef" * 5 + "ab", ["non_finite"])
    assert kept.data["span"]["attributes"] == {
        "text": -(2**63), "number": 42, "half": 0.5, "endless": None, "nothing": None, "no value": None,
    }  # fmt: skip


@pytest.mark.parametrize("kind", ["SPAN_KIND_CLIENT", 99, -1, 1.5, True, [1]])
def test_bad_enum_costs_its_span_only(sender: OtlpSender, kind: Any) -> None:
    """Case 1, in OTLP/JSON: enums are numbers."""
    document = as_json(traces(*(span(number) for number in range(1, 101))))
    document["resourceSpans"][0]["scopeSpans"][0]["spans"][56]["kind"] = kind
    told = sender.send("traces", document, JSON).success("traces")["partialSuccess"]
    assert (told["rejectedSpans"], told["errorMessage"][:24]) == ("1", "1 spans rejected: [56] k")
    assert len(sender.stored()) == 99
