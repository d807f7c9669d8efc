"""MCP servers of a run over stdio, most against the real git server: listing, calling, losing, restarting, stopping."""

import asyncio
import logging
import os
import signal
import sys
import textwrap
from collections.abc import AsyncIterator
from dataclasses import replace
from pathlib import Path

import pytest

from kernel.messages import McpServer, RunSpec
from kernel.tools.catalogue import ToolResult
from kernel.tools.mcp_servers import McpLimits, McpSessions
from kernel.tools.registry import TOOLS_LIMIT, PreparedTools, Toolbox

GIT = McpServer("git", "mcp-server-git", ("--repository", "{work}"))
SETUP = """
git init -q && git config user.name Ada && git config user.email ada@example.org
echo one > notes.txt && git add notes.txt && git commit -q -m 'First note'
"""


@pytest.fixture
async def toolbox(tmp_path: Path) -> AsyncIterator[Toolbox]:
    made = Toolbox(tmp_path)
    yield made
    await made.close()


async def call(toolbox: Toolbox, prepared: PreparedTools, name: str, run_id: str = "r", **more: object) -> ToolResult:
    entry = prepared.catalogue.find(name)
    assert entry is not None
    return await toolbox.run(run_id, prepared.catalogue, entry, {"repo_path": ".", **more})


def server_pids(toolbox: Toolbox, run_id: str = "r") -> list[int]:
    """The processes whose command line names this run's work folder."""
    work = str(toolbox.folders(run_id).work)
    found = []
    for path in Path("/proc").iterdir():
        if path.name.isdigit():
            try:
                command = (path / "cmdline").read_bytes().decode(errors="replace")
            except OSError:
                continue
            if work in command and "mcp" in command:
                found.append(int(path.name))
    return found


async def test_tools_are_listed_under_the_servers_key(toolbox: Toolbox) -> None:
    """Names tell the server apart; the key comes from the registration; reading tools are marked as such."""
    prepared = await toolbox.prepare(RunSpec("r", "t", setup=SETUP, mcp_servers=(GIT,)))
    assert prepared.failed_servers == ()
    log = prepared.catalogue.find("git__git_log")
    commit = prepared.catalogue.find("git__git_commit")
    assert log is not None and commit is not None
    assert (log.mcp_server, log.remote_name, log.effectful) == ("git", "git_log", False)
    assert commit.effectful
    assert "repo_path" in log.schema["properties"]
    shell = prepared.catalogue.find("shell")
    assert shell is not None and shell.mcp_server is None


async def test_call_succeeds_and_fails_as_the_server_says(toolbox: Toolbox) -> None:
    """A result is ok without an effect for a reading tool; a tool error is a failure with the server's text."""
    prepared = await toolbox.prepare(RunSpec("r", "t", setup=SETUP, mcp_servers=(GIT,)))
    good = await call(toolbox, prepared, "git__git_log")
    assert (good.status, good.effect) == ("ok", "none")
    assert "First note" in good.output
    bad = await call(toolbox, prepared, "git__git_show", revision="no-such-revision")
    assert (bad.status, bad.effect, bad.error_class) == ("failed", "none", "mcp_tool_error")
    assert "no-such-revision" in bad.diagnostic
    outside = await call(toolbox, prepared, "git__git_log", repo_path="/")
    assert outside.status == "failed"


async def test_one_session_serves_all_calls_of_a_run(toolbox: Toolbox) -> None:
    """A run's calls go to one process; another run has its own; ending a run ends its server only."""
    prepared = await toolbox.prepare(RunSpec("r", "t", setup=SETUP, mcp_servers=(GIT,)))
    other = await toolbox.prepare(RunSpec("other", "t", setup=SETUP, mcp_servers=(GIT,)))
    for _ in range(3):
        assert (await call(toolbox, prepared, "git__git_status")).status == "ok"
    assert len(server_pids(toolbox)) == 1
    await toolbox.close_run("r")
    assert server_pids(toolbox) == []
    assert len(server_pids(toolbox, "other")) == 1
    assert (await call(toolbox, other, "git__git_status", "other")).status == "ok"


