"""Reads what was measured of a version of FindHints: how often its gate lets a right hint pass, and a wrong one.

The file is written by the command that measures retrieval, and is part of the source. (Seed 001 §20.)
"""

import json
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

from django.conf import settings

MEASURED: Final = Path(settings.BASE_DIR) / "knowledge" / "evaluation" / "measured.json"


def operating_point(version: str, file: Path = MEASURED) -> str:
    """Return in one sentence how the gate of a version does, "" when nothing was measured of it."""
    point = _read(file).get(version, {}).get("operating_point") or {}
    names = ("right_passed", "wrong_passed", "near_miss_passed", "gate")
    passed, let_in, near, gate = (_share(point, name) for name in names)
    if passed is None or let_in is None:
        return ""
    at = "Measured without a gate" if gate is None else f"Measured at this gate ({gate:.2f})"
    asked = [point.get(name) for name in ("n_answerable", "n_unanswerable")]
    over = " over {:,} failures with a rule and {:,} without".format(*asked) if all(map(_is_count, asked)) else ""
    beside = "" if near is None else f" Where only the right rule is missing, {near:.0%} get a neighbour of it."
    return (
        f"{at}{over}: {passed:.0%} of the right hints pass, and {let_in:.0%} of the failures that no rule is about "
        f"get a hint.{beside}"
    )


def _share(point: dict[str, Any], name: str) -> float | None:
    value = point.get(name)
    return float(value) if isinstance(value, int | float) and not isinstance(value, bool) else None


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


@lru_cache(maxsize=4)
def _read(file: Path) -> dict[str, Any]:
    """Return what is stored of each version; the file does not change while the process runs."""
    if not file.is_file():
        return {}
    stored = json.loads(file.read_text(encoding="utf-8"))
    return dict(stored.get("versions", {}))
