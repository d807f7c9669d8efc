"""The in-process runner: the same core and the same edges as on Temporal, without durability. For tests and benchmarks.

One command after another is executed where the loop stands, because a task for each would cost more than all that is
decided; what arrives from outside meanwhile is let in before the command's own outcome. At continue-as-new the state
goes through JSON and back, so that what would not survive there does not survive here.
"""

import asyncio
import logging
import time
from collections import deque
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from typing import Any, Final

from contract.redaction import redact
from contract.text import clip
from kernel.core.activation import unanswered
from kernel.core.codec import from_json, to_json
from kernel.core.decide import decide, start
from kernel.core.state import RunState
from kernel.core.transitions import IllegalObservation
from kernel.messages import (
    ApprovalDecided,
    AskApproval,
    AskQuestion,
    CallModel,
    CancelRequested,
    CloseTranscript,
    Command,
    ContinueAsNew,
    DelegateFinished,
    FetchHints,
    Finish,
    KeepAnswer,
    ModelFailed,
    Observation,
    OperationFinished,
    PrepareRun,
    QuestionAnswered,
    Resumed,
    RunBroken,
    RunPrepared,
    RunResult,
    RunSpec,
    RunTool,
    SendEvents,
    StartDelegate,
    StartOperation,
    StopOperation,
    ToolFinished,
)
from kernel.runtime.edges import Edges

logger = logging.getLogger(__name__)

Approve = Callable[[AskApproval], Awaitable[bool]]
Answer = Callable[[AskQuestion], Awaitable[str]]

HINTS_GRACE: Final = 0.5  # seconds over the retrieval's own timeout, after which its edge counts as lost
LAST_SEND_SECONDS: Final = 30.0  # how long an ended run waits for its last events
ERROR_LIMIT: Final = 500  # code points


