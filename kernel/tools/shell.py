"""The `shell` tool: one command in a run's own folders, with a clean environment and bounds on everything.

A run has three folders under its root: `work` (the current folder), `home` and `tmp`. The command is started
through `jail.py`; what is left of its process group is killed when it ends or its time is up.
"""

import asyncio
import json
import os
import shlex
import signal
import sys
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from kernel.tools.catalogue import ToolEntry, ToolResult
from kernel.tools.jail import landlock_abi

SHELL: Final = "shell"
JAIL: Final = Path(__file__).with_name("jail.py")
SYSTEM_PATHS: Final = ("/usr", "/bin", "/sbin", "/lib", "/lib64", "/etc", "/opt", "/proc", "/sys/devices/system/cpu")
DEVICES: Final = ("/dev/null", "/dev/zero", "/dev/full", "/dev/random", "/dev/urandom")
SYSTEM_PATH: Final = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"
# Exit code 1 of these answers "no", it reports no failure.
ANSWERING: Final = ("grep", "egrep", "fgrep", "rg", "diff", "cmp", "test", "[")
DRAIN_SECONDS: Final = 0.5
CHUNK: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class ShellLimits:
    """Bounds of one command. `output_bytes` is kept of each end of each stream; memory is of one process."""

    wall_seconds: float = 60.0
    output_bytes: int = 32 * 1024
    memory_bytes: int = 4 * 1024**3
    file_bytes: int = 1024**3


@dataclass(frozen=True, slots=True)
class RunFolders:
    """The folders of one run; nothing outside of `root` is written."""

    root: Path

    @property
    def work(self) -> Path:
        return self.root / "work"

    def environment(self) -> dict[str, str]:
        """Return all a command knows of the machine: nothing of the worker's own environment.

        Git neither finds a repository around the folder nor reads the machine's configuration, and takes no
        identity from the host's name, so that runs behave alike everywhere.
        """
        return {
            "PATH": f"{Path(sys.executable).parent}:{SYSTEM_PATH}",
            "HOME": str(self.root / "home"),
            "TMPDIR": str(self.root / "tmp"),
            "USER": "agent",
            "LOGNAME": "agent",
            "LANG": "C.UTF-8",
            "TERM": "dumb",
            "GIT_CONFIG_NOSYSTEM": "1",
            "GIT_CEILING_DIRECTORIES": str(self.root),
            "GIT_TERMINAL_PROMPT": "0",
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "user.useConfigOnly",
            "GIT_CONFIG_VALUE_0": "true",
        }

    def make(self) -> None:
        for name in ("work", "home", "tmp"):
            (self.root / name).mkdir(parents=True, exist_ok=True)


@dataclass(frozen=True, slots=True)
class CommandEnd:
    """How a command ended; `exit_code` is None when its time was up, negative after a signal."""

    exit_code: int | None
    stdout: str
    stderr: str


def confinement() -> str:
    """Say in one sentence how commands are confined on this machine."""
    if landlock_abi():
        return "Files can be written only in the run's own folders; files of other users and programs cannot be read."
    return "This machine offers no Landlock: commands are NOT confined to the run's folders."


def shell_entry(limits: ShellLimits) -> ToolEntry:
    """Return the catalogue entry of the shell tool."""
    return ToolEntry(
        name=SHELL,
        description=(
            "Run a shell command in the work folder and return what it prints. "
            f"It may take {limits.wall_seconds:g} seconds. {confinement()}"
        ),
        schema={
            "type": "object",
            "properties": {"command": {"type": "string", "description": "command line for /bin/sh"}},
            "required": ["command"],
            "additionalProperties": False,
        },
    )


async def run_command(command: str, folders: RunFolders, limits: ShellLimits) -> CommandEnd:
    """Run `command` by /bin/sh and wait for its end. Raises OSError when no process can be started."""
    outputs = (_Output(limits.output_bytes), _Output(limits.output_bytes))
    process = None
    exit_code: int | None = None
    try:
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-I", "-S", str(JAIL), _policy(folders, limits), "--", "/bin/sh", "-c", command),
            cwd=folders.work,
            env=folders.environment(),
            stdin=asyncio.subprocess.DEVNULL,
            stdout=outputs[0].open(),
            stderr=outputs[1].open(),
            start_new_session=True,
        )
        for output in outputs:
            await output.start()
        async with asyncio.timeout(limits.wall_seconds):
            exit_code = await process.wait()
    except TimeoutError:
        pass
    finally:
        if process is not None:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()
        for output in outputs:
            await output.finish()
    return CommandEnd(exit_code, outputs[0].text(), outputs[1].text())


