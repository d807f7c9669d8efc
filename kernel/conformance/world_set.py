"""The worlds of the matrix, each as small as its condition allows."""

from typing import Any, Final

from kernel.conformance.worlds import UNSERIALISABLE, Move, Round, Tool, World
from kernel.drivers.escalation import ESCALATE
from kernel.tools.brush_operations import TAKE_TIME
from kernel.tools.magic_brush import BRUSH

READ: Final = Tool("read", gives="There are three entries.")
WRITE: Final = Tool("write", gives="The entry is written.")
BOOM: Final = Tool("boom", fails="LockError: the list is locked (code 5)")
TOOLS: Final = (READ, WRITE, BOOM)
MAY_ASK: Final[dict[str, Any]] = {"own": (ESCALATE,), "grants": ("*", ESCALATE)}
BRUSHES: Final[dict[str, Any]] = {"own": (BRUSH,)}
REASON: Final = "May the list be emptied?"
LONG: Final = "a" * 511 + "\U0001f600" + "b" * 40  # its pair lies across the limit


def call(tool: str, text: str, **about: Any) -> Move:
    """Return a call whose arguments are found again in the history."""
    return Move(tool, {"text": text}, **about)


def ask(reason: Any = REASON, **about: Any) -> Move:
    """Return a call of the affordance."""
    return Move(ESCALATE, {"reason": reason}, **about)


def calls(*moves: Move, say: str = "") -> Round:
    return Round(moves, say=say)


def world(world_id: str, *rounds: Round, tools: tuple[Tool, ...] = TOOLS, **about: Any) -> World:
    return World(world_id, rounds, tools, **about)


def decides(world_id: str, decision: dict[str, Any], **about: Any) -> World:
    """Return a world in which one decision is given as it stands after a first call."""
    return world(world_id, calls(call("read", "first")), Round(decide=decision), **about)


def brush(*operations: dict[str, Any], **more: str) -> Move:
    """Return a call of the brush."""
    return Move(BRUSH, {"operations": list(operations), **more})


def _write(path: str) -> dict[str, Any]:
    return {"op": "write", "path": path, "text": "Three entries."}


def rounds_of(n: int, last: str = "read") -> tuple[Round, ...]:
    """Return rounds with a call each; the last calls `last`."""
    return tuple(calls(call(last if number == n else "read", f"round {number}")) for number in range(1, n + 1))


# ---- calls and their replies -----------------------------------------------------------------------------

ANSWERED = world("answered", calls(call("read", "a"), call("write", "b"), call("read", "c")), Round(say="All is done."))
NEIGHBOURS = world("neighbours", calls(call("read", "a"), call("boom", "b"), call("write", "c")))
IDENTICAL = world("identical", calls(call("write", "same"), call("write", "same"), call("read", "other")))
MALFORMED = world("malformed", calls(call("read", "a"), Move("write", text='{"text": '), call("read", "c")))
CALL_IDS = world(
    "call-ids",
    calls(call("read", "a", call_id="x"), call("write", "b", call_id="x"), call("read", "c", call_id="")),
    calls(call("write", "d", call_id="x")),
)
UNPUBLISHED = world("unpublished", calls(call("ghost", "a"), call("read", "b")), calls(call("write", "c")))
BLOCKED = world("blocked", calls(call("write", "a"), call("read", "b")), blocked=("write",))
DENIED = world("denied", calls(call("write", "a"), call("read", "b")), approval=("write",))
NAMESPACE_OFF = world(
    "namespace-off",
    calls(call("listing", "a"), call("read", "b")),
    tools=(*TOOLS, Tool("listing", gives="a listing", server="lists")),
    namespaces_off=("lists",),
)
NOT_GRANTED = world("not-granted", calls(call("write", "a"), call("read", "b")), grants=("read",))
NOT_REQUESTED = world("not-requested", calls(call("write", "a"), call("read", "b")), unrequested=("write",))

# ---- steps and budgets -----------------------------------------------------------------------------------

