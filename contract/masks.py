"""What varies between two reports of one problem (ids, times, paths, counters), and the mark put in its place.

Applied to single lines of bounded length, in a fixed order: what is longer or more certain goes first. Numbers that
carry meaning (HTTP status, exit code, errno, SQLSTATE, versions beside `==`) stay. (Seed 001 §9.2.)
"""

import re
from collections.abc import Callable
from typing import Final

Replacement = str | Callable[[re.Match[str]], str]

_HEX: Final = "[0-9a-fA-F]"
_MONTH: Final = "(?:Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec)[a-z]{0,6}"
_CLOCK: Final = r"\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
_ZONE: Final = r"(?: ?(?:Z|UTC|GMT)(?:[+-]\d{1,2})?| ?[+-]\d\d:?\d\d)?"
# One segment of a path: no space, no quote, nothing that ends a sentence's mention of a path.
_SEGMENT: Final = r"[^\s'\"`:;,()<>|*?/\\\[\]{}=‘’“”]"

_RANDOM: Final = re.compile(r"(?=[a-z_]{0,40}[0-9])(?=[0-9_]{0,40}[a-z])[a-z0-9_]{6,40}")
_TEMP: Final = re.compile(r"(?i)[/\\](?:tmp|temp|scratch)[/\\](?:[^/\\]{0,120}[/\\]){0,2}$")


def _url(found: re.Match[str]) -> str:
    """Keep the last path word of a URL: it says what was asked for; host, ids and query vary."""
    path = re.split(r"[?#]", found["rest"], maxsplit=1)[0]
    words = [part for part in path.split("/")[1:] if re.fullmatch(r"[A-Za-z][\w.\-]{0,60}", part) and not _random(part)]
    return f"<url>/{words[-1]}" if words else "<url>"


def _path(found: re.Match[str]) -> str:
    """Keep the base name of an absolute, home or parent path, unless it is a temporary name."""
    whole = found["path"].rstrip("/\\")
    folder, name = re.fullmatch(r"(.*[/\\])?(.*)", whole, re.DOTALL).groups("")  # type: ignore[union-attr]
    if not name:
        return found["path"]
    temporary = name.lower().startswith("tmp") or (_TEMP.search(folder) and "." not in name)
    return "<tmp>" if temporary or _random(name) else str(name)


def _random(name: str) -> bool:
    """Say whether a name looks drawn by lot: six or more characters with letters between digits."""
    stem = name.split(".", 1)[0]
    return _RANDOM.fullmatch(stem) is not None and re.search(r"[a-z][0-9]+[a-z]|[0-9][a-z]+[0-9]", stem) is not None


def _identifier(found: re.Match[str]) -> str:
    """Mask the value of an id key; a word without a digit is no id."""
    return f"{found['key']}{found['join']}<id>" if re.search(r"\d", found["value"]) else found[0]


