"""Rows of the special paths: operations, people, delegates, plans, and what the end of a run leaves open."""

from collections.abc import Sequence
from typing import Any

import pytest

from debugger.queries.live import Cursor, Shown, changes_since, cut_window
from debugger.queries.rows import Row
from debugger.queries.timeline import build_timeline
from tests.knowledge.streams import run_of

Told = tuple[str, dict[str, Any]]
BUILD = {"call_id": "c1", "operation_id": "op-1", "tool": "shell_background"}
STARTED: tuple[Told, ...] = (
    ("tool.requested", {"call_id": "c1", "tool": "shell_background", "data": {"arguments": '{"command": "make"}'}}),
    ("operation.started", {**BUILD, "data": {"detail": "make"}}),
    ("tool.completed", BUILD),
)
WAIT: Told = (
    "tool.requested",
    {"call_id": "c2", "tool": "await_operation", "data": {"arguments": '{"operation_id": "op-1"}'}},
)
WAITED: Told = ("tool.completed", {"call_id": "c2", "tool": "await_operation", "operation_id": "op-1"})
END: Told = ("run.cancelled", {"data": {"reason": "stopped"}})


def rows_of(*told: Told) -> Sequence[Row]:
    return build_timeline(run_of(*told)).rows


def of_kind(kind: str, *told: Told) -> Row:
    """The only row of a kind."""
    (row,) = (row for row in rows_of(*told) if row.kind == kind)
    return row


# ---- operations ------------------------------------------------------------------------------------------------------


def operation(kind: str, **data: Any) -> Told:
    return kind, {**BUILD, "data": data}


@pytest.mark.parametrize(
    ("end", "state", "text"),
    [
        (operation("operation.completed", result="ok"), "ok", "Operation op-1 make"),
        (operation("operation.failed", status="failed", error_class="exit_nonzero", detail="no rule"), "bad",
         "Operation op-1 make no rule · exit_nonzero"),
        (operation("operation.failed", status="timed_out"), "bad", "Operation op-1 make timed_out"),
        (operation("operation.failed", status="cancelled"), "warn",
         "Operation op-1 make stopped because the run ended"),
        (operation("operation.failed", status="cancelled", detail="stopped because the run ended; how far"), "warn",
         "Operation op-1 make stopped because the run ended; how far"),
        (operation("operation.failed", status="cancelled", detail="killed"), "warn",
         "Operation op-1 make stopped because the run ended · killed"),
    ],
)  # fmt: skip
def test_an_operation_says_how_it_ended(end: Told, state: str, text: str) -> None:
    """One row of start and end; stopped with the run is neither well nor a failure of its own."""
    row = of_kind("operation", *STARTED, end)
    assert (row.state, row.text) == (state, text)
    assert len(row.event_ids) == 2


def test_a_call_is_paired_with_the_operation_it_started_and_the_one_it_waited_for() -> None:
    """The call that started it names it; the one that waited says what became of it; neither is the other."""
    failed = operation("operation.failed", status="failed", error_class="exit_nonzero")
    start, _, wait = rows_of(*STARTED, WAIT, failed, WAITED)
    assert start.text == "shell_background make started operation op-1"
    assert wait.text == "await_operation op-1 the operation failed"
    assert (start.state, wait.state) == ("ok", "ok")


@pytest.mark.parametrize(
    ("end", "became"),
    [
        ((), "has not ended"),
        ((operation("operation.completed"),), "ended well"),
        ((operation("operation.failed", status="timed_out"),), "was stopped at its time limit"),
        ((operation("operation.failed", status="cancelled"),), "was stopped because the run ended"),
        ((operation("operation.failed"),), "failed"),
    ],
)
def test_waiting_says_what_became_of_it(end: tuple[Told, ...], became: str) -> None:
    """Every end of an operation has its words at the call that waited."""
    assert rows_of(*STARTED, WAIT, *end, WAITED)[2].text.endswith(f"await_operation op-1 the operation {became}")


