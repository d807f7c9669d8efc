"""Rendering for providers: replies untouched, context after them, never two user messages, a prefix stays a prefix."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.core.history import check_history
from kernel.drivers.rendering import message_hash, render_blocks, render_openai
from kernel.messages import Message, ToolCall
from tests.kernel.test_history import HINT, RULES, TASK, asks, reply

OPERATION = Message("context", "operation ended", "operation")
TURN = (RULES, TASK, asks("a", "b"), reply("a"), reply("b"))


def test_openai_form() -> None:
    """Context is one user message after the replies; calls and replies carry their ids; the task keeps its place."""
    priming = Message("context", "primed", "priming")
    assert render_openai((RULES, TASK, priming, *TURN[2:], OPERATION, HINT)) == [
        {"role": "system", "content": "rules"},
        {"role": "user", "content": "task\n\nprimed"},
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [
                {"id": "a", "type": "function", "function": {"name": "shell", "arguments": "{}"}},
                {"id": "b", "type": "function", "function": {"name": "shell", "arguments": "{}"}},
            ],
        },
        {"role": "tool", "tool_call_id": "a", "content": "result of a"},
        {"role": "tool", "tool_call_id": "b", "content": "result of b"},
        {"role": "user", "content": "operation ended\n\nhint"},
    ]


def test_block_form() -> None:
    """Replies and the context after them are blocks of one user message, replies first; rules travel apart."""
    assert render_blocks((*TURN, HINT)) == [
        {"role": "user", "content": [{"type": "text", "text": "task"}]},
        {
            "role": "assistant",
            "content": [
                {"type": "tool_use", "id": "a", "name": "shell", "input": {}},
                {"type": "tool_use", "id": "b", "name": "shell", "input": {}},
            ],
        },
        {
            "role": "user",
            "content": [
                {"type": "tool_result", "tool_use_id": "a", "content": "result of a"},
                {"type": "tool_result", "tool_use_id": "b", "content": "result of b"},
                {"type": "text", "text": "hint"},
            ],
        },
    ]


def test_t07_malformed_arguments_stay_in_the_history() -> None:
    """T07: what the model wrote is sent back as it was, or in an object where only objects are taken."""
    broken = Message("assistant", "so", "model", (ToolCall("a", "shell", "{not json"), ToolCall("b", "shell", "")))
    messages = (TASK, broken, reply("a"), reply("b"))
    assert render_openai(messages)[1]["tool_calls"][0]["function"]["arguments"] == "{not json"
    assert [block.get("input") for block in render_blocks(messages)[1]["content"]] == [
        None,
        {"malformed": "{not json"},
        {},
    ]


@st.composite
def histories(draw: st.DrawFn) -> list[Message]:
    """Legal histories of some turns, with context wherever the core may place it."""
    context = st.lists(st.sampled_from([HINT, OPERATION]), max_size=2)
    messages = [RULES, TASK, *draw(context)]
    for turn in range(draw(st.integers(0, 4))):
        ids = [f"t{turn}c{n}" for n in range(draw(st.integers(1, 3)))]
        messages += [asks(*ids), *map(reply, ids), *draw(context)]
    return messages


@given(histories())
def test_no_two_user_messages_and_replies_in_place(messages: list[Message]) -> None:
    """In both forms roles never repeat as user, and each group of calls is followed at once by its replies."""
    check_history(messages)
    for rendered in (render_openai(messages), render_blocks(messages)):
        roles = [message["role"] for message in rendered]
        assert ("user", "user") not in zip(roles, roles[1:], strict=False)
    rendered = render_openai(messages)
    for place, message in enumerate(rendered):
        ids = [call["id"] for call in message.get("tool_calls", ())]
        assert [after.get("tool_call_id") for after in rendered[place + 1 : place + 1 + len(ids)]] == ids
    for message, after in zip(render_blocks(messages), render_blocks(messages)[1:], strict=False):
        ids = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
        kinds = [block["type"] for block in after["content"]]
        assert [block.get("tool_use_id") for block in after["content"]][: len(ids)] == ids
        assert kinds == sorted(kinds, key=lambda kind: kind == "text") or not ids


@given(histories(), st.integers(1, 3))
def test_a_request_is_a_prefix_of_the_next(messages: list[Message], n: int) -> None:
    """Appending a turn changes nothing that was sent before it."""
    ids = [f"next{index}" for index in range(n)]
    later = [*messages, asks(*ids), *map(reply, ids), HINT]
    for render in (render_openai, render_blocks):
        assert render(later)[: len(render(messages))] == render(messages)


@pytest.mark.parametrize(
    "other",
    [
        Message("context", "text", "hints"),
        Message("user", "text2", "task"),
        Message("user", "text", "task", call_id="a"),
        Message("user", "text", "task", (ToolCall("a", "b", "{}"),)),
    ],
)
def test_the_hash_tells_messages_apart(other: Message) -> None:
    """Role, text, id and calls are in the hash; where the message came from is not."""
    one: Any = Message("user", "text", "task")
    assert message_hash(one) != message_hash(other)
    assert message_hash(one) == message_hash(Message("user", "text", "rules"))
    json.loads(f'"{message_hash(Message("user", chr(0xD800), "task"))}"')
