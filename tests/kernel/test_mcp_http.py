"""MCP servers over streamable HTTP, against the SDK's own server in a process that is killed and started again."""

import asyncio
import json
import os
import signal
import socket
from collections.abc import AsyncIterator, Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path

import pytest

from kernel.tools.catalogue import Catalogue
from kernel.tools.mcp_servers import McpSessions
from kernel.tools.registry import PreparedTools, Toolbox
from tests.kernel.mcp_http_run import LIMITS, Server, call, outcome, prepare, running

ERAS = [("modern",), ("legacy",), ("legacy", "json")]


@pytest.fixture(scope="module")
def kept(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[tuple[str, ...], Server]]:
    """One server for each era, for the tests that kill none."""
    with ExitStack() as stack:
        yield {era: stack.enter_context(running(tmp_path_factory.mktemp("server"), *era)) for era in ERAS}


@pytest.fixture
async def toolbox(tmp_path: Path) -> AsyncIterator[Toolbox]:
    made = Toolbox(tmp_path / "work", sessions=McpSessions(LIMITS))
    yield made
    await made.close()


@pytest.mark.parametrize("era", ERAS, ids="-".join)
async def test_calls_of_every_protocol(
    kept: dict[tuple[str, ...], Server], toolbox: Toolbox, era: tuple[str, ...]
) -> None:
    """Old and new protocol, streams and JSON: the same results, notifications and questions break no call."""
    server = kept[era]
    prepared = await prepare(toolbox, server.config)
    assert prepared.failed_servers == ()
    look = prepared.catalogue.find("odd__look")
    assert look is not None and (look.mcp_server, look.remote_name, look.effectful) == ("odd", "look", False)

    seen = await call(toolbox, prepared, "look")
    assert (outcome(seen), seen.output) == (("ok", "none", ""), f"process {server.pid}")
    assert outcome(await call(toolbox, prepared, "write")) == ("ok", "applied", "")
    lively = await call(toolbox, prepared, "lively")
    assert (outcome(lively), lively.output) == (("ok", "none", ""), "done")
    for asks, what in (("ask_person", "licitation"), ("ask_model", "ampling")):
        asked = await call(toolbox, prepared, asks)
        assert outcome(asked) == ("failed", "uncertain", "mcp_error")
        assert what in asked.diagnostic
    failed = await call(toolbox, prepared, "fail")
    assert outcome(failed) == ("failed", "uncertain", "mcp_tool_error")
    assert "no such thing as this" in failed.diagnostic
    pictures = (await call(toolbox, prepared, "pictures")).output.splitlines()
    assert pictures == [
        "[image image/png, 4 base64 characters]",
        "[audio audio/wav, 8 base64 characters]",
        "inside",
        "[resource application/zip, 4 base64 characters]",
        "[resource_link: file:///a.md]",
    ]
    assert (await call(toolbox, prepared, "much", n=100_000)).output == "a" * 100_000
    assert server.requests("POST initialize") == [] or era[0] == "legacy"


RUDE = {
    "garbage": ("failed", "uncertain", "mcp_invalid_result"),
    "garbage_event": ("failed", "uncertain", "mcp_invalid_result"),
    "cut_event": ("failed", "uncertain", "mcp_connection_lost"),
    "page": ("failed", "uncertain", "mcp_invalid_result"),
    "accepted": ("failed", "uncertain", "mcp_invalid_result"),
    "wrong_type": ("failed", "uncertain", "mcp_invalid_result"),
    "wrong_event": ("failed", "uncertain", "mcp_invalid_result"),
    "vast": ("failed", "uncertain", "mcp_invalid_result"),
    "vast_event": ("failed", "uncertain", "mcp_invalid_result"),
    "elsewhere": ("failed", "uncertain", "mcp_error"),
    "gateway": ("failed", "uncertain", "mcp_connection_lost"),
    "broken": ("failed", "uncertain", "mcp_error"),
    "wants_input": ("failed", "uncertain", "mcp_error"),
    "silent": ("timed_out", "uncertain", "timeout"),
}


@pytest.mark.parametrize(("tool", "expected"), RUDE.items(), ids=list(RUDE))
async def test_rude_answers_cost_one_call(
    kept: dict[tuple[str, ...], Server], toolbox: Toolbox, tool: str, expected: tuple[str, str, str]
) -> None:
    """An answer no server should give is a failure in its own words; it is sent once, and the next call works."""
    server = kept[ERAS[0]]
    before = server.calls(tool)
    prepared = await prepare(toolbox, server.config)
    result = await call(toolbox, prepared, tool)
    assert outcome(result) == expected
    assert result.diagnostic
    assert "aaaa" not in result.diagnostic
    assert server.calls(tool) - before == 1
    assert (await call(toolbox, prepared, "look")).status == "ok"


async def test_only_a_lost_reading_call_is_repeated_and_once(
    kept: dict[tuple[str, ...], Server], toolbox: Toolbox
) -> None:
    """What a gateway says in place of a server is a loss: a reading call is sent again once; a wrong answer is not."""
    server = kept[ERAS[1]]
    prepared = await prepare(toolbox, server.config)
    for tool, n_sent in (("gateway", 2), ("cut_event", 2), ("garbage", 1), ("broken", 1)):
        before = server.calls(tool)
        result = await call(toolbox, prepared, tool, reading=True)
        assert result.status != "ok" and result.effect == "none"
        assert server.calls(tool) - before == n_sent, tool


