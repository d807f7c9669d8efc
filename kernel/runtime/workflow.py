"""The Temporal runner: a durable loop around the core. It decides nothing itself.

Every command is carried out beside the loop, and what came of it is put in line with what arrives from outside. The
core is imported inside the sandbox, so that anything impure in it is refused; the message dataclasses are passed
through, so that what activities return is of the types the core knows. (Seed 001 §6, §15.)
"""

import asyncio
from collections.abc import Sequence
from dataclasses import replace
from datetime import timedelta
from typing import Final

from temporalio import workflow
from temporalio.exceptions import ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from kernel.messages import (
        ApprovalAnswer,
        ApprovalDecided,
        AskApproval,
        AskQuestion,
        CancelRequested,
        CloseTranscript,
        Command,
        ContinueAsNew,
        Finish,
        HintsArrived,
        KeepAnswer,
        ModelReplied,
        Observation,
        OperationFinished,
        QuestionAnswer,
        QuestionAnswered,
        Resumed,
        RunBroken,
        RunInput,
        RunResult,
        RunStatus,
        SendEvents,
        StartOperation,
        StopOperation,
        ToolFinished,
    )

from kernel.core.bounds import LOOK
from kernel.core.codec import from_json, to_json
from kernel.core.decide import REASON_LIMIT, decide, start
from kernel.core.people import BY_LIMIT, NOTE_LIMIT, TEXT_LIMIT
from kernel.core.state import RunState
from kernel.core.transitions import IllegalObservation
from kernel.runtime.acting import fitting, guard, why
from kernel.runtime.executing import close, deliver, execute, hand_over, keep, start_operation, stop_operation

LAST_SEND_SECONDS: Final = 10.0  # how long a workflow run waits for its last events before it hands them over