TWO_STEPS: Final = {"max_turns": 2}
BUDGET = world(
    "call-budget", calls(call("read", "a"), call("read", "b"), call("write", "c")), limits={"max_tool_calls": 2}
)
GUESS_COSTS = world("guess-costs", calls(call("ghost", "a"), call("read", "b")), limits={"max_tool_calls": 1})
STEP_COSTS_NOTHING = world(
    "step-costs-nothing",
    calls(call("write", "a", step=5)),
    calls(call("read", "b")),
    limits={"max_turns": 3, "max_tool_calls": 1},
)
STEP_PAST = world("step-past", calls(call("write", "a", step=2)), calls(call("read", "b")), limits=TWO_STEPS)
STEP_BEHIND = world("step-behind", calls(call("read", "a")), calls(call("write", "b", step=0)))
STEP_EQUAL = world("step-equal", calls(call("read", "a", step=0)), calls(call("write", "b", step=1)))
STEP_AHEAD = world(
    "step-ahead",
    calls(call("read", "a", step=2)),
    calls(call("write", "b", step=1)),
    calls(call("read", "c")),
    limits={"max_turns": 3},
)
STEP_BOOL = world("step-bool", calls(call("write", "a", step=True)))
STEP_NEGATIVE = world("step-negative", calls(call("write", "a", step=-1)))
STEP_TEXT = world("step-text", calls(call("write", "a", step="0")))
STEP_OF_COPY = world(
    "step-of-copy", calls(call("write", "same"), call("write", "same", step=2), call("read", "b")), limits=TWO_STEPS
)
CONTINUED = world(
    "continued", *rounds_of(2), calls(call("write", "c")), limits={"max_tool_calls": 2, "turns_per_workflow": 1}
)
ORDER_STEP = world(
    "order-step",
    calls(call("read", "a")),
    calls(call("ghost", "b", step=9)),
    limits={"max_turns": 3, "max_tool_calls": 1},
)
ORDER_BUDGET = world("order-budget", calls(call("read", "a"), call("ghost", "b")), limits={"max_tool_calls": 1})

# ---- asks ------------------------------------------------------------------------------------------------

ASK = world("ask", calls(call("read", "a")), calls(ask()), **MAY_ASK)
ASK_FIRST = world("ask-first", calls(ask()), **MAY_ASK)
ASK_UNGRANTED = world("ask-ungranted", calls(ask()), calls(call("read", "a")), own=(ESCALATE,))
ASK_UNREQUESTED = decides("ask-unrequested", {"type": "escalate", "reason": REASON}, grants=("*", ESCALATE))
ASK_BLOCKED = world("ask-blocked", calls(ask()), calls(call("read", "a")), blocked=(ESCALATE,), **MAY_ASK)
ASK_OVER_BUDGET = world(
    "ask-over-budget", calls(call("read", "a")), calls(ask()), limits={"max_tool_calls": 1}, **MAY_ASK
)
REASON_CUT = world("reason-cut", calls(ask(f"  {LONG}")), **MAY_ASK)
REASON_UNREADABLE = world("reason-unreadable", calls(ask(5)), **MAY_ASK)
REASON_EMPTY = decides("reason-empty", {"type": "escalate", "reason": " "}, **MAY_ASK)
REASON_OVER = decides("reason-over", {"type": "escalate", "reason": "r" * 513}, **MAY_ASK)
REASON_FULL = decides("reason-full", {"type": "escalate", "reason": "r" * 512}, **MAY_ASK)
FORGED_ASK = decides("forged-ask", {"type": "escalate", "reason": REASON}, own=(ESCALATE,))
FORWARDED = world("forwarded", calls(ask(forward=True)), calls(call("read", "a")), **MAY_ASK)
FORWARDED_THEN_ASKED = world("forwarded-then-asked", calls(ask(forward=True), ask()), **MAY_ASK)
BATCH = world("batch", calls(call("read", "a"), ask(), call("write", "b")), **MAY_ASK)
TWO_ASKS = world("two-asks", calls(ask("The first?"), ask("The second?")), **MAY_ASK)
ASK_METADATA = decides(
    "ask-metadata", {"type": "escalate", "reason": REASON, "metadata": {"ticket": "T-1", "tries": [1, 2]}}, **MAY_ASK
)

# ---- decisions and outcomes ------------------------------------------------------------------------------

COMPLETION = decides("completion", {"type": "complete", "output": "It is done.", "metadata": {"entries": 3}})
EMPTY_OUTPUT = decides("empty-output", {"type": "complete", "output": " "})
UNKNOWN_KEY = decides("unknown-key", {"type": "complete", "output": "Done.", "approved": True})
UNKNOWN_TYPE = decides("unknown-type", {"type": "finish", "output": "Done."})
WRONG_TYPE = decides("wrong-type", {"type": "complete", "output": ["Done."]})
METADATA = decides("metadata", {"type": "complete", "output": "Done.", "metadata": {"handle": UNSERIALISABLE}})
DECLARED_FAILURE = decides("declared-failure", {"type": "fail", "error": "there is no such list"})
RAISES = world("raises", calls(call("read", "first")), Round(raises=True))
SEAT_FAILS = world("seat-fails", calls(call("read", "first")), Round(fails=True))
AFTER_END = world("after-end", calls(call("read", "a")), Round(say="Done."), attack="call after the end")
SECOND_END = world("second-end", calls(call("read", "a")), Round(say="Done."), attack="second end")
LATE_RESULT = world("late-result", calls(call("read", "a")), Round(say="Done."), attack="late result")
ANOTHERS_REPLY = world("anothers-reply", calls(call("read", "a"), call("write", "b")), attack="reply for another")

