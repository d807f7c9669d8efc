"""Hostile and broken OTLP: each costs itself at most, in both encodings, and what is stored says what was repaired."""

import base64
import json
import struct
from typing import Any

import pytest

from ingest.models import Event, Project, Reject, Run
from ingest.otlp import protobuf_reader
from tests.ingest.otlp.sending import (
    JSON,
    PROTOBUF,
    START,
    TRACE,
    OtlpSender,
    as_json,
    event_of,
    logs,
    pairs,
    record,
    span,
    span_id,
    traces,
)

pytestmark = pytest.mark.django_db

BOTH = pytest.mark.parametrize("media_type", [PROTOBUF, JSON])
LIMIT = 56  # levels kept of one attribute


@pytest.fixture
def sender() -> OtlpSender:
    return OtlpSender(Project.objects.create(slug="alpha", name="Alpha"))


def spans_of(document: dict[str, Any]) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = document["resourceSpans"][0]["scopeSpans"][0]["spans"]
    return found


def varint(number: int) -> bytes:
    out = b""
    while number > 127:
        out += bytes([number & 127 | 128])
        number >>= 7
    return out + bytes([number])


def chunk(field: int, content: bytes) -> bytes:
    """Return one length-delimited protobuf field."""
    return varint(field << 3 | 2) + varint(len(content)) + content


def request_of(*spans: bytes) -> bytes:
    """Return a trace request around serialized spans, which need not be whole."""
    return chunk(1, chunk(2, b"".join(chunk(2, one) for one in spans)))


def nested_value(levels: int) -> bytes:
    """Return an AnyValue of kvlists nested `levels` deep, too deep for any builder."""
    value = chunk(1, b"bottom")
    for _ in range(levels):
        value = chunk(6, chunk(1, chunk(1, b"k") + chunk(2, value)))
    return value


def nested_json(levels: int) -> str:
    return '{"kvlistValue":{"values":[{"key":"k","value":' * levels + '{"stringValue":"bottom"}' + "}]}}" * levels


def depth_of(value: Any) -> int:
    depth = 0
    while isinstance(value, dict):
        value = value["k"]
        depth += 1
    return depth


def with_nested(levels: int, media_type: str) -> bytes:
    """Return a request of three spans, the second of which has an attribute nested `levels` deep."""
    if media_type == PROTOBUF:
        deep = span(2).SerializeToString() + chunk(9, chunk(1, b"deep") + chunk(2, nested_value(levels)))
        return request_of(span(1).SerializeToString(), deep, span(3).SerializeToString())
    document = as_json(traces(span(1), span(2), span(3)))
    spans_of(document)[1]["attributes"] = [{"key": "deep", "value": {"stringValue": "HERE"}}]
    return json.dumps(document).replace('{"stringValue": "HERE"}', nested_json(levels)).encode()


@BOTH
@pytest.mark.parametrize("levels", [12, 20, LIMIT])
def test_case_18_nesting_within_the_limit_is_kept(sender: OtlpSender, media_type: str, levels: int) -> None:
    """Every level is there, and nothing is flagged."""
    assert sender.send("traces", with_nested(levels, media_type), media_type).success("traces") == {}
    kept = sender.one(2)
    assert depth_of(kept.data["span"]["attributes"]["deep"]) == levels
    assert kept.repairs is None


@BOTH
@pytest.mark.parametrize("levels", [LIMIT + 1, 200, 5_000])
def test_case_18_deeper_nesting_is_cut_with_a_marker(sender: OtlpSender, media_type: str, levels: int) -> None:
    """No recursion error, and the spans beside it are whole."""
    assert sender.send("traces", with_nested(levels, media_type), media_type).success("traces") == {}
    assert len(sender.stored()) == 3
    kept = sender.one(2)
    assert kept.repairs == ["nesting"]
    assert depth_of(kept.data["span"]["attributes"]["deep"]) <= LIMIT
    assert "[nested deeper than" in json.dumps(kept.data)
    assert sender.one(1).repairs is None


