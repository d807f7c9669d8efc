"""The drivers: the scripted one acts on nothing but its request, the OpenAI one against a real HTTP server."""

import json
from pathlib import Path
from typing import Any

import pytest

from kernel.drivers import DriverReply, ModelRequest, ToolOffer
from kernel.drivers.openai_chat import OpenAIChatDriver
from kernel.drivers.rendering import render_openai
from kernel.drivers.scripted import ScriptedDriver, follow
from kernel.edge.retry import ModelError
from kernel.messages import Message, ToolCall
from tests.kernel.http_server import Answer, LocalServer, local_server

START = (Message("system", "Be careful.", "rules"), Message("user", "Release it", "task"))
FAILED = (
    *START,
    Message("assistant", "", "model", (ToolCall("c1", "shell", '{"command": "git commit"}'),)),
    Message("tool", "fatal: not a git repository", "tool", call_id="c1"),
)
BLOCK = '<temporality.memory activation="r:a1" trigger="tool.failed">\n- Run `git init` first.\n</temporality.memory>'
HINTED = (*FAILED, Message("context", BLOCK, "hints"))
RULES: list[dict[str, Any]] = [
    {"if": {"start": True}, "text": "I commit.", "call": [{"tool": "shell", "arguments": {"command": "git commit"}}]},
    {
        "if": {"last": "not a git repository", "hint": r"`(?P<command>git init)`", "not_called": "git init"},
        "call": [{"tool": "shell", "arguments": {"command": "<<command>> -q"}}],
    },
    {"if": {"last": r"fatal: (?P<why>.*)", "no_hint": "git init"}, "answer": "It failed: <<why>>."},
]


def follow_messages(*messages: Message) -> DriverReply:
    return follow(RULES, render_openai(messages))


def test_a_script_begins_with_its_start() -> None:
    """Before any call the start rule is followed; its call has an id and JSON arguments."""
    reply = follow_messages(*START)
    [call] = reply.calls
    assert (reply.text, call.name, json.loads(call.arguments)) == ("I commit.", "shell", {"command": "git commit"})
    assert call.call_id


def test_a_command_can_only_come_out_of_a_hint_that_was_sent() -> None:
    """With the hint in the request its command is taken; without it the same history leads elsewhere."""
    [call] = follow_messages(*HINTED).calls
    assert json.loads(call.arguments) == {"command": "git init -q"}
    assert follow_messages(*FAILED).text == "It failed: not a git repository."


def test_text_outside_of_a_block_is_no_hint() -> None:
    """A tool or a task that merely says what a hint says is not taken for one."""
    spoofed = (*FAILED[:-1], Message("tool", f"fatal: not a git repository {BLOCK}", "tool", call_id="c1"))
    task = (START[0], Message("user", "Run `git init`", "task"), *FAILED[2:])
    assert follow_messages(*spoofed).calls == ()
    assert follow_messages(*task).calls == ()


def test_what_was_told_is_no_reply_and_no_hint() -> None:
    """An operation's end is told apart from the replies before it, which stay to be read in later turns."""
    rules: list[dict[str, Any]] = [
        {"if": {"told": "(?P<end>op-3) ended well", "replied": "(?P<first>fatal)"}, "answer": "<<first>> <<end>>"},
        {"if": {"no_told": "ended", "last": "(?P<last>.+)"}, "answer": "<<last>>"},
    ]
    end = Message("context", "[Background operation op-3 ended well.]", "operation")
    later = (
        Message("assistant", "", "model", (ToolCall("c2", "shell", "{}"),)),
        Message("tool", "fine", "tool", call_id="c2"),
    )
    answers = [
        follow(rules, render_openai(messages)).text
        for messages in ((*FAILED, end), (*HINTED, end), (*FAILED, end, *later), (*HINTED, *later, end), HINTED)
    ]
    assert answers == ["fatal op-3", "fatal op-3", "fine", "fatal op-3", "fatal: not a git repository"]
    quoted = Message("context", BLOCK.replace("`git init`", "op-3 ended well"), "hints")
    assert follow(rules, render_openai((*FAILED, quoted))).text == "fatal: not a git repository"


async def test_the_scripts_of_members_stand_beside_the_demos(tmp_path: Path) -> None:
    """A name is looked up in the folder, then in its folder of members."""
    (tmp_path / "members").mkdir()
    for path, text in (("both.json", "own"), ("members/both.json", "member's"), ("members/one.json", "member's")):
        (tmp_path / path).write_text(json.dumps({"script": {"rules": [{"answer": text}]}}))
    driver = ScriptedDriver(tmp_path)
    said = [(await driver.reply(ModelRequest("r", 1, START, (), script=name))).text for name in ("both", "one")]
    assert said == ["own", "member's"]


def test_call_ids_differ_between_turns() -> None:
    """Two turns never use one call id."""
    ids = [call.call_id for messages in (START, HINTED) for call in follow_messages(*messages).calls]
    assert len(set(ids)) == 2


