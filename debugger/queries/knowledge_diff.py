"""What changed between two revisions of an item, word by word, field by field. Pure. (Seed 001 §7.)"""

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher
from typing import Any, Final

# What is compared, in the order it is read, and how it is called.
TEXTS: Final[Mapping[str, str]] = {
    "proposition": "Rule",
    "why": "Why",
    "verify": "Verify",
    "caution": "Caution",
    "trigger": "Trigger",
    "tool": "Tool",
    "mcp_server": "MCP server",
    "version_scope": "Version",
}
LISTS: Final[Mapping[str, str]] = {
    "entities": "Entities",
    "topics": "Topics",
    "error_examples": "Error examples",
    "evidence": "Evidence runs",
}
_WORD: Final = re.compile(r"\s+|\w+|[^\w\s]")


@dataclass(frozen=True, slots=True)
class Part:
    """A run of text that was kept, added or removed: `kind` is "", ins or del."""

    text: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class FieldDiff:
    """A field that differs. A list has one line of parts for each entry, a text has one line."""

    name: str
    label: str
    lines: tuple[tuple[Part, ...], ...]


def compare(old: Mapping[str, Any], new: Mapping[str, Any]) -> tuple[FieldDiff, ...]:
    """Return the fields of `new` that differ from `old`; both hold the names of TEXTS and LISTS."""
    texts = [
        FieldDiff(name, label, (word_diff(old[name], new[name]),))
        for name, label in TEXTS.items()
        if old[name] != new[name]
    ]
    lists = [
        FieldDiff(name, label, tuple(_entries(old[name], new[name])))
        for name, label in LISTS.items()
        if list(old[name]) != list(new[name])
    ]
    return (*texts, *lists)


def word_diff(old: str, new: str) -> tuple[Part, ...]:
    """Return `new` with what was taken out of `old` beside what came in, by whole words."""
    before, after = _WORD.findall(old), _WORD.findall(new)
    matcher = SequenceMatcher(None, before, after, autojunk=False)
    parts: list[Part] = []
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            parts.append(Part("".join(before[start:end])))
            continue
        if start < end:
            parts.append(Part("".join(before[start:end]), "del"))
        if new_start < new_end:
            parts.append(Part("".join(after[new_start:new_end]), "ins"))
    return tuple(parts)


def _entries(old: Sequence[str], new: Sequence[str]) -> Iterator[tuple[Part, ...]]:
    """Yield the entries that differ; one that took the place of another is compared with it word by word."""
    matcher = SequenceMatcher(None, list(old), list(new), autojunk=False)
    for kind, start, end, new_start, new_end in matcher.get_opcodes():
        if kind == "equal":
            continue
        gone, come = old[start:end], new[new_start:new_end]
        for before, after in zip(gone, come, strict=False):
            yield word_diff(before, after)
        for before in gone[len(come) :]:
            yield (Part(before, "del"),)
        for after in come[len(gone) :]:
            yield (Part(after, "ins"),)
