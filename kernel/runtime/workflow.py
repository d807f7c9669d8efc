"""The Temporal runner: a durable loop around the core. It decides nothing itself.

The core is imported inside the sandbox, so that anything impure in it is refused; the message dataclasses are
passed through, so that what activities return is of the types the core knows. (Seed 001 §6, §15.)
"""

import asyncio
from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ActivityError, ApplicationError, TimeoutError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from kernel.messages import (
        ApprovalAnswer,
        ApprovalDecided,
        AskApproval,
        CallModel,
        CancelRequested,
        Command,
        ContinueAsNew,
        FetchHints,
        Finish,
        HintsArrived,
        ModelAnswer,
        ModelFailed,
        ModelReplied,
        Observation,
        PrepareRun,
        Resumed,
        RunInput,
        RunPrepared,
        RunResult,
        RunStatus,
        RunTool,
        SendEvents,
        ToolFinished,
    )

from kernel.core.activation import unanswered
from kernel.core.codec import from_json, to_json
from kernel.core.decide import decide, start
from kernel.core.state import RunState

HEARTBEAT: Final = timedelta(seconds=12)  # after which a silent worker counts as lost
PREPARE_TIME: Final = timedelta(minutes=5)
MODEL_TIME: Final = timedelta(minutes=5)  # of one attempt
TOOL_TIME: Final = timedelta(minutes=5)  # tools have shorter limits of their own; this one finds what hangs
HINTS_GRACE: Final = timedelta(milliseconds=1_500)  # over the retrieval's own timeout, for the way to a worker
SEND_TIME: Final = timedelta(seconds=60)
SEND_TOTAL: Final = timedelta(minutes=10)
LAST_SEND_SECONDS: Final = 60.0  # how long an ended run waits for its last events
MAX_ARGUMENT_BYTES: Final = 1_500_000  # Temporal refuses 2 MiB by retrying for ever, so nothing gets near it

ONCE: Final = RetryPolicy(maximum_attempts=1)
PREPARE_RETRY: Final = RetryPolicy(maximum_attempts=3)
MODEL_RETRY: Final = RetryPolicy(initial_interval=timedelta(seconds=1), maximum_attempts=5)
SEND_RETRY: Final = RetryPolicy(
    initial_interval=timedelta(seconds=1), maximum_interval=timedelta(seconds=20), maximum_attempts=20
)

T = TypeVar("T")


@workflow.defn(name="AgentRun")
class AgentRun:
    """One run of an agent; its workflow id is the run id."""

    def __init__(self) -> None:
        self._state: RunState | None = None
        self._asked: AskApproval | None = None
        self._decided: ApprovalDecided | None = None
        self._sending: list[asyncio.Task[None]] = []

    @workflow.run
    async def run(self, given: RunInput) -> RunResult:
        """Run to the end, or to continue-as-new, and return how it ended."""
        commands = self._begin(given)
        while True:
            observation: Observation | None = None
            for command in commands:
                if isinstance(command, Finish):
                    await self._last_sends()
                    return RunResult(command.run_id, command.status, command.answer, command.reason)
                if isinstance(command, SendEvents):
                    self._send(command)
                else:
                    observation = await self._cancellable(command)
            if observation is None:
                raise ApplicationError("the core gave no command to wait for", non_retryable=True)
            commands = self._observe(observation)

    @workflow.query
    def status(self) -> RunStatus:
        """Return where the run stands."""
        if self._state is None:
            return RunStatus(workflow.info().workflow_id, "starting", 0)
        pending = () if self._asked is None or self._decided else (self._asked,)
        return RunStatus(self._state.spec.run_id, self._state.phase, self._state.turn, pending)

    @workflow.update
    async def decide_approval(self, answer: ApprovalAnswer) -> None:
        """Answer the call that waits for a person; the first answer counts."""
        self._decided = ApprovalDecided(
            workflow.time_ns(), answer.call_id, answer.approved, answer.by[:200], answer.note[:1_000]
        )

    @decide_approval.validator
    def _check_approval(self, answer: ApprovalAnswer) -> None:
        if self._asked is None or self._decided is not None or self._asked.call_id != answer.call_id:
            raise ApplicationError(f"no call {answer.call_id!r} of this run waits for approval", type="not_waiting")

    def _begin(self, given: RunInput) -> tuple[Command, ...]:
        if given.state:
            self._state = from_json(RunState, given.state)
            return self._observe(Resumed(workflow.time_ns()))
        if given.spec is None:
            raise ApplicationError("the input names neither a spec nor a state", non_retryable=True)
        self._state, commands = start(given.spec)
        return commands

    def _observe(self, observation: Observation) -> tuple[Command, ...]:
        assert self._state is not None
        if isinstance(observation, ModelReplied | ToolFinished | HintsArrived):
            suggested = workflow.info().is_continue_as_new_suggested()
            observation = replace(observation, continue_suggested=suggested)
        self._state, commands = decide(self._state, observation)
        return commands

    async def _cancellable(self, command: Command) -> Observation:
        """Execute one command; a cancellation meanwhile is what happened instead."""
        try:
            return await self._execute(command)
        except (asyncio.CancelledError, ActivityError) as error:
            if not is_cancelled_exception(error):
                raise
            return CancelRequested(workflow.time_ns(), workflow.cancellation_reason() or "")

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
                return await self._continue()
            case _:
                raise ApplicationError(f"no way to execute {type(command).__name__}", non_retryable=True)

    async def _prepare(self, command: PrepareRun) -> Observation:
        try:
            return await _act("prepare_run", command, RunPrepared, start_to_close=PREPARE_TIME, retry=PREPARE_RETRY)
        except (ActivityError, ApplicationError) as error:
            return RunPrepared(workflow.time_ns(), (), error=f"preparation was lost: {_why(error)}")

    async def _call_model(self, command: CallModel) -> Observation:
        requested_ns = workflow.time_ns()
        try:
            answer = await _act("call_model", command, ModelAnswer, start_to_close=MODEL_TIME, retry=MODEL_RETRY)
        except (ActivityError, ApplicationError) as error:
            return ModelFailed(workflow.time_ns(), requested_ns, "model_lost", _why(error))
        outcome = answer.replied or answer.failed
        if outcome is None:
            return ModelFailed(workflow.time_ns(), requested_ns, "no_answer", "neither a reply nor an error came")
        return outcome

    async def _run_tool(self, command: RunTool) -> Observation:
        started_ns = workflow.time_ns()
        try:
            return await _act("run_tool", command, ToolFinished, start_to_close=TOOL_TIME, retry=ONCE)
        except (ActivityError, ApplicationError) as error:
            _unless_cancelled(error)
            return ToolFinished(
                workflow.time_ns(), started_ns, command.call_id, "timed_out", "uncertain", "lost", reply_written=False
            )

    async def _fetch_hints(self, command: FetchHints) -> Observation:
        requested_ns = workflow.time_ns()
        limit = timedelta(milliseconds=command.timeout_ms) + HINTS_GRACE
        try:
            return await _act("fetch_hints", command, HintsArrived, schedule_to_close=limit, retry=ONCE, beats=False)
        except (ActivityError, ApplicationError) as error:
            _unless_cancelled(error)
            timed_out = isinstance(error.__cause__, TimeoutError)
            result, detail = ("timeout", "no answer in time") if timed_out else ("error", _kind(error))
            return unanswered(command, requested_ns, workflow.time_ns(), result, detail)

    async def _ask(self, command: AskApproval) -> Observation:
        self._asked, self._decided = command, None
        try:
            await workflow.wait_condition(lambda: self._decided is not None)
            assert self._decided is not None
            return self._decided
        finally:
            self._asked = self._decided = None

    async def _continue(self) -> Observation:
        """Go on in a new workflow run; returns only when a cancellation comes first."""
        assert self._state is not None
        await self._last_sends()
        await workflow.wait_condition(workflow.all_handlers_finished)
        given = RunInput(state=to_json(self._state))
        _guard(given)
        workflow.continue_as_new(given)

    def _send(self, command: SendEvents) -> None:
        """Report without waiting."""
        self._sending = [task for task in self._sending if not task.done()]
        for part in _fitting(command):
            self._sending.append(asyncio.create_task(_deliver(part)))

    async def _last_sends(self) -> None:
        """Wait for the reports under way, for a bounded time."""
        if self._sending:
            await workflow.wait(self._sending, timeout=LAST_SEND_SECONDS)


