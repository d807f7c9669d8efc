"""Bodies nobody would write: whatever the bytes, an answer with a reason or events that can be stored. Pure."""

import json
from typing import Any

import orjson
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from ingest.envelope import EventDraft
from ingest.errors import IngestError
from ingest.otlp.intake import LOGS, TRACES, Signal, decode, make_drafts
from ingest.otlp.records import Refused
from ingest.wire import WireLimits
from tests.ingest.otlp.sending import START, as_json, event_of, logs, record, span, traces

LIMITS = WireLimits(8_388_608, 1_000, 262_144, 64, 512)
FULL = traces(
    span(1, attributes={"openinference.span.kind": "AGENT", "input.value": "hi", "m": {"a": [1, {"b": b"c"}]}}),
    span(2, 1, attributes={"gen_ai.operation.name": "chat", "gen_ai.input.messages": '[{"role":"user","parts":[]}]'}),
    span(3, 1, attributes={"openinference.span.kind": "TOOL", "tool.name": "shell", "n": 1.5, "yes": True}),
    span(4, 1, attributes={"openinference.span.kind": "RETRIEVER", "retrieval.documents.0.document.id": "d"}),
)
FULL.resource_spans[0].scope_spans[0].spans[1].events.append(event_of("gen_ai.choice", {"message": "{}"}))
RECORDS = logs(record("text"), record({"k": ["v", None]}, attributes={"temporality.type": "thinking"}))
BODIES = {TRACES: FULL.SerializeToString(), LOGS: RECORDS.SerializeToString()}
MANY = settings(max_examples=300, deadline=None, suppress_health_check=[HealthCheck.too_slow])
SIGNALS = st.sampled_from([TRACES, LOGS])

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=10), inner, max_size=4),
    max_leaves=12,
)
attribute_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=20)
    | st.binary(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=8,
)
KEYS = (
    "openinference.span.kind", "gen_ai.operation.name", "traceloop.span.kind", "mcp.method.name", "llm.request.type",
    "input.value", "output.value", "input.mime_type", "session.id", "agent.name", "tool.name", "tool_call.id",
    "error.type",
    "gen_ai.input.messages", "gen_ai.output.messages", "gen_ai.system_instructions", "gen_ai.response.finish_reasons",
    "llm.input_messages.0.message.content", "llm.input_messages.0.message.role", "gen_ai.prompt.0.content",
    "llm.input_messages.0.message.tool_calls.0.tool_call.function.arguments", "llm.token_count.prompt",
    "llm.output_messages.1.message.contents.0.message_content.text", "gen_ai.completion.0.finish_reason",
    "retrieval.documents.0.document.content", "retrieval.documents.0.document.metadata", "gen_ai.retrieval.documents",
    "reranker.input_documents.0.document.score", "exception.type",
)  # fmt: skip
KIND_WORDS = ("LLM", "TOOL", "AGENT", "RETRIEVER", "RERANKER", "chat", "execute_tool", "workflow", "tools/call")


def received(signal: Signal, body: bytes, as_json: bool) -> tuple[list[EventDraft], list[Refused]] | str:
    """Return what would be stored and what is refused, or the code of a refusal of the whole."""
    try:
        found = make_drafts(signal, decode(signal, body, as_json), START, LIMITS)
    except IngestError as error:
        assert error.status in (400, 413)
        return error.code
    for draft in found[0]:
        for column in draft.columns:
            if isinstance(column, str):
                assert "\0" not in column and column.encode()
        orjson.loads(draft.columns[-2])
    return found


@MANY
@given(SIGNALS, st.binary(max_size=300))
def test_any_bytes(signal: Signal, body: bytes) -> None:
    """Noise is refused or holds nothing; in neither encoding is it an error of ours."""
    for as_json_sent in (False, True):
        received(signal, body, as_json_sent)


@MANY
@given(SIGNALS, st.data())
def test_protobuf_with_bytes_changed(signal: Signal, data: st.DataObject) -> None:
    """A few bytes of a whole request are replaced, dropped or doubled, wherever they stand."""
    body = bytearray(BODIES[signal])
    for _ in range(data.draw(st.integers(1, 4))):
        place = data.draw(st.integers(0, len(body) - 1))
        body[place : place + data.draw(st.integers(0, 3))] = data.draw(st.binary(max_size=3))
    received(signal, bytes(body), False)


@MANY
@given(SIGNALS, st.data(), json_values)
def test_json_with_a_part_replaced(signal: Signal, data: st.DataObject, value: Any) -> None:
    """Any part of a whole request is replaced by any JSON value."""
    holder: Any = as_json(FULL if signal is TRACES else RECORDS)
    document = holder
    while True:
        places = list(holder) if isinstance(holder, dict) else list(range(len(holder)))
        place = data.draw(st.sampled_from(places))
        inner = holder[place]
        if not isinstance(inner, dict | list) or not inner or data.draw(st.integers(0, 5)) == 0:
            holder[place] = value
            break
        holder = inner
    received(signal, json.dumps(document).encode(), True)


@MANY
@given(
    st.dictionaries(
        st.sampled_from(KEYS) | st.text(max_size=12), attribute_values | st.sampled_from(KIND_WORDS), max_size=10
    ),
    st.sampled_from(KIND_WORDS),
    st.integers(0, 2**64 - 1),
    st.integers(0, 2**64 - 1),
)
def test_any_attributes_are_stored(attributes: dict[str, Any], kind: str, start: int, end: int) -> None:
    """Whatever stands under the names we know, the span is stored and never refused, the same in both encodings."""
    given_attributes = {**attributes, "openinference.span.kind": kind}
    sent = span(1, attributes=given_attributes, start_time_unix_nano=start, end_time_unix_nano=end)
    sent.events.append(event_of("exception", attributes))
    request = traces(sent)
    by_protobuf = received(TRACES, request.SerializeToString(), False)
    by_json = received(TRACES, json.dumps(as_json(request)).encode(), True)
    assert not isinstance(by_protobuf, str) and not isinstance(by_json, str)
    assert (len(by_protobuf[0]), by_protobuf[1]) == (1, [])
    assert by_protobuf[0][0].columns[:-1] == by_json[0][0].columns[:-1]
