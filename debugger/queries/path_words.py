"""What the rows of operations, approvals, questions, delegates and plans say. Pure. (Seed 001 §14, §15.)

Where the row of the call that it came of stands above, what that says is not said again.
"""

from collections.abc import Iterable, Iterator, Mapping
from typing import Any, Final

from contract.events import TERMINAL_TYPES
from debugger.queries.grouping import ENDS, PLAN, Group, starts
from debugger.queries.pieces import Piece, arguments_gist, one_line, said
from debugger.queries.rows import RUN
from debugger.queries.words import STATE_OF_STATUS, Words, data_of, ending_words, open_words
from ingest.journal import JournalEvent

STOPPED: Final = "stopped because the run ended"
PLAN_SHOWN: Final = 1_000  # code points of a plan's steps in its row


def about_operation(call: Group) -> tuple[Piece, ...]:
    """Return what a call has to do with an operation: it started it, or waited for it and this became of it."""
    operation = [event for event in call.related if event.type.startswith("operation.")]
    if not operation:
        return ()
    name = operation[0].operation_id or operation[0].tool or ""
    if starts(call, operation):
        return (Piece("started operation", "soft"), Piece(name, "mono soft"))
    end = next((event for event in operation if event.type in ENDS), None)
    became = "has not ended" if end is None else OPERATION_ENDS.get(_end_status(end), "failed")
    return (Piece(f"operation {name} {became}" if call.opener is None else f"the operation {became}", "soft keep"),)


OPERATION_ENDS: Final = {
    "ok": "ended well",
    "failed": "failed",
    "timed_out": "was stopped at its time limit",
    "cancelled": "was stopped because the run ended",
}


def _end_status(end: JournalEvent) -> str:
    return "ok" if end.type == "operation.completed" else said(end.data, "status") or "failed"


def operation_words(group: Group) -> Words:
    first = group.opener or group.events[0]
    pieces = (Piece("Operation", "b"), Piece(first.operation_id or first.tool or "", "mono"), *_what_it_does(group))
    if group.ender is None:
        calls = [event for event in group.related if event.type not in TERMINAL_TYPES]
        is_awaited = any(event.call_id != first.call_id for event in calls)
        awaited = (Piece("a call waits for it", "soft"),) if is_awaited else ()
        return open_words(group, (*pieces, *awaited), "still running", "its end was not reported")
    if _end_status(group.ender) == "cancelled":
        why = one_line(said(group.ender.data, "detail"))
        told = why if why.startswith(STOPPED) else " · ".join(filter(None, (STOPPED, why)))
        return Words((*pieces, Piece(told, "warn")), "warn")
    ending = ending_words(group.ender)
    return Words((*pieces, *ending.pieces), ending.state)


def _what_it_does(operation: Group) -> Iterator[Piece]:
    """Yield what an operation was said to do, else what the call that started it was asked for."""
    call_ids = {event.call_id for event in operation.events}
    starter = next((event for event in operation.related if event.call_id and event.call_id in call_ids), None)
    detail = said(data_of(operation.opener), "detail")
    arguments = arguments_gist(said(data_of(starter), "arguments"))
    if detail or arguments:
        yield Piece(one_line(detail), "soft") if detail else Piece(arguments, "mono soft")


def approval_words(group: Group) -> Words:
    question, decision = said(data_of(group.opener), "question"), data_of(group.ender)
    tool = (group.opener or group.events[0]).tool
    about = (*((Piece(tool, "mono"),) if tool else ()), Piece(one_line(question)))
    pieces = (Piece("Approval", "b"), *(about if group.call is None else ()))
    if group.ender is None:
        return _waiting(group, pieces)
    if decision.get("timed_out") is True:
        return Words((*pieces, Piece("nobody answered in time: refused", "warn")), "warn")
    approved = decision.get("approved") is True
    note = said(decision, "note")
    answer = ("approved" if approved else "refused") + _by(decision)
    told = (Piece(f"“{one_line(note)}”", "soft"),) if note else ()
    return Words((*pieces, Piece(answer, "ok" if approved else "warn"), *told), "ok" if approved else "warn")


def _waiting(group: Group, pieces: Iterable[Piece]) -> Words:
    """Return the words of what a person was asked and has not answered."""
    refused = group.other("tool.blocked")
    if refused is not None:
        why = one_line(said(refused.data, "detail") or said(refused.data, "code"))
        return Words((*pieces, Piece(f"not answered · {why}" if why else "not answered", "warn")), "warn")
    if group.is_left_open:
        return Words((*pieces, Piece("not answered before the run ended", "warn")), "warn")
    return Words((*pieces, Piece("waits for a person", "warn")), "open")


def _by(data: Mapping[str, Any]) -> str:
    by = said(data, "by")
    return f" by {one_line(by, 60)}" if by else ""


def human_words(group: Group) -> Words:
    asked = Piece(one_line(said(data_of(group.opener), "question")))
    pieces = (Piece("Question", "b"), *((asked,) if group.call is None else ()))
    if group.ender is None:
        return _waiting(group, pieces)
    data = group.ender.data
    if data.get("timed_out") is True:
        return Words((*pieces, Piece("nobody answered in time", "warn")), "warn")
    return Words(
        (*pieces, Piece(f"answered{_by(data)}", "ok"), Piece(f"“{one_line(said(data, 'answer'))}”", "soft")), "ok"
    )


def delegate_words(group: Group) -> Words:
    started, finished = data_of(group.opener), data_of(group.ender)
    child = said(started, "child_run_id") or said(finished, "child_run_id")
    member, task = said(started, "member"), said(started, "task")
    pieces = [Piece("Delegate", "b")]
    pieces += [Piece(member, "b")] if member else []
    pieces += [Piece(child, RUN)] if child else [Piece("of unknown run", "soft")]
    pieces += [Piece(one_line(task), "soft")] if task and group.call is None else []
    if group.ender is None:
        return open_words(group, pieces, "still running", "still running when this run ended")
    status = said(finished, "status")
    state = STATE_OF_STATUS.get(status, "plain")
    why = said(finished, "answer") or said(finished, "reason")
    pieces.append(Piece(status.replace("_", " ") or "ended", state if state in ("ok", "bad", "warn") else "soft"))
    return Words((*pieces, *((Piece(f"“{one_line(why)}”", "quiet"),) if why else ())), state)


def plan_words(group: Group) -> Words:
    steps = group.events[0].data.get("plan")
    told = [_step(step) for step in steps] if isinstance(steps, list) else []
    listed = " · ".join(f"{number}. {text}" for number, text in enumerate(filter(None, told), 1))
    which = Piece("replaced later", "soft keep") if group.other(PLAN) else Piece("latest", "badge")
    return Words(
        (Piece("Plan", "b"), which, Piece(one_line(listed, PLAN_SHOWN) or "no steps", "" if listed else "soft"))
    )


def _step(step: Any) -> str:
    """Return a step of a plan as text: a text as it is, of an object its first text and its status."""
    if isinstance(step, str):
        return one_line(step)
    if not isinstance(step, dict):
        return ""
    named = next((said(step, name) for name in ("step", "title", "text") if said(step, name)), "")
    status = said(step, "status")
    return one_line(f"{named} ({status.replace('_', ' ')})" if named and status else named)
