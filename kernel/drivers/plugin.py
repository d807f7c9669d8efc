"""Serves a runtime from outside the package as a driver: its calls leave as a model's do, and their replies come back.

A runtime is an object with `async def run_turn(self, turn: Turn)`, which calls tools by `turn.invoke` and returns how
the run ends: one object of type complete, fail or escalate (kernel.drivers.decisions). One object serves all runs, a
task each. Nothing it does passes around the core: a call is a call of a model's reply, judged, executed and reported as
any other; whether it may escalate is the core's to say as well. (Seed 003.)

A turn lives in one process. When that is lost, the run fails with `runtime_lost` and no call is made again; a runtime
whose attribute `resumes` is true is started again instead, with the history so far in `turn.messages`.
"""

import asyncio
import json
import logging
from collections import deque
from collections.abc import Mapping, Sequence
from contextvars import Context
from copy import deepcopy
from dataclasses import dataclass, field
from typing import Any, Final, NoReturn, Protocol

from kernel.drivers import DriverReply, ModelRequest, ToolOffer
from kernel.drivers.outcomes import outcome_of
from kernel.edge.retry import EnvelopeError, ModelError
from kernel.messages import Message, ToolCall

_json: Final = json.JSONEncoder(allow_nan=False, ensure_ascii=False).encode
logger = logging.getLogger(__name__)

SILENT: Final = "runtime_silent"
LOST: Final = "runtime_lost"
SILENT_SECONDS: Final = 240.0  # Temporal gives a request five minutes
GRACE_SECONDS: Final = 2.0  # for a runtime that is told to stop
BATCH: Final = 32  # calls of one reply; no model may make more
LOOKS: Final = 3  # at the event loop, for calls that other tasks of the runtime are about to make


@dataclass(frozen=True, slots=True)
class ToolAnswer:
    """How a call ended: a word of ToolStatus, the refusal code or error class, and what the tool's reply says.

    `context` is what was told after the replies without being asked for: hints, news of background operations. Of calls
    that were made together the last one brings it.
    """

    status: str
    code: str = ""
    text: str = ""
    context: tuple[str, ...] = ()

    @property
    def ok(self) -> bool:
        return self.status == "ok"


DRAINING: Final = ToolAnswer("denied", "turn_draining", "This run is over. Nothing was executed.")
SPENT: Final = ToolAnswer(
    "denied", "step_limit_exceeded", "The run's limits are reached: end the turn now. Nothing was executed."
)


@dataclass(slots=True)
class _Invocation:
    call: ToolCall
    step: int | None
    answer: asyncio.Future[ToolAnswer]

    def settle(self, answer: ToolAnswer) -> None:
        if not self.answer.done():
            self.answer.set_result(answer)


@dataclass(slots=True)
class _Line:
    """What passes between a runtime's tasks and the requests of its run."""

    request: ModelRequest
    loop: asyncio.AbstractEventLoop = field(default_factory=asyncio.get_running_loop)
    waiting: deque[_Invocation] = field(default_factory=deque)  # not yet in a reply
    called: list[_Invocation] = field(default_factory=list)  # in the last reply, not yet answered
    moved: asyncio.Event = field(default_factory=asyncio.Event)
    over: bool = False

    def drain(self) -> None:
        """Nothing is let through from now on."""
        self.over = True
        for invocation in (*self.waiting, *self.called):
            invocation.settle(DRAINING)
        self.waiting.clear()
        self.called.clear()
        self.moved.set()


