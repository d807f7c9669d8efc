"""Spans in, a run out: what a sender's trace says once it is folded, whatever the order and the number of requests."""

from typing import Any

import pytest
from opentelemetry.proto.trace.v1.trace_pb2 import Span

from ingest.models import Project
from knowledge.chains import refresh_run
from tests.ingest.otlp.sending import TRACE, OtlpSender, span

pytestmark = pytest.mark.django_db

ROLE = "openinference.span.kind"
RUN = TRACE.hex()
SECOND = 1_000_000_000
BEGIN = 1_796_007_600 * SECOND


@pytest.fixture
def sender() -> OtlpSender:
    return OtlpSender(Project.objects.create(slug="alpha", name="Alpha"))


def timed(number: int, parent: int | None, start: int, end: int, attributes: dict[str, Any], **fields: Any) -> Span:
    """Return a span from second `start` to `end` of the run."""
    times = {"start_time_unix_nano": BEGIN + start * SECOND, "end_time_unix_nano": BEGIN + end * SECOND}
    return span(number, parent, attributes=attributes, **{**times, **fields})


def agent_run() -> list[Span]:
    """An agent that asks, fails with a tool, looks the failure up and answers; children before their parent."""
    tokens = {ROLE: "LLM", "llm.token_count.prompt": 100, "llm.token_count.completion": 10}
    found = {"retrieval.documents.0.document.id": "d-1", "retrieval.documents.0.document.content": "Run git init first"}
    told = {"agent.name": "clerk", "input.value": "Release it", "output.value": "Done"}
    return [
        timed(2, 1, 0, 2, {**tokens, "llm.model_name": "gpt-4o"}),
        timed(3, 1, 2, 3, {ROLE: "TOOL", "tool.name": "shell"}, status={"code": 2, "message": "not a git repository"}),
        timed(4, 1, 3, 4, {ROLE: "RETRIEVER", "input.value": "not a git repository", **found}),
        timed(5, 1, 4, 6, tokens),
        timed(1, None, 0, 7, {ROLE: "AGENT", **told}),
    ]


def folded(sender: OtlpSender, path: str = "") -> dict[str, Any]:
    refresh_run(sender.project.pk, RUN)
    headers = {"Authorization": f"Bearer {sender.raw}"}
    found: dict[str, Any] = sender.client.get(f"/v1/runs/{RUN}{path}", headers=headers).json()
    return found


def test_a_trace_is_a_run(sender: OtlpSender) -> None:
    """Task, answer, agent, tokens and calls are those of the trace, and so are its times."""
    assert sender.traces(*agent_run()) == {}
    run = folded(sender)
    assert (run["status"], run["task"], run["answer"], run["agent"]) == ("completed", "Release it", "Done", "clerk")
    assert (run["model"], run["model_tokens"], run["duration_ms"]) == ("gpt-4o", 220, 7_000)
    assert (run["n_tool_calls"], run["n_tools_failed"]) == (1, 1)


def test_a_search_is_an_activation_with_what_it_found(sender: OtlpSender) -> None:
    """The documents are its candidates, offered in their order; nothing is said of their use."""
    sender.traces(*agent_run())
    (activation,) = folded(sender, "/activations")["results"]
    assert (activation["trigger"], activation["query"]) == ("agent.search", "not a git repository")
    assert (activation["n_offered"], activation["n_injected"]) == (1, 0)
    assert [candidate["proposition"] for candidate in activation["candidates"]] == ["Run git init first"]


def test_order_and_requests_make_no_difference(sender: OtlpSender) -> None:
    """One by one, backwards, with a fold between: the same run as in one request."""
    other = OtlpSender(Project.objects.create(slug="beta", name="Beta"))
    sender.traces(*agent_run())
    for one in reversed(agent_run()):
        other.traces(one)
        folded(other)
    assert without_arrival(folded(other)) == without_arrival(folded(sender))


def without_arrival(run: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in run.items() if "received" not in name and name != "as_of"}


def test_case_25_wrappers_count_nothing_twice(sender: OtlpSender) -> None:
    """Tokens that an agent repeats of its model call stay an attribute."""
    usage = {"llm.token_count.prompt": 100, "llm.token_count.completion": 10}
    sender.traces(
        timed(1, None, 0, 5, {ROLE: "AGENT", **usage}),
        timed(2, 1, 1, 4, {ROLE: "CHAIN", **usage}),
        timed(3, 2, 2, 3, {ROLE: "LLM", **usage}),
    )
    assert folded(sender)["model_tokens"] == 110


def test_a_span_sent_while_it_runs_and_again_when_it_ended(sender: OtlpSender) -> None:
    """The run is open until its root ends; both copies are stored, the finished one counts."""
    *rest, root = agent_run()
    running = Span()
    running.CopyFrom(root)
    running.end_time_unix_nano = 0
    sender.traces(running, *rest)
    assert folded(sender)["status"] == "running"
    sender.traces(root)
    run = folded(sender)
    assert (run["status"], run["answer"], len(sender.stored())) == ("completed", "Done", 6)


@pytest.mark.parametrize("parents", [(1, 1), (2, 1)])
def test_case_20_spans_in_a_circle_are_a_run(sender: OtlpSender, parents: tuple[int, int]) -> None:
    """A span that is its own parent, two that are each other's, in one request or two: stored, folded, listed."""
    sender.traces(timed(1, parents[0], 0, 2, {ROLE: "AGENT"}))
    sender.traces(timed(2, parents[1], 1, 2, {ROLE: "TOOL", "tool.name": "shell"}))
    assert folded(sender)["n_tool_calls"] == 1
    assert len(folded(sender, "/events")["results"]) == 2


def test_case_27_a_run_of_1970_is_found_by_its_id(sender: OtlpSender) -> None:
    """Clocks outside any window hide no run."""
    sender.traces(span(1, attributes={ROLE: "AGENT"}, start_time_unix_nano=5, end_time_unix_nano=9))
    run = folded(sender)
    assert (run["run_id"], run["status"]) == (RUN, "completed")
