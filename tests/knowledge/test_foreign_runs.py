"""Runs made of foreign spans fold like any other: whatever comes, in any order, each thing counts once."""

import random
import time
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ingest.journal import JournalEvent
from knowledge.chain_facts import RunFacts
from knowledge.fold import fold_run
from knowledge.span_runs import GUESSED
from knowledge.spans import read_spans
from tests.knowledge.spans import MS, START_NS, agent_run, journal, span
from tests.knowledge.streams import run_of

DEEP = (1_500, 5_000)


def fold(*events: dict[str, Any]) -> RunFacts:
    return fold_run(journal(events)).run


def chain_of(n: int) -> list[dict[str, Any]]:
    """Return `n` spans, each inside the one before it, a model's at the bottom."""
    inner = [span(number, parent=number - 1, start=number, ms=10_000 - 2 * number // 3) for number in range(2, n)]
    return [span(1, "agent", ms=20_000), *inner, span(n, "model", parent=n - 1, data={"input_tokens": 7})]


# ---- what a run made of spans says -----------------------------------------------------------------------------


def test_a_run_made_of_spans_has_its_facts() -> None:
    """Start, end, task, answer, agent, model, turns, calls, failures and tokens come from the spans."""
    chain = fold_run(journal(agent_run()))
    run = chain.run
    assert (run.status, run.task, run.answer, run.agent) == ("completed", "Release it", "Released.", "planner")
    assert (run.started_ns, run.ended_ns) == (START_NS, START_NS + 1000 * MS)
    assert (run.model, run.n_turns, run.n_tool_calls, run.n_tools_failed) == ("gpt-x", 2, 1, 1)
    assert (run.model_tokens, run.tools, run.n_events) == (240, ("bash",), 6)
    assert (run.n_activations, run.n_retrieved) == (1, 3)


@pytest.mark.parametrize(("kind", "agent"), [("model", ""), ("tool", ""), ("chain", "nightly"), ("span", "nightly")])
def test_a_lone_call_is_no_agent(kind: str, agent: str) -> None:
    """A program that only calls a model has a run per call, and the call's name is nobody's."""
    run = fold(span(1, kind, name="nightly", data={"model": "gpt-x"}))
    assert (run.agent, run.status) == (agent, "completed")


def test_documents_count_as_hints_once_one_of_them_was_put_into_a_request() -> None:
    """What an application found by itself was offered by nobody; it counts when the sender says what became of it."""
    quiet = fold(*agent_run())
    assert (quiet.n_offered, quiet.n_dropped, quiet.n_injected) == (0, 0, 0)
    said = {"stage": "injected", "trigger": "agent.search", "tokens": 12}
    ids = {"activation_id": f"{4:016x}", "knowledge_id": "doc-1"}
    delivery = {**span(9, parent=1), "type": "hint.delivery", "data": said, **ids}
    told = fold(*agent_run(), delivery)
    assert (told.n_offered, told.n_dropped, told.n_injected) == (3, 2, 1)


def test_a_search_made_of_a_span_has_its_candidates() -> None:
    """A retriever's documents are candidates in order; what a reranker took and did not give back was dropped."""
    chain = fold_run(journal(agent_run()))
    (activation,) = chain.activations
    assert (activation.trigger, activation.query, activation.result) == (
        "agent.search",
        "not a git repository",
        "success",
    )
    assert (activation.search_ms, activation.duration_ms, activation.source_event_id) == (20, 20, None)
    assert [one.knowledge_id for one in chain.candidates] == ["doc-1", "doc-2", "doc-2 #2"]
    assert [one.drop_reason for one in chain.candidates] == ["", "reranked_out", "reranked_out"]
    assert chain.candidates[0].scores == {"score": 0.91, "reranked": 0.99}
    assert all(one.selected_ns is None and one.injected_ns is None for one in chain.candidates)


def test_a_reranker_speaks_of_the_latest_search_before_it() -> None:
    """Two searches found the same document: what the reranker between them dropped, the first had found."""
    found = [{"id": "doc-1", "text": "Run `git init` first.", "score": 0.9}]
    events = [
        span(1, "agent", ms=1000),
        span(2, "retriever", parent=1, start=10, data={"documents": found}),
        span(3, "reranker", parent=1, start=30, data={"input_documents": found, "output_documents": []}),
        span(4, "retriever", parent=1, start=50, data={"documents": found}),
    ]
    dropped = {one.activation_id: one.drop_reason for one in fold_run(journal(events)).candidates}
    assert dropped == {f"{2:016x}": "reranked_out", f"{4:016x}": ""}


def test_what_set_a_search_off_is_inferred_apart() -> None:
    """A search right after a failed call of the same parent: inferred, in a field of its own, never as reported."""
    (activation,) = fold_run(journal(agent_run())).activations
    assert (activation.trigger, activation.inferred_trigger) == ("agent.search", "tool.failed")
    assert activation.inferred_event_id == f"{3:016x}"
    assert (activation.source_event_id, activation.resolved) == (None, None)


@pytest.mark.parametrize(
    "change",
    [
        {"parent": 2},  # inside the model's span
        {"start": 130},  # begun before the call had failed
        {"start": 950},  # after another request to the model
        {"data": {"source_event_id": f"{2:016x}"}},  # its cause was reported
        {"data": {"trigger": "tool.failed"}},  # its trigger was reported
    ],
)
def test_nothing_is_inferred_without_reason(change: dict[str, Any]) -> None:
    """Another parent, another step between, a cause that was reported: no guess."""
    base: dict[str, Any] = {"parent": 1, "start": 160, "ms": 20}
    events = [event for event in agent_run() if event["type"] != "hint.query"]
    (activation,) = fold_run(journal([*events, span(4, "retriever", **{**base, **change})])).activations
    assert (activation.inferred_trigger, activation.inferred_event_id) == ("", None)


def test_a_search_that_failed_or_runs_has_no_candidates() -> None:
    """A failed search is an error, an open one is not answered."""
    documents = {"documents": [{"id": "d", "text": "t"}]}
    failed = fold_run(journal([span(4, "retriever", parent=1, error="connection refused", data=documents)]))
    running = fold_run(journal([span(4, "retriever", parent=1, ms=None, data=documents)]))
    assert (failed.activations[0].result, failed.activations[0].error) == ("error", "connection refused")
    assert (running.activations[0].result, failed.candidates, running.candidates) == ("", (), ())


def test_spans_without_a_run_of_their_own_are_judged_by_their_roots() -> None:
    """Without an agent's span at the top, what is nobody's child says when the run began, ended and failed."""
    roots = [span(1, start=5, ms=20), span(2, "model", parent=None, start=40, ms=60)]
    run = fold(*roots)
    assert (run.status, run.started_ns, run.ended_ns) == ("completed", START_NS + 5 * MS, START_NS + 100 * MS)
    failed = fold(*roots, span(3, start=200, error="boom"))
    assert (failed.status, failed.status_reason) == ("failed", "boom")
    assert fold(*roots, span(3, start=200, ms=None)).status == "running"


def test_what_the_runtime_says_of_its_run_comes_before_its_spans() -> None:
    """Spans of a library inside a run that reports itself neither end it nor count its requests again."""
    told = run_of(
        ("run.started", {"data": {"task": "Its own"}}),
        ("model.requested", {"turn": 1, "data": {"tokens": 5}}),
        ("model.completed", {"turn": 1, "caused_by": "r-1:2", "data": {"input_tokens": 50, "output_tokens": 5}}),
        ("run.failed", {"data": {"error": "over"}}),
    )
    run = fold_run([*told, *journal(agent_run())]).run
    assert (run.task, run.status, run.model_tokens, run.n_turns) == ("Its own", "failed", 55, 1)


# ---- cases from real reports -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", DEEP)
def test_case_16_a_very_deep_run_is_folded(n: int) -> None:
    """Thousands of spans inside each other: no recursion, the totals are right, well under a second."""
    events = journal(chain_of(n))
    random.Random(n).shuffle(events)
    begun = time.process_time()
    run = fold_run(events).run
    assert (run.status, run.n_events, run.model_tokens, run.n_turns) == ("completed", n, 7, 1)
    assert time.process_time() - begun < 1
    assert max(read_spans(events).forest.depths) == n - 1


def test_case_20_circles_of_parents_are_cut() -> None:
    """A span that is its own parent, two that are each other's, and one in two batches: folded, each span once."""
    own = fold(span(1, "agent", parent=1, data={"task": "t"}))
    assert (own.status, own.task, own.n_events) == ("completed", "t", 1)
    first, second = span(1, "model", parent=2, start=1), span(2, "tool", parent=1, start=2)
    later = span(3, "model", parent=2, start=3)
    expected = fold(first, second, later)
    assert (expected.n_turns, expected.n_tool_calls) == (2, 1)
    assert fold(later, second, first) == expected == fold(second, first, later)
    spans = read_spans(journal([first, second, later]))
    assert (spans.cut, spans.missing, spans.forest.depths) == ({0}, frozenset(), (0, 1, 2))


def test_case_21_a_run_whose_root_has_not_come_is_running_and_completed_by_it() -> None:
    """Child first: open, with what is known. Its parent later: as if it had come first."""
    root, *children = agent_run()
    alone = fold(*children)
    assert (alone.status, alone.started_ns, alone.ended_ns) == ("running", START_NS + 10 * MS, None)
    assert (alone.n_turns, alone.n_tools_failed, alone.model_tokens) == (2, 1, 240)
    assert read_spans(journal(children)).missing == {0, 1, 2, 3, 4}
    assert fold(*children, root) == fold(root, *children)


def test_case_21_a_parent_that_is_never_exported_is_stood_in_for_by_the_topmost_agent() -> None:
    """The caller's span lives elsewhere: the agent's own span ends the run, and the status says that it is judged."""
    agent = span(1, "agent", parent="00000000000000ff", ms=1000, data={"task": "t", "agent": "a"})
    run = fold(agent, *agent_run()[1:])
    assert (run.status, run.status_reason, run.task, run.agent) == ("completed", GUESSED, "t", "a")
    late = span(9, "tool", parent="00000000000000ff", start=2000)
    assert fold(agent, late).status == "running"


def test_case_23_an_unfinished_copy_steps_back_behind_the_finished_one() -> None:
    """End before start, start without end, two workers that send both: totals are right in every order."""
    asked = {"model": "m", "input_tokens": 10, "output_tokens": 5}
    started = [span(1, "agent", ms=None), span(2, "model", parent=1, ms=None), span(3, "tool", parent=1, ms=None)]
    ended = [span(1, "agent"), span(2, "model", parent=1, data=asked), span(3, "tool", parent=1, error="no")]
    running = fold(*started)
    assert (running.status, running.n_turns, running.n_tool_calls, running.n_tools_failed) == ("running", 1, 1, 0)
    chance = random.Random(23)
    both = [*started, *ended, *started, *ended]
    for _ in range(20):
        chance.shuffle(both)
        run = fold(*both)
        assert (run.status, run.n_turns, run.n_tool_calls, run.n_tools_failed) == ("completed", 1, 1, 1)
        assert (run.model_tokens, run.n_events) == (15, 6)


def test_case_25_wrappers_that_repeat_usage_count_once() -> None:
    """An agent, a chain and a model's wrapper with the same tokens as the model's span inside: counted once."""
    used = {"input_tokens": 100, "output_tokens": 20}
    events = [
        span(1, "agent", ms=100, data=used), span(2, "chain", parent=1, ms=90, data=used),
        span(3, "model", parent=2, ms=80, data=used), span(4, "span", parent=3, ms=70, data=used),
        span(5, "model", parent=4, ms=60, data=used), span(6, "model", parent=2, start=81, ms=5),
        span(7, "model", parent=6, start=82, ms=2, data=used),
    ]  # fmt: skip
    run = fold(*events)
    assert (run.model_tokens, run.n_turns) == (240, 2)
    assert fold(*reversed(events)) == run


def test_case_25_a_call_told_by_the_agent_and_by_its_mcp_client_counts_once() -> None:
    """`execute_tool` with the client's `tools/call` inside is one call of that server."""
    run = fold(
        span(1, "agent", ms=100), span(2, "tool", parent=1, ms=50, tool="fetch", error="x"),
        span(3, "mcp", parent=2, ms=40, type="tool.failed", tool="fetch", mcp_server="web", error="x"),
        span(4, "tool", parent=1, start=60, tool="fetch"),
    )  # fmt: skip
    assert (run.n_tool_calls, run.n_tools_failed, run.mcp_servers) == (2, 1, ("web",))


@pytest.mark.parametrize(
    ("begun", "ended", "took"),
    [
        (START_NS, START_NS - 1, 0),
        (START_NS, 0, 0),
        (0, 0, 0),
        (START_NS, 2**63 - 1, 0),
        (2**63 - 1, 2**63 - 1, 0),
        (START_NS // 10**9, START_NS // 10**9 + 5, 5),
        (START_NS // 10**6, START_NS, 0),
        (START_NS, START_NS + 27 * 3600 * 1000 * MS, 27 * 3600 * 1000 * MS),
        (56_930_256_000_000_000, 56_930_256_000_000_000 + MS, MS),
    ],
)
def test_case_26_an_impossible_end_is_no_length(begun: int, ended: int, took: int) -> None:
    """End before start, zero, the far future, seconds or milliseconds as nanoseconds: length 0; 27 hours are legal."""
    event = span(1, "agent") | {"occurred_at_unix_nano": begun, "ended_at_unix_nano": ended}
    run = fold(event)
    assert run.status == "completed"
    assert (run.started_ns, (run.ended_ns or 0) - begun) == (begun, took)


def test_case_27_a_childs_wrong_clock_does_not_move_its_run() -> None:
    """7 minutes ahead, 27 hours behind: start and end are those of the root; without it flagged dates give way."""
    root, *children = agent_run()
    astray = [span(8, "tool", parent=1, start=7 * 60_000), span(9, "tool", parent=1, start=-27 * 3_600_000)]
    run = fold(root, *children, *astray)
    assert (run.started_ns, run.ended_ns) == (START_NS, START_NS + 1000 * MS)
    flagged = replace(journal([span(7, parent=1) | {"occurred_at_unix_nano": 5}])[0], repairs=("clock_far",))
    assert fold_run([flagged, *journal(children)]).run.started_ns == START_NS + 10 * MS


# ---- order -----------------------------------------------------------------------------------------------------

NUMBERS = st.integers(1, 7)
KINDS = st.sampled_from(["agent", "chain", "model", "tool", "retriever", "reranker", "span", "mcp", "teapot"])
DOCUMENTS = st.lists(st.fixed_dictionaries({"id": st.sampled_from(["a", "b", ""]), "score": st.floats()}), max_size=3)
SPAN = st.builds(
    lambda number, kind, parent, start, ms, error, documents, tokens: span(
        number, kind, parent=parent, start=start, ms=ms, error=error,
        data={"documents": documents, "input_documents": documents, "output_documents": documents[:1], **tokens},
    ),
    NUMBERS, KINDS, st.none() | st.integers(0, 9), st.integers(-5, 5), st.none() | st.integers(-3, 9),
    st.sampled_from(["", "boom"]), DOCUMENTS, st.sampled_from([{}, {"input_tokens": 3}]),
)  # fmt: skip


@given(st.lists(SPAN, max_size=12), st.randoms(use_true_random=False))
@settings(max_examples=200, deadline=None)
def test_spans_fold_the_same_in_any_order(spans: list[dict[str, Any]], chance: random.Random) -> None:
    """Any spans with any parents, circles and unfinished copies among them: one chain, whatever the order."""
    unique: list[JournalEvent] = journal({event["event_id"]: event for event in spans}.values())
    expected = fold_run(unique)
    again = [replace(event, arrival=chance.randint(1, 99)) for event in unique]
    chance.shuffle(again)
    assert fold_run(again) == expected
    assert expected.run.model_tokens <= 3 * len(unique)
    assert (expected.run.ended_ns or 2**62) >= (expected.run.started_ns or 0)
