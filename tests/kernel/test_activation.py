"""What is searched for, put off, skipped, suppressed and lifted, enumerated on the core alone."""

import json
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import pytest

from contract.hint_api import DEFAULT_HINTS, QUERY_LIMIT, TOOL_ARGUMENTS_LIMIT, TOOL_RESULT_LIMIT
from kernel.core.activation import search_at_boundary, unanswered
from kernel.core.bounds import DEFERRED_ARGUMENTS
from kernel.core.codec import to_json
from kernel.core.situations import situation_of
from kernel.core.state import Candidate
from kernel.core.step import Step
from kernel.core.triggers import RUNTIME_TRIGGERS
from kernel.core.triggers.facts import Facts, Happened, Reason
from kernel.messages import (
    CancelRequested,
    FetchHints,
    HintAnswer,
    HintRequest,
    HintsArrived,
    Limits,
    ModelFailed,
    SentMessage,
    SuppressedItem,
    Switches,
    ToolSpec,
)
from kernel.testing import hint
from tests.kernel.core_run import ROOM, SPEC, CoreRun

KINDS = "alpha bravo charlie delta echo foxtrot golf hotel india juliet kilo lima mike".split()  # noqa: SIM905


def errors(tool: str, *kinds: str) -> list[tuple[str, str]]:
    return [(tool, f"fatal: {kind} is broken") for kind in kinds]


def limited(**limits: int) -> CoreRun:
    return CoreRun(replace(SPEC, limits=replace(ROOM, **limits)))


def asked(run: CoreRun) -> list[str]:
    """Tools of the searches of the last boundary."""
    fetches = [command for command in run.commands if isinstance(command, FetchHints)]
    return [request.tool or "" for fetch in fetches for request in fetch.requests]


def told(run: CoreRun, event_type: str) -> list[dict[str, Any]]:
    return [json.loads(event.data) | {"tool": event.tool} for event in run.reported() if event.type == event_type]


def skipped(run: CoreRun) -> list[tuple[str, str]]:
    return [(data["tool"], data["skip_reason"]) for data in told(run, "activation.skipped")]


# ---- the turn's limit, deferral, fairness


def test_over_the_turn_limit_waits_and_comes_first() -> None:
    """The third situation of a turn is put off, searched for at the next boundary, before that turn's own."""
    run = CoreRun()
    run.turn_failing(*errors("shell", "alpha", "bravo", "charlie"))
    assert asked(run) == ["shell", "shell"]
    assert [data["limit"] for data in told(run, "activation.deferred")] == [2]
    run.answer()
    run.turn_failing(*errors("sql", "delta"))
    assert [request.tool_result for request in run.fetch().requests] == [
        "fatal: charlie is broken",
        "fatal: delta is broken",
    ]
    assert skipped(run) == []


def test_a_flood_of_one_tool_does_not_starve_another() -> None:
    """However many errors one tool had first, the other tool's new error is searched for at the next boundary."""
    run = CoreRun()
    run.turn_failing(*errors("shell", *KINDS[:9]), *errors("sql", "mike"))
    assert asked(run) == ["shell", "shell"]
    assert [candidate.tool for candidate in run.state.activation.deferred] == ["shell", "sql", "shell", "shell"]
    assert skipped(run) == [("shell", "turn_cap")] * 4
    run.answer()
    run.reply("git_status")
    run.finish("c1")
    assert asked(run) == ["shell", "sql"]
    assert skipped(run)[4:] == [("shell", "turn_cap")] * 2
    assert [candidate.trigger for candidate in run.state.activation.deferred] == ["mcp.first_call"]


