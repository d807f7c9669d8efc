"""How the moves of a world become replies: decided by the driver itself, or made on its occupant's behalf."""

import asyncio
import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from kernel.conformance.worlds import Move, Round, World, materialised
from kernel.drivers import Driver, DriverReply, Escalation, ModelRequest
from kernel.drivers.decisions import read_decision
from kernel.drivers.escalation import ESCALATE, read_reason
from kernel.edge.retry import ModelError
from kernel.messages import Message, ToolCall


class SeatFailed(ModelError):
    """The occupant of the seat is not there, and another attempt changes nothing."""

    def __init__(self) -> None:
        super().__init__("model_http_400", "the occupant of the seat failed")


def number_of(messages: Any) -> int:
    """Return which request of its run this is, from 0 on, by the replies that stand in it."""
    return sum(1 for message in messages if isinstance(message, Message) and message.role == "assistant")


class Decisions:
    """Decides as a world says: its moves as decision objects (kernel.drivers.decisions)."""

    def __init__(self, world: World) -> None:
        self.world = world

    async def decide(self, request: ModelRequest) -> object:
        """Decide. Raises SeatFailed, and RuntimeError, where the world says so."""
        tried = self.world.round_at(number_of(request.messages))
        if tried.hangs:
            await asyncio.Event().wait()
        if tried.raises:
            raise RuntimeError("the driver broke")
        if tried.fails:
            raise SeatFailed
        if tried.decide is not None:
            return materialised(tried.decide)
        if not tried.calls:
            return {"type": "complete", "output": tried.say}
        offered = any(offer.name == ESCALATE for offer in request.tools)
        return [self.call_decision(move, offered) for move in tried.calls]

    def call_decision(self, move: Move, offered: bool) -> Mapping[str, Any]:
        """Return the decision of one call; an ask is one where the affordance is offered."""
        if move.tool == ESCALATE and offered and not move.forward:
            return {"type": "escalate", "reason": read_reason(move.written)}
        step = {} if move.step is None else {"step": move.step}
        return {"type": "tool_call", "call": {"name": move.tool, "arguments": move.written, **_id(move)}, **step}


def _id(move: Move) -> Mapping[str, str]:
    return {} if move.call_id is None else {"id": move.call_id}


class Reaching:
    """A driver around another one: it does on behalf of that seat's occupant what the occupant has no way to do.

    `ids` and `texts` say that the occupant itself chooses the ids of its calls and writes their arguments as text;
    `bridged` that its asks end at a bridge and reach no driver.
    """

    def __init__(
        self,
        inner: Driver,
        world: World,
        *,
        ids: bool = False,
        texts: bool = False,
        bridged: bool = False,
        keeps: bool = False,
    ) -> None:
        """`keeps` says that the driver inside serves others too and is closed by whoever made it."""
        self._inner = inner
        self._keeps = keeps
        self._ids = ids
        self._texts = texts
        self._bridged = bridged
        self._left = [(tried, move) for tried in world.rounds for move in tried.calls or ordinary(tried)]
        self.reached = False

    async def reply(self, request: ModelRequest) -> DriverReply:
        """Let the occupant speak first, then give what the world says in its place."""
        given = await self._inner.reply(request)
        meant = [self._meant(call) for call in given.calls]
        tried = next((tried for tried, _ in meant if is_drivers(tried)), None)
        if tried is not None:
            self.reached = True
            if tried.hangs:
                await asyncio.Event().wait()
            if tried.raises:
                raise RuntimeError("the driver broke")
            return read_decision(materialised(tried.decide))
        return self._reach([move for _, move in meant], given)

    def _meant(self, call: ToolCall) -> tuple[Round, Move]:
        """Return the move that a call of the occupant stands for, each move once."""
        for place, (_, move) in enumerate(self._left):
            if stand_in(move, self._texts, self._bridged) == (call.name, _plain(call.arguments)):
                return self._left.pop(place)
        return Round(), Move(call.name, text=call.arguments)

    def _reach(self, moves: Sequence[Move], given: DriverReply) -> DriverReply:
        calls = tuple(self._call(move, call) for move, call in zip(moves, given.calls, strict=True))
        steps = tuple(move.step for move in moves)
        changed = given if calls == given.calls else replace(given, calls=calls)
        if any(step is not None for step in steps):
            changed = replace(changed, steps=steps)
        if any(move.forward for move in moves):
            changed = replace(changed, escalation=_asked(moves, changed))
        self.reached = self.reached or changed is not given
        return changed

    def _call(self, move: Move, call: ToolCall) -> ToolCall:
        as_told = move.text is not None and not self._texts
        call_id = call.call_id if self._ids or move.call_id is None else move.call_id
        name, text = (move.tool, move.written) if as_told or move.forward else (call.name, call.arguments)
        return ToolCall(call_id, name, text)

    async def end_run(self, run_id: str) -> None:
        await self._inner.end_run(run_id)

    async def close(self) -> None:
        if not self._keeps:
            await self._inner.close()


def _asked(moves: Sequence[Move], given: DriverReply) -> Escalation | None:
    """Return the first ask among the calls of a reply that is not forwarded."""
    places = [place for place, move in enumerate(moves) if move.tool == ESCALATE and not move.forward]
    if given.escalation is None or not places:
        return None
    return Escalation(read_reason(given.calls[places[0]].arguments), places[0])


def stand_in(move: Move, texts: bool, bridged: bool = False) -> tuple[str, Any]:
    """Return the tool and arguments (as JSON, or as the text they are) that an occupant calls with to make a move; one
    that cannot write `texts` calls with the text as an argument, and one behind a bridge forwards nothing itself."""
    if move.forward and bridged:
        return "read", {"text": "what the driver forwards"}
    if move.text is not None:
        return move.tool, move.text if texts else {"text": move.text}
    return move.tool, dict(move.arguments)


def is_drivers(tried: Round) -> bool:
    """Tell whether all of a round is a driver's to do."""
    return tried.raises or tried.hangs or tried.decide is not None


def ordinary(tried: Round) -> tuple[Move, ...]:
    """Return what an occupant calls in a round: where all of the round is its driver's to do, an ordinary tool."""
    if is_drivers(tried):
        return (Move("read", {"text": "what the driver does next"}),)
    return tried.calls


def _plain(arguments: str) -> object:
    try:
        return json.loads(arguments or "{}")
    except ValueError:
        return arguments
