"""Real senders over the running stack: the SDK's exporters, two instrumentations of the openai client, Temporal."""

import json
import os
import subprocess
import sys
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from opentelemetry.exporter.otlp.proto.http import Compression
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from temporalio.client import Client
from temporalio.contrib.opentelemetry import TracingInterceptor
from temporalio.worker import Worker

from tests.conftest import RunningStack
from tests.ingest.otlp.sending import START, as_json, span, span_id, traces
from tests.ingest.otlp.temporal import Order, ship
from tests.kernel.http_server import Answer, Asked, LocalServer, local_server

pytestmark = pytest.mark.stack


def events_of(stack: RunningStack, run_id: str) -> list[dict[str, Any]]:
    answer = stack.get(f"/v1/runs/{run_id}/events")
    assert answer.status_code == 200, answer.text
    found: list[dict[str, Any]] = answer.json()["results"]
    return sorted(found, key=lambda event: event["occurred_ns"])


def of_type(events: list[dict[str, Any]], *types: str) -> list[dict[str, Any]]:
    return [event for event in events if event["type"] in types]


def answer_as_a_model(asked: Asked) -> Answer:
    """Want the tool first, and answer once its result is there."""
    done = any(message["role"] == "tool" for message in asked.body["messages"])
    call = {"id": "c-1", "type": "function", "function": {"name": "find_order", "arguments": '{"id": 7}'}}
    said = {"content": "It is lost."} if done else {"content": None, "tool_calls": [call]}
    choice = {"index": 0, "finish_reason": "stop" if done else "tool_calls", "message": {"role": "assistant", **said}}
    usage = {"prompt_tokens": 40, "completion_tokens": 6, "total_tokens": 46}
    return Answer(
        body={
            "id": "chatcmpl-1", "object": "chat.completion", "created": 1, "model": "gpt-4o-2024", "choices": [choice],
            "usage": usage,
        }
    )  # fmt: skip


@pytest.fixture
def model() -> Iterator[LocalServer]:
    with local_server(answer_as_a_model) as server:
        yield server


