"""The core against a world that does anything: calls, failures, lost edges, late operations, people, cancellation.

Hypothesis plays the world, rule by rule; the modules machine_* hold every decision against what the requirement says,
from what happened and from the history alone. (Seed 001 §6, §8 to §12, §15.) It is the same world each time. To play
longer and at random, and to see how often each place was reached:

    KERNEL_MACHINE_EXAMPLES=5000 .venv/bin/python -m pytest -s tests/kernel/test_state_machine.py

A failure ends in the method that names the rule. `python -m tests.kernel.machine_mutations` shows that the rules bite.
"""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from hypothesis import HealthCheck, Phase, seed, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, precondition, rule, run_state_machine_as_test

from kernel.messages import (
    ApprovalDecided,
    AskApproval,
    CallModel,
    ContinueAsNew,
    DelegateFinished,
    FetchHints,
    HintsArrived,
    Message,
    ModelFailed,
    ModelReplied,
    OperationFinished,
    PrepareRun,
    QuestionAnswered,
    RunPrepared,
    RunTool,
    ToolCall,
    ToolFinished,
)
from tests.kernel import machine_draws as draws
from tests.kernel.machine_calls import outcome_of
from tests.kernel.machine_draws import Answer, Outcome, Plan, Shape
from tests.kernel.machine_hints import answer_to
from tests.kernel.machine_places import NEEDED
from tests.kernel.machine_world import World

EXAMPLES = int(os.environ.get("KERNEL_MACHINE_EXAMPLES", "0"))
STEPS = 60
BATCH = 80
FIRST_SEED = 31  # with it three batches come to every place
LEAST_BATCHES, MOST_BATCHES = 2, 8  # a batch more is played as long as a place of NEEDED was not reached
REACHED: Counter[str] = Counter()
SUGGESTED = st.sampled_from((False, False, False, True))


