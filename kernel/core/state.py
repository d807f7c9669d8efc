"""The state of a run: all that must survive replay and continue-as-new, and nothing else.

Ordered tuples, never sets; hashes and ids, never tool outputs or whole answers of Observation. (Seed 001 §8, §15.)
"""

from dataclasses import dataclass, field
from typing import Literal

from kernel.messages import Append, CallSeen, Effect, Event, RunSpec, ToolSpec, ToolStatus

Phase = Literal["preparing", "searching", "calling", "running", "approving", "waiting", "continuing", "finished"]


@dataclass(frozen=True, slots=True)
class Situation:
    """What a reason to search is about: two hashes (kernel.core.situations) and the start of the text behind them."""

    key: str = ""
    masked_key: str = ""
    fingerprint: str = ""


@dataclass(frozen=True, slots=True)
class Candidate:
    """One reason to search: a trigger, what set it off, and the situation it is about.

    `found_for` is how the hint block names what set the search off; `number` is that of the activation, given
    when the candidate is judged.
    """

    trigger: str
    source_event_id: str
    found_for: str = ""
    tool: str | None = None
    mcp_server: str | None = None
    call_id: str | None = None
    operation_id: str | None = None
    tool_result: str = ""
    error_class: str = ""
    situation: Situation = Situation()
    number: int = 0
    tool_arguments: str = ""


@dataclass(frozen=True, slots=True)
class Suppressed:
    """A hint that was offered and not injected. `tokens` is the size of a block with this hint alone."""

    knowledge_id: str
    revision: int
    reason: str
    tokens: int


@dataclass(frozen=True, slots=True)
class PlacedHint:
    """A selected hint: `tokens` is what its cue adds to the block."""

    hint_id: str
    knowledge_id: str
    tokens: int


@dataclass(frozen=True, slots=True)
class Placed:
    """A block that stands at transcript position `seq` and has not been seen in a request yet."""

    seq: int
    activation_id: str
    hints: tuple[PlacedHint, ...]


@dataclass(frozen=True, slots=True)
class Asked:
    """An activation whose answer is awaited."""

    candidate: Candidate
    event_id: str


@dataclass(frozen=True, slots=True)
class ActivationState:
    """What the run has searched for and spent.

    `processed` pairs the start of a situation key with the number of the activation that handled it, oldest first;
    `used_by` counts activations by tool or server, first use first. Kept within bounds by kernel.core.bounds.
    """

    issued: tuple[str, ...] = ()
    met_servers: tuple[str, ...] = ()
    processed: tuple[tuple[str, int], ...] = ()
    suppressed: tuple[Suppressed, ...] = ()
    deferred: tuple[Candidate, ...] = ()
    used_by: tuple[tuple[str, int], ...] = ()
    count: int = 0
    tokens_used: int = 0
    next_id: int = 1


@dataclass(frozen=True, slots=True)
class Call:
    """One tool call of the current turn. `outcome` is empty until it has its reply.

    A `waiting` call was started, and its reply comes from elsewhere, in any order: from the operation or the child run
    named by `subject`, from a person, or, for a copy, from the call that was executed in its place. `gist` is
    the start of what it was called with.
    """

    seen: CallSeen
    reply_seq: int
    requested_event_id: str = ""
    outcome: ToolStatus | Literal[""] = ""
    outcome_event_id: str = ""
    executed: bool = False
    duplicate: bool = False
    waiting: bool = False
    subject: str = ""
    error_class: str = ""
    diagnostic: str = ""
    excerpt: str = ""
    situation: Situation = Situation()
    approved: bool = False
    tool_arguments: str = ""
    gist: str = ""


@dataclass(frozen=True, slots=True)
class Operation:
    """A background operation that was started and has not ended."""

    operation_id: str
    call_id: str
    tool: str
    mcp_server: str | None = None


@dataclass(frozen=True, slots=True)
class EndedOperation:
    """A background operation that ended in this turn. `told` when the reply to a call has said so."""

    operation: Operation
    event_id: str
    outcome: ToolStatus
    effect: Effect = "none"
    error_class: str = ""
    diagnostic: str = ""
    excerpt: str = ""
    situation: Situation = Situation()
    told: bool = False
    tool_arguments: str = ""


@dataclass(frozen=True, slots=True)
class RunState:
    """Everything a run carries. `request_event_id`/`request_size` describe the last request that was sent.

    `n_calls` is how much of the budget of calls is used. `escalation` is the reason of the ask that ends the run,
    `ask_call_id` its call; `refused` is why the envelope ends the run itself. `limit` names the limit that is spent;
    from then on only the last request is made. `receipts` are the newest of `n_receipts` results. (Seeds 000, 003.)
    """

    spec: RunSpec
    phase: Phase = "preparing"
    turn: int = 0
    next_seq: int = 2
    next_event: int = 1
    assistant_seq: int = 0
    call_event_id: str = ""
    request_event_id: str = ""
    request_number: int = 0
    request_size: int = 0
    tools: tuple[ToolSpec, ...] = ()
    calls: tuple[Call, ...] = ()
    operations: tuple[Operation, ...] = ()
    ended_operations: tuple[EndedOperation, ...] = ()
    appends: tuple[Append, ...] = ()
    placed: tuple[Placed, ...] = ()
    asked: tuple[Asked, ...] = ()
    events: tuple[Event, ...] = ()
    activation: ActivationState = field(default_factory=ActivationState)
    continuations: int = 0
    turns_here: int = 0
    delegates: int = 0
    continue_suggested: bool = False
    started_ns: int = 0
    model_tokens: int = 0
    n_calls: int = 0
    escalation: str = ""
    ask_call_id: str = ""
    metadata: str = ""
    refused: str = ""
    limit: str = ""
    receipts: tuple[str, ...] = ()
    n_receipts: int = 0
