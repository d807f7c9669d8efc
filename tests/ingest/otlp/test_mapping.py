"""Which event a foreign span becomes, and that nothing of it is lost on the way. Pure."""

import json
from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from contract.events import EVENT_TYPES
from ingest.otlp.protobuf_reader import parse_traces, read_traces
from ingest.otlp.traces import map_spans
from tests.ingest.otlp.mapped import OPERATION, ROLE, draft, mapped, one, told
from tests.ingest.otlp.sending import START, TRACE, event_of, span, span_id, traces


@pytest.mark.parametrize(
    ("attributes", "kind", "event_type"),
    [
        ({ROLE: "LLM"}, "model", "model.completed"),
        ({ROLE: "llm"}, "model", "model.completed"),
        ({ROLE: "TOOL"}, "tool", "tool.completed"),
        ({ROLE: "RETRIEVER"}, "retriever", "hint.query"),
        ({ROLE: "RERANKER"}, "reranker", "span"),
        ({ROLE: "EMBEDDING"}, "embedding", "span"),
        ({ROLE: "GUARDRAIL"}, "guardrail", "span"),
        ({ROLE: "EVALUATOR"}, "evaluator", "span"),
        ({ROLE: "AGENT"}, "agent", "span"),
        ({ROLE: "CHAIN"}, "chain", "span"),
        ({OPERATION: "chat"}, "model", "model.completed"),
        ({OPERATION: "text_completion"}, "model", "model.completed"),
        ({OPERATION: "generate_content"}, "model", "model.completed"),
        ({OPERATION: "embeddings"}, "embedding", "span"),
        ({OPERATION: "execute_tool"}, "tool", "tool.completed"),
        ({OPERATION: "retrieval"}, "retriever", "hint.query"),
        ({OPERATION: "search_memory"}, "retriever", "hint.query"),
        ({OPERATION: "update_memory"}, "span", "span"),
        ({OPERATION: "create_agent"}, "span", "span"),
        ({OPERATION: "invoke_agent"}, "agent", "span"),
        ({OPERATION: "invoke_workflow"}, "chain", "span"),
        ({"traceloop.span.kind": "workflow"}, "chain", "span"),
        ({"traceloop.span.kind": "task"}, "chain", "span"),
        ({"traceloop.span.kind": "agent"}, "agent", "span"),
        ({"traceloop.span.kind": "tool"}, "tool", "tool.completed"),
        ({"llm.request.type": "chat"}, "model", "model.completed"),
        ({"mcp.method.name": "tools/call"}, "tool", "tool.completed"),
        ({"mcp.method.name": "tools/list"}, "mcp", "span"),
        ({"http.request.method": "GET"}, "span", "span"),
        # the order in which they are asked
        ({ROLE: "TOOL", OPERATION: "chat", "traceloop.span.kind": "agent"}, "tool", "tool.completed"),
        ({OPERATION: "chat", "traceloop.span.kind": "tool"}, "model", "model.completed"),
        ({"traceloop.span.kind": "tool", "mcp.method.name": "tools/list"}, "tool", "tool.completed"),
        # what is said and not known leaves the next one its say
        ({ROLE: "UNKNOWN", OPERATION: "chat"}, "model", "model.completed"),
        ({ROLE: "PROMPT"}, "span", "span"),
        ({ROLE: 7, OPERATION: ["chat"], "traceloop.span.kind": {"a": 1}}, "span", "span"),
    ],
)
def test_kind_and_type(attributes: dict[str, Any], kind: str, event_type: str) -> None:
    """The first sign that is known decides, in the documented order."""
    event = one(attributes)
    assert (told(event)["kind"], event.ids["type"]) == (kind, event_type)
    assert attributes.keys() == told(event)["attributes"].keys()


def test_an_mcp_servers_own_span_is_not_the_agents_call() -> None:
    """Client and server both report a call; it is counted where the agent made it."""
    attributes = {"mcp.method.name": "tools/call", OPERATION: "execute_tool", "gen_ai.tool.name": "search"}
    client = one({**attributes, "server.address": "mcp.example"}, kind=Span.SPAN_KIND_CLIENT)
    server = one(attributes, kind=Span.SPAN_KIND_SERVER)
    assert (client.ids["type"], client.ids["tool"], client.ids["mcp_server"]) == (
        "tool.completed",
        "search",
        "mcp.example",
    )
    assert (server.ids["type"], told(server)["kind"]) == ("span", "mcp")


