"""Decides by which numbers a part of a task's text is found: hashes of each one, two and three letters in a row. Pure.

PostgreSQL's own trigrams need an extension that the embedded server does not have, and cut words. A task that holds a
text holds all of its grams, whatever the case of letters; that it holds the text itself is checked on the few that do.
"""

import unicodedata
from collections.abc import Iterable
from typing import Final
from zlib import crc32

from knowledge.run_days import LARGEST, day_salt

LONGEST: Final = 3  # letters of a gram
MOST_WANTED: Final = 24  # grams of a long text that are looked for; more of them find no fewer


def task_grams(project_id: int, day: int, task: str) -> list[int]:
    """Return the grams of the task of a run that was first received on that day, sorted, each once."""
    text = task.upper()
    grams = {text[place : place + size] for size in range(1, LONGEST + 1) for place in range(len(text) - size + 1)}
    salt = day_salt(day)
    return sorted(gram ^ salt for gram in _hashed(project_id, grams))


def wanted_grams(project_id: int, part: str) -> list[int]:
    """Return grams that each task with this part has, in any case of letters, before a day's salt.

    Letters that this Unicode does not know may have another case elsewhere, and are not looked for.
    """
    text = part.upper()
    size = min(LONGEST, len(text))
    grams = [text[i : i + size] for i in range(len(text) - size + 1)] if size else []
    known = [gram for gram in grams if not any(unicodedata.category(letter) == "Cn" for letter in gram)]
    step = max(1, len(known) // MOST_WANTED)
    return sorted(_hashed(project_id, known[::step]))


def _hashed(project_id: int, grams: Iterable[str]) -> set[int]:
    """Return a number for each gram; it differs from project to project, so that none pays for another's tasks."""
    start = crc32(f"{project_id}:".encode())
    return {crc32(gram.encode(errors="surrogatepass"), start) & LARGEST for gram in grams}
