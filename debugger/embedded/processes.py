"""Owns child processes: each under its keeper, writing to its own log file, started, watched and stopped here.

Start them from a thread that lives as long as they should (the main one): Linux ties the death signal to it.
"""

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from debugger.embedded.keeper import SET_PARENT_DEATH_SIGNAL, libc

KEEPER = Path(__file__).with_name("keeper.py")
MAX_LOG_BYTES = 16 * 1024 * 1024  # a longer log is set aside as <name>.log.1 at the next start
POLL_SECONDS = 0.05
KILL_SECONDS = 5.0  # how much longer than its grace a keeper may take


class StackError(Exception):
    """The stack cannot start or go on; the message is one line for the person who started it."""


@dataclass(frozen=True, slots=True)
class Program:
    """What to run. `grace` is the seconds a clean stop may take; `keep_open` are files the keeper holds open.

    `pass_fds` reach the program itself. `user` names the system user to run as, or is empty for our own. `niceness` is
    how far it stands back for others, 0 to 19.
    """

    name: str
    command: tuple[str, ...]
    env: Mapping[str, str]
    cwd: Path
    grace: float = 5.0
    stop_signal: signal.Signals = signal.SIGTERM
    quick_signal: signal.Signals = signal.SIGKILL
    user: str = ""
    niceness: int = 0
    pass_fds: tuple[int, ...] = ()
    keep_open: tuple[int, ...] = ()


class Child:
    """A running program under its keeper."""

    def __init__(self, program: Program, log: Path) -> None:
        """Start `program`, appending what it prints to `log`.

        Raises StackError when the log cannot be written or the keeper cannot be started.
        """
        self.program = program
        self.name = program.name
        self.log = log
        options = [f"--parent={os.getpid()}", f"--stop={int(program.stop_signal)}", f"--grace={program.grace}"]
        options += [f"--quick={int(program.quick_signal)}", f"--user={program.user}", f"--nice={program.niceness}"]
        options += [f"--pass-fd={fd}" for fd in program.pass_fds]
        command = [sys.executable, "-I", "-S", str(KEEPER), *options, "--", *program.command]
        try:
            log.parent.mkdir(parents=True, exist_ok=True)
            if log.exists() and log.stat().st_size > MAX_LOG_BYTES:
                log.replace(log.with_suffix(".log.1"))
            with log.open("ab") as output:
                self.log_start = output.tell()
                self._keeper = subprocess.Popen(
                    command,
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    env=dict(program.env),
                    cwd=program.cwd,
                    start_new_session=True,
                    pass_fds=(*program.pass_fds, *program.keep_open),
                )
        except OSError as error:
            raise StackError(f"{self.name} cannot be started: {error}") from error

    @property
    def keeper_pid(self) -> int:
        return self._keeper.pid

    @property
    def pid(self) -> int | None:
        """Process id of the program itself, or None before it started or after it ended."""
        children = Path(f"/proc/{self._keeper.pid}/task/{self._keeper.pid}/children")
        try:
            first = children.read_text().split()
        except OSError:
            return None
        return int(first[0]) if first else None

    def exit_code(self) -> int | None:
        """Return None while it runs, then its exit status (128 + n after signal n)."""
        return self._keeper.poll()

    def ask_to_stop(self) -> None:
        """Ask for a clean stop; asked again, it is stopped at once."""
        if self._keeper.poll() is None:
            self._keeper.send_signal(signal.SIGTERM)

    def wait_stopped(self, deadline: float) -> bool:
        """Wait until `deadline` (monotonic seconds); return whether it ended."""
        try:
            self._keeper.wait(max(0.0, deadline - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
        return True

    def last_lines(self, count: int = 12) -> str:
        """Return the last lines this start wrote to its log."""
        with self.log.open("rb") as log:
            log.seek(max(self.log_start, log.seek(0, os.SEEK_END) - 64 * 1024))
            return "\n".join(log.read().decode(errors="replace").splitlines()[-count:])


def stop_all(children: Iterable[Child]) -> None:
    """Stop them side by side, each within its own grace; return when none of their processes is left."""
    running = [child for child in children if child.exit_code() is None]
    for child in running:
        child.ask_to_stop()
    started = time.monotonic()
    for child in running:
        if not child.wait_stopped(started + child.program.grace + KILL_SECONDS):
            child.ask_to_stop()
            child.wait_stopped(time.monotonic() + KILL_SECONDS)


def wait_ready(child: Child, check: Callable[[], str], seconds: float) -> None:
    """Call `check` until it returns an empty string (it returns what is wrong), while `child` runs.

    Raises StackError, with the end of the log, when the child ends or `seconds` pass first.
    """
    deadline = time.monotonic() + seconds
    while True:
        problem = check()
        if not problem:
            return
        code = child.exit_code()
        if code is not None:
            raise StackError(describe_end(child))
        if time.monotonic() > deadline:
            raise StackError(f"{child.name} is not ready after {seconds:.0f} s ({problem}); see {child.log}")
        time.sleep(POLL_SECONDS)


def describe_end(child: Child) -> str:
    """Say which child ended, how, and what it last wrote."""
    return f"{child.name} ended with status {child.exit_code()}; the end of {child.log}:\n{child.last_lines()}"


def first_ended(children: Sequence[Child]) -> Child | None:
    return next((child for child in children if child.exit_code() is not None), None)


def end_with_parent() -> None:
    """Have the kernel send this process SIGTERM when the process that started it ends."""
    libc.prctl(SET_PARENT_DEATH_SIGNAL, int(signal.SIGTERM), 0, 0, 0)
