"""What a world is: everything a condition needs, as plain data with a content hash, in words no column owns.

A world says which tools there are, who may use them, within which limits, and what the occupant of the driver's seat
does, round by round. Each column translates the rounds into what its medium carries. (Seed 003.)
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Final

from kernel.messages import Limits, RunSpec

UNSERIALISABLE: Final = "$unserialisable"  # a text that columns replace by something no JSON can hold


@dataclass(frozen=True, slots=True)
class Move:
    """One call: of `tool` with `arguments`, or with the raw `text` instead of them. `call_id` None lets whoever makes
    the call choose, `step` is the position claimed (any JSON value, None for none), `forward` passes an ask on as if
    it were a call like any other."""

    tool: str
    arguments: Mapping[str, Any] = field(default_factory=dict)
    text: str | None = None
    call_id: str | None = None
    step: Any = None
    forward: bool = False

    @property
    def written(self) -> str:
        """The arguments as they are written."""
        return json.dumps(self.arguments) if self.text is None else self.text


@dataclass(frozen=True, slots=True)
class Round:
    """What is done when one request is there: `calls`, or else `say`.

    `decide` is a decision (or a runtime's outcome) given as it stands; `raises` lets the driver itself break,
    `fails` the occupant of its seat; `hangs` never answers.
    """

    calls: tuple[Move, ...] = ()
    say: str = ""
    decide: Mapping[str, Any] | None = None
    raises: bool = False
    fails: bool = False
    hangs: bool = False


@dataclass(frozen=True, slots=True)
class Tool:
    """A tool of the world: it `gives` its result, `fails` with a diagnostic, or `waits` until the run is over.

    `server` puts it into the namespace of an MCP server, `background` makes its calls operations, `takes_ms` is what
    the world's clock moves by meanwhile.
    """

    name: str
    gives: str = ""
    fails: str = ""
    waits: bool = False
    server: str = ""
    background: bool = False
    takes_ms: int = 0


@dataclass(frozen=True, slots=True)
class World:
    """One world. `own` names tools of the kernel's own that are requested beside `tools`; `unrequested` tools are
    registered and not requested. `hint` is offered for whatever fails. `cancelled` cancels the run while a tool waits
    or the seat hangs. `attack` names what is done to the run from beside its driver (kernel.conformance.playing).
    """

    id: str
    rounds: tuple[Round, ...]
    tools: tuple[Tool, ...] = ()
    own: tuple[str, ...] = ()
    unrequested: tuple[str, ...] = ()
    grants: tuple[str, ...] = ("*",)
    namespaces_off: tuple[str, ...] = ()
    blocked: tuple[str, ...] = ()
    approval: tuple[str, ...] = ()
    limits: Mapping[str, int | str] = field(default_factory=dict)
    hint: str = ""
    cancelled: bool = False
    attack: str = ""
    task: str = "Look after the list."
    clock_ns: int = 1_800_000_000_000_000_000  # Unix nanoseconds at the start

    @property
    def content_hash(self) -> str:
        """SHA-256 (hex) of all that the world says."""
        return hashlib.sha256(json.dumps(asdict(self), sort_keys=True).encode()).hexdigest()

    def round_at(self, number: int) -> Round:
        """Return what is done at the request after `number` replies; past the last round that is a closing word."""
        return self.rounds[number] if number < len(self.rounds) else DONE

    def spec(self, run_id: str, agent: str) -> RunSpec:
        """Return the input of a run in this world."""
        local = tuple(tool.name for tool in self.tools if not tool.server and tool.name not in self.unrequested)
        return RunSpec(
            run_id,
            self.task,
            agent,
            script=self.id,
            model=self.id,
            tools=(*local, *self.own),
            grants=self.grants,
            namespaces_off=self.namespaces_off,
            blocked_tools=self.blocked,
            approval_tools=self.approval,
            limits=Limits(**self.limits),  # type: ignore[arg-type]
        )


DONE: Final = Round(say="Done.")


def set_hash(worlds: Sequence[World]) -> str:
    """Return the SHA-256 (hex) of a set of worlds; the order they stand in does not matter."""
    lines = sorted({f"{world.id} {world.content_hash}" for world in worlds})
    return hashlib.sha256("\n".join(lines).encode()).hexdigest()


def materialised(value: Any) -> Any:
    """Return plain data with the marks for what data cannot hold replaced by the thing itself."""
    if value == UNSERIALISABLE:
        return object()
    if isinstance(value, Mapping):
        return {name: materialised(inner) for name, inner in value.items()}
    if isinstance(value, list | tuple):
        return [materialised(inner) for inner in value]
    return value
