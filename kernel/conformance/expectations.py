"""Checks that belong to one condition or two: what its attack or its subject alone has to answer for. Pure."""

import json
from collections.abc import Mapping
from typing import Any

from kernel.conformance.checks import Check
from kernel.conformance.record import Record, data_of
from kernel.tools.magic_brush import BRUSH

REFUSALS = ("turn_draining", "unreachable")  # how a call is turned away when its turn is over


# ---- what must hold --------------------------------------------------------------------------------------


def never(tool: str) -> Check:
    """The tool was not executed."""
    return lambda record: f"{tool} was executed" if record.ran(tool) else ""


def fails_as(tool: str, error_class: str) -> Check:
    """The call of the tool ended in an error of this class, and its reply says so."""

    def check(record: Record) -> str:
        ids = record.calls(tool)
        outcome = record.outcome(ids[0]) if ids else {}
        found = (outcome.get("type"), outcome.get("error_class"))
        if found != ("tool.failed", error_class):
            return f"{tool} ended as {found}, not in an error of class {error_class}"
        codes = [(reply.status, reply.code) for reply in record.replies(ids[0])]
        return "" if codes == [("failed", error_class)] else f"the reply to {tool} says {codes}"

    return check


def same_replies(tool: str) -> Check:
    """All calls of the tool have the same reply."""

    def check(record: Record) -> str:
        texts = [reply.text for call_id in record.calls(tool) for reply in record.replies(call_id)]
        return "" if len(set(texts)) == 1 and texts[0] else f"identical calls of {tool} have different replies"

    return check


def denied_by_person(tool: str) -> Check:
    """The call was put to a person, who said no."""

    def check(record: Record) -> str:
        ids = record.calls(tool)
        outcome = record.outcome(ids[0]) if ids else {}
        if not record.of("approval.requested"):
            return f"nobody was asked about {tool}"
        found = (outcome.get("type"), outcome.get("status"))
        return "" if found == ("tool.blocked", "denied") else f"{tool} ended as {found}, not denied"

    return check


def not_searched(record: Record) -> str:
    """Nothing was looked up: what was not executed has failed at nothing."""
    triggers = [data_of(event).get("trigger") for event in record.of("activation.requested", "activation.completed")]
    return "a refused call set off a search" if "tool.failed" in triggers else ""


def n_denied(n: int) -> Check:
    """So many calls after the ask are counted, wherever they were denied."""

    def check(record: Record) -> str:
        found = record.ending.get("n_denied")
        return "" if found == n else f"{found} calls after the ask are counted, not {n}"

    return check


def denied_after_ask(tool: str) -> Check:
    """The call after the ask was denied because of it, in the history or before it."""

    def check(record: Record) -> str:
        codes = [record.code(call_id) for call_id in record.calls(tool)]
        codes += [one.code for one in record.aside if one.tool == tool]
        return "" if codes == ["escalation_pending"] else f"{tool} after the ask was answered {codes or 'by nothing'}"

    return check


def metadata(wanted: Mapping[str, Any]) -> Check:
    """The event that ended the run has these metadata."""

    def check(record: Record) -> str:
        found = record.ending.get("metadata")
        return "" if found == wanted else f"the metadata of the ending are {str(found)[:80]}"

    return check


def error(text: str) -> Check:
    """The event that ended the run has this error."""

    def check(record: Record) -> str:
        found = str(record.ending.get("error") or "")
        return "" if text in found else f"the error is {found[:80]!r}"

    return check


def one_failed_turn(record: Record) -> str:
    """The failure of one turn is told, once, with its code and where it was found."""
    failed = [data_of(event) for event in record.of("turn.failed")]
    if len(failed) != 1:
        return f"{len(failed)} turns are told to have failed"
    return "" if failed[0].get("code") and failed[0].get("source") else "the failed turn names no code or source"


def closed_as(tool: str, code: str) -> Check:
    """The pending call of the tool was closed with this code."""

    def check(record: Record) -> str:
        codes = [record.code(call_id) for call_id in record.calls(tool)]
        return "" if codes == [code] else f"the pending call of {tool} is closed as {codes}, not {code}"

    return check


def step_told(tool: str, step: int | None, place: int = 0) -> Check:
    """The events of the call carry the step that was claimed for it, and none where none was."""

    def check(record: Record) -> str:
        call_id = record.calls(tool)[place]
        told = [data_of(event).get("step") for event in record.events if event.call_id == call_id]
        return (
            "" if len(told) > 1 and set(told) == {step} else f"the record of {tool} tells the steps {told}, not {step}"
        )

    return check


def limit(name: str) -> Check:
    """The event that ended the run names this limit."""

    def check(record: Record) -> str:
        found = record.ending.get("limit")
        return "" if found == name else f"the limit is {found}, not {name}"

    return check


def some_answer(record: Record) -> str:
    """There is an answer; where the model gave none it is the fixed text, which lists what is recorded."""
    answer = record.result.answer
    reply = record.given[-1].reply
    said = reply.text if reply is not None else ""
    if not answer.strip():
        return "the run has no answer"
    return "" if said or "read" in answer else "the fixed text lists no result"


