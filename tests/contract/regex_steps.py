"""Counts the work of a regular expression: a small backtracking matcher that takes the steps of the real one.

Each step is one character test, one look-around or one repetition. Every match found is compared with what `re`
finds, so a count is never that of some other expression.
"""

import re
import re._constants as sre  # type: ignore[import-not-found]
import re._parser as sre_parser  # type: ignore[import-not-found]
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import pytest

Continue = Callable[[int], int | None]
_CATEGORIES: dict[Any, str] = {
    sre.CATEGORY_DIGIT: r"\d",
    sre.CATEGORY_NOT_DIGIT: r"\D",
    sre.CATEGORY_SPACE: r"\s",
    sre.CATEGORY_NOT_SPACE: r"\S",
    sre.CATEGORY_WORD: r"\w",
    sre.CATEGORY_NOT_WORD: r"\W",
}
_ONE_CHARACTER = (sre.LITERAL, sre.NOT_LITERAL, sre.IN, sre.ANY)


class Counter:
    """How many steps were taken since the last reset."""

    def __init__(self) -> None:
        self.steps = 0


class CountedPattern:
    """Stands in for a compiled pattern: same answers, each step counted."""

    def __init__(self, pattern: re.Pattern[str], counter: Counter) -> None:
        self.real, self.counter = pattern, counter
        self.tree = sre_parser.parse(pattern.pattern, pattern.flags & ~re.UNICODE)
        self.known: dict[tuple[int, bool, str], bool] = {}

    def finditer(self, text: str) -> Iterator[re.Match[str]]:
        at = 0
        for found in self.real.finditer(text):
            self._search(text, at, found.span())
            yield found
            at = found.end() + (found.end() == found.start())
        self._search(text, at, None)

    def findall(self, text: str) -> list[str]:
        return [found.group() for found in self.finditer(text)]

    def split(self, text: str) -> list[Any]:
        list(self.finditer(text))
        return self.real.split(text)

    def sub(self, replacement: Any, text: str, count: int = 0) -> str:
        list(self.finditer(text))
        return self.real.sub(replacement, text, count)

    def search(self, text: str) -> re.Match[str] | None:
        found = self.real.search(text)
        self._search(text, 0, found.span() if found else None)
        return found

    def match(self, text: str, pos: int = 0, endpos: int | None = None) -> re.Match[str] | None:
        text = text if endpos is None else text[:endpos]
        found = self.real.match(text, pos)
        assert _Attempt(self, text).at(pos) == (found.end() if found else None)
        return found

    def fullmatch(self, text: str, pos: int = 0, endpos: int | None = None) -> re.Match[str] | None:
        text = text if endpos is None else text[:endpos]
        found = self.real.fullmatch(text, pos)
        ended = _Attempt(self, text).at(pos, lambda end: end if end == len(text) else None)
        assert ended == (found.end() if found else None)
        return found

    def _search(self, text: str, at: int, span: tuple[int, int] | None) -> None:
        attempt = _Attempt(self, text)
        for start in range(at, (span[0] if span else len(text)) + 1):
            end = attempt.at(start)
            assert (start, end) == span if end is not None else span is None or start < span[0]