class Machine(RuleBasedStateMachine):
    """One world after another; each rule is one thing that can happen in it."""

    world: World

    @initialize(plan=draws.plans)
    def begin(self, plan: Plan) -> None:
        self.world = World(plan, REACHED)

    def is_in_line(self, kind: type) -> bool:
        """Return whether a command of this kind may end now; not where the run is about to be cancelled."""
        return isinstance(self.world.inline, kind) and not self.world.is_doomed()

    @precondition(lambda self: self.world.finish is not None)
    @rule(plan=draws.plans)
    def begin_another(self, plan: Plan) -> None:
        self.world = World(plan, REACHED)

    @precondition(lambda self: self.is_in_line(PrepareRun))
    @rule()
    def prepared(self) -> None:
        world = self.world
        error = "setup ended with code 1" if world.plan.broken else ""
        failed = (("time", "it did not start"),) if world.plan.after else ()
        world.observe(RunPrepared(world.tick(), world.tools, failed, error))

    @precondition(lambda self: self.is_in_line(CallModel) and not self.world.asks_for_the_last())
    @rule(shapes=draws.calls, suggested=SUGGESTED, tokens=st.sampled_from((None, 90, 7)))
    def model_replies(self, shapes: Sequence[Shape], suggested: bool, tokens: int | None) -> None:
        self.reply([] if self.world.state.turn >= self.world.plan.answer_at else shapes, suggested, tokens)

    @precondition(lambda self: self.is_in_line(CallModel) and not self.world.asks_for_the_last())
    @precondition(lambda self: self.world.state.turn >= self.world.plan.asks_at)
    @rule(shapes=draws.calls, how=draws.asks, metadata=draws.metadata)
    def model_asks(self, shapes: Sequence[Shape], how: str, metadata: int) -> None:
        self.reply(draws.with_ask(shapes, how), metadata=draws.METADATA[metadata])

    @precondition(lambda self: self.is_in_line(CallModel) and self.world.asks_for_the_last())
    @rule(text=st.sampled_from(("Two of three are done.", "", "  ")), dropped=st.sampled_from((0, 0, 3)))
    def model_answers_at_last(self, text: str, dropped: int) -> None:
        world, command = self.world, self.world.inline
        assert isinstance(command, CallModel)
        world.reached["finale: calls dropped"] += bool(dropped)
        world.calls.open([], {}, command.turn)
        world.write(command.reply_seq, Message("assistant", text, "finale"))
        self.hear(ModelReplied(world.tick(), world.now, text=text, n_dropped=dropped))

    def hear(self, replied: ModelReplied) -> None:
        """Take in what came back of the request that is under way."""
        world = self.world
        request = len(world.requests[-1].messages)
        world.observe(replace(replied, n_messages=request, request_tokens=10 * request, sent_context=world.sent()))

    def reply(
        self, shapes: Sequence[Shape], suggested: bool = False, tokens: int | None = None, metadata: str = ""
    ) -> None:
        world, command = self.world, self.world.inline
        assert isinstance(command, CallModel)
        world.calls.assistant_seq = command.reply_seq
        started = list(world.operations)
        named = {"oldest": started[0], "newest": started[-1]} if started else {}
        message = world.calls.open(shapes, {**named, "ended": world.last_ended}, command.turn)
        world.write(command.reply_seq, message)
        seen = tuple(view.seen() for view in world.calls.views)
        text = "" if shapes else "It is done."
        requested = world.tick()
        self.hear(
            ModelReplied(
                world.tick(),
                requested,
                seen,
                text,
                input_tokens=tokens,
                output_tokens=tokens,
                continue_suggested=suggested,
                metadata=metadata,
            )
        )

    @precondition(lambda self: self.is_in_line(CallModel) and self.world.state.turn >= self.world.plan.model_fails_at)
    @rule(
        how=st.sampled_from(
            ("model_unavailable", "protocol_violation", "never begun", "unknown_agent", "never begun", "declared")
        )
    )
    def model_fails(self, how: str) -> None:
        world = self.world
        world.reached[f"model fails: {how}"] += 1
        if world.asks_for_the_last():
            world.reached["finale: model fails"] += 1
        if how == "declared" and not world.asks_for_the_last():
            self.driver_gives_up()
            return
        sent = world.sent() if how == "model_unavailable" else ()
        if how == "never begun":
            world.undo()
        was_sent = how not in ("protocol_violation", "unknown_agent")
        world.observe(ModelFailed(world.tick(), world.tick(), how, "no answer", sent, was_sent))

    def driver_gives_up(self) -> None:
        """The driver ends the run as failed, with an error and more than can be carried beside it."""
        world, command = self.world, self.world.inline
        assert isinstance(command, CallModel)
        world.calls.open([], {}, command.turn)
        world.write(command.reply_seq, Message("assistant", "no such repository", "model"))
        metadata = draws.METADATA[world.n_observed % len(draws.METADATA)]
        self.hear(ModelReplied(world.tick(), world.now, failed="no such repository", metadata=metadata))

    @precondition(lambda self: self.is_in_line(RunTool))
    @rule(outcome=draws.outcomes, suggested=SUGGESTED)
    def tool_ends(self, outcome: Outcome, suggested: bool) -> None:
        world, command = self.world, self.world.inline
        assert isinstance(command, RunTool)
        world.calls.find(command.call_id).end = outcome
        if outcome.raced:
            world.raced.add(command.reply_seq)
        if outcome.written or outcome.raced:
            text = outcome.text or "(no output)"
            message = Message("tool", text, "tool", call_id=command.call_id)
            world.write(command.reply_seq, replace(message, status=outcome.status, code=outcome.error_class))
        excerpt = "done. " * 200 if outcome.status == "ok" else ""
        excerpt = excerpt[: command.excerpt_limit]
        world.observe(
            ToolFinished(
                world.tick(), world.tick(), command.call_id, outcome.status, outcome.effect, outcome.error_class,
                outcome.text, excerpt, outcome.written, suggested,
            )
        )  # fmt: skip

    @precondition(lambda self: self.is_in_line(AskApproval))
    @rule(how=st.sampled_from(("yes", "yes", "no", "nobody", "too late")))
    def person_decides(self, how: str) -> None:
        world, command = self.world, self.world.inline
        assert isinstance(command, AskApproval)
        world.calls.find(command.call_id).approved = how == "yes"
        world.reached[f"approval: {how}"] += 1
        approved, late = how in ("yes", "too late"), how in ("nobody", "too late")
        world.observe(ApprovalDecided(world.tick(), command.call_id, approved, "" if late else "owner", "", late))

    @precondition(lambda self: self.is_in_line(FetchHints))
    @rule(answers=draws.answers, suggested=SUGGESTED, cut=st.sampled_from((0, 0, 0, 0, 1, 9)))
    def hints_arrive(self, answers: Sequence[Answer], suggested: bool, cut: int) -> None:
        world, command = self.world, self.world.inline
        assert isinstance(command, FetchHints)
        given = [
            answer_to(request, answers[place % len(answers)], world.n_observed * 10 + place)
            for place, request in enumerate(command.requests)
        ]
        missing = next((place for place, one in enumerate(given) if one.result == "missing"), len(given) - cut % 9)
        given = given[: max(0, missing)] if cut != 9 else [*given, given[-1]]
        given = [replace(one, result="success") if one.result == "missing" else one for one in given]
        world.observe(HintsArrived(world.tick(), world.tick(), tuple(given), suggested))

    @precondition(lambda self: self.is_in_line(ContinueAsNew))
    @rule()
    def new_workflow_takes_over(self) -> None:
        self.world.resume()

    @precondition(lambda self: self.world.operations and self.world.state.phase != "finished")
    @rule(outcome=draws.outcomes, newest=st.booleans())
    def operation_ends(self, outcome: Outcome, newest: bool) -> None:
        world = self.world
        operation_id = list(world.operations)[-1 if newest else 0]
        command = world.operations.pop(operation_id)
        tool = next(one for one in self.world.state.operations if one.operation_id == operation_id).tool
        world.ended.append(outcome_of(outcome, command.call_id, operation_id, tool))
        world.last_ended = operation_id
        world.reached[f"operation ended while {world.state.phase}"] += 1
        excerpt = "built" if outcome.status == "ok" else ""
        world.observe(
            OperationFinished(
                world.tick(),
                operation_id,
                outcome.status,
                outcome.effect,
                outcome.error_class,
                outcome.text,
                excerpt,
                note="" if outcome.text else "exit code 3",
            )
        )

    @precondition(lambda self: self.world.questions)
    @rule(how=st.sampled_from(("answer", "answer", "nothing", "nobody")), newest=st.booleans())
    def person_answers(self, how: str, newest: bool) -> None:
        world = self.world
        call_id = list(world.questions)[-1 if newest else 0]
        world.questions.pop(call_id)
        text = "main " * 1_500 if how == "answer" else ""
        world.observe(QuestionAnswered(world.tick(), call_id, text, "owner", how == "nobody"))

    @precondition(lambda self: self.world.delegates)
    @rule(status=st.sampled_from(draws.ENDS), newest=st.booleans())
    def delegate_ends(self, status: str, newest: bool) -> None:
        world = self.world
        call_id = list(world.delegates)[-1 if newest else 0]
        world.delegates.pop(call_id)
        world.reached[f"delegate {status}"] += 1
        what = {"completed": "ok", "cancelled": "cancelled"}.get(status, "failed")
        end = Outcome(what, "uncertain", f"delegate_{status}", "" if what == "ok" else "git")
        world.calls.find(call_id).end = end
        answer, started = "Fine." if what == "ok" else "", status != "not started"
        said = status if started else "failed"
        world.observe(DelegateFinished(world.tick(), call_id, said, answer, end.text, started))

    @precondition(lambda self: self.world.is_doomed())
    @rule(never_ran=st.booleans(), raced=st.booleans())
    def run_is_cancelled(self, never_ran: bool, raced: bool) -> None:
        command = self.world.inline
        late = None
        if raced and isinstance(command, RunTool):
            late = Message("tool", "done", "tool", call_id=command.call_id)
        elif raced:
            calls = (ToolCall("late-0", "shell", "{}"), ToolCall("late-1", "ghost", "{}"))
            late = Message("assistant", "", "model", calls)
        self.world.cancel(never_ran, late)

    def teardown(self) -> None:
        """Whatever state a run is in, it can be brought to its end."""
        if sys.exc_info()[0] is not None:  # a rule failed, or Hypothesis gave the example up
            return
        for _ in range(200):
            if self.world.finish is not None:
                return
            self.move_on()
        raise AssertionError(f"the run does not end; it is {self.world.state.phase}")

    def move_on(self) -> None:
        world = self.world
        if world.state.phase == "waiting":
            if world.questions:
                self.person_answers("answer", False)
            elif world.delegates:
                self.delegate_ends("completed", False)
            else:
                self.operation_ends(Outcome("ok"), False)
            return
        match world.inline:
            case PrepareRun():
                self.prepared()
            case CallModel(finale=True):
                self.model_answers_at_last("", 1)
            case CallModel():
                self.reply([])
            case RunTool():
                self.tool_ends(Outcome("ok"), False)
            case AskApproval():
                self.person_decides("no")
            case FetchHints():
                self.hints_arrive([Answer("empty")], False, 0)
            case ContinueAsNew():
                self.new_workflow_takes_over()


