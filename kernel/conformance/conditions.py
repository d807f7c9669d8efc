"""The rows of the matrix: what is required, the world it is tried in, what shows the attempt, and what must hold. Pure.

A condition passes when its attempt is seen in the record, the record is legal as any must be, and its own check finds
nothing.
"""

from dataclasses import dataclass
from typing import Final

from kernel.conformance import checks as c
from kernel.conformance import expectations as e
from kernel.conformance import world_set as w
from kernel.conformance.checks import Check, Tried
from kernel.conformance.worlds import World
from kernel.drivers.escalation import DEFAULT_REASON
from kernel.tools.magic_brush import BRUSH

ENVELOPE: Final = "seed 003"
TURN: Final = "seed 001 §5-6"
FINALE: Final = "seed 000"
INVALID: Final = "invalid_driver_decision"
OUTCOME: Final = "invalid_runtime_outcome"


@dataclass(frozen=True, slots=True)
class Condition:
    """One row. `tried` returns the ids of the attempts, none when it was not made; `holds` what is wrong."""

    id: str
    title: str
    about: str
    requirement: str
    world: World
    tried: Tried
    holds: Check


def row(world: World, title: str, about: str, requirement: str, tried: Tried, *checks: Check) -> Condition:
    """Return the condition of a world, which has its id."""
    return Condition(world.id, title, about, requirement, world, tried, c.all_of(c.legal, *checks))


def invalid(world: World, title: str, about: str) -> Condition:
    """Return the condition of a decision that is none: the turn fails as malformed, and nothing after it happens."""
    fails = c.turn_failed(INVALID, "runtime", OUTCOME, "envelope")
    return row(world, title, about, ENVELOPE, c.declarations, fails, c.nobody_asked, e.never("write"))


def bad_step(world: World, title: str, about: str) -> Condition:
    """Return the condition of a step that no driver and no runtime may claim."""
    fails = c.turn_failed(INVALID, "runtime")
    return row(world, title, about, ENVELOPE, c.declarations, fails, e.never("write"))


def ceiling(world: World, n: int) -> Condition:
    """Return the condition of n rounds and one request after them."""
    about = f"{n} replies with calls, then exactly one request more, which offers no tools; its answer ends the run."
    limit = c.all_of(c.ended("limit_reached"), e.limit("tool_rounds"), c.answered_with(w.ANSWER.say))
    return row(
        world, f"{n} rounds, {n + 1} requests", about, FINALE, c.after_rounds(n),
        c.requests(n + 1), c.last_without_tools, limit, c.executed(*["read"] * n),
    )  # fmt: skip


def spent(world: World, limit: str, about: str) -> Condition:
    """Return the condition of a limit other than that of the rounds: the end is the same, under its own name."""
    return row(
        world, f"Spent {limit} have the same safe end", about, FINALE, c.after_rounds(1),
        c.requests(2), c.last_without_tools, c.ended("limit_reached"), e.limit(limit), c.answered_with(w.ANSWER.say),
    )  # fmt: skip


