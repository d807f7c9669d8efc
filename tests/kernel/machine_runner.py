"""What a runner and the edges do for one run: they carry out the commands, each held against what may be done."""

from collections import Counter
from collections.abc import Sequence

from kernel.core.decide import start
from kernel.drivers.rendering import message_hash
from kernel.messages import (
    AskApproval,
    AskQuestion,
    CallModel,
    CloseTranscript,
    Command,
    ContinueAsNew,
    FetchHints,
    Finish,
    Message,
    PrepareRun,
    RunTool,
    SendEvents,
    SentMessage,
    StartDelegate,
    StartOperation,
    StopOperation,
)
from tests.kernel.machine_activations import Activations, Executed
from tests.kernel.machine_calls import Calls
from tests.kernel.machine_draws import ESCALATE, TOOLS, Plan
from tests.kernel.machine_envelope import Envelope
from tests.kernel.machine_hints import Hints
from tests.kernel.machine_history import History, Request, Twin, check_request, without_numbers
from tests.kernel.machine_record import Record

Inline = PrepareRun | CallModel | RunTool | FetchHints | AskApproval | ContinueAsNew


class Runner:
    """One run. What is under way: one command in line (`inline`), operations, questions, delegated runs."""

    def __init__(self, plan: Plan, reached: Counter[str]) -> None:
        self.plan, self.spec, self.reached = plan, plan.spec, reached
        self.now, self.n_observed = 1_000, 0
        self.history, self.twin = History(plan.spec), Twin(plan.spec)
        self.unsent = dict(self.history.entries)  # the history before the last request's own messages
        self.record = Record(plan.spec)
        self.activations, self.hints = Activations(plan.spec, reached), Hints(plan.spec, reached)
        granted = plan.granted and ESCALATE.name not in plan.spec.blocked_tools  # what is blocked is not offered
        self.tools = (*TOOLS, ESCALATE) if granted else TOOLS
        self.envelope = Envelope(plan.spec, granted, [tool.name for tool in self.tools], reached)
        self.calls = Calls(plan.spec, self.envelope)
        self.at_ns = 0  # of the observation that is taken in
        self.requests: list[Request] = []
        self.inline: Inline | None = None
        self.operations: dict[str, StartOperation] = {}
        self.questions: dict[str, AskQuestion] = {}
        self.delegates: dict[str, StartDelegate] = {}
        self.ended: list[Executed] = []  # operations, since the last boundary
        self.last_ended = "op-0"
        self.n_delegates = 0
        self.raced: set[int] = set()  # positions of replies that were written and never heard of
        self.finish: Finish | None = None
        self.resumed = False  # whether the observation that is taken in is that of a new workflow run
        self.state, commands = start(plan.spec)
        self.carry_out(commands)
        reached["runs"] += 1

    def tick(self) -> int:
        self.now += 1_000_000
        return self.now

    def entries(self) -> dict[int, Message]:
        """Return the history with what waits to be written."""
        current = History(self.spec)
        current.entries = dict(self.history.entries)
        current.append_all(self.state.appends)
        return current.entries

    def sent(self) -> tuple[SentMessage, ...]:
        """Return where the new context messages stood in the last request, as its edge tells it."""
        command, messages = self.inline, self.requests[-1].messages
        assert isinstance(command, CallModel)
        first = min((append.seq for append in command.append), default=command.reply_seq)
        new = enumerate(messages[first:], first)
        return tuple(SentMessage(at, at, message_hash(one)) for at, one in new if one.role == "context")

    def is_doomed(self) -> bool:
        """Return whether the plan has the run cancelled where it stands."""
        due = self.n_observed < 2 or self.n_observed >= self.plan.after
        last = self.plan.cancel_in == "finale" and self.asks_for_the_last()
        return last or (due and self.state.phase == self.plan.cancel_in)

    def asks_for_the_last(self) -> bool:
        """Return whether the request that is under way is the run's last one, which offers no tools."""
        return isinstance(self.inline, CallModel) and self.inline.finale

    def write(self, seq: int, message: Message) -> None:
        self.history.write(seq, message)
        self.twin.history.write(seq, message)

    # ---- commands ----------------------------------------------------------------------------------------

    def carry_out(self, commands: Sequence[Command]) -> None:
        for command in commands:
            assert self.finish is None, f"{command} after the run's end"
            match command:
                case SendEvents():
                    self.reached["SendEvents"] += 1
                case CloseTranscript():
                    self.history.close(command)
                case Finish():
                    self.finish = command
                    forged = any(view.verdict == "forged" for view in self.calls.views)
                    assert forged or not (self.questions or self.delegates), "a run ended while it waited"
                    self.questions, self.delegates = {}, {}
                case StopOperation():
                    assert self.operations.pop(command.operation_id, None), f"{command} stops nothing"
                    self.reached["StopOperation"] += 1
                case StartOperation() | AskQuestion() | StartDelegate():
                    self._begin(command)
                case _:
                    self._put_in_line(command)

    def _begin(self, command: StartOperation | AskQuestion | StartDelegate) -> None:
        self.reached[type(command).__name__] += 1
        if isinstance(command, StartOperation):
            view = self.calls.check_start(command.call_id, "background")
            assert (view.seq, command.assistant_seq) == (command.call_seq, self.calls.assistant_seq)
            assert command.operation_id not in self.operations, "two operations have one id"
            self.operations[command.operation_id] = command
            self.envelope.n_receipts += 1
            assert len(self.operations) <= self.spec.limits.pending_operations, "too many operations"
        elif isinstance(command, AskQuestion):
            view = self.calls.check_start(command.call_id, "ask_human")
            assert command.question == view.shape.arg
            self.questions[command.call_id] = command
        else:
            self.calls.check_start(command.call_id, "delegate")
            self.n_delegates += 1
            child, limits = command.spec, self.spec.limits
            assert (child.run_id, child.depth) == (f"{self.spec.run_id}.{self.n_delegates}", self.spec.depth + 1)
            assert (child.parent_run_id, child.team_root) == (self.spec.run_id, self.spec.run_id)
            assert child.blocked_tools == self.spec.blocked_tools and child.approval_tools == self.spec.approval_tools
            assert self.n_delegates <= limits.delegates_per_run and self.spec.depth < limits.max_depth
            self.delegates[command.call_id] = command

    def _put_in_line(self, command: Command) -> None:
        assert self.inline is None, f"{command} while {self.inline} is under way"
        if isinstance(command, CallModel | FetchHints | ContinueAsNew):
            assert not self.calls.ends_here(), f"{command} after an ask"
        if isinstance(command, ContinueAsNew) or (isinstance(command, FetchHints) and self.requests):
            self.check_the_budget_lasts(command)
        match command:
            case CallModel():
                self._request(command)
            case RunTool():
                view = self.calls.check_start(command.call_id, "call")
                assert (view.seq, command.assistant_seq) == (command.reply_seq, self.calls.assistant_seq)
            case AskApproval():
                self.calls.check_asked(command.call_id)
            case FetchHints():
                self.hints.check_asked(self.state, command)
                assert len(self.twin.searches) and self.twin.searches[-1] == without_numbers(command.requests), (
                    "with a continue-as-new at every boundary another search is made"
                )
                self.reached["searches of two or more"] += len(command.requests) > 1
            case ContinueAsNew():
                self.reached["continue-as-new"] += 1
            case PrepareRun():
                assert command.spec == self.spec
        assert isinstance(command, Inline)
        self.inline = command

    def _request(self, command: CallModel) -> None:
        self.unsent = dict(self.history.entries)
        places = [append.seq for append in command.append]
        taken = [seq for seq in places if seq in self.history.entries]
        assert len(set(places)) == len(places), "a position is written twice"
        assert set(taken) <= self.raced, f"{taken} are written again"
        self.history.append_all(command.append)
        messages = self.history.read(command.reply_seq)
        assert command.turn == len(self.requests) + 1, "a turn is not one request"
        if not self.resumed:
            self.envelope.check_request_is_the_one_due(command.finale, len(self.requests), self.at_ns)
        else:
            assert not command.finale, "a run goes on as new only to ask with tools"
        request = Request(command.turn, command.event_id, messages, command.finale)
        assert command.reply_seq not in self.history.entries, "the reply's position is taken"
        check_request(request, self.requests[-1] if self.requests else None)
        self.requests.append(request)

    def check_the_budget_lasts(self, command: Command) -> None:
        """Nothing is searched for, and no new workflow begun, for the sake of a request without tools."""
        spent = self.envelope.spent(len(self.requests), self.at_ns)
        assert not spent, f"{type(command).__name__} although the limit of {spent} is spent"

    def undo(self) -> None:
        """The last request was never carried out, so nothing of it was written."""
        self.history.entries = dict(self.unsent)
        self.twin.history.entries = {seq: self.twin.history.entries[seq] for seq in self.unsent}