@workflow.defn(name="AgentRun")
class AgentRun:
    """One run of an agent; its workflow id is the run id."""

    def __init__(self) -> None:
        self._state: RunState | None = None
        self._arrived: list[Observation] = []
        self._defect: BaseException | None = None
        self._asked: dict[str, AskApproval | AskQuestion] = {}
        self._answers: dict[str, ApprovalDecided | QuestionAnswered] = {}
        self._working: list[asyncio.Task[None]] = []
        self._lasting: list[asyncio.Task[None]] = []
        self._reports: list[tuple[asyncio.Task[None], SendEvents]] = []
        self._starting: dict[str, asyncio.Task[None]] = {}

    @workflow.run
    async def run(self, given: RunInput) -> RunResult:
        """Run to the end, or to continue-as-new, and return how it ended."""
        commands = self._begin(given)
        while True:
            ending = self._carry_out(commands)
            if isinstance(ending, Finish):
                await self._end()
                return RunResult(ending.run_id, ending.status, ending.answer, ending.reason)
            if isinstance(ending, ContinueAsNew):
                await self._continue()
            commands = self._observe(await self._next())

    @workflow.query
    def status(self) -> RunStatus:
        """Return where the run stands."""
        if self._state is None:
            return RunStatus(workflow.info().workflow_id, "starting", 0)
        waiting = [asked for call_id, asked in self._asked.items() if call_id not in self._answers]
        approvals = tuple(asked for asked in waiting if isinstance(asked, AskApproval))
        questions = tuple(asked for asked in waiting if isinstance(asked, AskQuestion))
        return RunStatus(self._state.spec.run_id, self._state.phase, self._state.turn, approvals, questions)

    @workflow.update
    async def decide_approval(self, answer: ApprovalAnswer) -> None:
        """Answer the call that waits for a person; the first answer counts."""
        by, note = answer.by[: LOOK * BY_LIMIT], answer.note[: LOOK * NOTE_LIMIT]
        decided = ApprovalDecided(workflow.time_ns(), answer.call_id, answer.approved, by, note)
        self._answers[answer.call_id] = decided

    @decide_approval.validator
    def _check_approval(self, answer: ApprovalAnswer) -> None:
        self._check_waiting(answer.call_id, AskApproval, "approval")

    @workflow.update
    async def answer_question(self, answer: QuestionAnswer) -> None:
        """Answer a question of the model; the first answer counts."""
        self._answers[answer.call_id] = QuestionAnswered(
            workflow.time_ns(), answer.call_id, answer.text, answer.by[: LOOK * BY_LIMIT]
        )

    @answer_question.validator
    def _check_answer(self, answer: QuestionAnswer) -> None:
        self._check_waiting(answer.call_id, AskQuestion, "an answer")
        if len(answer.text) > TEXT_LIMIT:
            text = f"text has {len(answer.text)} characters; the limit is {TEXT_LIMIT}: shorten it"
            raise ApplicationError(text, type="too_long")

    def _check_waiting(self, call_id: str, asked: type[AskApproval | AskQuestion], what: str) -> None:
        if call_id in self._answers or not isinstance(self._asked.get(call_id), asked):
            raise ApplicationError(f"no call {call_id!r} of this run waits for {what}", type="not_waiting")

    @workflow.signal
    def operation_finished(self, finished: OperationFinished) -> None:
        """Take in the outcome of a background operation."""
        self._arrived.append(replace(finished, at_ns=workflow.time_ns()))

    def _begin(self, given: RunInput) -> Sequence[Command]:
        if given.state:
            self._state = from_json(RunState, given.state)
            return self._observe(Resumed(workflow.time_ns()))
        if given.spec is None:
            raise ApplicationError("the input names neither a spec nor a state", non_retryable=True)
        self._state, commands = start(given.spec)
        return commands

    def _observe(self, observation: Observation) -> Sequence[Command]:
        assert self._state is not None
        if isinstance(observation, ModelReplied | ToolFinished | HintsArrived):
            suggested = workflow.info().is_continue_as_new_suggested()
            observation = replace(observation, continue_suggested=suggested)
        try:
            self._state, commands = decide(self._state, observation)
        except IllegalObservation as error:  # a defect, which must end the run and not be tried for ever
            self._state, commands = decide(self._state, RunBroken(workflow.time_ns(), str(error)))
        return commands

    async def _next(self) -> Observation:
        """Wait for what happens next. A cancellation comes before all else that arrived."""
        try:
            await workflow.wait_condition(lambda: bool(self._arrived or self._defect))
        except asyncio.CancelledError:
            return _cancelled()
        if self._defect is not None:
            return RunBroken(workflow.time_ns(), why(self._defect))
        return self._arrived.pop(0)

    def _carry_out(self, commands: Sequence[Command]) -> Finish | ContinueAsNew | None:
        """Begin every command; return the one that ends this workflow run, if there is one."""
        self._working = [task for task in self._working if not task.done()]
        self._lasting = [task for task in self._lasting if not task.done()]
        self._reports = [(task, part) for task, part in self._reports if not task.done()]
        ending: Finish | ContinueAsNew | None = None
        for command in commands:
            match command:
                case Finish() | ContinueAsNew():
                    ending = command
                case SendEvents():
                    for part in fitting(command):
                        self._reports.append((asyncio.create_task(deliver(part)), part))
                case CloseTranscript():
                    self._lasting.append(asyncio.create_task(close(command)))
                case KeepAnswer():
                    self._lasting.append(asyncio.create_task(keep(command)))
                case StopOperation():
                    self._lasting.append(asyncio.create_task(self._stop_operation(command)))
                case StartOperation():
                    starting = asyncio.create_task(self._start_operation(command))
                    self._starting[command.operation_id] = starting
                    self._lasting.append(starting)
                case _:
                    self._working.append(asyncio.create_task(self._work(command)))
        return ending

    async def _work(self, command: Command) -> None:
        """Carry out a command and put its outcome in line; only the end of the run stops it."""
        try:
            if isinstance(command, AskApproval | AskQuestion):
                self._arrived.append(await self._ask(command))
            else:
                self._arrived.append(await execute(command))
        except BaseException as error:  # noqa: BLE001 - what nobody expected ends the run, it does not leave it waiting
            if not is_cancelled_exception(error):
                self._defect = error

    async def _ask(self, command: AskApproval | AskQuestion) -> Observation:
        call_id, limit = command.call_id, command.timeout_ms
        self._asked[call_id] = command
        try:
            timeout = timedelta(milliseconds=limit) if limit else None
            await workflow.wait_condition(lambda: call_id in self._answers, timeout=timeout)
            return self._answers[call_id]
        except TimeoutError:
            now = workflow.time_ns()
            if isinstance(command, AskQuestion):
                return QuestionAnswered(now, call_id, timed_out=True)
            return ApprovalDecided(now, call_id, approved=False, timed_out=True)
        finally:
            self._asked.pop(call_id)
            self._answers.pop(call_id, None)

    async def _start_operation(self, command: StartOperation) -> None:
        failed = await start_operation(command)
        if failed is not None:
            self._arrived.append(failed)

    async def _stop_operation(self, command: StopOperation) -> None:
        """Stop an operation, which can be found only once it was started."""
        starting = self._starting.get(command.operation_id)
        if starting is not None:
            await starting
        await stop_operation(command)

    async def _continue(self) -> None:
        """Go on in a new workflow run; return only when a cancellation comes first."""
        try:
            await self._settle()
        except asyncio.CancelledError:
            self._arrived.insert(0, _cancelled())
            return
        assert self._state is not None
        given = RunInput(state=to_json(self._state))
        guard(given)
        workflow.continue_as_new(given)

    async def _settle(self) -> None:
        """Wait until nothing is under way. What arrives meanwhile are outcomes of operations; they may have much to
        report, which is waited for as well."""
        while True:
            await self._last_reports()
            await workflow.wait_condition(workflow.all_handlers_finished)
            if not self._arrived:
                return
            while self._arrived:
                self._carry_out(self._observe(self._arrived.pop(0)))

    async def _end(self) -> None:
        """Stop what the run was doing and let its last reports out, also when it is cancelled once more."""
        for task in self._working:
            task.cancel()
        try:
            await self._last_reports()
        except asyncio.CancelledError:
            await self._last_reports()

    async def _last_reports(self) -> None:
        """Wait for the reports and starts under way, for a bounded time; a report that is late then goes on without the
        run."""
        sending = [task for task, _ in self._reports]
        if sending or self._lasting:
            await workflow.wait([*sending, *self._lasting], timeout=LAST_SEND_SECONDS)
        for task, part in self._reports:
            if not task.done():
                task.cancel()
                await hand_over(part)
        self._reports = []


def _cancelled() -> CancelRequested:
    return CancelRequested(workflow.time_ns(), (workflow.cancellation_reason() or "")[: LOOK * REASON_LIMIT])
