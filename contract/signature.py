"""Which lines of a diagnostic text say what went wrong: stderr before stdout, the last exception, lines that tell.

Generic headings are passed over and wrappers opened. Only as many lines are looked at as a signature needs, and every
pattern is tried on lines of bounded length. (Seed 001 §9.2.)
"""

import re
from collections.abc import Iterator
from typing import Final

READ_LIMIT: Final = (
    480  # code points read of one line: more than is kept, so that a long path does not push the rest out
)
LINES_READ: Final = 400  # lines with something in them; 8 KB of real output hold fewer
_LINES_TRIED: Final = 12
_WRAPPERS_TRIED: Final = 40

_CONTROL: Final = re.compile(r"[\x00-\x08\x0b\x0c\x0e-\x1f\x7f]")
_ESCAPES: Final = re.compile(
    r"(?:\x1b\][^\x07\x1b]{0,500}+(?:\x07|\x1b\\)?|\x1b\[[0-?]{0,32}+[ -/]{0,8}+[@-~]?|\x1b[@-Z\\-_]?|"
    r"[\x00-\x08\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f])++"
)
_HEADING: Final = re.compile(r"(?i)[-=\[( ]{0,8}(?P<name>stderr|stdout)(?: output)?[\])]?\s?[-=: ]{0,8}$")
_PREFIX: Final = re.compile(r"(?i)(?P<name>std_?err|std_?out): ?")

CLASS: Final = r"(?:[A-Za-z_][\w$]{0,60}[.:]{1,2}){0,8}[A-Za-z_][\w$]{0,60}"
_TRACEBACK: Final = "Traceback (most recent call last)"
_EXCEPTION: Final = re.compile(
    r"(?:Caused by: |Exception in thread \"[^\"]{0,80}\" |Uncaught (?:exception: )?|Unhandled exception[.:] )?"
    rf"{CLASS}(?<=Error|ption|Fault|rrupt)(?: \[\w{{1,40}}\])?(?::|$)"
)
_EXCEPTION_ENDS: Final = ("Error", "ption", "Fault", "rrupt")
_RAISED: Final = re.compile(rf"{CLASS}(?:: .*)?$")
_WORDS: Final = (
    "error", "fatal", "failed", "failure", "denied", "refused", "cannot", "can't", "could not", "couldn't", "unable",
    "not found", "no such", "panic", "invalid", "exception", "unknown", "unrecognized", "unrecognised", "missing",
    "timeout", "time out", "timed out", "timedout", "not a ", "unexpected", "already", "does not exist",
    "rejected", "permission", "unauthorized", "unauthorised", "forbidden", "conflict", "out of memory", "killed",
    "segmentation", "not defined", "not installed", "not permitted", "not allowed",
)  # fmt: skip
# An error code, or an abort that is no --abort. The boundary is looked at behind the first letter, so that the search
# can jump from letter to letter.
_CODE: Final = re.compile(
    r"[A-Za](?<![\w.\-].)(?:(?<=[A-Z])(?:[A-Z]{0,5}-?\d{3,6}|(?<=E)[A-Z]{4,14})(?!\w)|(?<=[Aa])bort|(?<=A)BORT)"
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
    re.compile(rf"(?:{CLASS}\.)?(?:ActivityError|ApplicationError|ChildWorkflowError|WorkflowFailureError|"
               rf"ToolError|ToolException|"
               r"McpError|CalledProcessError|ExecException|ExecutionException|CompletionException|"
               r"InvocationTargetException): "),
    re.compile(rf"(?:RuntimeError|Error|Exception|Caused by|Uncaught|"
               rf"UnhandledPromiseRejection): (?={CLASS}(?:Error|Exception)\b)"),
    re.compile(r"(?i)(?:error (?:executing|calling|running) tool [\"'`]?[\w.\-]{1,80}[\"'`]?|tool (?:execution|"
               r"call) (?:failed|error)|"
               r"mcp error -?\d{1,6}|unhandled errors? in a taskgroup[^:]{0,40}): "),
    re.compile(r"(?:Caused by: |Uncaught (?:exception: )?|Unhandled exception[.:] |"
               r"Exception in thread \"[^\"]{0,80}\" |E (?=[A-Z]\w{0,60}(?:Error|Exception)\b))"),
)  # fmt: skip


