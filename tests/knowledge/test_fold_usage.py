"""`usage.v2`: used, ignored, resolved and outcome are read from the calls that followed, with their evidence."""

import json
from typing import Any

import pytest

from knowledge.chain_facts import ActivationFacts, CandidateFacts
from knowledge.fold import fold_run
from knowledge.usage import actions_of
from tests.knowledge.streams import run_of

Event = tuple[str, dict[str, Any]]
END: Event = ("run.completed", {"data": {"answer": "Done."}})
SITUATION = {"situation_class": "s-1"}


def call(command: str, call_id: str, status: str = "completed", **data: Any) -> tuple[Event, Event]:
    """Return a call's two events."""
    ids = {"tool": "shell", "call_id": call_id}
    arguments = {"data": {"arguments": json.dumps({"command": command})}}
    return ("tool.requested", {**ids, **arguments}), (f"tool.{status}", {**ids, "data": data})


def injected(proposition: str) -> tuple[Event, ...]:
    """Return the failed commit (r-1:1, r-1:2), its search and the request (r-1:5) that carried the hint."""
    hint = {"activation_id": "r-1:a1", "hint_id": "h1", "knowledge_id": "k-1"}
    searched = {"activation_id": "r-1:a1", "caused_by": "r-1:2", "tool": "shell"}
    data = {"trigger": "tool.failed", **SITUATION}
    return (
        *call("git commit -m first", "c1", "failed", detail="not a git repository"),
        ("activation.requested", {**searched, "data": data}),
        ("hint.offered", {**hint, "data": {"revision": 1, "proposition": proposition, "algorithm_version": "v2"}}),
        ("model.requested", {"data": {"n_messages": 5}}),
        ("hint.delivery", {**hint, "data": {"stage": "injected", "request_event_id": "r-1:5"}}),
    )


def fold(*events: Event) -> tuple[ActivationFacts, CandidateFacts]:
    chain = fold_run(run_of(*events))
    return chain.activations[0], chain.candidates[0]


RULE = "When git finds no repository run `git init` and try again."


def again(call_id: str) -> tuple[Event, Event]:
    """Return the same command failing in the same situation."""
    return call("git commit -m first", call_id, "failed", **SITUATION)


def test_used_with_evidence_and_helpful() -> None:
    """The hint's command is run and the failed one then ends well: used, helpful, each with the event that shows it."""
    activation, hint = fold(
        *injected(RULE), *call("git init", "c2"), *call("git commit -m first", "c3"), *call("ls", "c4")
    )
    assert (hint.used_ns, hint.usage_source) == (7_000_000, "usage.v2")
    assert hint.evidence["usage"] == {"event_id": "r-1:7", "words": ["git", "init"]}
    assert (activation.resolved, activation.resolved_event_id) == (True, "r-1:10")
    assert (hint.outcome, hint.outcome_source) == ("helpful", "usage.v2")
    assert hint.evidence["outcome"]["event_id"] == "r-1:10"


def test_the_next_obstacle_shows_that_this_one_is_passed() -> None:
    """Repeated and failing in another situation, the call got past the first one; in an unknown one it may not have."""
    fixed = (*injected(RULE), *call("git init", "c2"))
    other = {"situation_class": "s-2", "detail": "tell me who you are"}
    activation, hint = fold(*fixed, *call("git commit -m first", "c3", "failed", **other), END)
    assert (activation.resolved, activation.resolved_event_id, hint.outcome) == (True, "r-1:10", "helpful")
    activation, hint = fold(*fixed, *call("git commit -m first", "c3", "failed"), END)
    assert (activation.resolved, hint.outcome) == (None, "")


def test_word_known_before_is_no_evidence() -> None:
    """Words that calls held before the hint show nothing: there must be a new one."""
    _, hint = fold(*injected("Run `git commit` again."), *call("git commit -m second", "c2"), END)
    assert (hint.used_ns, hint.ignored_ns, hint.usage_source) == (None, None, "")


def test_call_before_the_injection_is_no_evidence() -> None:
    """The command was run before the hint stood in a request: it was not used."""
    _, hint = fold(*call("git init", "c0"), *injected(RULE)[:-2], *injected(RULE)[-1:], END)
    assert hint.used_ns is None


def test_a_tool_called_by_name_is_use() -> None:
    """A hint that names a tool or an argument is acted on by calling it so, with or without the server's name."""
    ids = {"tool": "git__git_log", "call_id": "c2", "mcp_server": "git"}
    called = ("tool.requested", {**ids, "data": {"arguments": '{"max_count": 5}'}})
    _, hint = fold(*injected("Read the history with `git_log`."), called)
    assert hint.evidence["usage"]["words"] == ["git_log"]
    _, hint = fold(*injected("Limit it by `max_count`."), called)
    assert hint.evidence["usage"]["words"] == ["max_count"]


