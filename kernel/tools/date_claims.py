"""Decides whether a text asserts today's date, and which date it asserts; a date that is merely told of does not count.

What counts, in English, Russian and Chinese alike:

- a line that is nothing but a date, with marks, a weekday or a time around it, or with a word such as journal, log,
  дневник, 日记: the heading of a dated entry;
- a text that opens with a date: in a heading, in brackets, with a time, or before a colon, dash or stop; the first line
  below the heading of a journal is such an opening, too;
- a label such as `Date:`, `Updated:`, `Дата:`, `日期：` before a date, in front matter and tables too;
- words that say so, with a date or the year alone: "today is …", "as of today (…)", "the current year is …",
  "сегодня …", "今天是…"; and those that leave the date open: "today is Monday", "the time is 10:30";
- Unix seconds under `timestamp:`.

What stands in a quotation (`>`) or a fenced block is somebody else's. A date in running prose, or with another label (a
deadline, a birthday, a release), is not about today.
"""

import re
import unicodedata
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import date
from typing import Final

from kernel.tools.date_forms import DATE, Stated, stated, time_stated, unix_stated, year_stated

LINE_LIMIT: Final = 1_000  # code points of a line that are looked at
_WEEKDAY: Final = (
    r"(?:(?:mon|tues?|wed(?:nes)?|thu(?:rs)?|fri|sat(?:ur)?|sun)(?:day)?"
    r"|понедельник|вторник|сред[аеу]|четверг|пятниц[аеу]|суббот[аеу]|воскресенье|пн|вт|ср|чт|пт|сб|вс"
    r"|(?:星期|周|礼拜)[一二三四五六日天])\.?"
)
_FULL_WEEKDAY: Final = (
    r"(?:(?:mon|tues|wednes|thurs|fri|satur|sun)day|понедельник|вторник|среда|четверг|пятница|суббота|воскресенье"
    r"|(?:星期|周|礼拜)[一二三四五六日天])(?![a-zа-я])"
)
_TIME: Final = r"(?:(?:at|в|t)? ?\d{1,2}:\d\d(?::\d\d)?(?: ?[ap]m)?(?: ?(?:utc|gmt|z|[+-]\d\d:?\d\d))?)"
_MARKS: Final = r"[\s#*_\-+\[\](){}<>!|=~\"'`.,;:–—]*+"
_DAY: Final = rf"(?:{_WEEKDAY},? ?)?(?P<date>{DATE})(?:,? ?\(?{_WEEKDAY}\)?)?(?:,? ?{_TIME})?"
_LINK: Final = r"(?: ?(?:is|was set to|это|—|–|-|:|=|,|\(|是|为) ?| )"
_LABEL: Final = (
    r"(?:(?:entry |note |report )?date(?: and time| of (?:entry|note|report))?"
    r"|today(?:'s date)?|current (?:date(?: and time)?|time)|now|time(?:stamp)?|written(?: on)?"
    r"|(?:created|generated|prepared|modified)(?: on| at)?"
    r"|(?:last )?updated(?: on| at)?|as of(?: today)?|(?:logged|noted|recorded)(?: on| at)?"
    r"|дата(?: и время)?|сегодня|сегодняшняя дата|текущая дата|время|создано|записано|обновлено|по состоянию на"
    r"|日期|(?:今天|今日)(?:的?日期)?|当前日期|当前时间|时间|创建(?:于|时间|日期)?|更新(?:于|时间|日期)?|记录(?:于|时间|日期)?|截至)"
)
_TODAY: Final = (
    r"(?:\bthe date(?: today)? is(?: now)?"
    r"|\btoday(?:'s date)?|\b(?:the )?(?:current|present) date|\bit(?:'s| is) now|\bright now it(?:'s| is)"
    r"|\bсегодня(?:шняя дата| у нас)?|\bтекущая дата|\bсейчас|今天(?:的日期)?|今日|(?:当前|现在)的?(?:日期|时间)?)"
)
_THIS_YEAR: Final = (
    r"(?:\b(?:the |this )?(?:current|present) year(?: is|:)|\b(?:the|this) year is(?: now)?|\bit(?:'s| is) now"
    r"|\bwe are (?:now )?in(?: the year)?|\bтекущий год ?[—–:-]|\bсейчас|\bна дворе|今年是|现在是)"
)
# What an entry is called, beside its date.
_ENTRY: Final = (
    r"(?:(?:my |dear |daily |weekly )?(?:meeting |status )?"
    r"(?:journal|diary|log|entry|notes?|minutes|stand-?up|report|summary|update|status)"
    r"(?: entry)?(?: for| of| on| from)?"
    r"|(?:дневник|журнал|заметк[аи]|запись|отч[её]т|протокол)(?: за| от)?|日记|日志|笔记|记录|日报|周报)"
)
_JOURNAL: Final = re.compile(r"\s*+#.*?(?:\b(?:journal|diary|log)\b|дневник|журнал|日记|日志)", re.IGNORECASE)
_ENDS: Final = r"(?= ?(?:год|年)|\W*$|[,.;:!?)](?!\d))"

