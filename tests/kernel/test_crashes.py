"""A worker that is killed, cut off or frozen in any phase: every run ends properly and nothing happens twice."""

import asyncio
import json
from collections import Counter
from typing import Any

import pytest

from contract.events import TERMINAL_TYPES
from kernel.core.history import check_history
from tests.kernel.crash_phases import ANSWER, PHASES, REASON
from tests.kernel.crash_runs import CALM, CUT, FROZEN, Aftermath, Left, disturb
from tests.kernel.outside import LATE

MATRIX = [
    *(("killed", phase.name) for phase in PHASES),
    *(("cut", name) for name in CUT),
    *(("frozen", name) for name in FROZEN),
]
LOST_TOOL = ["tool", "tool_unwritten"]


@pytest.fixture(scope="module")
def aftermath(temporal_address: str, postgres_url: str, tmp_path_factory: pytest.TempPathFactory) -> Aftermath:
    """One disturbance for all tests of this module."""
    return asyncio.run(disturb(temporal_address, postgres_url, tmp_path_factory.mktemp("crashes")))


def of(aftermath: Aftermath, how: str, phase: str) -> Left:
    left: Left = getattr(aftermath, how)[phase]
    return left


def normal(left: Left) -> list[Any]:
    """The run's requests, one for each that was made again, without what names the run."""
    texts = [json.dumps(request).replace(left.flight.run_id, "RUN") for request in left.requests]
    return [json.loads(text) for n, text in enumerate(texts) if text not in texts[:n]]


def check_nothing_twice(left: Left) -> None:
    check_history(left.messages)
    assert [message.role for message in left.messages[:2]] == ["system", "user"]
    replies = Counter(message.call_id for message in left.messages if message.role == "tool")
    assert set(replies.values()) <= {1}
    told = Counter(
        message.text for message in left.messages if message.role in ("context", "assistant") and message.text
    )
    assert set(told.values()) <= {1}, "no message stands there twice"
    assert sum("<temporality.memory" in message.text for message in left.messages) <= 1

    assert [event["seq"] for event in left.events] == list(range(1, len(left.events) + 1))
    assert [kind for kind in left.types() if kind in TERMINAL_TYPES] == [f"run.{left.result.status}"]
    assert left.types()[0] == "run.started"
    injected = [data["position"] for data in left.data_of("hint.delivery") if data["stage"] == "injected"]
    assert len(injected) == len(set(injected))
    starts = Counter(event["call_id"] for event in left.events if event["type"] == "tool.requested")
    ends = Counter(
        event["call_id"] for event in left.events if event["type"] in ("tool.completed", "tool.failed", "tool.blocked")
    )
    assert starts == ends, "every call has one outcome"
    assert set(starts.values()) <= {1}


@pytest.mark.parametrize(("how", "phase"), MATRIX)
def test_the_run_ends_properly_and_nothing_happens_twice(aftermath: Aftermath, how: str, phase: str) -> None:
    """No message, hint, effect or event twice, no number missing, one end, a legal history."""
    left = of(aftermath, how, phase)
    assert left.result.status == left.flight.phase.status
    check_nothing_twice(left)
    expected = "" if phase in ("reading", "question", "delegate") else "x\n"
    assert left.ran == expected, "what has an effect was executed once"


@pytest.mark.parametrize("phase", CALM)
def test_where_nothing_was_lost_the_model_reads_what_it_would_have_read(aftermath: Aftermath, phase: str) -> None:
    """The requests are those of a run that nobody disturbed; so is what stands in the transcript."""
    calm = aftermath.calm[phase]
    for left in [of(aftermath, how, phase) for how in ("killed", "cut") if phase in getattr(aftermath, how)]:
        assert normal(left) == normal(calm)
        assert [(m.role, m.origin, m.call_id) for m in left.messages] == [
            (m.role, m.origin, m.call_id) for m in calm.messages
        ]
        assert Counter(left.types()) == Counter(calm.types())


def test_a_model_call_is_made_again_with_the_same_request(aftermath: Aftermath) -> None:
    """Before the reply is written it is asked for again, hint included; once it is written it never is."""
    for phase in ("model", "model_unwritten"):
        first, again = aftermath.killed[phase].requests[1:]
        assert first == again
        assert json.dumps(first).count("<temporality.memory") == 1
    assert len(aftermath.cut["model"].requests) == 2


def test_a_tool_with_an_effect_is_not_executed_again(aftermath: Aftermath) -> None:
    """Its effect is uncertain and the reply says to check first; where its reply stood, its real outcome counts."""
    for phase in LOST_TOOL:
        left = aftermath.killed[phase]
        [failed] = left.data_of("tool.failed")
        assert (failed["status"], failed["effect"], failed["error_class"]) == ("timed_out", "uncertain", "interrupted")
        assert "check before you do anything consequential again" in left.messages[3].text
    real = aftermath.cut["tool"]
    assert real.types().count("tool.failed") == 0
    assert real.data_of("tool.completed")[0]["status"] == "ok"


def test_a_reading_tool_may_be_repeated(aftermath: Aftermath) -> None:
    """A call that reads only is made again when its result was lost, and not when its reply is there."""
    assert aftermath.killed["reading"].calls == "x\nx\n"
    assert aftermath.cut["reading"].calls == "x\n"
    for left in (aftermath.killed["reading"], aftermath.cut["reading"]):
        assert left.messages[3].text == "seen"
        assert left.types().count("tool.failed") == 0