def test_what_waited_in_vain_may_come_again() -> None:
    """A situation skipped after waiting was never searched for, so its next occurrence is."""
    run = limited(activations_per_turn=1)
    run.turn_failing(*errors("shell", "alpha", "bravo", "charlie"))
    run.answer()
    run.turn_failing(("sql", "fatal: delta is broken"))
    assert [request.tool_result for request in run.fetch().requests] == ["fatal: bravo is broken"]
    assert skipped(run) == [("shell", "turn_cap")]  # charlie, which had waited behind bravo
    run.answer()
    run.reply("shell")
    run.fail("c1", "fatal: charlie is broken")
    assert "duplicate_situation" not in [reason for _, reason in skipped(run)]
    assert [c.tool_result for c in run.state.activation.deferred] == ["fatal: charlie is broken"]


def test_a_waiting_situation_is_not_put_off_twice() -> None:
    """While one waits, the same situation again is a duplicate of it, named by its activation."""
    run = limited(activations_per_turn=1)
    run.turn_failing(*errors("shell", "alpha", "bravo", "bravo"))
    (skip,) = told(run, "activation.skipped")
    assert (skip["skip_reason"], skip["same_as"]) == ("duplicate_situation", "r-1:a2")
    assert len(run.state.activation.deferred) == 1


def test_what_waits_when_the_run_ends_is_reported() -> None:
    """A deferred search that can no longer be made is skipped as run_ended before the terminal event."""
    run = limited(activations_per_turn=1)
    run.turn_failing(*errors("shell", "alpha", "bravo"))
    run.answer()
    run.reply()
    assert skipped(run) == [("shell", "run_ended")]
    assert run.reported()[-1].type == "run.completed"


# ---- the limits of the run, each with its own word


@pytest.mark.parametrize(
    ("limits", "turns", "reason", "limit"),
    [
        ({"activations_per_run": 2}, ["shell", "sql", "shell"], "run_cap", 2),
        ({"activations_per_tool": 2}, ["shell", "shell", "shell"], "tool_cap", 2),
        ({"tokens_per_run": 0}, ["shell"], "budget_spent", 0),
        ({"max_turns": 1}, ["shell"], "final_turn", 1),
    ],
)
def test_limits_of_the_run(limits: dict[str, int], turns: list[str], reason: str, limit: int) -> None:
    """The search over a limit is skipped with the limit's word and number; those before it are made."""
    run = limited(**limits)
    for index, tool in enumerate(turns):
        run.turn_failing((tool, f"fatal: {KINDS[index]} is broken"))
        run.answer_if_asked()
    (skip,) = told(run, "activation.skipped")
    assert (skip["skip_reason"], skip["limit"]) == (reason, limit)
    assert run.state.activation.count == len(turns) - 1
    assert run.state.phase == "calling"


def test_the_share_of_one_tool_leaves_others_theirs() -> None:
    """Four searches for one tool are its share; another tool's error is still searched for."""
    run = CoreRun()
    for kind in KINDS[:5]:
        run.turn_failing(*errors("shell", kind))
        run.answer_if_asked()
    assert skipped(run) == [("shell", "tool_cap")]
    run.turn_failing(*errors("sql", "alpha"))
    assert asked(run) == ["sql"]


def test_a_server_and_a_tool_of_one_name_have_separate_shares() -> None:
    """The share of the tool `git` is not that of the MCP server `git`."""
    run = CoreRun(replace(SPEC, limits=Limits(activations_per_tool=1)), (ToolSpec("git"), ToolSpec("log", "git")))
    run.turn_failing(("git", "fatal: alpha"), ("log", "fatal: bravo"))
    assert asked(run) == ["git", "log"]


@pytest.mark.parametrize(
    ("switches", "reason"),
    [
        (Switches(off=("task.priming",), activation=False), "activation_off"),
        (Switches(off=("task.priming", "tool.failed")), "trigger_off"),
    ],
)
def test_switches_are_judged_before_limits(switches: Switches, reason: str) -> None:
    """What is off is skipped for that, also where a limit stands against it as well."""
    run = CoreRun(replace(SPEC, switches=switches, limits=Limits(max_turns=1)))
    run.turn_failing(*errors("shell", "alpha"))
    assert skipped(run) == [("shell", reason)]