async def test_arguments_that_cannot_be_written_are_not_sent(
    kept: dict[tuple[str, ...], Server], toolbox: Toolbox
) -> None:
    """Half a character, which a model may well write, costs neither a call nor the session."""
    server = kept[ERAS[1]]
    prepared = await prepare(toolbox, server.config)
    before = (server.calls("write"), len(server.requests("POST initialize")))
    result = await call(toolbox, prepared, "write", text="a\ud800b")
    assert outcome(result) == ("failed", "none", "mcp_error")
    assert "surrogate" in result.diagnostic
    assert (await call(toolbox, prepared, "write", text="a😀b")).status == "ok"
    assert (server.calls("write"), len(server.requests("POST initialize"))) == (before[0] + 1, before[1])


async def test_too_large_and_redirected_are_said(kept: dict[tuple[str, ...], Server], toolbox: Toolbox) -> None:
    """The diagnostic says what to do about a size and a redirect, and the redirect was not followed."""
    prepared = await prepare(toolbox, kept[ERAS[0]].config)
    for tool in ("vast", "vast_event"):
        assert "more bytes" in (await call(toolbox, prepared, tool)).diagnostic
    assert "http://127.0.0.2:9/elsewhere not followed" in (await call(toolbox, prepared, "elsewhere")).diagnostic
    assert "HTTP 500" in (await call(toolbox, prepared, "broken")).diagnostic


# ---- sessions ---------------------------------------------------------------------------------------------


async def test_a_run_has_one_session_and_ends_it(tmp_path: Path, toolbox: Toolbox) -> None:
    """All calls of a run go through one session, which is deleted with the run; another run's stays."""
    with running(tmp_path / "server", "legacy") as server:
        mine = await prepare(toolbox, server.config)
        other = await prepare(toolbox, server.config, run_id="other")
        for _ in range(3):
            assert (await call(toolbox, mine, "look")).status == "ok"
        assert len(server.requests("POST initialize")) == 2
        assert server.requests("DELETE") == []
        await toolbox.close_run("r")
        [deleted] = server.requests("DELETE")
        assert deleted.split()[-1] in server.requests("POST tools/call look")[0]
        assert (await call(toolbox, other, "look", "other")).status == "ok"
        await toolbox.close()
        assert len(server.requests("DELETE")) == 2


async def test_an_idle_session_is_ended_and_opened_again(tmp_path: Path) -> None:
    """A session nobody uses for a while is deleted; the next call opens another."""
    toolbox = Toolbox(tmp_path / "work", sessions=McpSessions(replace(LIMITS, idle_seconds=0.3)))
    with running(tmp_path / "server", "legacy") as server:
        prepared = await prepare(toolbox, server.config)
        async with asyncio.timeout(20):
            while not server.requests("DELETE"):
                await asyncio.sleep(0.02)
        assert (await call(toolbox, prepared, "write")).status == "ok"
        assert len(server.requests("POST initialize")) == 2
        await toolbox.close()


async def test_a_run_that_ends_during_a_call_opens_nothing_again(tmp_path: Path, toolbox: Toolbox) -> None:
    """A reading call that its run's end cuts off is not repeated on a new session."""
    with running(tmp_path / "server", "legacy") as server:
        prepared = await prepare(toolbox, server.config)
        pending = asyncio.create_task(call(toolbox, prepared, "wait_reading", seconds=30))
        await server.until_called("wait_reading")
        await toolbox.close_run("r")
        assert outcome(await pending) == ("failed", "none", "mcp_connection_lost")
        assert len(server.requests("POST initialize")) == 1
        assert server.calls("wait_reading") == 1


async def test_another_worker_goes_on_from_the_catalogue(
    kept: dict[tuple[str, ...], Server], toolbox: Toolbox, tmp_path: Path
) -> None:
    """What is kept of a preparation is enough for a process that never prepared the run."""
    prepared = await prepare(toolbox, kept[ERAS[1]].config)
    kept_text = json.dumps(prepared.catalogue.to_json())
    second = Toolbox(tmp_path / "work", sessions=McpSessions(LIMITS))
    again = PreparedTools(Catalogue.from_json(json.loads(kept_text)))
    assert outcome(await call(second, again, "write")) == ("ok", "applied", "")
    await second.close()


# ---- loss and restart -------------------------------------------------------------------------------------


@pytest.mark.parametrize("era", ERAS[:2], ids="-".join)
async def test_a_server_restarted_between_calls(tmp_path: Path, toolbox: Toolbox, era: tuple[str, ...]) -> None:
    """Killed and started again on its port, it does not know the session: reading and writing go on, once each."""
    with running(tmp_path / "server", *era) as server:
        prepared = await prepare(toolbox, server.config)
        for tool, effect in (("look", "none"), ("write", "applied")):
            server.kill()
            server.start()
            assert outcome(await call(toolbox, prepared, tool)) == ("ok", effect, "")
            assert server.calls(tool) == 1


