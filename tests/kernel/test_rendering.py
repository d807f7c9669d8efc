"""Rendering for providers: replies untouched, context after them, never two user messages, a prefix stays a prefix."""

import hashlib
import json
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kernel.core.history import check_history
from kernel.drivers.rendering import JOIN, message_hash, render_blocks, render_openai
from kernel.messages import Message, ToolCall
from tests.kernel.test_history import HINT, RULES, TASK, asks, flat, legal_histories, reply

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


def test_what_says_nothing_is_not_sent() -> None:
    """An empty context message or assistant message is left out; an empty reply keeps its place."""
    nothing = (Message("context", "", "hints"), Message("assistant", "", "model"))
    silent = Message("tool", "", "tool", call_id="a")
    for render in (render_openai, render_blocks):
        assert render((TASK, *nothing, asks("a"), silent)) == render((TASK, asks("a"), silent))
    assert render_openai((TASK, asks("a"), silent))[2]["content"] == ""


@pytest.mark.parametrize("arguments", ['{"a": NaN}', '{"a": 1e999}', '{"a": "\\ud800"}', "[1]", "7", '{"a": ' * 9_999])
def test_arguments_no_wire_can_carry_go_as_text(arguments: str) -> None:
    """Block form takes objects only, and what is sent must be JSON."""
    asked = Message("assistant", "", "model", (ToolCall("a", "shell", arguments),))
    (block,) = render_blocks((TASK, asked))[1]["content"]
    assert block["input"] == {"malformed": arguments}


PROPERTY = settings(max_examples=100, deadline=None, derandomize=True)
HISTORIES = legal_histories().map(flat)


def before_each_call(messages: list[Message]) -> list[list[Message]]:
    """What each request of the run held: all that stands before an assistant message, and the whole."""
    cuts = [place for place, message in enumerate(messages) if message.role == "assistant"]
    return [messages[:cut] for cut in cuts] + [messages]


@given(HISTORIES)
@PROPERTY
def test_no_two_user_messages_and_replies_in_place(messages: list[Message]) -> None:
    """T45: in no request of a run does the user speak twice in a row, and nothing stands between calls and replies."""
    for request in before_each_call(messages):
        check_history(request)
        rendered, blocks = render_openai(request), render_blocks(request)
        for form in (rendered, blocks):
            assert ("user", "user") not in pairwise(message["role"] for message in form)
        for place, message in enumerate(rendered):
            ids = [call["id"] for call in message.get("tool_calls", ())]
            assert [after.get("tool_call_id") for after in rendered[place + 1 : place + 1 + len(ids)]] == ids
        for message, after in pairwise([*blocks, {"role": "", "content": []}]):
            ids = [block["id"] for block in message["content"] if block["type"] == "tool_use"]
            assert [block["tool_use_id"] for block in after["content"] if block["type"] == "tool_result"] == ids
            assert [block["type"] for block in after["content"][: len(ids)]] == ["tool_result"] * len(ids)


@given(HISTORIES)
@PROPERTY
def test_t10_replies_are_the_same_with_and_without_context(messages: list[Message]) -> None:
    """T10: no context message changes a byte of a reply, and none of it stands inside one."""
    plain = [message for message in messages if message.role != "context"]
    assert _openai_replies(messages) == _openai_replies(plain)
    assert _block_replies(messages) == _block_replies(plain)
    said = [(message.call_id, message.text) for message in messages if message.role == "tool"]
    assert [(one["tool_call_id"], one["content"]) for one in _openai_replies(messages)] == said
    assert [(one["tool_use_id"], one["content"]) for one in _block_replies(messages)] == said


def _openai_replies(messages: list[Message]) -> list[dict[str, Any]]:
    return [message for message in render_openai(messages) if message["role"] == "tool"]


def _block_replies(messages: list[Message]) -> list[dict[str, Any]]:
    return [
        block for message in render_blocks(messages) for block in message["content"] if block["type"] == "tool_result"
    ]


@given(HISTORIES, st.integers(0, 40))
@PROPERTY
def test_a_request_is_a_prefix_of_the_next(messages: list[Message], cut: int) -> None:
    """What was sent stays as it was sent; only a user message at the very end may grow, at its end."""
    for render in (render_openai, render_blocks):
        for earlier, later in [*pairwise(before_each_call(messages)), (messages[:cut], messages)]:
            sent, now = render(earlier), render(later)
            if sent and sent[-1]["role"] == "user":
                assert now[len(sent) - 1]["role"] == "user"
                assert now[len(sent) - 1]["content"][: len(sent[-1]["content"])] == sent[-1]["content"]
                sent.pop()
            assert now[: len(sent)] == sent


@given(HISTORIES)
@PROPERTY
def test_all_that_is_said_between_two_replies_is_one_user_message(messages: list[Message]) -> None:
    """Context and the user's words after replies are one user message, in order; the rules stand first, once."""
    said: list[list[str]] = [[]]
    for message in messages:
        if message.role in ("user", "context"):
            said[-1] += [message.text] if message.text else []
        elif message.text or message.calls or message.role == "tool":
            said.append([])
    spoken = [message["content"] for message in render_openai(messages) if message["role"] == "user"]
    assert spoken == [JOIN.join(texts) for texts in said if texts]
    blocks = [[block["text"] for block in one["content"] if block["type"] == "text"]
              for one in render_blocks(messages) if one["role"] == "user"]  # fmt: skip
    assert [texts for texts in blocks if texts] == [texts for texts in said if texts]
    systems = [place for place, message in enumerate(render_openai(messages)) if message["role"] == "system"]
    assert systems == ([0] if messages[0] == RULES else [])
    assert "system" not in {message["role"] for message in render_blocks(messages)}


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


@given(st.text(), st.text(), st.none() | st.text(), st.lists(st.tuples(st.text(), st.text(), st.text()), max_size=3))
@PROPERTY
def test_the_hash_is_that_of_the_json_text(role: Any, text: str, call_id: str | None, calls: list[Any]) -> None:
    """What is hashed can be written by anybody with a JSON library."""
    message = Message(role, text, "model", tuple(ToolCall(*call) for call in calls), call_id)
    written = json.dumps([role, text, call_id, [list(call) for call in calls]])
    assert message_hash(message) == hashlib.sha256(written.encode()).hexdigest()
