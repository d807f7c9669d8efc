"""The terms of a text: stems of its words, and identifiers whole as well as in parts. Pure, linear.

`git_push`, `GitPush` and `git push` share the terms of `git` and `push`. English and Russian words are stemmed as
PostgreSQL's text search does; runs of Chinese and Japanese signs are taken in pairs.
"""

import functools
import re
import threading
import unicodedata
from collections.abc import Iterator
from typing import Final

import Stemmer

from knowledge.find_hints.v2 import STOP

TERM_LIMIT: Final = 60  # code points; longer ones are hashes and encodings, not words

_WORD: Final = re.compile(r"\w[\w.\-]*")
_PART: Final = re.compile(r"[\u3040-\u30ff\u3400-\u9fff]+|\d+|[^\W\d_\u3040-\u30ff\u3400-\u9fff]+")
_SINGLE: Final = re.compile(r"\d|[B-HJ-ZА-Я]")  # not A and I, which are words of English
_HUMP: Final = re.compile(r"[A-ZА-ЯЁ]+(?![a-zа-яё])|[A-ZА-ЯЁ]?[a-zа-яё]+")
_OTHER_LETTERS: Final = re.compile(r"[^\W\d_A-Za-zА-Яа-яЁё]")  # in their words humps are not looked for
_CYRILLIC: Final = re.compile("[а-яё]")
_SIGNS: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
# Composing costs the square of a run of combining marks, and no text means anything by so many; the two half-width
# marks are letters to `re`. Signs that stand for many others would make a text many times as long.
_MARKS: Final = re.compile(r"([^\x00-\x7f\w\s]|[\uff9e\uff9f]){33,}")
_COMPOSED_TIMES: Final = 2  # code points read of a composed text, beside those of the text as given
# A stemmer keeps state while it works: each thread has its own.
_local: Final = threading.local()


def terms(text: str) -> list[str]:
    """Return the terms of a text in order, repeated ones included."""
    return [term for word in _words(text) for term, _ in _terms_of_word(word)]


def sequence(text: str) -> list[str]:
    """Return the terms of a text in order, digits and single capitals included: `code 1` is not `code 2`."""
    return [term for word in _words(text) for term in ([word] if _SINGLE.fullmatch(word) else _terms(word))]


def _terms(word: str) -> list[str]:
    return [term for term, _ in _terms_of_word(word)]


def spelled(text: str) -> dict[str, str]:
    """Return the terms of a text, each as it was first written, in lower case.

    A part of an identifier stands for itself: who shares a part is not told the whole.
    """
    found: dict[str, str] = {}
    for word in dict.fromkeys(_words(text)):
        for term, written in _terms_of_word(word):
            found.setdefault(term, written)
    return found


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(_composed(text)):
        word = match[0].strip("-._")
        if word:
            yield word


def _composed(text: str) -> str:
    if text.isascii():
        return text
    return unicodedata.normalize("NFKC", _MARKS.sub(" ", text))[: _COMPOSED_TIMES * len(text)]


def _terms_of_word(word: str) -> tuple[tuple[str, str], ...]:
    """Return the terms of one word, each as it was written: itself if it has several parts, the stem of each part."""
    return _terms_of_short(word) if len(word) <= TERM_LIMIT else tuple(_split(word))


def _split(word: str) -> Iterator[tuple[str, str]]:
    parts = _parts(word)
    if len(parts) > 1 and len(word) <= TERM_LIMIT:
        yield word.lower(), word.lower()
    head, dot, last = word.rpartition(".")
    named = dot and 1 < len(_parts(last)) < len(parts)  # UndefinedTable of psycopg2.errors.UndefinedTable
    for part in _parts(head) if named else parts:
        yield from _terms_of_part(part.lower())
    if named:
        yield from _split(last)


def _parts(word: str) -> list[str]:
    """Return the runs of letters, digits and signs of a word; those of letters by their humps (`GitPush`)."""
    return [part for run in _PART.findall(word) for part in (_humps(run) if run[0].isalpha() else [run])]


def _humps(run: str) -> list[str]:
    return [run] if _OTHER_LETTERS.search(run) else _HUMP.findall(run)


@functools.lru_cache(maxsize=20_000)
def _terms_of_short(word: str) -> tuple[tuple[str, str], ...]:
    """Remember words: those of diagnostics are few and come again."""
    return tuple(_split(word))


def _terms_of_part(part: str) -> Iterator[tuple[str, str]]:
    if _SIGNS.match(part):
        yield from ((part[place : place + 2],) * 2 for place in range(max(1, len(part) - 1)))
    elif 2 <= len(part) <= TERM_LIMIT and part not in STOP:
        yield _stem(part), part


def _stem(word: str) -> str:
    language = "russian" if _CYRILLIC.search(word) else "english" if word.isascii() else ""
    return str(_stemmer(language).stemWord(word)) if language else word


def _stemmer(language: str) -> "Stemmer.Stemmer":
    stemmers: dict[str, Stemmer.Stemmer] = _local.__dict__.setdefault("stemmers", {})
    if language not in stemmers:
        stemmers[language] = Stemmer.Stemmer(language)
    return stemmers[language]
