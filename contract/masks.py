"""What varies between two reports of one problem (ids, times, paths, counters), and the mark put in its place.

Applied to single lines of bounded length, in a fixed order: what is longer or more certain goes first. A pattern runs
only on a line that holds what it cannot match without. Numbers are `contract.numbers`. (Seed 001 §9.2.)
"""

import re
from collections.abc import Callable
from typing import Final

from contract.numbers import mask_numbers

Replacement = str | Callable[[re.Match[str]], str]

_HEX: Final = "[0-9a-fA-F]"
_UUID: Final = rf"{_HEX}{{8}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{4}}-{_HEX}{{12}}"
_MONTH: Final = (
    "(?:Jan(?:uary)?|Feb(?:ruary)?|Mar(?:ch)?|Apr(?:il)?|May|June?|July?|Aug(?:ust)?|Sep(?:t(?:ember)?)?|"
    "Oct(?:ober)?|Nov(?:ember)?|Dec(?:ember)?)"
)
_DAY: Final = "(?:(?:Mon|Tue(?:s)?|Wed(?:nes)?|Thu(?:rs)?|Fri|Sat(?:ur)?|Sun)(?:day)?,? )?"
_CLOCK: Final = r"\d\d:\d\d(?::\d\d(?:[.,]\d{1,9})?)?"
_ZONE: Final = r"(?: ?(?:Z|UTC|GMT|[ECMP][SD]T|[CEW]ES?T|MSK|BST|IST|JST)(?:[+-]\d{1,2})?(?!\w)| ?[+-]\d\d:?\d\d)?"
_HALF: Final = r"(?: ?[AaPp]\.?[Mm]\b\.?)"
_AMOUNT: Final = r"\d{1,9}(?:[.,]\d{1,9})?"
# One segment of a path: no space, no quote, nothing that ends a sentence's mention of a path.
_SEGMENT: Final = r"[^\s'\"`:;,()<>|*?/\\\[\]{}=‘’“”]"

_LOTS: Final = re.compile(r"[A-Za-z0-9_]{6,40}")
_TURNS: Final = re.compile(r"(?<=[0-9])[A-Za-z]|(?<=[A-Za-z])[0-9]")
_TEMP_NAME: Final = re.compile(
    r"(?:tmp(?:[a-z0-9_]{8}|\.[A-Za-z0-9]{6,12}|[._-]?(?=[a-z_]{0,12}\d)[a-z0-9_]{5,12}))(?:\.\w{1,6})?"
)
_TEMP_FOLDER: Final = re.compile(r"(?i)[/\\](?:tmp|temp|scratch)[/\\]$")
_DIGIT: Final = re.compile(r"\d")
_ID: Final = re.compile(r"[\d<]")
_URL_WORD: Final = re.compile(r"[A-Za-z][\w.\-]{0,60}")
_URL_ID: Final = re.compile(rf"{_UUID}|(?=[a-fA-F]{{0,64}}\d){_HEX}{{7,64}}|[\w.\-]*?\d{{4}}[\w.\-]*+")


def _url(found: re.Match[str]) -> str:
    """Keep the last path word of a URL: it says what was asked for; host, ids, query and line numbers vary."""
    for part in reversed(found["rest"].partition("?")[0].partition("#")[0].split("/")[1:]):
        word = part.partition(":")[0]
        if _URL_WORD.fullmatch(word) and not _random(word) and not _URL_ID.fullmatch(word):
            return f"<url>/{word}"
    return "<url>"


def _path(found: re.Match[str]) -> str:
    """Keep the base name of an absolute, home or parent path, unless it was drawn by lot."""
    whole = found["path"].rstrip("/\\")
    at = max(whole.rfind("/"), whole.rfind("\\")) + 1
    name = whole[at:]
    if not name:
        return found["path"]
    if name.startswith("tmp") and _TEMP_NAME.fullmatch(name):
        return "<tmp>"
    if not _DIGIT.search(name):
        return name
    return "<tmp>" if _random(name) or ("." not in name and _TEMP_FOLDER.search(whole[:at])) else name


def _random(name: str) -> bool:
    """Say whether a name looks drawn by lot: letters and digits take turns three times or more (md5sum: twice)."""
    stem = name.partition(".")[0]
    return _LOTS.fullmatch(stem) is not None and len(_TURNS.findall(stem)) >= 3


def _identifier(found: re.Match[str]) -> str:
    """Mask the value of an id key; a word without a digit is no id."""
    return f"{found['key']}{found['join']}<id>" if _ID.search(found["value"]) else found[0]


_COUNTED: Final = ("worker", "thread", "pool", "process", "proc", "job", "task", "shard", "node", "pod", "attempt",
                   "conn", "session", "build", "step", "run")  # fmt: skip


def _counted(found: re.Match[str]) -> str:
    """Mask the number of one of many workers, jobs, attempts; any other name keeps its number."""
    before = found.string[max(0, found.start() - 8) : found.start()].lower()
    return f"{found['join']}<n>" if before.endswith(_COUNTED) else found[0]


