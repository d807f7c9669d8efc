"""The world around one run: what happens goes to the core, and what the core makes of it is held against the rules."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from kernel.core.bounds import ACTIVATION_BYTES, STATE_BYTES
from kernel.core.codec import from_json, to_json
from kernel.core.decide import decide
from kernel.core.history import check_history
from kernel.core.state import RunState
from kernel.core.transitions import IllegalObservation
from kernel.edge.tool_call import UNANSWERED
from kernel.messages import (
    ApprovalDecided,
    AskApproval,
    CallModel,
    CancelRequested,
    Command,
    ContinueAsNew,
    DelegateFinished,
    Event,
    FetchHints,
    HintsArrived,
    Message,
    ModelReplied,
    Observation,
    OperationFinished,
    PrepareRun,
    QuestionAnswered,
    Resumed,
    RunPrepared,
    RunTool,
    ToolFinished,
)
from tests.kernel.machine_activations import PRIMING, Expected
from tests.kernel.machine_draws import Plan
from tests.kernel.machine_runner import Runner

WAITS_FOR: dict[str, type[Command]] = {
    "preparing": PrepareRun,
    "searching": FetchHints,
    "calling": CallModel,
    "running": RunTool,
    "approving": AskApproval,
    "continuing": ContinueAsNew,
}
ENDS_INLINE = (
    "RunPrepared",
    "ModelReplied",
    "ModelFailed",
    "ToolFinished",
    "HintsArrived",
    "ApprovalDecided",
    "Resumed",
)
NOBODY = "nobody"
EVERY = 6  # observations from one reading of the written state to the next: it costs most of a step


class World(Runner):
    """One run and all that is known of it. `text` is the state written out, `revived` what was read back of it."""

    def __init__(self, plan: Plan, reached: Counter[str]) -> None:
        super().__init__(plan, reached)
        self.text, self.revived = "", self.state
        self._keep(self.state)

    # ---- one observation ---------------------------------------------------------------------------------

    def observe(self, observation: Observation) -> None:
        """Let the core decide, carry out what it wants and check everything."""
        self.n_observed += 1
        self.at_ns, self.resumed = observation.at_ns, isinstance(observation, Resumed)
        self.envelope.take(observation)
        before, name = self.state, type(observation).__name__
        self.reached[name] += 1
        state, commands = self._decide(observation)
        self._keep(state)
        self.twin_observes(observation)
        asked, self.inline = self.inline, (None if name in ENDS_INLINE else self.inline)
        self.carry_out(commands)
        fresh = self.record.take(commands, state)
        self._judge(before, observation, fresh)
        if isinstance(observation, HintsArrived) and isinstance(asked, FetchHints):
            self.hints.take(before.asked, asked.requests, observation, fresh, self.placed_since(before))
        self.hints.deliver(fresh, {request.event_id: request for request in self.requests})
        self.hints.check_state(state)
        self.check_twin_is_in_step()
        self.check_somebody_is_waited_for()
        self.check_a_second_delivery_changes_nothing(observation)
        self.check_a_stray_observation_is_refused()
        if self.finish is not None:
            self.check_the_end(observation)

    def placed_since(self, before: RunState) -> list[Message]:
        """Return the messages with hint blocks that a decision put into the history."""
        new = {seq: message for seq, message in self.entries().items() if seq >= before.next_seq}
        return [message for _, message in sorted(new.items()) if message.origin in ("hints", "priming")]

    def _decide(self, observation: Observation) -> tuple[RunState, tuple[Command, ...]]:
        """Decide, and again from the state as it was written out: a runner that was lost decides the same."""
        before = self.state
        decision = decide(before, observation)
        assert decide(self.revived, observation) == decision, "a replay decides otherwise"
        if self.n_observed % EVERY == 0:
            assert to_json(before) == self.text, "the state that was given was changed"
        return decision

    def _keep(self, state: RunState) -> None:
        """The state survives being written out, and is small."""
        self.state, self.text = state, to_json(state)
        self.revived = state
        if self.n_observed % EVERY == 0 or state.phase == "continuing":
            self.revived = from_json(RunState, self.text)
            assert self.revived == state, "the state does not survive being written out"
        assert len(self.text.encode()) < STATE_BYTES, f"the state has {len(self.text.encode())} bytes"
        size = len(to_json(state.activation).encode())
        assert size < ACTIVATION_BYTES, f"the activation part has {size} bytes"
        self.reached["largest state"] = max(self.reached["largest state"], len(self.text.encode()))
        self.reached["largest activation part"] = max(self.reached["largest activation part"], size)

    def _judge(self, before: RunState, observation: Observation, fresh: Sequence[Event]) -> None:
        """Hold what the events say of activations against what happened, and at a boundary the replies as well."""
        crossed = bool(self.calls.views) and any(event.type == "turn.completed" for event in fresh)
        expected: list[Expected] | None = None
        if crossed:
            self.calls.check_replies(self.entries())
            if self.calls.ends_here():
                self.reached["ask: while something waited"] += before.phase == "waiting"
                self.activations.take(fresh, [], False, 0)
                return
            self.check_operations_are_told()
            expected = self.activations.expect([*self.calls.executed(), *self.ended])
            self.calls.views, self.ended = [], []
            self.reached["turns"] += 1
        elif isinstance(observation, RunPrepared) and not observation.error:
            off = PRIMING in self.spec.switches.off
            expected = [] if off else [Expected(PRIMING)]
        used = self.hints.tokens_used
        spent = bool(self.envelope.spent(before.turn, observation.at_ns))
        self.activations.take(fresh, expected, spent, used)

    # ---- what must hold ----------------------------------------------------------------------------------

    def twin_observes(self, observation: Observation) -> None:
        if not isinstance(observation, Resumed):
            self.twin.observe(observation)

    def check_twin_is_in_step(self) -> None:
        """With a continue-as-new at every boundary the same requests go to the model."""
        mine, other = self.requests, self.twin.requests
        assert len(mine) <= len(other) <= len(mine) + 1, f"{len(mine)} requests and {len(other)}"
        if mine:
            same = other[len(mine) - 1]
            same = replace(same, event_id=mine[-1].event_id)
            assert same == mine[-1], "another request goes out"

    def check_operations_are_told(self) -> None:
        """An operation that ended is told at the boundary: by the calls that awaited it, or else by a message."""
        entries = self.entries()
        for one in self.ended:
            head = f"[Background operation {one.operation_id} of "
            told = [message for message in entries.values() if message.role != "assistant" and head in message.text]
            by_message = [message for message in told if message.role == "context"]
            assert len(by_message) == (0 if len(told) > len(by_message) else 1), f"{one.operation_id} is told as {told}"
            self.reached["operation told by " + ("a message" if by_message else "a reply")] += 1

    def check_somebody_is_waited_for(self) -> None:
        """In each phase something is under way that can move the run on, and it is what the phase says."""
        phase = self.state.phase
        assert (self.finish is not None) == (phase == "finished"), "finished without a word, or a word too much"
        if phase == "finished":
            return
        if phase == "waiting":
            awaited = [call.subject for call in self.state.calls if call.waiting and call.subject in self.operations]
            assert self.inline is None and (awaited or self.questions or self.delegates), "nothing can end the waiting"
            return
        assert isinstance(self.inline, WAITS_FOR[phase]), f"{phase} with {self.inline} under way"

    def check_a_second_delivery_changes_nothing(self, observation: Observation) -> None:
        """What is delivered twice is refused or changes nothing."""
        try:
            assert decide(self.state, observation) == (self.state, ()), f"{observation} was taken in twice"
        except IllegalObservation:
            self.reached["second deliveries refused"] += 1

    def check_a_stray_observation_is_refused(self) -> None:
        """What cannot have happened is refused, and the state stays (seen at the next observation)."""
        later = [
            view.call.call_id for view in self.calls.views if view.call.call_id != getattr(self.inline, "call_id", "")
        ]
        ids = (NOBODY, *later)
        other = ids[self.n_observed % len(ids)]
        strays: list[Observation] = [
            ToolFinished(self.now, self.now, other, "ok"),
            ApprovalDecided(self.now, other, True),
            QuestionAnswered(self.now, NOBODY if other in self.questions else other, "x"),
            DelegateFinished(self.now, NOBODY if other in self.delegates else other, "completed"),
            OperationFinished(self.now, "op-999", "ok"),
        ]
        if self.state.phase != "preparing":
            strays.append(ModelReplied(self.now, self.now, n_messages=1))
            strays.append(RunPrepared(self.now, ()))
        if self.state.phase != "continuing":
            strays.append(Resumed(self.now))
        if self.state.phase != "searching":
            strays.append(HintsArrived(self.now, self.now, ()))
        stray = strays[self.n_observed % len(strays)]
        try:
            assert decide(self.state, stray) == (self.state, ()), f"{stray} was taken in"
        except IllegalObservation:
            self.reached["strays refused"] += 1

    def check_the_end(self, last: Observation) -> None:
        """Nothing is left over when a run has ended: nothing pending, nothing unsaid, a legal history."""
        assert self.finish is not None
        state = self.state
        left = (state.calls, state.operations, state.appends, state.placed, state.asked, state.events)
        assert not any(left) and not state.activation.deferred, f"left over: {left} {state.activation.deferred}"
        assert not self.operations, f"still under way: {list(self.operations)}"
        self.record.check_all_sent_once()
        self.record.check_one_terminal_event(self.finish.status)
        self.record.check_pairs()
        self.envelope.check_end(self.finish, last, self.calls.views, len(self.requests), self.record.sent)
        self.check_what_was_not_started_had_no_effect()
        self.activations.check_all_ended()
        self.hints.check_all_told()
        self.check_the_history_is_closed()
        self.reached[f"ended: {self.finish.status}"] += 1

    def check_what_was_not_started_had_no_effect(self) -> None:
        """Of the calls that were closed with the run only the one that ran may have had an effect."""
        for event in self.record.sent:
            data = json.loads(event.data)
            if event.type == "tool.blocked" and data.get("code") in ("run_cancelled", "run_failed"):
                view = self.calls.find(str(event.call_id))
                if view.kind in ("call", "escalate") and not self.calls.is_copy(view):
                    told = "uncertain" if view.started else "none"
                    assert data["effect"] == told, f"{view.call} is told to have had an {data['effect']} effect"

    def check_the_history_is_closed(self) -> None:
        """What is written of an ended run is a legal history, the same whether the run was continued as new or not."""
        other = dict(self.twin.history.entries)
        if other != self.history.entries and other[max(other)] == UNANSWERED:
            del other[max(other)]  # cancelled between two requests, of which the twin had begun the second
        assert self.history.entries == other, "continue-as-new left another history"
        check_history(self.history.whole())
        calls = {call.call_id for message in self.history.whole() for call in message.calls}
        replies = [message.call_id for message in self.history.whole() if message.role == "tool"]
        assert sorted(replies, key=str) == sorted(calls), "a call has no reply, or two"

    # ---- cancelling --------------------------------------------------------------------------------------

    def cancel(self, never_ran: bool, raced: Message | None) -> None:
        """Cancel. `never_ran` is a model call that nobody began; `raced` what an edge wrote that nobody heard of."""
        self.reached[f"cancelled while {self.state.phase}"] += 1
        self.reached["cancelled in the finale"] += self.asks_for_the_last()
        if isinstance(self.inline, CallModel) and never_ran:
            self.undo()
        elif isinstance(self.inline, CallModel | RunTool) and raced is not None:
            self.write(self.inline.reply_seq, raced)
        self.inline = None
        self.questions, self.delegates = {}, {}
        self.observe(CancelRequested(self.tick(), "stopped by owner"))

    def resume(self) -> None:
        """A new workflow run takes over from what was written out."""
        self.state = self.revived
        self.observe(Resumed(self.tick()))