# ---- the end of the rounds -------------------------------------------------------------------------------

ANSWER: Final = Round(say="Three entries were read.")
CEILING_1 = world("ceiling-1", *rounds_of(1), ANSWER, limits={"max_turns": 1})
CEILING_2 = world("ceiling-2", *rounds_of(2), ANSWER, limits={"max_turns": 2})
CEILING_8 = world("ceiling-8", *rounds_of(8), ANSWER, limits={"max_turns": 8})
LAST_RECEIPT = world("last-receipt", *rounds_of(2, "write"), ANSWER, limits=TWO_STEPS)
LAST_FAILURE = world("last-failure", *rounds_of(2, "boom"), ANSWER, limits=TWO_STEPS)
FINALE_CALLS = world("finale-calls", *rounds_of(2), calls(call("write", "once more")), limits=TWO_STEPS)
FINALE_ASK = world("finale-ask", *rounds_of(2), calls(ask()), limits=TWO_STEPS, **MAY_ASK)
FINALE_FAILS = world("finale-fails", *rounds_of(2), Round(fails=True), limits=TWO_STEPS)
AT_LIMIT_FAIL = world("at-limit-fail", *rounds_of(2), ANSWER, limits={"max_turns": 2, "at_limit": "fail"})
TOKENS_SPENT = world("tokens-spent", *rounds_of(1), ANSWER, limits={"run_tokens": 1})
TIME_SPENT = world(
    "time-spent",
    *rounds_of(1),
    ANSWER,
    tools=(Tool("read", gives="There are three entries.", takes_ms=60_000),),
    limits={"run_ms": 30_000},
)
CANCELLED = world(
    "cancelled",
    calls(call("read", "a"), call("slow", "b"), call("write", "c")),
    tools=(*TOOLS, Tool("slow", waits=True)),
    cancelled=True,
)
CANCELLED_ASKING = world("cancelled-asking", calls(call("read", "a")), Round(hangs=True), cancelled=True)

# ---- what is told beside the replies, and the clock ------------------------------------------------------

HINTED = world(
    "hinted", calls(call("boom", "a"), call("read", "b")), calls(call("write", "c")), hint="Run `unlock` before it."
)
BACKGROUND = world(
    "background",
    calls(call("build", "a")),
    calls(Move("await_operation", {"operation_id": "op-3"})),
    calls(call("read", "b")),
    tools=(*TOOLS, Tool("build", gives="built: artefact 17", background=True)),
    own=("await_operation",),
)

QUESTION = world(
    "question",
    calls(Move("ask_human", {"question": "Which entry?"}), call("read", "b")),
    own=("ask_human",),
    limits={"person_timeout_ms": 200},
)
NO_LATE_SEARCH = world("no-late-search", *rounds_of(1, "boom"), ANSWER, hint="Run `unlock`.", limits={"max_turns": 1})

TODAY: Final = "2027-01-15"  # at the clock of every world, in both zones
TAKE: Final = {"op": TAKE_TIME}
NOTE: Final = {"op": "write", "path": "log.md", "text": f"Today is {TODAY}.", "dated": True}
TIME_RECEIPT = world(
    "time-receipt",
    calls(brush(NOTE)),
    calls(brush({"op": "list"})),
    calls(brush(TAKE)),
    calls(brush({**NOTE, "path": "later.md"})),
    **BRUSHES,
)
DATE_MISMATCH = world(
    "date-mismatch",
    calls(brush(TAKE, {**NOTE, "text": "Today is 2025-01-09."}, {"op": "read", "path": "log.md"})),
    **BRUSHES,
)
RECEIPTS = world(
    "receipts",
    calls(brush(_write("one.md"), {"op": "read", "path": "nowhere.md"}, _write("two.md"))),
    calls(brush({"op": "list"})),
    **BRUSHES,
)
JAIL = world(
    "jail",
    calls(brush(_write("../out.md"), _write("/out.md"), _write("a/../../out.md"), on_failure="go_on")),
    calls(brush({"op": "list"})),
    **BRUSHES,
)

WORLDS: Final = tuple(value for value in dict(globals()).values() if isinstance(value, World))