def _has(*needles: str) -> Callable[[str], bool]:
    if len(needles) == 1:
        return lambda line: needles[0] in line
    return lambda line: any(needle in line for needle in needles)


def _has_many(needle: str, n: int) -> Callable[[str], bool]:
    return lambda line: line.count(needle) >= n


def _may_hold_date(line: str) -> bool:
    return "-" in line or "/" in line or "_" in line or "T" in line


def _has_a_long_word(line: str) -> bool:
    return _LONG_WORD.search(line) is not None


_MONTHS: Final = re.compile("Jan|Feb|Mar|Apr|May|Jun|Jul|Aug|Sep|Oct|Nov|Dec")
_LONG_WORD: Final = re.compile(r"[A-Za-z0-9+/]{12}")

# What a line must hold, what varies in it, the mark put there.
Mask = tuple[Callable[[str], bool], re.Pattern[str], Replacement]


def _mask(may_hold: Callable[[str], bool], pattern: str, replacement: Replacement) -> Mask:
    return may_hold, re.compile(pattern), replacement


# In any line.
_OPEN: Final[tuple[Mask, ...]] = (
    _mask(_has("[REDACTED:"), r"\[REDACTED:[a-z_]{1,40}\]", "<secret>"),
    _mask(_has("["), r"\[(?:[=#>.\-* ]{3,120}|[=#> ][=#>.\-* ]{0,2})\]", ""),
    _mask(lambda line: not line.isascii(), r"[█▇▆▅▄▃▂▁▉▊▋▌▍▎▏░▒▓━╸╺⠁-⣿]{1,400}+ {0,200}+", ""),
    _mask(_has("%|"), r"\d{1,3}%\|[^|]{0,200}\|", "<n>%"),
    _mask(
        _has("://"),
        r"(?<![A-Za-z0-9+.\-])[a-z][a-z0-9+.\-]{1,20}+://(?P<rest>[^\s'\"<>`)\]},;]{1,800}+)(?<![.:])",
        _url,
    ),
    _mask(_has("@"), r"(?<![\w.\-])[\w.\-]{1,40}@[\w.\-]{1,80}:(?P<rest>(?!\d)[\w.\-~/]{1,200})", _url),
    _mask(_has("@"), r"(?<![\w.+\-])[\w.+\-]{1,64}@[\w\-]{1,63}(?:\.[\w\-]{1,63}){1,5}+", "<email>"),
)
# In a line with a digit.
_VARYING: Final[tuple[Mask, ...]] = (
    _mask(_has_many("-", 4), rf"(?<!\w){_UUID}(?!\w)", "<uuid>"),
    _mask(
        _has_many("-", 2),
        rf"(?<!\w)(?:{_HEX}{{2}}-{_HEX}{{32}}-{_HEX}{{16}}-{_HEX}{{2}}|1-{_HEX}{{8}}-{_HEX}{{24}})(?!\w)",
        "<trace>",
    ),
    _mask(
        _has("req", "chatcmpl", "msg", "run", "call", "evt", "ch", "cus", "pi"),
        r"(?<!\w)(?:req|chatcmpl|msg|run|call|evt|ch|cus|pi)_?-?(?=[A-Za-z]{0,40}\d)[A-Za-z0-9]{14,64}(?!\w)",
        "<id>",
    ),
    # Four numbers beside == or >= are a version.
    _mask(
        _has_many(".", 3),
        r"(?<![\w.])(?<![=<>~!]=)(?<![=<>~!]= )\d{1,3}(?:\.\d{1,3}){3}(?:/\d{1,2})?(?::\d{1,5})?(?![\w.]\d)",
        "<ip>",
    ),
    _mask(
        _has_many(":", 2),
        rf"\[?(?<![\w:])(?={_HEX}{{0,4}}:)(?=[^\s\]]{{0,38}}\d)(?:(?:{_HEX}{{1,4}}:){{4,7}}{_HEX}{{1,4}}"
        rf"|(?:{_HEX}{{1,4}}:){{0,6}}:(?:{_HEX}{{1,4}}:){{0,5}}{_HEX}{{1,4}})(?![\w:(])(?:\]:\d{{1,5}}|\])?",
        "<ip>",
    ),
    _mask(
        _may_hold_date,
        rf"(?<!\d)\d{{4}}[-/]\d\d[-/]\d\d(?:[T ,]{{1,2}}{_CLOCK}{_ZONE}"
        r"|T\d\d[-_]\d\d[-_]\d\d(?:[._]\d{1,9})?Z?)?(?!\d)|(?<!\d)\d{8}[T_-]\d{6}Z?(?!\w)",
        "<time>",
    ),
    _mask(
        lambda line: _MONTHS.search(line) is not None,
        rf"{_DAY}(?<![A-Za-z\d])(?:\d{{1,2}}[ /-]{_MONTH}[ /-]\d{{4}}(?:[ :]{_CLOCK}{_HALF}?{_ZONE})?"
        rf"|{_MONTH} {{1,2}}\d{{1,2}}(?:, \d{{4}})?,?(?: {_CLOCK}{_HALF}?{_ZONE}(?: \d{{4}})?)?)(?!\w)",
        "<time>",
    ),
    _mask(
        _has(":"),
        rf"(?<![\d:])\d{{1,2}}:\d\d(?::\d\d(?:[.,]\d{{1,9}})?{_HALF}?{_ZONE}|{_HALF})(?![\d:])",
        "<time>",
    ),
    _mask(
        _has("h", "m", "s"),
        r"(?<![\w.,])(?<![A-Za-z]-)"
        rf"(?:(?:(?:\d{{1,4}}(?:d|h|m(?!s))){{1,3}}(?:{_AMOUNT}m?s)?|{_AMOUNT} ?(?:ns|us|µs|ms|s|secs?|"
        r"seconds?|m|mins?|minutes?|h|hours?|days?))(?!\w) ?){1,4}+",
        "<duration> ",
    ),
    _mask(
        _has("B", "b", "K", "k", "M", "m", "G", "g", "T", "t", "/s"),
        r"(?<![\w.,])(?<![A-Za-z]-)\d{1,12}(?:[.,]\d{1,9})? ?"
        r"(?:(?:[KMGTkmgt](?:i?[Bb])?|bytes?|[Bb])(?:/s)?|[A-Za-z]{1,12}/s(?:ec)?)(?!\w)",
        "<size>",
    ),
    _mask(_has("%"), r"(?<![\w.,])(?<![A-Za-z]-)\d{1,3}(?:\.\d{1,3})? ?%", "<n>%"),
    _mask(_has("0x", "0X"), rf"(?<!\w)0[xX]{_HEX}{{1,40}}(?!\w)", "<hex>"),
    _mask(
        _has_a_long_word,
        rf"(?<!\w)(?:sha256:|sha512:|md5:)?(?=[a-fA-F]{{0,128}}\d)(?=\d{{0,128}}[a-fA-F]){_HEX}{{12,128}}(?!\w|\.\.)",
        "<hex>",
    ),
    _mask(_has(".."), r"(?<!\w)[0-9a-f]{7,40}\.{2,3}[0-9a-f]{7,40}(?!\w)", "<sha>..<sha>"),
    _mask(
        _has("ommit", "sha", "SHA", "rev", "Rev", "HEAD"),
        r"(?<!\w)(?P<word>[Cc]ommit|sha|SHA|[Rr]ev|[Rr]evision|HEAD)(?P<join>[^\w]{1,3}(?:is now at |is at |at )?)"
        rf"(?:(?=[a-f]{{0,40}}\d|{_HEX}{{40}}){_HEX}{{7,64}}(?!\w)|<hex>)",
        r"\g<word>\g<join><sha>",
    ),
)
_PATHS: Final = re.compile(
    r"(?<![\w.<>:/\\~])(?P<path>(?:~|\.{2,3}|[A-Za-z]:(?=[\\/]))?"
    rf"(?:[/\\]{{1,2}}{_SEGMENT}{{1,120}}+){{1,40}}+[/\\]?)"
)
# In a line with a digit, when paths are gone.
_KEYED: Final[tuple[Mask, ...]] = (
    _mask(
        _has_a_long_word,
        r"(?<![A-Za-z0-9+/=])(?=[A-Za-z+/]{0,400}\d)(?=[0-9a-z+/]{0,400}[A-Z])(?=[0-9A-Z+/]{0,400}[a-z])"
        r"[A-Za-z0-9+/]{28,1000}+={0,2}",
        "<base64>",
    ),
    _mask(
        _has("id", "ID", "Id", "oken", "OKEN"),
        r"(?P<key>(?:[_.-]|(?<![A-Za-z]))(?:id|ID|Id)|(?<=[a-z])I[dD]"
        r"|(?:request|trace|span|session|message|container|uu|gu)id|[Tt]oken|TOKEN)"
        r"(?P<join>[\"']? ?[=:] ?[\"']?)(?P<value>[\w\-]{2,128}+|<(?:hex|uuid|trace|base64|id|n)>)",
        _identifier,
    ),
    _mask(_has("-", "_", "#"), r"(?<=[A-Za-z])(?P<join>[-_#])\d{1,12}(?!\w)", _counted),
)


def mask_line(line: str) -> str:
    """Return `line` with marks such as `<uuid>` and `<n>` for what varies; a path leaves its base name."""
    line = _masked(_OPEN, line)
    digits = _DIGIT.search(line) is not None
    if digits:
        line = _masked(_VARYING, line)
    if "/" in line or "\\" in line:
        line = _PATHS.sub(_path, line)
    return mask_numbers(_masked(_KEYED, line)) if digits else line


def _masked(masks: tuple[Mask, ...], line: str) -> str:
    for may_hold, pattern, replacement in masks:
        if may_hold(line):
            line = pattern.sub(replacement, line)
    return line
