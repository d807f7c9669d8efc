"""Harnesses that call tools over MCP: the bridge by the official client, the ask, the wind-down, and commands."""

import asyncio
import json
import os
import ssl
import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import mcp_types
import pytest
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from kernel.drivers.escalation import DEFAULT_REASON
from kernel.drivers.mcp_harness import CommandHarness, Harness, HarnessError, McpHarnessRuntime
from kernel.drivers.plugin import RuntimeDriver, Turn
from kernel.edge.retry import EnvelopeError
from kernel.messages import Hint, HintRequest, Limits, RunResult, RunSpec
from kernel.runtime.local import LocalRun
from kernel.testing import MemoryEdges, ToolError, hint
from tests.kernel.plugin_history import OFFERS, PluginRun

PLAIN = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # a bridge speaks HTTP: no certificates are read for it
SPEC = RunSpec("run-1", "the task", tools=("escalate",), grants=("*", "escalate"))


@asynccontextmanager
async def client_of(url: str, token: str, mode: Any = "auto") -> AsyncIterator[Client]:
    http = httpx2.AsyncClient(headers={"Authorization": f"Bearer {token}"}, timeout=60, verify=PLAIN)
    async with http, Client(streamable_http_client(url, http_client=http), cache=None, mode=mode) as client:
        yield client


def harness_of(work: Callable[[Client], Awaitable[str]]) -> Harness:
    async def harness(url: str, token: str, turn: Turn) -> str:
        async with client_of(url, token) as client:
            return await work(client)

    return harness


def texts(result: mcp_types.CallToolResult) -> list[str]:
    return [block.text for block in result.content if isinstance(block, mcp_types.TextContent)]


def codes(result: mcp_types.CallToolResult) -> tuple[bool, str, str]:
    meta = result.meta or {}
    return result.is_error, str(meta["temporality/status"]), str(meta["temporality/code"])


def driver_of(harness: Harness, **options: Any) -> RuntimeDriver:
    return RuntimeDriver(McpHarnessRuntime(harness, **options))


async def run_on(
    work: Callable[[Client], Awaitable[str]],
    tools: dict[str, Any] | None = None,
    find_hints: Callable[[HintRequest], list[Hint]] | None = None,
    spec: RunSpec = SPEC,
) -> tuple[RunResult, MemoryEdges]:
    """Run a spec by a harness on the in-process runner."""
    edges = MemoryEdges(driver_of(harness_of(work)), tools or {}, find_hints)  # type: ignore[arg-type]
    return await asyncio.wait_for(LocalRun(edges, clock_ns=edges.clock).run(spec), 120), edges


def note(line: str) -> Callable[..., str]:
    return lambda **arguments: f"{line} {arguments}" if arguments else line


@pytest.mark.parametrize("mode", ["auto", "legacy"])
async def test_tools_are_listed_and_called(mode: str) -> None:
    """A real client of either protocol sees the turn's tools as they are offered and gets each reply."""
    seen: dict[str, Any] = {}

    async def harness(url: str, token: str, turn: Turn) -> str:
        async with client_of(url, token, mode) as client:
            seen["tools"] = (await client.list_tools()).tools
            seen["ok"] = await client.call_tool("read", {"path": "a", "é": 1})
            seen["failed"] = await client.call_tool("write")
        return "read it"

    run = PluginRun(driver_of(harness))
    run.answers["write"] = ("timed_out", "timeout", "too slow")
    ending = await run.to_the_end()
    assert [(tool.name, tool.description, tool.input_schema) for tool in seen["tools"]] == [
        (offer.name, offer.description, {"type": "object"}) for offer in OFFERS
    ]
    assert (texts(seen["ok"]), codes(seen["ok"])) == (["read: done"], (False, "ok", ""))
    assert texts(seen["failed"]) == ["timed_out (timeout): too slow"]
    assert codes(seen["failed"]) == (True, "timed_out", "timeout")
    assert json.loads(run.replies[0].calls[0].arguments) == {"path": "a", "é": 1}
    assert run.called() == [["read"], ["write"]]
    assert ending.text == "read it"


async def test_a_whole_run_over_mcp() -> None:
    """Executed, refused and failed calls of a run are the core's own, reported as any; a hint reaches the harness
    beside the reply it belongs to."""
    results: list[mcp_types.CallToolResult] = []

    def breaks() -> str:
        raise ToolError("fatal: no such branch", "exit_nonzero")

    async def work(client: Client) -> str:
        for name in ("read", "breaks", "nowhere"):
            results.append(await client.call_tool(name))
        return "all tried"

    def find(request: HintRequest) -> list[Hint]:
        return [hint("fetch-first")] if request.trigger == "tool.failed" else []

    result, edges = await run_on(work, {"read": note("contents"), "breaks": breaks}, find)
    assert (result.status, result.answer) == ("completed", "all tried")
    assert edges.executed == [("read", {}), ("breaks", {})]
    assert [codes(one) for one in results] == [
        (False, "ok", ""),
        (True, "failed", "exit_nonzero"),
        (True, "denied", "tool_unavailable"),
    ]
    assert texts(results[0]) == ["contents"]
    reply, told = texts(results[1])
    assert "no such branch" in reply and "rule of fetch-first" in told
    assert [one["stage"] for one in edges.data_of("hint.delivery")].count("injected") == 1