@pytest.mark.parametrize(("kind", "prefix"), [("LLM", "model"), ("TOOL", "tool"), ("AGENT", "run")])
def test_state_is_in_the_type(kind: str, prefix: str) -> None:
    """Open, ended and failed spans differ in type; an open one has an id of its own and no end."""
    parent = None if kind == "AGENT" else 9
    ended = one({ROLE: kind}, parent)
    failed = one({ROLE: kind}, parent, status={"code": 2, "message": "no luck"})
    running = one({ROLE: kind}, parent, end_time_unix_nano=0)
    began = "started" if kind == "AGENT" else "requested"
    assert [event.ids["type"] for event in (ended, failed, running)] == [
        f"{prefix}.completed", f"{prefix}.failed", f"{prefix}.{began}",
    ]  # fmt: skip
    assert (ended.ids["event_id"], running.ids["event_id"]) == ("0000000000000001", "0000000000000001:open")
    assert (ended.ended_ns, running.ended_ns) == (START + 1 + 1_000_000_000, None)
    assert "no luck" in (failed.data.get("error"), failed.data.get("detail"))


def test_error_type_tells_a_failure_that_the_status_leaves_unset() -> None:
    """A status of ok outweighs it."""
    failed = one({OPERATION: "execute_tool", "error.type": "timeout"})
    fine = one({OPERATION: "execute_tool", "error.type": "timeout"}, status={"code": 1})
    assert (failed.ids["type"], failed.data["error_class"]) == ("tool.failed", "timeout")
    assert fine.ids["type"] == "tool.completed"


def test_identity_of_a_span() -> None:
    """Run, cause, session and agent stand in the envelope; what was moved is named."""
    event = one({ROLE: "TOOL", "session.id": "s-1", "agent.name": "clerk", "user.id": "u"})
    assert (event.ids["run_id"], event.ids["caused_by"]) == (TRACE.hex(), span_id(9).hex())
    assert (event.ids["task_id"], event.ids["actor_id"], event.ids["call_id"]) == ("s-1", "clerk", span_id(1).hex())
    assert told(event)["moved"] == {"task_id": "session.id", "actor_id": "agent.name"}
    assert told(event)["attributes"] == {ROLE: "TOOL", "user.id": "u"}
    assert told(event)["trace_id"] == TRACE.hex()


def test_ids_too_long_for_the_envelope_stay_attributes() -> None:
    """A long session id costs no span and is not cut."""
    long = "x" * 201
    event = one({ROLE: "TOOL", "session.id": long, "gen_ai.tool.name": long, "tool.name": "short"}, name=long)
    assert (event.ids["task_id"], event.ids["tool"]) == (None, "short")
    assert told(event)["attributes"]["session.id"] == long
    assert draft(event).run_id == TRACE.hex()


@pytest.mark.parametrize(
    "attributes",
    [
        {ROLE: "TOOL", "tool.name": "search", "tool_call.id": "c-1", "input.value": "{}", "output.value": "found"},
        {
            OPERATION: "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.id": "c-1",
            "gen_ai.tool.call.arguments": "{}",
            "gen_ai.tool.call.result": "found",
        },
        {
            OPERATION: "execute_tool",
            "gen_ai.tool.name": "search",
            "gen_ai.tool.call.id": "c-1",
            "gen_ai.tool.call.arguments": {},
            "gen_ai.tool.call.result": "found",
        },
    ],
)
def test_tool_calls(attributes: dict[str, Any]) -> None:
    """Both conventions tell name, call, arguments and result; structured arguments become JSON text."""
    event = one(attributes)
    assert (event.ids["type"], event.ids["tool"], event.ids["call_id"]) == ("tool.completed", "search", "c-1")
    assert (event.data["arguments"], event.data["result"], event.data["duration_ms"]) == ("{}", "found", 1_000)


@pytest.mark.parametrize(
    ("attributes", "name", "tool"),
    [
        ({OPERATION: "execute_tool"}, "execute_tool search", "search"),
        ({"mcp.method.name": "tools/call"}, "tools/call search", "search"),
        ({"traceloop.span.kind": "tool", "traceloop.entity.name": "search"}, "search.tool", "search"),
        ({"traceloop.span.kind": "tool"}, "search.tool", "search"),
    ],
)
def test_tools_named_by_their_span(attributes: dict[str, Any], name: str, tool: str) -> None:
    """Where no attribute names the tool the span's own name does."""
    assert one(attributes, name=name).ids["tool"] == tool


