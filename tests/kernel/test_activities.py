"""The activities against real tools, HTTP servers and stores: each safe to repeat, none letting a secret out."""

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import pytest
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError
from temporalio.testing import ActivityEnvironment

from contract.events import check_data
from kernel.drivers import DriverReply, ModelRequest
from kernel.drivers.openai_chat import OpenAIChatDriver
from kernel.edge.activities import Activities
from kernel.edge.histories import History, KnownRun
from kernel.edge.model_call import checked
from kernel.edge.observation_client import ObservationClient
from kernel.edge.reporting import wire_events
from kernel.edge.telemetry_client import TelemetryClient
from kernel.edge.tool_call import cut_middle, reply_text
from kernel.edge.transcript import MemoryTranscript, PostgresTranscript, TranscriptStore
from kernel.messages import (
    Append,
    CallModel,
    Event,
    FetchHints,
    HintRequest,
    Limits,
    McpServer,
    Message,
    ModelAnswer,
    PrepareRun,
    RunPrepared,
    RunSpec,
    RunTool,
    SendEvents,
    ToolCall,
)
from kernel.runtime.local import LocalRun
from kernel.tools.catalogue import ToolEntry, ToolResult
from kernel.tools.registry import LocalTool, Toolbox
from tests.kernel.http_server import Answer, Asked, LocalServer, local_server

CANARY = "ghp_" + "Z9y8X7w6V5u4T3s2R1q0P9o8N7m6L5k4J3i2"
SPEC = RunSpec("r", "Release it", setup="echo ready > made", mcp_servers=(McpServer("none", "no-such-program"),))


def completion(text: str = "", *commands: str) -> dict[str, Any]:
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "shell", "arguments": json.dumps({"command": line})}}
        for n, line in enumerate(commands, 1)
    ]
    message = {"role": "assistant", "content": text, **({"tool_calls": calls} if calls else {})}
    return {"id": "x", "object": "chat.completion", "model": "small-1", "choices": [{"index": 0, "message": message}]}


@dataclass
class World:
    """Activities over real edges, and the server that is model, Observation and ingest to them."""

    activities: Activities
    store: TranscriptStore
    toolbox: Toolbox
    server: LocalServer
    answers: dict[str, Answer]

    def asked(self, path: str) -> list[Asked]:
        return [asked for asked in self.server.asked if asked.path.endswith(path)]

    async def prepared(self, spec: RunSpec = SPEC) -> RunPrepared:
        return await self.activities.prepare_run(PrepareRun(spec))

    async def replied(self, *commands: str) -> ModelAnswer:
        """Prepare the run and let the model ask for `commands`; its message stands at position 2."""
        await self.prepared()
        self.answers["/chat/completions"] = Answer(body=completion("", *commands))
        return await self.activities.call_model(model_call())


def model_call(*append: Append, reply_seq: int = 2) -> CallModel:
    return CallModel("r", 1, append, reply_seq, "r:5", "openai_chat", "", "small")


def tool_call(call_id: str = "c1", reply_seq: int = 3) -> RunTool:
    return RunTool("r", call_id, 2, reply_seq, 1_000)


