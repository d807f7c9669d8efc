"""A runtime for harnesses that call tools over MCP: a bridge is opened for the turn, and the harness started on it.

An ask ends the turn once the harness winds down, whatever the harness says after it.
"""

import asyncio
import os
import signal
import sys
import tempfile
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, Final

from contract.redaction import redact
from kernel.drivers.mcp_bridge import AskedTurn, bridge
from kernel.drivers.plugin import Turn

WIND_DOWN_SECONDS: Final = 30.0
COMMAND_SECONDS: Final = 1_800.0
OUTPUT_BYTES: Final = 256 * 1024  # of what a command prints
ERROR_CHARACTERS: Final = 500  # of the end of what a command that failed writes to stderr
KILL_SECONDS: Final = 2.0
LOOK_SECONDS: Final = 0.05  # between looks whether a command has ended
REST_SECONDS: Final = 1.0  # for what a command that has ended left in its pipes
SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
URL_VARIABLE: Final = "TEMPORALITY_MCP_URL"
TOKEN_VARIABLE: Final = "TEMPORALITY_MCP_TOKEN"
TOKEN_SHOWN: Final = "[REDACTED:bearer_token]"

# Takes the bridge's address, its bearer token and the turn; returns what the harness says in the end.
Harness = Callable[[str, str, Turn], Awaitable[str]]


class HarnessError(Exception):
    """A harness could not do its work: the run fails with this text."""


class McpHarnessRuntime:
    """A runtime whose turns are run by a harness over MCP."""

    def __init__(self, harness: Harness, *, wind_down_seconds: float = WIND_DOWN_SECONDS) -> None:
        """`wind_down_seconds` is how long a harness may go on after its ask before it is stopped."""
        self._harness = harness
        self._wind_down_seconds = wind_down_seconds

    async def run_turn(self, turn: Turn) -> Mapping[str, Any]:
        """Run the harness to its end. What it raises without having asked is raised, but for HarnessError."""
        calls = AskedTurn(turn)
        async with bridge(turn, calls) as (url, token):
            working = asyncio.ensure_future(self._harness(url, token, turn))
            try:
                await self._wind_down(working, calls)
            finally:
                await _cancelled(working)
        if calls.asked.is_set():
            return {"type": "escalate", "reason": calls.reason, "metadata": {"n_denied": calls.n_denied}}
        try:
            return {"type": "complete", "output": working.result()}
        except HarnessError as error:
            return {"type": "fail", "error": str(error) or "the harness failed and did not say why"}

    async def _wind_down(self, working: asyncio.Future[str], calls: AskedTurn) -> None:
        """Wait until the harness ends, after its ask for a bounded time only."""
        asked = asyncio.create_task(calls.asked.wait())
        try:
            either: list[asyncio.Future[Any]] = [working, asked]
            await asyncio.wait(either, return_when=asyncio.FIRST_COMPLETED)
            if not working.done():
                await asyncio.wait([working], timeout=self._wind_down_seconds)
        finally:
            asked.cancel()


async def _cancelled(working: asyncio.Future[str]) -> None:
    if not working.done():
        working.cancel()
        await asyncio.wait([working], timeout=2 * KILL_SECONDS)
    if working.done() and not working.cancelled():
        working.exception()  # looked at: after an ask it is of no matter