def test_a_failed_tool_tells_its_error() -> None:
    """The recorded exception says what the status does not."""
    raised = event_of("exception", {"exception.type": "TimeoutError", "exception.message": "after 30 s"})
    event = one({ROLE: "TOOL"}, status={"code": 2}, events=[raised])
    assert (event.data["error_class"], event.data["detail"]) == ("TimeoutError", "after 30 s")
    assert told(event)["events"][0]["name"] == "exception"


@pytest.mark.parametrize(
    "attributes",
    [
        {
            ROLE: "AGENT",
            "agent.name": "clerk",
            "input.value": "find it",
            "output.value": "found",
            "llm.model_name": "m",
        },
        {
            OPERATION: "invoke_agent",
            "gen_ai.agent.name": "clerk",
            "gen_ai.request.model": "m",
            "gen_ai.input.messages": json.dumps([{"role": "user", "parts": [{"type": "text", "content": "find it"}]}]),
            "gen_ai.output.messages": json.dumps(
                [{"role": "assistant", "parts": [{"type": "text", "content": "found"}]}]
            ),
        },
    ],
)
def test_an_agent_without_parent_is_the_run(attributes: dict[str, Any]) -> None:
    """Task, answer, agent and model stand in the run's own event; under a parent it is a span."""
    root = one(attributes, None)
    assert (root.ids["type"], root.ids["caused_by"]) == ("run.completed", None)
    assert (root.data["task"], root.data["answer"]) == ("find it", "found")
    assert (root.data["agent"], root.data["model"]) == ("clerk", "m")
    assert one(attributes, 9).ids["type"] == "span"


def test_our_own_attributes_say_it_exactly() -> None:
    """Type, envelope and data as given; the span stays beside them."""
    attributes = {
        "temporality.type": "hint.delivery",
        "temporality.event_id": "mine:1",
        "temporality.run_id": "r-42",
        "temporality.hint_id": "h-1",
        "temporality.seq": 7,
        "temporality.turn": "3",
        "temporality.data": '{"stage": "selected", "tokens": 9}',
        "temporality.data.stage": "dropped",
        "temporality.data.drop_reason": "activation_tokens",
        "temporality.unknown": "kept",
        ROLE: "LLM",
    }
    event = one(attributes)
    assert (event.ids["type"], event.ids["event_id"], event.ids["run_id"]) == ("hint.delivery", "mine:1", "r-42")
    assert (event.ids["hint_id"], event.integers, event.ids["caused_by"]) == ("h-1", (7, 3), span_id(9).hex())
    assert {key: event.data[key] for key in ("stage", "drop_reason", "tokens")} == {
        "stage": "dropped", "drop_reason": "activation_tokens", "tokens": 9,
    }  # fmt: skip
    assert told(event)["attributes"] == {"temporality.unknown": "kept", ROLE: "LLM"}


def test_our_own_fields_complete_a_foreign_span() -> None:
    """Without a type of its own a span keeps the one of its kind."""
    event = one({ROLE: "TOOL", "tool.name": "search", "temporality.run_id": "r-42", "temporality.data.effect": "none"})
    assert (event.ids["type"], event.ids["run_id"], event.ids["tool"]) == ("tool.completed", "r-42", "search")
    assert event.data["effect"] == "none"


def test_a_resource_can_name_the_run() -> None:
    """The span's own attribute goes before it."""
    events = mapped(span(1), span(2, attributes={"temporality.run_id": "own"}), resource={"temporality.run_id": "r-42"})
    assert [event.ids["run_id"] for event in events] == ["r-42", "own"]


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("temporality.run_id", "x" * 201),
        ("temporality.run_id", ""),
        ("temporality.call_id", [1]),
        ("temporality.seq", -1),
        ("temporality.turn", "soon"),
        ("temporality.data", "no json"),
        ("temporality.data", [1]),
    ],
)
def test_wrong_attributes_of_ours_are_refused_by_name(key: str, value: Any) -> None:
    """A wrong field costs its span only, and the reason names the attribute."""
    sent = traces(span(1, attributes={key: value}), span(2)).SerializeToString()
    events, refused = map_spans(read_traces(parse_traces(sent)).records)
    assert [event.index for event in events] == [1]
    assert (refused[0].index, key in refused[0].detail) == (0, True)


@pytest.mark.parametrize("event_type", sorted(EVENT_TYPES))
def test_every_type_can_be_sent_by_attributes(event_type: str) -> None:
    """Whatever the native endpoint takes can be said on a span."""
    example = dict(EVENT_TYPES[event_type].example)
    event = one({"temporality.type": event_type, "temporality.data": json.dumps(example)})
    assert event.ids["type"] == event_type
    assert example.items() <= event.data.items()


