"""Decides which event each span of an OTLP request becomes. Pure, but for the log of a fault of ours.

One ended span is one event under its span id; a span that has not ended is another, so that the finished copy finds
its place free. What a mapped field does not hold stays beside it in `data.span`. (Seed 001 §7.3, §13.)
"""

from collections.abc import Callable, Iterable
from typing import Any, Final

from contract.events import ID_LIMIT
from contract.integers import INT64_MAX
from contract.redaction_rules import ExtraRules
from ingest.envelope import SentEvent
from ingest.errors import refusal_of
from ingest.otlp import semconv
from ingest.otlp.documents import take_documents, take_listed
from ingest.otlp.messages import Message, note_finish, read_messages, take_messages, take_raw_request
from ingest.otlp.origins import Origins, ToldOrigin
from ingest.otlp.own_attributes import NO_IDS, run_id_of, take_own
from ingest.otlp.records import SPAN_KINDS, STATUSES, Refused, SentSpan
from ingest.otlp.semconv import RUN_KINDS, Taking, kind_of
from ingest.repair import Repairs
from ingest.times import LONGEST_NS

SEARCHED_BY_THE_AGENT: Final = "agent.search"  # a search of the application's own: nobody said what caused it
UNNAMED_SEARCH: Final = "external"  # in place of an algorithm's version when the scope has no name
_SERVER: Final = 2
_UNSET, _OK, _ERROR = range(3)
_YEAR_2000_NS: Final = 946_684_800 * 1_000_000_000

Mapper = Callable[[SentSpan, Taking, dict[str, "str | None"], str], str]


def map_spans(spans: Iterable[SentSpan], extra: ExtraRules | None = None) -> tuple[list[SentEvent], list[Refused]]:
    """Return the events of the spans, and those spans that our own attributes make no event.

    `extra` are the project's own patterns of secrets, for the resources, which are stored beside the events.
    """
    origins = Origins(extra)
    events: list[SentEvent] = []
    refused: list[Refused] = []
    for span in spans:
        try:
            events.append(_map_span(span, origins))
        except Exception as error:  # noqa: BLE001 - one event that meets a fault of ours costs no other
            refusal = refusal_of(error)
            refused.append(Refused(span.index, refusal.code, refusal.detail, span.span_id, span.trace_id))
    return events, refused


def _map_span(span: SentSpan, origins: Origins) -> SentEvent:
    attributes = span.attributes
    state = _state(span)
    kind = kind_of(attributes, span.kind == _SERVER)
    taking = Taking(attributes)
    ids = dict(NO_IDS)
    own = take_own(attributes, ids)
    given = {name: text for name, text in ids.items() if text} if own else {}
    ids["event_id"] = span.span_id if state != "open" else f"{span.span_id}:open"
    ids["run_id"] = run_id_of(span.origin.resource) or span.trace_id
    ids["caused_by"] = span.parent_id
    if ids["task_id"] is None:
        ids["task_id"] = taking.identity("task_id", semconv.TASK_ID)
    if ids["actor_id"] is None:
        ids["actor_id"] = taking.identity("actor_id", semconv.AGENT)
    integers: tuple[int | None, int | None] = (None, None)
    if own is not None:
        integers = own[1][0], own[1][1]
    if "type" in given:
        data = own[0] if own is not None else {}
    else:
        ids["type"] = _MAPPERS.get(kind, _other)(span, taking, ids, state)
        data = taking.data if own is None else {**taking.data, **own[0]}
    if given:
        ids.update(given)
    told = origins.told(span.origin)
    data["span"] = _span(span, kind, taking, told)
    repairs = Repairs()
    for word in span.words:
        repairs.add(word)
    while told.words:
        repairs.add(told.words.pop(0))
    return SentEvent(
        span.index,
        ids,
        integers,
        _clamped(span.start_ns, "start_time_unix_nano", data["span"], repairs),
        None if state == "open" else _clamped(span.end_ns, "end_time_unix_nano", data["span"], repairs),
        data,
        span.digest,
        repairs,
        told.messages,
    )