@pytest.mark.parametrize("body", [b"[" * 100_000, b'{"resourceSpans":' + b"[" * 100_000 + b"]" * 100_000 + b"}"])
def test_case_18_bottomless_json_is_answered(sender: OtlpSender, body: bytes) -> None:
    """No recursion error in the parser."""
    assert sender.send("traces", body, JSON).status in (200, 400)
    assert not Event.objects.exists()


def test_case_18_a_resource_nested_without_end_costs_nothing(sender: OtlpSender) -> None:
    """The spans under it are stored."""
    resource = chunk(1, chunk(1, chunk(1, b"deep") + chunk(2, nested_value(5_000))))
    body = chunk(1, resource + chunk(2, chunk(2, span(1).SerializeToString())))
    assert sender.send("traces", body).success("traces") == {}
    assert len(sender.stored()) == 1


@pytest.mark.parametrize("ids", ["none", "traced"])
def test_case_11_logs_on_the_traces_path_are_refused(sender: OtlpSender, ids: str) -> None:
    """Never half-read as spans without ids: a 400 that names the right address, and nothing is stored."""
    given: dict[str, Any] = {"trace_id": b"", "span_id": b""} if ids == "none" else {}
    request = logs(
        record("user logged in", severity_number=9, severity_text="INFO", attributes={"a": 1}, **given),
        record({"k": ["v"]}, observed_time_unix_nano=START, **given),
    )
    for media_type in (PROTOBUF, JSON):
        answer = sender.send("traces", request, media_type)
        assert (answer.status, "Retry-After" in answer.headers) == (400, False)
        assert (answer.problem()["reason"], "/v1/logs" in answer.problem()["message"]) == ("WRONG_SIGNAL", True)
    assert not Event.objects.exists() and not Reject.objects.exists() and not Run.objects.exists()


def test_case_11_bare_logs_on_the_traces_path_are_refused(sender: OtlpSender) -> None:
    """A record of nothing but a body leaves no wrong field behind, only spans without any id."""
    request = logs(record("text", trace_id=b"", span_id=b"", time_unix_nano=0))
    answer = sender.send("traces", request)
    assert (answer.status, answer.problem()["reason"]) == (400, "WRONG_SIGNAL")
    assert not Event.objects.exists() and not Reject.objects.exists()


def test_case_11_spans_on_the_logs_path_are_refused(sender: OtlpSender) -> None:
    """The other way round it is the same mistake."""
    request = traces(span(1, attributes={"a": 1, "b": "text"}), span(2, 1, name="chat gpt"))
    for media_type in (PROTOBUF, JSON):
        answer = sender.send("logs", request, media_type)
        assert (answer.status, answer.problem()["reason"]) == (400, "WRONG_SIGNAL")
    assert not Event.objects.exists() and not Reject.objects.exists()


@BOTH
@pytest.mark.parametrize("bad", [b"", b"\1", b"\1\2\3", b"\0" * 8, b"\1" * 9, b"\1" * 16])
def test_case_11_bad_span_ids_cost_their_span_only(sender: OtlpSender, media_type: str, bad: bytes) -> None:
    """Missing, short, long and all zero ids are each named."""
    told = sender.send("traces", traces(span(1), span(2, span_id=bad), span(3)), media_type).success("traces")
    assert told["partialSuccess"]["rejectedSpans"] == "1"
    assert "[1] spanId" in told["partialSuccess"]["errorMessage"]
    assert set(sender.stored()) == {span_id(1).hex(), span_id(3).hex()}


@BOTH
@pytest.mark.parametrize("bad", [b"", b"\1", b"\0" * 16, b"\1" * 8, b"\1" * 17])
def test_case_11_bad_trace_ids_cost_their_span_only(sender: OtlpSender, media_type: str, bad: bytes) -> None:
    """A span of no trace belongs to no run."""
    told = sender.send("traces", traces(span(1), span(2, trace_id=bad)), media_type).success("traces")
    assert "[1] traceId" in told["partialSuccess"]["errorMessage"]
    assert Reject.objects.get().code == "invalid_id"
    assert set(sender.stored()) == {span_id(1).hex()}


