"""Reads what is asked when retrieval is measured: recorded failures, each with the rule that answers it, or none.

A row is {rule, command, output, fixes}; `rule` is the id of the item that answers, null when no item does. A row with
an empty `output` is a task: the text of `command`, before anything was done. `group` may say what kind a row is of;
of the group `empty` a command that printed nothing is meant, no task.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final

PRINTED_NOTHING: Final = "empty"  # the group of commands whose empty output is meant


class CorpusError(ValueError):
    """A file of a corpus that cannot be used; the message names file, line, field and the fix."""


@dataclass(frozen=True, slots=True)
class Pair:
    """One failed command with what it printed, and the rule that answers it (None: nothing known does)."""

    rule: str | None
    command: str
    output: str
    fixes: tuple[str, ...] = ()
    group: str = ""

    @property
    def is_task(self) -> bool:
        """Whether `command` is a task that is only to be begun."""
        return not self.output.strip() and self.group != PRINTED_NOTHING


def read_pairs(file: Path) -> list[Pair]:
    """Return the pairs of one JSON Lines file. Raises CorpusError for the first row that is not in order."""
    pairs = []
    for number, row in json_rows(file):
        try:
            pairs.append(_pair(row))
        except ValueError as error:
            raise CorpusError(f"{file}:{number}: {error}") from None
    if not pairs:
        raise CorpusError(f"{file} holds no pairs; each line is an object with rule, command, output and fixes")
    return pairs


def json_rows(file: Path) -> Iterator[tuple[int, object]]:
    """Yield (line number, decoded value) of each line that is not blank. Raises CorpusError for what is no JSON."""
    try:
        text = file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is not UTF-8"
        raise CorpusError(f"{file} cannot be read: {reason}") from None
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            yield number, json.loads(line)
        except (ValueError, RecursionError):
            raise CorpusError(f"{file}:{number}: the line is not JSON; write one object a line") from None


def _pair(row: object) -> Pair:
    if not isinstance(row, dict):
        raise CorpusError("a row must be a JSON object with rule, command, output and fixes")
    fixes = row.get("fixes", [])
    if not isinstance(fixes, list) or not all(isinstance(fix, str) for fix in fixes):
        raise CorpusError("fixes must be a list of strings, or absent")
    group = _text(row, "group") if "group" in row else ""
    return Pair(_rule(row), _text(row, "command"), _text(row, "output"), tuple(fixes), group)


def _rule(row: dict[str, object]) -> str | None:
    if "rule" not in row:
        raise CorpusError("rule is missing; name the item that answers, or null when none does")
    rule = row["rule"]
    if rule is not None and (not isinstance(rule, str) or not rule.strip()):
        raise CorpusError("rule must be the id of an item as a string, or null")
    return rule


def _text(row: dict[str, object], name: str) -> str:
    if name not in row:
        raise CorpusError(f"{name} is missing; give the text, which may be empty")
    value = row[name]
    if not isinstance(value, str):
        raise CorpusError(f"{name} must be a string")
    return value