def test_what_surrounds_a_span_is_kept() -> None:
    """Links, counts of what the SDK dropped, schema, scope, state and kind; the resource once, by hash."""
    sent = span(1, 9, trace_state="a=1", dropped_attributes_count=3, dropped_events_count=2, kind=3)
    link = sent.links.add(trace_id=b"\2" * 16, span_id=b"\3" * 8)
    link.attributes.add(key="why").value.string_value = "retry"
    first, second = mapped(sent, span(2), resource={"service.name": "shop"}, schema_url="https://example/1.37")
    assert told(first) | {} == {
        "name": "step 1",
        "kind": "span",
        "span_kind": "client",
        "trace_id": TRACE.hex(),
        "status": "unset",
        "attributes": {},
        "moved": {},
        "scope": {"name": "tests", "version": "1.2"},
        "schema_url": "https://example/1.37",
        "resource": told(second)["resource"],
        "trace_state": "a=1",
        "links": [{"trace_id": "02" * 16, "span_id": "03" * 8, "attributes": {"why": "retry"}}],
        "dropped_attributes_count": 3,
        "dropped_events_count": 2,
    }
    assert first.messages == second.messages
    assert json.loads(first.messages[0].body) == {"role": "resource", "attributes": {"service.name": "shop"}}


@pytest.mark.parametrize(
    ("start", "end", "repairs", "has_duration"),
    [
        (START, START, [], True),
        (START, START - 1, ["end_before_start"], False),
        (0, START, ["clock_far"], False),
        (2**63 - 1, 2**63 - 1, ["clock_far"], True),
        (2**63, 2**64 - 1, ["clock_far"], False),
        (START // 10**9, START // 10**9 + 5, ["clock_far"], False),  # seconds in place of nanoseconds
        (START // 10**6, START // 10**6 + 5, ["clock_far"], False),  # milliseconds
        (START, 2**64 - 1, ["clock_far"], False),
        (START, START + 27 * 3_600 * 10**9, ["clock_far"], True),  # 27 hours are legal; here their end is to come
    ],
)
def test_case_26_nonsense_clocks_are_kept_and_never_summed(
    start: int, end: int, repairs: list[str], has_duration: bool
) -> None:
    """The column holds what it can, the raw number stays beside it, and no duration is made of a wrong clock."""
    event = one({ROLE: "LLM"}, start_time_unix_nano=start, end_time_unix_nano=end)
    made = draft(event)
    assert list(made.repairs) == repairs
    assert (event.occurred_ns, event.ended_ns) == (min(start, 2**63 - 1), min(end, 2**63 - 1))
    assert event.data.get("duration_ms") == ((end - start) / 1e6 if has_duration else None)
    raw = told(event).get("start_time_unix_nano"), told(event).get("end_time_unix_nano")
    assert raw == (str(start) if start >= 2**63 else None, str(end) if end >= 2**63 else None)


def test_case_26_both_times_zero_is_a_span_that_runs() -> None:
    """No end is no negative duration."""
    event = one({ROLE: "LLM"}, start_time_unix_nano=0, end_time_unix_nano=0)
    assert (event.ids["type"], event.occurred_ns, event.ended_ns) == ("model.requested", 0, None)
    assert list(draft(event).repairs) == ["clock_far"]


@pytest.mark.parametrize("shift", [7 * 60, -27 * 3_600, 20 * 3_600])
def test_case_27_skew_within_a_day_is_stored_as_sent(shift: int) -> None:
    """Minutes ahead or a day behind is no reason to change or refuse a time."""
    event = one(
        {ROLE: "TOOL"}, start_time_unix_nano=START + shift * 10**9, end_time_unix_nano=START + shift * 10**9 + 1
    )
    assert (event.occurred_ns, draft(event).repairs) == (START + shift * 10**9, ())


@pytest.mark.parametrize("year_ns", [0 + 1, 56_900_000_000 * 10**9])
def test_case_27_runs_dated_1970_and_3774_are_flagged(year_ns: int) -> None:
    """Stored under their run, and flagged."""
    event = one({ROLE: "TOOL"}, start_time_unix_nano=min(year_ns, 2**64 - 1), end_time_unix_nano=2**64 - 1)
    assert list(draft(event).repairs) == ["clock_far"]


def test_case_20_parents_of_every_kind_are_stored_as_sent() -> None:
    """Self, circles and parents that never come: the cause is what the sender said, and reading cuts the circle."""
    events = mapped(span(1, 1), span(2, 3), span(3, 2), span(4, 99))
    assert [event.ids["caused_by"] for event in events] == [span_id(n).hex() for n in (1, 3, 2, 99)]