class CommandHarness:
    """A harness that is a command: it reads the messages from stdin, finds the bridge in its environment, and what it
    prints is the answer. Of the worker's environment it sees nothing. It is a program of the operator's, not confined.
    """

    def __init__(
        self,
        command: Sequence[str],
        *,
        environment: Mapping[str, str] | None = None,
        folder: Path | None = None,
        seconds: float = COMMAND_SECONDS,
    ) -> None:
        """`environment` is added to the few variables it is given; without `folder` it works in an empty one of its
        own; after `seconds` it is killed."""
        self._command = tuple(command)
        self._environment = dict(environment or {})
        self._folder = folder
        self._seconds = seconds

    async def __call__(self, url: str, token: str, turn: Turn) -> str:
        """Run the command. Raises HarnessError."""
        task = "\n\n".join(message.text for message in turn.messages if message.text).encode("utf-8", "replace")
        with tempfile.TemporaryDirectory(prefix="harness-") as scratch:
            folder = self._folder or Path(scratch)
            environment = {
                "PATH": f"{Path(sys.executable).parent}:{SYSTEM_PATH}",
                "HOME": scratch,
                "LANG": "C.UTF-8",
                **self._environment,
                URL_VARIABLE: url,
                TOKEN_VARIABLE: token,
            }
            code, *printed = await self._run(task, folder, environment)
            output, errors = (one.decode(errors="replace").strip().replace(token, TOKEN_SHOWN) for one in printed)
            return _said(code, output, errors)

    async def _run(self, task: bytes, folder: Path, environment: Mapping[str, str]) -> tuple[int, bytes, bytes]:
        """Return the exit code and what was printed, whoever else holds the pipes after the command has ended."""
        starting = asyncio.ensure_future(
            asyncio.create_subprocess_exec(
                *self._command,
                cwd=folder,
                env=environment,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=asyncio.subprocess.PIPE,
                start_new_session=True,
            )
        )
        try:
            process = await asyncio.shield(starting)
        except asyncio.CancelledError:  # what is half started would be left with all that it has started itself
            with suppress(OSError, ValueError):
                await _killed(await starting)
            raise
        except (OSError, ValueError) as error:
            raise HarnessError(f"the harness could not be started: {type(error).__name__}") from None
        output, errors = bytearray(), bytearray()
        work = (_read(process.stdout, output), _read(process.stderr, errors), _write(process.stdin, task))
        streams = [asyncio.create_task(one) for one in work]
        try:
            async with asyncio.timeout(self._seconds):
                code = await _exit_code(process)
        except TimeoutError:
            raise HarnessError(f"the harness did not end within {self._seconds:g} seconds") from None
        finally:
            await _killed(process)
            await asyncio.wait(streams, timeout=REST_SECONDS)
            for stream in streams:
                stream.cancel()
            _closed(process)
        return code, bytes(output), bytes(errors)


async def _killed(process: asyncio.subprocess.Process) -> None:
    """Kill a process with all that is in its group."""
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(TimeoutError):
        await asyncio.wait_for(_exit_code(process), KILL_SECONDS)


def _closed(process: asyncio.subprocess.Process) -> None:
    """Close our ends of the pipes, which stay open as long as somebody else holds the others."""
    transport = getattr(process, "_transport", None)  # the process itself has no way to be closed
    if transport is not None:
        transport.close()


async def _exit_code(process: asyncio.subprocess.Process) -> int:
    """Wait for a process to end; its own `wait` waits for whoever else holds its pipes as well."""
    while process.returncode is None:
        await asyncio.sleep(LOOK_SECONDS)
    return process.returncode


def _said(code: int, output: str, errors: str) -> str:
    if code:
        # Secrets are left out before the cut, which would leave a part of one that nobody knows as such.
        end = redact(errors)[0][-ERROR_CHARACTERS:]
        raise HarnessError(f"the harness ended with exit code {code}: {end or 'no stderr'}")
    if not output:
        raise HarnessError("the harness ended without printing an answer")
    return output


async def _read(stream: asyncio.StreamReader | None, kept: bytearray) -> None:
    """Keep the end of what a stream brings."""
    while stream is not None and (chunk := await stream.read(64 * 1024)):
        kept += chunk
        del kept[:-OUTPUT_BYTES]


async def _write(stream: asyncio.StreamWriter | None, content: bytes) -> None:
    """Write all, unless nobody reads it."""
    if stream is None:
        return
    with suppress(BrokenPipeError, ConnectionResetError):
        stream.write(content)
        await stream.drain()
        stream.close()
