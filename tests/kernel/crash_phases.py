"""The phases of a run in which its worker is killed, cut off or frozen: how a run gets there and how one sees it."""

import asyncio
import sys
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from temporalio.client import Client, WorkflowExecutionStatus

from kernel.messages import (
    ApprovalAnswer,
    Limits,
    McpServer,
    Member,
    QuestionAnswer,
    RunStatus,
)
from kernel.runtime.operation import operation_workflow_id
from kernel.runtime.workflow import AgentRun
from tests.kernel.outside import DONE, FAILS, Say, shell, waits
from tests.kernel.worker_process import Handle, Kernel

MCP = Path(__file__).with_name("gate_mcp.py")
OPERATION = "op-3"  # the first reply of a run stands at position 3
AWAIT = Say((("await_operation", {"operation_id": OPERATION}),))
ANSWER = "blue"
REASON = "needs a key"


@dataclass
class Flight:
    """One run under way in the phase it is to be disturbed in."""

    kernel: Kernel
    client: Client
    phase: "Phase"
    run_id: str
    handle: Handle

    async def status(self) -> RunStatus:
        return await self.handle.query(AgentRun.status)

    def closed_gate(self, name: str) -> str:
        return f"{self.run_id} {name}"

    async def written(self, seq: int) -> bool:
        query = "SELECT 1 FROM kernel.message WHERE run_id = %s AND seq = %s"
        return bool(await self.kernel.rows(query, self.run_id, seq))

    async def prepared(self) -> bool:
        return bool(await self.kernel.rows("SELECT 1 FROM kernel.run WHERE run_id = %s", self.run_id))


Look = Callable[[Flight], Awaitable[Any]]


@dataclass(frozen=True)
class Phase:
    """`held` names the gate that holds the run, `locked` the transcript position whose writing is held; `reached` sees
    that it is there, `worked` that the edge did its work once the gate is open. `after` is done when a worker runs
    again. `lost` says that the run's requests cannot be those of an undisturbed one."""

    name: str
    plan: tuple[Say, ...]
    reached: Look
    held: str = ""
    locked: int = 0
    worked: Look | None = None
    after: Look | None = None
    spec: Callable[[Kernel, str], dict[str, Any]] = lambda kernel, run_id: {}
    members: dict[str, list[Say]] = field(default_factory=dict)
    lost: bool = False
    status: str = "completed"


async def gate_reached(flight: Flight) -> bool:
    return flight.kernel.outside.gates.reached(flight.closed_gate(flight.phase.held))


async def began(flight: Flight) -> bool:
    return bool(flight.kernel.in_work(flight.run_id, "ran"))


async def setting_up(flight: Flight) -> bool:
    return bool(flight.kernel.in_work(flight.run_id, "set_up"))


async def model_asked_twice(flight: Flight) -> bool:
    return f"{flight.run_id} model 2" in flight.kernel.outside.answered


async def looked(flight: Flight) -> bool:
    return calls_file(flight.kernel, flight.run_id).exists()


async def asked(flight: Flight) -> bool:
    status = await flight.status()
    return bool(status.pending_approvals or status.pending_questions)


async def waiting(flight: Flight) -> bool:
    return (await flight.status()).phase == "waiting" and await began(flight)


async def child_reached(flight: Flight) -> bool:
    return flight.kernel.outside.gates.reached(f"{flight.run_id}.1 model 2")


async def operation_reached(flight: Flight) -> bool:
    return await gate_reached(flight) and await began(flight)


async def approve(flight: Flight) -> None:
    [one] = (await flight.status()).pending_approvals
    await flight.handle.execute_update(AgentRun.decide_approval, ApprovalAnswer(one.call_id, True, "ada"))


async def answer(flight: Flight) -> None:
    [one] = (await flight.status()).pending_questions
    await flight.handle.execute_update(AgentRun.answer_question, QuestionAnswer(one.call_id, ANSWER, "ada"))


async def operation_over(flight: Flight) -> None:
    """Let the run go on only when it has been told of the operation's end."""
    operation = flight.client.get_workflow_handle(operation_workflow_id(flight.run_id, OPERATION))
    while (await operation.describe()).status == WorkflowExecutionStatus.RUNNING:
        await asyncio.sleep(0.1)
    flight.kernel.outside.gates.open(flight.closed_gate(flight.phase.held))


async def row(flight: Flight, seq: int) -> bool:
    return await flight.written(seq)


async def delivered(flight: Flight) -> bool:
    return any(event["type"] == "run.completed" for event in flight.kernel.outside.events_of(flight.run_id))


async def hints_answered(flight: Flight) -> bool:
    return f"{flight.run_id} hints" in flight.kernel.outside.answered


def at(seq: int) -> Look:
    return lambda flight: row(flight, seq)


