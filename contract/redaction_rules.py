"""A project's own redaction patterns: which are accepted, and what they take out of a text.

They run on google-re2 alone, whose work is linear whatever the pattern: `re` is never given a pattern somebody typed.
"""

import re as builtin_re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from contract.secret_scan import ENGINE
from contract.secret_values import MARKED, MARKER

PATTERN_LIMIT: Final = 20  # patterns of one project
LENGTH_LIMIT: Final = 500  # characters of one pattern
PROGRAM_LIMIT: Final = 2_000  # instructions of the compiled pattern: what a step can cost
FOUND_LIMIT: Final = 1_000  # removals from one text by one pattern; what comes after the last of them goes whole
_KIND: Final = builtin_re.compile(r"[a-z_]{1,40}")
_PROBES: Final = (b"", b"a", b" a", b"- -", b"\n")
_AUTOMATON_BYTES: Final = 1 << 20  # one pattern may remember
_JOINED_BYTES: Final = 8 << 20  # all of them together, in the one that looks first
_REFUSED_ESCAPES: Final = (r"\C", r"\Q")  # one cuts characters into bytes, the other swallows what stands behind
_ANCHORS: Final = ("^", "$", r"\A", r"\z")

_MARKED_BYTES: Final = builtin_re.compile(MARKED.pattern.encode())

Place = tuple[int, int]  # start, end
Search = Callable[..., Any]  # the `search` of a compiled pattern of google-re2, over UTF-8


@dataclass(frozen=True, slots=True)
class ExtraRules:
    """Compiled patterns of one project, in their order. `anchored`: some look for the start or end of a text."""

    searches: tuple[tuple[str, Search], ...]
    any_of_them: Callable[[bytes], bool]
    anchored: bool

    def __bool__(self) -> bool:
        return bool(self.searches)

    def may_hold(self, texts: list[str]) -> bool:
        """Say whether any pattern finds something in any of `texts`."""
        whole = texts if self.anchored else ["\n".join(texts)]
        return any(self.any_of_them(text.encode("utf-8", "replace")) for text in whole)

    def replace(self, text: str) -> tuple[str, int]:
        """Return `text` with markers in place of what the patterns find, and how many. Markers in it stay whole.

        All patterns read the same text; where two of them overlap, the first to begin names the marker of both.
        """
        encoded = text.encode("utf-8", "replace")
        if not self.any_of_them(encoded):
            return text, 0
        markers = [found.span() for found in _MARKED_BYTES.finditer(encoded)]
        spans = [
            (start, end, kind) for kind, search in self.searches for start, end in _spans(search, encoded, markers)
        ]
        merged = _merged(sorted(spans, key=_start))
        return _with_markers(text, encoded, merged), len(merged)


def compile_rules(patterns: object) -> ExtraRules:
    """Return the rules of a list of {"kind", "pattern"}. Raises ValueError with what is wrong and what would do."""
    if not isinstance(patterns, list):
        raise ValueError('redaction patterns must be a list of {"kind": …, "pattern": …}')
    if len(patterns) > PATTERN_LIMIT:
        raise ValueError(f"{len(patterns)} redaction patterns; the limit is {PATTERN_LIMIT}, join some with |")
    if patterns and ENGINE is None:
        raise ValueError("redaction patterns need the package google-re2, which is not installed here")
    searches = tuple(_compiled(number, entry) for number, entry in enumerate(patterns, 1))
    anchored = any(anchor in entry["pattern"] for entry in patterns for anchor in _ANCHORS)
    return ExtraRules(searches, _any_of([entry["pattern"] for entry in patterns], searches), anchored)


def _any_of(patterns: list[str], searches: tuple[tuple[str, Search], ...]) -> Callable[[bytes], bool]:
    """Return the look that says whether any pattern finds something: one automaton where they can stand in one."""
    if len(patterns) < 2:
        return lambda encoded: any(search(encoded) is not None for _, search in searches)
    try:
        search = ENGINE.compile(
            "|".join(f"(?:{pattern})" for pattern in patterns).encode(), _options(_JOINED_BYTES)
        ).search
    except ENGINE.error:  # two groups of one name, or too much for one
        return lambda encoded: any(search(encoded) is not None for _, search in searches)
    return lambda encoded: search(encoded) is not None


