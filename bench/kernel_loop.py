"""Our side of the comparison: the in-process runner over an instant model and an instant tool, everything in memory."""

import asyncio
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from kernel.drivers import DriverReply, ModelRequest
from kernel.messages import Hint, HintRequest, Limits, RunSpec, Switches, ToolCall
from kernel.runtime.local import LocalRun
from kernel.testing import MemoryEdges, ScriptedModel, ToolError, hint

PLENTY = 1_000_000


def works(topic: str) -> str:
    return f"the value of {topic}"


def fails(topic: str) -> str:
    """Fail as real tools do, every time in another situation: the names in the text differ."""
    raise ToolError(f"LookupError: no entry for {topic!r} in table {NAMES[int(topic) % len(NAMES)]}", "LookupError")


NAMES = tuple(f"{first}{second}{third}" for first in "abcdefgh" for second in "klmnopqr" for third in "stuvwxyz")


class InstantModel(ScriptedModel):
    """Calls the tool once in each of `turns` turns, then answers. `tick` is called as each reply is asked for; a model
    that `yields` lets the event loop run, as one that is waited for does."""

    def __init__(self, turns: int, tick: Callable[[int], None] | None = None, *, yields: bool = False) -> None:
        super().__init__()
        self._turns = turns
        self._tick = tick
        self._yields = yields

    async def reply(self, request: ModelRequest) -> DriverReply:
        if self._tick is not None:
            self._tick(request.turn)
        if self._yields:
            await asyncio.sleep(0)
        if request.turn > self._turns:
            return DriverReply("done")
        topic = str(request.turn)
        return DriverReply(calls=(ToolCall(f"c{topic}", "lookup", f'{{"topic": "{topic}"}}'),))


def one_hint(request: HintRequest) -> tuple[Hint, ...]:
    """Answer each search with a hint that was not given before."""
    return (hint(f"k-{request.activation_id}"),)


@dataclass(frozen=True, slots=True)
class KernelLoop:
    """A run of `n` turns. With `failing` every call fails, is fingerprinted, searched for and answered with a hint,
    which is injected; the run's limits are raised so that none of them is reached. `limits` are others to use."""

    name: str
    failing: bool = False
    limits: Mapping[str, int] | None = None

    @property
    def version(self) -> str:
        return "this tree"

    def world(self, turns: int, model: InstantModel | None = None) -> tuple[MemoryEdges, RunSpec]:
        """Return the world of a run and its spec."""
        tool = fails if self.failing else works
        edges = MemoryEdges(model or InstantModel(turns), {"lookup": tool}, one_hint if self.failing else None)
        given = self.limits
        if given is None:
            raised = ("activations_per_tool", "activations_per_run", "tokens_per_run")
            given = dict.fromkeys(raised, PLENTY) if self.failing else {}
        switches = Switches(activation=self.failing, off=("task.priming",))
        limits = Limits(max_turns=turns + 2, **given)  # more than needed: the last one allowed is not searched for
        return edges, RunSpec("r-1", "Find every value", tools=(), limits=limits, switches=switches)

    async def run(self, turns: int) -> float:
        """Return the seconds a run takes, from its start to its last report."""
        edges, spec = self.world(turns)
        started = time.process_time()
        result = await LocalRun(edges, clock_ns=edges.clock).run(spec)
        seconds = time.process_time() - started
        injected = sum(event.type == "hint.delivery" and '"injected"' in event.data for event in edges.events)
        if result.status != "completed" or len(edges.executed) != turns or len(edges.wire) != len(edges.events):
            raise AssertionError(f"the run is not the one to be measured: {result}")
        if self.failing and self.limits is None and injected != turns:
            raise AssertionError(f"{injected} hints were injected in {turns} turns")
        return seconds

    async def fake(self, turns: int) -> float:
        """Return the seconds the model and the tool take by themselves."""
        model, tool = InstantModel(turns), fails if self.failing else works
        requests = [ModelRequest("r-1", turn, (), ()) for turn in range(1, turns + 2)]
        started = time.process_time()
        for request in requests:
            reply = await model.reply(request)
            try:
                if reply.calls:
                    tool(topic=str(request.turn))
            except ToolError:
                continue
        return time.process_time() - started
