"""The terms of a text: stems of its words, and identifiers whole as well as in parts. Pure, linear.

`git_push`, `GitPush` and `git push` share the terms of `git` and `push`. English and Russian words are stemmed as
PostgreSQL's text search does; runs of Chinese and Japanese signs are taken in pairs.
"""

import re
import threading
import unicodedata
from collections.abc import Iterator
from typing import Final

import Stemmer

from knowledge.find_hints.v2 import STOP

TERM_LIMIT: Final = 60  # code points; longer ones are hashes and encodings, not words

_WORD: Final = re.compile(r"\w[\w.\-]*")
_PART: Final = re.compile(
    r"[\u3040-\u30ff\u3400-\u9fff]+|\d+|[A-ZА-ЯЁ]+(?![a-zа-яё])|[A-ZА-ЯЁ]?[a-zа-яё]+|[^\W\d_A-Za-zА-Яа-яЁё\u3040-\u30ff\u3400-\u9fff]+"
)
_CYRILLIC: Final = re.compile("[а-яё]")
_SIGNS: Final = re.compile("[\u3040-\u30ff\u3400-\u9fff]")
# A stemmer keeps state while it works: each thread has its own.
_local: Final = threading.local()


def terms(text: str) -> list[str]:
    """Return the terms of a text in order, repeated ones included."""
    return [term for word in _words(text) for term in terms_of_word(word)]


def spelled(text: str) -> dict[str, str]:
    """Return the terms of a text, each with the word it was first met in, in lower case."""
    found: dict[str, str] = {}
    for word in _words(text):
        for term in terms_of_word(word):
            found.setdefault(term, word.lower())
    return found


def _words(text: str) -> Iterator[str]:
    for match in _WORD.finditer(unicodedata.normalize("NFKC", text)):
        word = match[0].strip("-._")
        if word:
            yield word


def terms_of_word(word: str) -> list[str]:
    """Return the terms of one word: itself when it has several parts, then the stem of each part."""
    parts = _PART.findall(word)
    whole = [word.lower()] if len(parts) > 1 and len(word) <= TERM_LIMIT else []
    return whole + [term for part in parts for term in _terms_of_part(part.lower())]


def _terms_of_part(part: str) -> list[str]:
    if _SIGNS.match(part):
        return [part[place : place + 2] for place in range(max(1, len(part) - 1))]
    if len(part) < 2 or len(part) > TERM_LIMIT or part in STOP:
        return []
    return [_stem(part)]


def _stem(word: str) -> str:
    language = "russian" if _CYRILLIC.search(word) else "english" if word.isascii() else ""
    return str(_stemmer(language).stemWord(word)) if language else word


def _stemmer(language: str) -> "Stemmer.Stemmer":
    stemmers: dict[str, Stemmer.Stemmer] = _local.__dict__.setdefault("stemmers", {})
    if language not in stemmers:
        stemmers[language] = Stemmer.Stemmer(language)
    return stemmers[language]