CALLS: Final = (
    row(
        w.ANSWERED, "Every call is answered once, in call order",
        "Three calls: each has one reply, in the order of the calls, before anything else.", TURN,
        c.calls_of("read", "write"),
        c.ended("completed"), c.executed("read", "write", "read"), c.one_word_for_each, c.answered_with("All is done."),
    ),
    row(
        w.NEIGHBOURS, "An error keeps its neighbours", "The middle one of three calls fails; the others are executed.",
        TURN, c.calls_of("boom"),
        c.ended("completed"), c.executed("read", "boom", "write"), c.succeeded("write"), e.fails_as("boom", "broken"),
    ),
    row(
        w.IDENTICAL, "Identical calls of one reply are executed once", "One execution, two replies.", TURN,
        e.twice("write"),
        c.ended("completed"), c.executed("write", "read"), e.same_replies("write"), c.one_word_for_each,
    ),
    row(
        w.MALFORMED, "Malformed arguments are that call's reply",
        "Nothing is executed for it, its neighbours are, and nothing is searched for.", TURN, c.calls_of("write"),
        c.ended("completed"), c.refused("write", "invalid_arguments"), c.executed("read", "read"),
    ),
    row(
        w.CALL_IDS, "Ids of calls are made unique", "Ids that are used again, or missing: every call has its reply.",
        TURN, e.n_calls(4), c.ended("completed"), c.executed("read", "write", "read", "write"),
        c.one_word_for_each,
    ),
    row(
        w.UNPUBLISHED, "A call outside of the catalogue is refused and the turn goes on",
        "tool_unavailable is the reply; calls beside and after it are executed.", ENVELOPE, c.calls_of("ghost"),
        c.ended("completed"), c.refused("ghost", "tool_unavailable"), c.executed("read", "write"), e.not_searched,
    ),
    row(
        w.BLOCKED, "Policy is held", "A call of a blocked tool is not executed; the turn goes on.", TURN,
        c.calls_of("write"),
        c.ended("completed"), c.refused("write", "policy_blocked", status="blocked"), c.executed("read"),
        e.not_searched,
    ),
    row(
        w.DENIED, "A no is held", "A person says no to a call: it is not executed; the turn goes on.", TURN,
        c.calls_of("write"), c.ended("completed"), e.denied_by_person("write"), c.executed("read"), e.not_searched,
    ),
    row(
        w.NAMESPACE_OFF, "A namespace that is off offers nothing", "Its tool is not offered, and a call of it refused.",
        ENVELOPE, c.calls_of("listing"),
        c.ended("completed"), c.not_offered("listing"), c.refused("listing", "tool_unavailable"), c.executed("read"),
    ),
    row(
        w.NOT_GRANTED, "What is not granted is not offered", "A registered, requested tool without a grant.", ENVELOPE,
        c.calls_of("write"),
        c.ended("completed"), c.not_offered("write"), c.refused("write", "tool_unavailable"), c.executed("read"),
    ),
    row(
        w.NOT_REQUESTED, "What is not requested is not offered", "A registered tool with a grant, not requested here.",
        ENVELOPE, c.calls_of("write"),
        c.ended("completed"), c.not_offered("write"), c.refused("write", "tool_unavailable"), c.executed("read"),
    ),
)  # fmt: skip

STEPS: Final = (
    row(
        w.BUDGET, "The budget of calls holds", "Two calls may be made: the third is refused, the turn goes on.",
        ENVELOPE, e.n_calls(3),
        c.ended("completed"), c.refused("write", "tool_call_limit_exceeded"), c.executed("read", "read"),
    ),
    row(
        w.GUESS_COSTS, "A guess at a tool costs budget", "One call may be made, and it went into a tool not offered.",
        ENVELOPE, c.calls_of("ghost"),
        c.ended("completed"), c.refused("ghost", "tool_unavailable"), c.refused("read", "tool_call_limit_exceeded"),
        c.executed(),
    ),
    row(
        w.STEP_COSTS_NOTHING, "A refused step costs no budget", "One call may be made; a refused step leaves it there.",
        ENVELOPE, c.declarations,
        c.ended("completed"), c.refused("write", "step_limit_exceeded"), c.executed("read"),
    ),
    row(
        w.STEP_PAST, "A step past the ceiling is refused", "Two steps: a call at step 2 is refused, the turn goes on.",
        ENVELOPE, c.declarations, c.refused("write", "step_limit_exceeded"), c.executed("read"),
        c.ended("limit_reached"),
    ),
    bad_step(w.STEP_BEHIND, "A step behind the loop is malformed", "At position 1 a driver claims step 0."),
    row(
        w.STEP_EQUAL, "A step at the loop's position is fine", "Steps 0 and 1, claimed where the loop is.", ENVELOPE,
        c.declarations, c.ended("completed"), c.executed("read", "write"),
    ),
    row(
        w.STEP_AHEAD, "A step ahead moves nothing", "Step 2 is claimed at position 0; the loop then is at 1, and all "
        "three rounds can be used.", ENVELOPE, c.declarations,
        c.executed("read", "write", "read"), c.requests(4), c.ended("limit_reached"),
    ),
    bad_step(w.STEP_BOOL, "A step is no truth value", "True is claimed as a step."),
    bad_step(w.STEP_NEGATIVE, "A step is not below zero", "-1 is claimed as a step."),
    bad_step(w.STEP_TEXT, "A step is no text", '"0" is claimed as a step.'),
    row(
        w.STEP_OF_COPY, "A copy is refused for its own step", "Two identical calls, the second past the ceiling.",
        ENVELOPE, c.declarations, c.refused("write", "step_limit_exceeded", 1), c.executed("write", "read"),
    ),
    row(
        w.CONTINUED, "A continued run keeps its budget", "The run goes on as new after each round; in all it "
        "may make two calls.", ENVELOPE, e.continuations,
        c.ended("completed"), c.refused("write", "tool_call_limit_exceeded"), c.executed("read", "read"),
    ),
    row(
        w.ORDER_STEP, "The step is judged first", "Past the step, over budget and not offered: the step refuses it.",
        ENVELOPE, c.declarations, c.refused("ghost", "step_limit_exceeded"), c.executed("read"),
    ),
    row(
        w.ORDER_BUDGET, "The budget is judged before the catalogue", "Over budget and not offered.", ENVELOPE,
        c.calls_of("ghost"), c.refused("ghost", "tool_call_limit_exceeded"), c.executed("read"), c.ended("completed"),
    ),
)  # fmt: skip

