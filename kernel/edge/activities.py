"""The activities of a run: everything that touches the world, each safe to repeat. Both runners execute these.

No exception leaves with a text that was not redacted: what an activity raises is in workflow history, too.
"""

import asyncio
import logging
import time
from collections.abc import Callable, Coroutine, Mapping
from datetime import timedelta
from typing import Any, Final, TypeVar

from temporalio import activity
from temporalio.exceptions import ApplicationError

from contract.events import TERMINAL_TYPES
from kernel.drivers import Driver
from kernel.edge import answering, model_call, preparation, tool_call
from kernel.edge.histories import Histories
from kernel.edge.observation_client import ObservationClient
from kernel.edge.records import MemoryRecords, RecordStore
from kernel.edge.reporting import wire_events
from kernel.edge.retry import ModelError
from kernel.edge.telemetry_client import TelemetryClient
from kernel.edge.transcript import TranscriptStore
from kernel.messages import (
    CallModel,
    CloseTranscript,
    FetchHints,
    HintsArrived,
    KeepAnswer,
    ModelAnswer,
    OperationFinished,
    PrepareRun,
    RunPrepared,
    RunTool,
    SendEvents,
    StartOperation,
    ToolFinished,
)
from kernel.tools.registry import Toolbox

logger = logging.getLogger(__name__)

HEARTBEAT_SECONDS: Final = 2.0
ERROR_LIMIT: Final = 500  # code points
END_SECONDS: Final = 10.0  # for a driver to let go of a run; the run's report waits for it

T = TypeVar("T")
_TERMINAL: Final = frozenset(TERMINAL_TYPES)


class Activities:
    """The edges of all runs of one process; what it is given, it does not close."""

    def __init__(
        self,
        store: TranscriptStore,
        drivers: Mapping[str, Driver],
        toolbox: Toolbox,
        observation: ObservationClient,
        telemetry: TelemetryClient,
        clock_ns: Callable[[], int] = time.time_ns,
        records: RecordStore | None = None,
        end_seconds: float = END_SECONDS,
    ) -> None:
        """`drivers` are the agents a run may name; `clock_ns` returns Unix nanoseconds; conversations are kept in
        `records`, without them in memory; a driver has `end_seconds` to let go of a run."""
        self._store = Histories(store)
        self._records = records or MemoryRecords()
        self._drivers = drivers
        self._toolbox = toolbox
        self._observation = observation
        self._telemetry = telemetry
        self._clock_ns = clock_ns
        self._end_seconds = end_seconds

    @activity.defn
    async def prepare_run(self, command: PrepareRun) -> RunPrepared:
        """Make the run's folders, tools and first messages; repeated, return what the first time found."""
        return await _kept_alive(
            preparation.prepare(self._store, self._records, self._toolbox, self._clock_ns, command)
        )

    @activity.defn
    async def call_model(self, command: CallModel) -> ModelAnswer:
        """Ask the model and write its reply; a reply that is written already is returned as it is.

        A failure worth another attempt is raised for Temporal to repeat, and returned when no attempt is left.
        """
        return await _kept_alive(self._call_model(command))

    async def _call_model(self, command: CallModel) -> ModelAnswer:
        try:
            return await model_call.call_model(self._store, self._drivers, self._clock_ns, command)
        except ModelError as error:
            if not _attempts_left():
                return await model_call.last_failure(self._store, self._clock_ns, command, error)
            wait = None if error.retry_after is None else timedelta(seconds=error.retry_after)
            text = preparation.safe(str(error), ERROR_LIMIT)
            raise ApplicationError(text, type=error.error_class, next_retry_delay=wait) from None

    @activity.defn
    async def run_tool(self, command: RunTool) -> ToolFinished:
        """Execute one tool call and write its reply; a call that has its reply is not executed again."""
        return await _kept_alive(tool_call.run_tool(self._store, self._toolbox, self._clock_ns, command))

    @activity.defn
    async def run_operation(self, command: StartOperation) -> OperationFinished:
        """Execute a call in the background and return its outcome."""
        return await _kept_alive(tool_call.run_operation(self._store, self._toolbox, self._clock_ns, command))

    @activity.defn
    async def close_transcript(self, command: CloseTranscript) -> None:
        """Write the last messages of a run that ended, so that its history is a legal one."""
        await _kept_alive(tool_call.close_transcript(self._store, command))

    @activity.defn
    async def keep_answer(self, command: KeepAnswer) -> None:
        """Write what a run of a conversation answered into its records; repeated, write nothing."""
        await _kept_alive(answering.keep_answer(self._store, self._records, self._clock_ns, command))

    @activity.defn
    async def fetch_hints(self, command: FetchHints) -> HintsArrived:
        """Ask Observation once for all activations of a boundary; every failure is an answer."""
        requested_ns = self._clock_ns()
        answers = await self._observation.fetch(command)
        return HintsArrived(self._clock_ns(), requested_ns, answers)

    @activity.defn
    async def send_events(self, command: SendEvents) -> None:
        """Report to ingest. What it did not take is raised for Temporal to repeat while attempts are left.

        The run's terminal event is the last sign of a run: what this process still holds for it is closed.
        """
        await _kept_alive(self._send_events(command))

    async def _send_events(self, command: SendEvents) -> None:
        ended = not _TERMINAL.isdisjoint([event.type for event in command.events])
        if ended:
            await self._toolbox.close_run(command.run_id)
            await self._end_run(command.run_id)
        report = await self._telemetry.send(await wire_events(self._store, command))
        if report.n_undelivered and _attempts_left():
            raise ApplicationError(preparation.safe(report.problem, ERROR_LIMIT), type="ingest_unavailable")
        if ended:
            self._store.forget(command.run_id)

    async def _end_run(self, run_id: str) -> None:
        """Let every driver go of a run; one that cannot, or not in time, keeps neither the others nor the report."""
        endings = [asyncio.create_task(_let_go(name, driver, run_id)) for name, driver in self._drivers.items()]
        if endings:
            await asyncio.wait(endings, timeout=self._end_seconds)
        for ending in endings:
            ending.cancel()


async def _let_go(name: str, driver: Driver, run_id: str) -> None:
    try:
        await driver.end_run(run_id)
    except (KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a driver is anybody's code
        logger.warning("the driver %s did not let go of a run: %s", name, type(error).__name__)


def _attempts_left() -> bool:
    """Return whether Temporal will run the current activity again when it fails; outside of Temporal nobody does."""
    if not activity.in_activity():
        return False
    info = activity.info()
    most = info.retry_policy.maximum_attempts if info.retry_policy is not None else 1
    return most == 0 or info.attempt < most


async def _kept_alive(work: Coroutine[Any, Any, T]) -> T:
    """Do the work and tell Temporal meanwhile that this process lives, so that its death is noticed long before any
    time limit.

    Exceptions nobody expected leave as their class and redacted text, without their cause.
    """
    beating = asyncio.create_task(_heartbeat()) if activity.in_activity() else None
    try:
        return await work
    except ApplicationError:
        raise
    except Exception as error:  # noqa: BLE001 - exception text must be redacted before Temporal keeps it
        text = preparation.safe(str(error), ERROR_LIMIT)
        logger.error("activity failed: %s: %s", type(error).__name__, text)
        raise ApplicationError(text, type=type(error).__name__) from None
    finally:
        if beating is not None:
            beating.cancel()
            await asyncio.wait([beating])


async def _heartbeat() -> None:
    while True:
        activity.heartbeat()
        await asyncio.sleep(HEARTBEAT_SECONDS)
