"""Conditions of the turn and its end: calls and their replies, spent limits, what is told beside the replies."""

from typing import Final

from kernel.conformance import attempts as a
from kernel.conformance import checks as c
from kernel.conformance import expectations as e
from kernel.conformance import world_set as w
from kernel.conformance.condition import ENVELOPE, FINALE, TURN, ceiling, row, spent
from kernel.tools.magic_brush import BRUSH

CALLS: Final = (
    row(
        w.ANSWERED, "Every call is answered once, in call order",
        "Three calls: each has one reply, in the order of the calls, before anything else.", TURN,
        a.calls_of("read", "write"),
        c.ended("completed"), c.executed("read", "write", "read"), c.one_word_for_each, c.answered_with("All is done."),
    ),
    row(
        w.NEIGHBOURS, "An error keeps its neighbours", "The middle one of three calls fails; the others are executed.",
        TURN, a.calls_of("boom"),
        c.ended("completed"), c.executed("read", "boom", "write"), c.succeeded("write"), e.fails_as("boom", "broken"),
    ),
    row(
        w.IDENTICAL, "Identical calls of one reply are executed once", "One execution, two replies.", TURN,
        a.twice("write"),
        c.ended("completed"), c.executed("write", "read"), e.same_replies("write"), c.one_word_for_each,
    ),
    row(
        w.MALFORMED, "Malformed arguments are that call's reply",
        "Nothing is executed for it, its neighbours are, and nothing is searched for.", TURN, a.calls_of("write"),
        c.ended("completed"), c.refused("write", "invalid_arguments"), c.executed("read", "read"),
    ),
    row(
        w.CALL_IDS, "Ids of calls are made unique", "Ids that are used again, or missing: every call has its reply.",
        TURN, a.n_calls(4), c.ended("completed"), c.executed("read", "write", "read", "write"),
        c.one_word_for_each,
    ),
    row(
        w.UNPUBLISHED, "A call outside of the catalogue is refused and the turn goes on",
        "tool_unavailable is the reply; calls beside and after it are executed.", ENVELOPE, a.calls_of("ghost"),
        c.ended("completed"), c.refused("ghost", "tool_unavailable"), c.executed("read", "write"), e.not_searched,
    ),
    row(
        w.BLOCKED, "Policy is held", "A call of a blocked tool is not executed; the turn goes on.", TURN,
        a.calls_of("write"),
        c.ended("completed"), c.refused("write", "policy_blocked", status="blocked"), c.executed("read"),
        e.not_searched,
    ),
    row(
        w.DENIED, "A no is held", "A person says no to a call: it is not executed; the turn goes on.", TURN,
        a.calls_of("write"), c.ended("completed"), e.denied_by_person("write"), c.executed("read"), e.not_searched,
    ),
    row(
        w.NAMESPACE_OFF, "A namespace that is off offers nothing", "Its tool is not offered, and a call of it refused.",
        ENVELOPE, a.calls_of("listing"),
        c.ended("completed"), c.not_offered("listing"), c.refused("listing", "tool_unavailable"), c.executed("read"),
    ),
    row(
        w.NOT_GRANTED, "What is not granted is not offered", "A registered, requested tool without a grant.", ENVELOPE,
        a.calls_of("write"),
        c.ended("completed"), c.not_offered("write"), c.refused("write", "tool_unavailable"), c.executed("read"),
    ),
    row(
        w.NOT_REQUESTED, "What is not requested is not offered", "A registered tool with a grant, not requested here.",
        ENVELOPE, a.calls_of("write"),
        c.ended("completed"), c.not_offered("write"), c.refused("write", "tool_unavailable"), c.executed("read"),
    ),
)  # fmt: skip

