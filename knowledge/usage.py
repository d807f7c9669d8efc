"""Whether a hint was used, and what came of it: `usage.v2`, a transparent reading of the calls that followed.

Used: a later call holds the words of an action the hint names (its code in backticks) in its values or names, among
them one that neither the task nor any call held before the hint was injected. Of a hint that was there from the start
there is no call before: there all words of the action must be held. Ignored: the run is over and no call, nor the
answer, did.
Resolved (failures only): among the next three executed calls none fails in the same situation, and one of the same
tool that repeats the failed call gets past it: it ends well, or fails in another situation.
Outcome: acted on and resolved is helpful, acted on and failed the same way is harmful, not acted on by then is
neutral. What cannot be told stays open; what a runtime or a person reported wins. (Seed 001 §3, §10.3, §13.)
"""

import re
from bisect import bisect_right
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Any, Final

from contract.events import TERMINAL_TYPES
from ingest.journal import JournalEvent
from knowledge import event_data as read
from knowledge.activations import ChainRows, Row
from knowledge.calls import Call, split_words
from knowledge.chain_facts import Verdict
from knowledge.event_data import fill
from knowledge.spans import end_of, is_span

USAGE_VERSION: Final = "usage.v2"
REPORTED: Final = "reported"
PERSON: Final = "person"
CALLS_READ: Final = 200  # calls after an injection that are searched for use; bounds the work on a hostile run
CALLS_JUDGED: Final = 3  # executed calls within which a failure counts as resolved or as failing again
SERVER_CALLS_JUDGED: Final = 5  # executed calls to a server within which its first use is judged to go well
TOLD: Final = -1  # place of what was said before anything happened
PRIMING: Final = "task.priming"
CALLS_SHOWN: Final = 5  # later calls of the same tool or server listed with an activation
ACTIONS_READ: Final = 20  # actions read of one proposition
MOST: Final = Fraction(2, 3)  # of an action's words a call must hold, to count as that action
WHOLE: Final = Fraction(1)
ACTION: Final = re.compile(r"`([^`\n]{1,300})`")
PLACEHOLDER: Final = re.compile(r"<[^<>\s]{1,60}>")
CODE_LIKE: Final = re.compile(r"[_/=@]|^-|\w\.\w|\d")


@dataclass(frozen=True, slots=True)
class Record:
    """What followed what in a run: its calls in order, where each event stands, when each word was first used."""

    calls: Sequence[Call]
    starts: Sequence[int]
    index_of: Mapping[str, int]
    call_of: Mapping[str, Call]
    first_use: Mapping[str, int]
    situation_of: Mapping[str, str]  # failed event_id -> situation class
    terminal: JournalEvent | None
    turns: Sequence[int]  # of which the provider reported tokens, in order
    spent_before: Sequence[int]  # tokens of all turns before that place; one place more than `turns`

    def calls_after(self, index: int) -> Sequence[Call]:
        start = bisect_right(self.starts, index)
        return self.calls[start : start + CALLS_READ]


def make_record(events: Sequence[JournalEvent], calls: Sequence[Call], activations: Iterable[Row]) -> Record:
    """Return the record of a run, given its events and calls in order."""
    # What the task says itself, nobody has from a hint.
    told = next((read.text(event.data, "task") for event in events if event.type == "run.started"), "")
    first_use = dict.fromkeys(split_words(told), TOLD)
    for call in calls:
        for word in call.said:
            first_use.setdefault(word, call.index)
    situations = {event.event_id: read.text(event.data, "situation_class") for event in events}
    for row in activations:
        if row.get("source_event_id") and row.get("situation_class"):
            situations[row["source_event_id"]] = row["situation_class"]
    tokens = _tokens_by_turn(events)
    ids = [(name, call) for call in calls for name in (call.requested_event_id, call.ended_event_id) if name]
    return Record(
        calls=calls,
        starts=[call.index for call in calls],
        index_of={event.event_id: index for index, event in enumerate(events)},
        call_of=dict(ids),
        first_use=first_use,
        situation_of={name: situation for name, situation in situations.items() if situation},
        terminal=next((event for event in events if event.type in TERMINAL_TYPES), None),
        turns=sorted(tokens),
        spent_before=list(accumulate((tokens[turn] for turn in sorted(tokens)), initial=0)),
    )


def _tokens_by_turn(events: Iterable[JournalEvent]) -> dict[int, int]:
    found: dict[int, int] = {}
    for event in events:
        if event.type == "model.completed" and event.turn is not None and not is_span(event):
            spent = (read.whole(event.data, name) or 0 for name in ("input_tokens", "output_tokens"))
            found[event.turn] = found.get(event.turn, 0) + sum(spent)
    return found


