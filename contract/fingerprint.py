"""`fp_v1`: what a diagnostic text says once ids, times, paths and counters are taken out. Pure, stateless, linear.

Two forms: `exact` keeps quoted names (a module, a column, a flag: they separate situations), `masked` replaces them
and serves statistics. The version is part of every key made from a fingerprint; a new version never rewrites
old keys. (Seed 001 §9.2.)
"""

import re
import unicodedata
from dataclasses import dataclass
from typing import Final

VERSION: Final = "fp_v1"
INPUT_LIMIT: Final = 8_192  # code points read
LINE_LIMIT: Final = 400  # code points kept of one signature line
SIGNATURE_LINES: Final = 3


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The signature of a diagnostic text: with quoted names, and with them masked."""

    exact: str
    masked: str


ESCAPES: Final = re.compile(r"\x1b\][^\x07\x1b]{0,500}(?:\x07|\x1b\\)|\x1b\[[0-?]{0,32}[ -/]{0,8}[@-~]|\x1b[@-Z\\-_]")
SPACE: Final = re.compile(r"\s+")
SIGNAL: Final = re.compile(
    r"(?i)error|fatal|failed|failure|denied|refused|cannot|can't|could not|unable|not found|no such|panic|invalid|"
    r"exception|unknown|missing|timed? ?out|not a |abort|unexpected|\b[A-Z]{1,6}-?\d{3,6}\b"
)
EXCEPTION: Final = re.compile(r"^(?:[A-Za-z_][\w.]*)?(?:Error|Exception|Warning|Interrupt|Exit|Fault)\b(?::|$)")
GENERIC: Final = re.compile(
    r"(?i)^(?:traceback \(most recent call last\):?|see .{0,200}--help.{0,200}|usage: .*|for more information.*|"
    r"a complete log of this run can be found in.*|during handling of the above exception.*|"
    r"the above exception was the direct cause.*|std(?:out|err):?|error:?|\^+|~+\^*)$"
)
WRAPPERS: Final = (
    re.compile(r"(?i)^(?:command|cmd|process) .{1,300}? (?:exited|returned|failed)(?: with)?(?: non-zero)?"
               r"(?: exit)? ?(?:code|status)?:? ?-?\d{1,5}[.:]? ?"),
    re.compile(r"^(?:ActivityError|ApplicationError|ToolError|ToolException|RuntimeError|Error): (?=\S*(?:Error|Exception)\b|\S+: )"),
)  # fmt: skip

HEX: Final = r"[0-9a-fA-F]"
# In this order: what is longer or more certain first. Each pattern repeats a bounded class only.
MASKS: Final[tuple[tuple[re.Pattern[str], str], ...]] = (
    (re.compile(r"\[REDACTED:[a-z_]{1,40}\]"), "<redacted>"),
    (re.compile(r"\b[a-z][a-z0-9+.\-]{1,20}://[^\s'\"<>]{0,500}?/?([\w.\-]{0,80})/?(?=[\s'\"<>),;]|$)"), r"<url>/\1"),
    (re.compile(r"\b[\w.+\-]{1,64}@[\w\-]{1,63}(?:\.[\w\-]{1,63}){1,5}\b"), "<email>"),
    (re.compile(rf"\b{HEX}{{8}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{4}}-{HEX}{{12}}\b"), "<uuid>"),
    (re.compile(rf"\b{HEX}{{2}}-{HEX}{{32}}-{HEX}{{16}}-{HEX}{{2}}\b"), "<trace>"),
    (re.compile(r"\b\d{1,3}(?:\.\d{1,3}){3}(?::\d{1,5})?\b|\[[0-9a-fA-F:]{2,39}\](?::\d{1,5})?"), "<ip>"),
    (re.compile(r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?"), "<time>"),
    (re.compile(r"\b\d{4}[-/]\d\d[-/]\d\d\b|\b\d\d:\d\d:\d\d(?:[.,]\d{1,9})?\b"), "<time>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:ns|us|µs|ms|s|secs?|seconds?|mins?|minutes?|hours?)\b"), "<duration>"),
    (re.compile(r"\b\d+(?:\.\d+)? ?(?:[KMGT]i?B|kB|bytes?|B)\b(?:/s)?"), "<size>"),
    (re.compile(r"\b0[xX][0-9a-fA-F]{1,32}\b"), "<hex>"),
    (re.compile(rf"(?i)\b(commit|sha|rev|revision|HEAD)(\W{{1,3}}){HEX}{{7,64}}\b"), r"\1\2<sha>"),
    (re.compile(rf"\b(?=[a-fA-F]{{0,64}}\d){HEX}{{16,128}}\b"), "<hex>"),
    (re.compile(r"(?<![\w.])(?:~|[A-Za-z]:\\|/)(?:[^\s'\":;,()<>|*?]{1,120}[/\\]){0,30}([^\s'\":;,()<>|*?/\\]{0,120})"), r"<path>/\1"),
    (re.compile(r"(?<=[\w>]):\d{1,6}(?::\d{1,5})?(?=[\s:,)\]]|$)"), ""),
    (re.compile(r"(?i)\bline \d{1,7}(?:, column \d{1,5})?"), "line <n>"),
    (re.compile(r"(?i)\b(pid|tid|thread|process|port|job|worker)([ =:#\-]{1,3})\d{1,10}\b"), r"\1\2<n>"),
    (re.compile(r"(?i)\b((?:[a-z]{1,30}_)?(?:id|token))([\"']?\s?[=:]\s?[\"']?)[\w\-]{4,128}"), r"\1\2<id>"),
    (re.compile(r"\b(?=[A-Za-z+/]{0,200}\d)(?=[0-9+/a-z]{0,200}[A-Z])[A-Za-z0-9+/]{32,4096}={0,2}"), "<base64>"),
    (re.compile(r"(?i)\b(bash|zsh|sh|dash|ksh|fish): (?:line <n>|line \d+|\d+): "), ""),
)  # fmt: skip
SHELL_NAME: Final = re.compile(r"^(?:/?(?:usr/)?bin/|<path>/)?(?:ba|z|da|k|fi)?sh: (?:line <n>: |\d{1,4}: |<n>: )?")
NOT_FOUND: Final = re.compile(r"^command not found: (\S{1,80})$|^(\S{1,80}): (?:command )?not found$")
KEPT_NUMBER: Final = re.compile(
    r"(?i)(?:http(?:/\d(?:\.\d)?)?|status(?:[ _]?code)?|exit(?:ed)?(?: (?:code|status))?|code|signal|errno|sqlstate|"
    r"returned|error)[ :=(\[]{1,3}$"
)
BESIDE_VERSION: Final = re.compile(r"(?:==|>=|<=|~=|!=|[<>=^~]|\bv|\bversion |python ?)$", re.I)
NUMBER: Final = re.compile(r"(?<![\w.\-])\d{1,3}(?:,\d{3})+(?![\w])|(?<![\w.\-])-?\d+(?:\.\d+)*(?![\w])")
QUOTED: Final = re.compile(r"'[^'\n]{1,200}'|\"[^\"\n]{1,200}\"|`[^`\n]{1,200}`|‘[^’\n]{1,200}’|“[^”\n]{1,200}”")
NAMED: Final = re.compile(
    r"(?i)(command not found: |no module named |unknown (?:option|command|flag):? |unrecognized (?:option|arguments?):? |"
    r"no such (?:table|column|option|command):? |pathspec |column |relation |table )[\w.\-/]{1,80}"
)


def fingerprint(text: str) -> Fingerprint:
    """Return the fingerprint of a diagnostic text; an empty text has an empty one."""
    cleaned = unicodedata.normalize("NFC", text[:INPUT_LIMIT])
    cleaned = ESCAPES.sub("", cleaned)
    lines = [SPACE.sub(" ", _last_shown(line)).strip() for line in cleaned.split("\n")]
    signature = [_masked(_unwrapped(line)[:LINE_LIMIT]) for line in _signature(lines)]
    exact = "\n".join(dict.fromkeys(line for line in signature if line))
    masked = "\n".join(dict.fromkeys(NAMED.sub(r"\1<name>", QUOTED.sub("<name>", line)) for line in exact.split("\n")))
    return Fingerprint(exact, masked)


def _last_shown(line: str) -> str:
    """Return what a terminal shows of a line whose progress was drawn over with carriage returns."""
    return line.rstrip("\r").rpartition("\r")[2]


def _signature(lines: list[str]) -> list[str]:
    """Return the lines that say what went wrong: the last exception, else the first ones that look like an error."""
    said = [line for line in lines if line and not GENERIC.match(line)]
    exceptions = [line for line in said if EXCEPTION.match(line)]
    if exceptions:
        return exceptions[-1:]
    telling = [line for line in said if SIGNAL.search(line)]
    return (telling or said)[:SIGNATURE_LINES]


def _unwrapped(line: str) -> str:
    for _ in range(4):  # wrappers nest, and each round must shorten the line
        for wrapper in WRAPPERS:
            inner = wrapper.sub("", line, count=1)
            if inner and inner != line:
                line = inner
                break
        else:
            return line
    return line


def _masked(line: str) -> str:
    for pattern, replacement in MASKS:
        line = pattern.sub(replacement, line)
    line = SHELL_NAME.sub("", line)
    named = NOT_FOUND.match(line)
    if named:
        return f"command not found: {named[1] or named[2]}"
    return NUMBER.sub(_number, line)


def _number(match: re.Match[str]) -> str:
    before = match.string[max(0, match.start() - 24) : match.start()]
    meaning = KEPT_NUMBER.search(before) and len(match[0]) <= 5
    return match[0] if meaning or BESIDE_VERSION.search(before) else "<n>"
