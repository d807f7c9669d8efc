"""Owns the newest time receipt of each run: a file beside the runs' folders, where no command of a run may write.

A command writes in its own run's folders alone (kernel.tools.jail), so that a receipt can be had from the clock only.
Another worker process of the machine finds it again; on another machine there is none, and the agent takes a new one.
What cannot be read is no receipt.
"""

import json
import os
import secrets
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

from kernel.messages import TimeReceipt
from kernel.tools.clock import receipt_dates

FOLDER: Final = "time-receipts"  # no run's folder has this name: those end in a hash
FILE_BYTES: Final = 4_096
_FIELDS: Final = {"utc": str, "zoned": str, "zone": str, "unix": int}


def keep_receipt(run_root: Path, run_id: str, receipt: TimeReceipt) -> None:
    """Keep the receipt as the newest of its run. Raises OSError."""
    path = _path(run_root)
    path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
    temporary = path.with_suffix(f".{secrets.token_hex(8)}")
    descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
    try:
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            json.dump({"run_id": run_id, **asdict(receipt)}, file)
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(path)
    except OSError:
        temporary.unlink(missing_ok=True)
        raise


def newest_receipt(run_root: Path, run_id: str) -> TimeReceipt | None:
    """Return the newest receipt of the run, or None."""
    try:
        with os.fdopen(os.open(_path(run_root), os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC), "rb") as file:
            kept = json.loads(file.read(FILE_BYTES))
    except (OSError, ValueError):
        return None
    return _receipt(kept, run_id)


def forget_receipts(run_root: Path) -> None:
    """Forget what an earlier run of the same id took: this one has not begun."""
    with suppress(OSError):
        _path(run_root).unlink(missing_ok=True)


def _receipt(kept: Any, run_id: str) -> TimeReceipt | None:
    if not isinstance(kept, dict) or kept.get("run_id") != run_id:
        return None
    if any(type(kept.get(name)) is not kind for name, kind in _FIELDS.items()):
        return None
    receipt = TimeReceipt(**{name: kept[name] for name in _FIELDS})
    try:
        receipt_dates(receipt)
    except ValueError:
        return None
    return receipt


def _path(run_root: Path) -> Path:
    return run_root.parent / FOLDER / f"{run_root.name}.json"