def test_a_waiting_call_is_found_by_its_arguments() -> None:
    """Without an id in the envelope the arguments say which operation; nonsense in them says nothing."""
    bare: Told = ("tool.completed", {"call_id": "c2", "tool": "await_operation"})
    assert rows_of(*STARTED, WAIT, bare)[2].text.endswith("the operation has not ended")
    assert rows_of(*STARTED, WAITED)[2].text == "await_operation operation op-1 has not ended"
    running = of_kind("operation", *STARTED, WAIT)
    assert (running.state, running.text) == (
        "open",
        "Operation op-1 make a call waits for it still running",
    )
    for arguments in ("[", "[1]", '{"operation_id": 7}', '{"operation_id": "op-2"}'):
        other: Told = ("tool.requested", {**WAIT[1], "data": {"arguments": arguments}})
        assert "the operation" not in rows_of(*STARTED, other, bare)[2].text


def test_an_operation_that_says_nothing_shows_what_its_call_was_asked_for() -> None:
    """The arguments of the call that started it stand in for a detail; those of a call that waits never do."""
    bare = ("operation.started", BUILD)
    assert of_kind("operation", STARTED[0], bare, WAIT).text == "Operation op-1 make a call waits for it still running"
    assert of_kind("operation", bare, WAIT).text == "Operation op-1 a call waits for it still running"


# ---- people ----------------------------------------------------------------------------------------------------------

ASKED: Told = ("human.asked", {"call_id": "c3", "data": {"question": "Which branch?"}})
REFUSED: Told = (
    "tool.blocked",
    {"call_id": "c3", "data": {"code": "question_unanswered", "detail": "No person answered in time."}},
)
WANTED: Told = ("approval.requested", {"call_id": "c4", "tool": "shell", "data": {"question": "Run rm?"}})


def answered(**data: Any) -> Told:
    return "human.answered", {"call_id": "c3", "data": data}


def decided(**data: Any) -> Told:
    return "approval.decided", {"call_id": "c4", "data": data}


@pytest.mark.parametrize(
    ("told", "state", "text"),
    [
        ((ASKED,), "open", "Question Which branch? waits for a person"),
        ((ASKED, answered(answer="main", by="owner")), "ok", "Question Which branch? answered by owner “main”"),
        ((ASKED, answered(answer="", timed_out=True)), "warn", "Question Which branch? nobody answered in time"),
        ((ASKED, END), "warn", "Question Which branch? not answered before the run ended"),
        ((ASKED, REFUSED), "warn", "Question Which branch? not answered · No person answered in time."),
        ((ASKED, REFUSED, END), "warn", "Question Which branch? not answered · No person answered in time."),
        ((REFUSED, ASKED, answered(answer="main")), "ok", "Question Which branch? answered “main”"),
    ],
)
def test_a_question_says_who_answered_or_that_nobody_did(told: tuple[Told, ...], state: str, text: str) -> None:
    """Waiting, answered, timed out, left open by the end: four different rows."""
    row = of_kind("human", *told)
    assert (row.state, row.text) == (state, text)


@pytest.mark.parametrize(
    ("told", "state", "text"),
    [
        ((WANTED,), "open", "Approval shell Run rm? waits for a person"),
        ((WANTED, decided(approved=True, by="owner")), "ok", "Approval shell Run rm? approved by owner"),
        ((WANTED, decided(approved=False, by="owner", note="too wide")), "warn",
         "Approval shell Run rm? refused by owner “too wide”"),
        ((WANTED, decided(approved=False, timed_out=True)), "warn",
         "Approval shell Run rm? nobody answered in time: refused"),
        ((WANTED, END), "warn", "Approval shell Run rm? not answered before the run ended"),
    ],
)  # fmt: skip
def test_an_approval_says_who_decided_or_that_nobody_did(told: tuple[Told, ...], state: str, text: str) -> None:
    """Waiting, approved, refused with its note, timed out, left open by the end."""
    row = of_kind("approval", *told)
    assert (row.state, row.text) == (state, text)


# ---- delegates and families ------------------------------------------------------------------------------------------

DELEGATED: Told = (
    "delegate.started",
    {"call_id": "c5", "data": {"child_run_id": "r-1.1", "member": "reviewer", "task": "Review it"}},
)


def finished(**data: Any) -> Told:
    return "delegate.finished", {"call_id": "c5", "data": {"child_run_id": "r-1.1", **data}}