@BOTH
def test_case_11_parent_ids(sender: OtlpSender, media_type: str) -> None:
    """All zero is how some exporters say root; another length is a mistake."""
    spans = span(1, parent_span_id=b"\0" * 8), span(2, parent_span_id=b"\1\2\3")
    told = sender.send("traces", traces(*spans), media_type).success("traces")
    assert "[1] parentSpanId has 3 bytes" in told["partialSuccess"]["errorMessage"]
    assert sender.one(1).caused_by is None


def test_json_ids_that_are_no_hex_are_named(sender: OtlpSender) -> None:
    """Protobuf's own JSON writes ids in base64; OTLP/JSON does not."""
    document = as_json(traces(span(1), span(2)))
    spans_of(document)[0]["traceId"] = "AQIDBAUGBwgJCgsMDQ4PEA=="
    told = sender.send("traces", document, JSON).success("traces")
    assert "does not use base64" in told["partialSuccess"]["errorMessage"]
    assert set(sender.stored()) == {span_id(2).hex()}


@pytest.mark.parametrize(
    "place",
    ["resource", "scope", "span", "event", "link", "value", "pair", "key", "list value", "kvlist value", "body of int"],
)
def test_case_12_attributes_of_another_shape(sender: OtlpSender, place: str) -> None:
    """What is no list of key and value is refused at the door with its place, and what stands beside it is kept."""
    document = as_json(traces(span(1)))
    document["resourceSpans"] += as_json(traces(span(2)))["resourceSpans"]
    group = document["resourceSpans"][0]
    part = group["scopeSpans"][0]
    wrong: Any = {"k": "v"}
    if place == "resource":
        group["resource"]["attributes"] = wrong
    elif place == "scope":
        part["scope"]["attributes"] = wrong
    elif place == "event":
        part["spans"][0]["events"] = [{"name": "e", "attributes": wrong}]
    elif place == "link":
        part["spans"][0]["links"] = [{"traceId": TRACE.hex(), "spanId": "01" * 8, "attributes": wrong}]
    else:
        part["spans"][0]["attributes"] = {
            "span": wrong,
            "value": [{"key": "k", "value": "bare text"}],
            "pair": ["k"],
            "key": [{"key": 1, "value": {"stringValue": "v"}}],
            "list value": [{"key": "k", "value": {"arrayValue": {"values": "v"}}}],
            "kvlist value": [{"key": "k", "value": {"kvlistValue": {"values": wrong}}}],
            "body of int": [{"key": "k", "value": {"intValue": "ten"}}],
        }[place]
    told = sender.send("traces", document, JSON).success("traces")["partialSuccess"]
    assert told["rejectedSpans"] == "1"
    assert set(sender.stored()) == {span_id(2).hex()}
    assert Reject.objects.get().event_id == span_id(1).hex()


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("scopeSpans", 0, "spans"), {}),
        (("scopeSpans", 0, "spans"), "text"),
        (("scopeSpans",), {}),
        (("scopeSpans", 0), None),
        (("scopeSpans", 0), []),
        (("scopeSpans", 0, "spans", 0), None),
        (("scopeSpans", 0, "spans", 0), [1]),
        (("scopeSpans", 0, "spans", 0, "events"), {}),
        (("scopeSpans", 0, "spans", 0, "links"), [None]),
        (("scopeSpans", 0, "spans", 0, "status"), "ok"),
        (("scopeSpans", 0, "spans", 0, "name"), 7),
        (("scopeSpans", 0, "spans", 0, "name"), 10**30),
        (("scopeSpans", 0, "spans", 0, "traceId"), 10**31),
        (("resource", "attributes", 0, "key"), 10**30),
        (("resource", "attributes", 0, "value", "stringValue"), 10**30),
        (("scopeSpans", 0, "spans", 0, "startTimeUnixNano"), -1),
        (("scopeSpans", 0, "spans", 0, "startTimeUnixNano"), 2**64),
        (("scopeSpans", 0, "spans", 0, "endTimeUnixNano"), "soon"),
        (("resource",), "shop"),
    ],
)
def test_case_12_parts_of_another_shape(sender: OtlpSender, path: tuple[Any, ...], value: Any) -> None:
    """A part that is no OTLP is one rejected part, and the group beside it is stored."""
    document = as_json(traces(span(1)))
    document["resourceSpans"] += as_json(traces(span(2)))["resourceSpans"]
    holder: Any = document["resourceSpans"][0]
    for step in path[:-1]:
        holder = holder[step]
    holder[path[-1]] = value
    told = sender.send("traces", document, JSON).success("traces")["partialSuccess"]
    assert told["rejectedSpans"] == "1"
    assert set(sender.stored()) == {span_id(2).hex()}