def test_a_failure_without_text_is_not_searched_for() -> None:
    """There is nothing to search with, and the record says so; another failure of the tool is searched for."""
    run = CoreRun()
    run.turn_failing(("shell", "  \n"), ("shell", "fatal: no"))
    assert skipped(run) == [("shell", "no_diagnostic")]
    assert asked(run) == ["shell"]


# ---- the request


def test_request_of_a_failure() -> None:
    """All fields of a request, within the limits of the hints API, with the original task."""
    spec = replace(SPEC, task="t" * 5_000, task_id="t-1", actor_id="a", team_root="r-0", skills=("git",))
    run = CoreRun(spec)
    run.reply("git_status")
    run.finish(
        "c1",
        status="timed_out",
        diagnostic="d" * 9_000,
        error_class="timeout",
        effect="uncertain",
        tool_arguments="a" * 2_000,
    )
    (request,) = run.fetch().requests
    failed = next(event for event in run.reported() if event.type == "tool.failed")
    assert request == HintRequest(
        activation_id="r-1:a1",
        trigger="tool.failed",
        source_event_id=failed.event_id,
        run_id="r-1",
        task_id="t-1",
        actor_id="a",
        team_root="r-0",
        query=request.query,
        tool="git_status",
        mcp_server="git",
        tool_result=request.tool_result,
        tool_arguments=request.tool_arguments,
        error_class="timeout",
        active_skills=("git",),
        limit=DEFAULT_HINTS,
        activation_tokens=400,
        run_tokens=1_600,
        hint_limit=2,
    )
    assert len(request.query) == QUERY_LIMIT
    assert len(request.tool_result) == TOOL_RESULT_LIMIT
    assert len(request.tool_arguments) == TOOL_ARGUMENTS_LIMIT
    assert run.fetch().timeout_ms == 2_000


def test_request_of_a_first_call() -> None:
    """The server's key comes from the registration, the result is a bounded excerpt of the first success."""
    run = CoreRun()
    run.reply("git_status")
    run.finish("c1", excerpt="On branch main")
    (request,) = run.fetch().requests
    assert (request.trigger, request.mcp_server, request.tool) == ("mcp.first_call", "git", "git_status")
    assert (request.tool_result, request.error_class) == ("On branch main", "")


def test_request_of_priming_has_its_own_room() -> None:
    """At the start the whole priming budget is offered, and nothing of the runtime budget is spent."""
    run = CoreRun(replace(SPEC, switches=Switches()))
    (request,) = run.fetch().requests
    assert (request.trigger, request.activation_tokens, request.hint_limit) == ("task.priming", 600, 4)
    assert (request.tool, request.tool_result) == (None, "")
    run.answer(hint("k-1"))
    assert run.state.activation.tokens_used == 0
    assert run.state.activation.issued == ("k-1",)
    assert run.state.activation.count == 0


def test_the_failure_names_its_situation() -> None:
    """The event of a failure carries the keys its search is known by, also when nothing is searched for."""
    run = CoreRun(replace(SPEC, switches=Switches(off=("task.priming",), activation=False)))
    run.turn_failing(("shell", "no module named 'a'"), ("shell", "no module named 'b'"))
    first, second = told(run, "tool.failed")
    assert first["situation_key"] != second["situation_key"]
    assert first["situation_class"] == second["situation_class"]
    assert [data["situation_key"] for data in told(run, "activation.skipped")] == [
        first["situation_key"],
        second["situation_key"],
    ]


def test_situations_differ_in_trigger_scope_class_and_text() -> None:
    """Each part of a situation tells it from others."""
    parts = ("tool.failed", "tool:shell", "exit_nonzero", "fatal: no")
    others = [tuple("x" if index == place else part for index, part in enumerate(parts)) for place in range(4)]
    keys = [situation_of(*one).key for one in (parts, *others)]  # type: ignore[arg-type]
    assert len({*keys}) == 5


# ---- answers: issued, suppressed, lifted