def test_same_tool_and_argument_names_repeat_nothing() -> None:
    """A failed call is repeated by its values: what every call of the tool is named does not count."""
    failed = call("git log", "c1", "failed")
    activation, _ = fold(*failed, *injected(RULE)[2:], *call("git status", "c2"), END)
    assert activation.resolved is None


def test_ignored_only_when_the_run_is_over() -> None:
    """Until the end the question stays open; then no sign of the hint means ignored, and says what was looked for."""
    events = (*injected(RULE), *call("ls -la", "c2"))
    assert fold(*events)[1].ignored_ns is None
    _, hint = fold(*events, END)
    assert (hint.ignored_ns, hint.used_ns) == (9_000_000, None)
    assert hint.evidence["usage"]["looked_for"] == ["git", "init"]


def test_answer_can_show_use() -> None:
    """Advice that is no call shows in the answer."""
    rule = "Times of this server are UTC: write them as `12:00 UTC+00`."
    _, hint = fold(*injected(rule), ("run.completed", {"data": {"answer": "The meeting is at 12:00 UTC+00."}}))
    assert hint.evidence["usage"] == {"event_id": "r-1:7", "words": ["12:00", "utc+00"]}


def test_used_and_failing_the_same_way_is_harmful() -> None:
    """The hint was acted on and the same situation came back."""
    activation, hint = fold(*injected(RULE), *call("git init", "c2"), *again("c3"))
    assert (activation.resolved, hint.outcome) == (False, "harmful")


def test_used_after_the_failure_came_back_is_neutral() -> None:
    """What came back before the hint was acted on is not the hint's doing."""
    _, hint = fold(*injected(RULE), *again("c2"), *call("git init", "c3"))
    assert (hint.used_ns is not None, hint.outcome) == (True, "neutral")


def test_solved_another_way_is_neutral() -> None:
    """An ignored hint gets no credit for a situation that was resolved without it."""
    activation, hint = fold(*injected(RULE), *call("cd repo", "c2"), *call("cd repo; git commit -m first", "c3"), END)
    assert (activation.resolved, hint.ignored_ns is not None, hint.outcome) == (True, True, "neutral")


def test_success_of_something_else_resolves_nothing() -> None:
    """Other calls going well do not show that the failed one would."""
    activation, _ = fold(*injected(RULE), *call("ls", "c2"), *call("pwd", "c3"), *call("date", "c4"), END)
    assert activation.resolved is None


def test_only_the_next_three_executed_calls_count() -> None:
    """What is blocked or copied does not count; what comes later than the third decides nothing."""
    blocked = call("rm -rf /", "c2", "blocked")
    copied = call("git commit -m first", "c3", duplicate_of="c1")
    three = (*call("a1", "c4"), *call("a2", "c5"), *call("a3", "c6"))
    activation, _ = fold(*injected(RULE), *blocked, *copied, *three, *again("c7"), END)
    assert activation.resolved is None
    activation, _ = fold(*injected(RULE), *blocked, *copied, *three[:4], *again("c7"), END)
    assert activation.resolved is False


def test_situation_of_a_failure_is_known_from_its_own_activation() -> None:
    """A failure that names no situation has that of the activation it caused, also of a skipped one."""
    skipped = {"trigger": "tool.failed", "skip_reason": "duplicate_situation", **SITUATION}
    activation, _ = fold(
        *injected(RULE),
        *call("git commit -m first", "c2", "failed"),
        ("activation.skipped", {"activation_id": "r-1:a2", "caused_by": "r-1:8", "data": skipped}),
    )
    assert (activation.resolved, activation.resolved_event_id) == (False, "r-1:8")


def test_what_is_reported_wins() -> None:
    """A runtime's or person's word stands before the heuristic, and its source is named."""
    ids = {"hint_id": "h1"}
    _, hint = fold(
        *injected(RULE),
        *call("git init", "c2"),
        ("hint.ignored", {**ids, "data": {"evidence": "never read it"}}),
        ("hint.outcome", {**ids, "data": {"outcome": "harmful", "by": "owner"}}),
        ("hint.outcome", {**ids, "data": {"outcome": "neutral", "by": "owner", "note": "on second thought"}}),
    )
    assert (hint.used_ns, hint.ignored_ns, hint.usage_source) == (None, 9_000_000, "reported")
    assert (hint.outcome, hint.outcome_source) == ("neutral", "reported")
    assert hint.evidence["outcome"]["note"] == "on second thought"


def test_report_of_use_counts_without_injection() -> None:
    """Each fact has its own source: reported use does not make an injection."""
    chain = fold_run(run_of(("hint.used", {"activation_id": "r-1:a1", "knowledge_id": "k-1", "data": {}})))
    (hint,) = chain.candidates
    assert (hint.used_ns, hint.injected_ns, chain.run.n_injected) == (1_000_000, None, 0)