async def _act(
    name: str,
    command: Command,
    result: type[T],
    *,
    retry: RetryPolicy,
    start_to_close: timedelta | None = None,
    schedule_to_close: timedelta | None = None,
    beats: bool = True,
) -> T:
    """Execute one activity. Raises ActivityError, or ApplicationError for an argument that is too large."""
    _guard(command)
    value: T = await workflow.execute_activity(
        name,
        command,
        result_type=result,
        retry_policy=retry,
        start_to_close_timeout=start_to_close,
        schedule_to_close_timeout=schedule_to_close,
        heartbeat_timeout=HEARTBEAT if beats else None,
    )
    return value


async def _deliver(command: SendEvents) -> None:
    try:
        await workflow.execute_activity(
            "send_events",
            command,
            retry_policy=SEND_RETRY,
            start_to_close_timeout=SEND_TIME,
            schedule_to_close_timeout=SEND_TOTAL,
            heartbeat_timeout=HEARTBEAT,
        )
    except ActivityError as error:
        workflow.logger.warning("%d events were not delivered: %s", len(command.events), _why(error))


def _fitting(command: SendEvents) -> Iterator[SendEvents]:
    """Yield the events in as many commands as the limit of one argument asks for."""
    if _size(command) <= MAX_ARGUMENT_BYTES or len(command.events) < 2:
        yield command
        return
    half = len(command.events) // 2
    for events in (command.events[:half], command.events[half:]):
        yield from _fitting(replace(command, events=events))


def _guard(value: Any) -> None:
    size = _size(value)
    if size > MAX_ARGUMENT_BYTES:
        text = f"{type(value).__name__} has {size} bytes; the limit is {MAX_ARGUMENT_BYTES}"
        raise ApplicationError(text, type="argument_too_large", non_retryable=True)


def _size(value: Any) -> int:
    return sum(len(payload.data) for payload in workflow.payload_converter().to_payloads([value]))


def _unless_cancelled(error: BaseException) -> None:
    """Raise `error` again when it is a cancellation: then nothing was lost."""
    if is_cancelled_exception(error):
        raise error


def _why(error: BaseException) -> str:
    """Return why an activity failed; its text was redacted before it was raised."""
    _unless_cancelled(error)
    cause = error.__cause__ or error
    return f"{_kind(error)}: {getattr(cause, 'message', cause)}"[:500]


def _kind(error: BaseException) -> str:
    """Return the class of what made an activity fail."""
    cause = error.__cause__ or error
    return getattr(cause, "type", None) or type(cause).__name__