async def test_lost_server_is_started_again(toolbox: Toolbox) -> None:
    """After a server's death reading and writing calls both work, and the write happens once."""
    prepared = await toolbox.prepare(RunSpec("r", "t", setup=SETUP, mcp_servers=(GIT,)))
    for name, more in (("git__git_log", {}), ("git__git_create_branch", {"branch_name": "work"})):
        [pid] = server_pids(toolbox)
        os.kill(pid, signal.SIGKILL)
        result = await call(toolbox, prepared, name, **more)
        assert result.status == "ok", result
        assert server_pids(toolbox) != [pid]
    branches = await call(toolbox, prepared, "git__git_branch", branch_type="local")
    assert branches.output.count("work") == 1


async def test_another_worker_starts_the_server_from_the_catalogue(toolbox: Toolbox, tmp_path: Path) -> None:
    """What the transcript store keeps is enough to call the tools from a process that never prepared the run."""
    prepared = await toolbox.prepare(RunSpec("r", "t", setup=SETUP, mcp_servers=(GIT,)))
    await toolbox.close()
    second = Toolbox(tmp_path)
    assert (await call(second, prepared, "git__git_log")).status == "ok"
    await second.close()


@pytest.mark.parametrize(
    ("server", "reason"),
    [
        (McpServer("none", "no-such-program"), "no-such-program"),
        (McpServer("leaves", "true"), "Connection closed"),
        (McpServer("dies", sys.executable, ("-c", "import sys; sys.exit('missing settings')")), "missing settings"),
    ],
)
async def test_a_server_that_does_not_start_costs_only_itself(toolbox: Toolbox, server: McpServer, reason: str) -> None:
    """The run is prepared without it, and says which server failed and why."""
    prepared = await toolbox.prepare(RunSpec("r", "t", setup=SETUP, mcp_servers=(server, GIT)))
    assert prepared.error == ""
    [(key, why)] = prepared.failed_servers
    assert key == server.key
    assert reason in why
    assert prepared.catalogue.find("git__git_log") is not None


async def test_a_silent_server_is_given_up(tmp_path: Path) -> None:
    """A server that never answers is stopped after its time to start."""
    toolbox = Toolbox(tmp_path, sessions=McpSessions(McpLimits(start_seconds=1)))
    server = McpServer("silent", sys.executable, ("-c", "import time; time.sleep(600)"))
    prepared = await toolbox.prepare(RunSpec("r", "t", mcp_servers=(server,)))
    assert [key for key, _ in prepared.failed_servers] == ["silent"]
    await toolbox.close()


SLOW_SERVER = textwrap.dedent(
    """
    import asyncio, os, sys
    from pathlib import Path
    from mcp.server.mcpserver import Context, MCPServer
    from pydantic import BaseModel

    server = MCPServer("slow")

    class Name(BaseModel):
        name: str

    @server.tool()
    async def wait(seconds: float) -> str:
        with Path("calls").open("a") as calls:
            calls.write("x")
        await asyncio.sleep(seconds)
        return "waited"

    @server.tool()
    async def die() -> str:
        with Path("calls").open("a") as calls:
            calls.write("x")
        os._exit(1)

    @server.tool()
    async def die_for_good() -> str:
        Path("calls").open("a").write("x")
        Path(__file__).unlink()
        os._exit(1)

    @server.tool()
    async def much(n: int) -> str:
        return "ä" * n

    @server.tool()
    async def lively(ctx: Context) -> str:
        os.write(1, b"Loading the model\\n{not json\\n\\xff\\xfe\\n\\n[1, 2]\\n")
        await ctx.report_progress(1, 2)
        await ctx.info("on the way")
        await ctx.notify_tools_changed()
        return "done"

    @server.tool()
    async def ask_person(ctx: Context) -> str:
        return str(await ctx.elicit("Your name?", Name))

    os.write(1, b"Welcome, secret-4711 is loaded\\n")
    server.run()
    """
)