ENDS: Final = (
    ceiling(w.CEILING_1, 1),
    ceiling(w.CEILING_2, 2),
    ceiling(w.CEILING_8, 8),
    row(
        w.LAST_RECEIPT, "The last result stands in the last request", "The call of the last round succeeded.", FINALE,
        a.after_rounds(2), c.said_in_last("The entry is written."), c.last_without_tools, c.ended("limit_reached"),
    ),
    row(
        w.LAST_FAILURE, "The last failure stands in the last request", "The call of the last round failed.", FINALE,
        a.after_rounds(2), c.said_in_last("the list is locked"), c.last_without_tools, c.ended("limit_reached"),
    ),
    row(
        w.FINALE_CALLS, "Calls in the last reply are not executed", "The answer says so, or is a fixed text.", FINALE,
        a.finale_calls, c.ended("limit_reached"), e.never("write"), e.some_answer, c.requests(3),
    ),
    row(
        w.FINALE_ASK, "An ask in the last reply is none", "The last request offers no affordance.", ENVELOPE,
        a.finale_calls, c.nobody_asked, c.ended("limit_reached"), e.some_answer,
    ),
    row(
        w.FINALE_FAILS, "The last request fails", "A fixed text that lists the results stands for the answer.", FINALE,
        a.finale_failed, c.ended("limit_reached"), c.answered_with("read"), e.limit("tool_rounds"),
    ),
    spent(w.TOKENS_SPENT, "tokens", "The model's tokens are spent with the first reply."),
    spent(w.TIME_SPENT, "time", "The run's time is over after the first round."),
    row(
        w.AT_LIMIT_FAIL, "A run may rather fail at its limit", "at_limit is fail: no further request.", ENVELOPE,
        a.after_rounds(2), c.turn_failed("step_limit_exceeded", "runtime"), c.requests(2), c.executed("read", "read"),
    ),
    row(
        w.CANCELLED, "A cancellation answers what is pending", "Cancelled while a call is executed: replies that blame "
        "nobody, one end.", TURN, a.calls_of("slow"), c.ended("cancelled"), e.never("write"), e.cancelled("slow"),
    ),
    row(
        w.CANCELLED_ASKING, "A cancellation ends a silence", "The seat does not answer: one end, and the request is "
        "closed in the record.", TURN, a.unanswered, c.ended("cancelled"), c.executed("read"),
        e.request_closed,
    ),
)  # fmt: skip

BESIDE: Final = (
    row(
        w.HINTED, "A hint stands after the last reply", "A call fails and something is known: one message, after all "
        "replies, in the very next request.", TURN, a.calls_of("boom"), c.ended("completed"), e.hint_after_replies,
        c.executed("boom", "read", "write"),
    ),
    row(
        w.BACKGROUND, "The end of an operation is told once", "A background call is waited for: its result is told in "
        "one reply, and nowhere else.", TURN, a.calls_of("build"), c.ended("completed"), e.told_once("artefact 17"),
        e.never("write"),
    ),
    row(
        w.QUESTION, "A question nobody answers has its reply", "The reply says so, its neighbour is executed, the "
        "run goes on.", TURN, a.calls_of("ask_human"),
        c.ended("completed"), c.refused("ask_human", "question_unanswered"), c.executed("read"), e.not_searched,
    ),
    row(
        w.NO_LATE_SEARCH, "Nothing is looked up for an answer without tools", "The call of the last round fails, and "
        "something is known: it could not be acted on.", TURN, a.calls_of("boom"), c.ended("limit_reached"), e.no_hint,
        c.last_without_tools,
    ),
    row(
        w.TIME_RECEIPT, "A date needs a time receipt", "A dated note is refused until the clock was read in this run.",
        FINALE, a.calls_of(BRUSH), c.ended("completed"), e.time_receipt_first,
    ),
    row(
        w.DATE_MISMATCH, "Another date than today's is flagged", "A note calls another day today, on a time receipt.",
        FINALE, a.calls_of(BRUSH), c.ended("completed"), e.receipts(0, ("ok", "ok", "ok"), flag="date_mismatch"),
    ),
    row(
        w.RECEIPTS, "Receipts say what ran", "Three operations, the second fails: the third is not run.", FINALE,
        a.calls_of(BRUSH), c.ended("completed"), e.receipts(0, ("ok", "failed", "not_run")), e.listed(1, "one.md"),
    ),
    row(
        w.JAIL, "Notes stay in their folder", "Paths that lead out of it, absolute and by dots, write nothing.", FINALE,
        a.calls_of(BRUSH), c.ended("completed"), e.receipts(0, ("failed", "failed", "failed")), e.listed(1),
    ),
)  # fmt: skip
