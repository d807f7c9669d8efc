"""Serves edges as the activities of a Temporal worker, under the names the workflow calls."""

from collections.abc import Callable, Mapping
from typing import Any

from temporalio import activity

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
from kernel.runtime.edges import Edges


def activities_of(edges: Edges) -> list[Callable[..., Any]]:
    """Return the edges' methods as activities."""

    @activity.defn
    async def prepare_run(command: PrepareRun) -> RunPrepared:
        return await edges.prepare_run(command)

    @activity.defn
    async def call_model(command: CallModel) -> ModelAnswer:
        return await edges.call_model(command)

    @activity.defn
    async def run_tool(command: RunTool) -> ToolFinished:
        return await edges.run_tool(command)

    @activity.defn
    async def fetch_hints(command: FetchHints) -> HintsArrived:
        return await edges.fetch_hints(command)

    @activity.defn
    async def run_operation(command: StartOperation) -> OperationFinished:
        return await edges.run_operation(command)

    @activity.defn
    async def close_transcript(command: CloseTranscript) -> None:
        await edges.close_transcript(command)

    @activity.defn
    async def keep_answer(command: KeepAnswer) -> None:
        await edges.keep_answer(command)

    @activity.defn
    async def send_events(command: SendEvents) -> None:
        await edges.send_events(command)

    return [
        prepare_run, call_model, run_tool, run_operation, close_transcript, keep_answer, fetch_hints, send_events,
    ]  # fmt: skip


class EdgesByRun:
    """The edges of several runs as one: each command goes to those of its run."""

    def __init__(self, edges: Mapping[str, Edges]) -> None:
        """`edges` may grow while it is used."""
        self._edges = edges

    async def prepare_run(self, command: PrepareRun) -> RunPrepared:
        return await self._edges[command.spec.run_id].prepare_run(command)

    async def call_model(self, command: CallModel) -> ModelAnswer:
        return await self._edges[command.run_id].call_model(command)

    async def run_tool(self, command: RunTool) -> ToolFinished:
        return await self._edges[command.run_id].run_tool(command)

    async def fetch_hints(self, command: FetchHints) -> HintsArrived:
        return await self._edges[command.run_id].fetch_hints(command)

    async def run_operation(self, command: StartOperation) -> OperationFinished:
        return await self._edges[command.run_id].run_operation(command)

    async def close_transcript(self, command: CloseTranscript) -> None:
        await self._edges[command.run_id].close_transcript(command)

    async def keep_answer(self, command: KeepAnswer) -> None:
        await self._edges[command.run_id].keep_answer(command)

    async def send_events(self, command: SendEvents) -> None:
        await self._edges[command.run_id].send_events(command)