class _Attempt:
    """Matches one pattern against one text."""

    def __init__(self, pattern: CountedPattern, text: str) -> None:
        self.pattern, self.text, self.counter = pattern, text, pattern.counter
        self.folded = bool(pattern.real.flags & re.IGNORECASE)

    def at(self, start: int, then: Continue = lambda end: end) -> int | None:
        return self._sequence(self.pattern.tree, 0, start, self.folded, then)

    def _sequence(self, tree: Any, index: int, pos: int, folded: bool, then: Continue) -> int | None:
        items = tree.data
        while index < len(items) and items[index][0] in _ONE_CHARACTER:
            if not self._holds(items[index], pos, folded):
                return None
            index, pos = index + 1, pos + 1
        if index == len(items):
            return then(pos)
        return self._item(items[index], pos, folded, lambda end: self._sequence(tree, index + 1, end, folded, then))

    def _item(self, item: Any, pos: int, folded: bool, then: Continue) -> int | None:
        kind, inner = item
        self.counter.steps += 1
        if kind is sre.BRANCH:
            ends = (self._sequence(branch, 0, pos, folded, then) for branch in inner[1])
            return next((end for end in ends if end is not None), None)
        if kind is sre.SUBPATTERN:
            return self._sequence(inner[3], 0, pos, folded or bool(inner[1] & re.IGNORECASE), then)
        if kind in (sre.ASSERT, sre.ASSERT_NOT):
            return then(pos) if self._looks(inner, pos, folded) == (kind is sre.ASSERT) else None
        if kind is sre.AT:
            return then(pos) if self._stands(inner, pos) else None
        if kind is sre.ATOMIC_GROUP:
            end = self._sequence(inner, 0, pos, folded, lambda found: found)
            return None if end is None else then(end)
        low, high, body = inner
        if kind is sre.POSSESSIVE_REPEAT:
            end = self._possessive(low, high, body, pos, folded)
            return None if end is None else then(end)
        if kind is sre.MAX_REPEAT:
            return self._greedy(low, high, body, pos, folded, then)
        assert kind is sre.MIN_REPEAT, f"{kind} is not known to the counter"
        return self._lazy(low, high, body, pos, folded, then)

    def _possessive(self, low: int, high: Any, body: Any, pos: int, folded: bool) -> int | None:
        done = 0
        while high is sre.MAXREPEAT or done < high:
            end = self._sequence(body, 0, pos, folded, lambda found: found)
            if end is None or (end == pos and done >= low):
                break
            pos, done = end, done + 1
        return pos if done >= low else None

    def _greedy(self, low: int, high: Any, body: Any, pos: int, folded: bool, then: Continue) -> int | None:
        if len(body.data) == 1 and body.data[0][0] in _ONE_CHARACTER:
            end = pos
            while (high is sre.MAXREPEAT or end - pos < high) and self._holds(body.data[0], end, folded):
                end += 1
            for stop in range(end, pos + low - 1, -1):
                self.counter.steps += 1
                found = then(stop)
                if found is not None:
                    return found
            return None
        return self._greedy_group(low, high, body, pos, folded, then)

    def _greedy_group(self, low: int, high: Any, body: Any, pos: int, folded: bool, then: Continue) -> int | None:
        if high is sre.MAXREPEAT or high > 0:
            less = high if high is sre.MAXREPEAT else high - 1

            def again(end: int) -> int | None:
                if end == pos and low <= 0:
                    return None
                return self._greedy_group(low - 1, less, body, end, folded, then)

            found = self._sequence(body, 0, pos, folded, again)
            if found is not None:
                return found
        return then(pos) if low <= 0 else None

    def _lazy(self, low: int, high: Any, body: Any, pos: int, folded: bool, then: Continue) -> int | None:
        done = 0
        while True:
            if done >= low:
                found = then(pos)
                if found is not None:
                    return found
            end = self._sequence(body, 0, pos, folded, lambda found: found)
            if end is None or end == pos or (high is not sre.MAXREPEAT and done >= high):
                return None
            pos, done = end, done + 1

    def _looks(self, inner: Any, pos: int, folded: bool) -> bool:
        direction, body = inner
        start = pos if direction > 0 else pos - body.getwidth()[0]
        if start < 0:
            return False
        if len(body.data) == 1 and body.data[0][0] in _ONE_CHARACTER:
            return self._holds(body.data[0], start, folded)
        return self._sequence(body, 0, start, folded, lambda end: end) is not None

    def _stands(self, where: Any, pos: int) -> bool:
        if where in (sre.AT_BEGINNING, sre.AT_BEGINNING_STRING):
            return pos == 0
        if where is sre.AT_END_STRING:
            return pos == len(self.text)
        if where is sre.AT_END:
            return self.text[pos:] in ("", "\n")
        before = pos > 0 and re.match(r"\w", self.text[pos - 1]) is not None
        after = pos < len(self.text) and re.match(r"\w", self.text[pos]) is not None
        return (before != after) == (where is sre.AT_BOUNDARY)

    def _holds(self, item: Any, pos: int, folded: bool) -> bool:
        self.counter.steps += 1
        if pos >= len(self.text):
            return False
        key = (id(item), folded, self.text[pos])
        known = self.pattern.known
        if key not in known:
            known[key] = _one_holds(item, self.text[pos], folded)
        return known[key]


def _one_holds(item: Any, character: str, folded: bool) -> bool:
    kind, inner = item
    if kind is sre.ANY:
        return character != "\n"
    forms = {character, character.lower(), character.upper()} if folded else {character}
    codes = [ord(form) for form in forms if len(form) == 1]
    if kind is sre.LITERAL:
        return inner in codes
    if kind is sre.NOT_LITERAL:
        return inner not in codes
    negated = inner[0][0] is sre.NEGATE
    return negated != any(_member(member, codes) for member in inner[negated:])


def _member(member: Any, codes: list[int]) -> bool:
    kind, inner = member
    if kind is sre.LITERAL:
        return inner in codes
    if kind is sre.RANGE:
        return any(inner[0] <= code <= inner[1] for code in codes)
    return any(re.match(_CATEGORIES[inner], chr(code)) for code in codes)


def count_steps(monkeypatch: pytest.MonkeyPatch, *modules: ModuleType) -> Counter:
    """Let every pattern at the top of `modules`, also inside tuples, count its steps; return the counter."""
    counter = Counter()
    known: dict[int, CountedPattern] = {}

    def counted(value: Any) -> Any:
        if isinstance(value, re.Pattern):
            return known.setdefault(id(value), CountedPattern(value, counter))
        if isinstance(value, tuple) and any(isinstance(part, re.Pattern | tuple) for part in value):
            return tuple(counted(part) for part in value)
        return value

    for module in modules:
        for name, value in list(vars(module).items()):
            if isinstance(value, re.Pattern | tuple):
                monkeypatch.setattr(module, name, counted(value))
    return counter
