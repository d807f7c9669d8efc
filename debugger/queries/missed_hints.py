"""What followed a hint that did not go in: the nearest a record comes to whether it would have helped. Pure.

Nobody can know what an agent would have done. What is told is what it did: whether the situation came back, and
whether a later call of the same tool holds what the hint says. (Seed 001 §13, §14.)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from debugger.queries.pieces import Piece, one_line, plural, said
from debugger.queries.rows import NS, Row
from ingest.journal import JournalEvent
from knowledge.calls import read_arguments, tool_names
from knowledge.models import Activation, Candidate
from knowledge.usage import actions_of


@dataclass(frozen=True, slots=True)
class MissedHint:
    """A hint that was dropped, and what a later call shows of it."""

    knowledge_id: str
    proposition: str
    shown: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class Missed:
    """What followed the dropped hints of one activation. `instead` are the hints of it that did go in."""

    verdict: str
    instead: tuple[str, ...]
    hints: tuple[MissedHint, ...]


def what_followed(
    activation: Activation,
    candidates: Sequence[Candidate],
    events: Mapping[str, JournalEvent],
    rows: Mapping[str, Row],
) -> Missed | None:
    """Return what followed the dropped hints of an activation; None when none was dropped."""
    dropped = [one for one in candidates if one.dropped_ns is not None and one.injected_ns is None]
    if not dropped:
        return None
    calls = [call for call in activation.later_calls if isinstance(call, dict)]
    known = _words_before(activation, events)
    hints = tuple(
        MissedHint(one.knowledge_id, one.proposition, _shown(one, known, calls, events, rows)) for one in dropped
    )
    instead = tuple(one.knowledge_id for one in candidates if one.injected_ns is not None)
    return Missed(_verdict(activation, len(calls)), instead, hints)


def _verdict(activation: Activation, n_later: int) -> str:
    name = activation.mcp_server or activation.tool or "the tool"
    if activation.resolved is True:
        return "The situation was overcome without what was dropped."
    if activation.resolved is False:
        return "The situation came back: what was dropped may have been missed."
    if not n_later:
        return f"{name} was not called again in this run: nothing shows what it would have changed."
    later = plural(n_later, "later call")
    return f"The {later} of {name} do{'es' if n_later == 1 else ''} not tell whether the situation was overcome."


def _words_before(activation: Activation, events: Mapping[str, JournalEvent]) -> frozenset[str]:
    """Return the words of the call that set the search off: they show nothing when a later call has them too."""
    call_id = activation.call_id
    asked = (event for event in events.values() if event.type == "tool.requested" and event.call_id == call_id)
    return frozenset().union(*(_words(event) for event in asked)) if call_id else frozenset()


def _words(asked: JournalEvent) -> frozenset[str]:
    words, names = read_arguments(said(asked.data, "arguments"))
    return words | names | tool_names(asked.tool or "")


def _shown(
    candidate: Candidate,
    known: frozenset[str],
    calls: Iterable[Mapping[str, object]],
    events: Mapping[str, JournalEvent],
    rows: Mapping[str, Row],
) -> tuple[Piece, ...]:
    """Return the first later call that holds what the hint says, in words, or that there is none."""
    actions = [action for action in actions_of(candidate.proposition) if not known.issuperset(action)]
    if not actions:
        return (Piece("It names nothing new to look for in the calls that followed.", "soft"),)
    for call in calls:
        asked = events.get(said(call, "requested_event_id"))
        row = rows.get(asked.event_id) if asked is not None else None
        if asked is None or row is None:
            continue
        words = _words(asked)
        held = next((action for action in actions if words.issuperset(action)), None)
        if held is not None:
            status = said(call, "status")
            tone = {"ok": "ok", "failed": "bad", "timed_out": "bad"}.get(status, "soft")
            return (
                Piece("The agent did what it says without having read it:"),
                Piece(one_line(" ".join(held), 120), "mono"),
                Piece(f"at {row.offset_ns / NS:+,.2f} s", "mono", row.event_id),
                Piece(status or "no end was reported", tone),
            )
    return (Piece("No later call of the same tool holds what it says.", "soft"),)