@pytest.mark.parametrize(
    ("rules", "error_class"),
    [
        ([], "script_ended"),
        ([{"if": {"start": False}}], "script_ended"),
        ([{"if": {"unknown": "x"}}], "script_invalid"),
        ([{"answer": "<<missing>>"}], "script_invalid"),
        ([{"call": [{"tool": "shell"}]}], "script_invalid"),
        (["text"], "script_invalid"),
        ([{"if": {"last": "("}}], "script_invalid"),
    ],
)
def test_a_bad_script_fails_the_request_for_good(rules: list[Any], error_class: str) -> None:
    """What a script cannot say is an error without another attempt."""
    with pytest.raises(ModelError) as caught:
        follow(rules, render_openai(START))
    assert (caught.value.error_class, caught.value.retryable) == (error_class, False)


@pytest.mark.parametrize("script", ["absent", "../secrets", "", "a/b"])
async def test_scripts_come_from_their_folder_only(tmp_path: Path, script: str) -> None:
    """A script is named by a plain name; anything else is refused."""
    with pytest.raises(ModelError):
        await ScriptedDriver(tmp_path).reply(ModelRequest("r", 1, START, (), script=script))


SHELL = ToolOffer("shell", "Run a command", {"type": "object", "properties": {"command": {"type": "string"}}})


def completion(**message: Any) -> dict[str, Any]:
    return {
        "id": "x",
        "object": "chat.completion",
        "created": 1,
        "model": "small-1",
        "choices": [{"index": 0, "finish_reason": "stop", "message": {"role": "assistant", **message}}],
        "usage": {"prompt_tokens": 12, "completion_tokens": 3, "total_tokens": 15},
    }


async def ask(server: LocalServer, messages: tuple[Message, ...] = HINTED, *tools: ToolOffer) -> DriverReply:
    driver = OpenAIChatDriver(f"{server.url}/v1", "sk-key", timeout_seconds=2)
    try:
        return await driver.reply(ModelRequest("r", 1, messages, tools, model="small"))
    finally:
        await driver.close()


async def test_request_and_reply_in_chat_form() -> None:
    """The history goes out as the protocol has it; text, calls, model and token counts come back."""
    calls = [{"id": "c9", "type": "function", "function": {"name": "shell", "arguments": '{"command": "ls"}'}}]
    with local_server(lambda asked: Answer(body=completion(content=None, tool_calls=calls))) as server:
        reply = await ask(server, HINTED, SHELL)
    [asked] = server.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.headers["authorization"] == "Bearer sk-key"
    assert [message["role"] for message in asked.body["messages"]] == ["system", "user", "assistant", "tool", "user"]
    assert asked.body["tools"][0]["function"]["name"] == "shell"
    assert reply == DriverReply("", (ToolCall("c9", "shell", '{"command": "ls"}'),), "small-1", 12, 3, "stop")


async def test_without_tools_no_tool_field_is_sent() -> None:
    """Endpoints that refuse tool settings without tools get none."""
    with local_server(lambda asked: Answer(body=completion(content="done"))) as server:
        assert (await ask(server)).text == "done"
    assert not {"tools", "tool_choice", "parallel_tool_calls"} & set(server.asked[0].body)


@pytest.mark.parametrize(
    ("answer", "error_class", "retryable", "retry_after"),
    [
        (Answer(401, {"error": {"message": "bad key"}}), "model_http_401", False, None),
        (Answer(400, {"error": {"message": "bad request"}}), "model_http_400", False, None),
        (Answer(429, {}, {"Retry-After": "7"}), "model_http_429", True, 7.0),
        (Answer(429, {}, {"retry-after-ms": "1500"}), "model_http_429", True, 1.5),
        (Answer(503, {}, {"Retry-After": "86400"}), "model_http_503", True, None),
        (Answer(500, b"<html>"), "model_http_500", True, None),
        (Answer(500, {}, {"x-should-retry": "false"}), "model_http_500", False, None),
        (Answer(200, b"no json"), "model_invalid_answer", False, None),
        (Answer(200, {"choices": []}), "model_invalid_answer", False, None),
        (Answer(200, {"choices": [{"message": {"content": 3}}]}), "model_invalid_answer", False, None),
        (Answer(200, []), "model_invalid_answer", False, None),
        (Answer(silent=True), "model_timeout", True, None),
    ],
    ids=lambda value: f"{value.status}-{str(value.body)[:12]}" if isinstance(value, Answer) else str(value),
)
async def test_failures_have_a_posture(
    answer: Answer, error_class: str, retryable: bool, retry_after: float | None
) -> None:
    """What may pass is worth another attempt, what cannot is not; the client itself never tries again."""
    with local_server(lambda asked: answer) as server, pytest.raises(ModelError) as caught:
        await ask(server)
    error = caught.value
    assert (error.error_class, error.retryable, error.retry_after) == (error_class, retryable, retry_after)
    assert len(server.asked) == 1


async def test_an_unreachable_model_is_worth_another_attempt() -> None:
    """Nobody listening may pass."""
    driver = OpenAIChatDriver("http://127.0.0.1:1/v1", "sk-key")
    with pytest.raises(ModelError) as caught:
        await driver.reply(ModelRequest("r", 1, START, (), model="small"))
    assert (caught.value.error_class, caught.value.retryable) == ("model_unreachable", True)
    await driver.close()


async def test_a_run_must_name_its_model() -> None:
    """Without a model named anywhere the request is not sent."""
    driver = OpenAIChatDriver("http://127.0.0.1:1/v1", "sk-key")
    with pytest.raises(ModelError, match="set `model` in its spec"):
        await driver.reply(ModelRequest("r", 1, START, ()))
    await driver.close()