PAGED_SERVER = textwrap.dedent(
    """
    import sys
    import anyio
    import mcp_types
    from mcp.server.lowlevel import Server
    from mcp.server.stdio import stdio_server

    n_pages, endless = int(sys.argv[2]), sys.argv[2] == "0"

    async def list_tools(ctx, params):
        page = int(params.cursor) if params and params.cursor else 0
        tools = [mcp_types.Tool(name=f"t{page}_{n}", input_schema={"type": "object"}) for n in range(40)]
        more = endless or page + 1 < n_pages
        return mcp_types.ListToolsResult(tools=tools, next_cursor=str(page + 1) if more else None)

    async def call_tool(ctx, params):
        return mcp_types.CallToolResult(content=[mcp_types.TextContent(type="text", text=params.name)])

    async def main():
        server = Server("paged", on_list_tools=list_tools, on_call_tool=call_tool)
        async with stdio_server() as (reading, writing):
            await server.run(reading, writing, server.create_initialization_options())

    anyio.run(main)
    """
)


def slow_server(tmp_path: Path) -> McpServer:
    script = tmp_path / "mcp_slow.py"
    script.write_text(SLOW_SERVER)
    return McpServer("slow", sys.executable, (str(script), "{work}"))


async def test_a_call_has_a_time_limit(tmp_path: Path) -> None:
    """A call past its time is timed out with an uncertain effect; the session goes on."""
    toolbox = Toolbox(tmp_path / "work", sessions=McpSessions(McpLimits(call_seconds=1)))
    prepared = await toolbox.prepare(RunSpec("r", "t", mcp_servers=(slow_server(tmp_path),)))
    late = await call(toolbox, prepared, "slow__wait", seconds=30)
    assert (late.status, late.effect) == ("timed_out", "uncertain")
    assert (await call(toolbox, prepared, "slow__wait", seconds=0)).output == "waited"
    await toolbox.close()


async def test_a_call_that_loses_its_server_is_not_repeated(tmp_path: Path) -> None:
    """When the server dies during a call with an effect, the call is not sent again and its effect is uncertain."""
    toolbox = Toolbox(tmp_path / "work")
    prepared = await toolbox.prepare(RunSpec("r", "t", mcp_servers=(slow_server(tmp_path),)))
    lost = await call(toolbox, prepared, "slow__die")
    assert (lost.status, lost.effect, lost.error_class) == ("failed", "uncertain", "mcp_connection_lost")
    assert (toolbox.folders("r").work / "calls").read_text() == "x"
    assert (await call(toolbox, prepared, "slow__wait", seconds=0)).status == "ok"
    await toolbox.close()


async def test_a_server_lost_for_good_leaves_the_effect_open(tmp_path: Path) -> None:
    """That a server cannot be started again says nothing about the call it took with it; a later call was not sent."""
    toolbox = Toolbox(tmp_path / "work")
    prepared = await toolbox.prepare(RunSpec("r", "t", mcp_servers=(slow_server(tmp_path),)))
    lost = await call(toolbox, prepared, "slow__die_for_good")
    assert (lost.status, lost.effect, lost.error_class) == ("failed", "uncertain", "mcp_connection_lost")
    gone = await call(toolbox, prepared, "slow__wait", seconds=0)
    assert (gone.status, gone.effect, gone.error_class) == ("failed", "none", "mcp_server_unavailable")
    assert "mcp_slow.py" in gone.diagnostic
    assert (toolbox.folders("r").work / "calls").read_text() == "x"
    await toolbox.close()


