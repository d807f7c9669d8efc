"""What a runner needs from the world: one method per command, the same for both runners."""

from typing import Protocol

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


class Edges(Protocol):
    """The side effects of a run. Tool errors are results; only infrastructure raises."""

    async def prepare_run(self, command: PrepareRun) -> RunPrepared: ...

    async def call_model(self, command: CallModel) -> ModelAnswer: ...

    async def run_tool(self, command: RunTool) -> ToolFinished: ...

    async def fetch_hints(self, command: FetchHints) -> HintsArrived: ...

    async def run_operation(self, command: StartOperation) -> OperationFinished: ...

    async def send_events(self, command: SendEvents) -> None: ...

    async def close_transcript(self, command: CloseTranscript) -> None: ...

    async def keep_answer(self, command: KeepAnswer) -> None: ...
