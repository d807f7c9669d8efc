"""Conditions of the envelope: steps and budgets, asks, decisions and outcomes."""

from typing import Final

from kernel.conformance import attempts as a
from kernel.conformance import checks as c
from kernel.conformance import expectations as e
from kernel.conformance import world_set as w
from kernel.conformance.condition import ENVELOPE, TURN, bad_step, invalid, row
from kernel.drivers.escalation import DEFAULT_REASON

STEPS: Final = (
    row(
        w.BUDGET, "The budget of calls holds", "Two calls may be made: the third is refused, the turn goes on.",
        ENVELOPE, a.n_calls(3),
        c.ended("completed"), c.refused("write", "tool_call_limit_exceeded"), c.executed("read", "read"),
    ),
    row(
        w.GUESS_COSTS, "A guess at a tool costs budget", "One call may be made, and it went into a tool not offered.",
        ENVELOPE, a.calls_of("ghost"),
        c.ended("completed"), c.refused("ghost", "tool_unavailable"), c.refused("read", "tool_call_limit_exceeded"),
        c.executed(),
    ),
    row(
        w.STEP_COSTS_NOTHING, "A refused step costs no budget", "One call may be made; a refused step leaves it there.",
        ENVELOPE, a.declarations,
        c.ended("completed"), c.refused("write", "step_limit_exceeded"), c.executed("read"),
    ),
    row(
        w.STEP_PAST, "A step past the ceiling is refused", "Two steps: a call at step 2 is refused, the turn goes on.",
        ENVELOPE, a.declarations, c.refused("write", "step_limit_exceeded"), c.executed("read"),
        c.ended("limit_reached"), e.step_told("write", 2),
    ),
    bad_step(w.STEP_BEHIND, "A step behind the loop is malformed", "At position 1 a driver claims step 0."),
    row(
        w.STEP_EQUAL, "A step at the loop's position is fine", "Steps 0 and 1, claimed where the loop is.", ENVELOPE,
        a.declarations, c.ended("completed"), c.executed("read", "write"), e.step_told("read", 0),
        e.step_told("write", 1),
    ),
    row(
        w.STEP_AHEAD, "A step ahead moves nothing", "Step 2 is claimed at position 0; the loop then is at 1, and all "
        "three rounds can be used.", ENVELOPE, a.declarations,
        c.executed("read", "write", "read"), c.requests(4), c.ended("limit_reached"), e.step_told("read", 2),
        e.step_told("read", None, 1),
    ),
    bad_step(w.STEP_BOOL, "A step is no truth value", "True is claimed as a step."),
    bad_step(w.STEP_NEGATIVE, "A step is not below zero", "-1 is claimed as a step."),
    bad_step(w.STEP_TEXT, "A step is no text", '"0" is claimed as a step.'),
    row(
        w.STEP_OF_COPY, "A copy is refused for its own step", "Two identical calls, the second past the ceiling.",
        ENVELOPE, a.declarations, c.refused("write", "step_limit_exceeded", 1), c.executed("write", "read"),
    ),
    row(
        w.CONTINUED, "A continued run keeps its budget", "The run goes on as new after each round; in all it "
        "may make two calls.", ENVELOPE, a.continuations,
        c.ended("completed"), c.refused("write", "tool_call_limit_exceeded"), c.executed("read", "read"),
    ),
    row(
        w.ORDER_STEP, "The step is judged first", "Past the step, over budget and not offered: the step refuses it.",
        ENVELOPE, a.declarations, c.refused("ghost", "step_limit_exceeded"), c.executed("read"),
    ),
    row(
        w.ORDER_BUDGET, "The budget is judged before the catalogue", "Over budget and not offered.", ENVELOPE,
        a.calls_of("ghost"), c.refused("ghost", "tool_call_limit_exceeded"), c.executed("read"), c.ended("completed"),
    ),
)  # fmt: skip

