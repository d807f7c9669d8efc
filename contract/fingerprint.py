"""`fp_v1`: what a diagnostic text says once ids, times, paths and counters are taken out. Pure, stateless, linear.

Two forms: `exact` keeps quoted names (a module, a column, a flag, a command: they separate situations), `masked`
replaces them and serves statistics. The version is part of every key made from a fingerprint; a new version never
rewrites old keys. It lives here because the kernel keys situations by it and Observation reports it. (Seed 001 §9.2.)
"""

import re
import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from contract.masks import mask_line

VERSION: Final = "fp_v1"
INPUT_LIMIT: Final = 8_192  # code points read
READ_LIMIT: Final = (
    1_000  # code points masked of one line: more than is kept, so that a long path cannot push the rest out
)
LINE_LIMIT: Final = 240  # code points kept of one line, after masking
SIGNATURE_LINES: Final = 3
_LINES_TRIED: Final = 12


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The signature of a diagnostic text: with quoted names, and with them masked."""

    exact: str
    masked: str


_ESCAPES: Final = re.compile(
    r"\x1b\][^\x07\x1b]{0,500}+(?:\x07|\x1b\\)?|\x1b\[[0-?]{0,32}+[ -/]{0,8}+[@-~]?|\x1b[@-Z\\-_]?|"
    r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]"
)
_SPACE: Final = re.compile(r"\s+")
_STREAM: Final = re.compile(r"(?i)[-=\[( ]{0,8}(?P<name>stderr|stdout)(?: output)?[\])]?\s?[-=: ]{0,8}$")
_STREAM_PREFIX: Final = re.compile(r"(?i)^(?:stderr|stdout|std_err|std_out): ?")

_CLASS: Final = r"(?:[A-Za-z_][\w$]{0,60}[.:]{1,2}){0,8}[A-Za-z_][\w$]{0,60}"
_TRACEBACK: Final = re.compile(r"Traceback \(most recent call last\):?$")
_EXCEPTION: Final = re.compile(
    r"(?:Caused by: |Exception in thread \"[^\"]{0,80}\" |Uncaught (?:exception: )?|Unhandled exception[.:] )?"
    rf"{_CLASS}(?<=Error|ption|Fault|rrupt|eptio)(?: \[\w{{1,40}}\])?(?::|$)"
)
_RAISED: Final = re.compile(rf"{_CLASS}(?:: .*)?$")
_SIGNAL: Final = re.compile(
    r"(?i:error|fatal|fail(?:ed|ure)|denied|refused|cannot|can't|could not|couldn't|unable|not found|no such|"
    r"panic|invalid|"
    r"exception|unknown|unrecogni[sz]ed|missing|timed? ?out|not a |(?<![\w\-])abort|unexpected|already|"
    r"does not exist|rejected|"
    r"permission|unauthori[sz]ed|forbidden|conflict|out of memory|killed|segmentation|not (?:defined|installed|"
    r"permitted|allowed))"
    r"|(?<![\w.])(?:[A-Z]{1,6}-?\d{3,6}|E[A-Z]{4,14})(?!\w)"
)
_GENERIC: Final = re.compile(
    r"(?i)(?:see .{0,200}--help.{0,200}|(?:try|run) .{0,200}(?:--?help|--stacktrace|--verbose|--info|"
    r"--debug)\b.{0,200}|usage: .*|"
    r"for more (?:information|details).*|to learn more.*|(?:npm (?:err!|"
    r"error) )?a complete log of this run can be found in.*|"
    r"npm (?:err!|error) .{0,80}\.log|npm (?:err!|error)|note: (?:this is an issue with the package|"
    r"run with `?rust_backtrace).*|"
    r"during handling of the above exception.*|the above exception was the direct cause.*|"
    r"full log(?:file)? .*|log(?:s| file)? (?:written|saved|available) .*|error: ?|failure: ?|[\^~|+\-=*_ ]{1,200}|"
    r"(?:npm (?:err!|error) )?if you (?:need help|think).*|did you mean.*|hint: .*)"
)
# A wrapper says that something failed; what failed stands inside it or on the next lines.
_COMMAND_FAILED: Final = re.compile(
    r"(?i)(?:error: )?(?:the )?(?:sub)?(?:command|cmd|process|script|shell command)\b.{0,400}?"
    r"(?:exited|returned|failed|terminated|finished|died)(?: with)?(?: a)?(?: non-?zero)?(?: exit)? ?(?:code|"
    r"status|signal)?:? ?"
    r"(?:-?\d{1,10}|SIG[A-Z]{2,9})?[.:;]?(?: |$)"
)
_ONLY_COMMAND: Final = re.compile(r"(?i)(?:error: )?command failed(?: with exit code \d{1,5})?: .*")
_WRAPPERS: Final = (
    re.compile(rf"(?:{_CLASS}\.)?(?:ActivityError|ApplicationError|ChildWorkflowError|WorkflowFailureError|"
               rf"ToolError|ToolException|"
               r"McpError|CalledProcessError|ExecException|ExecutionException|CompletionException|"
               r"InvocationTargetException): "),
    re.compile(rf"(?:RuntimeError|Error|Exception|Caused by|Uncaught|"
               rf"UnhandledPromiseRejection): (?={_CLASS}(?:Error|Exception)\b)"),
    re.compile(r"(?i)(?:error (?:executing|calling|running) tool [\"'`]?[\w.\-]{1,80}[\"'`]?|tool (?:execution|"
               r"call) (?:failed|error)|"
               r"mcp error -?\d{1,6}|unhandled errors? in a taskgroup[^:]{0,40}): "),
    re.compile(r"(?:Caused by: |Uncaught (?:exception: )?|Unhandled exception[.:] |"
               r"Exception in thread \"[^\"]{0,80}\" |E (?=[A-Z]\w{0,60}(?:Error|Exception)\b))"),
)  # fmt: skip
_SHELLS: Final = "(?:ba|z|da|k|fi|c|tc)?sh"
_SHELL: Final = re.compile(
    rf"(?:\S{{0,200}}/|-)?{_SHELLS}(?:\.exe)?(?:: line \d{{1,6}}|: \d{{1,6}}|:\d{{1,6}})?: "
    r"|\S{1,200}\.(?:sh|bash|zsh|fish)(?::? line \d{1,6}|:\d{1,6})?: |sudo: "
)
_NOT_FOUND: Final = re.compile(
    r"command not found: (?P<a>\S{1,80})|(?P<b>\S{1,80}): (?:command )?not found|"
    r"[Uu]nknown command:? ['\"]?(?P<c>[^\s'\"]{1,80})['\"]?"
    r"|['\"]?(?P<d>[^\s'\"]{1,80})['\"]? is not recogni[sz]ed as an internal or external command.*"
)

_QUOTED: Final = re.compile(
    r"(?<!\w)'[^'\n]{1,200}'(?!\w)|\"[^\"\n]{1,200}\"|`[^`'\n]{1,200}[`']|‘[^’\n]{1,200}’|“[^”\n]{1,200}”|"
    r"«[^»\n]{1,200}»"
)
_ERRNO: Final = (
    r"No such file or directory|Is a directory|Not a directory|Permission denied|File exists|Directory not empty|"
    r"Operation not permitted|Read-only file system|Too many levels of symbolic links|command not found|"
    r"Device not found"
)
_NAMED: Final = (
    (re.compile(r"^command not found: .*"), "command not found: <name>"),
    (re.compile(rf"^(?P<tool>[\w.+\-]{{1,40}}): .{{1,200}}: (?P<what>{_ERRNO})$"), r"\g<tool>: <name>: \g<what>"),
    (re.compile(r"(?i)(?P<said>no module named|cannot find module|unknown (?:option|command|flag|argument|operation):?|"
                r"unrecogni[sz]ed (?:option|arguments?|command):?|invalid (?:option|operation):?|"
                r"no such (?:table|column|option|command|service):?|"
                r"unable to locate package|target not found:|not found:|"
                r"pathspec) (?!<name>)[^\s'\"]{1,80}"), r"\g<said> <name>"),
    (re.compile(r"(?<![\w.\-])--?[A-Za-z][\w\-]{1,60}(?:=\S{1,80})?"), "<flag>"),
    (re.compile(r"(?<![\w/.\-])[\w./\-]{1,120}\.(?:py|pyc|js|mjs|cjs|ts|tsx|jsx|rs|go|c|cc|cpp|h|hpp|java|kt|rb|"
                r"php|sh|pl|lua|json|ya?ml|toml|"
                r"ini|cfg|txt|md|lock|sql|html|css|so|log|csv|xml)(?![\w])"), "<file>"),
)  # fmt: skip


def fingerprint(text: str) -> Fingerprint:
    """Return the fingerprint of a diagnostic text of any origin; an empty text has an empty one.

    At most the first 8,192 code points are read and three lines kept. Every pattern has bounded repetition.
    """
    cleaned = _ESCAPES.sub("", unicodedata.normalize("NFC", text[:INPUT_LIMIT]).replace("\r\n", "\n"))
    lines = [line.rstrip("\r").rpartition("\r")[2].rstrip() for line in cleaned.split("\n")]
    exact = "\n".join(_distinct(map(_exact, _signature(_stderr_first(lines)))))
    return Fingerprint(exact, "\n".join(_distinct(map(_mask_names, exact.split("\n")))))


def _distinct(lines: Iterable[str]) -> list[str]:
    """Return the first three different lines that say something."""
    found: dict[str, None] = {}
    for line in lines:
        if line and len(found) < SIGNATURE_LINES:
            found.setdefault(line)
    return list(found)


def _stderr_first(lines: list[str]) -> list[str]:
    """Return the lines of the sections headed stderr ahead of all others; the headings go."""
    first: list[str] = []
    rest: list[str] = []
    section = rest
    for line in lines:
        heading = _STREAM.match(line)
        if heading:
            section = first if heading["name"].lower() == "stderr" else rest
        else:
            section.append(_STREAM_PREFIX.sub("", line))
    return first + rest


def _signature(lines: list[str]) -> Iterator[str]:
    """Yield the lines that say what went wrong, best first.

    That is the last exception of a traceback; when it only wraps a failed command, or there is none, the lines
    that look like an error; when no line does, the first lines.
    """
    distinct = dict.fromkeys(_SPACE.sub(" ", line).strip() for line in lines)
    said = [line for line in distinct if line and not _GENERIC.fullmatch(line)]
    raised = _last_exception(lines)
    if raised and not _is_wrapper(raised[0]):
        yield from raised
        return
    traced = set(_traced(lines))
    telling = [line for line in said if _SIGNAL.search(line[:READ_LIMIT]) and line not in traced]
    inner = [line for line in telling if not _is_wrapper(line)]
    yield from (inner or telling or raised or said or [line.strip() for line in lines])[:_LINES_TRIED]


def _last_exception(lines: list[str]) -> list[str]:
    """Return the last exception line, with the line that completes it when it says nothing alone."""
    at = -1
    in_traceback = False
    for index, line in enumerate(lines):
        shown = line.strip()
        if _TRACEBACK.search(shown):
            in_traceback = True
        elif in_traceback and shown and not line.startswith((" ", "\t", "|")):
            at, in_traceback = (index, False) if _RAISED.match(shown[:READ_LIMIT]) else (at, False)
        elif _EXCEPTION.match(_exception_text(shown)) and not shown.startswith("at "):
            at = index
    if at < 0:
        return []
    shown = _SPACE.sub(" ", lines[at]).strip()
    beside = lines[at + 1 : at + 3] if shown.endswith(":") or "validation error" in shown else []
    if ":" not in shown and at > 0:
        beside = lines[at - 1 : at]
    return [shown, *(line for line in (_SPACE.sub(" ", more).strip() for more in beside) if line)]


def _exception_text(shown: str) -> str:
    return shown[:READ_LIMIT].removeprefix("E").lstrip() if shown.startswith("E  ") else shown[:READ_LIMIT]


def _traced(lines: list[str]) -> Iterator[str]:
    """Yield the lines inside tracebacks: code and places, not what went wrong."""
    inside = False
    for line in lines:
        shown = _SPACE.sub(" ", line).strip()
        if _TRACEBACK.search(shown):
            inside = True
            yield shown
        elif inside and line.startswith((" ", "\t", "|")):
            yield shown
        else:
            inside = False


def _is_wrapper(line: str) -> bool:
    """Say whether `line` only reports that a command failed, with nothing inside."""
    return not _unwrap(line[:READ_LIMIT])


def _unwrap(line: str) -> str:
    """Return the innermost text of nested wrappers, or "" when there is nothing inside."""
    for _ in range(6):
        if _ONLY_COMMAND.fullmatch(line):
            return ""
        for wrapper in (*_WRAPPERS, _COMMAND_FAILED):
            found = wrapper.match(line)
            if found and found.end() > 0:
                line = line[found.end() :].strip()
                break
        else:
            return line
    return line


def _exact(line: str) -> str:
    """Return one signature line unwrapped, in its shell-independent form, and masked."""
    inner = _unwrap(line[:READ_LIMIT]) or line[:READ_LIMIT]
    prefix = _SHELL.match(inner)
    missing = _NOT_FOUND.fullmatch(inner[prefix.end() :] if prefix else inner)
    if missing and (prefix or not missing["c"]):
        return f"command not found: {missing['a'] or missing['b'] or missing['c'] or missing['d']}"[:LINE_LIMIT]
    return _SPACE.sub(" ", mask_line(inner[prefix.end() :] if prefix else inner)).strip()[:LINE_LIMIT].strip()


def _mask_names(line: str) -> str:
    line = _QUOTED.sub("<name>", line)
    for pattern, replacement in _NAMED:
        line = pattern.sub(replacement, line)
    return line
