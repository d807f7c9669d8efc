"""Which numbers of a diagnostic line carry meaning and which only count: those become `<n>`.

HTTP status, exit code, signal, errno, SQLSTATE and versions beside `==` stay; digits inside a word are part of the
word. Each number is judged by the few characters before and behind it. (Seed 001 §9.2.)
"""

import re
import string
from typing import Final

_NUMBER: Final = re.compile(r"(?<![\w.])-?\d{1,3}(?:,\d{3})+(?![\w,])|(?<![\w.])[-+]?\d++(?:\.\d++)*+(?!\w)")
_JOIN: Final = " :=([#"
_LETTERS: Final = string.ascii_letters + "_"
# The word before a number that means something. What stands before the last underscore of a name does not matter.
_MEANING: Final = frozenset((
    "code", "status", "exit", "exited", "rc", "sig", "signal", "errno", "winerror", "sqlstate", "returned", "error",
    "err", "statuscode", "exitcode", "errorcode", "returncode", "curl",
))  # fmt: skip
# After these a number may also count what follows it: "error: 3 files", "returned 5 rows".
_COUNTING: Final = ("error", "err", "returned")
# A dash before digits belongs to a name when letters stand before it: utf-8, ORA-00942.
_NAME_BEFORE: Final = re.compile(r"(?P<name>[A-Za-z]{1,20})(?:-\d{1,8})?-\Z")
_PROTOCOL: Final = re.compile(r"(?i)http/\d(?:\.\d)?\Z")
_STATUS_PHRASE: Final = re.compile(
    r"(?i) (?:ok\b|created|client error|server error|bad request|unauthorized|forbidden|not found|method not|conflict|"
    r"gone|payload|unprocessable|too many|internal server|not implemented|bad gateway|service unavailable|gateway time)"
)
_VERSIONED: Final = ("version", "python")
_COMPARISONS: Final = ("=", "<", ">", "~", "!")
_CONTEXT: Final = 24  # code points read before a number
_WRITTEN: Final = 360  # more than is kept of a line: places in files get shorter


def mask_numbers(line: str) -> str:
    """Return the start of `line` with `<n>` for every number that only counts.

    A place in a file counts once, with or without a column. Some 360 code points are written and the rest left out:
    no more is kept of a line.
    """
    parts: list[str] = []
    done = written = 0
    for found in _NUMBER.finditer(line):
        parts += (line[done : found.start()], _number(found))
        written += found.start() - done + len(parts[-1])
        done = found.end()
        if written > _WRITTEN:
            return "".join(parts).replace(":<n>:<n>", ":<n>")
    return ("".join(parts) + line[done:]).replace(":<n>:<n>", ":<n>")


def _number(found: re.Match[str]) -> str:
    text, start, end = found.string, found.start(), found.end()
    digits = found[0].lstrip("+-")
    if len(digits) == 3 and text.startswith(" ", end) and _STATUS_PHRASE.match(text, end):
        return found[0]
    before = text[max(0, start - _CONTEXT) : start]
    last = before[-1:]
    if last == "-":
        name = _NAME_BEFORE.search(before)
        if name:
            return found[0] if len(digits) < 4 or name["name"].isupper() or name["name"].lower() == "iso" else "<n>"
    if last and last in _JOIN:
        tail = before.rstrip(_JOIN)
        word = tail[len(tail.rstrip(_LETTERS)) :].lower()
        if len(digits) <= 5 and len(before) - len(tail) <= 3 and _means(before, tail, word, text[end : end + 2]):
            return found[0]
        if word in _VERSIONED and ("." in digits or last != " "):
            return found[0]
    return found[0] if _is_compared(before, last, digits) else "<n>"


def _means(before: str, tail: str, word: str, behind: str) -> bool:
    """Say whether what stands before a number gives it a meaning."""
    if tail[-1:].isdigit():
        return _PROTOCOL.search(tail) is not None
    word = word.rpartition("_")[2]
    if word in _COUNTING and (":" in before[len(tail) :] or word == "returned"):
        return not (behind[:1] == " " and behind[1:].islower())
    return word in _MEANING or word.startswith("http") or (word == "with" and tail.lower().endswith("exited with"))


def _is_compared(before: str, last: str, digits: str) -> bool:
    """Say whether a number is a version beside a comparison: foo==1.2, foo>=2, foo<3, node@18, "== 1.2"."""
    if last == " ":
        return "." in digits and before[-2:-1] == "=" and before[-3:-2] in _COMPARISONS
    if last == "=":
        return before[-2:-1] in _COMPARISONS
    if last in ("<", ">"):
        return before[-2:-1].isalpha() or before[-2:-1] in ("]", "'", '"', "_")
    return last in ("~", "^", "@")
