"""The worker process: `python -m kernel.runtime.worker` executes runs until it is asked to stop."""

import asyncio
import gc
import logging
import signal
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from datetime import timedelta
from typing import Final

import psycopg
from temporalio.client import Client
from temporalio.service import RPCError
from temporalio.worker import Worker

from kernel.conversation.looking import record_tools
from kernel.drivers import Driver
from kernel.drivers.openai_chat import OpenAIChatDriver
from kernel.drivers.outside import OutsideError, outside_drivers
from kernel.drivers.scripted import ScriptedDriver
from kernel.edge.activities import Activities
from kernel.edge.observation_client import ObservationClient
from kernel.edge.records import PostgresRecords
from kernel.edge.telemetry_client import TelemetryClient
from kernel.edge.transcript import PostgresTranscript
from kernel.runtime.config import ConfigError, TemporalConfig, WorkerConfig, worker_config
from kernel.runtime.delivery import Delivery
from kernel.runtime.leaving import leave
from kernel.runtime.logs import log_cleanly
from kernel.runtime.operation import Operation
from kernel.runtime.workflow import AgentRun
from kernel.tools.mcp_servers import McpLimits, McpSessions
from kernel.tools.registry import Toolbox
from kernel.tools.shell import ShellLimits

logger = logging.getLogger(__name__)

HEARTBEAT_THROTTLE: Final = timedelta(seconds=2)  # a cancellation reaches an activity with the answer to a heartbeat
GRACE: Final = timedelta(seconds=2)  # what runs when a stop is asked for may take this long to end
RETRY_SECONDS: Final = 1.0
TELL_EVERY: Final = 10  # attempts
CONCURRENT_ACTIVITIES: Final = 50


async def serve(config: WorkerConfig, stop: asyncio.Event) -> None:
    """Execute runs until `stop` is set. Raises ConfigError when the transcript store cannot be used."""
    client = await connect(config.temporal, stop)
    if client is None:
        return
    async with _activities(config) as activities:
        worker = Worker(
            client,
            task_queue=config.temporal.task_queue,
            workflows=[AgentRun, Operation, Delivery],
            activities=[
                activities.prepare_run,
                activities.call_model,
                activities.run_tool,
                activities.run_operation,
                activities.close_transcript,
                activities.keep_answer,
                activities.fetch_hints,
                activities.send_events,
            ],
            graceful_shutdown_timeout=GRACE,
            max_concurrent_activities=CONCURRENT_ACTIVITIES,
            max_heartbeat_throttle_interval=HEARTBEAT_THROTTLE,
        )
        gc.collect()
        gc.freeze()  # what the imports made stays: a full collection of it would stop every run for a fifth of a second
        async with worker:
            logger.info("executing runs of %s at %s", config.temporal.task_queue, config.temporal.address)
            await stop.wait()
            logger.info("stopping")


async def connect(config: TemporalConfig, stop: asyncio.Event) -> Client | None:
    """Wait until Temporal answers and return the client, or None when `stop` is set first."""
    attempt = 0
    while not stop.is_set():
        try:
            return await Client.connect(config.address, namespace=config.namespace)
        except (RPCError, RuntimeError, OSError) as error:
            if attempt % TELL_EVERY == 0:
                reason = " ".join(str(error).split())[:200]
                logger.warning("waiting for Temporal at %s (TEMPORAL_ADDRESS): %s", config.address, reason)
        attempt += 1
        try:
            await asyncio.wait_for(stop.wait(), RETRY_SECONDS)
        except TimeoutError:
            continue
    return None


@asynccontextmanager
async def _activities(config: WorkerConfig) -> AsyncIterator[Activities]:
    """Open what the activities need and close it in the end."""
    drivers = drivers_of(config)
    try:
        store = await PostgresTranscript.open(config.database_url)
        records = await PostgresRecords.open(config.database_url)
    except psycopg.Error as error:
        raise ConfigError(f"KERNEL_DATABASE_URL does not lead to a usable database: {type(error).__name__}") from None
    config.work_dir.mkdir(parents=True, exist_ok=True)
    limits = ShellLimits(wall_seconds=config.tool_seconds)
    toolbox = Toolbox(
        config.work_dir,
        limits=limits,
        sessions=McpSessions(McpLimits(call_seconds=config.tool_seconds)),
        extra=record_tools(records),
        notes_dir=config.notes_dir,
        time_zone=config.time_zone,
    )
    observation = ObservationClient(config.base_url, config.api_key)
    telemetry = TelemetryClient(config.base_url, config.api_key)
    try:
        yield Activities(store, drivers, toolbox, observation, telemetry, records=records)
    finally:
        await toolbox.close()
        await _close(drivers)
        await observation.close()
        await telemetry.close()
        await store.close()
        await records.close()
        logger.info("telemetry: %s; failed searches: %d", dict(telemetry.counts), observation.n_failed)


def drivers_of(config: WorkerConfig) -> dict[str, Driver]:
    """Return the agents a run may name: the kernel's own, where the one that needs a key is there when a key or an
    address is, and those from outside. Raises ConfigError when one of these cannot be used."""
    drivers: dict[str, Driver] = {"scripted": ScriptedDriver()}
    if config.openai_base_url or config.openai_api_key:
        # An endpoint of one's own may need no key, but the client insists on a text.
        drivers["openai_chat"] = OpenAIChatDriver(config.openai_base_url, config.openai_api_key or "none")
    try:
        return drivers | outside_drivers(config.drivers, taken=("scripted", "openai_chat"))
    except OutsideError as error:
        raise ConfigError(str(error)) from None


async def _close(drivers: Mapping[str, Driver]) -> None:
    """Close all drivers; one that cannot be closed keeps neither the others nor the process."""
    for name, driver in drivers.items():
        try:
            await driver.close()
        except Exception as error:  # noqa: BLE001 - a driver is anybody's code
            logger.warning("the driver %s was not closed: %s", name, type(error).__name__)


async def main() -> int:
    """Run the worker and return its exit code: 0 after a clean stop, 2 when it could not start."""
    log_cleanly()
    for name in ("httpx", "httpx2"):
        logging.getLogger(name).setLevel(logging.WARNING)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for asked in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(asked, stop.set)
    try:
        await serve(worker_config(), stop)
    except ConfigError as error:
        logger.error("%s", error)
        return 2
    return 0


if __name__ == "__main__":
    leave(asyncio.run(main()))