async def test_a_forgotten_session_is_opened_again(tmp_path: Path, toolbox: Toolbox) -> None:
    """A server that runs on but has dropped the session answers 404: a new one, and the call is carried out once."""
    with running(tmp_path / "server", "legacy") as server:
        prepared = await prepare(toolbox, server.config)
        for tool in ("look", "write"):
            session_id = server.requests("POST notifications/initialized")[-1].split()[-1]
            drop_session(server.port, session_id)
            assert (await call(toolbox, prepared, tool)).status == "ok"
            assert server.calls(tool) == 1
        assert len(server.requests("POST initialize")) == 3


def drop_session(port: int, session_id: str) -> None:
    """Delete a session behind its client's back."""
    with socket.create_connection(("127.0.0.1", port)) as link:
        head = ("DELETE /mcp HTTP/1.1", f"Host: 127.0.0.1:{port}", f"Mcp-Session-Id: {session_id}", "Connection: close")
        link.sendall("\r\n".join((*head, "", "")).encode())
        assert b" 200 " in link.recv(1000)


@pytest.mark.parametrize("era", ERAS[:2], ids="-".join)
async def test_a_server_lost_during_a_call(tmp_path: Path, toolbox: Toolbox, era: tuple[str, ...]) -> None:
    """A call with effects is not sent again and its effect is uncertain; a reading one is repeated once."""
    with running(tmp_path / "server", *era, held=True) as server:
        prepared = await prepare(toolbox, server.config)
        writing = asyncio.create_task(call(toolbox, prepared, "wait", seconds=30))
        await server.until_called("wait")
        server.kill()
        assert outcome(await writing) == ("failed", "uncertain", "mcp_connection_lost")
        server.start()
        assert (await call(toolbox, prepared, "write")).status == "ok"
        assert server.calls("wait") == 1

        reading = asyncio.create_task(call(toolbox, prepared, "wait_reading", seconds=0.5))
        await server.until_called("wait_reading")
        server.kill()
        server.start()
        result = await reading
        assert (outcome(result), result.output) == (("ok", "none", ""), f"process {server.pid}")
        assert server.calls("wait_reading") == 2


async def test_a_reading_call_is_repeated_once_only(tmp_path: Path, toolbox: Toolbox) -> None:
    """Lost twice, it is given up."""
    with running(tmp_path / "server", held=True) as server:
        prepared = await prepare(toolbox, server.config)
        reading = asyncio.create_task(call(toolbox, prepared, "wait_reading", seconds=30))
        for n_sent in (1, 2):
            await server.until_called("wait_reading", n_sent)
            server.kill()
            server.start()
        assert outcome(await reading) == ("failed", "none", "mcp_connection_lost")
        assert server.calls("wait_reading") == 2


async def test_a_server_down_for_good(tmp_path: Path, toolbox: Toolbox) -> None:
    """Down before a call, nothing was sent; down during one with effects, nobody knows. The run can go on."""
    with running(tmp_path / "server") as server:
        prepared = await prepare(toolbox, server.config)
        writing = asyncio.create_task(call(toolbox, prepared, "wait", seconds=30))
        await server.until_called("wait")
        server.kill()
        assert outcome(await writing) == ("failed", "uncertain", "mcp_connection_lost")
        for tool in ("write", "look"):
            down = await call(toolbox, prepared, tool)
            assert outcome(down) == ("failed", "none", "mcp_server_unavailable")
            assert "connect" in down.diagnostic.lower()
        shell = prepared.catalogue.find("shell")
        assert shell is not None
        assert (await toolbox.run("r", prepared.catalogue, shell, {"command": "echo on"})).output.strip() == "on"


@pytest.mark.parametrize("era", ERAS[:2], ids="-".join)
async def test_a_server_that_hangs(tmp_path: Path, toolbox: Toolbox, era: tuple[str, ...]) -> None:
    """A stopped process costs a call its time limit, and the run's end does not wait for it; awake, it serves again."""
    with running(tmp_path / "server", *era) as server:
        prepared = await prepare(toolbox, server.config)
        os.kill(server.pid, signal.SIGSTOP)
        result = await call(toolbox, prepared, "look")
        assert outcome(result) == ("timed_out", "none", "timeout")
        os.kill(server.pid, signal.SIGCONT)
        assert (await call(toolbox, prepared, "write")).status == "ok"
        os.kill(server.pid, signal.SIGSTOP)
        await asyncio.wait_for(toolbox.close_run("r"), 60)


async def test_calls_that_lose_a_server_together_share_the_next_session(tmp_path: Path, toolbox: Toolbox) -> None:
    """Calls side by side do not end each other's new session."""
    with running(tmp_path / "server", "legacy") as server:
        prepared = await prepare(toolbox, server.config)
        server.kill()
        server.start()
        names = ("look", "write", "look", "write", "write")
        results = await asyncio.gather(*(call(toolbox, prepared, name) for name in names))
        assert [result.status for result in results] == ["ok"] * len(names)
        assert server.calls("write") == 3
        assert len(server.requests("POST initialize")) == 2