def _state(span: SentSpan) -> str:
    """Return open, completed or failed. GenAI spans may name an error's type and leave the status unset."""
    if span.end_ns == 0:
        return "open"
    if span.status == _ERROR or (span.status == _UNSET and "error.type" in span.attributes):
        return "failed"
    return "completed"


def _span(span: SentSpan, kind: str, taking: Taking, origin: ToldOrigin) -> dict[str, Any]:
    told: dict[str, Any] = {
        "name": span.name,
        "kind": kind,
        "span_kind": SPAN_KINDS[span.kind],
        "trace_id": span.trace_id,
        "status": STATUSES[span.status],
        "attributes": taking.attributes,
        "moved": taking.moved,
        "scope": origin.scope,
        "resource": origin.resource_hash,
    }
    if span.status_message:
        told["status_message"] = span.status_message
    if span.events:
        told["events"] = span.events
    if span.links:
        told["links"] = span.links
    if span.origin.schema_url:
        told["schema_url"] = span.origin.schema_url
    if span.trace_state:
        told["trace_state"] = span.trace_state
    return told | span.dropped if span.dropped else told


def _clamped(time_ns: int, name: str, told: dict[str, Any], repairs: Repairs) -> int:
    """Return the time as the column can hold it; one beyond it is kept as digits beside the event."""
    if time_ns <= INT64_MAX:
        return time_ns
    told[name] = str(time_ns)
    repairs.add("clock_far")
    return INT64_MAX


def _note_duration(span: SentSpan, data: dict[str, Any], state: str) -> None:
    """Add the duration when the clocks can be believed: a nonsense one would ruin every average it is in."""
    length = span.end_ns - span.start_ns
    if state != "open" and span.start_ns >= _YEAR_2000_NS and 0 <= length <= LONGEST_NS:
        data["duration_ms"] = length / 1_000_000


def _error(span: SentSpan, taking: Taking) -> tuple[str, str]:
    """Return (class, text) of what a failed span says about its error."""
    named = taking.attributes.get("error.type")
    raised: dict[str, Any] = {}
    for event in span.events:
        if event["name"] == "exception":
            raised = event["attributes"]
    error_class = named if named is not None else raised.get("exception.type")
    text = span.status_message or raised.get("exception.message") or ""
    return semconv.as_text(error_class or ""), semconv.as_text(text)


def _note_error(span: SentSpan, taking: Taking) -> None:
    error_class, text = _error(span, taking)
    taking.data["error"] = text or error_class
    if error_class:
        taking.data["error_class"] = error_class


def _run(span: SentSpan, taking: Taking, ids: dict[str, str | None], state: str) -> str:
    """An agent or a chain: the run itself when it has no parent."""
    data = taking.data
    taking.text("task", semconv.INPUT)
    taking.text("answer", semconv.OUTPUT)
    if "task" not in data:
        _copy_text(data, "task", read_messages(taking.attributes.get("gen_ai.input.messages"), "user"), "user")
    if "answer" not in data:
        sent = read_messages(taking.attributes.get("gen_ai.output.messages"), "assistant")
        _copy_text(data, "answer", sent, "assistant")
    if ids["actor_id"]:
        data["agent"] = ids["actor_id"]
    taking.text("model", semconv.MODEL)
    if span.parent_id is not None:
        return _other(span, taking, ids, state)
    if state == "failed":
        _note_error(span, taking)
    return {"open": "run.started", "failed": "run.failed"}.get(state, "run.completed")


def _copy_text(data: dict[str, Any], name: str, messages: list[Message], role: str) -> None:
    texts = [message["text"] for message in messages if message["role"] == role and message["text"]]
    if texts:
        data[name] = texts[-1]