def test_suppressed_until_it_would_fit() -> None:
    """What did not fit beside another is not offered again at once, and is once a block of its own would fit."""
    run = limited(tokens_per_activation=200)
    middle = hint("k-mid", "word " * 70)
    run.turn_failing(*errors("shell", "alpha"))
    run.answer(hint("k-1", "word " * 60), middle)
    assert run.state.activation.issued == ("k-1",)
    (kept,) = run.state.activation.suppressed
    assert (kept.knowledge_id, kept.reason) == ("k-mid", "activation_tokens")
    run.turn_failing(*errors("shell", "bravo"))
    assert run.fetch().requests[0].suppressed == ()  # 200 tokens would hold it alone
    run.answer(middle)
    assert run.state.activation.issued == ("k-1", "k-mid")
    assert run.state.activation.suppressed == ()


def test_suppressed_for_good_when_it_can_never_fit() -> None:
    """A hint larger than any block is not offered again, run after run of errors, and is never issued."""
    run = CoreRun()
    for kind in KINDS[:3]:
        run.turn_failing(*errors("shell", kind))
        assert run.fetch().requests[0].suppressed == ((SuppressedItem("k-big", 1),) if kind != "alpha" else ())
        run.answer(*((hint("k-big", "word " * 500),) if kind == "alpha" else ()))
    assert run.state.activation.issued == ()


def test_a_new_revision_is_judged_anew() -> None:
    """When Observation offers a smaller revision of what was suppressed, it goes in and is no longer suppressed."""
    run = CoreRun()
    run.turn_failing(*errors("shell", "alpha"))
    run.answer(hint("k-1", "word " * 500))
    run.turn_failing(*errors("shell", "bravo"))
    run.answer(hint("k-1", "short", revision=2))
    assert (run.state.activation.issued, run.state.activation.suppressed) == (("k-1",), ())


def test_over_the_hint_limit_is_offered_again() -> None:
    """Only the number of hints stood against it, and that starts anew with each activation."""
    run = CoreRun()
    run.turn_failing(*errors("shell", "alpha"))
    run.answer(hint("k-1"), hint("k-2"), hint("k-3"))
    run.turn_failing(*errors("shell", "bravo"))
    (request,) = run.fetch().requests
    assert (request.issued_knowledge_ids, request.suppressed) == (("k-1", "k-2"), ())


def test_two_activations_of_a_boundary_share_the_run_budget() -> None:
    """The second block has what the first left; the same knowledge stands in the history once."""
    run = limited(tokens_per_run=150)
    run.turn_failing(*errors("shell", "alpha"), *errors("sql", "bravo"))
    run.answer(hint("k-1", "word " * 30))
    drops = [data for data in told(run, "hint.delivery") if data["stage"] == "dropped"]
    assert [data["drop_reason"] for data in drops] == ["already_issued"]
    run.turn_failing(*errors("sql", "charlie"))
    used = run.state.activation.tokens_used
    assert run.fetch().requests[0].run_tokens == 150 - used
    run.answer(hint("k-2", "word " * 30))
    last = told(run, "hint.delivery")[-1]
    assert (last["drop_reason"], last["limit"]) == ("run_tokens", 150)
    assert last["needed"] > last["left"] == 150 - used
    assert told(run, "activation.completed")[-1]["tokens_left"] == 150 - used


@pytest.mark.parametrize(
    ("answers", "result"),
    [
        ((), "error"),
        ((HintAnswer("r-1:a9", "success", (hint("k-1"),)),), "error"),
        ((HintAnswer("r-1:a1", "splendid", (hint("k-1"),)),), "error"),
        ((HintAnswer("r-1:a1", "timeout", (hint("k-1"),)),), "timeout"),
        ((HintAnswer("r-1:a1", "success"),), "empty"),
    ],
)
def test_nonsense_costs_the_run_nothing(answers: tuple[HintAnswer, ...], result: str) -> None:
    """An answer that is no answer is reported as such, injects nothing, and its situation counts as handled."""
    run = CoreRun()
    run.turn_failing(*errors("shell", "alpha"))
    run.see(HintsArrived(run.tick(), run.tick(), answers))
    assert run.state.phase == "calling"
    assert [data["result"] for data in told(run, "activation.completed")] == [result]
    assert all(append.message.role == "tool" for append in run.commands[-1].append)  # type: ignore[union-attr]
    run.turn_failing(*errors("shell", "alpha"))
    assert skipped(run) == [("shell", "duplicate_situation")]