def judge(command: str, end: CommandEnd, entry: ToolEntry, limits: ShellLimits) -> ToolResult:
    """Return what the end of a command means. The diagnostic has stderr first; only the exit code decides."""
    texts = [text.strip("\n") for text in (end.stderr, end.stdout)]
    diagnostic = "\n".join(text for text in texts if text.strip())
    if end.exit_code is None:
        note = f"stopped after {limits.wall_seconds:g} seconds"
        return ToolResult("timed_out", "uncertain", diagnostic=diagnostic, error_class="timeout", note=note)
    if end.exit_code in entry.ok_exit_codes or (end.exit_code == 1 and answers_by_exit_code(command)):
        output = "\n".join(text for text in reversed(texts) if text.strip())
        note = "" if end.exit_code == 0 else f"exit code {end.exit_code}"
        return ToolResult("ok", "applied", output=output, note=note)
    if end.exit_code < 0:
        name = signal.Signals(-end.exit_code).name
        note = f"ended by signal {name}"
        return ToolResult("failed", "uncertain", diagnostic=diagnostic, error_class="signal", note=note)
    note = f"exit code {end.exit_code}"
    return ToolResult("failed", "uncertain", diagnostic=diagnostic, error_class="exit_nonzero", note=note)


def answers_by_exit_code(command: str) -> bool:
    """Return whether exit code 1 of `command` is an answer: one pipeline whose last program is like grep or diff."""
    try:
        words = list(shlex.shlex(command.strip(), posix=True, punctuation_chars=True))
    except ValueError:
        return False
    if "\n" in command.strip() or any(word in (";", "&&", "||", "&", "(", ")") for word in words):
        return False
    last = words[len(words) - words[::-1].index("|") :] if "|" in words else words
    return bool(last) and Path(last[0]).name in ANSWERING


def _policy(folders: RunFolders, limits: ShellLimits) -> str:
    python = {sys.prefix, sys.base_prefix, str(Path(sys.executable).resolve().parent.parent)}
    policy = {
        "confine": landlock_abi() > 0,
        "write": [str(folders.root), *DEVICES],
        "read": [*SYSTEM_PATHS, *sorted(python)],
        "memory_bytes": limits.memory_bytes,
        "file_bytes": limits.file_bytes,
        "cpu_seconds": int(limits.wall_seconds) + 1,
    }
    return json.dumps(policy)


class _Output:
    """One output of a process, read from a pipe of our own: its beginning and its end, whatever its length.

    asyncio's own pipes will not do: its `wait` also waits for their end, which a process left in the background
    can put off for ever.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._head = bytearray()
        self._tail = bytearray()
        self._dropped = 0
        self._read_end = self._write_end = -1
        self._reading: asyncio.Task[None] | None = None

    def open(self) -> int:
        """Make the pipe and return its end for the process."""
        self._read_end, self._write_end = os.pipe()
        return self._write_end

    async def start(self) -> None:
        """Begin to read; the process has its own copy of its end by now."""
        self._close_write_end()
        stream = asyncio.StreamReader()
        pipe = os.fdopen(self._read_end, "rb")
        self._read_end = -1
        protocol = asyncio.StreamReaderProtocol(stream)
        transport, _ = await asyncio.get_running_loop().connect_read_pipe(lambda: protocol, pipe)
        self._reading = asyncio.create_task(self._read(stream, transport))

    async def finish(self) -> None:
        """Read what is left, for a bounded time: a process that left the group may hold the pipe open."""
        self._close_write_end()
        if self._read_end >= 0:
            os.close(self._read_end)
        if self._reading is not None:
            await asyncio.wait([self._reading], timeout=DRAIN_SECONDS)
            self._reading.cancel()

    def text(self) -> str:
        """Return what was kept; a cut falls between lines, so that no half of a secret stands beside it."""
        if not self._dropped:
            return _decode(self._head + self._tail)
        head, tail = _decode(self._head).rpartition("\n")[0], _decode(self._tail).partition("\n")[2]
        return f"{head}\n… [about {self._dropped} more bytes] …\n{tail}"

    async def _read(self, stream: asyncio.StreamReader, transport: asyncio.ReadTransport) -> None:
        try:
            while chunk := await stream.read(CHUNK):
                self._keep(chunk)
        finally:
            transport.close()

    def _keep(self, chunk: bytes) -> None:
        room = self._limit - len(self._head)
        self._head += chunk[:room]
        self._tail += chunk[room:]
        extra = len(self._tail) - self._limit
        if extra > 0:
            del self._tail[:extra]
            self._dropped += extra

    def _close_write_end(self) -> None:
        if self._write_end >= 0:
            os.close(self._write_end)
            self._write_end = -1


def _decode(content: bytes | bytearray) -> str:
    return content.decode(errors="replace").replace("\x00", "\ufffd")
