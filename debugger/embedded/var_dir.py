"""Owns `VAR_DIR` itself: who may run on it, its secret key, and the file that tells scripts where things are."""

import fcntl
import json
import os
import secrets
import time
from collections.abc import Callable, Mapping
from pathlib import Path

from debugger.embedded.processes import StackError

LOCK_NAME = "up.lock"
PLACES_NAME = "up.json"
SECRET_NAME = "secret_key"
LEFTOVER_SECONDS = 25.0  # processes of a killed start may take this long to end


def claim_var_dir(var_dir: Path, tell: Callable[[str], None]) -> int:
    """Make `var_dir` when absent and take its lock; return the lock's open file.

    The lock belongs to the open file, which every keeper holds too (`Program.keep_open`): after a killed start it
    is free only when the last of its processes has ended, so a new start never meets them.
    Raises StackError when another start runs on it, or when the folder cannot be written.
    """
    try:
        var_dir.mkdir(parents=True, exist_ok=True)
        lock = os.open(var_dir / LOCK_NAME, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    except OSError as error:
        raise StackError(f"VAR_DIR {var_dir} cannot be used: {error}") from error
    deadline = time.monotonic() + LEFTOVER_SECONDS
    told = False
    while True:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            owner = os.pread(lock, 20, 0).decode(errors="replace").strip()
            if _runs(owner) or time.monotonic() > deadline:
                os.close(lock)
                raise StackError(
                    f"already running on {var_dir} (process {owner}): stop it, or set VAR_DIR to another folder"
                ) from None
            if not told:
                tell("waiting for the processes of an earlier, killed start to end")
                told = True
            time.sleep(0.1)
            continue
        os.ftruncate(lock, 0)
        os.pwrite(lock, f"{os.getpid()}\n".encode(), 0)
        return lock


def release_var_dir(lock: int) -> None:
    """Give the lock up; the file stays, as removing it would let two starts lock two different files."""
    os.ftruncate(lock, 0)
    os.close(lock)


def _runs(owner: str) -> bool:
    return owner.isdigit() and Path(f"/proc/{owner}").exists()


def write_places(var_dir: Path, places: Mapping[str, object]) -> None:
    """Write `up.json` whole or not at all, readable by its owner only: it holds a key and a sign-in link."""
    fresh = var_dir / f"{PLACES_NAME}.new"
    fresh.unlink(missing_ok=True)
    with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as output:
        json.dump(places, output, indent=2)
        output.write("\n")
    fresh.replace(var_dir / PLACES_NAME)


def remove_places(var_dir: Path) -> None:
    (var_dir / PLACES_NAME).unlink(missing_ok=True)


def local_secret_key(var_dir: Path) -> str:
    """Return the secret key kept in `var_dir`, made at first need (mode 600). Raises OSError when it cannot be."""
    path = var_dir / SECRET_NAME
    if not path.exists():
        var_dir.mkdir(parents=True, exist_ok=True)
        fresh = var_dir / f"{SECRET_NAME}.{os.getpid()}"
        with os.fdopen(os.open(fresh, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w") as output:
            output.write(secrets.token_urlsafe(48))
        try:
            os.link(fresh, path)  # fails when another process was first: both then read the same key
        except FileExistsError:
            pass
        finally:
            fresh.unlink()
    return path.read_text()