class Turn:
    """A run as its runtime sees it. `tools` are those it was offered, whatever is left of its limits."""

    def __init__(self, line: _Line) -> None:
        self._line = line
        self.run_id: Final = line.request.run_id
        self.script: Final = line.request.script
        self.model: Final = line.request.model
        # Copies, as the catalogue that calls are judged by holds the originals.
        self.tools: Final[tuple[ToolOffer, ...]] = deepcopy(line.request.tools)

    @property
    def messages(self) -> Sequence[Message]:
        """The history as far as it is written: rules, task, hints, all calls and their replies."""
        return self._line.request.messages

    @property
    def position(self) -> int:
        """The step of the loop that the next call belongs to, from 0 on."""
        return self._line.request.turn - 1

    @property
    def finale(self) -> bool:
        """Whether no call is executed any more, and only an ending is waited for."""
        return self._line.request.finale

    async def invoke(
        self, name: str, arguments: Mapping[str, Any] | str = "", step: int | None = None, call_id: str = ""
    ) -> ToolAnswer:
        """Call a tool and return how that ended; calls that wait at the same time are one reply, in their order.

        `step` claims a position for the call: one out of the budget is refused, one that is no whole number from 0 on
        or lies behind the loop ends the run with `invalid_driver_decision`. Raises TypeError or ValueError for a call
        that cannot be written down, RuntimeError in another event loop than that of `run_turn`.
        """
        if not isinstance(name, str) or not name or not isinstance(call_id, str):
            raise TypeError("name must be a text that is not empty, call_id a text")
        written = arguments if isinstance(arguments, str) else _json(arguments)
        if asyncio.get_running_loop() is not self._line.loop:
            raise RuntimeError("call tools in the event loop of run_turn: from a thread by run_coroutine_threadsafe")
        if self._line.over or self.finale:
            await asyncio.sleep(0)  # a runtime that calls on and on lets others have their turn
            return DRAINING if self._line.over else SPENT
        answer: asyncio.Future[ToolAnswer] = asyncio.get_running_loop().create_future()
        self._line.waiting.append(_Invocation(ToolCall(call_id, name, written), step, answer))
        self._line.moved.set()
        return await answer


class Runtime(Protocol):
    """What a runtime author writes."""

    async def run_turn(self, turn: Turn) -> object:
        """Run one run to its end and return how it ends."""


class RuntimeDriver:
    """A driver whose model is a runtime. Asked again for the same turn, it says again what it said."""

    def __init__(
        self, runtime: Runtime, *, silent_seconds: float = SILENT_SECONDS, grace_seconds: float = GRACE_SECONDS
    ) -> None:
        """`silent_seconds` is how long a runtime may take to make its next call or end its turn, `grace_seconds` how
        long its end is waited for when it is told to stop."""
        self._runtime = runtime
        self._patience = (silent_seconds, grace_seconds)
        self._sessions: dict[str, _Session] = {}

    async def reply(self, request: ModelRequest) -> DriverReply:
        """Return the next calls, or the ending. Raises EnvelopeError."""
        session = self._sessions.get(request.run_id)
        if session is None:
            if request.turn > 1 and not getattr(self._runtime, "resumes", False):
                lost("the process that held the runtime's turn is gone, and no call is made a second time")
            session = self._sessions[request.run_id] = _Session(self._runtime, request, self._patience)
        return await session.reply(request)

    async def end_run(self, run_id: str) -> None:
        """Stop what the runtime still does for a run that is over."""
        session = self._sessions.pop(run_id, None)
        if session is not None:
            await session.end()

    async def close(self) -> None:
        """Stop all runs' turns, and close the runtime when it has a `close`."""
        for run_id in tuple(self._sessions):
            await self.end_run(run_id)
        closing = getattr(self._runtime, "close", None)
        if closing is not None:
            await closing()


