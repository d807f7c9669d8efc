"""Decides which characters of a row are its text: retired envelope tags and labels that an answer copied are not.

A label is `[time] source:`, which earlier requests put ahead of every row and models copied into their answers. At the
start of an answer a bracketed time goes, and with it a source that is known or is written as one (small letters,
digits, `_`, `-`), as often as they stand there; at the start of a later line only the whole label of a known source
goes. Everything else stays, a time inside a line or at the end as well. (Seed 002.)
"""

import re
from collections.abc import Collection
from typing import Final

from kernel.conversation.records import LOCAL_TIME, OFFSET, time_problem

IN_LINE: Final = r"[^\S\n]*"  # any white space of a line, wide and unbreakable ones as well
TAG: Final = re.compile(r"</?(?:voice|document)[ \t]*>")
OPENING: Final = re.compile(rf"\s*\[({LOCAL_TIME})({OFFSET})?\]{IN_LINE}")
SOURCE: Final = re.compile(rf"([^\s:：\[\]]{{1,200}})[:：]{IN_LINE}")  # an answer in Chinese has the wide colon
LIKE_A_SOURCE: Final = re.compile(r"[a-z][a-z0-9_-]{0,63}")


def without_tags(text: str) -> str:
    """Return the text without retired envelope tags and without white space around it; what they enclosed stays."""
    return TAG.sub("", text).strip()


def answer_text(text: str, sources: Collection[str]) -> str:
    """Return the text of an answer alone. `sources` are those a copied label may name."""
    first, *rest = _without_opening(without_tags(text), sources).split("\n")
    return "\n".join([first, *(_without_labels(line, sources) for line in rest)]).strip()


def _without_opening(text: str, sources: Collection[str]) -> str:
    """Return the text without the bracketed times at its start, and without the sources behind them."""
    place = 0
    while (stop := _time_end(text, place)) is not None:
        found = SOURCE.match(text, stop)
        has_source = found is not None and (found[1] in sources or LIKE_A_SOURCE.fullmatch(found[1]))
        place = found.end() if found is not None and has_source else stop
    return text[place:]


def _without_labels(line: str, sources: Collection[str]) -> str:
    """Return a later line without the whole labels at its start."""
    place = 0
    while (stop := _time_end(line, place)) is not None and (end := _source_end(line, stop, sources)) is not None:
        place = end
    return line[place:]


def _time_end(text: str, place: int) -> int | None:
    """Return where the bracketed time at `place` ends, None when there is none that is a time."""
    found = OPENING.match(text, place)
    if found is None:
        return None
    return None if time_problem(found[1] + (found[2] or "Z")) else found.end()


def _source_end(text: str, place: int, sources: Collection[str]) -> int | None:
    found = SOURCE.match(text, place)
    return found.end() if found is not None and found[1] in sources else None
