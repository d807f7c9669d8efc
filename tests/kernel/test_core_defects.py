"""Defects of the core that random runs found, each as the shortest run that shows it."""

import json
from dataclasses import replace

import pytest

from kernel.core.history import check_history
from kernel.messages import (
    CallModel,
    CallSeen,
    CancelRequested,
    CloseTranscript,
    DelegateFinished,
    FetchHints,
    Finish,
    Hint,
    HintAnswer,
    HintsArrived,
    Limits,
    Member,
    Message,
    ModelFailed,
    ModelReplied,
    ToolCall,
    ToolFinished,
    ToolSpec,
)
from tests.kernel.core_run import SPEC, TOOLS, CoreRun
from tests.kernel.machine_calls import View
from tests.kernel.machine_draws import Shape
from tests.kernel.machine_history import History


def _reply(run: CoreRun, history: History, *shapes: Shape) -> None:
    """Let the model write calls, as its edge does."""
    command = next(one for one in run.commands if isinstance(one, CallModel))
    calls = [ToolCall(f"c-{place}", shape.name, shape.arg) for place, shape in enumerate(shapes)]
    views = [View(call, shape, f"{shape}", 0) for call, shape in zip(calls, shapes, strict=True)]
    history.append_all(command.append)
    history.write(command.reply_seq, Message("assistant", "", "model", tuple(calls)))
    run.see(ModelReplied(run.tick(), run.tick(), tuple(view.seen() for view in views)))


def test_a_run_cancelled_before_its_request_was_begun_still_gets_its_replies_written() -> None:
    """The replies a request was to write are written when the run ends instead."""
    run, history = CoreRun(), History(SPEC)
    _reply(run, history, Shape("ghost"))
    run.see(CancelRequested(run.tick()))
    for command in run.commands:
        if isinstance(command, CloseTranscript):
            history.close(command)
    check_history(history.whole())


def test_a_copy_of_a_lost_call_reads_as_what_stands_in_the_history() -> None:
    """The edge was lost after it had written the reply: the copy has that reply, as what is written first stays."""
    run, history = CoreRun(), History(SPEC)
    _reply(run, history, Shape("shell"), Shape("shell"))
    history.write(3, Message("tool", "the real output", "tool", call_id="c-0"))
    run.see(ToolFinished(run.tick(), run.tick(), "c-0", "timed_out", "uncertain", "lost", reply_written=False))
    history.append_all(next(one for one in run.commands if isinstance(one, CallModel)).append)
    assert history.entries[4].text == history.entries[3].text == "the real output"


def test_an_item_offered_twice_in_one_answer_is_not_both_issued_and_suppressed() -> None:
    """What was placed is kept back no longer, also when the same answer offered it in a form that did not fit."""
    run, history = CoreRun(replace(SPEC, limits=Limits(tokens_per_activation=120))), History(SPEC)
    _reply(run, history, Shape("shell"))
    run.see(ToolFinished(run.tick(), run.tick(), "c-0", "failed", "none", "x", "error: no such table"))
    asked = next(one for one in run.commands if isinstance(one, FetchHints)).requests[0]
    large, small = Hint("h-1", "k-1", 2, "x" * 3_000, "confirmed"), Hint("h-2", "k-1", 1, "Rule.", "confirmed")
    run.see(HintsArrived(run.tick(), run.tick(), (HintAnswer(asked.activation_id, "success", (large, small)),)))
    kept = {one.knowledge_id for one in run.state.activation.suppressed}
    assert not kept & set(run.state.activation.issued)


def test_an_item_dropped_twice_in_one_answer_is_suppressed_once() -> None:
    """The suppressed items of a request name each item once."""
    run, history = CoreRun(replace(SPEC, limits=Limits(tokens_per_activation=120))), History(SPEC)
    _reply(run, history, Shape("shell"))
    run.see(ToolFinished(run.tick(), run.tick(), "c-0", "failed", "none", "x", "error: no such table"))
    asked = next(one for one in run.commands if isinstance(one, FetchHints)).requests[0]
    hints = tuple(Hint(f"h-{revision}", "k-1", revision, "x" * 3_000, "confirmed") for revision in (1, 2))
    run.see(HintsArrived(run.tick(), run.tick(), (HintAnswer(asked.activation_id, "success", hints),)))
    assert [one.knowledge_id for one in run.state.activation.suppressed] == ["k-1"]


