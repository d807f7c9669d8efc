"""The tools of the MCP server: search for hints, report what came of one.

A search that fails is a tool's error which says to go on without hints; the protocol itself never fails over it.
(Seed 001 §7, §10, §12.)
"""

from collections.abc import AsyncIterator, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from dataclasses import replace
from datetime import UTC, datetime
from typing import Annotated, Any, Final, Literal

import anyio
from mcp.server.mcpserver import Context, MCPServer
from mcp.server.mcpserver.exceptions import ToolError
from mcp_types import CallToolResult, TextContent, ToolAnnotations
from pydantic import BaseModel

from contract.events import ID_LIMIT
from contract.hint_block import one_line
from contract.stages import trigger_problem
from knowledge.client.agent_runs import AgentRun, AgentRuns, Caller
from knowledge.client.answers import Hints
from knowledge.client.asking import Ask
from knowledge.client.exchange import open_connections
from knowledge.client.failures import ObservationError, ObservationRefused
from knowledge.client.hint import Hint
from knowledge.client.mcp_shapes import (
    FIND,
    HINTS_AT_ONCE,
    INSTRUCTIONS,
    REPORT,
    ErrorClass,
    FoundHints,
    GivenHint,
    HintId,
    Limit,
    McpServerName,
    Note,
    Query,
    Reported,
    Run,
    Tool,
    ToolArguments,
    ToolResult,
    Trigger,
    Verdict,
)
from knowledge.client.reports import hint_event, outcome_data
from knowledge.client.search_events import search_events, started_event

KeyOf = Callable[[Context[AgentRuns, Any]], str]

UNKNOWN_KEY: Final = (401, 403)
STDIO: Final = "stdio"  # the one session of a process
SESSION_HEADER: Final = "mcp-session-id"


def make_server(url: str, key_of: KeyOf) -> MCPServer[AgentRuns]:
    """Return the server; `key_of` tells under whose key a request acts, and raises ToolError when it has none."""
    server = MCPServer(
        "temporality", title="Temporality", instructions=INSTRUCTIONS, log_level="WARNING", lifespan=_lifespan(url)
    )
    _add_find(server, key_of)
    _add_report(server, key_of)
    return server


def _lifespan(url: str) -> Callable[[MCPServer[AgentRuns]], AbstractAsyncContextManager[AgentRuns]]:
    @asynccontextmanager
    async def live(_: MCPServer[AgentRuns]) -> AsyncIterator[AgentRuns]:
        async with open_connections() as connections, anyio.create_task_group() as tasks:
            runs = AgentRuns(url, connections, tasks)
            tasks.start_soon(runs.sweep)
            try:
                yield runs
            finally:
                await runs.end_all()
                tasks.cancel_scope.cancel()

    return live


def _add_find(server: MCPServer[AgentRuns], key_of: KeyOf) -> None:
    notes = ToolAnnotations(
        title="Find hints", read_only_hint=True, destructive_hint=False, idempotent_hint=False, open_world_hint=False
    )

    @server.tool(description=FIND, annotations=notes)
    async def find_hints(
        ctx: Context[AgentRuns, Any],
        query: Query,
        tool: Tool = "",
        tool_result: ToolResult = "",
        tool_arguments: ToolArguments = "",
        trigger: Trigger = "agent.search",
        error_class: ErrorClass = "",
        mcp_server: McpServerName = "",
        run: Run = "",
        limit: Limit = HINTS_AT_ONCE,
    ) -> Annotated[CallToolResult, FoundHints]:
        ask = Ask(
            _checked_run(run),
            _checked_trigger(trigger),
            query=query,
            tool=tool[:ID_LIMIT],
            tool_result=tool_result,
            tool_arguments=tool_arguments,
            mcp_server=mcp_server[:ID_LIMIT],
            error_class=error_class[:ID_LIMIT],
            limit=limit,
        )
        runs = ctx.request_context.lifespan_context
        caller = _caller(runs, key_of(ctx))
        agent_run = runs.run_of(caller, session_of(ctx), run)
        found = await _search(runs, caller, agent_run, ask, agent_of(ctx))
        return _found(agent_run, found)


def _add_report(server: MCPServer[AgentRuns], key_of: KeyOf) -> None:
    notes = ToolAnnotations(
        title="Report what came of a hint",
        read_only_hint=False,
        destructive_hint=False,
        idempotent_hint=True,
        open_world_hint=False,
    )

    @server.tool(description=REPORT, annotations=notes)
    async def report_outcome(
        ctx: Context[AgentRuns, Any], hint_id: HintId, outcome: Verdict, note: Note = ""
    ) -> Annotated[CallToolResult, Reported]:
        caller = ctx.request_context.lifespan_context.known(key_of(ctx))
        hint = caller.hint(hint_id) if caller else None
        if caller is None or hint is None:
            raise ToolError("no hint of that hint_id was given here; copy it from an answer of find_hints, or go on")
        try:
            await caller.client.send(outcome_events(hint, outcome, note))
        except ObservationError as error:
            raise ToolError(f"not recorded ({error}); go on with your task") from None
        said = Reported(hint_id=hint_id, outcome=outcome, recorded=True)
        return _result(f"Recorded: {outcome}.", said)