ASKS: Final = (
    row(
        w.ASK, "An ask ends the run", "A granted ask: the run ends escalated, for the reason given.", ENVELOPE,
        e.asks, c.escalated(w.REASON), c.executed("read"), c.requests(2),
    ),
    row(
        w.ASK_FIRST, "An ask may come first", "The first decision of all is an ask.", ENVELOPE,
        e.asks, c.escalated(w.REASON), c.executed(), c.requests(1),
    ),
    row(
        w.ASK_UNGRANTED, "Without a grant the name is a tool that is not offered",
        "The affordance is requested, not granted, and called by its name: refused, and the turn goes on.", ENVELOPE,
        c.calls_of("escalate"),
        c.not_offered("escalate"), c.refused("escalate", "tool_unavailable"), c.nobody_asked, c.ended("completed"),
        c.executed("read"),
    ),
    row(
        w.REASON_CUT, "A reason is cut to 512 UTF-16 units", "The 512th unit is the first half of a pair: both go.",
        ENVELOPE, e.asks, c.escalated("a" * 511),
    ),
    row(
        w.REASON_UNREADABLE, "A reason that cannot be read has a default", "The reason is a number.", ENVELOPE,
        e.asks, c.escalated(DEFAULT_REASON),
    ),
    invalid(w.REASON_EMPTY, "A declared reason is not empty", "The loop reads a declared reason strictly."),
    invalid(w.REASON_OVER, "A declared reason has at most 512 units", "513 units are declared."),
    row(
        w.REASON_FULL, "A declared reason may have 512 units", "512 units are declared.", ENVELOPE, c.declarations,
        c.escalated("r" * 512),
    ),
    row(
        w.FORGED_ASK, "A forged ask fails the turn", "The run has no grant, and its driver declares an escalation.",
        ENVELOPE, c.declarations, c.turn_failed("tool_unavailable", "envelope"), c.nobody_asked, e.never("write"),
    ),
    row(
        w.ASK_UNREQUESTED, "An ask that was not requested fails the turn", "Granted, but not in this run's catalogue.",
        ENVELOPE, c.declarations, c.turn_failed("tool_unavailable", "envelope"), c.nobody_asked,
        c.not_offered("escalate"),
    ),
    row(
        w.ASK_OVER_BUDGET, "An ask needs no budget", "All calls of the budget are used when the ask is made.", ENVELOPE,
        e.asks, c.escalated(w.REASON), c.executed("read"),
    ),
    row(
        w.FORWARDED, "A forwarded ask fails loudly", "A granted ask passed on as a call: nobody was asked, and it says "
        "so.", ENVELOPE, e.forwards,
        e.fails_as("escalate", "escalation_not_terminated"), c.nobody_asked, e.never("escalate"),
    ),
    row(
        w.FORWARDED_THEN_ASKED, "A forwarded ask does not hide a declared one", "The same ask twice, passed on, then "
        "declared: the first fails loudly, the second ends the run.", ENVELOPE, e.forwards,
        e.fails_as("escalate", "escalation_not_terminated"), c.escalated(w.REASON), c.requests(1),
    ),
    row(
        w.BATCH, "What precedes an ask is done, what follows is not", "read, ask, write in this order.", ENVELOPE,
        e.asks, c.escalated(w.REASON), c.executed("read"), e.denied_after_ask("write"), e.n_denied(1),
    ),
    row(
        w.TWO_ASKS, "The first ask counts", "Two asks: the reason of the first; the second is counted.", ENVELOPE,
        e.asks, c.escalated("The first?"), e.n_denied(1),
    ),
    row(
        w.ASK_METADATA, "An ask keeps its metadata", "What the driver gives with its ask stands in the record.",
        ENVELOPE, c.declarations, c.escalated(w.REASON), e.metadata({"ticket": "T-1", "tries": [1, 2]}),
    ),
)  # fmt: skip

