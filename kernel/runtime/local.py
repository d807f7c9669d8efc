"""The in-process runner: the same core and the same edges as on Temporal, without durability. For tests and benchmarks.

At continue-as-new the state goes through JSON and back, so that what would not survive there does not survive here.
"""

import asyncio
import logging
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

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
    RunResult,
    RunSpec,
    RunTool,
    SendEvents,
    ToolFinished,
)
from kernel.runtime.edges import Edges

logger = logging.getLogger(__name__)

Approve = Callable[[AskApproval], Awaitable[bool]]


class LocalRun:
    """One run in this process. `cancel` and `finish_operation` may be called while it runs."""

    def __init__(
        self, edges: Edges, approve: Approve | None = None, clock_ns: Callable[[], int] = time.time_ns
    ) -> None:
        self._edges = edges
        self._approve = approve
        self._clock_ns = clock_ns
        self._waiting: list[Observation] = []
        self.state: RunState | None = None
        self.telemetry_failures = 0

    def cancel(self, reason: str = "") -> None:
        """Stop at the next observation: what is being executed is let finish and its result is not used."""
        self._waiting.append(CancelRequested(self._clock_ns(), reason))

    def finish_operation(self, finished: OperationFinished) -> None:
        """Report the outcome of a background operation."""
        self._waiting.append(replace(finished, at_ns=finished.at_ns or self._clock_ns()))

    async def run(self, spec: RunSpec) -> RunResult:
        """Run to the end and return how it ended."""
        self.state, commands = start(spec)
        while True:
            observation: Observation | None = None
            for command in commands:
                if isinstance(command, Finish):
                    return RunResult(command.run_id, command.status, command.answer, command.reason)
                observation = await self._execute(command) or observation
            if observation is None:
                raise AssertionError(f"nothing follows {commands!r}")
            commands = self._observe(observation)

    def _observe(self, observation: Observation) -> tuple[Command, ...]:
        """Let in what came from outside, then the result; a cancel in between makes the result moot."""
        assert self.state is not None
        while self._waiting:
            self.state, commands = decide(self.state, self._waiting.pop(0))
            if self.state.phase == "finished":
                return commands
        self.state, commands = decide(self.state, observation)
        return commands

    async def _execute(self, command: Command) -> Observation | None:
        match command:
            case PrepareRun():
                return await self._edges.prepare_run(command)
            case CallModel():
                return await self._call_model(command)
            case RunTool():
                return await self._run_tool(command)
            case FetchHints():
                return await self._fetch_hints(command)
            case SendEvents():
                await self._send_events(command)
                return None
            case AskApproval():
                return await self._ask(command)
            case ContinueAsNew():
                assert self.state is not None
                self.state = from_json(RunState, to_json(self.state))
                return Resumed(self._clock_ns())
            case _:
                raise AssertionError(f"no way to execute {command!r}")

    async def _call_model(self, command: CallModel) -> Observation:
        answer = await self._edges.call_model(command)
        outcome = answer.replied or answer.failed
        if outcome is None:
            now = self._clock_ns()
            return ModelFailed(now, now, "no_answer", "the driver gave neither a reply nor an error")
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
            async with asyncio.timeout(command.timeout_ms / 1000 * 1.25):
                return await self._edges.fetch_hints(command)
        except TimeoutError:
            return unanswered(command, started, self._clock_ns(), "timeout", "no answer in time")
        except Exception as error:  # noqa: BLE001 - knowledge is best effort: the run goes on without it
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
