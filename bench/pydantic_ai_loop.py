"""pydantic-ai's side: an Agent with one plain tool over its FunctionModel, which its documentation gives for tests."""

import time
from collections.abc import Sized
from importlib.metadata import version

from pydantic_ai import Agent, UsageLimits
from pydantic_ai.messages import ModelMessage, ModelResponse, TextPart, ToolCallPart
from pydantic_ai.models.function import AgentInfo, FunctionModel


def lookup(topic: str) -> str:
    """Look a topic up."""
    return f"the value of {topic}"


def reply(messages: Sized, turns: int) -> ModelResponse:
    turn = len(messages) // 2
    if turn >= turns:
        return ModelResponse(parts=[TextPart("done")])
    return ModelResponse(parts=[ToolCallPart("lookup", {"topic": str(turn)}, tool_call_id=f"c{turn}")])


class PydanticAiLoop:
    """One `Agent.run` a run; the agent is made before the clock starts. It has no checkpoints to keep."""

    name = "pydantic-ai"
    version = version("pydantic-ai-slim")

    async def run(self, turns: int) -> float:
        """Return the seconds one `run` takes."""

        def model(messages: list[ModelMessage], info: AgentInfo) -> ModelResponse:
            return reply(messages, turns)

        agent = Agent(FunctionModel(model), tools=[lookup])
        limits = UsageLimits(request_limit=None)
        started = time.process_time()
        result = await agent.run("Find every value", usage_limits=limits)
        seconds = time.process_time() - started
        if len(result.all_messages()) != 2 * turns + 2:
            raise AssertionError(f"the run is not the one to be measured: {len(result.all_messages())} messages")
        return seconds

    async def fake(self, turns: int) -> float:
        """Return the seconds the model and the tool take by themselves."""
        started = time.process_time()
        for turn in range(turns + 1):
            reply(range(2 * turn + 1), turns)
            lookup(str(turn))
        return time.process_time() - started


LOOP = PydanticAiLoop()