DECISIONS: Final = (
    row(
        w.COMPLETION, "A completion ends the run", "With its output as the answer, and its metadata in the record.",
        ENVELOPE, c.declarations, c.ended("completed"), c.answered_with("It is done."), e.metadata({"entries": 3}),
    ),
    invalid(w.EMPTY_OUTPUT, "A completion says something", "The output is blank."),
    invalid(w.UNKNOWN_KEY, "A decision has no further keys", "A completion brings a key of its own."),
    invalid(w.UNKNOWN_TYPE, "A decision is of a known type", "A decision of type finish."),
    invalid(w.WRONG_TYPE, "A decision's fields are of their types", "The output is a list."),
    invalid(w.METADATA, "Metadata can be written down", "The metadata hold what no JSON can."),
    row(
        w.DECLARED_FAILURE, "A declared failure fails the run", "The driver ends the run as failed, with its error.",
        ENVELOPE, c.declarations, c.ended("failed"), e.error("there is no such list"), e.never("write"),
    ),
    row(
        w.RAISES, "What drives the run breaks", "A driver, or a runtime, raises: the turn says which it was.", ENVELOPE,
        c.declarations, c.turn_failed("driver_failed", "runtime", "runtime_failed", "envelope"), e.never("write"),
    ),
    row(
        w.SEAT_FAILS, "The occupant of the seat fails", "The model, the script or the harness gives up after a call.",
        TURN, e.seat_failed, c.ended("failed"), c.executed("read"), e.one_failed_turn,
    ),
    row(
        w.AFTER_END, "After the end nothing is let through", "A call is made when the run is over.", ENVELOPE,
        e.late_calls, c.ended("completed"), e.turned_away, c.executed("read"),
    ),
    row(
        w.SECOND_END, "A run ends once", "A run that is over is cancelled, or found broken.", TURN,
        c.attacked, c.ended("completed"), e.withstood,
    ),
    row(
        w.LATE_RESULT, "A run that is over takes in nothing", "A result and a reply arrive after the end.", TURN,
        c.attacked, c.ended("completed"), e.withstood,
    ),
    row(
        w.ANOTHERS_REPLY, "A result is taken for its own call only", "An edge answers for a call that is not running.",
        TURN, c.calls_of("read"), c.ended("failed"), e.never("write"), e.no_reply_to("another"),
    ),
)  # fmt: skip