def test_a_number_of_any_length_is_a_number(sender: OtlpSender) -> None:
    """Beyond 64 bits it is kept as text, and flagged."""
    document = as_json(traces(span(1)))
    spans_of(document)[0]["attributes"] = [
        {"key": "whole", "value": {"intValue": 10**30}},
        {"key": "text", "value": {"intValue": str(10**25)}},
        {"key": "real", "value": {"doubleValue": 10**30}},
    ]
    assert sender.send("traces", document, JSON).success("traces") == {}
    kept = sender.one(1)
    assert kept.data["span"]["attributes"] == {"whole": str(10**30), "text": str(10**25), "real": 1e30}
    assert kept.repairs == ["big_integer"]


@pytest.mark.parametrize("name", ["attributes", "events", "links", "status", "name", "parentSpanId", "kind"])
def test_case_12_null_means_absent(sender: OtlpSender, name: str) -> None:
    """As protobuf's JSON has it."""
    document = as_json(traces(span(1)))
    spans_of(document)[0][name] = None
    document["resourceSpans"].append({"resource": None, "scopeSpans": None})
    assert sender.send("traces", document, JSON).success("traces") == {}
    assert len(sender.stored()) == 1


@BOTH
def test_case_02_nul_is_replaced_and_text_about_nul_is_not(sender: OtlpSender, media_type: str) -> None:
    """In every text and key of a span, and in the resource that goes another way."""
    nul = span(1, name="a\0b", attributes={"k\0": "v\0", "session.id": "s\0"}, trace_state="t\0")
    nul.status.message = "m\0"
    nul.events.append(event_of("e\0", {"x\0": "\0"}))
    talk = span(2, attributes={"text": "\\u0000 is a NUL"})
    request = traces(nul, talk, resource={"service.name": "s\0"})
    assert sender.send("traces", request, media_type).success("traces") == {}
    kept = sender.one(1)
    assert (kept.repairs, kept.task_id) == (["nul"], "s\ufffd")
    assert kept.data["span"]["attributes"]["k\ufffd"] == "v\ufffd"
    assert (sender.one(2).repairs, sender.one(2).data["span"]["attributes"]["text"]) == (None, "\\u0000 is a NUL")


@BOTH
def test_case_06_nul_in_a_stack_trace(sender: OtlpSender, media_type: str) -> None:
    """On PostgreSQL, where it matters: stored and cleaned."""
    failed = span(1, attributes={"openinference.span.kind": "TOOL"}, status={"code": 2, "message": "broke"})
    failed.events.append(event_of("exception", {"exception.type": "E\0", "exception.stacktrace": "line\0line"}))
    assert sender.send("traces", traces(failed), media_type).success("traces") == {}
    kept = sender.one(1)
    assert (kept.type, kept.data["error_class"]) == ("tool.failed", "E\ufffd")
    assert kept.data["span"]["events"][0]["attributes"]["exception.stacktrace"] == "line\ufffdline"