async def test_t53_read_ask_write_over_mcp() -> None:
    """What was called before the ask is answered, the ask is told to stop, what comes after it is denied and counted;
    the run ends escalated, and neither the ask nor the calls after it reach the core."""
    results: list[mcp_types.CallToolResult] = []

    async def work(client: Client) -> str:
        results.append(await client.call_tool("read"))
        results.append(await client.call_tool("escalate", {"reason": "  needs a key "}))
        results.append(await client.call_tool("write"))
        results.append(await client.call_tool("nowhere"))
        return "I am done"

    result, edges = await run_on(work, {"read": note("contents"), "write": note("written")})
    assert edges.executed == [("read", {})]
    assert [codes(one) for one in results] == [
        (False, "ok", ""),
        (False, "ok", ""),
        (True, "denied", "escalation_pending"),
        (True, "denied", "escalation_pending"),
    ]
    assert "Stop now" in texts(results[1])[0]
    [data] = edges.data_of("run.escalated")
    assert (result.status, data["reason"], data["metadata"]) == ("escalated", "needs a key", {"n_denied": 2})
    assert [event.tool for event in edges.events if event.type == "tool.requested"] == ["read", "escalate"]
    assert edges.data_of("tool.blocked") == []


async def test_t54_two_asks_over_mcp() -> None:
    """The first ask's reason is taken, a second is one of the calls after it; an unreadable one has words."""

    async def twice(client: Client) -> str:
        await client.call_tool("escalate", {"reason": "the first"})
        second = await client.call_tool("escalate", {"reason": "the second"})
        assert codes(second) == (True, "denied", "escalation_pending")
        return ""

    async def without(client: Client) -> str:
        await client.call_tool("escalate", {"because": 5})
        return "x"

    _, edges = await run_on(twice)
    [data] = edges.data_of("run.escalated")
    assert (data["reason"], data["metadata"]) == ("the first", {"n_denied": 1})
    _, edges = await run_on(without)
    [data] = edges.data_of("run.escalated")
    assert (data["reason"], data["metadata"]) == (DEFAULT_REASON, {"n_denied": 0})


async def test_t55_an_ask_without_a_grant() -> None:
    """It is a call of a tool that is not offered: refused by the core, and the run goes on; nothing is escalated."""
    results: list[mcp_types.CallToolResult] = []

    async def work(client: Client) -> str:
        assert [tool.name for tool in (await client.list_tools()).tools] == ["read"]
        results.append(await client.call_tool("escalate", {"reason": "please"}))
        results.append(await client.call_tool("read"))
        return "went on"

    spec = RunSpec("run-1", "the task", tools=("escalate",))
    result, edges = await run_on(work, {"read": note("contents")}, spec=spec)
    assert [codes(one)[2] for one in results] == ["tool_unavailable", ""]
    assert (result.status, result.answer) == ("completed", "went on")
    assert "run.escalated" not in edges.event_types()


async def test_in_the_finale_an_ask_is_refused_too() -> None:
    """With the limits spent there is no catalogue: an ask is answered like any call, and the answer ends the run."""
    results: list[mcp_types.CallToolResult] = []

    async def work(client: Client) -> str:
        for name in ("read", "escalate", "read"):
            results.append(await client.call_tool(name))
        return "so far, so good"

    spec = RunSpec("run-1", "the task", tools=("escalate",), grants=("*", "escalate"), limits=Limits(max_turns=1))
    result, edges = await run_on(work, {"read": note("contents")}, spec=spec)
    assert [codes(one)[2] for one in results] == ["", "step_limit_exceeded", "step_limit_exceeded"]
    assert (result.status, result.answer) == ("limit_reached", "so far, so good")
    assert edges.executed == [("read", {})]


@pytest.mark.parametrize("how", ["raises", "hangs", "says nothing"])
async def test_an_ask_stands_however_the_harness_ends(how: str) -> None:
    """After the ask a harness that fails, or does not wind down and is stopped, has still asked."""
    ended: list[str] = []

    async def harness(url: str, token: str, turn: Turn) -> str:
        try:
            async with client_of(url, token) as client:
                await client.call_tool("escalate", {"reason": "needs a key"})
                if how == "hangs":
                    await asyncio.Event().wait()
                if how == "raises":
                    raise RuntimeError("gave up")
            return ""
        finally:
            ended.append(how)

    reply = await PluginRun(driver_of(harness, wind_down_seconds=0.01 if how == "hangs" else 60)).ask()
    assert reply.escalation is not None and reply.escalation.reason == "needs a key"
    assert ended == [how]