_ALONE: Final = re.compile(rf"{_MARKS}{_DAY}{_MARKS}", re.IGNORECASE)
_OPENING: Final = (
    re.compile(rf"\s*+#{_MARKS}{_DAY}(?!\w)", re.IGNORECASE),
    re.compile(rf"[\s*_\-+]*+\[{_DAY}\]", re.IGNORECASE),
    re.compile(rf"[\s*_\-+|]*+{_DAY}[*_]*(?: ?[:|—–]| - |\.(?!\d))", re.IGNORECASE),
    re.compile(rf"[\s*_\-+|]*+(?P<date>{DATE}),? {_TIME}(?!\d)", re.IGNORECASE),
    re.compile(rf"[\s\-+]*+(?:\*\*|__){_DAY}(?:\*\*|__)", re.IGNORECASE),
)
_LABELLED: Final = re.compile(rf"[\s#*_\-+\"'{{<!|]*+{_LABEL}[*_\"']* ?[:=|][*_\"']* ?[\"'\[(]?{_DAY}", re.IGNORECASE)
_NAMED: Final = (
    re.compile(rf"{_MARKS}{_ENTRY}{_MARKS}{_DAY}{_MARKS}", re.IGNORECASE),
    re.compile(rf"{_MARKS}{_DAY}{_MARKS}{_ENTRY}{_MARKS}", re.IGNORECASE),
)
_UPDATED: Final = re.compile(
    rf"{_MARKS}(?:(?:last )?updated(?: on)?|as of|(?:written|logged|recorded|prepared|generated) (?:on|at)"
    rf"|обновлено|записано|更新于|记录于) ?{_DAY}",
    re.IGNORECASE,
)
_SAID: Final = (
    re.compile(rf"{_TODAY}{_LINK}(?:the )?{_DAY}", re.IGNORECASE),
    re.compile(rf"{_DAY} ?[(,]?(?: ?(?:is )?today\b|сегодня\b|今天)", re.IGNORECASE),
)
_SAID_YEAR: Final = re.compile(rf"{_THIS_YEAR} ?(?P<year>\d{{4}}|[〇零一二三四五六七八九]{{4}}){_ENDS}", re.IGNORECASE)
_IT_IS: Final = re.compile(
    rf"\bit(?:'s| is) (?:now )?(?:[a-z]{{3,9}} )?(?P<year>(?:19|20)\d\d)(?: now)?{_ENDS}", re.IGNORECASE
)
_SAID_WEEKDAY: Final = re.compile(rf"{_TODAY}{_LINK}{_FULL_WEEKDAY}|今天{_FULL_WEEKDAY}", re.IGNORECASE)
_SAID_TIME: Final = re.compile(
    r"(?:\b(?:current|local) time(?: is|:)|\bthe time is(?: now)?|\bit(?:'s| is) now|\bright now it(?:'s| is)"
    rf"|\bсейчас|\bтекущее время ?[:—–-]|现在(?:是|时间)?:?|当前时间是?:?) ?{_TIME}",
    re.IGNORECASE,
)
_YEARS: Final = (_SAID_YEAR, _IT_IS)
_OPEN: Final = (_SAID_WEEKDAY, _SAID_TIME)
_UNIX: Final = re.compile(
    rf"{_MARKS}(?:(?:unix )?(?:time|timestamp)|unix|время|时间戳){_MARKS}(?P<unix>\d{{10}})(?:\.\d+|\d{{3}})?(?!\d)",
    re.IGNORECASE,
)
_NAME: Final = re.compile(rf"(?P<date>{DATE})", re.IGNORECASE)
_FENCE: Final = re.compile(r"\s*(?:```|~~~)")


@dataclass(frozen=True, slots=True)
class Claims:
    """What a text asserts of today: `said` in so many words, `headed` by a heading, an opening or a label."""

    said: tuple[Stated, ...] = ()
    headed: tuple[Stated, ...] = ()

    def __bool__(self) -> bool:
        return bool(self.said or self.headed)

    def wrong(self, today: Sequence[date]) -> tuple[Stated, ...]:
        """Return what agrees with none of the dates that are today somewhere.

        A text with several dated headings is a journal: one of them being today is enough for all of them.
        """
        said = tuple(one for one in self.said if not _agrees(one, today))
        headed = () if any(_agrees(one, today) for one in self.headed) else self.headed
        return said + headed


def claims_of(text: str) -> Claims:
    """Return what `text` asserts of today."""
    said: list[Stated] = []
    headed: list[Stated] = []
    opens = True
    for line in _own_lines(text):
        patterns = (_ALONE.fullmatch, _LABELLED.match, _UPDATED.match, *(one.fullmatch for one in _NAMED))
        found = [stated(match) for look in patterns if (match := look(line))]
        opening = [stated(match) for look in _OPENING if (match := look.match(line))] if opens else []
        found += [one for one in opening if one.has_year]
        opens = opens and _JOURNAL.match(line) is not None
        headed += found[:1]
        said += [stated(match) for look in _SAID for match in look.finditer(line)]
        said += [time_stated(match.group()) for look in _OPEN for match in look.finditer(line)]
        headed += [unix_stated(match["unix"]) for match in (_UNIX.match(line),) if match]
        said += [year_stated(match.group(), match["year"]) for look in _YEARS for match in look.finditer(line)]
    return Claims(tuple(said), tuple(headed))


def claims_of_name(path: str) -> Claims:
    """Return what the name of a new note asserts: one that is nothing but a date is that day's entry."""
    name = unicodedata.normalize("NFKC", path.rpartition("/")[2])
    found = _NAME.fullmatch(name.rpartition(".")[0] or name)
    return Claims(headed=(stated(found),)) if found else Claims()


def _own_lines(text: str) -> Iterator[str]:
    """Yield the lines that are the writer's own, full-width characters made plain, without empty ones."""
    fenced = False
    for raw in text.splitlines():
        line = unicodedata.normalize("NFKC", raw[:LINE_LIMIT]).replace("’", "'")
        if _FENCE.match(line):
            fenced = not fenced
        elif not fenced and line.strip() and not line.lstrip().startswith(">"):
            yield line


def _agrees(one: Stated, today: Sequence[date]) -> bool:
    return any(one.agrees(day) for day in today)