def _options(memory: int) -> Any:
    options = ENGINE.Options()
    options.max_mem, options.log_errors = memory, False
    return options


def _compiled(number: int, entry: object) -> tuple[str, Search]:
    where = f"redaction pattern {number}"
    if not isinstance(entry, dict) or set(entry) != {"kind", "pattern"}:
        raise ValueError(f'{where} must be an object with "kind" and "pattern" and nothing else')
    kind, pattern = entry["kind"], entry["pattern"]
    if not isinstance(kind, str) or not _KIND.fullmatch(kind):
        raise ValueError(f"{where}: kind must be 1 to 40 lower-case letters a-z and underscores")
    if not isinstance(pattern, str) or not 0 < len(pattern) <= LENGTH_LIMIT:
        raise ValueError(f"{where}: pattern must be text of 1 to {LENGTH_LIMIT} characters")
    if any(escape in pattern for escape in _REFUSED_ESCAPES):
        raise ValueError(f"{where}: \\C and \\Q are not accepted; write . or a \\ before each sign instead")
    try:
        compiled = ENGINE.compile(pattern.encode(), _options(_AUTOMATON_BYTES))
    except UnicodeEncodeError:
        raise ValueError(f"{where}: pattern holds half a character (a lone surrogate); write it anew") from None
    except ENGINE.error as error:
        detail = f"{where} is not a pattern of RE2 ({_reason(error)}); look-around and back-references are not in it"
        raise ValueError(detail) from None
    if compiled.programsize > PROGRAM_LIMIT:
        raise ValueError(f"{where} is too large once compiled; use smaller counts than in {{1000}}")
    if any(found is not None and found.end() == found.start() for found in map(compiled.search, _PROBES)):
        raise ValueError(f"{where} matches the empty text, so it would be found everywhere; let it ask for a character")
    return kind, compiled.search


def _reason(error: Exception) -> str:
    said = error.args[0] if error.args else ""
    return said.decode("utf-8", "replace") if isinstance(said, bytes) else str(said)


def _spans(search: Search, encoded: bytes, markers: list[Place]) -> Iterator[Place]:
    """Yield what a pattern finds, in bytes. It never cuts a marker, nor finds anew what only a marker beside it ends.

    After FOUND_LIMIT looks the rest goes whole: looking on from every place could cost the square of the text.
    """
    at = passed = looks = 0
    while (found := search(encoded, at)) is not None:
        start, end = found.span()
        looks += 1
        if looks == FOUND_LIMIT:
            yield start, len(encoded)
            return
        while passed < len(markers) and markers[passed][1] < start:
            passed += 1
        near = markers[passed] if passed < len(markers) else (len(encoded) + 1, 0)
        at = max(end, start + 1)
        if start >= near[0]:  # begins in the marker, or at its end
            at = max(near[1], start + 1) if start < near[1] else at
        elif start < end < near[0]:
            yield start, end
        elif end > near[0]:
            at, inside = end, passed
            while inside < len(markers) and markers[inside][0] < at:
                at, inside = max(at, markers[inside][1]), inside + 1
            yield start, at


def _merged(spans: list[tuple[int, int, str]]) -> list[tuple[int, int, str]]:
    """Return spans that overlap as one, from spans in the order of their starts."""
    merged: list[tuple[int, int, str]] = []
    for start, end, kind in spans:
        if merged and start < merged[-1][1]:
            start, last, kind = merged.pop()
            end = max(end, last)
        merged.append((start, end, kind))
    return merged


def _start(span: tuple[int, int, str]) -> int:
    return span[0]


def _with_markers(text: str, encoded: bytes, spans: list[tuple[int, int, str]]) -> str:
    """Put markers in place of byte spans; offsets are counted on, so that the text is read once."""
    parts: list[str] = []
    done = place = 0
    for start, end, kind in spans:
        begin = place + _length(encoded, done, start)
        parts += (text[place:begin], MARKER.format(kind=kind))
        place = begin + _length(encoded, start, end)
        done = end
    return "".join(parts) + text[place:]


def _length(encoded: bytes, start: int, end: int) -> int:
    """Return how many code points lie between two byte offsets."""
    return len(encoded[start:end].decode("utf-8", "replace"))
