"""Delegating: a call starts a run of its own and is answered when that run has ended.

The child has limits and a state of its own; parent, team root and depth tell where it belongs. (Seed 001 §6.2.)
"""

import json
from dataclasses import replace
from typing import Final

from contract.text import clip
from kernel.core.bounds import clip_middle, room_for_text
from kernel.core.finale import note_receipt
from kernel.core.settling import (
    OUTCOME_EVENTS,
    RESULT_LIMIT,
    answer,
    call_ids,
    emit_outcome,
    refuse,
    reply,
    server_of,
    settle,
    wait,
    waiting_call,
)
from kernel.core.situations import situation_data, situation_of
from kernel.core.state import Call, RunState
from kernel.core.step import Step
from kernel.core.triggers.facts import scope_of
from kernel.core.triggers.tool_failed import NAME as TOOL_FAILED
from kernel.messages import DelegateFinished, Member, RunSpec, StartDelegate, ToolStatus

ANSWER_LIMIT: Final = 4_096  # code points of a child's answer that reach the parent
STATUS_OF: Final[dict[str, ToolStatus]] = {"completed": "ok", "cancelled": "cancelled"}  # anything else has failed


def start_delegate(step: Step, at_ns: int, call: Call) -> None:
    """Start the member's run, unless there is no such member or a limit stands against it."""
    state, spec = step.state, step.state.spec
    arguments = json.loads(call.seen.arguments)
    name, task = str(arguments["member"]), str(arguments["task"])
    member = next((one for one in spec.members if one.name == name), None)
    code, text = _refusal(state, name, member)
    if code or member is None:
        refuse(step, at_ns, call, "denied", code, text)
        return
    step.set(delegates=state.delegates + 1)
    child = child_spec(spec, member, task, step.state.delegates)
    data = {"child_run_id": child.run_id, "member": name, "task": clip(task, RESULT_LIMIT)}
    step.emit("delegate.started", at_ns, data, caused_by=call.requested_event_id, **call_ids(state, call.seen))
    step.do(StartDelegate(spec.run_id, call.seen.call_id, child))
    wait(step, call, child.run_id)


def _refusal(state: RunState, name: str, member: Member | None) -> tuple[str, str]:
    """Return (code, reply) of a run that may not be started, or two empty strings."""
    limits, spec = state.spec.limits, state.spec
    if member is None:
        known = ", ".join(one.name for one in spec.members) or "none"
        return "member_unknown", f"There is no member {clip(name, 80)!r} (members: {known}). Nothing was started."
    if spec.depth >= limits.max_depth:
        return "depth_limit", f"A run {spec.depth} below the root may not delegate further. Nothing was started."
    if state.delegates >= limits.delegates_per_run:
        text = f"The limit of {limits.delegates_per_run} delegated runs is reached. Nothing was started."
        return "delegate_limit", text
    return "", ""


def child_spec(spec: RunSpec, member: Member, task: str, number: int) -> RunSpec:
    """Return what the member's run is given. Policy, approvals and grants are the parent's: there is no way around
    them."""
    return RunSpec(
        run_id=f"{spec.run_id}.{number}",
        task=task,
        agent=member.agent,
        script=member.script,
        model=member.model,
        task_id=spec.task_id,
        actor_id=member.name,
        parent_run_id=spec.run_id,
        team_root=spec.team_root or spec.run_id,
        rules=member.rules,
        setup=member.setup,
        mcp_servers=member.mcp_servers,
        skills=spec.skills,
        blocked_tools=spec.blocked_tools,
        approval_tools=spec.approval_tools,
        limits=replace(member.limits, max_depth=spec.limits.max_depth),
        switches=spec.switches,
        tools=member.tools,
        members=spec.members,
        depth=spec.depth + 1,
        holdout=spec.holdout,
        grants=spec.grants,
        namespaces_off=spec.namespaces_off,
        reviewer=spec.reviewer,
        locale=spec.locale,
    )


def finish_delegate(step: Step, observed: DelegateFinished) -> None:
    """Answer the call with how the child ended. Raises IllegalObservation for a call that waits for no child."""
    call = waiting_call(step.state, observed.call_id, "delegate")
    report_end(step, observed.at_ns, call, observed.status, observed.answer, observed.reason)
    status = STATUS_OF.get(observed.status, "failed")
    if observed.started:
        note_receipt(step, call.seen.name, call.gist, status)
    if status == "ok":
        answer(step, observed.at_ns, call, clip(observed.answer, ANSWER_LIMIT) or "(an empty answer)")
        return
    text = clip("\n".join(line for line in (observed.reason, observed.answer) if line), ANSWER_LIMIT)
    error_class = f"delegate_{observed.status}"
    state, name = step.state, call.seen.name
    scope = scope_of(name, server_of(state, name))
    started = observed.started
    settled = replace(call, outcome=status, executed=started, error_class=error_class)
    if status == "failed" and started and text.strip():
        situation = situation_of(TOOL_FAILED, scope, error_class, text)
        room = room_for_text(state.calls, state.ended_operations)
        settled = replace(settled, situation=situation, diagnostic=clip_middle(text, room))
    data = {
        "status": status,
        "error_class": error_class,
        "effect": "uncertain" if started else "none",
        "detail": text,
        **situation_data(settled.situation),
    }
    kind = OUTCOME_EVENTS.get(status, "tool.blocked")
    event_id = emit_outcome(step, observed.at_ns, call, kind, data)
    head = f"[The run {call.subject} ended: {observed.status}. What it did until then may have taken effect.]"
    if not started:
        head = f"[The run {call.subject} could not be started. Nothing was executed.]"
    reply(step, call, "\n".join(line for line in (head, text) if line), "tool", status, error_class)
    settle(step, replace(settled, outcome_event_id=event_id), observed.at_ns)


def report_end(step: Step, at_ns: int, call: Call, status: str, answered: str = "", reason: str = "") -> None:
    """Report the end of the child that a call waits for."""
    data = {
        "child_run_id": call.subject,
        "status": status,
        "answer": clip(answered, RESULT_LIMIT) or None,
        "reason": clip(reason, RESULT_LIMIT) or None,
    }
    ids = call_ids(step.state, call.seen)
    step.emit("delegate.finished", at_ns, data, caused_by=call.requested_event_id, **ids)