async def test_only_the_turn_may_use_its_bridge() -> None:
    """Without the turn's token nobody is let in, nothing is called; after the turn nobody listens any more."""
    places: list[tuple[str, str]] = []

    async def harness(url: str, token: str, turn: Turn) -> str:
        places.append((url, token))
        body = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read", "arguments": {}}}
        async with httpx2.AsyncClient(verify=PLAIN) as http:
            for headers in ({}, {"Authorization": "Bearer x"}, {"Authorization": token}):
                assert (await http.post(url, json=body, headers=headers)).status_code == 401
        return "nobody came in"

    for _ in range(2):
        run = PluginRun(driver_of(harness))
        assert (await run.ask()).text == "nobody came in"
    assert len({token for _, token in places}) == 2
    async with httpx2.AsyncClient(verify=PLAIN) as http:
        for url, token in places:
            assert url.startswith("http://127.0.0.1:")
            with pytest.raises(httpx2.ConnectError):
                await http.post(url, headers={"Authorization": f"Bearer {token}"})


async def test_a_harness_that_fails() -> None:
    """One that says why fails its run with that; one that breaks, or returns no text, is a runtime that broke."""

    async def says(url: str, token: str, turn: Turn) -> str:
        raise HarnessError("no licence")

    async def breaks(url: str, token: str, turn: Turn) -> str:
        raise KeyError("home")

    async def nothing(url: str, token: str, turn: Turn) -> str:
        return ""

    assert (await PluginRun(driver_of(says)).ask()).failed == "no licence"
    for harness, code in ((breaks, "runtime_failed"), (nothing, "invalid_runtime_outcome")):
        with pytest.raises(EnvelopeError) as caught:
            await PluginRun(driver_of(harness)).ask()
        assert caught.value.error_class == code


async def test_a_run_that_ends_stops_the_harness() -> None:
    """A cancelled run takes its harness and the bridge with it; a call under way is executed nowhere."""
    places: list[str] = []
    ended: list[str] = []

    async def harness(url: str, token: str, turn: Turn) -> str:
        places.append(url)
        try:
            async with client_of(url, token) as client:
                await client.call_tool("read")
        finally:
            ended.append("harness")
        return "never"

    run = PluginRun(driver_of(harness))
    assert [call.name for call in (await run.ask()).calls] == ["read"]
    await run.driver.end_run(run.request.run_id)
    assert ended == ["harness"]
    async with httpx2.AsyncClient(verify=PLAIN) as http:
        with pytest.raises(httpx2.ConnectError):
            await http.post(places[0])


HARNESS = """
import json, os, sys
from urllib.request import Request, urlopen

task = sys.stdin.read()
call = {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "read", "arguments": {"task": task}}}
headers = {
    "Authorization": "Bearer " + os.environ["TEMPORALITY_MCP_TOKEN"],
    "Content-Type": "application/json",
    "Accept": "application/json, text/event-stream",
}
with urlopen(Request(os.environ["TEMPORALITY_MCP_URL"], json.dumps(call).encode(), headers)) as answer:
    [data] = [line.removeprefix(b"data: ") for line in answer if line.startswith(b"data: {")]
text = json.loads(data)["result"]["content"][0]["text"]
print(text, os.environ.get("KERNEL_DATABASE_URL"), os.environ["MINE"], os.listdir("."))
"""


async def test_a_command_is_a_harness(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A command reads the task from stdin, finds the bridge in its environment, sees nothing of the worker's, and what
    it prints is the answer."""
    monkeypatch.setenv("KERNEL_DATABASE_URL", "postgresql://secret")
    script = tmp_path / "harness.py"
    script.write_text(HARNESS)
    run = PluginRun(driver_of(CommandHarness([sys.executable, str(script)], environment={"MINE": "mine"})))
    ending = await run.to_the_end()
    assert json.loads(run.replies[0].calls[0].arguments) == {"task": "the task"}
    assert ending.text == "read: done None mine []"


@pytest.mark.parametrize(
    ("command", "error"),
    [
        (["/bin/sh", "-c", "echo half; echo no licence >&2; exit 3"], "ended with exit code 3: no licence"),
        (["/bin/sh", "-c", "exit 0"], "ended without printing an answer"),
        (["/nowhere/harness"], "could not be started"),
        (["/bin/sh", "-c", "sleep 600"], "did not end within 0.2 seconds"),
    ],
)
async def test_a_command_that_fails(command: list[str], error: str) -> None:
    """Its run fails with what happened; a command whose time is up is killed."""
    run = PluginRun(driver_of(CommandHarness(command, seconds=0.2 if "sleep" in command[-1] else 60)))
    assert error in (await run.ask()).failed


async def test_a_command_is_killed_with_its_run(tmp_path: Path) -> None:
    """The command and what it started are gone when the run is over."""
    os_pipe = tmp_path / "pipe"
    os.mkfifo(os_pipe)
    command = f"exec 3>{os_pipe}; sleep 600 & echo ready >&3; wait"
    run = PluginRun(driver_of(CommandHarness(["/bin/sh", "-c", command])))
    asking = asyncio.create_task(run.ask())
    with await asyncio.to_thread(os_pipe.open) as pipe:
        assert await asyncio.to_thread(pipe.readline) == "ready\n"
        await run.driver.end_run(run.request.run_id)
        assert await asyncio.wait_for(asyncio.to_thread(pipe.read), 60) == ""  # nobody is left who could write
    with pytest.raises(EnvelopeError):
        await asking
