"""Owns the sentences of a conversation's request in each language; the labels they follow are contract.state_block's.

(Seed 002.)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from contract.state_block import LABELS, date_line
from kernel.messages import Cut, Locale

DAY_MINUTES: Final = 24 * 60


@dataclass(frozen=True, slots=True)
class Words:
    """What is said in one language. `cuts` are by the word of Cut.heard; texts with `{}` are filled in."""

    about: str
    gap: str
    cuts: Mapping[str, str]
    units: tuple[str, str, str]


WORDS: Final[Mapping[Locale, Words]] = {
    "en": Words(
        about="[About {}]",
        gap=", {} since the last exchange",
        cuts={
            "prefix": "cut, the user heard only “{}”",
            "nothing": "cut before the user heard any word of it",
            "no_answer": "there was none",
            "unknown": "perhaps not heard whole; how much was heard is unknown",
        },
        units=("d", "h", "min"),
    ),
    "zh": Words(
        about="[关于 {}]",
        gap="，距上次对话 {}",
        cuts={
            "prefix": "被打断，用户只听到“{}”",
            "nothing": "被打断，用户一个字也没有听到",
            "no_answer": "没有给出回答",
            "unknown": "可能没有听完，听到哪里未知",
        },
        units=("天", "小时", "分钟"),
    ),
    "ru": Words(
        about="[О пользователе {}]",
        gap=", после последнего обмена прошло {}",
        cuts={
            "prefix": "прерван, услышано только «{}»",
            "nothing": "прерван, не услышано ни слова",
            "no_answer": "его не было",
            "unknown": "возможно, дослушан не до конца; сколько услышано, неизвестно",
        },
        units=("д", "ч", "мин"),
    ),
}


def about_line(locale: Locale, owner: str) -> str:
    """Return the line above what is known of the person."""
    return WORDS[locale].about.format(owner[:1].upper() + owner[1:])


def day_line(locale: Locale, at: datetime) -> str:
    """Return the line that opens the first row of the day `at` falls on, where it was said."""
    return date_line(locale, at.month, at.day, at.weekday())


def time_line(locale: Locale, now: datetime, gap: timedelta | None) -> str:
    """Return the present minute with its offset and weekday, and the gap when one is given."""
    labels, words = LABELS[locale], WORDS[locale]
    minute = now.isoformat(" ", "minutes")
    line = f"{labels.time}{minute[:16]} {minute[16:]} {labels.weekdays[now.weekday()]}"
    return line if gap is None else line + words.gap.format(_length(words, gap))


def cut_line(locale: Locale, cut: Cut) -> str:
    """Return the line that says how far the answer before was heard; the heard part is quoted on one line."""
    return LABELS[locale].cut + WORDS[locale].cuts[cut.heard].format(on_one_line(cut.prefix))


def on_one_line(text: str) -> str:
    """Return a text as a value of the state block: on one line, and without the block's header in it."""
    return not_ours(" ".join(text.split()))


def not_ours(text: str) -> str:
    """Return what somebody said with round brackets where it holds the header of the state block: that header stands
    on the program's own block alone, whatever was pasted into the conversation."""
    for labels in LABELS.values():
        text = text.replace(labels.header, f"({labels.header[1:-1]})")
    return text


def _length(words: Words, gap: timedelta) -> str:
    minutes = int(gap.total_seconds()) // 60
    counts = (minutes // DAY_MINUTES, minutes % DAY_MINUTES // 60, minutes % 60)
    return " ".join(f"{count} {unit}" for count, unit in zip(counts, words.units, strict=True) if count)