ENDS: Final = (
    ceiling(w.CEILING_1, 1),
    ceiling(w.CEILING_2, 2),
    ceiling(w.CEILING_8, 8),
    row(
        w.LAST_RECEIPT, "The last result stands in the last request", "The call of the last round succeeded.", FINALE,
        c.after_rounds(2), c.said_in_last("The entry is written."), c.last_without_tools, c.ended("limit_reached"),
    ),
    row(
        w.LAST_FAILURE, "The last failure stands in the last request", "The call of the last round failed.", FINALE,
        c.after_rounds(2), c.said_in_last("the list is locked"), c.last_without_tools, c.ended("limit_reached"),
    ),
    row(
        w.FINALE_CALLS, "Calls in the last reply are not executed", "The answer says so, or is a fixed text.", FINALE,
        e.finale_calls, c.ended("limit_reached"), e.never("write"), e.some_answer, c.requests(3),
    ),
    row(
        w.FINALE_ASK, "An ask in the last reply is none", "The last request offers no affordance.", ENVELOPE,
        e.finale_calls, c.nobody_asked, c.ended("limit_reached"), e.some_answer,
    ),
    row(
        w.FINALE_FAILS, "The last request fails", "A fixed text that lists the results stands for the answer.", FINALE,
        e.finale_failed, c.ended("limit_reached"), c.answered_with("read"), e.limit("tool_rounds"),
    ),
    spent(w.TOKENS_SPENT, "tokens", "The model's tokens are spent with the first reply."),
    spent(w.TIME_SPENT, "time", "The run's time is over after the first round."),
    row(
        w.AT_LIMIT_FAIL, "A run may rather fail at its limit", "at_limit is fail: no further request.", ENVELOPE,
        c.after_rounds(2), c.turn_failed("step_limit_exceeded", "runtime"), c.requests(2), c.executed("read", "read"),
    ),
    row(
        w.CANCELLED, "A cancellation answers what is pending", "Cancelled while a call is executed: replies that blame "
        "nobody, one end.", TURN, c.calls_of("slow"), c.ended("cancelled"), e.never("write"), e.cancelled("slow"),
    ),
    row(
        w.CANCELLED_ASKING, "A cancellation ends a silence", "The seat does not answer: one end, and the request is "
        "closed in the record.", TURN, e.unanswered, c.ended("cancelled"), c.executed("read"),
        e.request_closed,
    ),
)  # fmt: skip

BESIDE: Final = (
    row(
        w.HINTED, "A hint stands after the last reply", "A call fails and something is known: one message, after all "
        "replies, in the very next request.", TURN, c.calls_of("boom"), c.ended("completed"), e.hint_after_replies,
        c.executed("boom", "read", "write"),
    ),
    row(
        w.BACKGROUND, "The end of an operation is told once", "A background call is waited for: its result is told in "
        "one reply, and nowhere else.", TURN, c.calls_of("build"), c.ended("completed"), e.told_once("artefact 17"),
        e.never("write"),
    ),
    row(
        w.QUESTION, "A question nobody answers has its reply", "The reply says so, its neighbour is executed, the "
        "run goes on.", TURN, c.calls_of("ask_human"),
        c.ended("completed"), c.refused("ask_human", "question_unanswered"), c.executed("read"), e.not_searched,
    ),
    row(
        w.NO_LATE_SEARCH, "Nothing is looked up for an answer without tools", "The call of the last round fails, and "
        "something is known: it could not be acted on.", TURN, c.calls_of("boom"), c.ended("limit_reached"), e.no_hint,
        c.last_without_tools,
    ),
    row(
        w.TIME_RECEIPT, "A date needs a time receipt", "A dated note is refused until the clock was read in this run.",
        FINALE, c.calls_of(BRUSH), c.ended("completed"), e.time_receipt_first,
    ),
    row(
        w.DATE_MISMATCH, "Another date than today's is flagged", "A note calls another day today, on a time receipt.",
        FINALE, c.calls_of(BRUSH), c.ended("completed"), e.receipts(0, ("ok", "ok", "ok"), flag="date_mismatch"),
    ),
    row(
        w.RECEIPTS, "Receipts say what ran", "Three operations, the second fails: the third is not run.", FINALE,
        c.calls_of(BRUSH), c.ended("completed"), e.receipts(0, ("ok", "failed", "not_run")), e.listed(1, "one.md"),
    ),
    row(
        w.JAIL, "Notes stay in their folder", "Paths that lead out of it, absolute and by dots, write nothing.", FINALE,
        c.calls_of(BRUSH), c.ended("completed"), e.receipts(0, ("failed", "failed", "failed")), e.listed(1),
    ),
)  # fmt: skip

CONDITIONS: Final[tuple[Condition, ...]] = (*CALLS, *STEPS, *ASKS, *DECISIONS, *ENDS, *BESIDE)
