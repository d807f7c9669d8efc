"""Composes the first messages of a conversation's turn: system, history, one message of this turn. Pure.

The system message and the history depend on nothing that changes from one turn to the next, so a provider can keep
them; what changes stands in the state block ahead of what was said. No two user messages stand side by side, no
message is empty, nothing of the program's own stands in an assistant message. (Seed 002.)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import date, datetime, timedelta
from typing import Final

from contract.state_block import GAP, LABELS
from kernel.conversation.heard import find_cut
from kernel.conversation.labels import answer_text, without_tags
from kernel.conversation.records import ASSISTANT, ConversationError, Heard, Record, Summary, read_time
from kernel.conversation.words import about_line, cut_line, day_line, not_ours, on_one_line, time_line
from kernel.messages import Cut, Locale, Message, Origin, Role

HISTORY_LIMIT: Final = 5_000  # messages; an event names no more than twice as many
PAUSE: Final = timedelta(minutes=30)  # a shorter one is not worth a word


@dataclass(frozen=True, slots=True)
class Situation:
    """All that a turn's request is made of. `records` are those before what is said now, in the order written."""

    rules: str
    utterance: str
    now: datetime
    records: tuple[Record, ...] = ()
    summary: Summary | None = None
    heard: tuple[Heard, ...] = ()
    history_since: str = ""
    owner: str = "user"
    profile: tuple[str, ...] = ()
    mode: str = ""
    pending: str = ""
    running: int = 0
    locale: Locale = "en"


@dataclass(frozen=True, slots=True)
class Request:
    """The messages of a turn that is about to begin, where the answer before it was cut, and all who ever spoke."""

    messages: tuple[Message, ...]
    cut: Cut | None = None
    speakers: tuple[str, ...] = ()


def compose(given: Situation) -> Request:
    """Return the messages of the turn. Raises ConversationError when the records do not fit together."""
    rows = _rows(given)
    since, start = _window(given)
    cut = find_cut([row for row in rows[since:] if row.text], given.owner, given.heard)
    history = _history(given, rows[start:])
    if len(history) > HISTORY_LIMIT:
        size = f"the history has {len(history)} messages; the limit is {HISTORY_LIMIT}"
        raise ConversationError(f"{size}: write a summary or set a later history_since")
    ahead = history.pop().text if history and history[-1].role == "user" else ""
    parts = (ahead, _state_block(given, cut), not_ours(given.utterance.strip()))
    said = Message("user", GAP.join(part for part in parts if part), "utterance")
    speakers = dict.fromkeys((given.owner, ASSISTANT, *(row.source for row in given.records)))
    return Request((_system(given), *history, said), cut, tuple(speakers))


def _system(given: Situation) -> Message:
    profile = [line for line in (on_one_line(line) for line in given.profile) if line]
    block = [about_line(given.locale, given.owner), *profile] if profile else []
    return Message("system", "\n\n".join(part for part in (given.rules, "\n".join(block)) if part), "rules")


def _window(given: Situation) -> tuple[int, int]:
    """Return where the records begin that count as this conversation, and where those begin that are sent."""
    since = anchored = 0
    if given.history_since:
        floor = read_time(given.history_since)
        places = (place for place, row in enumerate(given.records) if read_time(row.at) >= floor)
        since = next(places, len(given.records))
    if given.summary is not None:
        anchors = [place for place, row in enumerate(given.records) if row.record_id == given.summary.anchor]
        if not anchors:
            raise ConversationError("the summary's anchor is no record of the conversation: write the summary anew")
        anchored = anchors[0] + 1
    return since, max(since, anchored)


def _rows(given: Situation) -> list[Record]:
    """Return the records with nothing but their text; a label may name whoever had spoken by then."""
    sources = {given.owner, ASSISTANT}
    rows = []
    for row in given.records:
        sources.add(row.source)
        text = without_tags(row.text) if row.source == given.owner else answer_text(row.text, sources)
        rows.append(replace(row, text=text))
    return rows


def _history(given: Situation, rows: Sequence[Record]) -> list[Message]:
    """Return the summary and the rows as messages, neighbours of one role joined by a newline."""
    texts: list[tuple[Role, Origin, list[str]]] = []
    summary = not_ours(without_tags(given.summary.text)) if given.summary is not None else ""
    if summary:
        texts.append(("user", "summary", [summary]))
    for role, text in _said(given, rows):
        if texts and texts[-1][0] == role:
            texts[-1][2].append(text)
        else:
            texts.append((role, "record", [text]))
    return [Message(role, "\n".join(parts), origin) for role, origin, parts in texts]


def _said(given: Situation, rows: Sequence[Record]) -> Iterator[tuple[Role, str]]:
    """Yield role and text of each row that says anything; the owner's first of a day opens with the date."""
    days: set[date] = set()
    for row in rows:
        if not row.text:
            continue
        if row.source != given.owner:
            yield "assistant", not_ours(row.text)
            continue
        at = read_time(row.at)
        opening = "" if at.date() in days else f"{day_line(given.locale, at)}\n"
        days.add(at.date())
        yield "user", opening + not_ours(row.text)


def _state_block(given: Situation, cut: Cut | None) -> str:
    """Return the program's own lines about this moment; a line that would say nothing is left out."""
    labels = LABELS[given.locale]
    last = read_time(given.records[-1].at) if given.records else given.now
    gap = given.now - last
    mode, pending = on_one_line(given.mode), on_one_line(given.pending)
    lines = [
        labels.header,
        time_line(given.locale, given.now, gap if gap > PAUSE else None),
        labels.mode + mode if mode else "",
        cut_line(given.locale, cut) if cut is not None else "",
        labels.pending + pending if pending else "",
        f"{labels.running}{given.running}" if given.running else "",
    ]
    return "\n".join(line for line in lines if line)