ASKS: Final = (
    row(
        w.ASK, "An ask ends the run", "A granted ask: the run ends escalated, for the reason given.", ENVELOPE,
        a.asks, c.escalated(w.REASON), c.executed("read"), c.requests(2),
    ),
    row(
        w.ASK_FIRST, "An ask may come first", "The first decision of all is an ask.", ENVELOPE,
        a.asks, c.escalated(w.REASON), c.executed(), c.requests(1),
    ),
    row(
        w.ASK_UNGRANTED, "Without a grant the name is a tool that is not offered",
        "The affordance is requested, not granted, and called by its name: refused, and the turn goes on.", ENVELOPE,
        a.calls_of("escalate"),
        c.not_offered("escalate"), c.refused("escalate", "tool_unavailable"), c.nobody_asked, c.ended("completed"),
        c.executed("read"),
    ),
    row(
        w.REASON_CUT, "A reason is cut to 512 UTF-16 units", "The 512th unit is the first half of a pair: both go.",
        ENVELOPE, a.asks, c.escalated("a" * 511),
    ),
    row(
        w.REASON_UNREADABLE, "A reason that cannot be read has a default", "The reason is a number.", ENVELOPE,
        a.asks, c.escalated(DEFAULT_REASON),
    ),
    invalid(w.REASON_EMPTY, "A declared reason is not empty", "The loop reads a declared reason strictly."),
    invalid(w.REASON_OVER, "A declared reason has at most 512 units", "513 units are declared."),
    row(
        w.REASON_FULL, "A declared reason may have 512 units", "512 units are declared.", ENVELOPE, a.declarations,
        c.escalated("r" * 512),
    ),
    row(
        w.FORGED_ASK, "A forged ask fails the turn", "The run has no grant, and its driver declares an escalation.",
        ENVELOPE, a.declarations, c.turn_failed("tool_unavailable", "envelope"), c.nobody_asked,
        e.closed_as("escalate", "run_failed"),
    ),
    row(
        w.ASK_UNREQUESTED, "An ask that was not requested fails the turn", "Granted, but not in this run's catalogue.",
        ENVELOPE, a.declarations, c.turn_failed("tool_unavailable", "envelope"), c.nobody_asked,
        c.not_offered("escalate"),
    ),
    row(
        w.ASK_BLOCKED, "Policy may forbid asking", "Granted and requested, but blocked: it is not offered.",
        ENVELOPE, a.calls_of("escalate"), c.not_offered("escalate"), c.refused("escalate", "tool_unavailable"),
        c.nobody_asked, c.ended("completed"), c.executed("read"),
    ),
    row(
        w.ASK_OVER_BUDGET, "An ask needs no budget", "All calls of the budget are used when the ask is made.", ENVELOPE,
        a.asks, c.escalated(w.REASON), c.executed("read"),
    ),
    row(
        w.FORWARDED, "A forwarded ask fails loudly", "A granted ask passed on as a call: nobody was asked, and it says "
        "so.", ENVELOPE, a.forwards,
        e.fails_as("escalate", "escalation_not_terminated"), c.nobody_asked, e.never("escalate"),
    ),
    row(
        w.FORWARDED_THEN_ASKED, "A forwarded ask does not hide a declared one", "The same ask twice, passed on, then "
        "declared: the first fails loudly, the second ends the run.", ENVELOPE, a.forwards,
        e.fails_as("escalate", "escalation_not_terminated"), c.escalated(w.REASON), c.requests(1),
    ),
    row(
        w.BATCH, "What precedes an ask is done, what follows is not", "read, ask, write in this order.", ENVELOPE,
        a.asks, c.escalated(w.REASON), c.executed("read"), e.denied_after_ask("write"), e.n_denied(1),
    ),
    row(
        w.TWO_ASKS, "The first ask counts", "Two asks: the reason of the first; the second is counted.", ENVELOPE,
        a.asks, c.escalated("The first?"), e.n_denied(1),
    ),
    row(
        w.ASK_METADATA, "An ask keeps its metadata", "What the driver gives with its ask stands in the record.",
        ENVELOPE, a.declarations, c.escalated(w.REASON), e.metadata({"ticket": "T-1", "tries": [1, 2]}),
    ),
)  # fmt: skip

DECISIONS: Final = (
    row(
        w.COMPLETION, "A completion ends the run", "With its output as the answer, and its metadata in the record.",
        ENVELOPE, a.declarations, c.ended("completed"), c.answered_with("It is done."), e.metadata({"entries": 3}),
    ),
    invalid(w.EMPTY_OUTPUT, "A completion says something", "The output is blank."),
    invalid(w.UNKNOWN_KEY, "A decision has no further keys", "A completion brings a key of its own."),
    invalid(w.UNKNOWN_TYPE, "A decision is of a known type", "A decision of type finish."),
    invalid(w.WRONG_TYPE, "A decision's fields are of their types", "The output is a list."),
    invalid(w.METADATA, "Metadata can be written down", "The metadata hold what no JSON can."),
    row(
        w.DECLARED_FAILURE, "A declared failure fails the run", "The driver ends the run as failed, with its error.",
        ENVELOPE, a.declarations, c.ended("failed"), e.error("there is no such list"), e.never("write"),
    ),
    row(
        w.RAISES, "What drives the run breaks", "A driver, or a runtime, raises: the turn says which it was.", ENVELOPE,
        a.declarations, c.turn_failed("driver_failed", "runtime", "runtime_failed", "envelope"), e.never("write"),
    ),
    row(
        w.SEAT_FAILS, "The occupant of the seat fails", "The model, the script or the harness gives up after a call.",
        TURN, a.seat_failed, c.ended("failed"), c.executed("read"), e.one_failed_turn,
    ),
    row(
        w.AFTER_END, "After the end nothing is let through", "A call is made when the run is over.", ENVELOPE,
        a.late_calls, c.ended("completed"), e.turned_away, c.executed("read"),
    ),
    row(
        w.SECOND_END, "A run ends once", "A run that is over is cancelled, or found broken.", TURN,
        a.attacked, c.ended("completed"), e.withstood,
    ),
    row(
        w.LATE_RESULT, "A run that is over takes in nothing", "A result and a reply arrive after the end.", TURN,
        a.attacked, c.ended("completed"), e.withstood,
    ),
    row(
        w.ANOTHERS_REPLY, "A result is taken for its own call only", "An edge answers for a call that is not running.",
        TURN, a.calls_of("read"), c.ended("failed"), e.never("write"), e.no_reply_to("another"),
    ),
)  # fmt: skip
