"""Reports that a run could not deliver before it ended, as a workflow of its own with a day's patience.

A run does not wait for an ingest that is away, and what it had to say is not lost with it. (Seed 001 §12, §13.)
"""

from datetime import timedelta
from typing import Final

from temporalio import workflow
from temporalio.common import RetryPolicy

with workflow.unsafe.imports_passed_through():
    from kernel.messages import SendEvents

from kernel.runtime.executing import DELIVERY, deliver

PATIENCE: Final = timedelta(hours=24)
RETRY: Final = RetryPolicy(initial_interval=timedelta(seconds=2), maximum_interval=timedelta(minutes=1))


@workflow.defn(name=DELIVERY)
class Delivery:
    """One report. What ingest has already is told again and changes nothing: events are known by their ids."""

    @workflow.run
    async def run(self, command: SendEvents) -> None:
        """Deliver, or give up after a day and say so in the log."""
        await deliver(command, RETRY, PATIENCE)