@pytest.mark.parametrize(
    ("told", "state", "text"),
    [
        ((DELEGATED,), "open", "Delegate reviewer r-1.1 Review it still running"),
        ((DELEGATED, finished(status="completed", answer="Fine.")), "ok",
         "Delegate reviewer r-1.1 Review it completed “Fine.”"),
        ((DELEGATED, finished(status="limit_reached", reason="tool_rounds")), "warn",
         "Delegate reviewer r-1.1 Review it limit reached “tool_rounds”"),
        ((DELEGATED, finished(status="vendor_word")), "plain", "Delegate reviewer r-1.1 Review it vendor word"),
        ((finished(status="failed"),), "bad", "Delegate r-1.1 failed"),
        ((DELEGATED, END), "warn", "Delegate reviewer r-1.1 Review it still running when this run ended"),
    ],
)  # fmt: skip
def test_a_delegate_leads_to_its_run(told: tuple[Told, ...], state: str, text: str) -> None:
    """One row of start and end that names the child run, whatever of it has arrived."""
    row = of_kind("delegate", *told)
    assert (row.state, row.text, row.run_ids) == (state, text, ("r-1.1",))


def test_a_delegate_without_a_run_leads_nowhere() -> None:
    """No link is made of what was not reported."""
    row = of_kind("delegate", ("delegate.started", {"call_id": "c5"}))
    assert (row.text, row.run_ids) == ("Delegate of unknown run still running", ())


@pytest.mark.parametrize(
    ("family", "text"),
    [
        ({}, "Run started"),
        ({"parent_run_id": "r-0"}, "Run started by r-0"),
        ({"parent_run_id": "r-0", "team_root": "r-0"}, "Run started by r-0"),
        ({"parent_run_id": "r-0", "team_root": "r"}, "Run started by r-0 in the team of r"),
        ({"team_root": "r-1"}, "Run started"),
    ],
)
def test_a_child_names_its_parent_and_the_root_of_its_team(family: dict[str, str], text: str) -> None:
    """Its start names both where they are other runs, each once; the head of its page has the links."""
    row = of_kind("run.started", ("run.started", family))
    assert (row.text, row.run_ids) == (text, ())


# ---- plans -----------------------------------------------------------------------------------------------------------


def plan(*steps: Any) -> Told:
    return "plan.updated", {"data": {"plan": list(steps)}}


def test_the_latest_plan_is_marked() -> None:
    """Each plan lists its steps; the last one is the one that holds."""
    texts = [row.text for row in rows_of(plan("build"), plan("build", "publish"))]
    assert texts == ["Plan replaced later 1. build", "Plan latest 1. build · 2. publish"]


@pytest.mark.parametrize(
    ("steps", "text"),
    [
        ([], "no steps"),
        ([{"step": "build", "status": "in_progress"}, {"title": "publish"}], "1. build (in progress) · 2. publish"),
        ([7, None, {"status": "done"}, "go"], "1. go"),
        (["x" * 3_000], "1. " + "x" * 199 + "…"),
    ],
)
def test_steps_of_any_shape_are_listed(steps: list[Any], text: str) -> None:
    """Texts, objects with a status, and what is neither."""
    assert of_kind("plan.updated", plan(*steps)).text == f"Plan latest {text}"


def test_a_plan_that_is_no_list_has_no_steps() -> None:
    """Whatever a sender puts there makes a row."""
    assert of_kind("plan.updated", ("plan.updated", {"data": {"plan": "build"}})).text == "Plan latest no steps"


# ---- what came of a call ---------------------------------------------------------------------------------------------


def requested(call_id: str, tool: str, arguments: str = "{}") -> Told:
    return "tool.requested", {"call_id": call_id, "tool": tool, "data": {"arguments": arguments}}