def take_verdicts(rows: ChainRows, verdicts: Iterable[Verdict]) -> None:
    """Note what people said of hints of this run, in order: the last word on a hint counts, over all that is judged."""
    last = {(verdict.activation_id, verdict.knowledge_id): verdict for verdict in verdicts}
    for place, verdict in last.items():
        row = rows.candidates.get(place)
        if row is not None and verdict.outcome:
            said = {"by": verdict.by, "note": verdict.reason, "said_at": verdict.said_at}
            fill(row, outcome=verdict.outcome, outcome_source=PERSON, outcome_evidence=said)


def judge(rows: ChainRows, record: Record) -> None:
    """Add to the rows what followed each activation and what became of each injected hint."""
    for row in rows.activations.values():
        _follow(row, record)
    for place, row in rows.candidates.items():
        _take_reports(row, rows.events.get(place, []))
        if "injected_ns" in row:
            _judge_use(row, rows.activations[place[0]], record)
            _judge_outcome(row, rows.activations[place[0]], record)


def anchor_of(row: Row, record: Record) -> int | None:
    """Return the place after which things count as later: the request that carried the hints, else the search."""
    names = (
        "request_event_id",
        "injected_event_id",
        "completed_event_id",
        "skipped_event_id",
        "requested_event_id",
        "source_event_id",
    )
    found = (record.index_of.get(row.get(name, "")) for name in names)
    return next((index for index in found if index is not None), None)


def _follow(row: Row, record: Record) -> None:
    anchor = anchor_of(row, record)
    if anchor is None:
        return
    later = record.calls_after(anchor)
    shown = [_shown(call) for call in later if _same_tool(row, call)][:CALLS_SHOWN]
    fill(row, later_calls=shown)
    if "skip_reason" in row:
        return
    executed = [call for call in later if call.executed]
    if row.get("trigger") == "tool.failed":
        window = executed[:CALLS_JUDGED]
        resolved, event_id = _resolved(row, window, record)
        fill(row, resolved=resolved, resolved_event_id=event_id, near=resolved)
    else:
        window = [call for call in executed if _same_tool(row, call)][:SERVER_CALLS_JUDGED]
        if row.get("trigger") == "mcp.first_call":
            fill(row, near=_went_well(window, record))
    _count_costs(row, window, record)


def _went_well(window: Sequence[Call], record: Record) -> bool | None:
    """Say whether no call of the window failed; not before it is over, so that bad news is not known the sooner."""
    over = len(window) == SERVER_CALLS_JUDGED or record.terminal is not None
    return all(call.status == "ok" for call in window) if window and over else None


def _count_costs(row: Row, window: Sequence[Call], record: Record) -> None:
    """Add what was spent until the situation was resolved, or until what is judged ended."""
    deciding = row.get("resolved_event_id") if row.get("resolved") else None
    ends = [place for place, call in enumerate(window) if deciding is not None and call.ended_event_id == deciding]
    spent = window[: ends[0] + 1] if ends else window
    same = [call for call in window if _same_tool(row, call)]
    fill(row, calls_after=len(same), failed_after=sum(call.status == "failed" for call in same))
    first, last = row.get("turn"), max((call.turn for call in spent if call.turn is not None), default=None)
    if first is not None and last is not None and 0 < last - first <= read.INT32_MAX:
        spent_from, spent_to = (record.spent_before[bisect_right(record.turns, turn)] for turn in (first, last))
        fill(row, turns_after=last - first, model_tokens_after=spent_to - spent_from)


def _same_tool(row: Row, call: Call) -> bool:
    if row.get("mcp_server"):
        return bool(call.mcp_server == row["mcp_server"])
    return bool(row.get("tool") and call.tool == row["tool"])


def _shown(call: Call) -> dict[str, Any]:
    return {
        "call_id": call.call_id,
        "requested_event_id": call.requested_event_id,
        "ended_event_id": call.ended_event_id,
        "tool": call.tool,
        "status": call.status,
        "turn": call.turn,
    }


def _resolved(row: Row, judged: Sequence[Call], record: Record) -> tuple[bool | None, str | None]:
    situation = row.get("situation_class")
    met = {call.index: record.situation_of.get(call.ended_event_id or "") for call in judged if call.status == "failed"}
    for call in judged:
        if situation and met.get(call.index) == situation:
            return False, call.ended_event_id
    if len(judged) < CALLS_JUDGED and record.terminal is None:
        return None, None
    failed = record.call_of.get(row.get("source_event_id", ""))
    for call in judged:
        repeated = failed is not None and call.tool == failed.tool and _holds(call.words, failed.words)
        if repeated and (call.status == "ok" or met[call.index]):
            return True, call.ended_event_id
    return None, None


