"""A background operation as a workflow of its own: it outlives the workflow run that started it.

It reports to the run by the run's id, so that a run that went on in another workflow run is reached as well.
(Seed 001 §5, §15.)
"""

from datetime import timedelta
from typing import Final

from temporalio import workflow
from temporalio.exceptions import ActivityError, ApplicationError

with workflow.unsafe.imports_passed_through():
    from kernel.messages import OperationFinished, StartOperation

from kernel.runtime.acting import ONCE, act, unless_cancelled, why

WORKFLOW: Final = "Operation"
TIME: Final = timedelta(hours=2)  # tools have shorter limits of their own
REPORT: Final = "operation_finished"  # the signal the run takes


def operation_workflow_id(run_id: str, operation_id: str) -> str:
    return f"{run_id}/{operation_id}"


@workflow.defn(name=WORKFLOW)
class Operation:
    """One operation. Cancelled, it stops and reports nothing: its run is over."""

    @workflow.run
    async def run(self, command: StartOperation) -> None:
        """Execute and report; a worker that was lost meanwhile is an outcome as well."""
        try:
            finished = await act("run_operation", command, OperationFinished, start_to_close=TIME, retry=ONCE)
        except (ActivityError, ApplicationError) as error:
            unless_cancelled(error)
            detail = f"the operation was lost; whether it ran to its end is not known ({why(error)})"
            now = workflow.time_ns()
            finished = OperationFinished(now, command.operation_id, "timed_out", "uncertain", "lost", note=detail)
        run = workflow.get_external_workflow_handle(command.run_id)
        try:
            await run.signal(REPORT, finished)
        except ApplicationError as error:
            workflow.logger.info("the run of operation %s is over: %s", command.operation_id, error)