def test_what_came_of_a_call_stands_under_it_and_repeats_nothing() -> None:
    """Plan, operation, question, approval and delegate follow their calls in any order of arrival between the calls."""
    planned = ("plan.updated", {"call_id": "c0", "data": {"plan": ["build", "ask"]}})
    rows = rows_of(
        requested("c0", "update_plan", '{"steps": ["build", "ask"]}'), STARTED[0],
        requested("c3", "ask_human", '{"question": "Which branch?"}'), requested("c4", "shell", '{"command": "rm x"}'),
        requested("c5", "delegate", '{"member": "reviewer", "task": "Review it"}'),
        planned, STARTED[1], ASKED, WANTED, decided(approved=True, by="owner"), DELEGATED, answered(answer="main"),
        finished(status="completed", answer="Fine."), operation("operation.failed", status="failed"),
    )  # fmt: skip
    assert [(row.is_child, row.text) for row in rows] == [
        (False, "update_plan no result yet"),
        (True, "Plan latest 1. build · 2. ask"),
        (False, "shell_background make no result yet"),
        (True, "Operation op-1 make failed"),
        (False, "ask_human Which branch? no result yet"),
        (True, "Question answered “main”"),
        (False, "shell rm x no result yet"),
        (True, "Approval approved by owner"),
        (False, "delegate member=reviewer task=Review it no result yet"),
        (True, "Delegate reviewer r-1.1 completed “Fine.”"),
    ]


def test_an_activation_stands_under_the_operation_that_failed_under_its_call() -> None:
    """Two steps down: the call, the operation that came of it, the search that this set off."""
    failed = ("operation.failed", {**BUILD, "event_id": "f", "data": {"status": "failed"}})
    searched = ("activation.requested", {"activation_id": "a1", "caused_by": "f", "data": {"trigger": "tool.failed"}})
    rows = rows_of(*STARTED, WAIT, failed, searched)
    assert [(row.kind, row.is_child) for row in rows] == [
        ("tool", False), ("operation", True), ("activation", True), ("tool", False),
    ]  # fmt: skip


def test_a_call_id_used_again_leads_to_the_later_call() -> None:
    """Senders number calls anew in every turn; what came of one stands under the call before it."""
    first, second = ({"call_id": "c3", "data": {"question": text}} for text in ("Which?", "Why?"))
    ask = requested("c3", "ask_human")
    done: Told = ("tool.completed", {"call_id": "c3", "tool": "ask_human"})
    rows = rows_of(ask, ("human.asked", first), answered(answer="a"), done, ask, ("human.asked", second))
    assert [(row.kind, row.state) for row in rows] == [
        ("tool", "ok"),
        ("human", "ok"),
        ("tool", "open"),
        ("human", "open"),
    ]


# ---- the envelope: limits, asks, failed turns, receipts, cut answers -------------------------------------------------

SAFE = {"kind": "safe_completion", "detail": "8 tool rounds are spent"}
RECEIPT = {"utc": "2026-11-30T03:00:00Z", "zoned": "2026-11-30T11:00:00+08:00", "zone": "Asia/Shanghai", "unix": 1}
ESCALATED = {"reason": "needs a key", "reviewer": "owner", "n_denied": 2}
LIMITED = {"limit": "tool_rounds", "reason": "8 of 8", "answer": "Two of three are done."}
FAILED = {"code": "tool_unavailable", "source": "envelope", "error": "no such tool"}


@pytest.mark.parametrize(
    ("told", "state", "text"),
    [
        (("thinking", {**SAFE, "limit": "tool_rounds", "n_receipts": 8}), "warn",
         "Safe completion the tool rounds are used up 8 results recorded "
         "one last request without tools follows"),
        (("thinking", {**SAFE, "n_receipts": 0}), "warn",
         "Safe completion 8 tool rounds are spent no result is recorded one last request without tools follows"),
        (("thinking", {"kind": "own_step", "detail": "looks again"}), "plain", "Thinking own step looks again"),
        (("time.receipt", RECEIPT), "ok",
         "Time receipt 2026-11-30T03:00:00Z 11:00:00+08:00 Asia/Shanghai"),
        (("time.receipt", {**RECEIPT, "zoned": "2026-12-01T00:00:00+21:00"}), "ok",
         "Time receipt 2026-11-30T03:00:00Z 2026-12-01T00:00:00+21:00 Asia/Shanghai"),
        (("time.receipt", {"unix": 1}), "ok", "Time receipt 1 s since 1970"),
        (("time.receipt", {}), "plain", "Time receipt no time was reported"),
        (("run.escalated", ESCALATED), "warn", "Run escalated to owner needs a key 2 calls after the ask denied"),
        (("run.escalated", {"reason": "why", "n_denied": 0}), "warn", "Run escalated why"),
        (("run.limit_reached", LIMITED), "warn",
         "Run limit reached the tool rounds are used up “Two of three are done.”"),
        (("run.limit_reached", {"limit": "max_cost"}), "warn", "Run limit reached max cost"),
        (("run.completed", {"answer": "Done."}), "ok", "Run completed “Done.”"),
        (("turn.failed", FAILED), "bad",
         "Turn failed it ended in an ask that was not offered to this agent tool_unavailable "
         "found by the envelope, from outside no such tool"),
        (("turn.failed", {"code": "odd_code", "error": "it broke"}), "bad", "Turn failed it broke odd_code"),
        (("turn.failed", {}), "bad", "Turn failed no reason was reported"),
        (("answer.cut", {"heard": "prefix", "prefix": "The bu"}), "plain", "The answer before was cut after “The bu”"),
        (("answer.cut", {"heard": "nothing"}), "plain",
         "The answer before was cut before any word of it was heard"),
        (("answer.cut", {}), "plain", "The answer before was cut how much of it was heard is not known"),
        (("answer.heard", {"prefix": "The build"}), "plain", "Answer heard up to “The build”"),
    ],
)  # fmt: skip
def test_the_envelope_speaks_in_words(told: tuple[str, dict[str, Any]], state: str, text: str) -> None:
    """Limits, asks, codes and receipts are told as people say them; a word that is not known stays as it is."""
    kind, data = told
    row = of_kind(kind, (kind, {"data": data}))
    assert (row.state, row.text) == (state, text)


