"""Decides what is a date in a text: ISO, numbers with dots or slashes, dates in words (English, Russian, Chinese)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime
from typing import Final

_MONTHS: Final = {
    **{"jan": 1, "feb": 2, "mar": 3, "apr": 4, "may": 5, "jun": 6},
    **{"jul": 7, "aug": 8, "sep": 9, "oct": 10, "nov": 11, "dec": 12},
    **{"янв": 1, "фев": 2, "мар": 3, "апр": 4, "май": 5, "мая": 5, "июн": 6},
    **{"июл": 7, "авг": 8, "сен": 9, "окт": 10, "ноя": 11, "дек": 12},
}
_EN: Final = (
    r"jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?|oct(?:ober)?"
    r"|nov(?:ember)?|dec(?:ember)?"
)
_RU: Final = (
    r"январ[яь]|феврал[яь]|марта?|апрел[яь]|ма[яй]|июн[яь]|июл[яь]|августа?|сентябр[яь]|октябр[яь]|ноябр[яь]|декабр[яь]"
)
_NUMERALS: Final = str.maketrans("〇零一二三四五六七八九", "00123456789")
_ZH: Final = "〇零一二三四五六七八九十"
# One alternative for each way to write a date; a name's first letter says what it holds: y, m, d, or a, b for two
# numbers whose order is not told. A year may be missing where a month is named.
DATE: Final = (
    r"(?P<y1>\d{4})(?P<s1>[-/.])(?P<m1>\d{1,2})(?P=s1)(?P<d1>\d{1,2})(?!\d)"
    r"(?:t\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?P<offset>z|[+-]\d\d:?\d\d)?)?"
    r"|(?P<d2>\d{1,2})\.(?P<m2>\d{1,2})\.(?P<y2>\d{4})(?!\d)"
    r"|(?P<a1>\d{1,2})/(?P<b1>\d{1,2})/(?P<y3>\d{4})(?!\d)"
    rf"|(?P<d3>\d{{1,2}})(?:st|nd|rd|th)?(?: of)? (?P<m3>{_EN})\b\.?(?:,? (?P<y4>\d{{4}})(?!\d))?"
    rf"|(?P<m4>{_EN})\b\.? (?P<d4>\d{{1,2}})(?!\d)(?:st|nd|rd|th)?(?:,? (?P<y5>\d{{4}})(?!\d))?"
    rf"|(?P<d5>\d{{1,2}})(?:-е|-го)? (?P<m5>{_RU})\b(?: (?P<y6>\d{{4}})(?!\d)(?: ?(?:года?\b|г\.))?)?"
    rf"|(?:(?P<y7>\d{{4}}|[{_ZH}]{{4}}) ?年 ?)?(?P<m6>\d{{1,2}}|[{_ZH}]{{1,3}}) ?月"
    rf" ?(?P<d6>\d{{1,2}}|[{_ZH}]{{1,3}}) ?[日号]"
)
_DATE: Final = re.compile(DATE, re.IGNORECASE)


@dataclass(frozen=True, slots=True)
class Stated:
    """A date as far as a text states it. `readings` are the (year, month, day) it may mean, None where it says nothing:
    several where the order of numbers or an offset from UTC leaves a choice."""

    text: str
    readings: tuple[tuple[int | None, int | None, int | None], ...]

    @property
    def has_year(self) -> bool:
        return self.readings[0][0] is not None

    def agrees(self, today: date) -> bool:
        """Tell whether it may mean this day."""
        parts = (today.year, today.month, today.day)
        return any(
            all(said is None or said == is_ for said, is_ in zip(reading, parts, strict=True))
            for reading in self.readings
        )


def stated(match: re.Match[str]) -> Stated:
    """Return what a match of DATE, alone or within a larger pattern, states."""
    found = {name: value for name, value in match.groupdict().items() if value}
    year = next((_number(value) for name, value in _of("y", found)), None)
    text = next(value for value in (found.get("date"), match.group()) if value)
    if "a1" in found:
        first, second = int(found["a1"]), int(found["b1"])
        return Stated(text, ((year, first, second), (year, second, first)))
    month = next((_number(value) for name, value in _of("m", found)), None)
    day = next((_number(value) for name, value in _of("d", found)), None)
    readings = [(year, month, day)]
    if "offset" in found:
        readings += _in_utc(found.get("date", match.group()))
    return Stated(text, tuple(readings))


def year_stated(text: str, year: str) -> Stated:
    """Return what a text states that names a year alone."""
    return Stated(text, ((_number(year), None, None),))


def time_stated(text: str) -> Stated:
    """Return what a text states that says the time of a day which it leaves open."""
    return Stated(text, ((None, None, None),))


def unix_stated(text: str) -> Stated:
    """Return what Unix seconds state."""
    day = datetime.fromtimestamp(int(text), UTC)
    return Stated(text, ((day.year, day.month, day.day),))


def _of(letter: str, found: dict[str, str]) -> Iterator[tuple[str, str]]:
    return ((name, value) for name, value in found.items() if re.fullmatch(rf"{letter}\d", name))


def _number(text: str) -> int:
    """Return a number, or a month by its name; 0 where it is neither."""
    lowered = text.lower()
    if lowered[:3] in _MONTHS:
        return _MONTHS[lowered[:3]]
    if "十" in lowered:
        tens, _, ones = lowered.partition("十")
        lowered = f"{tens or '1'}{ones or '0'}"
    lowered = lowered.translate(_NUMERALS)
    return int(lowered) if lowered.isdecimal() else 0


def _in_utc(text: str) -> list[tuple[int | None, int | None, int | None]]:
    found = _DATE.search(text)
    try:
        there = datetime.fromisoformat(found.group().upper().replace("/", "-") if found else "")
        instant = there.astimezone(UTC)
    except (ValueError, OverflowError):
        return []
    return [(instant.year, instant.month, instant.day)]
