"""Decides which texts are names of notes: relative, in NFC, without anything that leads elsewhere or cannot be seen."""

import unicodedata
from typing import Final

from contract.redaction import redact
from kernel.tools.note_errors import NoteError

PATH_CHARACTERS: Final = 200
PART_BYTES: Final = 200  # in UTF-8; file systems take 255
DEPTH: Final = 8
_UNSEEN: Final = ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")  # categories of characters


def name_parts(path: str) -> tuple[str, ...]:
    """Return the names a note's path consists of, the note's own last. Raises NoteError `path_rejected`."""
    problem = _whole_problem(path)
    parts = tuple(unicodedata.normalize("NFC", path).split("/"))
    problem = problem or next((found for part in parts if (found := _part_problem(part))), "")
    if not problem and len(parts) > DEPTH:
        problem = f"it has {len(parts)} names; the limit is {DEPTH}: use fewer folders"
    if not problem and redact(path)[1]:
        problem = "it holds what looks like a secret: names stand in plain text, so leave it out"
    if problem:
        raise NoteError("path_rejected", f"the path is not accepted: {problem}")
    return parts


def _whole_problem(path: str) -> str:
    if not path:
        return "it is empty: name a note, such as journal/today.md"
    if len(path) > PATH_CHARACTERS:
        return f"it has {len(path)} characters; the limit is {PATH_CHARACTERS}: shorten it"
    if path.startswith("/"):
        return "it is absolute: write it from the notes folder on, such as journal/today.md"
    if "\\" in path:
        return "it has a backslash: part folders by /"
    if any(unicodedata.category(character) in _UNSEEN for character in path):
        return "it has a control character or one that cannot be seen: leave it out"
    return ""


def _part_problem(part: str) -> str:
    if not part:
        return "a name in it is empty: one / between two names, and none at the end"
    if part in (".", ".."):
        return "it has '.' or '..': no path leaves the notes folder"
    if part.startswith("."):
        return "a name in it begins with a dot: hidden files are not notes"
    if part != part.strip():
        return "a name in it begins or ends with white space: leave that out"
    if len(part.encode()) > PART_BYTES:
        return f"a name in it has {len(part.encode())} bytes; the limit is {PART_BYTES}: shorten it"
    return ""