def test_a_lost_retrieval_answers_for_every_activation() -> None:
    """When the call is lost, each activation has the result the runner saw."""
    run = CoreRun()
    run.turn_failing(*errors("shell", "alpha"), *errors("sql", "bravo"))
    run.see(unanswered(run.fetch(), run.tick(), run.tick(), "timeout", "no answer in time"))
    assert [(data["result"], data["error"]) for data in told(run, "activation.completed")] == [
        ("timeout", "no answer in time")
    ] * 2


def test_shadow_counts_nothing_as_issued() -> None:
    """In shadow mode the choice is made and reported, and neither history nor budget nor offers change."""
    run = CoreRun(replace(SPEC, switches=Switches(off=("task.priming",), shadow=True)))
    run.turn_failing(*errors("shell", "alpha"))
    run.answer(hint("k-1"), hint("k-2"), hint("k-3"), hint("k-big", "word " * 500))
    drops = [data["drop_reason"] for data in told(run, "hint.delivery")]
    assert drops == ["shadow", "shadow", "hint_limit", "hint_limit"]
    activation = run.state.activation
    assert (activation.issued, activation.suppressed, activation.tokens_used) == ((), (), 0)


def test_a_cancelled_search_is_closed_in_the_record() -> None:
    """Every requested activation has an end, also when the run is cancelled while it is awaited."""
    run = CoreRun()
    run.turn_failing(*errors("shell", "alpha"), *errors("sql", "bravo"))
    run.see(CancelRequested(run.tick()))
    assert [data["result"] for data in told(run, "activation.completed")] == ["error", "error"]


def stages(run: CoreRun) -> list[tuple[str, str | None]]:
    return [(data["stage"], data.get("drop_reason")) for data in told(run, "hint.delivery")]


def test_injected_is_what_a_request_is_known_to_have_carried() -> None:
    """A placed hint stays selected while no request reports it, and is injected when one does, once."""
    run = CoreRun()
    run.turn_failing(*errors("shell", "alpha"))
    run.answer(hint("k-1"))
    (placed,) = run.state.placed
    run.reply("sql")
    assert stages(run) == [("selected", None)]
    run.finish("c1")
    run.reply("sql", sent=(SentMessage(placed.seq, 4, "abc"),))
    run.finish("c1")
    run.reply("sql", sent=(SentMessage(placed.seq, 4, "abc"),))
    assert stages(run) == [("selected", None), ("injected", None)]
    data = told(run, "hint.delivery")[-1]
    assert (data["position"], data["message_hash"]) == (4, "abc")
    requests = [event.event_id for event in run.reported() if event.type == "model.requested"]
    assert data["request_event_id"] == requests[2]


@pytest.mark.parametrize("end", ["cancelled", "failed", "limit_reached"])
def test_placed_and_never_sent_is_dropped(end: str) -> None:
    """What stood ready for a request that is not known to have gone out is dropped as run_ended, before the end."""
    run = limited(max_turns=3 if end == "limit_reached" else 40)
    run.turn_failing(*errors("shell", "alpha"))
    run.answer(hint("k-1"))
    if end == "cancelled":
        run.see(CancelRequested(run.tick()))
    elif end == "failed":
        run.see(ModelFailed(run.tick(), run.tick(), "timeout", "no answer"))
    else:
        for _ in range(2):
            run.reply("sql")
            run.finish("c1")
        run.reply()
    assert stages(run) == [("selected", None), ("dropped", "run_ended")]
    assert run.reported()[-1].type == f"run.{end}"


