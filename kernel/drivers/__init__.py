"""What a driver is: it renders the history as its model takes it, asks the model, and returns what it said."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

from kernel.messages import Message, ToolCall


@dataclass(frozen=True, slots=True)
class ToolOffer:
    """A tool as a model is told of it; `schema` is the JSON Schema of its arguments."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request: the whole history, the tools offered, and the bits of the run's spec a driver may need.

    A `finale` is the last request of its run: it offers no tools, and calls in its reply are dropped.
    """

    run_id: str
    turn: int
    messages: Sequence[Message]
    tools: tuple[ToolOffer, ...]
    script: str = ""
    model: str = ""
    finale: bool = False


@dataclass(frozen=True, slots=True)
class Escalation:
    """The run ends in an ask: the call at index `call` of the reply is it, for `reason` (1 to 512 UTF-16 units)."""

    reason: str
    call: int = 0


@dataclass(frozen=True, slots=True)
class DriverReply:
    """What the model said; token counts are the provider's own, None when it gives none; `finish_reason` is its word
    for why it stopped ("length" when it was cut).

    A driver may declare two things about its own turn, and the envelope keeps deciding both: `steps` are the positions
    it claims for its calls (None for the loop's own; empty for all of them), `escalation` that the run ends in an ask.
    `failed` ends the run with that error; `metadata` goes with an ending and must be JSON. (Seed 003.)
    """

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str = ""
    steps: tuple[int | None, ...] = ()
    escalation: Escalation | None = None
    failed: str = ""
    metadata: Mapping[str, Any] = field(default_factory=dict)


class Driver(Protocol):
    """A way to ask a model, registered by name in the worker; a RunSpec's `agent` names it. It renders by itself."""

    async def reply(self, request: ModelRequest) -> DriverReply:
        """Ask once. Raises kernel.edge.retry.ModelError, which says whether another attempt is worth it."""

    async def end_run(self, run_id: str) -> None:
        """Let go of what is held for a run that is over."""

    async def close(self) -> None: ...