class _Session:
    """One run's turn: the runtime's task, and what it has said so far."""

    def __init__(self, runtime: Runtime, request: ModelRequest, patience: tuple[float, float]) -> None:
        self._line = _Line(request)
        self._silent_seconds, self._grace_seconds = patience
        self._asking = asyncio.Lock()
        self._said: tuple[int, bool] | None = None  # which turn was answered last, and by what
        self._reply: DriverReply | ModelError = DriverReply()
        # In a context of its own: that of the request which happens to be the first ends long before the turn does.
        self._task = asyncio.create_task(_run(runtime, Turn(self._line)), context=Context())
        self._task.add_done_callback(self._ended)

    def _ended(self, task: asyncio.Task[object]) -> None:
        self._line.moved.set()
        if not task.cancelled():
            task.exception()  # looked at, so that nobody complains of it when the run is over already

    async def reply(self, request: ModelRequest) -> DriverReply:
        async with self._asking:
            asked = (request.turn, request.finale)
            if self._said is not None and request.turn < self._said[0]:
                lost("the run has gone on since this request was made")
            if asked != self._said:
                if self._line.over:
                    lost("the runtime ended its turn before this request")
                try:
                    self._reply = await self._next(request)
                except ModelError as error:
                    self._line.drain()
                    self._reply = error
                self._said = asked
        if isinstance(self._reply, ModelError):
            raise self._reply
        return self._reply

    async def _next(self, request: ModelRequest) -> DriverReply:
        line = self._line
        line.request = request
        answer_all(line.called, request.messages)
        line.called = []
        if request.finale:
            while line.waiting:
                line.waiting.popleft().settle(SPENT)
        try:
            async with asyncio.timeout(self._silent_seconds):
                await self._moved()
        except TimeoutError:
            await self.end()
            problem = f"the runtime neither called a tool nor ended its turn within {self._silent_seconds:g} seconds"
            raise EnvelopeError(SILENT, problem) from None
        if self._task.done():
            line.drain()
            return outcome_of(self._task)
        if line.over:
            lost("the run was over before the runtime answered")
        line.called = [line.waiting.popleft() for _ in range(min(BATCH, len(line.waiting)))]
        steps = tuple(one.step for one in line.called)
        return DriverReply(calls=tuple(one.call for one in line.called), steps=steps)

    async def _moved(self) -> None:
        """Wait until the task or its run has ended, or calls wait: also those that other tasks are about to make."""
        line = self._line
        while not (self._task.done() or line.over or self._standing()):
            line.moved.clear()
            await line.moved.wait()
            n_waiting = 0
            while n_waiting < len(line.waiting):
                n_waiting = len(line.waiting)
                for _ in range(LOOKS):
                    await asyncio.sleep(0)

    def _standing(self) -> int:
        """Return how many calls wait, those left out that the runtime has given up."""
        line = self._line
        line.waiting = deque(one for one in line.waiting if not one.answer.done())
        return len(line.waiting)

    async def end(self) -> None:
        """Let nothing through any more, and stop the task; one that does not stop is left to itself."""
        self._line.drain()
        if self._task.done():
            return
        self._task.cancel()
        await asyncio.wait([self._task], timeout=self._grace_seconds)
        if not self._task.done():
            logger.warning("a runtime's turn goes on although its run is over; nothing it does reaches anybody")


async def _run(runtime: Runtime, turn: Turn) -> object:
    try:
        return await runtime.run_turn(turn)
    except (SystemExit, KeyboardInterrupt):
        raise RuntimeError("the runtime tried to end the process") from None


def answer_all(called: Sequence[_Invocation], messages: Sequence[Message]) -> None:
    """Answer the calls of the last reply with what the history says of them. Raises EnvelopeError."""
    if not called:
        return
    start = next((place for place in range(len(messages) - 1, -1, -1) if messages[place].role == "assistant"), 0)
    end = start + 1 + len(called)
    replies = messages[start + 1 : end]
    if len(messages[start].calls) != len(called) or [one.role for one in replies] != ["tool"] * len(called):
        lost("the history does not end with the calls the runtime made last")
    context = tuple(message.text for message in messages[end:])
    last = next((one for one in reversed(called) if not one.answer.done()), None)
    for one, reply in zip(called, replies, strict=True):
        one.settle(ToolAnswer(reply.status, reply.code, reply.text, context if one is last else ()))


def lost(problem: str) -> NoReturn:
    """Fail a run whose runtime is not where the run is."""
    raise EnvelopeError(LOST, problem)