def run_agent(stack: RunningStack, model: LocalServer, dialect: str, **environment: str) -> str:
    """Run the agent in a process of its own, set up by OpenTelemetry's variables alone; return its trace id."""
    given = {
        **os.environ,
        "OTEL_EXPORTER_OTLP_ENDPOINT": stack.base_url,
        "OTEL_EXPORTER_OTLP_HEADERS": f"Authorization=Bearer%20{stack.api_key}",
        "OTEL_SERVICE_NAME": "clerk",
        **environment,
    }
    command = [sys.executable, "-m", "tests.ingest.otlp.agent", dialect, f"{model.url}/v1"]
    done = subprocess.run(command, env=given, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr
    assert "ailed to export" not in done.stderr, done.stderr
    return str(json.loads(done.stdout.splitlines()[-1])["trace_id"])


def check_agent(events: list[dict[str, Any]]) -> None:
    """One run: a root, two model calls with their tokens, one failed tool between them, all under the root."""
    root = of_type(events, "run.completed")[0]
    calls = of_type(events, "model.completed")
    tool = of_type(events, "tool.failed")[0]
    assert (len(calls), root["caused_by"]) == (2, None)
    assert {event["caused_by"] for event in (*calls, tool)} == {root["event_id"]}
    assert [(call["data"]["input_tokens"], call["data"]["output_tokens"]) for call in calls] == [(40, 6)] * 2
    assert {call["data"]["model"] for call in calls} == {"gpt-4o-2024"}
    assert [call["data"]["finish_reason"] for call in calls] == ["tool_calls", "stop"]
    assert (tool["tool"], tool["data"]["error_class"], tool["data"]["detail"]) == (
        "find_order",
        "TimeoutError",
        "after 30 s",
    )
    assert calls[0]["ended_ns"] <= tool["occurred_ns"] <= tool["ended_ns"] <= calls[1]["occurred_ns"]


def check_messages(calls: list[dict[str, Any]]) -> None:
    """What was asked is named message by message, what was answered stands in the event."""
    first, second = (call["data"] for call in calls)
    assert [entry["role"] for entry in second["new_messages"]] == ["user", "assistant", "tool"]
    assert second["new_messages"][0]["hash"] == first["new_messages"][0]["hash"]
    assert [(call["name"], json.loads(call["arguments"])) for call in first["calls"]] == [("find_order", {"id": 7})]
    assert second["text"] == "It is lost."


@pytest.mark.parametrize("compression", ["none", "gzip"])
def test_openinference_on_the_openai_client(stack: RunningStack, model: LocalServer, compression: str) -> None:
    """The agent's process is set up by environment alone, with and without gzip."""
    run_id = run_agent(stack, model, "openinference", OTEL_EXPORTER_OTLP_COMPRESSION=compression)
    events = events_of(stack, run_id)
    check_agent(events)
    check_messages(of_type(events, "model.completed"))
    assert of_type(events, "run.completed")[0]["data"]["task"] == "Where is order 7?"
    assert {event["data"]["span"]["scope"]["name"] for event in of_type(events, "model.completed")} == {
        "openinference.instrumentation.openai"
    }


def test_genai_conventions_on_the_openai_client(stack: RunningStack, model: LocalServer) -> None:
    """The newest dialect: messages as JSON in attributes of the span."""
    run_id = run_agent(
        stack,
        model,
        "genai",
        OTEL_SEMCONV_STABILITY_OPT_IN="gen_ai_latest_experimental",
        OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="SPAN_ONLY",
    )
    events = events_of(stack, run_id)
    check_agent(events)
    check_messages(of_type(events, "model.completed"))
    assert of_type(events, "run.completed")[0]["actor_id"] == "clerk"


def test_genai_conventions_before_1_37_with_their_log_records(stack: RunningStack, model: LocalServer) -> None:
    """The dialect of default: spans without content, and messages as log records under them."""
    run_id = run_agent(stack, model, "genai", OTEL_INSTRUMENTATION_GENAI_CAPTURE_MESSAGE_CONTENT="true")
    events = events_of(stack, run_id)
    check_agent(events)
    said = [event for event in of_type(events, "log") if event["data"].get("event_name")]
    assert {"gen_ai.user.message", "gen_ai.choice"} <= {event["data"]["event_name"] for event in said}
    assert {event["caused_by"] for event in said} <= {event["event_id"] for event in of_type(events, "model.completed")}
    assert any("Where is order 7?" in json.dumps(event["data"]["body"]) for event in said)


def test_log_records_of_the_logging_module(stack: RunningStack, model: LocalServer) -> None:
    """Plain spans keep their names; a log line stands under the span it was written in."""
    events = events_of(stack, run_agent(stack, model, "plain"))
    root, tool = (next(e for e in events if e["data"].get("name", e["data"].get("span", {}).get("name")) == name)
                  for name in ("clerk", "execute_tool find_order"))  # fmt: skip
    line = of_type(events, "log")[0]
    assert (line["data"]["body"], line["caused_by"]) == ("order 7 is slow to find", tool["event_id"])
    assert (line["data"]["severity_number"], tool["caused_by"]) == (13, root["event_id"])
    assert (root["type"], tool["type"]) == ("span", "span")


@pytest.mark.parametrize("compression", [Compression.NoCompression, Compression.Gzip, Compression.Deflate])
def test_the_sdk_exporter_is_told_of_success(stack: RunningStack, compression: Compression) -> None:
    """Whatever a span can hold comes through the official exporter."""
    exporter = OTLPSpanExporter(
        f"{stack.base_url}/v1/traces", headers={"Authorization": f"Bearer {stack.api_key}"}, compression=compression
    )
    provider = TracerProvider(resource=Resource.create({"service.name": "sdk"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("t", "1", schema_url="https://opentelemetry.io/schemas/1.37.0")
    attributes = {"list": ["a", "b"], "n": 2**62, "f": 0.25, "b": True}
    with tracer.start_as_current_span("outer", attributes=attributes) as outer:
        outer.add_event("happened", {"k": "v"})
        with tracer.start_as_current_span("inner", links=[]):
            pass
    provider.shutdown()
    events = events_of(stack, f"{outer.get_span_context().trace_id:032x}")
    told = [event["data"]["span"] for event in events]
    assert [one["name"] for one in told] == ["outer", "inner"]
    assert told[0]["attributes"] == attributes
    assert (told[0]["events"][0]["name"], told[0]["schema_url"]) == (
        "happened",
        "https://opentelemetry.io/schemas/1.37.0",
    )


def test_json_by_the_rules_of_otlp(stack: RunningStack) -> None:
    """Python's SDK has no JSON exporter: the protobuf request, written by OTLP/JSON's rules."""
    trace_id = uuid.uuid4().bytes
    request = traces(span(1, trace_id=trace_id), span(2, 1, trace_id=trace_id, attributes={"n": 2**53 + 1}))
    answer = stack.post("/v1/traces", as_json(request))
    assert (answer.status_code, answer.json()) == (200, {})
    assert [event["event_id"] for event in events_of(stack, trace_id.hex())] == [span_id(1).hex(), span_id(2).hex()]


async def test_temporals_own_interceptor(stack: RunningStack) -> None:
    """A workflow and its activity are one trace: what started what is kept, also across the worker's processes."""
    exporter = OTLPSpanExporter(f"{stack.base_url}/v1/traces", headers={"Authorization": f"Bearer {stack.api_key}"})
    provider = TracerProvider(resource=Resource.create({"service.name": "orders"}))
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    tracer = provider.get_tracer("orders")
    client = await Client.connect(stack.temporal_address, interceptors=[TracingInterceptor(tracer)])
    name = f"orders-{uuid.uuid4().hex[:8]}"
    with tracer.start_as_current_span("shop") as root:
        async with Worker(client, task_queue=name, workflows=[Order], activities=[ship]):
            assert await client.execute_workflow(Order.run, "7", id=name, task_queue=name) == "7 shipped"
    provider.shutdown()
    events = events_of(stack, f"{root.get_span_context().trace_id:032x}")
    by_name = {event["data"]["span"]["name"]: event for event in events}
    chain = ["shop", "StartWorkflow:Order", "RunWorkflow:Order", "StartActivity:ship", "RunActivity:ship"]
    assert set(chain) <= by_name.keys()
    parents = {name: by_name[name]["caused_by"] for name in chain}
    ids = {name: by_name[name]["event_id"] for name in chain}
    assert parents["shop"] is None
    assert parents["StartWorkflow:Order"] == ids["shop"]
    assert parents["RunWorkflow:Order"] == parents["StartActivity:ship"] == ids["StartWorkflow:Order"]
    assert parents["RunActivity:ship"] == ids["StartActivity:ship"]


def test_case_16_a_chain_of_5000_nested_spans_is_stored(stack: RunningStack) -> None:
    """In one request, each under its parent."""
    trace_id = uuid.uuid4().bytes
    spans = [span(1, trace_id=trace_id)]
    spans += [span(n, n - 1, trace_id=trace_id, start_time_unix_nano=START + n) for n in range(2, 5_001)]
    body = traces(*spans).SerializeToString()
    answer = stack.api.post("/v1/traces", content=body, headers={"Content-Type": "application/x-protobuf"})
    assert (answer.status_code, answer.content) == (200, b"")
    assert events_of(stack, trace_id.hex())[1]["caused_by"] == span_id(1).hex()


@pytest.mark.parametrize("media_type", ["application/x-protobuf", "application/json"])
def test_case_28_30_megabytes_of_otlp_are_answered_with_the_limit(stack: RunningStack, media_type: str) -> None:
    """The sender reads the 413 and its limit, and not a broken connection."""
    answer = stack.api.post("/v1/traces", content=b"x" * 30_000_000, headers={"Content-Type": media_type})
    assert (answer.status_code, answer.headers["Content-Type"]) == (413, media_type)
    assert b"8388608" in answer.content
