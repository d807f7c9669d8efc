"""LangGraph's side: the tool loop its documentation draws (model node, ToolNode, tools_condition) with the in-memory
checkpointer, asked asynchronously."""

import time
import uuid
from collections.abc import Sized
from importlib.metadata import version

from langchain_core.messages import AIMessage
from langchain_core.tools import tool
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.graph import START, MessagesState, StateGraph
from langgraph.prebuilt import ToolNode, tools_condition


@tool
def lookup(topic: str) -> str:
    """Look a topic up."""
    return f"the value of {topic}"


def reply(messages: Sized, turns: int) -> AIMessage:
    turn = len(messages) // 2
    if turn >= turns:
        return AIMessage("done")
    return AIMessage("", tool_calls=[{"name": "lookup", "args": {"topic": str(turn)}, "id": f"c{turn}"}])


class LangGraphLoop:
    """One thread a run; the graph is compiled before the clock starts."""

    name = "LangGraph"
    version = f"{version('langgraph')}, checkpoint {version('langgraph-checkpoint')}"

    async def run(self, turns: int) -> float:
        """Return the seconds one `ainvoke` takes."""

        async def model(state: MessagesState) -> dict[str, list[AIMessage]]:
            return {"messages": [reply(state["messages"], turns)]}

        builder = StateGraph(MessagesState)
        builder.add_node("model", model)
        builder.add_node("tools", ToolNode([lookup]))
        builder.add_edge(START, "model")
        builder.add_conditional_edges("model", tools_condition)
        builder.add_edge("tools", "model")
        graph = builder.compile(checkpointer=InMemorySaver())
        config = {"configurable": {"thread_id": uuid.uuid4().hex}, "recursion_limit": 2 * turns + 5}
        started = time.process_time()
        state = await graph.ainvoke({"messages": [("user", "Find every value")]}, config)
        seconds = time.process_time() - started
        if len(state["messages"]) != 2 * turns + 2:
            raise AssertionError(f"the run is not the one to be measured: {len(state['messages'])} messages")
        return seconds

    async def fake(self, turns: int) -> float:
        """Return the seconds the model and the tool take by themselves."""
        started = time.process_time()
        for turn in range(turns + 1):
            made = reply(range(2 * turn + 1), turns)
            if made.tool_calls:
                lookup.func(str(turn))
        return time.process_time() - started


LOOP = LangGraphLoop()