def test_the_last_request_says_that_it_has_no_tools() -> None:
    """Its row names it, and how many calls of its reply nobody executes."""
    asked: Told = ("model.requested", {"data": {"n_messages": 3, "finale": True}})
    answered_: Told = ("model.completed", {"caused_by": "r-1:1", "data": {"n_dropped": 2, "text": "Done."}})
    assert of_kind("model", asked, answered_).text == (
        "Model 3 messages the last, without tools 2 calls dropped “Done.”"
    )


def test_a_time_receipt_stands_under_the_call_that_took_it() -> None:
    """A reading of the clock is what a call gave."""
    call: Told = ("tool.requested", {"call_id": "c1", "tool": "magic_brush"})
    receipt: Told = ("time.receipt", {"call_id": "c1", "tool": "magic_brush", "data": RECEIPT})
    rows = rows_of(call, receipt, ("tool.completed", {"call_id": "c1", "tool": "magic_brush"}))
    assert [(row.kind, row.is_child) for row in rows] == [("tool", False), ("time.receipt", True)]


# ---- following a run -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("known", "then", "kind"),
    [
        ((plan("build"),), plan("publish"), "plan.updated"),
        ((*STARTED, WAIT, WAITED), operation("operation.completed"), "tool"),
        (STARTED, WAIT, "operation"),
        ((ASKED,), END, "human"),
        ((DELEGATED,), END, "delegate"),
    ],
)
def test_a_row_told_by_another_event_is_drawn_again(known: tuple[Told, ...], then: Told, kind: str) -> None:
    """A page that follows the run replaces a row when what decides its words arrives in another row."""
    timeline, before = build_timeline(run_of(*known, then)), build_timeline(run_of(*known))
    axis_ns = timeline.axis.end_ns - timeline.axis.start_ns
    cursor = Cursor(len(known), 0, axis_ns)
    changes = changes_since(timeline, before, cut_window(timeline, Shown()), cursor)
    old = {row.key: row.text for row in before.rows}
    changed = {row.key for row in timeline.rows if row.key in old and row.text != old[row.key]}
    assert kind in {row.kind for row in timeline.rows if row.key in changed}
    assert changes.anew is False
    assert changed <= {row.key for row in changes.replaced}


def test_what_a_run_left_without_an_end_is_not_said_to_go_on() -> None:
    """A request or call without its end is open while the run goes on and reported as missing after it."""
    asked: Told = ("model.requested", {"data": {"n_messages": 1}})
    called: Told = ("tool.requested", {"call_id": "c9", "tool": "shell"})
    for told, waiting, left in (
        (asked, "no answer yet", "no answer was reported"),
        (called, "no result yet", "no result was reported"),
        (STARTED[1], "still running", "its end was not reported"),
    ):
        (during,) = rows_of(told)
        after, _ = rows_of(told, END)
        assert (during.state, after.state) == ("open", "warn")
        assert during.text.endswith(waiting)
        assert after.text.endswith(left)
