"""What a run waits for as its page shows it, what a person wrote as it is sent, and who was faster."""

import json
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from contract.redaction import redact
from contract.redaction_rules import ExtraRules
from debugger.access import GuardedRun
from debugger.kernel_client import Ask
from debugger.queries.event_detail import pretty, visible
from debugger.queries.pieces import said
from debugger.queries.runs import moment
from ingest.models import Event

NOTE_LIMIT: Final = 1_000  # code points; the kernel cuts what is longer
ANSWER_LIMIT: Final = 4_096  # code points
ONE_LINE: Final = 100  # code points of arguments that stay on one line
ASKED: Final = {"approval": "approval.requested", "question": "human.asked"}
ANSWERED: Final = {"approval": "approval.decided", "question": "human.answered"}


@dataclass(frozen=True, slots=True)
class AskShown:
    """One ask in the panel. `event_id` leads to its row; it and `since` are not known until its event has arrived."""

    ask: Ask
    text: str
    since: datetime | None = None
    until: datetime | None = None
    event_id: str = ""


@dataclass(frozen=True, slots=True)
class Written:
    """What a person wrote: `raw` to show it again, `text` to send, how many secrets went, and what is wrong with it."""

    raw: str
    text: str
    n_removed: int = 0
    error: str = ""


def show_asks(run: GuardedRun, asks: Sequence[Ask]) -> tuple[AskShown, ...]:
    """Return the asks with what the journal knows of them. One query, none when nothing is asked."""
    events = {(event.type, event.call_id): event for event in _events(run, ASKED.values(), asks)}
    return tuple(_shown(ask, events.get((ASKED[ask.kind], ask.call_id))) for ask in asks)


def _shown(ask: Ask, event: Event | None) -> AskShown:
    text = visible(ask.text) if ask.kind == "question" else _arguments(ask.text)
    if event is None:
        return AskShown(ask, text)
    since = moment(event.occurred_ns)
    until = since + timedelta(milliseconds=ask.timeout_ms) if since and ask.timeout_ms > 0 else None
    return AskShown(ask, text, since, until, event.event_id)


def _arguments(raw: str) -> str:
    """Return a call's arguments as they read best; what was cut on its way is no JSON and stays as it is."""
    try:
        value = json.loads(raw)
    except ValueError:
        return visible(raw)
    line = visible(json.dumps(value, ensure_ascii=False))
    return line if len(line) <= ONE_LINE else pretty(value)


def answered_by(run: GuardedRun, kind: str, call_id: str) -> str:
    """Return who answered the last ask of a call, as far as the journal knows; "" when it does not."""
    asked, answered = ASKED.get(kind, ""), ANSWERED.get(kind, "")
    events = _events(run, (asked, answered), (Ask("question", call_id, "", "", ""),))
    last = events[-1] if events else None
    return said(last.data, "by") if last is not None and last.type == answered else ""


def _events(run: GuardedRun, types: Iterable[str], asks: Iterable[Ask]) -> list[Event]:
    """Return the run's events of these types and calls, the last to arrive last."""
    call_ids = {ask.call_id for ask in asks}
    if not call_ids:
        return []
    registry = run.registry
    found = Event.objects.filter(project_id=run.project.pk, run_day=registry.run_day, run_id=registry.run_id)
    return list(found.filter(type__in=list(types), call_id__in=call_ids).order_by("arrival"))


def read_written(
    raw: str, name: str, limit: int, *, is_required: bool = False, rules: ExtraRules | None = None
) -> Written:
    """Return a person's text without its secrets; they go before it is sent, because a run's history keeps all it got.

    `rules` are the project's own patterns of secrets.
    The limit holds for what was written and for what is sent: a removed secret leaves a longer word in its place.
    """
    raw = raw.replace("\r\n", "\n")
    text = raw.replace("\x00", "").strip()
    if is_required and not text:
        return Written(raw, "", error=f"{name}: nothing is written yet. Write something.")
    if len(text) > limit:
        return Written(raw, "", error=_too_long(name, "has", len(text), limit))
    clean, n_removed = redact(text, rules)
    if len(clean) > limit:
        return Written(raw, "", n_removed, _too_long(name, "without its secrets has", len(clean), limit))
    return Written(raw, clean, n_removed)


def _too_long(name: str, has: str, length: int, limit: int) -> str:
    return f"{name}: it {has} {length:,} characters; at most {limit:,} can be sent. Shorten it by {length - limit:,}."