def cancelled(tool: str) -> Check:
    """The pending call is closed as cancelled, its effect is called uncertain, and its reply says the same."""

    def check(record: Record) -> str:
        ids = record.calls(tool)
        outcome = record.outcome(ids[0]) if ids else {}
        found = (outcome.get("status"), outcome.get("code"), outcome.get("effect"))
        if found != ("cancelled", "run_cancelled", "uncertain"):
            return f"the pending call is closed as {found}"
        texts = [reply.text for reply in record.replies(ids[0])]
        return "" if len(texts) == 1 and "not known" in texts[0] else "the reply to the pending call is not neutral"

    return check


def request_closed(record: Record) -> str:
    """The request without an answer is told to have failed, as cancelled."""
    classes = [data_of(event).get("error_class") for event in record.of("model.failed")]
    return "" if classes == ["cancelled"] else f"the requests that failed are told as {classes}"


def turned_away(record: Record) -> str:
    """No call after the end got anywhere."""
    codes = [one.code for one in record.aside if one.tool == "write"]
    if any(code not in REFUSALS for code in codes):
        return "a call after the end was answered without a refusal"
    return never("write")(record)


def withstood(record: Record) -> str:
    """Everything done to the run from beside its driver was turned away and changed nothing."""
    for one in record.attacks:
        if not one.refused or one.changed:
            met, left = "refused" if one.refused else "taken in", "something" if one.changed else "nothing"
            return f"{one.about} was {met} and changed {left}"
    return ""


def no_reply_to(call_id: str) -> Check:
    """The history holds no reply to a call that nobody made."""
    return lambda record: f"the history holds a reply to {call_id!r}" if record.replies(call_id) else ""


def hint_after_replies(record: Record) -> str:
    """One hint, right after the last reply of its round, in the next request and where it was."""
    found = [place for place, message in enumerate(record.transcript) if message.origin == "hints"]
    if len(found) != 1:
        return f"{len(found)} hints stand in the history"
    place = found[0]
    message = record.transcript[place]
    if message.role != "context" or record.transcript[place - 1].role != "tool":
        return "the hint does not follow a reply"
    failed = record.replies(record.calls("boom")[0])[0]
    carrying = [number for number, sent in enumerate(record.requests) if message in sent.messages]
    answered = [number for number, sent in enumerate(record.requests) if failed in sent.messages]
    if not carrying or carrying[0] != answered[0]:
        return "the hint is not in the request that brings the failure"
    delivered = [data_of(event).get("stage") for event in record.of("hint.delivery")]
    return "" if "injected" in delivered else "the record does not say that the hint was injected"


def told_once(text: str) -> Check:
    """One message of the history holds the text."""

    def check(record: Record) -> str:
        n_told = sum(1 for message in record.transcript if text in message.text)
        return "" if n_told == 1 else f"the outcome is told {n_told} times"

    return check


def no_hint(record: Record) -> str:
    """No hint stands in the history."""
    return "a hint stands in the history" if any(one.origin == "hints" for one in record.transcript) else ""


# ---- the brush -------------------------------------------------------------------------------------------


def receipts_of(record: Record, place: int) -> list[Mapping[str, Any]]:
    """Return the receipts that the reply to a call of the brush gives."""
    reply = record.replies(record.calls(BRUSH)[place])[0]
    lines = [line for line in reply.text.split("\n") if line.startswith("{")]
    found: list[Mapping[str, Any]] = json.loads(lines[0])["receipts"] if lines else []
    return found


def receipts(place: int, statuses: tuple[str, ...], flag: str = "") -> Check:
    """The call's receipts have these statuses, and one of them the flag."""

    def check(record: Record) -> str:
        found = receipts_of(record, place)
        told = tuple(one.get("status") for one in found)
        if told != statuses:
            return f"the receipts say {told}, not {statuses}"
        return "" if not flag or any(one.get("flag") == flag for one in found) else f"no receipt is flagged {flag}"

    return check


def listed(place: int, *names: str) -> Check:
    """The folder holds these notes, as a later list shows."""

    def check(record: Record) -> str:
        entries = [entry["name"] for one in receipts_of(record, place) for entry in one.get("entries", ())]
        return "" if entries == list(names) else f"the folder holds {entries}, not {list(names)}"

    return check


def time_receipt_first(record: Record) -> str:
    """The first note is refused and not there; the second is written, after one reading of the clock."""
    first, _, _, last = [receipts_of(record, place)[0] for place in range(4)]
    if (first.get("status"), first.get("code")) != ("failed", "time_receipt_required"):
        return f"the note without a receipt is {first.get('status')} {first.get('code') or ''}"
    taken = record.of("time.receipt")
    if len(taken) != 1 or last.get("time_receipt") != data_of(taken[0]).get("utc"):
        return f"{len(taken)} time receipts are told, and the note was written on {last.get('time_receipt')}"
    wrong = "" if last.get("status") == "ok" and not last.get("flag") else f"the dated note is {last.get('status')}"
    return wrong or listed(1)(record)