MASKS: Final[tuple[tuple[re.Pattern[str], Replacement], ...]] = (
    (re.compile(r"\[REDACTED:[a-z_]{1,40}\]"), "<secret>"),
    (re.compile(r"[█▇▆▅▄▃▂▁▉▊▋▌▍▎▏░▒▓━╸╺⠁-⣿]{1,400}+|\[[=#>.\- ]{3,120}\]"), ""),
    (re.compile(r"(?<![A-Za-z0-9+.\-])[a-z][a-z0-9+.\-]{1,20}+://(?P<rest>[^\s'\"<>`)\]},;]{1,800}+)(?<![.:])"), _url),
    (re.compile(r"(?<![\w.\-])[\w.\-]{1,40}@[\w.\-]{1,80}:(?P<rest>(?!\d)[\w.\-~/]{1,200})"), _url),
    (re.compile(r"(?<![\w.+\-])[\w.+\-]{1,64}@[\w\-]{1,63}(?:\.[\w\-]{1,63}){1,5}+"), "<email>"),
    (re.compile(rf"(?<!\w){_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}(?!\w)"), "<uuid>"),
    (re.compile(rf"(?<!\w)(?:{_HEX}{{2}}-{_HEX}{{32}}-{_HEX}{{16}}-{_HEX}{{2}}|"
                rf"1-{_HEX}{{8}}-{_HEX}{{24}})(?!\w)"), "<trace>"),
    (re.compile(r"(?<!\w)(?:req|chatcmpl|msg|run|call|evt|ch|cus|"
                r"pi)_?-?(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{14,64}(?!\w)"), "<id>"),
    (re.compile(r"(?<![\w.])\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?(?::\d{1,5})?(?![\w.]\d)"), "<ip>"),
    (re.compile(rf"\[?(?<![\w:])(?={_HEX}{{0,4}}:)(?=[^\s\]]{{0,38}}\d)(?:(?:{_HEX}{{1,4}}:){{4,7}}{_HEX}{{1,4}}"
                rf"|(?:{_HEX}{{1,4}}:){{0,6}}:(?:{_HEX}{{1,4}}:){{0,5}}{_HEX}{{1,4}})(?![\w:(])(?:\]:\d{{1,5}}|\])?"),
     "<ip>"),
    (re.compile(rf"(?<!\d)\d{{4}}[-/]\d\d[-/]\d\d(?:[T ,]{{1,2}}{_CLOCK}{_ZONE})?(?!\d)|"
                rf"(?<!\d)\d{{8}}T\d{{6}}Z?(?!\w)"), "<time>"),
    (re.compile(rf"\d{{1,2}}[ /-]{_MONTH}[ /-]\d{{4}}(?:[ :]{_CLOCK}{_ZONE})?|{_MONTH} {{1,2}}\d{{1,2}}(?:, \d{{4}})?,?"
                rf"(?: {_CLOCK}{_ZONE}(?: \d{{4}})?)?(?!\w)"), "<time>"),
    (re.compile(rf"(?<![\d:])\d{{1,2}}:\d\d:\d\d(?:[.,]\d{{1,9}})?{_ZONE}(?![\d:])"), "<time>"),
    (re.compile(r"(?<![\w.,])(?:\d{1,9}(?:[.,]\d{1,9})? ?(?:ns|us|µs|ms|s|secs?|seconds?|m|mins?|minutes?|h|"
                r"hours?|days?)(?!\w) ?){1,4}+"),
     "<duration> "),
    (re.compile(r"(?<![\w.,])\d{1,12}(?:[.,]\d{1,9})? ?(?:[KMGTkmgt](?:i?[Bb])?|bytes?|[Bb])(?:/s)?(?!\w)"), "<size>"),
    (re.compile(r"(?<![\w.,])\d{1,3}(?:\.\d{1,3})? ?%"), "<n>%"),
    (re.compile(rf"(?<!\w)0[xX]{_HEX}{{1,40}}(?!\w)"), "<hex>"),
    (re.compile(r"(?<!\w)[0-9a-f]{7,40}\.{2,3}[0-9a-f]{7,40}(?!\w)"), "<sha>..<sha>"),
    (re.compile(rf"(?i)(?<!\w)(?P<word>commit|sha|rev|revision|HEAD)(?P<join>[^\w]{{1,3}}(?:is now at |is at |at )?)"
                rf"(?=[a-f]{{0,40}}\d|{_HEX}{{40}}){_HEX}{{7,64}}(?!\w)"), r"\g<word>\g<join><sha>"),
    (re.compile(rf"(?<!\w)(?:sha256:|sha512:|"
                rf"md5:)?(?=[a-fA-F]{{0,128}}\d)(?=\d{{0,128}}[a-fA-F]){_HEX}{{12,128}}(?!\w)"), "<hex>"),
    (re.compile(r"(?i)(?<![\w.\-])(?P<key>[\w.\-]{0,40}?(?:_id|(?<![a-z])id|token|"
                r"Id))(?P<join>[\"']? ?[=:] ?[\"']?)(?P<value>[\w\-]{2,128}+)"),
     _identifier),
    (re.compile(rf"(?<![\w.<>:/\\~])(?P<path>(?:~|\.{{2,3}}|"
                rf"[A-Za-z]:(?=[\\/]))?(?:[/\\]{{1,2}}{_SEGMENT}{{1,120}}+){{1,40}}+[/\\]?)"), _path),
    (re.compile(r"(?<![A-Za-z0-9+/=])(?=[A-Za-z+/]{0,400}\d)(?=[0-9a-z+/]{0,400}[A-Z])(?=[0-9A-Z+/]{0,400}[a-z])"
                r"[A-Za-z0-9+/]{28,1000}+={0,2}"), "<base64>"),
    (re.compile(r"(?i)(?P<word>(?:worker|thread|pool|process|proc|job|task|shard|node|pod|"
                r"attempt|conn|session|build|step|run))"
                r"(?P<join>[-_#])\d{1,12}(?!\w)"), r"\g<word>\g<join><n>"),
)  # fmt: skip

_NUMBER: Final = re.compile(r"(?<![\w.])-?\d{1,3}(?:,\d{3})+(?![\w,])|(?<![\w.])[-+]?\d++(?:\.\d++)*+(?!\w)")
# A dash before digits belongs to a name when letters stand before it: utf-8, ORA-00942.
_NAME_BEFORE: Final = re.compile(r"(?P<name>[A-Za-z]+)(?:-\d+)?-$")
_MEANING: Final = re.compile(
    r"(?i)(?:http(?:/\d(?:\.\d)?)?|status(?:[ _]?code)?|statuscode|exit(?:ed)?(?:[ _](?:code|status))?|"
    r"exited with|code|rc|"
    r"sig(?:nal)?|errno|winerror|sqlstate|returned|error|err|Error: \()[ :=(\[#]{0,3}$"
)
_STATUS_PHRASE: Final = re.compile(
    r" (?:OK|Created|Client Error|Server Error|Bad Request|Unauthorized|Forbidden|Not Found|Method Not|Conflict|Gone|"
    r"Payload|Unprocessable|Too Many|Internal Server|Not Implemented|Bad Gateway|Service Unavailable|Gateway Time)"
)
_VERSION: Final = re.compile(r"(?i)(?:[=<>~!]=[ ]?|[<>~^@]|\bversion[ :=]{1,2}|\bpython[ -]?)$")


def mask_line(line: str) -> str:
    """Return `line` with marks such as `<uuid>` and `<n>` for what varies; a path leaves its base name."""
    for pattern, replacement in MASKS:
        line = pattern.sub(replacement, line)
    return _NUMBER.sub(_number, line)


def _number(found: re.Match[str]) -> str:
    text, start = found.string, found.start()
    before = text[max(0, start - 24) : start]
    digits = found[0].lstrip("+-")
    name = _NAME_BEFORE.search(before)
    if name:
        return found[0] if len(digits) < 4 or name["name"].isupper() or name["name"].lower() == "iso" else "<n>"
    if _MEANING.search(before) and len(digits) <= 5:
        return found[0]
    if len(digits) == 3 and _STATUS_PHRASE.match(text, found.end()):
        return found[0]
    beside = _VERSION.search(before)
    return found[0] if beside and (not beside[0].endswith(" ") or "." in digits) else "<n>"
