"""The adversary: a runtime of its own, straight at the envelope, that does what a world says without any manners."""

import asyncio

from kernel.conformance.playing import AFTER_END, Seat
from kernel.conformance.record import Aside
from kernel.conformance.worlds import Move, Round, World, materialised
from kernel.drivers.escalation import ESCALATE, read_reason
from kernel.drivers.plugin import RuntimeDriver, ToolAnswer, Turn


class Adversary:
    """Plays the rounds of a world by calling tools and returning outcomes. `aside` holds what never left the turn."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.aside: list[Aside] = []
        self._turn: Turn | None = None
        self._n_calls = 0

    async def run_turn(self, turn: Turn) -> object:
        """Play round after round; the outcome is returned as the world has it."""
        self._turn = turn
        for number in range(len(self.world.rounds) + 1):
            tried = self.world.round_at(number)
            if tried.hangs:
                await asyncio.Event().wait()
            if tried.raises:
                raise RuntimeError("the runtime broke")
            if tried.decide is not None:
                return materialised(tried.decide)
            if tried.fails:
                return {"type": "fail", "error": "the occupant of the seat failed"}
            if not tried.calls:
                return {"type": "complete", "output": tried.say}
            asked = self.ask_in(tried, turn)
            if asked is not None:
                return {"type": "escalate", "reason": read_reason(asked.written)}
            await asyncio.gather(*(self._invoke(turn, move) for move in tried.calls))
        raise AssertionError("a world ends with a word")

    def ask_in(self, tried: Round, turn: Turn) -> Move | None:
        """Return the ask of a round where the turn offers it."""
        offered = not turn.finale and any(tool.name == ESCALATE for tool in turn.tools)
        return next((one for one in tried.calls if offered and one.tool == ESCALATE and not one.forward), None)

    async def late(self) -> None:
        """Call once more when the run is over."""
        if self._turn is not None and self.world.attack == AFTER_END:
            await self._invoke(self._turn, Move("write", {"text": "late"}))

    async def _invoke(self, turn: Turn, move: Move) -> ToolAnswer:
        self._n_calls += 1
        attempt, finale = f"invocation-{self._n_calls}", turn.finale
        answer = await turn.invoke(move.tool, move.written, move.step, move.call_id or "")
        if answer.code == "turn_draining" or finale:
            self.aside.append(Aside(attempt, move.tool, answer.code))
        return answer


def adversary_seat(world: World) -> Seat:
    """Return the adversary in a world."""
    runtime = Adversary(world)
    return Seat(RuntimeDriver(runtime), aside=runtime.aside, outside=True, late=runtime.late)