def test_later_calls_of_the_same_tool_are_listed() -> None:
    """An activation leads on to the calls that followed it, at most five."""
    other = ("tool.requested", {"tool": "clock", "call_id": "x", "data": {}})
    calls = [event for number in range(7) for event in call("ls", f"n{number}")]
    activation, _ = fold(*injected(RULE), other, *calls)
    assert [entry["call_id"] for entry in activation.later_calls] == ["n0", "n1", "n2", "n3", "n4"]
    assert activation.later_calls[0]["status"] == "ok"


@pytest.mark.parametrize(
    ("proposition", "actions"),
    [
        ("Run `git init` first", [["git", "init"]]),
        ("`pip install -e <folder>`, then `pytest`", [["pip", "install", "-e"], ["pytest"]]),
        ("Set user.email in the config", [["user.email"]]),
        ("Be careful", []),
        ("` `", []),
    ],
)
def test_actions_of_a_proposition(proposition: str, actions: list[list[str]]) -> None:
    """An action is what stands in backticks without its placeholders, else what looks like code."""
    assert actions_of(proposition) == actions


# ---- what priming can show ---------------------------------------------------------------------------------------


def primed(proposition: str, task: str, *after: Event) -> CandidateFacts:
    """Return the candidate of a hint that stood in the first request of a run with that task."""
    hint = {"activation_id": "r-1:a0", "hint_id": "h0", "knowledge_id": "k-0"}
    start = (
        ("run.started", {"data": {"task": task}}),
        ("activation.requested", {"activation_id": "r-1:a0", "data": {"trigger": "task.priming"}}),
        ("hint.offered", {**hint, "data": {"revision": 1, "proposition": proposition, "algorithm_version": "v2"}}),
        ("model.requested", {"turn": 1, "data": {"n_messages": 3}}),
        ("hint.delivery", {**hint, "data": {"stage": "injected", "request_event_id": "r-1:4"}}),
    )
    return fold(*start, *after)[1]


@pytest.mark.parametrize(
    ("proposition", "task", "command", "is_used"),
    [
        ("Build with `make dist parser`.", "Release it", "make dist docs", False),
        ("Build with `make dist parser`.", "Release it", "make dist parser", True),
        ("Build with `make dist parser`.", "Use make dist on the parser", "make dist parser", False),
        ("Sign with `make dist --sign`.", "Run make dist", "make dist --sign", True),
    ],
)
def test_a_hint_that_was_there_from_the_start(proposition: str, task: str, command: str, is_used: bool) -> None:
    """Two words of three are no use of it, nor are words that the task says itself; all of them, one new, are."""
    hint = primed(proposition, task, *call(command, "c1"), END)
    assert (hint.used_ns is not None) is is_used


# ---- what follows a point, in whatever arm -----------------------------------------------------------------------


def served(status: str, number: int) -> tuple[Event, Event]:
    ids = {"tool": "git__log", "mcp_server": "git", "call_id": f"s{number}", "turn": number}
    return ("tool.requested", ids), (f"tool.{status}", ids)


def first_use(*after: Event) -> ActivationFacts:
    """Return the search that the first call to a server set off, and what came of the calls that followed."""
    asked = {"activation_id": "r-1:a1", "caused_by": "r-1:2", "data": {"trigger": "mcp.first_call"}}
    return fold_run(run_of(*served("completed", 1), ("activation.requested", asked), *after)).activations[0]


def test_a_servers_first_use_is_judged_by_the_next_five_calls() -> None:
    """Well when none failed; not told before they are over or the run is, so that no news is known the sooner."""
    fine = [part for number in range(2, 7) for part in served("completed", number)]
    went_well = first_use(*fine, *served("failed", 7))
    assert (went_well.near, went_well.calls_after, went_well.failed_after) == (True, 5, 0)
    early = first_use(*served("failed", 2), *call("ls", "c9", "failed"))
    assert (early.near, early.calls_after, early.failed_after) == (None, 1, 1)
    ended = first_use(*served("failed", 2), *served("completed", 3), END)
    assert (ended.near, ended.calls_after, ended.failed_after) == (False, 2, 1)
    unused = first_use(*call("ls", "c9"), END)
    assert (unused.near, unused.calls_after, unused.turns_after) == (None, 0, 0)


def test_costs_are_counted_until_it_is_resolved() -> None:
    """Turns and tokens up to the call that got past it; failed calls of the tool within what is judged."""
    spent = [
        ("model.completed", {"turn": turn, "data": {"input_tokens": 100, "output_tokens": turn}}) for turn in (2, 3, 4)
    ]
    tries = [
        (kind, {**fields, "turn": turn})
        for turn, pair in ((2, call("git init", "c2", "failed")), (3, call("git commit -m first", "c3")))
        for kind, fields in pair
    ]
    first, *rest = injected(RULE)
    in_turn = [(first[0], {**first[1], "turn": 1}), *((kind, {**fields, "turn": 1}) for kind, fields in rest)]
    activation, _ = fold(*in_turn, *spent, *tries, *call("ls", "c4"))
    assert (activation.near, activation.turns_after, activation.model_tokens_after) == (True, 2, 205)
    assert (activation.calls_after, activation.failed_after) == (3, 1)
