"""Child processes: what is started is watched, stopped, and never outlives whoever started it."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from debugger.embedded.processes import Child, Program, StackError, describe_end, first_ended, stop_all, wait_ready

# Starts a grandchild in a session of its own, as a tool of a killed worker may leave one, and prints its id.
SPAWNS = """
import subprocess, sys, time
grandchild = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"], start_new_session=True)
print(grandchild.pid, flush=True)
time.sleep(600)
"""
DEAF = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('deaf', flush=True); time.sleep(600)"
# Starts a Child and then only waits: the process that the tests kill.
STARTER = """
import os, sys, time
from pathlib import Path
from debugger.embedded.processes import Child, Program
child = Child(Program("held", (sys.executable, "-c", sys.argv[2]), dict(os.environ), Path("/")), Path(sys.argv[1]))
print(child.keeper_pid, flush=True)
time.sleep(600)
"""


def start(tmp_path: Path, code: str, **settings: object) -> Child:
    program = Program("thing", (sys.executable, "-c", code), dict(os.environ), tmp_path, **settings)  # type: ignore[arg-type]
    return Child(program, tmp_path / "thing.log")


def await_output(log: Path) -> str:
    """Return the first whole line of `log`, within ten seconds."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        if log.exists() and "\n" in (text := log.read_text()):
            return text.splitlines()[0]
    raise AssertionError(f"nothing in {log}")


def await_gone(pid: int) -> bool:
    """Whether the process is no more, or only a zombie of somebody else's, within ten seconds."""
    deadline = time.monotonic() + 10
    while time.monotonic() < deadline:
        try:
            state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
        except FileNotFoundError:
            return True
        if state == "Z":
            return True
    return False


def test_stop_ends_the_command_and_a_grandchild_in_its_own_session(tmp_path: Path) -> None:
    """A stop leaves nothing of what the command started."""
    child = start(tmp_path, SPAWNS)
    grandchild = int(await_output(child.log))
    command = child.pid
    assert command is not None
    stop_all([child])
    assert child.exit_code() is not None
    assert await_gone(command)
    assert await_gone(grandchild)


def test_a_command_that_ends_by_itself_leaves_no_grandchild(tmp_path: Path) -> None:
    """A killed command's grandchildren go with it."""
    child = start(tmp_path, SPAWNS)
    grandchild = int(await_output(child.log))
    assert child.pid is not None
    os.kill(child.pid, signal.SIGKILL)
    assert child.wait_stopped(time.monotonic() + 10)
    assert child.exit_code() == 137
    assert await_gone(grandchild)


def test_a_command_deaf_to_the_stop_signal_is_killed_after_its_grace(tmp_path: Path) -> None:
    """The grace bounds a stop."""
    child = start(tmp_path, DEAF, grace=0.3)
    await_output(child.log)
    began = time.monotonic()
    stop_all([child])
    assert 0.3 <= time.monotonic() - began < 5
    assert child.exit_code() == 137


def test_asked_twice_a_command_is_stopped_at_once(tmp_path: Path) -> None:
    """The second request does not wait for the grace."""
    child = start(tmp_path, DEAF, grace=60.0)
    await_output(child.log)
    child.ask_to_stop()
    assert not child.wait_stopped(time.monotonic() + 0.3)
    child.ask_to_stop()
    assert child.wait_stopped(time.monotonic() + 5)


@pytest.mark.parametrize("code", [SPAWNS, DEAF], ids=["spawns", "deaf"])
def test_killing_the_starter_leaves_nothing(tmp_path: Path, code: str) -> None:
    """SIGKILL to the process that started a child ends the child too, deaf or not."""
    log = tmp_path / "held.log"
    starter = subprocess.Popen([sys.executable, "-c", STARTER, str(log), code], stdout=subprocess.PIPE, text=True)
    assert starter.stdout is not None
    keeper = int(starter.stdout.readline())
    first = await_output(log)
    command = int(Path(f"/proc/{keeper}/task/{keeper}/children").read_text().split()[0])
    starter.kill()
    starter.wait()
    starter.stdout.close()
    assert await_gone(keeper)
    assert await_gone(command)
    assert not first.isdigit() or await_gone(int(first))


def test_killing_the_keeper_kills_the_command(tmp_path: Path) -> None:
    """Nothing runs on without its keeper."""
    child = start(tmp_path, DEAF)
    await_output(child.log)
    command = child.pid
    assert command is not None
    os.kill(child.keeper_pid, signal.SIGKILL)
    assert await_gone(command)
    assert first_ended([child]) is child


def test_an_end_is_described_with_the_last_lines(tmp_path: Path) -> None:
    """Who ended, how, and what it said last; never what an earlier start said."""
    log = tmp_path / "thing.log"
    log.write_text("from an earlier start\n")
    child = start(tmp_path, "import sys; print('the reason'); sys.exit(3)")
    assert child.wait_stopped(time.monotonic() + 10)
    said = describe_end(child)
    assert "thing ended with status 3" in said
    assert "the reason" in said
    assert "earlier" not in said


def test_waiting_for_a_command_that_ended_raises_with_its_log(tmp_path: Path) -> None:
    """A command that cannot start is reported at once, not after the time limit."""
    child = start(tmp_path, "print('no luck')")
    with pytest.raises(StackError, match="no luck"):
        wait_ready(child, lambda: "not there", 30)


def test_waiting_ends_with_the_time_limit_and_the_problem(tmp_path: Path) -> None:
    """A command that runs and never gets ready is reported with what is wrong."""
    child = start(tmp_path, DEAF, grace=0.1)
    try:
        with pytest.raises(StackError, match="not ready after 0 s .still closed."):
            wait_ready(child, lambda: "still closed", 0.2)
    finally:
        stop_all([child])


def test_a_command_that_is_not_there_is_said(tmp_path: Path) -> None:
    """A missing binary is named in the log."""
    child = Child(Program("gone", ("/no/such/binary",), dict(os.environ), tmp_path), tmp_path / "gone.log")
    assert child.wait_stopped(time.monotonic() + 10)
    assert child.exit_code() == 127
    assert "/no/such/binary" in child.last_lines()


def test_a_long_log_is_set_aside(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A log over the limit starts anew and the old one stays beside it."""
    monkeypatch.setattr("debugger.embedded.processes.MAX_LOG_BYTES", 10)
    (tmp_path / "thing.log").write_text("x" * 11)
    child = start(tmp_path, "print('new')")
    assert child.wait_stopped(time.monotonic() + 10)
    assert (tmp_path / "thing.log").read_text() == "new\n"
    assert (tmp_path / "thing.log.1").read_text() == "x" * 11
