"""Defects of the core that random runs found, each as the shortest run that shows it."""

from dataclasses import replace

from kernel.core.history import check_history
from kernel.messages import (
    CallModel,
    CancelRequested,
    CloseTranscript,
    FetchHints,
    Hint,
    HintAnswer,
    HintsArrived,
    Limits,
    Message,
    ModelFailed,
    ModelReplied,
    ToolCall,
    ToolFinished,
)
from tests.kernel.core_run import SPEC, CoreRun
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