def test_case_07_half_a_surrogate_pair_in_json(sender: OtlpSender) -> None:
    """In a value, a key and a name; both halves apart become the one character they mean."""
    document = as_json(traces(span(1), span(2)))
    spans_of(document)[0] |= {
        "name": "\ud83d",
        "attributes": [
            {"key": "k\udc00", "value": {"stringValue": "x\ud83d"}},
            {"key": "whole", "value": {"stringValue": "😀"}},
        ],
    }
    assert sender.send("traces", document, JSON).success("traces") == {}
    kept = sender.one(1)
    assert (kept.repairs, kept.data["span"]["name"]) == (["surrogate"], "\ufffd")
    assert kept.data["span"]["attributes"] == {"k\ufffd": "x\ufffd", "whole": "😀"}


@pytest.mark.parametrize("where", ["name", "attribute", "key", "status", "event", "resource"])
def test_case_07_bytes_that_are_no_utf_8_cost_no_batch(sender: OtlpSender, where: str) -> None:
    """The strict decoder refuses the whole body for one byte; read again, that text alone is repaired."""
    mark = "POISON-HERE"
    texts = {name: mark if where == name else "fine" for name in ("name", "attribute", "key", "status", "event")}
    poisoned = span(2, name=texts["name"], attributes={texts["key"]: texts["attribute"]})
    poisoned.status.message = texts["status"]
    poisoned.events.append(event_of(texts["event"], {}))
    request = traces(span(1), poisoned, span(3), resource={"service.name": mark if where == "resource" else "shop"})
    body = request.SerializeToString().replace(mark.encode(), b"POISON\xff\xfeERE")
    with pytest.raises(protobuf_reader.DecodeError):
        protobuf_reader.parse_traces(body)
    assert sender.send("traces", body).success("traces") == {}
    assert len(sender.stored()) == 3
    assert sender.one(1).repairs == (["surrogate"] if where == "resource" else None)
    if where != "resource":
        assert sender.one(2).repairs == ["surrogate"]
        assert "POISON\ufffd\ufffdERE" in json.dumps(sender.one(2).data, ensure_ascii=False)


def test_a_span_read_again_is_the_same_event(sender: OtlpSender) -> None:
    """Sent beside a poisoned span or without it: the same bytes, so a duplicate and no conflict."""
    clean = span(1, 5, attributes={"a": [1, {"b": b"c"}], "llm.model_name": "m", "openinference.span.kind": "LLM"})
    body = traces(clean, span(2, name="POISON")).SerializeToString().replace(b"POISON", b"P\xff\xff\xff\xffN")
    assert sender.send("traces", body).success("traces") == {}
    first = sender.one(1).data
    assert sender.traces(clean) == {}
    assert (Run.objects.get().n_conflicts, sender.one(1).data) == (0, first)


def test_a_broken_span_costs_itself_only(sender: OtlpSender) -> None:
    """Cut off in the middle, between two whole ones."""
    broken = span(2, attributes={"a": "text"}).SerializeToString()[:-4]
    body = request_of(span(1).SerializeToString(), broken, span(3).SerializeToString())
    told = sender.send("traces", body).success("traces")["partialSuccess"]
    assert (told["rejectedSpans"], "[1] the record is broken" in told["errorMessage"]) == ("1", True)
    assert set(sender.stored()) == {span_id(1).hex(), span_id(3).hex()}


def test_a_broken_log_record_costs_itself_only(sender: OtlpSender) -> None:
    """A byte that is no UTF-8 in one body leaves the other alone."""
    body = logs(record("one"), record("POISON")).SerializeToString().replace(b"POISON", b"POIS\xffN")
    assert sender.send("logs", body).success("logs") == {}
    kept = {event.data["body"]: event.repairs for event in sender.stored().values()}
    assert kept == {"one": None, "POIS\ufffdN": ["surrogate"]}