def outcome_events(hint: Hint, outcome: str, note: str) -> list[dict[str, Any]]:
    """Return what a verdict says. Who names a hint has read it, so it stood in a request of the model."""
    read = hint_event(hint, "hint.delivery", {"stage": "injected"})
    evidence = {"evidence": note} if note else {}
    if outcome == "not_used":
        return [read, hint_event(hint, "hint.ignored", evidence)]
    return [
        read,
        hint_event(hint, "hint.used", evidence),
        hint_event(hint, "hint.outcome", outcome_data(outcome, note, "agent")),
    ]


async def _search(runs: AgentRuns, caller: Caller, run: AgentRun, ask: Ask, agent: str) -> Hints:
    """Search, remember what is given, and tell the run of it. Raises ToolError."""
    ask = replace(ask, run=run.run_id, issued=run.issued(), activation_id=run.next_activation())
    asked_at = datetime.now(UTC)
    found: Hints | ObservationError
    try:
        found = await caller.client.find(ask)
    except ObservationError as error:
        found = error
    if isinstance(found, ObservationRefused) and found.status in UNKNOWN_KEY:
        runs.refuse(caller, run)
        raise ToolError(f"Temporality refuses the key ({found}); its owner must correct it. Go on without hints")
    events = search_events(ask, found, _block(found), asked_at, datetime.now(UTC))
    if run.ours and not run.started:
        events.insert(0, started_event(run.run_id, agent, ask.query, asked_at))
    run.started = True
    runs.tell(caller, events)
    if isinstance(found, ObservationError):
        raise ToolError(f"no answer from Temporality ({found}); go on without hints")
    run.keep(found.hints)
    return found


def _block(found: Hints | ObservationError) -> str:
    return "" if isinstance(found, ObservationError) else found.text()


def _found(run: AgentRun, found: Hints) -> CallToolResult:
    already = [name for name, reason in found.held_back if reason == "already_issued"]
    hints = [
        GivenHint(
            hint_id=hint.hint_id,
            knowledge_id=hint.knowledge_id,
            revision=hint.revision,
            proposition=hint.proposition,
            state=hint.state,
            caution=hint.caution,
        )
        for hint in found
    ]
    result: Literal["found", "nothing_known"] = "found" if hints else "nothing_known"
    said = FoundHints(result=result, run=run.run_id, hints=hints, already_given=already)
    return _result("\n".join(_lines(run, found, already)), said)


def _lines(run: AgentRun, found: Hints, already: list[str]) -> list[str]:
    """Return the answer as a model reads it."""
    lines = [found.text().rstrip("\n")] if found.hints else []
    if found.hints:
        names = ", ".join(f"{hint.hint_id} ({one_line(hint.knowledge_id)})" for hint in found)
        lines.append(f"Once you know what came of them, call report_outcome with hint_id: {names}.")
    elif already:
        lines.append("Nothing new is known that fits. Go on with what you know.")
    else:
        lines.append("Nothing known fits. That is a normal answer: go on as you would have.")
    if already:
        lines.append(f"Given to you earlier in this run, and fitting here too: {', '.join(map(one_line, already))}.")
    return [*lines, f"In later calls pass run={run.run_id}."]


def _result(text: str, said: BaseModel) -> CallToolResult:
    return CallToolResult(content=[TextContent(type="text", text=text)], structured_content=said.model_dump())


def _caller(runs: AgentRuns, key: str) -> Caller:
    try:
        return runs.caller(key)
    except ValueError as error:
        raise ToolError(f"{error}. Go on without hints") from None


def _checked_run(run: str) -> str:
    if len(run) > ID_LIMIT or not run.isprintable() or run != run.strip():
        raise ToolError(f"run must be the `run` of an earlier answer (at most {ID_LIMIT} characters), or left out")
    return run


def _checked_trigger(trigger: str) -> str:
    problem = trigger_problem(trigger)
    if problem:
        raise ToolError(f"trigger {problem}")
    return trigger


def session_of(ctx: Context[AgentRuns, Any]) -> str:
    """Return the name of the MCP session; the newest protocol has none over HTTP, and the run is in the arguments."""
    headers = ctx.headers
    return STDIO if headers is None else headers.get(SESSION_HEADER, "")[:ID_LIMIT]


def agent_of(ctx: Context[AgentRuns, Any]) -> str:
    """Return the name and version the MCP client gives itself."""
    client = ctx.session.client_params
    return f"{client.client_info.name} {client.client_info.version}".strip() if client else ""
