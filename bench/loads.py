"""Decides what a measured load consists of: request bodies of agent spans (OTLP) and of native events. Pure.

The same arguments give the same bytes. A run has an agent span, model and tool calls in turn and a search now and
then; its spans come in the order they end, as an exporter sends them, and a run goes on in the connection's next
request.
"""

import gzip
import json
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import count, islice
from random import Random
from typing import Any

from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue, KeyValue
from opentelemetry.proto.trace.v1.trace_pb2 import ResourceSpans, Span, Status

Attributes = dict[str, Any]
MILLISECOND = 1_000_000
STEPS = (
    "retriever",
    *("model", "tool") * 3,
    "retriever",
    *("model", "tool") * 4,
    "retriever",
    "model",
    "tool",
    "model",
)
SPANS_A_RUN = len(STEPS) + 1
SENTENCE = (
    "the ticket was opened by a customer in Łódź who could not restore an archived branch after the last upgrade of "
    "its build server; logs say permission denied, retry later, or 接続 refused: compare both manifests, read notes on "
    "rollback, then propose one smallest change and wait for its tests"
)


@dataclass(frozen=True, slots=True)
class Body:
    """One request: its bytes and how many spans or events it carries."""

    content: bytes
    n_items: int


class Words:
    """Text of a wanted length from a fixed vocabulary; drawn once in long pieces, then cut, so building stays cheap."""

    def __init__(self, chance: Random) -> None:
        self._chance = chance
        vocabulary = SENTENCE.split()
        self._text = " ".join(chance.choice(vocabulary) for _ in range(20_000))

    def __call__(self, length: int) -> str:
        start = self._chance.randrange(len(self._text) - length)
        return self._text[start : start + length]


def span_bodies(n_spans: int, n_connections: int, *, per_request: int = 512, dialect: str = "openinference",
                seed: str = "1", base_ns: int = 0, zipped: bool = False) -> list[list[Body]]:  # fmt: skip
    """Return the requests of each connection: `n_spans` in all. `dialect` is openinference or genai."""

    def bodies(connection: int, share: int) -> list[Body]:
        spans = islice(_endless_spans(Random(f"{seed}/{connection}"), ATTRIBUTES[dialect], base_ns), share)
        return [_body(_request(part), len(part), zipped) for part in _parts(spans, per_request)]

    return [bodies(number, share) for number, share in enumerate(_shares(n_spans, n_connections))]


def event_bodies(n_events: int, n_connections: int, *, per_request: int = 1_000, events_a_run: int = 50,
                 seed: str = "1", base_ns: int = 0, zipped: bool = False) -> list[list[Body]]:  # fmt: skip
    """Return the requests of each connection: `n_events` native events in all, in runs of `events_a_run`."""

    def bodies(connection: int, share: int) -> list[Body]:
        chance = Random(f"{seed}/{connection}")
        words = Words(chance)
        events = (
            native_event(f"{seed}-{connection}-{number // events_a_run}", number % events_a_run, words, base_ns)
            for number in range(share)
        )
        return [
            _body(json.dumps({"events": part}, ensure_ascii=False).encode(), len(part), zipped)
            for part in _parts(events, per_request)
        ]

    return [bodies(number, share) for number, share in enumerate(_shares(n_events, n_connections))]


def native_event(run_id: str, number: int, words: Words, base_ns: int) -> dict[str, Any]:
    """Return one event as a kernel sends it: turns, tools that work, and now and then one that fails."""
    kind = ("turn.started", "tool.requested", "tool.completed", "tool.failed", "turn.completed")[number % 5]
    data: dict[str, Any] = {"note": words(120)}
    if kind == "tool.requested":
        data = {"arguments": json.dumps({"command": words(160), "timeout_s": 30}, ensure_ascii=False)}
    elif kind == "tool.completed":
        data = {"result": words(320), "duration_ms": 41 + number}
    elif kind == "tool.failed":
        data = {"error_class": "exit_nonzero", "effect": "uncertain", "detail": words(240), "duration_ms": 7}
    event: dict[str, Any] = {
        "event_id": f"{run_id}:{number}",
        "run_id": run_id,
        "type": kind,
        "occurred_at_unix_nano": base_ns + number * MILLISECOND,
        "seq": number,
        "turn": number // 5,
        "task_id": f"task-{run_id}",
        "actor_id": "agent",
        "data": data,
    }
    if number:
        event["caused_by"] = f"{run_id}:{number - 1}"
    if kind.startswith("tool."):
        event |= {"call_id": f"call-{number // 5}", "tool": "shell"}
    return event