def test_a_new_workflow_run_is_not_started_before_the_first_turn() -> None:
    """A suggestion during priming waits for the first boundary of a turn."""
    run = CoreRun(replace(SPEC, switches=Switches()))
    answer = HintAnswer("r-1:a1", "success", (hint("k-1"),))
    run.see(HintsArrived(run.tick(), run.tick(), (answer,), continue_suggested=True))
    assert run.state.phase == "calling"
    run.reply("sql")
    run.finish("c1")
    assert run.state.phase == "continuing"


# ---- extending


class SecondSuccess:
    """A trigger of another kind: the second success of a tool in one turn."""

    name = "tool.succeeded_twice"
    needs_text = False

    def reasons(self, facts: Facts) -> Iterable[Reason]:
        done = [place for place, happened in enumerate(facts.happened) if happened.status == "ok"]
        for place in done[1:2]:
            source = facts.happened[place].event_id
            yield Reason(place, Candidate(self.name, source, "a second success", tool=facts.happened[place].tool))


def test_a_new_trigger_needs_no_change_of_the_loop() -> None:
    """One class in the list of triggers is searched for, budgeted and reported like the others."""
    run = CoreRun()
    step = Step(run.state)
    happened = tuple(Happened(f"r-1:{n}", "shell", None, "ok", True) for n in (7, 8))
    search_at_boundary(step, 1, happened, (*RUNTIME_TRIGGERS, SecondSuccess()))
    (fetch,) = step.commands
    assert isinstance(fetch, FetchHints)
    assert [(one.trigger, one.source_event_id) for one in fetch.requests] == [("tool.succeeded_twice", "r-1:8")]


def test_a_long_diagnostic_keeps_its_end() -> None:
    """What is searched with when there is little room has the last line of a traceback: that is where the error is."""
    run = limited(activations_per_turn=1)
    trace = "Traceback (most recent call last):\n" + '  File "a.py", line 1, in f\n' * 120
    failures = [("shell", f"{trace}ValueError: {kind} is wrong") for kind in KINDS[:6]]
    run.turn_failing(*failures)
    assert "ValueError: alpha is wrong" in run.fetch().requests[0].tool_result
    run.answer()
    run.reply("sql")
    run.finish("c1")
    (request,) = run.fetch().requests
    assert request.tool_result.endswith("ValueError: bravo is wrong") and len(request.tool_result) <= 600


def test_what_was_called_is_asked_with_now_and_later() -> None:
    """Each search has its own call's arguments, the one put off has their start; none stays in the state after it."""
    run = limited(activations_per_turn=1)
    run.reply("shell", "sql")
    command, query = "git push origin main", "SELECT " + "x" * 900
    run.fail("c1", "fatal: alpha is broken", tool_arguments=command)
    run.fail("c2", "fatal: bravo is broken", tool_arguments=query)
    assert [request.tool_arguments for request in run.fetch().requests] == [command]
    (deferred,) = run.state.activation.deferred
    assert query.startswith(deferred.tool_arguments) and len(deferred.tool_arguments) == DEFERRED_ARGUMENTS
    assert command not in to_json(replace(run.state, calls=())), "what is asked for is carried by the command alone"
    run.answer()
    run.reply("shell")
    run.finish("c1")
    assert [request.tool_arguments for request in run.fetch().requests] == [deferred.tool_arguments]
    run.answer()
    run.reply("shell")
    assert "SELECT" not in to_json(run.state)


def test_a_first_call_and_priming_say_nothing_of_arguments() -> None:
    """Nothing is searched with them there, so they are not asked with, whatever an edge says of a success."""
    run = CoreRun(replace(SPEC, switches=Switches()))
    assert [request.tool_arguments for request in run.fetch().requests] == [""]
    run.answer()
    run.reply("git_status")
    run.finish("c1", excerpt="On branch main", tool_arguments="git status")
    (request,) = run.fetch().requests
    assert (request.trigger, request.tool_arguments) == ("mcp.first_call", "")
