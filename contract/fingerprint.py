"""`fp_v1`: what a diagnostic text says once ids, times, paths and counters are taken out. Pure, stateless, linear.

Two forms: `exact` keeps quoted names (a module, a column, a flag, a command: they separate situations), `masked`
replaces them and serves statistics. The version is part of every key made from a fingerprint; a new version never
rewrites old keys. It lives here because the kernel keys situations by it and Observation reports it. (Seed 001 §9.2.)
"""

import re
import unicodedata
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from contract.masks import mask_line
from contract.signature import signature, unwrap

VERSION: Final = "fp_v1"
INPUT_LIMIT: Final = 8_192  # code points read
LINE_LIMIT: Final = 240  # code points kept of one line, after masking
SIGNATURE_LINES: Final = 3
MASKED_LIMIT: Final = 720  # code points masked in search of three different lines; a line begun is finished


@dataclass(frozen=True, slots=True)
class Fingerprint:
    """The signature of a diagnostic text: with quoted names, and with them masked."""

    exact: str
    masked: str


_SHELLS: Final = "(?:ba|z|da|k|fi|c|tc)?sh"
_SHELL: Final = re.compile(
    rf"(?:\S{{0,200}}/|-)?{_SHELLS}(?:\.exe)?(?:: line \d{{1,6}}|: \d{{1,6}}|:\d{{1,6}})?: "
    r"|\S{1,200}\.(?:sh|bash|zsh|fish)(?::? line \d{1,6}|:\d{1,6})?: |sudo: "
)
_NOT_FOUND: Final = re.compile(
    r"[Cc]ommand not found: (?P<a>\S{1,80})|(?P<b>\S{1,80}): [Cc]ommand not found\.?|(?P<e>\S{1,80}): not found|"
    r"[Uu]nknown command:? ['\"]?(?P<c>[^\s'\"]{1,80})['\"]?"
    r"|['\"]?(?P<d>[^\s'\"]{1,80})['\"]? is not recogni[sz]ed as an internal or external command.*"
)
_BY_A_SHELL_ONLY: Final = ("c", "e")  # forms that others use as well, so that a shell must be named

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
    found: dict[str, None] = {}
    masked = 0
    for line in signature(text[:INPUT_LIMIT]):
        # Composing costs the square of a run of combining marks: only what is kept is composed.
        found.setdefault(_exact(line if line.isascii() else unicodedata.normalize("NFC", line)))
        masked += len(line)
        if masked > MASKED_LIMIT or len(found) - ("" in found) == SIGNATURE_LINES:
            break
    exact = [line for line in found if line]
    return Fingerprint("\n".join(exact), "\n".join(_distinct(map(_mask_names, exact))))


def _distinct(lines: Iterable[str]) -> Iterable[str]:
    return dict.fromkeys(line for line in lines if line)


def _exact(line: str) -> str:
    """Return one signature line unwrapped, in its shell-independent form, and masked."""
    inner = unwrap(line) or line
    prefix = _SHELL.match(inner)
    inner = inner[prefix.end() :] if prefix else inner
    missing = _NOT_FOUND.fullmatch(inner)
    if missing and (prefix or missing.lastgroup not in _BY_A_SHELL_ONLY):
        return f"command not found: {missing[str(missing.lastgroup)]}"[:LINE_LIMIT]
    return " ".join(mask_line(inner).split())[:LINE_LIMIT].strip()


def _mask_names(line: str) -> str:
    line = _QUOTED.sub("<name>", line)
    for pattern, replacement in _NAMED:
        line = pattern.sub(replacement, line)
    return line
