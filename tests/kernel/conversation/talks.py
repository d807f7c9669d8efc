"""Conversations that the tests of requests are about."""

from collections.abc import Sequence
from datetime import datetime, timedelta
from typing import Any

from kernel.conversation.heard import text_hash
from kernel.conversation.records import Heard, HeardKind, Record, Summary
from kernel.conversation.request import Request, Situation, compose
from kernel.messages import Locale, Message

NOW = datetime.fromisoformat("2026-09-25T09:00:00+08:00")
OWNER = "allen"
STORY = "从前有座山，山里有座庙，庙里有个老和尚。"


def at(clock: str, day: str = "2026-09-24", offset: str = "+08:00") -> str:
    """Return the time of a row."""
    return f"{day}T{clock}:00{offset}"


def rows(*said: tuple[str, str], day: str = "2026-09-24") -> tuple[Record, ...]:
    """Return rows a minute apart, from 18:00, with the ids r1, r2, ...; each is (source, text)."""
    return tuple(
        Record(f"r{number}", at(f"18:{number:02}", day), source, text) for number, (source, text) in enumerate(said, 1)
    )


def played(record_id: str, prefix: str, spoken: str, when: str = "18:30") -> Heard:
    """Return the report of a played part of a spoken text."""
    return Heard(record_id, "played", at(when), prefix, text_hash(spoken))


def report(record_id: str, kind: HeardKind, when: str = "18:30", text: str = "") -> Heard:
    """Return any other report."""
    return Heard(record_id, kind, at(when), text)


def turn(records: Sequence[Record] = (), **given: Any) -> Request:
    """Compose the request of a turn in which the owner says "go on"."""
    fields = {"rules": "Be brief.", "utterance": "go on", "now": NOW, "owner": OWNER, **given}
    return compose(Situation(records=tuple(records), **fields))


def shape(messages: Sequence[Message]) -> list[tuple[str, str]]:
    """Return role and text of each message."""
    return [(message.role, message.text) for message in messages]


def lines(request: Request) -> list[str]:
    """Return the lines of the last user message."""
    return request.messages[-1].text.split("\n")


def two_days(locale: Locale) -> Situation:
    """A conversation with everything in it: rows before its start, a summary, two days, labels and tags that an answer
    copied, an answer that was cut, a question that was never answered, a pending ask, running actions."""
    older = Record("r0", at("08:00", "2026-09-20"), OWNER, "old")
    talk = rows(
        (OWNER, "first"),
        ("jarvis", "<voice>one</voice>"),
        (OWNER, "tell me a story"),
        ("jarvis", f"[2026-09-24T18:04:00+08:00] jarvis: {STORY}"),
    )
    unheard = (
        Record("r5", at("08:55", "2026-09-25"), OWNER, "and?"),
        Record("r6", at("08:56", "2026-09-25"), OWNER, ""),
    )
    next_day = Record("r7", at("08:57", "2026-09-25"), "jarvis", STORY)
    late = Record("r8", at("08:58", "2026-09-25"), OWNER, "wait")
    return Situation(
        rules="Be brief.",
        utterance="go on",
        now=NOW,
        records=(older, *talk, *unheard, next_day, late),
        summary=Summary("r1", "They greeted each other."),
        heard=(played("r7", STORY[:6], STORY, "23:59"),),
        history_since=at("00:00", "2026-09-24"),
        owner=OWNER,
        profile=("likes tea", "lives in Seattle"),
        mode="voice",
        pending="send the mail?",
        running=2,
        locale=locale,
    )


def cut_story(locale: Locale) -> Situation:
    """The morning after a story that was cut short."""
    records = rows((OWNER, "讲个故事"), ("jarvis", STORY))
    heard = (played("r2", STORY[:6], STORY),)
    return Situation("Be brief.", "继续", NOW, records, heard=heard, owner=OWNER, profile=("likes tea",), locale=locale)


def soon(now: datetime, minutes: int) -> datetime:
    """Return a later moment."""
    return now + timedelta(minutes=minutes)