def test_a_reply_that_was_written_and_never_heard_of_leaves_no_open_call() -> None:
    """The edge wrote the model's reply and only then was lost for good: the run fails, and its calls are answered."""
    run, history = CoreRun(), History(SPEC)
    command = next(one for one in run.commands if isinstance(one, CallModel))
    history.write(command.reply_seq, Message("assistant", "", "model", (ToolCall("c-0", "shell", "{}"),)))
    run.see(ModelFailed(run.tick(), run.tick(), "model_lost", "the worker was lost"))
    for one in run.commands:
        if isinstance(one, CloseTranscript):
            history.close(one)
    check_history(history.whole())


ESCALATE = ToolSpec("escalate", kind="escalate")


def test_an_ask_like_a_call_before_it_still_ends_the_run() -> None:
    """A driver passes an ask on and then ends in the same one: the second is no copy of the first."""
    run = CoreRun(SPEC, (*TOOLS, ESCALATE))
    calls = (CallSeen("c1", "escalate", "d", "{}"), CallSeen("c2", "escalate", "d", "{}", escalates="needs a key"))
    run.see(ModelReplied(run.tick(), run.tick(), calls))
    assert run.commands[-1] == Finish("r-1", "escalated", "", "needs a key")


def test_a_forged_ask_like_a_call_before_it_is_no_copy() -> None:
    """Where asking is not offered the same reply fails the run."""
    run = CoreRun()
    calls = (CallSeen("c1", "escalate", "d", "{}"), CallSeen("c2", "escalate", "d", "{}", escalates="needs a key"))
    run.see(ModelReplied(run.tick(), run.tick(), calls))
    assert run.commands[-1] == Finish("r-1", "failed", "", "tool_unavailable")


def test_a_forged_ask_after_a_call_is_not_told_to_have_had_an_effect() -> None:
    """The call before it had ended, so nothing ran when its envelope ended the run."""
    run = CoreRun()
    calls = (CallSeen("c1", "shell", "d1", "{}"), CallSeen("c2", "escalate", "d2", "{}", escalates="needs a key"))
    run.see(ModelReplied(run.tick(), run.tick(), calls))
    run.finish("c1")
    (closed,) = [json.loads(event.data) for event in run.events if event.type == "tool.blocked"]
    assert (closed["code"], closed["effect"]) == ("run_failed", "none")


@pytest.mark.parametrize("n", [2_000, 5_000])
def test_long_metadata_does_not_break_the_end(n: int) -> None:
    """What is over the limit is left out and told, never cut in the middle of its JSON."""
    run = CoreRun()
    run.see(ModelReplied(run.tick(), run.tick(), failed="no", metadata=json.dumps({"log": "x" * n})))
    (end,) = [json.loads(event.data) for event in run.events if event.type == "run.failed"]
    assert list(end["metadata"]) == (["log"] if n == 2_000 else ["left_out"])


def test_a_run_that_delegated_does_not_say_that_nothing_was_executed() -> None:
    """The fixed text at a limit lists what others did for the run as well."""
    run = CoreRun(replace(SPEC, limits=Limits(max_turns=1), members=(Member("bob"),)))
    run.ask(("delegate", {"member": "bob", "task": "it"}))
    run.see(DelegateFinished(run.tick(), "c1", "completed", "done"))
    run.see(ModelFailed(run.tick(), run.tick(), "model_timeout", "no answer"))
    assert run.commands[-1].status == "limit_reached"
    assert run.commands[-1].answer.splitlines()[-1].startswith("- delegate ")


def test_a_copy_says_how_its_call_ended() -> None:
    """The status and code of the reply that is copied stand in the copy."""
    run, history = CoreRun(), History(SPEC)
    _reply(run, history, Shape("ghost"), Shape("ghost"))
    history.append_all(next(one for one in run.commands if isinstance(one, CallModel)).append)
    told = [(history.entries[seq].status, history.entries[seq].code) for seq in (3, 4)]
    assert told == [("denied", "tool_unavailable")] * 2
