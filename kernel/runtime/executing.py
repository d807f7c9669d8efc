"""How each command of the core is carried out on Temporal: as an activity or a child workflow, within its time limits.

Whatever is lost is an observation like any other: nothing here is raised into the run but its own cancellation.
Used inside Temporal's sandbox. (Seed 001 §12, §15.)
"""

from datetime import timedelta
from typing import Final

from temporalio import workflow
from temporalio.common import RetryPolicy, WorkflowIDReusePolicy
from temporalio.exceptions import (
    ActivityError,
    ApplicationError,
    ChildWorkflowError,
    TimeoutError,
    WorkflowAlreadyStartedError,
)
from temporalio.workflow import ParentClosePolicy

with workflow.unsafe.imports_passed_through():
    from kernel.messages import (
        CallModel,
        CloseTranscript,
        Command,
        DelegateFinished,
        FetchHints,
        HintsArrived,
        KeepAnswer,
        ModelAnswer,
        ModelFailed,
        Observation,
        OperationFinished,
        PrepareRun,
        RunInput,
        RunPrepared,
        RunResult,
        RunTool,
        SendEvents,
        StartDelegate,
        StartOperation,
        StopOperation,
        ToolFinished,
    )

from kernel.core.activation import unanswered
from kernel.runtime.acting import HEARTBEAT, ONCE, act, guard, kind, unless_cancelled, why
from kernel.runtime.operation import WORKFLOW as OPERATION
from kernel.runtime.operation import operation_workflow_id

DELIVERY: Final = "Delivery"  # the workflow of kernel.runtime.delivery
PREPARE_TIME: Final = timedelta(minutes=5)
MODEL_TIME: Final = timedelta(minutes=5)  # of one attempt
TOOL_TIME: Final = timedelta(minutes=5)  # tools have shorter limits of their own; this one finds what hangs
HINTS_GRACE: Final = timedelta(milliseconds=1_500)  # over the retrieval's own timeout, for the way to a worker
SEND_TIME: Final = timedelta(seconds=60)
SEND_TOTAL: Final = timedelta(minutes=10)
CLOSE_TIME: Final = timedelta(seconds=30)

PREPARE_RETRY: Final = RetryPolicy(maximum_attempts=3)
MODEL_RETRY: Final = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=5)
# The activity does not execute a call with an effect twice: another attempt finds the reply, or says what was lost.
TOOL_RETRY: Final = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=3)
SEND_RETRY: Final = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=20), maximum_attempts=20
)


async def execute(command: Command) -> Observation:
    """Carry out a command whose outcome the core waits for."""
    match command:
        case PrepareRun():
            return await prepare(command)
        case CallModel():
            return await call_model(command)
        case RunTool():
            return await run_tool(command)
        case FetchHints():
            return await fetch_hints(command)
        case StartDelegate():
            return await delegate(command)
        case _:
            raise ApplicationError(f"no way to execute {type(command).__name__}", non_retryable=True)


async def prepare(command: PrepareRun) -> Observation:
    """Make the run ready, in a few attempts."""
    try:
        return await act("prepare_run", command, RunPrepared, start_to_close=PREPARE_TIME, retry=PREPARE_RETRY)
    except (ActivityError, ApplicationError) as error:
        return RunPrepared(workflow.time_ns(), (), error=f"preparation was lost: {why(error)}")


async def call_model(command: CallModel) -> Observation:
    """Ask the model; failures worth it are tried again with the same request."""
    requested_ns = workflow.time_ns()
    try:
        answer = await act("call_model", command, ModelAnswer, start_to_close=MODEL_TIME, retry=MODEL_RETRY)
    except (ActivityError, ApplicationError) as error:
        return ModelFailed(workflow.time_ns(), requested_ns, "model_lost", why(error))
    outcome = answer.replied or answer.failed
    if outcome is None:
        return ModelFailed(workflow.time_ns(), requested_ns, "no_answer", "neither a reply nor an error came")
    return outcome


async def run_tool(command: RunTool) -> Observation:
    """Execute a call; the edge sees to it that one with an effect is executed once, however often it is tried."""
    started_ns = workflow.time_ns()
    try:
        return await act("run_tool", command, ToolFinished, start_to_close=TOOL_TIME, retry=TOOL_RETRY)
    except (ActivityError, ApplicationError) as error:
        unless_cancelled(error)
        return ToolFinished(
            workflow.time_ns(), started_ns, command.call_id, "timed_out", "uncertain", "lost", reply_written=False
        )