@pytest.mark.parametrize("word", ["NaN", "Infinity", "-Infinity"])
def test_case_09_bare_numbers_that_are_no_json(sender: OtlpSender, word: str) -> None:
    """At depth 0 a 400 with its place; inside a value null and a flag; never a 500."""
    assert sender.send("traces", word.encode(), JSON).status == 400
    assert not Event.objects.exists()
    document = as_json(traces(span(1), span(2), span(3)))
    spans_of(document)[0]["attributes"] = [
        {"key": "deep", "value": {"arrayValue": {"values": [{"arrayValue": {"values": [{"doubleValue": "HERE"}]}}]}}}
    ]
    spans_of(document)[1]["startTimeUnixNano"] = "HERE"
    body = json.dumps(document).replace('"HERE"', word).encode()
    told = sender.send("traces", body, JSON).success("traces")["partialSuccess"]
    assert (told["rejectedSpans"], "[1] startTimeUnixNano" in told["errorMessage"]) == ("1", True)
    assert sender.one(1).repairs == ["non_finite"]
    assert sender.one(1).data["span"]["attributes"] == {"deep": [[None]]}


def test_case_09_protobuf_doubles(sender: OtlpSender) -> None:
    """NaN of any bits and infinity become null, the smallest number stays."""
    values = [float("nan"), float("inf"), struct.unpack("d", b"\xff" * 8)[0], 5e-324]
    assert sender.traces(span(1, attributes={"v": values})) == {}
    assert sender.one(1).repairs == ["non_finite"]
    assert sender.one(1).data["span"]["attributes"]["v"] == [None, None, None, 5e-324]


@BOTH
def test_case_14_huge_list_indexes_stay_flat(sender: OtlpSender, media_type: str) -> None:
    """The index in a key is no size: known ones are read in order, unbelievable ones stay attributes."""
    keys = [
        "llm.input_messages.999999999.message.role",
        "llm.input_messages.99999.message.content",
        "llm.input_messages.-1.message.role",
        "llm.input_messages.01.message.role",
        "llm.input_messages.٣.message.role",
        "llm.input_messages.0.message.tool_calls.999999999.tool_call.function.name",
        "llm.input_messages.0.0.0.0.0.999999",
        "retrieval.documents.999999999.document.id",
    ]
    attributes = {"openinference.span.kind": "LLM", **dict.fromkeys(keys, "x")}
    attributes |= {"llm.input_messages.7.message.content": "second", "llm.input_messages.3.message.content": "first"}
    assert sender.send("traces", traces(span(1, attributes=attributes)), media_type).success("traces") == {}
    kept = sender.one(1)
    assert kept.data["n_messages"] == 2
    assert set(keys) <= kept.data["span"]["attributes"].keys()


@BOTH
def test_case_15_odd_keys_are_only_keys(sender: OtlpSender, media_type: str) -> None:
    """Whatever kind the span is, the keys are kept as keys."""
    odd = dict.fromkeys(("__class__", "__proto__.x", "", ".", "a..b", "constructor", "x" * 5000, "a.b", "a"), "v")
    for kind in ("TOOL", "LLM", "AGENT", "RETRIEVER", "RERANKER"):
        number = len(sender.stored()) + 1
        attributes = {**odd, "openinference.span.kind": kind}
        assert sender.send("traces", traces(span(number, attributes=attributes)), media_type).success("traces") == {}
        kept = sender.one(number)
        assert kept.repairs == ["long_key"]
        assert odd.keys() - kept.data["span"]["attributes"].keys() == {"x" * 5_000}


@BOTH
@pytest.mark.parametrize("turned", [False, True])
def test_case_15_input_and_input_value_have_one_winner(sender: OtlpSender, media_type: str, turned: bool) -> None:
    """Whatever the order, the full name wins and the short one stays an attribute."""
    both = [("input", "short"), ("input.value", "full"), ("openinference.span.kind", "TOOL")]
    attributes = dict(reversed(both) if turned else both)
    assert sender.send("traces", traces(span(1, 9, attributes=attributes)), media_type).success("traces") == {}
    kept = sender.one(1)
    assert (kept.data["arguments"], kept.data["span"]["attributes"]["input"]) == ("full", "short")