async def test_what_a_server_says_beside_its_answers_breaks_no_call(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """Rubbish on stdout, progress, logs, a changed list, a question: calls go on, and the rubbish is in no log."""
    caplog.set_level(logging.DEBUG)
    toolbox = Toolbox(tmp_path / "work")
    prepared = await toolbox.prepare(RunSpec("r", "t", mcp_servers=(slow_server(tmp_path),)))
    assert prepared.failed_servers == ()
    lively = await call(toolbox, prepared, "slow__lively")
    assert (lively.status, lively.output) == ("ok", "done")
    asked = await call(toolbox, prepared, "slow__ask_person")
    assert (asked.status, asked.error_class) == ("failed", "mcp_error")
    [pid] = server_pids(toolbox)
    assert (await call(toolbox, prepared, "slow__wait", seconds=0)).output == "waited"
    assert server_pids(toolbox) == [pid]
    await toolbox.close()
    texts = [caplog.handler.format(record) for record in caplog.records]
    assert [text for text in texts if "SDK met a problem" in text]
    assert [text for text in texts if "secret-4711" in text or "Loading the model" in text] == []


@pytest.mark.parametrize("n_characters", [32_768, 600_000])
async def test_a_long_line_is_one_answer(tmp_path: Path, n_characters: int) -> None:
    """An answer of 64 KiB and one of over a megabyte come whole."""
    toolbox = Toolbox(tmp_path / "work")
    prepared = await toolbox.prepare(RunSpec("r", "t", mcp_servers=(slow_server(tmp_path),)))
    assert (await call(toolbox, prepared, "slow__much", n=n_characters)).output == "ä" * n_characters
    await toolbox.close()


async def test_tools_come_in_pages(tmp_path: Path) -> None:
    """All pages are listed and the last tool is called; a list without an end is cut."""
    script = tmp_path / "mcp_paged.py"
    script.write_text(PAGED_SERVER)
    paged = McpServer("paged", sys.executable, (str(script), "{work}", "3"))
    endless = McpServer("endless", sys.executable, (str(script), "{work}", "0"))
    toolbox = Toolbox(tmp_path / "work")
    prepared = await toolbox.prepare(RunSpec("r", "t", mcp_servers=(paged, endless)))
    names = [tool.name for tool in prepared.catalogue.tools if tool.mcp_server == "paged"]
    assert names == [f"paged__t{page}_{n}" for page in range(3) for n in range(40)]
    assert (await call(toolbox, prepared, "paged__t2_39")).output == "t2_39"
    assert len([tool for tool in prepared.catalogue.tools if tool.mcp_server == "endless"]) == TOOLS_LIMIT - 121
    assert "tools left out: a run has 128 tools" in dict(prepared.failed_servers)["endless"]
    await toolbox.close()


async def test_a_preparation_that_is_repeated_starts_the_server_anew(toolbox: Toolbox) -> None:
    """The folders of the first one are gone, and so is the server that ran in them."""
    spec = RunSpec("r", "t", setup=SETUP, mcp_servers=(GIT,))
    await toolbox.prepare(spec)
    [first] = server_pids(toolbox)
    prepared = await toolbox.prepare(spec)
    assert prepared.failed_servers == ()
    [second] = server_pids(toolbox)
    assert second != first
    assert (await call(toolbox, prepared, "git__git_log")).status == "ok"


async def test_the_key_is_that_of_the_registration(toolbox: Toolbox) -> None:
    """A key that no tool's name could be parsed for is the server's key all the same."""
    key = "mcp__my git.server__x"
    prepared = await toolbox.prepare(RunSpec("r", "t", setup=SETUP, mcp_servers=(replace(GIT, key=key),)))
    entries = [tool for tool in prepared.catalogue.tools if tool.remote_name == "git_log"]
    assert [entry.mcp_server for entry in entries] == [key]
    assert [spec.mcp_server for spec in prepared.catalogue.specs() if spec.name == entries[0].name] == [key]
    assert (await call(toolbox, prepared, entries[0].name)).status == "ok"


async def test_an_idle_server_is_stopped(tmp_path: Path) -> None:
    """A server nobody has used for a while ends by itself and is started again when needed."""
    toolbox = Toolbox(tmp_path, sessions=McpSessions(McpLimits(idle_seconds=0.3)))
    prepared = await toolbox.prepare(RunSpec("r", "t", setup=SETUP, mcp_servers=(GIT,)))
    async with asyncio.timeout(20):
        while server_pids(toolbox):
            await asyncio.sleep(0.05)
    assert (await call(toolbox, prepared, "git__git_status")).status == "ok"
    await toolbox.close()
