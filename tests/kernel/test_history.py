"""The validator every request passes: replies complete, contiguous, in order; nobody speaks out of turn."""

from collections.abc import Callable
from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

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

TEXTS = st.text(max_size=30)
CONTEXT = st.builds(Message, st.just("context"), TEXTS, st.sampled_from(["priming", "hints", "operation", "finale"]))


@st.composite
def groups(draw: st.DrawFn, number: int) -> list[list[Message]]:
    """One turn: an assistant message, with its replies at once when it calls, and any context after them."""
    ids = [f"t{number}c{n}" for n in range(draw(st.integers(0, 4)))]
    calls = tuple(ToolCall(one, draw(st.sampled_from(["shell", "sql"])), draw(TEXTS)) for one in ids)
    said = Message("assistant", draw(TEXTS), "model", calls)
    replies = [Message("tool", draw(TEXTS), draw(st.sampled_from(["tool", "refusal"])), call_id=one) for one in ids]
    return [[said, *replies], *([one] for one in draw(st.lists(CONTEXT, max_size=3)))]


@st.composite
def legal_histories(draw: st.DrawFn, min_turns: int = 0) -> list[list[Message]]:
    """Any legal history in its groups: rules or none, the task, context, turns, and after any turn another task."""
    found: list[list[Message]] = [[RULES]] if draw(st.booleans()) else []
    found += [[Message("user", draw(TEXTS), "task")], *([one] for one in draw(st.lists(CONTEXT, max_size=2)))]
    for number in range(draw(st.integers(min_turns, 4))):
        turn = draw(groups(number))
        if draw(st.booleans()):
            turn.append([Message("user", draw(TEXTS), "task")])
        found += turn
    return found


def flat(grouped: list[list[Message]]) -> list[Message]:
    return [message for group in grouped for message in group]


def refusal(messages: list[Message], checked: int = 0) -> str:
    """What the validator says, or "" when it says nothing; it changes nothing."""
    before = list(messages)
    try:
        check_history(messages, checked)
    except ProtocolViolation as refused:
        return str(refused)
    finally:
        assert messages == before
    return ""


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
        "no reply in place to: d, e; orphan replies at 7..7, no call awaits them: x; no reply in place to: f"
    )


@given(legal_histories(), st.data())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_any_legal_history_passes_from_any_edge_of_its_groups(
    grouped: list[list[Message]], data: st.DataObject
) -> None:
    """What may be sent is accepted, whether it is read whole or from where it was read before."""
    messages = flat(grouped)
    edge = len(flat(grouped[: data.draw(st.integers(0, len(grouped)))]))
    assert refusal(messages) == ""
    assert refusal(messages, edge) == ""


@given(legal_histories(min_turns=1), st.data())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_dropped_replies_are_all_named(grouped: list[list[Message]], data: st.DataObject) -> None:
    """T01: whichever replies are missing, in whichever groups, every id is named and no other."""
    messages = flat(grouped)
    ids = [message.call_id for message in messages if message.role == "tool"]
    gone = data.draw(st.sets(st.sampled_from(ids), min_size=1)) if ids else set()
    said = refusal([message for message in messages if message.call_id not in gone])
    named = {one for part in said.split("; ") for one in part.partition("no reply in place to: ")[2].split(", ") if one}
    assert named == gone


def _becomes(messages: list[Message], at: int, *instead: Message) -> list[Message]:
    return [*messages[:at], *instead, *messages[at + 1 :]]