def _shares(total: int, n_parts: int) -> list[int]:
    return [total // n_parts + (number < total % n_parts) for number in range(n_parts)]


def _parts(items: Iterator[Any], size: int) -> Iterator[list[Any]]:
    while part := list(islice(items, size)):
        yield part


def _body(content: bytes, n_items: int, zipped: bool) -> Body:
    return Body(gzip.compress(content, 6) if zipped else content, n_items)


def _request(spans: Sequence[Span]) -> bytes:
    whole = ResourceSpans()
    for key, value in (("service.name", "support-desk"), ("service.version", "4.2.0"), ("host.name", "worker-7")):
        whole.resource.attributes.append(KeyValue(key=key, value=AnyValue(string_value=value)))
    scope = whole.scope_spans.add()
    scope.scope.name, scope.scope.version = "bench.agent", "1"
    scope.spans.extend(spans)
    content: bytes = ExportTraceServiceRequest(resource_spans=[whole]).SerializeToString()
    return content


def _endless_spans(chance: Random, attributes: "Callable[..., Attributes]", base_ns: int) -> Iterator[Span]:
    """Yield the spans of run after run, in the order they end: the agent's own span comes last."""
    words = Words(chance)
    for number in count():
        trace_id, root_id = chance.randbytes(16), chance.randbytes(8)
        start = end = base_ns + number * 20 * MILLISECOND
        for kind in STEPS:
            span = Span(trace_id=trace_id, span_id=chance.randbytes(8), parent_span_id=root_id)
            begin, end = end, end + chance.randrange(1, 400) * MILLISECOND
            yield _filled(span, kind, begin, end, attributes(kind, number, words, chance))
        agent = Span(trace_id=trace_id, span_id=root_id)
        yield _filled(agent, "agent", start, end + MILLISECOND, attributes("agent", number, words, chance))


def _filled(span: Span, kind: str, begin: int, end: int, attributes: Attributes) -> Span:
    span.name = NAMES[kind]
    span.kind = Span.SPAN_KIND_CLIENT if kind == "model" else Span.SPAN_KIND_INTERNAL
    span.start_time_unix_nano, span.end_time_unix_nano = begin, end
    failed = kind == "tool" and begin // MILLISECOND % 40 == 0
    span.status.code = Status.STATUS_CODE_ERROR if failed else Status.STATUS_CODE_OK
    if failed:
        span.status.message = "ConnectionError: the service did not answer"
        event = span.events.add(name="exception", time_unix_nano=end)
        _put(event.attributes, {"exception.type": "ConnectionError", "exception.message": "the service did not answer"})
    _put(span.attributes, attributes)
    return span


def _put(target: Any, attributes: Attributes) -> None:
    for key, value in attributes.items():
        target.add(key=key, value=_any_value(value))


def _any_value(value: Any) -> AnyValue:
    if isinstance(value, bool):
        return AnyValue(bool_value=value)
    if isinstance(value, int):
        return AnyValue(int_value=value)
    if isinstance(value, float):
        return AnyValue(double_value=value)
    if isinstance(value, list):
        whole = AnyValue()
        whole.array_value.values.extend(_any_value(part) for part in value)
        return whole
    return AnyValue(string_value=value)


def _openinference(kind: str, number: int, words: Words, chance: Random) -> Attributes:
    attributes: Attributes = {"session.id": f"talk-{number // 4}", "user.id": f"person-{number % 50}"}
    if kind == "model":
        asked, answered, prompt, written = words(380), words(420), chance.randrange(5_000), chance.randrange(900)
        attributes |= {
            "openinference.span.kind": "LLM",
            "llm.system": "openai",
            "llm.model_name": "gpt-4o-mini",
            "llm.invocation_parameters": '{"temperature": 0.1, "max_tokens": 900}',
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": "You answer support tickets.",
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.content": asked,
            "llm.output_messages.0.message.role": "assistant",
            "llm.output_messages.0.message.content": answered,
            "llm.token_count.prompt": prompt,
            "llm.token_count.completion": written,
            "llm.token_count.total": prompt + written,
            "input.mime_type": "text/plain",
        }
    elif kind == "tool":
        arguments = json.dumps({"text": words(380), "page": chance.randrange(9)}, ensure_ascii=False)
        attributes |= {
            "openinference.span.kind": "TOOL",
            "tool.name": "ticket_search",
            "tool.description": "Finds tickets by their text",
            "tool.parameters": '{"type": "object", "required": ["text"]}',
            "tool_call.id": f"call_{chance.getrandbits(48):012x}",
            "input.value": arguments,
            "input.mime_type": "application/json",
            "output.value": json.dumps({"tickets": [words(190), words(190)], "n": 2}, ensure_ascii=False),
            "output.mime_type": "application/json",
        }
    elif kind == "retriever":
        attributes |= {
            "openinference.span.kind": "RETRIEVER",
            "input.value": words(120),
            "input.mime_type": "text/plain",
        }
        for place in range(4):
            document = f"retrieval.documents.{place}.document"
            attributes[f"{document}.id"] = f"note-{chance.randrange(100_000)}"
            attributes[f"{document}.content"] = words(200)
            attributes[f"{document}.score"] = round(1 - place / 7 - chance.random() / 10, 3)
    else:
        attributes |= {
            "openinference.span.kind": "AGENT",
            "agent.name": "desk",
            "input.value": words(480),
            "output.value": words(520),
            "metadata": json.dumps({"queue": f"q{number % 6}", "build": "4.2.0"}),
            "tag.tags": ["bench", "support"],
        }
    return attributes


def _genai(kind: str, number: int, words: Words, chance: Random) -> Attributes:
    attributes: Attributes = {"gen_ai.conversation.id": f"talk-{number // 4}"}
    if kind == "model":
        asked = [
            {"role": "system", "parts": [{"type": "text", "content": "You answer support tickets."}]},
            {"role": "user", "parts": [{"type": "text", "content": words(380)}]},
        ]
        said = [{"role": "assistant", "parts": [{"type": "text", "content": words(420)}], "finish_reason": "stop"}]
        attributes |= {
            "gen_ai.operation.name": "chat",
            "gen_ai.provider.name": "openai",
            "gen_ai.request.model": "gpt-4o-mini",
            "gen_ai.response.model": "gpt-4o-mini-2024-07-18",
            "gen_ai.response.id": f"chatcmpl-{chance.getrandbits(48):012x}",
            "gen_ai.response.finish_reasons": ["stop"],
            "gen_ai.request.temperature": 0.1,
            "gen_ai.request.max_tokens": 900,
            "gen_ai.usage.input_tokens": chance.randrange(5_000),
            "gen_ai.usage.output_tokens": chance.randrange(900),
            "gen_ai.input.messages": json.dumps(asked, ensure_ascii=False),
            "gen_ai.output.messages": json.dumps(said, ensure_ascii=False),
        }
    elif kind == "tool":
        attributes |= {
            "gen_ai.operation.name": "execute_tool",
            "gen_ai.tool.name": "ticket_search",
            "gen_ai.tool.type": "function",
            "gen_ai.tool.call.id": f"call_{chance.getrandbits(48):012x}",
            "gen_ai.tool.call.arguments": json.dumps({"text": words(400)}, ensure_ascii=False),
            "gen_ai.tool.call.result": json.dumps({"tickets": [words(220), words(220)]}, ensure_ascii=False),
        }
    elif kind == "retriever":
        documents = [{"id": f"note-{chance.randrange(100_000)}", "content": words(200), "score": 0.5} for _ in range(4)]
        attributes |= {
            "gen_ai.operation.name": "retrieval",
            "gen_ai.data_source.id": "notes",
            "gen_ai.retrieval.query.text": words(120),
            "gen_ai.retrieval.documents": json.dumps(documents, ensure_ascii=False),
        }
    else:
        attributes |= {
            "gen_ai.operation.name": "invoke_agent",
            "gen_ai.agent.name": "desk",
            "gen_ai.provider.name": "openai",
            "gen_ai.input.messages": json.dumps([{"role": "user", "content": words(480)}], ensure_ascii=False),
            "gen_ai.output.messages": json.dumps([{"role": "assistant", "content": words(520)}], ensure_ascii=False),
        }
    return attributes


NAMES = {"agent": "invoke_agent desk", "model": "chat gpt-4o-mini", "tool": "execute_tool ticket_search",
         "retriever": "search notes"}  # fmt: skip
ATTRIBUTES: dict[str, Callable[..., Attributes]] = {"openinference": _openinference, "genai": _genai}
