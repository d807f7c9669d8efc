"""Runs one command and sees to it that nothing of it outlives its parent, however either of them ends.

Started by `processes.py` as a plain script (standard library only, no project import, a few milliseconds). It is
the subreaper of all that the command starts, so a grandchild in a session of its own is found too; it gets
SIGTERM from the kernel when its parent dies, and the command gets the quick signal when the keeper dies.

SIGTERM once: the stop signal, then after the grace the quick one, then SIGKILL. SIGTERM again: the quick one now.
Exit status: that of the command (128 + n when a signal n ended it).
"""

import argparse
import ctypes
import os
import pwd
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

SET_PARENT_DEATH_SIGNAL = 1
SET_CHILD_SUBREAPER = 36
QUICK_SECONDS = 2.0  # between the quick signal and SIGKILL

libc = ctypes.CDLL(None, use_errno=True)


def children_of(parent: int) -> list[int]:
    """Return the process ids whose parent is `parent`, zombies included."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            after_name = (entry / "stat").read_text(errors="replace").rpartition(")")[2].split()
        except OSError:  # it ended while we looked
            continue
        if int(after_name[1]) == parent:
            found.append(int(entry.name))
    return found


def end_descendants() -> None:
    """Kill and reap every process below this one: killing one hands its own children to this subreaper."""
    while True:
        for child in children_of(os.getpid()):
            try:
                os.kill(child, signal.SIGKILL)
            except ProcessLookupError:
                continue
        try:
            os.waitpid(-1, 0)
        except ChildProcessError:
            return


def in_child(quick: int, niceness: int) -> Callable[[], None]:
    """Return what runs between fork and exec: after a change of user, which would clear the death signal."""

    def prepare() -> None:
        libc.prctl(SET_PARENT_DEATH_SIGNAL, quick, 0, 0, 0)
        os.nice(niceness)
        signal.pthread_sigmask(signal.SIG_SETMASK, set())

    return prepare


def start(options: argparse.Namespace) -> subprocess.Popen[bytes]:
    prepare = in_child(options.quick, options.nice)
    if not options.user:
        return subprocess.Popen(options.command, preexec_fn=prepare, pass_fds=options.pass_fd)
    entry = pwd.getpwnam(options.user)
    env = {**os.environ, "HOME": entry.pw_dir, "USER": options.user, "LOGNAME": options.user}
    return subprocess.Popen(
        options.command, preexec_fn=prepare, user=entry.pw_uid, group=entry.pw_gid, extra_groups=[], env=env, cwd="/"
    )


def reap_until(process: subprocess.Popen[bytes], deadline: float | None, wake: set[signal.Signals]) -> str:
    """Wait; return "ended" (the command), "asked" (SIGTERM came) or "late" (deadline, monotonic seconds, passed)."""
    while True:
        if process.poll() is not None:
            return "ended"
        for child in children_of(os.getpid()):
            if child != process.pid:
                os.waitpid(child, os.WNOHANG)
        left = 3600.0 if deadline is None else deadline - time.monotonic()
        if left <= 0:
            return "late"
        received = signal.sigtimedwait(wake, left)
        if received is not None and received.si_signo == signal.SIGTERM:
            return "asked"


def keep(options: argparse.Namespace) -> int:
    wake = {signal.SIGTERM, signal.SIGCHLD}
    signal.pthread_sigmask(signal.SIG_BLOCK, wake)
    for ignored in (signal.SIGINT, signal.SIGHUP):
        signal.signal(ignored, signal.SIG_IGN)
    libc.prctl(SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    libc.prctl(SET_PARENT_DEATH_SIGNAL, int(signal.SIGTERM), 0, 0, 0)
    if os.getppid() != options.parent:
        return 1
    process = start(options)
    for fd in options.pass_fd:
        os.close(fd)
    state = reap_until(process, None, wake)
    if state == "asked":
        process.send_signal(options.stop)
        state = reap_until(process, time.monotonic() + options.grace, wake)
    if state != "ended":
        process.send_signal(options.quick)
        reap_until(process, time.monotonic() + QUICK_SECONDS, {signal.SIGCHLD})
    process.kill()
    code = process.wait()
    end_descendants()
    return code if code >= 0 else 128 - code


def main() -> int:
    parser = argparse.ArgumentParser()
    parser.add_argument("--parent", type=int, required=True, help="end when this process, which started us, ends")
    parser.add_argument("--stop", type=int, required=True, help="number of the signal that asks for a clean stop")
    parser.add_argument("--quick", type=int, required=True, help="number of the signal used when the grace is over")
    parser.add_argument("--grace", type=float, required=True, help="seconds for a clean stop")
    parser.add_argument("--user", default="", help="run the command as this system user")
    parser.add_argument("--nice", type=int, default=0, help="how far the command stands back for others, 0 to 19")
    parser.add_argument("--pass-fd", type=int, action="append", default=[], help="open file handed to the command")
    parser.add_argument("command", nargs="+")
    options = parser.parse_args()
    try:
        return keep(options)
    except OSError as error:
        print(f"cannot run {options.command[0]}: {error}", file=sys.stderr)
        return 127


if __name__ == "__main__":
    sys.exit(main())
