"""What can be asked of a record: small checks, each an empty text or what is wrong, and the one all records must pass.

Pure. A check names what it found and what it wanted, never a payload at length.
"""

from collections.abc import Callable

from kernel.conformance.record import Record, Sent, data_of, groups
from kernel.messages import Message

Check = Callable[[Record], str]
HEAD = 80  # characters of a text that a problem shows


def all_of(*checks: Check) -> Check:
    """Return the check that finds what the first of these finds that finds anything."""
    return lambda record: next((problem for check in checks if (problem := check(record))), "")


# ---- what every record must be ---------------------------------------------------------------------------


def legal(record: Record) -> str:
    """Return what no run may leave behind: no or two endings, events after the end, a call without its one reply."""
    endings = [event.type for event in record.terminal]
    if len(endings) != 1:
        return f"the run has {len(endings)} terminal events: {', '.join(endings) or 'none'}"
    if record.events[-1] is not record.terminal[0]:
        return f"{record.events[-1].type} stands after the terminal event"
    if endings[0] != f"run.{record.result.status}":
        return f"the run returned {record.result.status} and reported {endings[0]}"
    numbers = [event.seq for event in record.events]
    if numbers != list(range(1, len(numbers) + 1)):
        return "the numbers of the events are not 1, 2, 3 and so on"
    return _executions(record) or _histories(record)


def _executions(record: Record) -> str:
    ran = record.ran()
    twice = [call_id for call_id in dict.fromkeys(ran) if ran.count(call_id) > 1]
    if twice:
        return f"call {twice[0]} was executed {ran.count(twice[0])} times"
    unknown = [call_id for call_id in ran if call_id not in record.calls()]
    return f"call {unknown[0]} was executed and stands in no history" if unknown else ""


def _histories(record: Record) -> str:
    for messages in (*(sent.messages for sent in record.requests), record.transcript):
        for message, after in groups(messages):
            problem = one_reply_each(message, after)
            if problem:
                return problem
    ids = record.calls()
    if len(set(ids)) != len(ids):
        return "two calls of the history have the same id"
    return _prefixes(record.requests)


def one_reply_each(message: Message, after: tuple[Message, ...]) -> str:
    """Return what is wrong with the replies to one message's calls: one each, in call order, at once."""
    wanted = [call.call_id for call in message.calls]
    found = [reply.call_id for reply in after[: len(wanted)] if reply.role == "tool"]
    if found != wanted:
        return f"the replies to {', '.join(wanted)} are {', '.join(map(str, found)) or 'none'}"
    return "a reply stands apart from its calls" if any(one.role == "tool" for one in after[len(wanted) :]) else ""


def _prefixes(requests: tuple[Sent, ...]) -> str:
    for before, after in zip(requests, requests[1:], strict=False):
        if after.messages[: len(before.messages)] != before.messages:
            return "a request is not the beginning of the next one"
    return ""


# ---- how the run ended -----------------------------------------------------------------------------------


def ended(status: str) -> Check:
    """The run ended so."""

    def check(record: Record) -> str:
        found = record.result.status
        return "" if found == status else f"the run ended {found} ({record.result.reason[:HEAD]}), not {status}"

    return check


def turn_failed(code: str, source: str, outside: str = "", outside_source: str = "") -> Check:
    """The run failed, and its turn says this code and source; for a runtime of its own `outside` where it is given."""

    def check(record: Record) -> str:
        wanted = (
            (outside or code, outside_source or source) if record.outside and not record.by_driver else (code, source)
        )
        found = record.failure()
        problem = "" if found == wanted else f"the turn failed as {found}, not {wanted}"
        return ended("failed")(record) or problem

    return check


def escalated(reason: str) -> Check:
    """The run ended in an ask for this reason, which is neither a failure nor a denial."""

    def check(record: Record) -> str:
        data = record.ending
        if data.get("reason") != reason:
            return f"the ask says {str(data.get('reason'))[:HEAD]!r}, not {reason[:HEAD]!r}"
        if not data.get("reviewer"):
            return "the ask names nobody who is to decide"
        return "an escalated run has an error" if data.get("error") or record.of("turn.failed") else ""

    return all_of(ended("escalated"), check)


