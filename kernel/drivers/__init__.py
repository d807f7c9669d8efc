"""What a driver is: it renders the history as its model takes it, asks the model, and returns what it said."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
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
    """One request: the whole history, the tools offered, and the bits of the run's spec a driver may need."""

    run_id: str
    turn: int
    messages: Sequence[Message]
    tools: tuple[ToolOffer, ...]
    script: str = ""
    model: str = ""


@dataclass(frozen=True, slots=True)
class DriverReply:
    """What the model said; token counts are the provider's own, None when it gives none; `finish_reason` is its word
    for why it stopped ("length" when it was cut)."""

    text: str = ""
    calls: tuple[ToolCall, ...] = ()
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    finish_reason: str = ""


class Driver(Protocol):
    """A way to ask a model, registered by name in the worker; a RunSpec's `agent` names it. It renders by itself."""

    async def reply(self, request: ModelRequest) -> DriverReply:
        """Ask once. Raises kernel.edge.retry.ModelError, which says whether another attempt is worth it."""

    async def close(self) -> None: ...
