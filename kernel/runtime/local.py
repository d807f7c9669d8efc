"""The in-process runner: the same core and the same edges as on Temporal, without durability. For tests and benchmarks.

At continue-as-new the state goes through JSON and back, so that what would not survive there does not survive here.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import replace
from typing import Final

from contract.redaction import redact
from contract.text import clip
from kernel.core.activation import unanswered
from kernel.core.codec import from_json, to_json
from kernel.core.decide import decide, start
from kernel.core.state import RunState
from kernel.messages import (
    ApprovalDecided,
    AskApproval,
    CallModel,
    CancelRequested,
    Command,
    ContinueAsNew,
    FetchHints,
    Finish,
    ModelFailed,
    Observation,
    OperationFinished,
    PrepareRun,
    Resumed,
    RunPrepared,
    RunResult,
    RunSpec,
    RunTool,
    SendEvents,
    ToolFinished,
)
from kernel.runtime.edges import Edges

logger = logging.getLogger(__name__)

Approve = Callable[[AskApproval], Awaitable[bool]]

HINTS_GRACE: Final = 0.5  # seconds over the retrieval's own timeout, after which its edge counts as lost
LAST_SEND_SECONDS: Final = 30.0  # how long an ended run waits for its last events
STOP_SECONDS: Final = 5.0  # how long what a cancelled run was doing may take to stop
ERROR_LIMIT: Final = 500  # code points


class LocalRun:
    """One run in this process. `cancel` and `finish_operation` may be called while it runs, from its event loop.

    `state` is that after the last observation; `telemetry_failures` counts reports that were not delivered.
    """

    def __init__(
        self, edges: Edges, approve: Approve | None = None, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        """Without `approve` no call that needs a person's yes is executed."""
        self._edges = edges
        self._approve = approve
        self._clock_ns = clock_ns
        self._waiting: list[Observation] = []
        self._arrived = asyncio.Event()
        self._sends: list[asyncio.Task[None]] = []
        self.state: RunState | None = None
        self.telemetry_failures = 0

    def cancel(self, reason: str = "") -> None:
        """Stop now: what is being executed is stopped, and its result is not used."""
        self._deliver(CancelRequested(self._clock_ns(), reason))

    def finish_operation(self, finished: OperationFinished) -> None:
        """Report the outcome of a background operation."""
        self._deliver(replace(finished, at_ns=finished.at_ns or self._clock_ns()))

    async def run(self, spec: RunSpec) -> RunResult:
        """Run to the end and return how it ended. Edges that fail are a result of the run, never raised."""
        self.state, commands = start(spec)
        while True:
            command = self._send_reports(commands)
            if isinstance(command, Finish):
                await self._last_sends()
                return RunResult(command.run_id, command.status, command.answer, command.reason)
            if command is None:
                raise AssertionError(f"nothing follows {commands!r}")
            commands = await self._follow(command)

    def _deliver(self, observation: Observation) -> None:
        self._waiting.append(observation)
        self._arrived.set()

    def _send_reports(self, commands: Sequence[Command]) -> Command | None:
        """Start the reports among the commands and return the one that is to be executed, if there is one."""
        rest = [command for command in commands if not isinstance(command, SendEvents)]
        for command in commands:
            if isinstance(command, SendEvents):
                self._sends.append(asyncio.create_task(self._send_events(command)))
        if len(rest) > 1:
            raise AssertionError(f"one command at a time, not {rest!r}")
        return rest[0] if rest else None

    async def _follow(self, command: Command) -> tuple[Command, ...]:
        """Execute a command and return what follows; what arrives from outside meanwhile is let in at once."""
        work = asyncio.ensure_future(self._execute(command))
        try:
            while True:
                while self._waiting:
                    commands = self._observe(self._waiting.pop(0))
                    if self.state is not None and self.state.phase == "finished":
                        return commands
                    self._send_reports(commands)
                if work.done():
                    return self._observe(work.result())
                self._arrived.clear()
                arrival = asyncio.ensure_future(self._arrived.wait())
                await asyncio.wait((work, arrival), return_when=asyncio.FIRST_COMPLETED)
                arrival.cancel()
        finally:
            if not work.done():
                work.cancel()
                await asyncio.wait((work,), timeout=STOP_SECONDS)

    def _observe(self, observation: Observation) -> tuple[Command, ...]:
        assert self.state is not None
        self.state, commands = decide(self.state, observation)
        return commands

    async def _last_sends(self) -> None:
        """Wait for the reports under way, for a bounded time."""
        if self._sends:
            _, late = await asyncio.wait(self._sends, timeout=LAST_SEND_SECONDS)
            self.telemetry_failures += len(late)
            for task in late:
                task.cancel()

    async def _execute(self, command: Command) -> Observation:
        match command:
            case PrepareRun():
                return await self._prepare(command)
            case CallModel():
                return await self._call_model(command)
            case RunTool():
                return await self._run_tool(command)
            case FetchHints():
                return await self._fetch_hints(command)
            case AskApproval():
                return await self._ask(command)
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

    async def _ask(self, command: AskApproval) -> Observation:
        approved = self._approve is not None and await self._approve(command)
        return ApprovalDecided(self._clock_ns(), command.call_id, approved, by="caller" if self._approve else "nobody")


def _why(error: Exception) -> str:
    return clip(f"{type(error).__name__}: {redact(str(error))[0]}", ERROR_LIMIT)
