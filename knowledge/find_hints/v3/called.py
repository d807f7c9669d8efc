"""What a tool was called with, as words: the command line, or what the values of JSON arguments say. Pure.

Arguments are what a model wrote: they may be cut, of any shape, and no JSON at all; they always have words, or none.
"""

import json
import re
from collections.abc import Iterator
from typing import Any, Final

COMMAND_NAMES: Final = ("command", "cmd", "script")  # of arguments that are command lines
READ: Final = 4_096  # code points of the arguments that are looked at
VALUES_READ: Final = 64  # texts of them
SAID: Final = 1_024  # code points of what they say

_OPENS_OBJECT: Final = re.compile(r'\s*\{\s*(?:["}]|\Z)')
_STRING: Final = re.compile(r'"((?:[^"\\]|\\.)*)(?:"(\s*:)?|\\?\Z)', re.DOTALL)
_ESCAPE: Final = re.compile(r"\\(?:u[0-9A-Fa-f]{0,4}|.)?", re.DOTALL)
_PATH_LIKE: Final = re.compile(r"[./\\]")


def command_of(arguments: str) -> str:
    """Return the command line among the arguments of a call; of others the plain words of their texts, paths left out.

    What is no JSON object is a command line as it is.
    """
    texts = _texts_of(arguments[:READ])
    if texts is None:
        return arguments[:SAID]
    for wanted in COMMAND_NAMES:
        line = " ".join(text for name, text in texts if name == wanted)
        if line.strip():
            return line[:SAID]
    words = (word for _, text in texts for word in text[:SAID].split() if not _PATH_LIKE.search(word))
    return " ".join(words)[:SAID]


def _texts_of(arguments: str) -> list[tuple[str, str]] | None:
    """Return the texts of JSON arguments with the names they stand under, None when they are no JSON object."""
    if not _OPENS_OBJECT.match(arguments):
        return None
    try:
        value = json.loads(arguments)
    except (ValueError, RecursionError):
        return _texts_of_cut(arguments)
    return _texts_in(value)


def _texts_in(value: Any) -> list[tuple[str, str]]:
    """Return the texts of a JSON value in order, each with the nearest name above it; at most VALUES_READ."""
    texts: list[tuple[str, str]] = []
    todo: list[tuple[str, Any]] = [("", value)]
    while todo and len(texts) < VALUES_READ:
        name, node = todo.pop()
        if isinstance(node, str):
            texts.append((name, node.encode("utf-8", "replace").decode()))
        elif isinstance(node, dict):
            todo += reversed(node.items())
        elif isinstance(node, list):
            todo += ((name, entry) for entry in reversed(node))
    return texts


def _texts_of_cut(arguments: str) -> list[tuple[str, str]]:
    """Return the texts of an object that is cut or malformed: every quoted text that is no name."""
    return list(_quoted(arguments))[:VALUES_READ]


def _quoted(arguments: str) -> Iterator[tuple[str, str]]:
    name = ""
    for found in _STRING.finditer(arguments):
        text = _ESCAPE.sub(" ", found[1])
        if found[2]:
            name = text
        else:
            yield name, text