def nobody_asked(record: Record) -> str:
    """No record says that a person was asked."""
    return "the record holds an escalation" if record.of("run.escalated") else ""


def answered_with(text: str) -> Check:
    """The run's answer holds this text."""

    def check(record: Record) -> str:
        found = record.result.answer
        return "" if text in found else f"the answer is {found[:HEAD]!r} and lacks {text[:HEAD]!r}"

    return check


# ---- what became of calls --------------------------------------------------------------------------------


def executed(*tools: str) -> Check:
    """Exactly these tools were executed, in this order."""

    def check(record: Record) -> str:
        found = tuple(one.tool for one in record.executed)
        return "" if found == tools else f"executed were {found or 'no calls'}, not {tools or 'none'}"

    return check


def refused(tool: str, code: str, place: int = 0, status: str = "denied") -> Check:
    """The call of the tool at `place` among its calls was refused with the code, and its reply says so."""

    def check(record: Record) -> str:
        ids = record.calls(tool)
        if len(ids) <= place:
            return f"the history has no call {place + 1} of {tool}"
        outcome, replies = record.outcome(ids[place]), record.replies(ids[place])
        found = (outcome.get("type"), outcome.get("status"), outcome.get("code"))
        if found != ("tool.blocked", status, code):
            return f"{tool} ended as {found}, not {status} {code}"
        if [(reply.status, reply.code) for reply in replies] != [(status, code)]:
            return f"the reply to {tool} does not say {code}"
        return f"{tool} was executed although it was refused" if ids[place] in record.ran() else ""

    return check


def succeeded(tool: str, place: int = 0) -> Check:
    """The call of the tool at `place` among its calls was executed and answered."""

    def check(record: Record) -> str:
        ids = record.calls(tool)
        if len(ids) <= place:
            return f"the history has no call {place + 1} of {tool}"
        outcome = record.outcome(ids[place])
        return "" if outcome.get("type") == "tool.completed" else f"{tool} ended as {outcome.get('code') or outcome}"

    return check


def not_offered(tool: str) -> Check:
    """No request offered the tool."""

    def check(record: Record) -> str:
        return f"{tool} was offered" if any(tool in sent.offered for sent in record.requests) else ""

    return check


def one_word_for_each(record: Record) -> str:
    """Every call has one event that says how it ended."""
    ids = [event.call_id for event in record.of("tool.completed", "tool.failed", "tool.blocked")]
    missing = [call_id for call_id in record.calls() if ids.count(call_id) != 1]
    return f"call {missing[0]} has {ids.count(missing[0])} endings" if missing else ""


# ---- what was asked --------------------------------------------------------------------------------------


def requests(n: int) -> Check:
    """Exactly so many requests were made."""

    def check(record: Record) -> str:
        found = len(record.requests)
        return "" if found == n else f"{found} requests were made, not {n}"

    return check


def last_without_tools(record: Record) -> str:
    """The last request offers nothing, those before it do; what goes over the wire names no tools at all."""
    *before, last = record.requests
    if not last.finale or last.offered:
        return "the last request offers tools"
    if any(sent.finale or not sent.offered for sent in before):
        return "a request before the last offers no tools"
    named = [name for name in ("tools", "tool_choice", "parallel_tool_calls") if name in (last.body or {})]
    thought = [data_of(event).get("kind") for event in record.of("thinking")]
    if named:
        return f"the last request names {', '.join(named)}"
    return "" if thought == ["safe_completion"] else f"the record shows {thought or 'no'} thinking"


def said_in_last(text: str, role: str = "tool") -> Check:
    """A message of this role in the last request holds the text."""

    def check(record: Record) -> str:
        told = [message.text for message in record.requests[-1].messages if message.role == role]
        return "" if any(text in one for one in told) else f"the last request holds no {role} message with {text!r}"

    return check