def _holds(words: Collection[str], action: Iterable[str], needed: Fraction = MOST) -> bool:
    """Say whether at least that share of an action's words is among `words`."""
    wanted = set(action)
    return bool(wanted) and len(wanted.intersection(words)) >= needed * len(wanted)


def actions_of(proposition: str) -> list[list[str]]:
    """Return the actions a proposition names, each as its words: its code in backticks, else its code-like words."""
    spans = ACTION.findall(proposition)[:ACTIONS_READ]
    if not spans:
        spans = [" ".join(word for word in proposition.split() if CODE_LIKE.search(word))]
    found = (list(dict.fromkeys(split_words(PLACEHOLDER.sub(" ", span)))) for span in spans)
    return [action for action in found if action]


def _take_reports(row: Row, reports: Sequence[JournalEvent]) -> None:
    for kind, stamp in (("hint.used", "used_ns"), ("hint.ignored", "ignored_ns")):
        said = next((event for event in reports if event.type == kind), None)
        if said is not None and "usage_source" not in row:
            evidence = read.text(said.data, "evidence", read.TEXT_LIMIT)
            fill(row, **{stamp: said.occurred_ns}, usage_source=REPORTED)
            fill(row, usage_evidence={"event_id": said.event_id, "said": evidence})
    verdicts = [event for event in reports if event.type == "hint.outcome" and read.text(event.data, "outcome")]
    if verdicts:
        last = verdicts[-1]
        said_by = {"by": read.text(last.data, "by"), "note": read.text(last.data, "note", read.TEXT_LIMIT)}
        fill(row, outcome=read.identity(last.data, "outcome"), outcome_source=REPORTED)
        fill(row, outcome_evidence={"event_id": last.event_id, **said_by})


def _judge_use(row: Row, activation: Row, record: Record) -> None:
    anchor = anchor_of(row, record)
    if "usage_source" in row or anchor is None:
        return
    actions = _distinctive(actions_of(row.get("proposition", "")), anchor, record)
    if not actions:
        return
    needed = WHOLE if activation.get("trigger") == PRIMING else MOST
    for call in record.calls_after(anchor):
        shown = _shown_in(call.said, actions, needed, anchor, record)
        if shown:
            fill(row, used_ns=call.requested_ns, usage_source=USAGE_VERSION)
            event_id = call.requested_event_id or call.ended_event_id
            fill(row, usage_evidence={"event_id": event_id, "words": shown})
            return
    if record.terminal is not None:
        _judge_answer(row, actions, needed, anchor, record, record.terminal)


def _shown_in(
    words: Collection[str], actions: Iterable[list[str]], needed: Fraction, anchor: int, record: Record
) -> list[str]:
    """Return the words that show one of the actions, a fresh one among them; none when `words` show no action."""
    for action in actions:
        if _holds(words, action, needed) and any(word in words for word in _fresh(action, anchor, record)):
            return [word for word in action if word in words]
    return []


def _judge_answer(
    row: Row, actions: Sequence[list[str]], needed: Fraction, anchor: int, record: Record, terminal: JournalEvent
) -> None:
    """The run is over and no call shows the hint: the answer does, or the hint was ignored."""
    shown = _shown_in(set(split_words(read.text(terminal.data, "answer"))), actions, needed, anchor, record)
    if shown:
        fill(row, used_ns=end_of(terminal), usage_source=USAGE_VERSION)
        fill(row, usage_evidence={"event_id": terminal.event_id, "words": shown})
        return
    looked_for = list(dict.fromkeys(word for action in actions for word in action))
    fill(row, ignored_ns=end_of(terminal), usage_source=USAGE_VERSION)
    fill(row, usage_evidence={"event_id": terminal.event_id, "looked_for": looked_for})


def _distinctive(actions: Iterable[list[str]], anchor: int, record: Record) -> list[list[str]]:
    return [action for action in actions if _fresh(action, anchor, record)]


def _fresh(action: Iterable[str], anchor: int, record: Record) -> list[str]:
    """Return the words that neither the task nor a call held before the injection: only they can show a use."""
    never = len(record.index_of)
    return [word for word in action if record.first_use.get(word, never) > anchor]


def _judge_outcome(row: Row, activation: Row, record: Record) -> None:
    resolved = activation.get("resolved")
    deciding = record.index_of.get(activation.get("resolved_event_id", ""))
    if "outcome" in row or "usage_source" not in row or resolved is None or deciding is None:
        return
    shown = record.index_of.get(row.get("usage_evidence", {}).get("event_id", ""))
    acted = "used_ns" in row and shown is not None and shown <= deciding
    outcome = "neutral" if not acted else "helpful" if resolved else "harmful"
    fill(row, outcome=outcome, outcome_source=USAGE_VERSION)
    fill(row, outcome_evidence={"event_id": activation["resolved_event_id"], "resolved": resolved, "acted": acted})