def _model(span: SentSpan, taking: Taking, ids: dict[str, str | None], state: str) -> str:
    data = taking.data
    taking.text("model", semconv.MODEL)
    taking.text("provider", semconv.PROVIDER)
    taking.number("input_tokens", semconv.INPUT_TOKENS)
    taking.number("output_tokens", semconv.OUTPUT_TOKENS)
    taking.number("cached_tokens", semconv.CACHED_TOKENS)
    taking.number("reasoning_tokens", semconv.REASONING_TOKENS)
    sent, answered = take_messages(taking, span.events)
    note_finish(taking, answered)
    mime = taking.attributes.get("input.mime_type")
    if sent:
        taking.repeated("new_messages", "input.value", sent[-1]["text"])
        take_raw_request(taking, sent)
    elif mime != "application/json":
        text = taking.text("new_messages", semconv.INPUT)
        sent = [{"role": "user", "text": text}] if text else []
    if not answered:
        taking.text("text", semconv.OUTPUT)
    else:
        data["text"] = "\n".join(message["text"] for message in answered if message["text"])
        taking.repeated("text", "output.value", data["text"])
        calls = [call for message in answered for call in message.get("calls", ())]
        if calls:
            data["calls"] = calls
            data["n_calls"] = len(calls)
        parts = [part for message in answered for part in message.get("parts", ())]
        if parts:
            data["parts"] = parts
    data["n_kept"] = 0
    data["n_messages"] = len(sent)
    data["new_messages"] = sent
    _note_duration(span, data, state)
    if state == "failed":
        _note_error(span, taking)
    return {"open": "model.requested", "failed": "model.failed"}.get(state, "model.completed")


def _tool(span: SentSpan, taking: Taking, ids: dict[str, str | None], state: str) -> str:
    data = taking.data
    ids["tool"] = taking.identity("tool", semconv.TOOL) or _tool_named_by(span, taking)
    ids["call_id"] = taking.identity("call_id", semconv.CALL_ID) or span.span_id
    if "mcp.method.name" in taking.attributes:
        ids["mcp_server"] = taking.identity("mcp_server", semconv.MCP_SERVER)
    taking.repeated("arguments", "tool.parameters", taking.text("arguments", semconv.ARGUMENTS))
    if state == "open":
        return "tool.requested"
    taking.text("result", semconv.RESULT)
    _note_duration(span, data, state)
    if state == "completed":
        return "tool.completed"
    error_class, text = _error(span, taking)
    if error_class:
        data["error_class"] = error_class
    data["detail"] = text or data.get("result") or error_class
    return "tool.failed"


def _tool_named_by(span: SentSpan, taking: Taking) -> str | None:
    named = taking.attributes.get("traceloop.entity.name")
    text = named if isinstance(named, str) else span.name
    text = text.removeprefix("execute_tool ").removeprefix("tools/call ").removesuffix(".tool")
    return text if 0 < len(text) <= ID_LIMIT else None


def _retriever(span: SentSpan, taking: Taking, ids: dict[str, str | None], state: str) -> str:
    data = taking.data
    ids["activation_id"] = span.span_id
    data["trigger"] = SEARCHED_BY_THE_AGENT
    scope = f"{span.origin.scope_name} {span.origin.scope_version}".strip()
    data["algorithm_version"] = scope or UNNAMED_SEARCH
    taking.text("query", semconv.QUERY)
    documents = take_documents(taking, "retrieval.documents", "documents") or take_listed(taking, "documents")
    data["documents"] = documents
    data["n_retrieved"] = len(documents)
    _note_duration(span, data, state)
    if state == "failed":
        data["result"] = "error"
        data["error"] = " ".join(part for part in _error(span, taking) if part)
    elif state == "completed":
        data["result"] = "success" if documents else "empty"
    return "hint.query"


def _reranker(span: SentSpan, taking: Taking, ids: dict[str, str | None], state: str) -> str:
    taking.text("query", semconv.RERANK_QUERY)
    taking.data["input_documents"] = take_documents(taking, "reranker.input_documents", "input_documents")
    taking.data["output_documents"] = take_documents(taking, "reranker.output_documents", "output_documents")
    return _other(span, taking, ids, state)


def _other(span: SentSpan, taking: Taking, ids: dict[str, str | None], state: str) -> str:
    _note_duration(span, taking.data, state)
    if state == "failed":
        _note_error(span, taking)
    return "span"


_MAPPERS: Final[dict[str, Mapper]] = {
    **dict.fromkeys(RUN_KINDS, _run),
    "model": _model,
    "tool": _tool,
    "retriever": _retriever,
    "reranker": _reranker,
}
