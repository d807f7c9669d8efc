"""The validator every request passes: replies complete, contiguous, in order; nobody speaks out of turn."""

import pytest

from kernel.core.history import ProtocolViolation, check_history
from kernel.messages import Message, ToolCall

RULES = Message("system", "rules", "rules")
TASK = Message("user", "task", "task")
HINT = Message("context", "hint", "hints")


def asks(*call_ids: str) -> Message:
    return Message("assistant", "", "model", tuple(ToolCall(call_id, "shell", "{}") for call_id in call_ids))


def reply(call_id: str) -> Message:
    return Message("tool", f"result of {call_id}", "tool", call_id=call_id)


THREE = (RULES, TASK, asks("a", "b", "c"))


@pytest.mark.parametrize(
    "messages",
    [
        (RULES, TASK),
        (TASK,),
        (RULES, TASK, HINT),
        (RULES, TASK, HINT, HINT),
        (*THREE, reply("a"), reply("b"), reply("c")),
        (*THREE, reply("a"), reply("b"), reply("c"), HINT),
        (*THREE, reply("a"), reply("b"), reply("c"), asks("d"), reply("d"), HINT, asks("e"), reply("e")),
        (RULES, TASK, Message("assistant", "done", "model"), TASK),
    ],
)
def test_legal_histories_pass(messages: tuple[Message, ...]) -> None:
    """What a run sends is accepted, hints after the last reply included."""
    check_history(messages)


@pytest.mark.parametrize(
    ("messages", "says"),
    [
        pytest.param((*THREE, reply("b")), "no reply in place to: a, c", id="T01 some ids without a reply"),
        pytest.param((*THREE,), "no reply in place to: a, b, c", id="T03 results cut, calls kept"),
        pytest.param((*THREE, HINT), "no reply in place to: a, b, c", id="T03 context where the results were"),
        pytest.param((RULES, reply("a")), "orphan reply to 'a' at position 1", id="T05 call folded away"),
        pytest.param(
            (*THREE, reply("a"), reply("b"), reply("c"), reply("x")), "orphan replies at 3..6", id="T05 one too many"
        ),
        pytest.param(
            (*THREE, HINT, reply("a"), reply("b"), reply("c")),
            "no reply in place to: a, b, c; a context message stands inside the run of replies at position 3",
            id="T08 hint before the replies",
        ),
        pytest.param(
            (*THREE, reply("a"), HINT, reply("b"), reply("c")),
            "no reply in place to: b, c; a context message stands inside the run of replies at position 4",
            id="T08 hint among the replies",
        ),
        pytest.param(
            (*THREE, Message("user", "hint", "hints"), reply("a"), reply("b"), reply("c")),
            "a user message stands inside the run of replies at position 3",
            id="T09 user hint between calls and results",
        ),
        pytest.param(
            (*THREE, reply("a"), reply("b"), reply("c"), Message("context", "x", "hints", call_id="a")),
            "only a tool reply carries a call id",
            id="T12 hint with a call id",
        ),
        pytest.param(
            (*THREE, Message("user", "result", "tool", call_id="a")), "no reply in place to: a, b, c", id="T12 as user"
        ),
        pytest.param((*THREE, reply("b"), reply("a"), reply("c")), "not one per call in call order", id="order"),
        pytest.param((*THREE, reply("a"), reply("a"), reply("b"), reply("c")), "not one per call", id="twice"),
        pytest.param((RULES, TASK, asks("a", "a"), reply("a")), "used twice in one message: a", id="one id twice"),
        pytest.param((RULES, TASK, TASK), "positions 1 and 2 are two in a row", id="two user messages"),
        pytest.param((RULES, TASK, RULES), "system message stands at position 2", id="rules in the middle"),
        pytest.param(
            (RULES, Message("user", "x", "task", (ToolCall("a", "b", "{}"),))), "only an assistant", id="calls"
        ),
        pytest.param(
            (*THREE, reply("a"), Message("tool", "x", "tool", (ToolCall("d", "shell", "{}"),), "b"), reply("c")),
            "only an assistant message carries calls (position 4, role tool)",
            id="calls in a reply",
        ),
        pytest.param(
            (RULES, TASK, asks("a"), reply("a"), asks("a"), reply("a")), "earlier message used again: a", id="id again"
        ),
        pytest.param((), "at least one message", id="nothing"),
    ],
)
def test_broken_histories_are_named(messages: tuple[Message, ...], says: str) -> None:
    """What breaks the protocol is refused with every id and position concerned."""
    with pytest.raises(ProtocolViolation) as refused:
        check_history(messages)
    assert says in str(refused.value)


def test_every_broken_group_is_named() -> None:
    """T01: the ids without a reply are named for all groups at once, and a late reply is told with its call only."""
    with pytest.raises(ProtocolViolation) as refused:
        check_history((*THREE, reply("b"), HINT, reply("a"), asks("d", "e"), reply("x"), asks("f")))
    assert str(refused.value) == (
        "no reply in place to: a, c; a context message stands inside the run of replies at position 4; "
        "no reply in place to: d, e; orphan replies at 8..8, no call awaits them: x; no reply in place to: f"
    )