class LocalRun:
    """One run in this process. `cancel` may be called while it runs, from its event loop.

    `state` is that after the last observation; `telemetry_failures` counts reports that were not delivered.
    """

    def __init__(
        self,
        edges: Edges,
        approve: Approve | None = None,
        clock_ns: Callable[[], int] = time.time_ns,
        answer: Answer | None = None,
    ) -> None:
        """Without `approve` no call that needs a person's yes is executed, without `answer` no question is answered."""
        self._edges = edges
        self._approve = approve
        self._answer = answer
        self._clock_ns = clock_ns
        self._inbox: deque[Observation] = deque()
        self._arrived = asyncio.Event()
        self._reports: deque[SendEvents] = deque()
        self._sending: asyncio.Task[None] | None = None
        self._lasting: set[asyncio.Task[None]] = set()
        self._working: dict[str, asyncio.Task[Observation]] = {}
        self._task: asyncio.Task[Any] | None = None
        self._executing = False
        self._cancelled = False
        self.state: RunState | None = None
        self.telemetry_failures = 0

    def cancel(self, reason: str = "") -> None:
        """Stop now: what is being executed is stopped, and its result is not used."""
        self._cancelled = True
        self._deliver(CancelRequested(self._clock_ns(), reason))
        if self._executing and self._task is not None:
            self._task.cancel()

    async def run(self, spec: RunSpec) -> RunResult:
        """Run to the end and return how it ended. Edges that fail are a result of the run, never raised."""
        self._task = asyncio.current_task()
        self.state, first = start(spec)
        commands: Sequence[Command] = first
        try:
            while True:
                command = self._begin(commands)
                if isinstance(command, Finish):
                    return RunResult(command.run_id, command.status, command.answer, command.reason)
                commands = await self._follow(command)
        finally:
            for task in self._working.values():
                task.cancel()
            await self._last_reports()

    def _deliver(self, observation: Observation) -> None:
        self._inbox.append(observation)
        self._arrived.set()

    def _begin(self, commands: Sequence[Command]) -> Command | None:
        """Start what goes on beside the loop and return the command that is to be executed, if there is one."""
        inline: Command | None = None
        for command in commands:
            match command:
                case SendEvents():
                    self._report(command)
                case CloseTranscript():
                    self._last(self._close(command))
                case KeepAnswer():
                    self._last(self._keep(command))
                case StartOperation():
                    self._work(command.operation_id, self._operate(command))
                case StopOperation():
                    self._stop(command.operation_id)
                case StartDelegate():
                    self._work(command.spec.run_id, self._delegate(command))
                case AskQuestion():
                    self._work(command.call_id, self._ask(command))
                case _ if inline is not None:
                    raise AssertionError(f"one command at a time, not {inline!r} and {command!r}")
                case _:
                    inline = command
        return inline

    def _report(self, command: SendEvents) -> None:
        """Hand a report to the one task that sends them, in order."""
        self._reports.append(command)
        if self._sending is None or self._sending.done():
            self._sending = asyncio.create_task(self._send_reports())
            self._lasting.add(self._sending)
            self._sending.add_done_callback(self._lasting.discard)

    async def _send_reports(self) -> None:
        while self._reports:
            await self._send_events(self._reports.popleft())

    def _last(self, work: Coroutine[Any, Any, None]) -> None:
        task = asyncio.create_task(work)
        self._lasting.add(task)
        task.add_done_callback(self._lasting.discard)

    def _work(self, name: str, work: Coroutine[Any, Any, Observation]) -> None:
        def put_in_line(done: asyncio.Task[Observation]) -> None:
            self._working.pop(name, None)
            if not done.cancelled():
                self._deliver(done.result())

        task = asyncio.create_task(work)
        self._working[name] = task
        task.add_done_callback(put_in_line)

    def _stop(self, name: str) -> None:
        task = self._working.get(name)
        if task is not None:
            task.cancel()

    async def _follow(self, command: Command | None) -> Sequence[Command]:
        """Execute a command, or wait when there is none, and return what follows."""
        if command is None:
            while not self._inbox:
                self._arrived.clear()
                await self._arrived.wait()
            return self._observe(self._inbox.popleft())
        outcome = await self._interruptible(command)
        while self._inbox:
            commands = self._observe(self._inbox.popleft())
            if outcome is None or (self.state is not None and self.state.phase == "finished"):
                return commands
            self._begin(commands)
        if outcome is None:
            raise AssertionError("interrupted without a reason")
        return self._observe(outcome)

    async def _interruptible(self, command: Command) -> Observation | None:
        """Execute a command; None when the run was cancelled meanwhile."""
        self._executing = True
        try:
            outcome = await self._execute(command)
            if self._cancelled:
                await asyncio.sleep(0)  # takes the cancellation that is still on its way to this task
            return outcome
        except asyncio.CancelledError:
            if not self._cancelled or self._task is None:
                raise
            self._task.uncancel()
            return None
        finally:
            self._executing = False

    def _observe(self, observation: Observation) -> Sequence[Command]:
        assert self.state is not None
        try:
            self.state, commands = decide(self.state, observation)
        except IllegalObservation as error:  # a defect: the run ends, and says so
            self.state, commands = decide(self.state, RunBroken(self._clock_ns(), str(error)))
        return commands

    async def _last_reports(self) -> None:
        """Wait for the reports under way, for a bounded time."""
        if self._lasting:
            _, late = await asyncio.wait(tuple(self._lasting), timeout=LAST_SEND_SECONDS)
            self.telemetry_failures += len(late)
            for task in late:
                task.cancel()

    async def _execute(self, command: Command) -> Observation:
        match command:
            case CallModel():
                return await self._call_model(command)
            case RunTool():
                return await self._run_tool(command)
            case FetchHints():
                return await self._fetch_hints(command)
            case PrepareRun():
                return await self._prepare(command)
            case AskApproval():
                return await self._ask_approval(command)
            case ContinueAsNew():
                assert self.state is not None
                self.state = from_json(RunState, to_json(self.state))
                return Resumed(self._clock_ns())
            case _:
                raise AssertionError(f"no way to execute {command!r}")

    async def _prepare(self, command: PrepareRun) -> Observation:
        try:
            return await self._edges.prepare_run(command)
        except Exception as error:  # noqa: BLE001 - a run that cannot be prepared has failed, it does not raise
            return RunPrepared(self._clock_ns(), (), error=f"preparation was lost: {_why(error)}")

    async def _call_model(self, command: CallModel) -> Observation:
        requested = self._clock_ns()
        try:
            answer = await self._edges.call_model(command)
        except Exception as error:  # noqa: BLE001 - a request whose edge was lost has failed, it does not raise
            return ModelFailed(self._clock_ns(), requested, "model_lost", _why(error))
        outcome = answer.replied or answer.failed
        if outcome is None:
            return ModelFailed(self._clock_ns(), requested, "no_answer", "neither a reply nor an error came")
        return outcome

    async def _run_tool(self, command: RunTool) -> Observation:
        started = self._clock_ns()
        try:
            return await self._edges.run_tool(command)
        except Exception as error:  # noqa: BLE001 - infrastructure was lost: whether the tool ran is not known
            logger.warning("the edge of a tool call was lost: %s", type(error).__name__)
            return ToolFinished(
                self._clock_ns(), started, command.call_id, "timed_out", "uncertain", "lost", reply_written=False
            )

    async def _fetch_hints(self, command: FetchHints) -> Observation:
        started = self._clock_ns()
        try:
            async with asyncio.timeout(command.timeout_ms / 1000 + HINTS_GRACE):
                return await self._edges.fetch_hints(command)
        except TimeoutError:
            return unanswered(command, started, self._clock_ns(), "timeout", "no answer in time")
        except Exception as error:  # noqa: BLE001 - knowledge is best effort: the run goes on without it
            logger.warning("a retrieval was lost: %s", type(error).__name__)
            return unanswered(command, started, self._clock_ns(), "error", type(error).__name__)

    async def _send_events(self, command: SendEvents) -> None:
        try:
            await self._edges.send_events(command)
        except Exception as error:  # noqa: BLE001 - telemetry is best effort: the run goes on without it
            self.telemetry_failures += 1
            logger.warning("telemetry was not sent: %s", type(error).__name__)

    async def _close(self, command: CloseTranscript) -> None:
        try:
            await self._edges.close_transcript(command)
        except Exception as error:  # noqa: BLE001 - the run is over, and how it ended does not depend on this
            logger.warning("a transcript was not closed: %s", type(error).__name__)

    async def _keep(self, command: KeepAnswer) -> None:
        try:
            await self._edges.keep_answer(command)
        except Exception as error:  # noqa: BLE001 - the run is over, and how it ended does not depend on this
            logger.warning("the answer of a conversation was not kept: %s", type(error).__name__)

    async def _operate(self, command: StartOperation) -> Observation:
        try:
            return await self._edges.run_operation(command)
        except Exception as error:  # noqa: BLE001 - infrastructure was lost: whether the operation ran is not known
            now = self._clock_ns()
            return OperationFinished(now, command.operation_id, "timed_out", "uncertain", "lost", note=_why(error))

    async def _delegate(self, command: StartDelegate) -> Observation:
        child = LocalRun(self._edges, self._approve, self._clock_ns, self._answer)
        work = asyncio.ensure_future(child.run(command.spec))
        try:
            result = await asyncio.shield(work)
        except asyncio.CancelledError:
            child.cancel("the run that delegated to it ended")
            await work
            raise
        return DelegateFinished(self._clock_ns(), command.call_id, result.status, result.answer, result.reason)

    async def _ask_approval(self, command: AskApproval) -> Observation:
        limit = command.timeout_ms / 1000 if command.timeout_ms else None
        try:
            async with asyncio.timeout(limit):
                approved = self._approve is not None and await self._approve(command)
        except Exception as error:  # noqa: BLE001 - whoever was to decide did not
            _nobody(error)
            return ApprovalDecided(self._clock_ns(), command.call_id, approved=False, timed_out=True)
        return ApprovalDecided(self._clock_ns(), command.call_id, approved, by="caller" if self._approve else "nobody")

    async def _ask(self, command: AskQuestion) -> Observation:
        limit = command.timeout_ms / 1000 if command.timeout_ms else None
        if self._answer is None:
            return QuestionAnswered(self._clock_ns(), command.call_id, timed_out=True)
        try:
            async with asyncio.timeout(limit):
                text = await self._answer(command)
        except Exception as error:  # noqa: BLE001 - whoever was to answer did not
            _nobody(error)
            return QuestionAnswered(self._clock_ns(), command.call_id, timed_out=True)
        return QuestionAnswered(self._clock_ns(), command.call_id, text, by="caller")


def _nobody(error: Exception) -> None:
    if not isinstance(error, TimeoutError):
        logger.warning("a person's answer was lost: %s", type(error).__name__)


def _why(error: Exception) -> str:
    return clip(f"{type(error).__name__}: {redact(str(error))[0]}", ERROR_LIMIT)