@BOTH
def test_repeated_keys_lose_no_value(sender: OtlpSender, media_type: str) -> None:
    """The second value stands under a numbered key, and the event is flagged."""
    sent = span(1, attributes={"a": 1})
    sent.attributes.append(sent.attributes[0])
    sent.attributes[1].value.int_value = 2
    assert sender.send("traces", traces(sent), media_type).success("traces") == {}
    assert sender.one(1).data["span"]["attributes"] == {"a": 1, "a#1": 2}
    assert sender.one(1).repairs == ["key_collision"]


@BOTH
def test_too_many_attributes_are_refused_with_the_limit(sender: OtlpSender, media_type: str) -> None:
    """The limit is in the reason, and the span beside it is stored."""
    crowded = span(2, attributes={f"k{number}": number for number in range(4_097)})
    told = sender.send("traces", traces(span(1), crowded), media_type).success("traces")["partialSuccess"]
    assert "[1] attributes are 4097; the limit is 4096" in told["errorMessage"]
    assert len(sender.stored()) == 1


def test_case_05_answers_and_rejects_hold_no_payload(sender: OtlpSender, caplog: pytest.LogCaptureFixture) -> None:
    """Neither answer, rejects nor log repeat what was sent."""
    document = as_json(traces(span(1), span(2)))
    spans_of(document)[0] |= {"kind": "sesame-open", "attributes": {"sesame-open": "sesame-open"}}
    answer = sender.send("traces", document, JSON)
    assert b"sesame" not in answer.content
    assert "sesame" not in "".join(Reject.objects.values_list("detail", flat=True))
    assert "sesame" not in caplog.text


SECRETS = ("ghp_" + "Ab1" * 12, "CUST-77123-X")  # a known format, and one that only the project knows


@BOTH
@pytest.mark.parametrize("secret", SECRETS)
def test_secrets_are_redacted_wherever_they_stand(sender: OtlpSender, media_type: str, secret: str) -> None:
    """Resource, scope, names, links, events, messages, documents and ids: no secret reaches a row or the store."""
    sender.project.redaction_patterns = [{"kind": "customer", "pattern": r"CUST-\d+-X"}]
    sender.project.save()
    kinds = ("LLM", "TOOL", "AGENT", "RETRIEVER", "RERANKER", "EMBEDDING")
    attributes = {
        "llm.input_messages.0.message.content": f"a {secret}", "llm.output_messages.0.message.content": f"b {secret}",
        "input.value": f"c {secret}", "output.value": f"d {secret}", "session.id": secret, "tool.name": secret,
        "k": secret,
        "retrieval.documents.0.document.content": f"e {secret}", "reranker.query": f"f {secret}",
        "list": [{"k": secret}],
    }  # fmt: skip
    spans = []
    for number, kind in enumerate(kinds, 1):
        sent = span(number, attributes={**attributes, "openinference.span.kind": kind}, name=f"call {secret}")
        sent.status.code, sent.status.message, sent.trace_state = 2, f"no {secret}", f"v={secret}"
        sent.events.append(event_of(f"saw {secret}", {"exception.message": f"g {secret}"}))
        sent.links.add(trace_id=b"\2" * 16, span_id=b"\3" * 8).attributes.extend(pairs({"why": f"h {secret}"}))
        spans.append(sent)
    request = traces(*spans, resource={"token": f"i {secret}"}, schema_url=f"https://x/{secret}")
    request.resource_spans[0].scope_spans[0].scope.name = f"scope {secret}"
    request.resource_spans[0].scope_spans[0].scope.attributes.extend(pairs({"k": f"j {secret}"}))
    assert sender.send("traces", request, media_type).success("traces") == {}
    written = logs(record(f"k {secret}", attributes={"k": secret}, severity_text=secret), resource={"k": f"l {secret}"})
    assert sender.send("logs", written, media_type).success("logs") == {}
    rows = list(Event.objects.values_list("event_id", "task_id", "tool", "data", "repairs"))
    assert len(rows) == len(kinds) + 1
    assert all("redacted" in row[4] for row in rows)
    assert secret not in repr(rows)
    assert not sender.messages_with(secret)
    assert len(sender.messages_with("resource")) == 2