def test_a_preparation_is_made_again_only_while_it_has_not_ended(aftermath: Aftermath) -> None:
    """The folders are made anew for the second attempt; what the first found is kept when it had ended."""
    for left in (aftermath.killed["preparation"], aftermath.cut["preparation"]):
        assert left.set_up == "x\n"
        assert left.types().count("run.started") == 1


@pytest.mark.parametrize("how", ["killed", "cut", "frozen"])
def test_a_retrieval_is_one_attempt(aftermath: Aftermath, how: str) -> None:
    """It is not repeated; the run goes on without hints and says that the search timed out."""
    left = of(aftermath, how, "hints")
    assert left.n_searches == 1
    [activation] = left.data_of("activation.completed")
    assert activation["result"] == "timeout"
    assert "<temporality.memory" not in json.dumps(left.requests)


@pytest.mark.parametrize(("how", "phase"), [("killed", "operation"), ("killed", "awaiting"), ("cut", "awaiting"), ("frozen", "awaiting")])  # fmt: skip # noqa: E501
def test_a_lost_operation_is_told_once(aftermath: Aftermath, how: str, phase: str) -> None:
    """It is lost, its effect uncertain; it is reported once and the model reads it once, however it is told."""
    left = of(aftermath, how, phase)
    [failed] = left.data_of("operation.failed")
    assert (failed["status"], failed["effect"], failed["error_class"]) == ("timed_out", "uncertain", "lost")
    assert left.types().count("operation.started") == 1
    told = [message for message in left.messages if "Background operation op-3" in message.text]
    assert [message.role for message in told] == ["tool" if phase == "awaiting" else "context"]


def test_a_person_who_is_waited_for_is_waited_for_still(aftermath: Aftermath) -> None:
    """An approval and a question outlive the worker; the answers count once."""
    assert aftermath.killed["approval"].data_of("approval.decided") == [{"approved": True, "by": "ada"}]
    question = aftermath.killed["question"]
    assert question.data_of("human.answered") == [{"answer": ANSWER, "by": "ada"}]
    assert question.messages[3].text == ANSWER


def test_a_delegate_goes_on_and_ends_once(aftermath: Aftermath) -> None:
    """The child is a run of its own: it ends properly, and the parent is told once."""
    parent = aftermath.killed["delegate"]
    assert parent.child is not None
    check_nothing_twice(parent.child)
    assert [data["status"] for data in parent.data_of("delegate.finished")] == ["completed"]
    assert parent.messages[3].text == parent.child.result.answer


def test_what_was_reported_is_reported_again_as_it_was(aftermath: Aftermath) -> None:
    """A report whose acknowledgement was lost is sent again with the same ids; the numbers tell the copies."""
    outside, left = aftermath.cut["reporting"].flight.kernel.outside, aftermath.cut["reporting"]
    sent = [event["event_id"] for event in outside.events if event["run_id"] == left.flight.run_id]
    assert len(sent) > len(set(sent))
    assert len(left.events) == len(set(sent))


def test_going_on_as_new_is_taken_up(aftermath: Aftermath) -> None:
    """Killed while it waits for its reports before a new workflow run, the run goes on in one."""
    assert aftermath.killed["continuing"].types().count("run.continued") == 1


@pytest.mark.parametrize("how", ["killed", "cut"])
def test_a_cancelled_run_closes_its_transcript(aftermath: Aftermath, how: str) -> None:
    """The call that ran has its neutral reply, and nothing comes after it."""
    left = of(aftermath, how, "closing")
    assert (left.messages[-1].role, left.messages[-1].call_id) == ("tool", "c1-1")
    assert left.types().count("tool.blocked") == 1
    assert len(left.requests) == 1


@pytest.mark.parametrize(("how", "answer"), [("killed", "done"), ("cut", LATE)])
def test_the_last_request_is_made_again_and_its_answer_is_not_lost(aftermath: Aftermath, how: str, answer: str) -> None:
    """It is the same request, announced once; an answer that was written counts, and nothing is asked for again."""
    left = of(aftermath, how, "finale")
    finales = left.requests[1:]
    assert len(finales) == (2 if how == "killed" else 1) and finales[0] == finales[-1]
    assert left.result.answer == answer == left.messages[-1].text
    assert left.types().count("thinking") == 1


@pytest.mark.parametrize("how", ["killed", "cut"])
def test_an_ask_that_was_written_ends_the_run_once(aftermath: Aftermath, how: str) -> None:
    """What stood before it is executed, what follows is denied; a reply that was written is not asked for again."""
    left = of(aftermath, how, "asking")
    assert len(left.requests) == (2 if how == "killed" else 1)
    [end] = left.data_of("run.escalated")
    assert (end["reason"], end["n_denied"], left.result.reason) == (REASON, 1, REASON)
    assert [message.code for message in left.messages[4:]] == ["", "escalation_pending"]


@pytest.mark.parametrize("phase", FROZEN)
def test_what_a_frozen_worker_hands_in_late_changes_nothing(aftermath: Aftermath, phase: str) -> None:
    """Woken after the run went on elsewhere it writes nothing over what stands there and reports nothing."""
    left = aftermath.frozen[phase]
    assert "late" not in [message.text for message in left.messages]
    assert left.result.answer == "done"