def how_long() -> settings:
    """Return how the machine runs: batches that are the same each time, or as many random examples as are asked for."""
    shrinks = os.environ.get("KERNEL_MACHINE_SHRINK", "1") != "0"
    return settings(
        max_examples=EXAMPLES or BATCH,
        stateful_step_count=STEPS,
        deadline=None,
        database=None,
        report_multiple_bugs=False,
        phases=[Phase.generate, Phase.shrink] if shrinks else [Phase.generate],
        suppress_health_check=list(HealthCheck),
    )


def missed() -> list[str]:
    return [what for what in NEEDED if not REACHED[what]]


def test_the_core_keeps_its_promises_whatever_happens() -> None:
    """No course of events breaks a rule, and the machine came to every place that matters."""
    REACHED.clear()
    batch = 0
    while batch < (1 if EXAMPLES else LEAST_BATCHES) or (missed() and batch < MOST_BATCHES):
        batch += 1
        REACHED["batches"] = batch
        numbered = type("Machine", (Machine,), {})
        machine = numbered if EXAMPLES else seed(FIRST_SEED + batch - 1)(numbered)
        run_state_machine_as_test(machine, settings=how_long())
    print("\n".join(f"{count:>8} {what}" for what, count in sorted(REACHED.items())))
    assert not missed(), f"the machine never came to: {missed()}"