def test_repairs_of_a_resource_are_told_once(sender: OtlpSender) -> None:
    """By the first event under it, so that one bad resource is not a thousand repairs."""
    assert sender.send("traces", traces(span(1), span(2), resource={"k": "\0"})).success("traces") == {}
    assert (sender.one(1).repairs, sender.one(2).repairs) == (["nul"], None)


def test_one_span_of_a_wrong_wire_type_costs_no_other(sender: OtlpSender) -> None:
    """Only a request without one readable span is taken for one of the other signal."""
    broken = b"\x09" + b"12345678" + b"\x12\x08" + b"12345678"
    good = [span(number).SerializeToString() for number in (1, 2)]
    answer = sender.send("traces", request_of(*good, broken))
    assert answer.status == 200
    assert int(answer.success("traces")["partialSuccess"]["rejectedSpans"]) == 1
    assert len(sender.stored()) == 2


def test_an_empty_record_beside_a_poisoned_one_costs_no_other(sender: OtlpSender) -> None:
    """Read a second time as well, only a request without one readable span is taken for one of the other signal."""
    poisoned = span(2, name="POISON").SerializeToString().replace(b"POISON", b"POIS\xffN")
    answer = sender.send("traces", request_of(span(1).SerializeToString(), poisoned, b""))
    assert int(answer.success("traces")["partialSuccess"]["rejectedSpans"]) == 1
    assert len(sender.stored()) == 2


@BOTH
@pytest.mark.parametrize("before", [3_940, 3_960, 3_975, 4_000])
def test_a_secret_across_the_cut_of_a_document_leaves_no_half(sender: OtlpSender, media_type: str, before: int) -> None:
    """Nothing would know its first half for a secret; one that is whole goes as anywhere, and is flagged."""
    text = "a" * (before - 1) + " " + SECRETS[0] + " b" * 300
    named = {"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.content": text}
    sender.send("traces", traces(span(1, attributes=named), span(2, attributes={**named, "k": SECRETS[0]})), media_type)
    assert SECRETS[0][:8] not in json.dumps(sender.one(1).data)
    assert sender.one(2).repairs == ["redacted"]


@BOTH
def test_a_secret_sent_as_bytes_is_redacted(sender: OtlpSender, media_type: str) -> None:
    """Base64 would hide it; bytes that are no text, and text without a secret, stay as they are."""
    sent = {"a": f"token {SECRETS[0]}".encode(), "b": b"\xff\x00", "c": b"plain"}
    assert sender.send("traces", traces(span(1, attributes=sent)), media_type).success("traces") == {}
    kept = {key: base64.b64decode(text) for key, text in sender.one(1).data["span"]["attributes"].items()}
    assert kept == {**sent, "a": b"token [REDACTED:github_token]"}
    assert sender.one(1).repairs == ["redacted"]


def test_lists_in_protobufs_own_spelling_are_not_passed_over(sender: OtlpSender) -> None:
    """OTLP/JSON ignores unknown keys; a sender that writes resource_spans would be told 200 and lose everything."""
    spans = as_json(traces(span(1)))["resourceSpans"][0]["scopeSpans"][0]["spans"]
    answer = sender.send("traces", {"resource_spans": [{"scope_spans": [{"spans": spans}]}]}, JSON)
    assert (answer.status, answer.problem()["reason"]) == (400, "BAD_SHAPE")
    told = sender.send(
        "traces", {"resourceSpans": [{"scope_spans": [{"spans": spans}]}, {"scopeSpans": [{"spans": None}]}]}, JSON
    )
    partial = told.success("traces")["partialSuccess"]
    assert (partial["rejectedSpans"], "scope_spans must be written scopeSpans" in partial["errorMessage"]) == (
        "1",
        True,
    )
    assert not Event.objects.exists()