def calls_file(kernel: Kernel, run_id: str) -> Path:
    return Path(kernel.outside.folder) / f"{run_id}.calls"


def mcp_spec(kernel: Kernel, run_id: str) -> dict[str, Any]:
    arguments = (str(MCP), str(calls_file(kernel, run_id)), str(kernel.gate(run_id)))
    return {"mcp_servers": (McpServer("eye", sys.executable, arguments),)}


def operation_spec(kernel: Kernel, run_id: str) -> dict[str, Any]:
    return {"tools": ("shell", "shell_background", "await_operation")}


def waiting_setup(kernel: Kernel, run_id: str) -> dict[str, Any]:
    return {"setup": waits(str(kernel.gate(run_id)), "set_up")}


def team_spec(kernel: Kernel, run_id: str) -> dict[str, Any]:
    return {"tools": ("shell", "delegate"), "members": (Member("bob", "openai_chat", model="m"),)}


def anew_spec(kernel: Kernel, run_id: str) -> dict[str, Any]:
    return {"limits": Limits(turns_per_workflow=1, retrieval_timeout_ms=2_000)}


def last_spec(kernel: Kernel, run_id: str) -> dict[str, Any]:
    return {"limits": Limits(max_turns=1)}


def asking_spec(kernel: Kernel, run_id: str) -> dict[str, Any]:
    return {"tools": ("shell", "escalate"), "grants": ("*", "escalate")}


ASK = Say((("shell", {"command": FAILS}), ("escalate", {"reason": REASON}), ("shell", {"command": "echo y >> ran"})))
SEARCHED = (shell(FAILS), DONE)  # a command fails, knowledge is found, the next request carries it
PHASES = (
    Phase("preparation", SEARCHED, setting_up, spec=waiting_setup, worked=Flight.prepared),
    Phase("model", SEARCHED, gate_reached, held="model 2", worked=at(5)),
    Phase("model_unwritten", SEARCHED, model_asked_twice, locked=5),
    Phase("tool", (shell(waits("{gate}")), DONE), began, worked=at(3), lost=True),
    Phase("tool_unwritten", SEARCHED, began, locked=3, lost=True),
    Phase("reading", (Say((("eye__look", {}),)), DONE), looked, spec=mcp_spec, worked=at(3)),
    Phase("hints", SEARCHED, gate_reached, held="hints", worked=hints_answered, lost=True),
    Phase("reporting", SEARCHED, gate_reached, held="event run.completed", worked=delivered),
    Phase("approval", SEARCHED, asked, after=approve, spec=lambda kernel, run_id: {"approval_tools": ("shell",)}),
    Phase(
        "question",
        (Say((("ask_human", {"question": "Which colour?"}),)), DONE),
        asked,
        after=answer,
        spec=lambda kernel, run_id: {"tools": ("shell", "ask_human")},
    ),
    Phase(
        "delegate",
        (Say((("delegate", {"member": "bob", "task": "child {run}.1"}),)), DONE),
        child_reached,
        spec=team_spec,
    ),
    Phase(
        "operation",
        (shell(waits("{gate}"), "shell_background"), shell("true"), DONE),
        operation_reached,
        held="model 2",
        after=operation_over,
        spec=operation_spec,
        lost=True,
    ),
    Phase(
        "awaiting",
        (shell(waits("{gate}") + "; echo finished > done", "shell_background"), AWAIT, DONE),
        waiting,
        spec=operation_spec,
        lost=True,
    ),
    Phase("continuing", SEARCHED, gate_reached, held="event turn.completed", spec=anew_spec),
    Phase("closing", (shell(waits("{gate}")), DONE), began, locked=3, worked=at(3), lost=True, status="cancelled"),
    Phase("finale", SEARCHED, gate_reached, held="model 2", worked=at(5), spec=last_spec, status="limit_reached"),
    Phase("asking", (ASK,), gate_reached, held="model 1", worked=at(2), spec=asking_spec, status="escalated"),
)
PLANS = {phase.name: list(phase.plan) for phase in PHASES} | {"child": list(SEARCHED)}


async def start(kernel: Kernel, client: Client, phase: Phase, *, mark: str = "") -> Flight:
    """Start a run of the phase; `mark` tells runs of the same phase apart."""
    run_id = kernel.run_id(f"{phase.name}{mark}")
    handle = await kernel.run(client, phase.name, run_id=run_id, **phase.spec(kernel, run_id))
    return Flight(kernel, client, phase, run_id, handle)


async def seen(flight: Flight, look: Look, what: str) -> None:
    """Wait until `look` sees it."""
    try:
        async with asyncio.timeout(60):
            while not await look(flight):
                await asyncio.sleep(0.05)
    except TimeoutError:
        raise AssertionError(f"{flight.run_id} never {what}") from None