async def fetch_hints(command: FetchHints) -> Observation:
    """Ask Observation, once: a search that is lost is an answer."""
    requested_ns = workflow.time_ns()
    limit = timedelta(milliseconds=command.timeout_ms) + HINTS_GRACE
    try:
        return await act("fetch_hints", command, HintsArrived, schedule_to_close=limit, retry=ONCE, beats=False)
    except (ActivityError, ApplicationError) as error:
        unless_cancelled(error)
        timed_out = isinstance(error.__cause__, TimeoutError)
        result, detail = ("timeout", "no answer in time") if timed_out else ("error", kind(error))
        return unanswered(command, requested_ns, workflow.time_ns(), result, detail)


async def delegate(command: StartDelegate) -> Observation:
    """Run the member's run to its end; it is cancelled when this one ends first."""
    given = RunInput(command.spec)
    try:
        guard(given)
        result = await workflow.execute_child_workflow(
            "AgentRun",
            given,
            id=command.spec.run_id,
            result_type=RunResult,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            parent_close_policy=ParentClosePolicy.REQUEST_CANCEL,
            memo=workflow.memo(),
        )
    except ChildWorkflowError as error:
        return DelegateFinished(workflow.time_ns(), command.call_id, "failed", reason=why(error))
    except (WorkflowAlreadyStartedError, ApplicationError) as error:
        return DelegateFinished(workflow.time_ns(), command.call_id, "failed", reason=why(error), started=False)
    return DelegateFinished(workflow.time_ns(), command.call_id, result.status, result.answer, result.reason)


async def start_operation(command: StartOperation) -> OperationFinished | None:
    """Start an operation that goes on when this workflow run does not; return its outcome when it cannot be started."""
    try:
        await workflow.start_child_workflow(
            OPERATION,
            command,
            id=operation_workflow_id(command.run_id, command.operation_id),
            parent_close_policy=ParentClosePolicy.ABANDON,
        )
    except (WorkflowAlreadyStartedError, ChildWorkflowError) as error:
        detail = f"the operation could not be started: {why(error)}"
        now = workflow.time_ns()
        return OperationFinished(now, command.operation_id, "failed", "none", "not_started", note=detail)
    return None


async def deliver(command: SendEvents, retry: RetryPolicy = SEND_RETRY, total: timedelta = SEND_TOTAL) -> None:
    """Report, with patience; what cannot be delivered is logged."""
    try:
        guard(command)
        await workflow.execute_activity(
            "send_events",
            command,
            retry_policy=retry,
            start_to_close_timeout=SEND_TIME,
            schedule_to_close_timeout=total,
            heartbeat_timeout=HEARTBEAT,
        )
    except (ActivityError, ApplicationError) as error:
        workflow.logger.warning("%d events were not delivered: %s", len(command.events), why(error))


async def hand_over(command: SendEvents) -> None:
    """Leave a report to a workflow that outlives the run."""
    try:
        await workflow.start_child_workflow(
            DELIVERY,
            command,
            id=f"{command.run_id}/report-{command.events[0].seq}",
            parent_close_policy=ParentClosePolicy.ABANDON,
        )
    except (WorkflowAlreadyStartedError, ChildWorkflowError) as error:
        workflow.logger.warning("%d events were not handed over: %s", len(command.events), why(error))


async def close(command: CloseTranscript) -> None:
    """Write the last messages of a run; best effort, as the run is over."""
    try:
        await workflow.execute_activity(
            "close_transcript",
            command,
            retry_policy=PREPARE_RETRY,
            start_to_close_timeout=CLOSE_TIME,
            heartbeat_timeout=HEARTBEAT,
        )
    except ActivityError as error:
        workflow.logger.warning("the transcript was not closed: %s", why(error))


async def keep(command: KeepAnswer) -> None:
    """Write what a run of a conversation said; the run has ended as it has, whatever becomes of this."""
    try:
        await workflow.execute_activity(
            "keep_answer",
            command,
            retry_policy=SEND_RETRY,
            start_to_close_timeout=CLOSE_TIME,
            heartbeat_timeout=HEARTBEAT,
        )
    except ActivityError as error:
        workflow.logger.warning("the answer of a conversation was not kept: %s", why(error))


async def stop_operation(command: StopOperation) -> None:
    """Cancel an operation; one that has ended already is no matter."""
    operation = workflow.get_external_workflow_handle(operation_workflow_id(command.run_id, command.operation_id))
    try:
        await operation.cancel()
    except ApplicationError as error:
        workflow.logger.info("operation %s is over already: %s", command.operation_id, error)
