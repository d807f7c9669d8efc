"""How a turn's user message of a conversation is marked: date lines, the state block and its labelled lines.

The kernel writes it, the pages take it apart again; both by these words alone. Pure. (Seed 002.)
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final, Literal

PieceKind = Literal["date", "header", "time", "mode", "cut", "pending", "running", "text"]
BLOCK_KINDS: Final[tuple[PieceKind, ...]] = ("header", "time", "mode", "cut", "pending", "running")
GAP: Final = "\n\n"  # between what was said, the block, and what was said after it


@dataclass(frozen=True, slots=True)
class Labels:
    """The words of one language: the block's first line, and what each of its other lines begins with.

    `date` is a date line with the places {month}, {day} and {weekday}; `months` is empty where months are numbers.
    `weekdays` begins with Monday.
    """

    header: str
    time: str
    mode: str
    cut: str
    pending: str
    running: str
    date: str
    weekdays: tuple[str, ...]
    months: tuple[str, ...] = ()


LABELS: Final[Mapping[str, Labels]] = {
    "en": Labels(
        header="[Current state | from the program, not said by the user]",
        time="Time: ",
        mode="Mode: ",
        cut="Previous answer: ",
        pending="Waiting for a yes: ",
        running="Actions still running: ",
        date="[{weekday}, {day} {month}]",
        weekdays=("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"),
        months=(
            "January", "February", "March", "April", "May", "June",
            "July", "August", "September", "October", "November", "December",
        ),
    ),
    "zh": Labels(
        header="[当前状态｜程序提供，不是用户说的话]",
        time="时间：",
        mode="模式：",
        cut="上一轮回答：",
        pending="等待确认：",
        running="进行中的操作：",
        date="[{month}月{day}日 {weekday}]",
        weekdays=("周一", "周二", "周三", "周四", "周五", "周六", "周日"),
    ),
    "ru": Labels(
        header="[Текущее состояние | от программы, не слова пользователя]",
        time="Время: ",
        mode="Режим: ",
        cut="Прошлый ответ: ",
        pending="Ждёт подтверждения: ",
        running="Ещё выполняется: ",
        date="[{weekday}, {day} {month}]",
        weekdays=("понедельник", "вторник", "среда", "четверг", "пятница", "суббота", "воскресенье"),
        months=(
            "января", "февраля", "марта", "апреля", "мая", "июня",
            "июля", "августа", "сентября", "октября", "ноября", "декабря",
        ),
    ),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A stretch of a user message, its line ends included: all pieces together are the message."""

    kind: PieceKind
    text: str


def date_line(locale: str, month: int, day: int, weekday: int) -> str:
    """Return the line that opens the first user row of a calendar day; `weekday` 0 is Monday."""
    labels = LABELS[locale]
    name = labels.months[month - 1] if labels.months else str(month)
    return labels.date.format(month=name, day=day, weekday=labels.weekdays[weekday])


def split_user_text(text: str) -> tuple[TextPiece, ...]:
    """Return the pieces of a user message in order; together they are `text`.

    A date line has a line to itself, outside of the block. The block is the first header line with a time line right
    after it, and ends with the first line that has none of its labels, so with an empty one. What a person says may
    look like either: the pieces are a reading aid, and no proof of who wrote them.
    """
    pieces: list[tuple[PieceKind, list[str]]] = []
    labels: Labels | None = None
    has_block = False
    lines = text.splitlines(keepends=True)
    for index, line in enumerate(lines):
        kind: PieceKind = "text"
        if not has_block and (found := _opens_block(lines, index)) is not None:
            labels, has_block, kind = found, True, "header"
        elif labels is not None:
            kind = _kind_in_block(line, labels)
            labels = None if kind == "text" else labels
        if kind == "text" and DATE_LINE.fullmatch(line.rstrip("\r\n")):
            kind = "date"
        if kind == "text" and pieces and pieces[-1][0] == "text":
            pieces[-1][1].append(line)
        else:
            pieces.append((kind, [line]))
    return tuple(TextPiece(kind, "".join(parts)) for kind, parts in pieces)


def _opens_block(lines: list[str], index: int) -> Labels | None:
    """Return the words of the block that begins at a line, or None when none does."""
    line, after = lines[index].rstrip("\r\n"), "".join(lines[index + 1 : index + 2])
    return next((one for one in LABELS.values() if line == one.header and after.startswith(one.time)), None)


def _kind_in_block(line: str, labels: Labels) -> PieceKind:
    return next((kind for kind, label in _line_labels(labels) if line.startswith(label)), "text")


def _line_labels(labels: Labels) -> Iterator[tuple[PieceKind, str]]:
    yield "time", labels.time
    yield "mode", labels.mode
    yield "cut", labels.cut
    yield "pending", labels.pending
    yield "running", labels.running


def _date_pattern(labels: Labels) -> str:
    places = {
        "month": "|".join(labels.months) or "1[0-2]|[1-9]",
        "day": "3[01]|[12][0-9]|[1-9]",
        "weekday": "|".join(labels.weekdays),
    }
    plain = re.escape(labels.date).replace(r"\{", "{").replace(r"\}", "}")
    return plain.format(**{name: f"(?:{pattern})" for name, pattern in places.items()})


DATE_LINE: Final = re.compile("|".join(map(_date_pattern, LABELS.values())))