# What is done to the reply at `at` of a legal history.
MUTATIONS: dict[str, Callable[[list[Message], int], list[Message]]] = {
    "left out": lambda m, at: _becomes(m, at),
    "twice": lambda m, at: _becomes(m, at, m[at], m[at]),
    "after an orphan": lambda m, at: _becomes(m, at, reply("zz9"), m[at]),
    "after calls without replies": lambda m, at: _becomes(m, at, asks("zz9"), m[at]),
    "after a context message": lambda m, at: _becomes(m, at, HINT, m[at]),
    "after a user message": lambda m, at: _becomes(m, at, TASK, m[at]),
    "after the rules": lambda m, at: _becomes(m, at, RULES, m[at]),
    "with another id": lambda m, at: _becomes(m, at, replace(m[at], call_id="zz9")),
    "without an id": lambda m, at: _becomes(m, at, replace(m[at], call_id=None)),
    "as a user message": lambda m, at: _becomes(m, at, replace(m[at], role="user")),
    "as context": lambda m, at: _becomes(m, at, replace(m[at], role="context")),
    "ahead of what stands before it": lambda m, at: [*m[: at - 1], m[at], m[at - 1], *m[at + 1 :]],
    "at the end": lambda m, at: [*_becomes(m, at), HINT, m[at]],
    "with its call folded away": lambda m, at: [message for message in m if not message.calls],
}


@pytest.mark.parametrize("mutation", MUTATIONS)
@given(grouped=legal_histories(min_turns=1), data=st.data())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_mutation_of_a_reply_is_refused(mutation: str, grouped: list[list[Message]], data: st.DataObject) -> None:
    """T03, T05, T08, T09, T12: no reply can be moved, doubled, renamed or parted from its call, read whole or from the
    edge of the groups before it; the call it answers or its own id is named."""
    messages = flat(grouped)
    places = [place for place, message in enumerate(messages) if message.role == "tool"]
    if not places:
        return
    at = data.draw(st.sampled_from(places))
    group = next(n for n in range(len(grouped)) if at < len(flat(grouped[: n + 1])))
    edge = len(flat(grouped[: data.draw(st.integers(0, group))]))
    broken = MUTATIONS[mutation](messages, at)
    said = refusal(broken)
    assert "zz9" in said or str(messages[at].call_id) in said
    if mutation != "with its call folded away":
        assert refusal(broken, edge) != ""


@given(legal_histories(), st.data())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_misplaced_speaker_is_refused(grouped: list[list[Message]], data: st.DataObject) -> None:
    """T45: rules after the start and a second user message beside one are refused at any edge, position named."""
    messages = flat(grouped)
    at = len(flat(grouped[: data.draw(st.integers(1, len(grouped)))]))
    assert f"position {at}" in refusal([*messages[:at], RULES, *messages[at:]])
    for user in [place for place, message in enumerate(messages) if message.role == "user"]:
        twice = [*messages[: user + 1], TASK, *messages[user + 1 :]]
        assert f"positions {user} and {user + 1}" in refusal(twice)


@given(legal_histories(min_turns=1), st.data())
@settings(max_examples=100, deadline=None, derandomize=True)
def test_a_boundary_inside_a_group_is_moved_to_its_start(grouped: list[list[Message]], data: st.DataObject) -> None:
    """T03: a history that was read up to the middle of a group and goes on with something else is refused."""
    messages = flat(grouped)
    at = data.draw(st.integers(0, len(messages)))
    assert refusal(messages, at) == ""
    cut = [*messages[:at], HINT, *messages[at:]]
    assert refusal(cut, at) == refusal(cut)


def test_what_was_checked_is_not_read_again() -> None:
    """Reading goes on at the edge: only new messages and the last group are touched, however long the history is."""

    class Watched(list[Message]):
        lowest = 10**9

        def __getitem__(self, place):  # type: ignore[no-untyped-def]
            self.lowest = min(self.lowest, place if isinstance(place, int) else place.start or 0)
            return super().__getitem__(place)

    turns = [message for n in range(500) for message in (asks(f"c{n}"), reply(f"c{n}"), HINT)]
    watched = Watched([RULES, TASK, *turns])
    check_history(watched, len(watched) - 3)
    assert watched.lowest >= len(watched) - 6


@pytest.mark.parametrize("checked", [-1, 3])
def test_more_than_there_is_cannot_have_been_checked(checked: int) -> None:
    """A history shorter than what was checked has lost messages: it is refused."""
    with pytest.raises(ProtocolViolation, match="the history has 2"):
        check_history((RULES, TASK), checked)
