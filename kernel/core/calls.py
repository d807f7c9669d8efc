"""The tool calls of one turn: judged in call order, started in call order, each answered exactly once.

Tools at the edge run one after another. A call that the core answers itself is answered at once, or waits for what it
stands for while the calls after it go on. An identical call of the same reply is executed once and its reply copied.
(Seed 001 §5.1, §6.)
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from contract.text import clip
from kernel.core.bounds import (
    ARGUMENTS_BYTES,
    LEAST_TEXT_BYTES,
    MALFORMED_LIMIT,
    clip_bytes,
    clip_shown,
    failure_texts,
    room_for_text,
)
from kernel.core.delegation import report_end, start_delegate
from kernel.core.envelope import admit
from kernel.core.escalating import escalate, forwarded, is_ask, offers_escalation
from kernel.core.finale import GIST_LIMIT, RECEIPT_BYTES, note_receipt
from kernel.core.operations import await_operation, start_operation
from kernel.core.people import ask_approval, ask_question, needs_approval
from kernel.core.settling import (
    OUTCOME_EVENTS,
    answer,
    call_ids,
    copy,
    emit_outcome,
    kind_of,
    known_as,
    lost_reply,
    next_call,
    refuse,
    reply,
    server_of,
    settle,
)
from kernel.core.situations import situation_data, situation_of
from kernel.core.state import Call, RunState, Situation
from kernel.core.step import Step
from kernel.core.transitions import IllegalObservation
from kernel.core.triggers.facts import Happened, scope_of
from kernel.core.triggers.tool_failed import NAME as TOOL_FAILED
from kernel.messages import CallSeen, ModelReplied, RunTool, TimeReceipt, ToolFinished, ToolKind

REASON_LIMIT: Final = 512  # code points of why a person is asked
EXCERPT_LIMIT: Final = 1_000  # code points of a success that come back for the record
EXECUTED: Final = ("ok", "failed", "timed_out")  # a tool that refuses, or was stopped, has said nothing of itself
FIRST_EXCERPT_LIMIT: Final = 8_192  # of a first call to an MCP server: they are searched with


def open_calls(step: Step, observed: ModelReplied) -> None:
    """Give every call of a reply its place in the history and start on the first."""
    first = step.state.next_seq
    calls: list[Call] = []
    room = ARGUMENTS_BYTES
    for index, seen in enumerate(observed.calls):
        kept = _kept(step.state, seen, room)
        room -= len((kept.arguments + kept.excerpt).encode("utf-8", "replace"))
        duplicate = any(other.seen.digest == seen.digest for other in calls)
        ids, caused_by = call_ids(step.state, seen), step.state.call_event_id
        data = {"arguments": seen.excerpt, "step": seen.step}
        event_id = step.emit("tool.requested", observed.at_ns, data, caused_by=caused_by, **ids)
        gist = clip_bytes(seen.excerpt[:GIST_LIMIT], RECEIPT_BYTES)
        gist += "…" if len(gist) < len(seen.excerpt) else ""
        calls.append(Call(kept, first + index, event_id, duplicate=duplicate, gist=gist))
    step.set(calls=tuple(calls), next_seq=first + len(calls))
    advance(step, observed.at_ns)


def _kept(state: RunState, seen: CallSeen, room: int) -> CallSeen:
    """Return as much of a call as is needed again: the excerpt where a person will be asked about it, the arguments
    where the core answers it."""
    asked = seen.name in state.spec.approval_tools
    excerpt = clip_shown(seen.excerpt, max(LEAST_TEXT_BYTES, room)) if asked else ""
    malformed = clip(seen.malformed, MALFORMED_LIMIT)
    arguments = "" if malformed else seen.arguments
    if len(arguments.encode("utf-8", "replace")) > room:
        arguments, malformed = "", f"together with those before them they are over {ARGUMENTS_BYTES} bytes"
    escalates = clip(seen.escalates, REASON_LIMIT)
    return CallSeen(seen.call_id, seen.name, seen.digest, excerpt, malformed, arguments, seen.step, escalates)


def advance(step: Step, at_ns: int) -> None:
    """Answer and start calls until one has to be executed or approved, or none is left to be started, or the run was
    asked to end in a way it was not offered."""
    while True:
        call = next_call(step.state)
        if call is None:
            if any(not one.outcome for one in step.state.calls):
                step.set(phase="waiting")
                step.flush()  # it may be long before there is more to tell
            return
        if is_ask(step.state, call):
            if not offers_escalation(step.state):
                step.set(refused="tool_unavailable")
                return
            escalate(step, at_ns, call)
            continue
        if call.duplicate and not step.state.escalation:
            copy(step, at_ns, call)
            continue
        refusal = admit(step, call)
        if refusal is not None:
            refuse(step, at_ns, call, *refusal)
            continue
        if needs_approval(step.state, call):
            ask_approval(step, at_ns, call)
            step.flush()
            return
        kind = kind_of(step.state, call.seen.name)
        if kind == "call":
            _run(step, call)
            return
        ANSWERED[kind](step, at_ns, call)


def _run(step: Step, call: Call) -> None:
    state, seen = step.state, call.seen
    limit = FIRST_EXCERPT_LIMIT if first_use(state, seen.name) else EXCERPT_LIMIT
    step.do(RunTool(state.spec.run_id, seen.call_id, state.assistant_seq, call.reply_seq, limit))
    step.set(phase="running")


def update_plan(step: Step, at_ns: int, call: Call) -> None:
    """Report the plan as the model has it now; it is kept nowhere else."""
    steps = [str(one) for one in json.loads(call.seen.arguments)["steps"]]
    ids = call_ids(step.state, call.seen)
    step.emit("plan.updated", at_ns, {"plan": steps}, caused_by=call.requested_event_id, **ids)
    answer(step, at_ns, call, f"The plan was noted; it has {len(steps)} steps.")


ANSWERED: Final[dict[ToolKind, Callable[[Step, int, Call], None]]] = {
    "background": start_operation,
    "await_operation": await_operation,
    "ask_human": ask_question,
    "plan": update_plan,
    "delegate": start_delegate,
    "escalate": forwarded,
}


def finish_call(step: Step, observed: ToolFinished) -> None:
    """Take in the outcome of the call that was running. Raises IllegalObservation for any other call."""
    call = next_call(step.state)
    if call is None or call.seen.call_id != observed.call_id:
        raise IllegalObservation(f"ToolFinished for {observed.call_id!r}, which is not running")
    if not observed.reply_written:
        text = lost_reply(call.seen.name, observed.effect)
        reply(step, call, text, "refusal", observed.status, observed.error_class)
    situation = failure_situation(step.state, call.seen.name, observed)
    diagnostic, excerpt, tool_arguments = _texts(step.state, call, observed)
    settled = replace(
        call,
        outcome=observed.status,
        outcome_event_id=_report_outcome(step, call, observed, situation),
        executed=observed.status in EXECUTED,
        error_class=observed.error_class,
        diagnostic=diagnostic,
        excerpt=excerpt,
        situation=situation,
        tool_arguments=tool_arguments,
    )
    settle(step, settled, observed.at_ns)
    for receipt in observed.time_receipts:
        _report_time(step, observed.at_ns, settled, receipt)
    if settled.executed:
        note_receipt(step, call.seen.name, call.gist, observed.status)


def _report_time(step: Step, at_ns: int, call: Call, receipt: TimeReceipt) -> None:
    data = {"utc": receipt.utc, "zoned": receipt.zoned, "zone": receipt.zone, "unix": receipt.unix}
    step.emit("time.receipt", at_ns, data, caused_by=call.outcome_event_id, **call_ids(step.state, call.seen))


def failure_situation(state: RunState, name: str, observed: ToolFinished) -> Situation:
    """Return the situation of a failed call; a success and a failure without text have none."""
    if observed.status not in ("failed", "timed_out") or not observed.diagnostic.strip():
        return Situation()
    scope = scope_of(known_as(state, name), server_of(state, name))
    return situation_of(TOOL_FAILED, scope, observed.error_class, observed.diagnostic)


def _texts(state: RunState, call: Call, observed: ToolFinished) -> tuple[str, str, str]:
    """Return what of a call's diagnostic, result and arguments triggers may search with, within the room of the turn.

    A success is searched with only where it may be the first of its server; else its first words are kept.
    """
    room = room_for_text(state.calls, state.ended_operations)
    if observed.diagnostic:
        diagnostic, called = failure_texts(observed.diagnostic, observed.tool_arguments, room)
        return diagnostic, "", called
    limit = room if first_use(state, call.seen.name) else LEAST_TEXT_BYTES
    return "", clip_bytes(observed.excerpt, limit), ""


def first_use(state: RunState, name: str) -> bool:
    """Return whether a call of this tool may be the first to its MCP server."""
    server = server_of(state, name)
    return server is not None and server not in state.activation.met_servers


def _report_outcome(step: Step, call: Call, observed: ToolFinished, situation: Situation) -> str:
    data = {
        "status": observed.status,
        "duration_ms": (observed.at_ns - observed.started_ns) / 1e6,
        "effect": observed.effect,
        "error_class": observed.error_class or None,
    }
    kind = OUTCOME_EVENTS.get(observed.status, "tool.blocked")
    if kind == "tool.completed":
        return emit_outcome(step, observed.at_ns, call, kind, {**data, "result": observed.excerpt})
    text = {"detail": observed.diagnostic, **situation_data(situation)}
    return emit_outcome(step, observed.at_ns, call, kind, {**data, **text})


def happened_in(state: RunState) -> tuple[Happened, ...]:
    """Return the outcomes of the turn's calls, in call order."""
    return tuple(
        Happened(
            event_id=call.outcome_event_id,
            tool=known_as(state, call.seen.name),
            mcp_server=server_of(state, call.seen.name),
            status=call.outcome or "cancelled",
            executed=call.executed,
            call_id=call.seen.call_id,
            error_class=call.error_class,
            diagnostic=call.diagnostic,
            excerpt=call.excerpt,
            situation=call.situation,
            tool_arguments=call.tool_arguments,
        )
        for call in state.calls
    )


def close_calls(step: Step, at_ns: int, stopped: str, code: str = "run_cancelled") -> None:
    """Answer the calls without a reply because the run is `stopped`: neutral about who did what and how far it came."""
    # A run that its envelope ends was between two calls: the next one was not started.
    running = next_call(step.state) if step.state.phase == "running" and not step.state.refused else None
    for call in step.state.calls:
        if call.outcome:
            continue
        started = call.waiting or call is running
        how = "whether it took effect is not known" if started else "it was not started"
        detail = f"{stopped} while this call was pending; {how}"
        effect = "uncertain" if started else "none"
        data = {"status": "cancelled", "code": code, "detail": detail, "effect": effect}
        if call.waiting and kind_of(step.state, call.seen.name) == "delegate" and not call.duplicate:
            report_end(step, at_ns, call, "cancelled")
        emit_outcome(step, at_ns, call, "tool.blocked", data)
        reply(step, call, f"[{detail[0].upper()}{detail[1:]}.]", "refusal", "cancelled", code)