@pytest.fixture(params=["memory", "postgres"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[TranscriptStore]:
    if request.param == "memory":
        yield MemoryTranscript()
        return
    made = await PostgresTranscript.open(request.getfixturevalue("postgres_url"))
    async with made._pool.connection() as connection:
        await connection.execute("TRUNCATE kernel.run, kernel.message, kernel.begun_call")
    yield made
    await made.close()


@asynccontextmanager
async def world_of(folder: Path, store: TranscriptStore, *extra: LocalTool) -> AsyncIterator[World]:
    answers = {"/v1/events": Answer(body={"accepted": 1, "rejected": []})}

    def answer(asked: Asked) -> Answer:
        return next((given for path, given in answers.items() if asked.path.endswith(path)), Answer(404))

    with local_server(answer) as server:
        toolbox = Toolbox(folder, extra=extra)
        driver = OpenAIChatDriver(f"{server.url}/v1", "sk-key")
        observation, telemetry = ObservationClient(server.url, "tk_key"), TelemetryClient(server.url, "tk_key")
        made = Activities(store, {"openai_chat": driver}, toolbox, observation, telemetry)
        yield World(made, store, toolbox, server, answers)
        for part in (toolbox, driver, observation, telemetry):
            await part.close()


@pytest.fixture
async def world(tmp_path: Path, store: TranscriptStore) -> AsyncIterator[World]:
    async with world_of(tmp_path, store) as made:
        yield made


async def test_preparation_happens_once(world: World) -> None:
    """Repeated, preparation returns what it found and leaves the work folder as the run has changed it."""
    first = await world.prepared()
    work = world.toolbox.folders("r").work
    assert (work / "made").read_text() == "ready\n"
    (work / "made").write_text("changed by the run")
    assert await world.prepared() == first
    assert (work / "made").read_text() == "changed by the run"
    assert [tool.name for tool in first.tools] == ["shell"]
    assert [key for key, _ in first.failed_servers] == ["none"]
    assert [(m.role, m.text) for m in await world.store.read("r", 2)] == [("system", SPEC.rules), ("user", SPEC.task)]


async def test_a_reply_that_is_written_is_not_asked_for_again(world: World) -> None:
    """A second attempt at a model call returns the first one's answer; the model is asked once."""
    first = await world.replied("git commit")
    second = await world.activities.call_model(model_call())
    assert first == second
    assert len(world.asked("/chat/completions")) == 1
    assert first.replied is not None
    [seen] = first.replied.calls
    assert (seen.name, seen.excerpt, seen.malformed) == ("shell", '{"command": "git commit"}', "")
    assert (first.replied.n_messages, first.replied.model) == (2, "small-1")


async def test_what_was_appended_stands_in_the_request(world: World) -> None:
    """Appends are written before the request is built, and the context message is reported where it stands."""
    await world.replied("git commit")
    reply = Message("tool", "it failed", "tool", call_id="c1")
    hint = Message("context", "<temporality.memory>…</temporality.memory>", "hints")
    world.answers["/chat/completions"] = Answer(body=completion("done"))
    answer = await world.activities.call_model(model_call(Append(3, reply), Append(4, hint), reply_seq=5))
    assert answer.replied is not None
    [sent] = answer.replied.sent_context
    assert (sent.seq, sent.position) == (4, 4)
    assert world.asked("/chat/completions")[1].body["messages"][-1]["content"] == hint.text
    assert answer.replied.text == "done"


async def test_a_history_that_breaks_the_protocol_is_never_sent(world: World) -> None:
    """A missing reply or a hint before the replies fails the request before anything is sent."""
    await world.replied("ls")
    hint = Message("context", "a hint", "hints")
    answer = await world.activities.call_model(model_call(Append(3, hint), reply_seq=4))
    assert answer.failed is not None
    assert answer.failed.error_class == "protocol_violation"
    assert "c1" in answer.failed.error
    assert len(world.asked("/chat/completions")) == 1


async def test_call_ids_are_made_unique(world: World) -> None:
    """A model that repeats its call ids in a later turn gets other ids, so that no reply is ambiguous."""
    await world.replied("ls")
    await world.activities.run_tool(tool_call())
    answer = await world.activities.call_model(model_call(reply_seq=4))
    assert answer.replied is not None
    [seen] = answer.replied.calls
    assert seen.call_id != "c1"


async def test_same_arguments_written_differently_have_one_digest(world: World) -> None:
    """The order of keys and the spaces in arguments do not make two calls different."""
    calls = [
        {"id": f"c{n}", "type": "function", "function": {"name": "shell", "arguments": arguments}}
        for n, arguments in enumerate(('{"command": "ls", "x": 1}', '{"x":1,"command":"ls"}', '{"command": "pwd"}'))
    ]
    body = completion()
    body["choices"][0]["message"]["tool_calls"] = calls
    await world.prepared()
    world.answers["/chat/completions"] = Answer(body=body)
    answer = await world.activities.call_model(model_call())
    assert answer.replied is not None
    digests = [seen.digest for seen in answer.replied.calls]
    assert digests[0] == digests[1] != digests[2]


async def test_a_model_failure_without_attempts_left_is_an_answer(world: World) -> None:
    """Outside of Temporal, and on its last attempt, a failure is returned with what stood in the request."""
    await world.prepared()
    world.answers["/chat/completions"] = Answer(503, {"error": {"message": f"token {CANARY} is tired"}})
    answer = await world.activities.call_model(
        model_call(Append(2, Message("context", "primed", "priming")), reply_seq=3)
    )
    assert answer.failed is not None
    assert answer.failed.error_class == "model_http_503"
    assert [sent.seq for sent in answer.failed.sent_context] == [2]
    assert CANARY not in answer.failed.error


def temporal_attempt(attempt: int, most: int) -> ActivityEnvironment:
    environment = ActivityEnvironment()
    policy = RetryPolicy(maximum_attempts=most)
    environment.info = replace(environment.info, attempt=attempt, retry_policy=policy)
    return environment


async def test_a_model_failure_is_raised_for_temporal_while_attempts_are_left(world: World) -> None:
    """Temporal repeats what may pass, when the provider asks for it; the text it keeps is redacted."""
    await world.prepared()
    error = {"error": {"message": f"token {CANARY} is tired"}}
    world.answers["/chat/completions"] = Answer(429, error, {"Retry-After": "3"})
    with pytest.raises(ApplicationError) as caught:
        await temporal_attempt(1, 5).run(world.activities.call_model, model_call())
    assert (caught.value.type, caught.value.non_retryable) == ("model_http_429", False)
    assert caught.value.next_retry_delay is not None and caught.value.next_retry_delay.total_seconds() == 3
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is None
    answer = await temporal_attempt(5, 5).run(world.activities.call_model, model_call())
    assert answer.failed is not None


async def test_an_unknown_agent_is_a_failure_that_names_the_known(world: World) -> None:
    """A spec with a wrong agent fails the run with the names there are."""
    await world.prepared()
    block = Append(2, Message("context", "<temporality.memory>a hint</temporality.memory>", "priming"))
    answer = await world.activities.call_model(replace(model_call(), agent="nobody", append=(block,), reply_seq=3))
    assert answer.failed is not None
    assert answer.failed.error == "no agent named 'nobody'; there are: openai_chat"
    assert answer.failed.sent_context == (), "a hint that reached nobody is not injected"


async def test_a_call_is_executed_once(world: World) -> None:
    """A repeated activity returns the first outcome; the command ran once."""
    await world.replied("echo x >> ran; cat ran")
    first = await world.activities.run_tool(tool_call())
    second = await world.activities.run_tool(tool_call())
    assert first == second
    assert (first.status, first.effect, first.excerpt) == ("ok", "applied", "x")
    assert (world.toolbox.folders("r").work / "ran").read_text() == "x\n"
    [reply] = await world.store.read("r", 4, 3)
    assert (reply.role, reply.call_id, reply.text) == ("tool", "c1", "x")


async def test_a_call_whose_attempt_was_interrupted_is_not_executed_again(world: World) -> None:
    """When an earlier attempt left no reply, the effect is uncertain and the model is told to check."""
    await world.replied("echo x >> ran")
    assert await world.store.begin_call("r", 3)
    finished = await world.activities.run_tool(tool_call())
    assert (finished.status, finished.effect, finished.error_class) == ("timed_out", "uncertain", "interrupted")
    assert not (world.toolbox.folders("r").work / "ran").exists()
    [reply] = await world.store.read("r", 4, 3)
    assert "check before you do anything consequential" in reply.text


async def test_a_call_without_effects_may_be_executed_again(tmp_path: Path) -> None:
    """Reading twice harms nobody: an interrupted call of a reading tool is simply made again."""

    async def look(folders: object, arguments: object) -> ToolResult:
        return ToolResult("ok", "none", output="seen")

    entry = ToolEntry("shell", "reads", {"type": "object"}, effectful=False)
    async with world_of(tmp_path, MemoryTranscript(), LocalTool(entry, look)) as world:
        await world.replied("ignored")
        await world.store.begin_call("r", 3)
        assert (await world.activities.run_tool(tool_call())).excerpt == "seen"


async def test_a_failed_call_says_how(world: World) -> None:
    """The reply has class, exit code, diagnostic and effect; the outcome has the diagnostic alone."""
    await world.replied("git status")
    finished = await world.activities.run_tool(tool_call())
    assert (finished.status, finished.error_class, finished.effect) == ("failed", "exit_nonzero", "uncertain")
    assert finished.diagnostic.startswith("fatal: not a git repository")
    [reply] = await world.store.read("r", 4, 3)
    assert reply.text.splitlines()[0] == "[failed: exit_nonzero: exit code 128]"
    assert finished.diagnostic in reply.text


async def test_a_secret_a_tool_prints_goes_nowhere(world: World) -> None:
    """Printed by a success, by a failure, in arguments: it stands in no outcome, transcript reply or event."""
    await world.replied(f"echo token={CANARY}", f"echo {CANARY} >&2; exit 3")
    good = await world.activities.run_tool(tool_call("c1", 3))
    bad = await world.activities.run_tool(tool_call("c2", 4))
    assert (good.status, bad.status) == ("ok", "failed")
    replies = await world.store.read("r", 5, 3)
    await world.activities.send_events(
        send(Event("r:5", "model.requested", 1, 5, '{"n_messages": 5}', messages_from=0, messages_to=5))
    )
    [reported] = world.asked("/v1/events")
    for text in (json.dumps([asdict(good), asdict(bad), *map(asdict, replies)]), json.dumps(reported.body)):
        assert CANARY not in text
        assert "[REDACTED:" in text


SECRET_COMMANDS = [
    f"curl -sS -H 'Authorization: Bearer {CANARY}' http://127.0.0.1:1/",
    f"export GITHUB_TOKEN={CANARY} && no-such-program",
    "mysql --password=hunter2hunter2 -e 'select 1' && true",
    f"cat <<E >&2; exit 3\nmachine x login ada password hunter2hunter2\n{CANARY}\nE",
    f"{'true; ' * 160}{CANARY}; exit 3",
]


@pytest.mark.parametrize("command", SECRET_COMMANDS, ids=range(len(SECRET_COMMANDS)))
async def test_a_secret_in_a_command_that_fails_never_reaches_the_wire(world: World, command: str) -> None:
    """Through the real activities, from the model's call to the bytes that Observation and ingest get."""
    world.answers["/chat/completions"] = Answer(body=completion("", command))
    spec = replace(SPEC, agent="openai_chat", model="small", limits=Limits(max_turns=3), mcp_servers=())
    await LocalRun(world.activities).run(spec)
    asked = [one for batch in world.asked("/hints/batch") for one in batch.body["requests"]]
    [failed] = [one for one in asked if one["trigger"] == "tool.failed"]
    assert failed["tool_arguments"][:4] == command[:4] and len(failed["tool_arguments"]) <= 1_024
    told = json.dumps([one.body for one in (*world.asked("/hints/batch"), *world.asked("/v1/events"))])
    assert CANARY[:10] not in told and "hunter2" not in told
    assert "[REDACTED:" in failed["tool_arguments"]


async def test_an_unexpected_exception_leaves_redacted(tmp_path: Path) -> None:
    """Even a defect's text is redacted before Temporal keeps it, and its cause does not travel."""

    async def explode(folders: object, arguments: object) -> ToolResult:
        raise KeyError(f"no token {CANARY}")

    tool = LocalTool(ToolEntry("shell", "explodes", {"type": "object"}), explode)
    async with world_of(tmp_path, MemoryTranscript(), tool) as world:
        await world.replied("x")
        with pytest.raises(ApplicationError) as caught:
            await world.activities.run_tool(tool_call())
    assert caught.value.type == "KeyError"
    assert CANARY not in str(caught.value)
    assert caught.value.__cause__ is None


def send(*events: Event) -> SendEvents:
    return SendEvents("r", "task-1", "agent", None, None, events)


async def test_events_carry_the_messages_a_request_added(world: World) -> None:
    """Bodies come from the transcript when the event is sent; the hash is that of the message as sent."""
    await world.prepared()
    primed = Message("context", "primed", "priming")
    world.answers["/chat/completions"] = Answer(body=completion("done"))
    answer = await world.activities.call_model(model_call(Append(2, primed), reply_seq=3))
    assert answer.replied is not None
    event = Event(
        "r:4", "model.requested", 17, 4, '{"n_messages": 3}', turn=1, caused_by="r:3", messages_from=0, messages_to=3
    )
    await world.activities.send_events(send(event))
    [asked] = world.asked("/v1/events")
    [wire] = asked.body["events"]
    assert wire["occurred_at_unix_nano"] == 17
    assert (wire["event_id"], wire["run_id"], wire["seq"], wire["turn"]) == ("r:4", "r", 4, 1)
    assert "activation_id" not in wire
    assert check_data("model.requested", wire["data"]) is None
    messages = wire["data"]["new_messages"]
    assert [message["role"] for message in messages] == ["system", "user", "context"]
    assert messages[2]["hash"] == answer.replied.sent_context[0].message_hash
    assert [message["position"] for message in messages] == [0, 1, 2]


async def test_an_event_without_its_messages_is_still_sent(world: World) -> None:
    """A transcript with a gap costs the bodies, not the event."""
    event = Event("r:4", "model.requested", 17, 4, '{"n_messages": 3}', messages_from=0, messages_to=3)
    [wire] = await wire_events(world.store, send(event))
    assert "no message at position 0" in wire["data"]["messages_missing"]


async def test_events_ingest_does_not_take_are_raised_only_for_temporal(world: World) -> None:
    """While attempts are left Temporal repeats the report; otherwise the loss is counted and nothing is raised."""
    world.answers["/v1/events"] = Answer(503, {"code": "database_down"})
    event = Event("r:1", "run.started", 1, 1)
    with pytest.raises(ApplicationError) as caught:
        await temporal_attempt(1, 3).run(world.activities.send_events, send(event))
    assert caught.value.type == "ingest_unavailable"
    await temporal_attempt(3, 3).run(world.activities.send_events, send(event))
    await world.activities.send_events(send(event))


async def test_hints_are_fetched_whatever_observation_does(world: World) -> None:
    """Observation failing is an answer with its times, never an exception."""
    request = HintRequest("r:a1", "tool.failed", "r:7", "r", "", "agent", None, "Release it")
    arrived = await world.activities.fetch_hints(FetchHints("r", (request,), 2_000))
    assert [answer.result for answer in arrived.answers] == ["error"]
    assert arrived.at_ns >= arrived.requested_ns


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (ToolResult("ok", "applied", output=""), "(no output)"),
        (ToolResult("ok", "applied", output="", note="exit code 1"), "(no output)\n[exit code 1]"),
        (
            ToolResult("failed", "none", diagnostic="bad revision", error_class="mcp_tool_error"),
            "[failed: mcp_tool_error]\nbad revision\n[effect: none]",
        ),
    ],
)
def test_replies_say_what_happened(result: ToolResult, text: str) -> None:
    """Success reads as its output; a failure as its class, diagnostic and effect."""
    assert reply_text(result) == text


def test_a_long_text_keeps_both_ends() -> None:
    """Within the limit, with the beginning, more of the end, and how much is missing."""
    text = "first line\n" + "x" * 50_000 + "\nlast line"
    cut = cut_middle(text, 4_096)
    assert len(cut) <= 4_096
    assert cut.startswith("first line") and cut.endswith("last line")
    assert "characters left out" in cut
    assert cut_middle("short", 4_096) == "short"


def test_call_ids_are_unique_whatever_the_model_says() -> None:
    """An id made for a call that had none, or one used before, is that of no other call of the reply or the run."""
    known = KnownRun()
    known.add(Message("assistant", "", "model", (ToolCall("x", "shell", "{}"),)))
    history = History(known, 1)
    given = ("x-1-0", "x-1-1", "x", "", "call-1-0", "x")
    reply = checked(
        DriverReply("", tuple(ToolCall(call_id, "shell", "{}") for call_id in given)),
        history,
        ModelRequest("r", 1, (), ()),
    )
    ids = [call.call_id for call in reply.calls]
    assert len({*ids, "x"}) == len(ids) + 1
    assert (ids[0], ids[1], ids[4]) == ("x-1-0", "x-1-1", "call-1-0"), "an id that is free is kept"
