"""Worlds in which something never answers or is lost, for both runners."""

import asyncio

from kernel.messages import CallModel, FetchHints, HintsArrived, ModelAnswer, RunTool, ToolFinished
from kernel.testing import MemoryEdges, ScriptedModel, call
from tests.kernel.test_scenarios import fails, on


class Hanging(MemoryEdges):
    """Edges whose tool, model or retrieval never answers; `reached` says that it was asked."""

    hangs: str = ""
    reached: asyncio.Event

    async def _hang(self, name: str) -> None:
        if name == self.hangs:
            self.reached.set()
            await asyncio.Event().wait()

    async def run_tool(self, command: RunTool) -> ToolFinished:
        await self._hang("tool")
        return await super().run_tool(command)

    async def call_model(self, command: CallModel) -> ModelAnswer:
        await self._hang("model")
        return await super().call_model(command)

    async def fetch_hints(self, command: FetchHints) -> HintsArrived:
        await self._hang("hints")
        return await super().fetch_hints(command)


def hanging(place: str) -> Hanging:
    edges = Hanging(ScriptedModel([call("shell")], "done"), {"shell": fails("fatal: it broke")}, on("tool.failed"))
    edges.hangs = place
    edges.reached = asyncio.Event()
    return edges


class Broken(MemoryEdges):
    """Edges whose tool is lost: its activity raises instead of returning a result."""

    async def run_tool(self, command: RunTool) -> ToolFinished:
        raise RuntimeError("the machine is on fire")
