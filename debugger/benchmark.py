"""The behavioural benchmark started from a page: one at a time, beside the stack it measures. (Seed 001 §16.4.)

It is the command a person would type, run by the queue's worker and ended with it. A file in EXPERIMENTS_DIR says who
started it and when, and is locked while it runs: one that nobody holds any more is of a worker that died.
"""

import fcntl
import json
import subprocess
import sys
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Final, TextIO

from django.conf import settings

TASK: Final = "debugger.run_benchmark"
CLAIM: Final = "running.json"
TURNS: Final = "claim.lock"  # held while somebody looks whether the place is free
QUEUED: Final = timedelta(seconds=60)  # a worker takes it within this time, else it may be asked for again
TOO_LONG: Final = 124  # as timeout(1) says it
LOG: Final = "last.log"
FAILED: Final = "it could not be run"  # first line of such a log
LINE_SHOWN: Final = 300  # code points of what a benchmark that failed said last


@dataclass(frozen=True, slots=True)
class Running:
    """A benchmark that is under way."""

    by: str
    since: datetime


def is_possible() -> bool:
    """Say whether this installation can run it: the command is there, and a stack that `up` started."""
    return (Path(settings.BASE_DIR) / "bench" / "behaviour").is_dir() and _up_json().is_file()


def running() -> Running | None:
    """Return the benchmark that is under way or queued a moment ago, or None."""
    try:
        with (_folder() / CLAIM).open(encoding="utf-8") as file:
            told = json.load(file)
            found = Running(str(told["by"]), datetime.fromisoformat(told["since"]))
            is_fresh = datetime.now(UTC) - found.since < QUEUED
            return found if is_fresh or _is_held(file) else None
    except (OSError, ValueError, KeyError, TypeError):
        return None


def _is_held(file: TextIO) -> bool:
    try:
        fcntl.flock(file, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except BlockingIOError:
        return True
    return False


def last_problem() -> str:
    """Return the last line of the last benchmark when it could not be run, "" when it could or none was."""
    try:
        text = (_folder() / LOG).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    lines = [line for line in text.splitlines() if line.strip()]
    return lines[-1][:LINE_SHOWN] if lines and lines[0] == FAILED else ""


def claim(by: str) -> bool:
    """Take the one place there is; return False when somebody has it."""
    folder = _folder()
    folder.mkdir(parents=True, exist_ok=True)
    with (folder / TURNS).open("a") as turns:
        fcntl.flock(turns, fcntl.LOCK_EX)  # to look and to take is one step
        if running() is not None:
            return False
        (folder / CLAIM).unlink(missing_ok=True)
        told = json.dumps({"by": by, "since": datetime.now(UTC).isoformat()})
        (folder / CLAIM).write_text(told, encoding="utf-8")
    return True


def release() -> None:
    """Give the place back."""
    (_folder() / CLAIM).unlink(missing_ok=True)


def run() -> int:
    """Run the benchmark to its end, at most BENCHMARK_SECONDS; return its exit code, 124 when it took too long.

    Codes 0 and 1 leave a report (1: something the report holds itself to was missed); others leave a line in the log.
    """
    command = [sys.executable, "-m", "bench.behaviour", "--into", str(_up_json())]
    try:
        with (_folder() / CLAIM).open(encoding="utf-8") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            done = subprocess.run(
                command, cwd=settings.BASE_DIR, stdin=subprocess.DEVNULL, capture_output=True, text=True,
                errors="replace", timeout=settings.BENCHMARK_SECONDS, check=False,
            )  # fmt: skip
        code, said = done.returncode, done.stderr
    except subprocess.TimeoutExpired:
        code, said = TOO_LONG, f"it took more than {settings.BENCHMARK_SECONDS} s (BENCHMARK_SECONDS) and was stopped"
    except FileNotFoundError:
        return TOO_LONG  # what was claimed is gone: somebody gave it up before it was its turn
    finally:
        release()
    (_folder() / LOG).write_text("" if code in (0, 1) else f"{FAILED}\n{said}", encoding="utf-8")
    return code


def _folder() -> Path:
    return Path(settings.EXPERIMENTS_DIR)


def _up_json() -> Path:
    return Path(settings.VAR_DIR) / "up.json"