def signature(text: str) -> Iterator[str]:
    """Yield the lines that say what went wrong, best first, each with single spaces and at most 480 code points.

    That is the last exception; when it only wraps a failed command, or there is none, the lines that look like an
    error; when no line does, the first lines.
    """
    errors, rest = _streams(_lines(text))
    lines = errors + rest
    raised = _last_exception(errors) or _last_exception(rest)
    if raised and not _is_wrapper(raised[0]):
        yield from raised
        return
    traced = dict.fromkeys(_traced(lines))
    plain = dict.fromkeys(one for one in map(_spaced, lines) if one not in traced)
    telling = _telling(plain)
    inner = [line for line in telling if not _is_wrapper(line)][:_LINES_TRIED]
    yield from inner or telling or raised or _not_generic(plain) or dict.fromkeys(map(_spaced, lines))


def plain(text: str) -> str:
    """Return a text without what drives a terminal: colours, titles, control characters but for tabs and line ends."""
    return _ESCAPES.sub("", text) if _CONTROL.search(text) else text


def _lines(text: str) -> list[str]:
    """Return the lines that hold something: without escapes, the last state of each progress line."""
    text = plain(text)
    if "\r" in text:
        lines = [line.rstrip("\r").rpartition("\r")[2] for line in text.replace("\r\n", "\n").split("\n")]
    else:
        lines = text.split("\n")
    return [line for line in lines if line and not line.isspace()][:LINES_READ]


def _spaced(line: str) -> str:
    return " ".join(line[: 2 * READ_LIMIT].split())[:READ_LIMIT]


def _streams(lines: list[str]) -> tuple[list[str], list[str]]:
    """Return the lines of the sections headed stderr, and all others; the headings go."""
    errors: list[str] = []
    rest: list[str] = []
    section = rest
    for line in lines:
        if "std" in line or "STD" in line or "Std" in line:
            heading = _HEADING.match(line)
            found = heading or _PREFIX.match(line)
            if found:
                section = errors if found["name"].lower().endswith("err") else rest
                line = "" if heading else line[found.end() :]
        if line:
            section.append(line)
    return errors, rest


def _last_exception(lines: list[str]) -> list[str]:
    """Return the last exception line, with the line that completes it when it says nothing alone."""
    at = -1
    frames = -1  # lines of the traceback that is being read
    for index, line in enumerate(lines):
        if _TRACEBACK in line:
            frames = 0
        elif frames >= 0 and line.startswith((" ", "\t", "|")):
            frames += 1
        elif frames > 0:
            at, frames = (index if _RAISED.match(line[:READ_LIMIT].strip()) else at), -1
        elif _names_exception(line):
            at = index
    if at < 0:
        return []
    shown = _spaced(lines[at])
    beside = lines[at + 1 : at + 3] if "validation error" in shown else []
    if shown.endswith(":"):
        beside = lines[at + 1 : at + 2]
    if ":" not in shown and at > 0 and lines[at - 1].startswith((" ", "\t")):
        beside = lines[at - 1 : at]
    return [shown, *map(_spaced, beside)]


def _names_exception(line: str) -> bool:
    for end in _EXCEPTION_ENDS:
        if end in line:
            break
    else:
        return False
    shown = line[:READ_LIMIT].strip()
    shown = shown[1:].lstrip() if shown.startswith("E  ") else shown
    return not shown.startswith("at ") and _EXCEPTION.match(shown) is not None


def _traced(lines: list[str]) -> Iterator[str]:
    """Yield the lines inside tracebacks: code and places, not what went wrong."""
    inside = False
    for line in lines:
        if _TRACEBACK in line:
            inside = True
            yield _spaced(line)
        elif inside and line.startswith((" ", "\t", "|")):
            yield _spaced(line)
        else:
            inside = False


def _telling(lines: dict[str, None]) -> list[str]:
    """Return the first lines that look like an error and are no generic heading."""
    whole = "\n".join(lines).lower()
    words = [word for word in _WORDS if word in whole]
    found: list[str] = []
    for line in lines:
        if _tells(line, words) and not _GENERIC.fullmatch(line):
            found.append(line)
            if len(found) == _WRAPPERS_TRIED:
                break
    return found


def _tells(line: str, words: list[str]) -> bool:
    lowered = line.lower()
    for word in words:
        if word in lowered:
            return True
    return _CODE.search(line) is not None


def _not_generic(lines: dict[str, None]) -> list[str]:
    found: list[str] = []
    for line in lines:
        if not _GENERIC.fullmatch(line):
            found.append(line)
            if len(found) == _LINES_TRIED:
                break
    return found


def _is_wrapper(line: str) -> bool:
    """Say whether `line` only reports that a command failed, with nothing inside."""
    return not unwrap(line)


def unwrap(line: str) -> str:
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
