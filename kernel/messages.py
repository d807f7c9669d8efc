"""The words the core and its edges exchange: model messages, observations (past tense), commands (imperative).

All are frozen dataclasses that cross a serialisation boundary (Temporal payloads, the transcript store), so
fields are only str, int, float, bool, None, tuples and other dataclasses of this module. New fields get a
default: recorded histories must stay readable. This module is passed through Temporal's sandbox; the core is not.
"""

from dataclasses import dataclass, field
from typing import Literal

Role = Literal["system", "user", "assistant", "tool", "context"]
Origin = Literal["rules", "task", "priming", "model", "tool", "refusal", "hints", "operation", "finale"]
ToolStatus = Literal["ok", "failed", "timed_out", "blocked", "denied", "cancelled"]
Effect = Literal["none", "applied", "uncertain"]

# ---- messages to the model -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as the model wrote it; `arguments` is the raw JSON text, possibly malformed."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the append-only history. `call_id` is set on tool replies, `calls` on assistant messages."""

    role: Role
    text: str
    origin: Origin
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None


@dataclass(frozen=True, slots=True)
class Append:
    """Put `message` at transcript position `seq`; with `copy_of` the text is that of the reply at that position."""

    seq: int
    message: Message
    copy_of: int | None = None


# ---- what a run is given ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limits:
    """Every bound of a run. Tokens are estimates (four code points each), times milliseconds. (Seed 001 §9.3, §11.)"""

    max_turns: int = 40
    activations_per_turn: int = 2
    activations_per_tool: int = 4
    activations_per_run: int = 12
    hints_per_activation: int = 2
    tokens_per_activation: int = 400
    tokens_per_run: int = 1_600
    priming_tokens: int = 600
    priming_hints: int = 4
    retrieval_timeout_ms: int = 2_000
    turns_per_workflow: int = 50


@dataclass(frozen=True, slots=True)
class Switches:
    """What is on. `activation` governs runtime triggers; priming has its own switch; `shadow` never injects."""

    activation: bool = True
    priming: bool = True
    tool_failed: bool = True
    mcp_first_call: bool = True
    shadow: bool = False


@dataclass(frozen=True, slots=True)
class McpServer:
    """An MCP server under its configuration key: either `command` (stdio) or `url` (streamable HTTP).

    `{work}` in an argument is the run's work folder. `token_env` names the worker's environment variable whose value
    is sent to `url` as a bearer token; the value itself is written nowhere.
    """

    key: str
    command: str = ""
    args: tuple[str, ...] = ()
    url: str = ""
    token_env: str = ""


@dataclass(frozen=True, slots=True)
class RunSpec:
    """The input of one run. `agent` names a driver of the registry, `script` a script of the scripted driver.

    `setup` is a shell command run once in the empty work folder before the first turn. `skills` are the active
    skills; `blocked_tools` are refused by policy; `approval_tools` wait for a person.
    """

    run_id: str
    task: str
    agent: str = "scripted"
    script: str = ""
    model: str = ""
    task_id: str = ""
    actor_id: str = "agent"
    parent_run_id: str | None = None
    team_root: str | None = None
    rules: str = "You are a careful engineer. Use the tools to finish the task, then answer in one short paragraph."
    setup: str = ""
    mcp_servers: tuple[McpServer, ...] = ()
    skills: tuple[str, ...] = ()
    blocked_tools: tuple[str, ...] = ()
    approval_tools: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    switches: Switches = field(default_factory=Switches)


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool as the core sees it: its name and, for an MCP tool, the configuration key of its server."""

    name: str
    mcp_server: str | None = None


# ---- observations: what happened -------------------------------------------------------------------------
# `at_ns` is Unix nanoseconds read by the runner. `continue_suggested` is Temporal's suggestion at that moment.


@dataclass(frozen=True, slots=True)
class RunPrepared:
    """The work folder is set up, the tools are listed, the first messages are in the transcript."""

    at_ns: int
    tools: tuple[ToolSpec, ...]
    failed_servers: tuple[tuple[str, str], ...] = ()
    error: str = ""


@dataclass(frozen=True, slots=True)
class CallSeen:
    """A tool call of a model reply without its (possibly large) arguments: they stay in the transcript.

    `digest` identifies (tool, arguments); `excerpt` is redacted and at most 500 code points; `malformed` says
    what is wrong with the arguments, or is empty.
    """

    call_id: str
    name: str
    digest: str
    excerpt: str
    malformed: str = ""


@dataclass(frozen=True, slots=True)
class SentMessage:
    """Where a message stood in the request as sent: 0-based position and sha256 of its rendered form."""

    seq: int
    position: int
    message_hash: str


@dataclass(frozen=True, slots=True)
class ModelReplied:
    """The model answered; the assistant message is at the transcript position the command named."""

    at_ns: int
    requested_ns: int
    calls: tuple[CallSeen, ...] = ()
    text: str = ""
    n_messages: int = 0
    request_tokens: int = 0
    sent_context: tuple[SentMessage, ...] = ()
    model: str = ""
    input_tokens: int | None = None
    output_tokens: int | None = None
    continue_suggested: bool = False


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """The model request could not be made or answered, retries included."""

    at_ns: int
    requested_ns: int
    error_class: str
    error: str
    sent_context: tuple[SentMessage, ...] = ()


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """Exactly one of the two; a wrapper, because a payload converter cannot tell the members of a union apart."""

    replied: ModelReplied | None = None
    failed: ModelFailed | None = None


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call was executed and its reply is in the transcript. Texts are redacted.

    `reply_written` is False when the edge was lost before it could write (a worker died, a time limit): the
    core then appends a neutral reply itself.

    `diagnostic` is at most 4,096 code points and empty when there is nothing to search for; `excerpt` is the
    bounded result of a success; `operation_id` says that the real outcome comes later.
    """

    at_ns: int
    started_ns: int
    call_id: str
    status: ToolStatus
    effect: Effect = "none"
    error_class: str = ""
    diagnostic: str = ""
    excerpt: str = ""
    operation_id: str | None = None
    reply_written: bool = True
    continue_suggested: bool = False


@dataclass(frozen=True, slots=True)
class OperationFinished:
    """A background operation reached its real outcome. Fields as in ToolFinished."""

    at_ns: int
    operation_id: str
    status: ToolStatus
    effect: Effect = "none"
    error_class: str = ""
    diagnostic: str = ""
    excerpt: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    """A person allowed or refused a call."""

    at_ns: int
    call_id: str
    approved: bool
    by: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class Hint:
    """One offered hint, as much of it as the core needs."""

    hint_id: str
    knowledge_id: str
    revision: int
    proposition: str
    state: str
    matched_by: tuple[str, ...] = ()
    caution: str = ""


@dataclass(frozen=True, slots=True)
class HintAnswer:
    """Observation's answer to one request. `result` is success, empty, timeout or error."""

    activation_id: str
    result: str
    hints: tuple[Hint, ...] = ()
    n_retrieved: int = 0
    algorithm_version: str = ""
    error: str = ""


@dataclass(frozen=True, slots=True)
class HintsArrived:
    """The one retrieval of a boundary ended; one answer per request, in the order asked."""

    at_ns: int
    requested_ns: int
    answers: tuple[HintAnswer, ...]
    continue_suggested: bool = False


@dataclass(frozen=True, slots=True)
class CancelRequested:
    """A person or caller asked the run to stop."""

    at_ns: int
    reason: str = ""


@dataclass(frozen=True, slots=True)
class Resumed:
    """A new workflow run took over after continue-as-new."""

    at_ns: int


Observation = (
    RunPrepared | ModelReplied | ModelFailed | ToolFinished | OperationFinished | ApprovalDecided
    | HintsArrived | CancelRequested | Resumed
)  # fmt: skip

# ---- commands: what to do --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PrepareRun:
    """Set up the work folder, start the MCP servers, list the tools."""

    spec: RunSpec


@dataclass(frozen=True, slots=True)
class CallModel:
    """Write `append` to the transcript, build the request from positions 0..`reply_seq`-1, call the model,
    write its reply at `reply_seq`. `event_id` is the id of the model.requested event of this request."""

    run_id: str
    turn: int
    append: tuple[Append, ...]
    reply_seq: int
    event_id: str
    agent: str
    script: str
    model: str


@dataclass(frozen=True, slots=True)
class RunTool:
    """Execute the call found in the assistant message at `assistant_seq` and write its reply at `reply_seq`.

    `excerpt_limit` bounds the success text that comes back, in code points.
    """

    run_id: str
    call_id: str
    assistant_seq: int
    reply_seq: int
    excerpt_limit: int


@dataclass(frozen=True, slots=True)
class AskApproval:
    """Ask a person whether the call may run."""

    run_id: str
    call_id: str
    tool: str
    excerpt: str


@dataclass(frozen=True, slots=True)
class HintRequest:
    """What Observation is asked, already bounded (query 4,096, tool_result 8,192 code points) and redacted."""

    activation_id: str
    trigger: str
    source_event_id: str
    run_id: str
    task_id: str
    actor_id: str
    team_root: str | None
    query: str
    tool: str | None = None
    mcp_server: str | None = None
    tool_result: str = ""
    error_class: str = ""
    active_skills: tuple[str, ...] = ()
    issued_knowledge_ids: tuple[str, ...] = ()
    suppressed_knowledge_ids: tuple[str, ...] = ()
    limit: int = 8
    activation_tokens: int = 0
    run_tokens: int = 0
    hint_limit: int = 0


@dataclass(frozen=True, slots=True)
class FetchHints:
    """Ask Observation once for all activations of this boundary (the batch form)."""

    run_id: str
    requests: tuple[HintRequest, ...]
    timeout_ms: int


@dataclass(frozen=True, slots=True)
class Event:
    """One telemetry event on its way out; `data` is JSON text so that the frozen value stays hashable.

    For model.requested, `messages_from`..`messages_to` are transcript positions whose messages are added to
    `data.new_messages` by the edge that sends it: bodies never enter workflow history.
    """

    event_id: str
    type: str
    occurred_ns: int
    seq: int
    data: str = "{}"
    turn: int | None = None
    caused_by: str | None = None
    call_id: str | None = None
    operation_id: str | None = None
    activation_id: str | None = None
    hint_id: str | None = None
    knowledge_id: str | None = None
    tool: str | None = None
    mcp_server: str | None = None
    messages_from: int | None = None
    messages_to: int | None = None


@dataclass(frozen=True, slots=True)
class SendEvents:
    """Report to ingest, best effort: a failure is counted and never reaches the core."""

    run_id: str
    task_id: str
    actor_id: str
    parent_run_id: str | None
    team_root: str | None
    events: tuple[Event, ...]


@dataclass(frozen=True, slots=True)
class ContinueAsNew:
    """Start a new workflow run from the state returned beside this command; only ever at a turn boundary."""


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over: `status` is a word of contract.stages.RUN_STATUSES."""

    run_id: str
    status: str
    answer: str = ""
    reason: str = ""


Command = PrepareRun | CallModel | RunTool | AskApproval | FetchHints | SendEvents | ContinueAsNew | Finish


@dataclass(frozen=True, slots=True)
class RunInput:
    """What a workflow run starts from: a spec, or the JSON text of the state carried over by continue-as-new."""

    spec: RunSpec | None = None
    state: str = ""


@dataclass(frozen=True, slots=True)
class RunResult:
    """What a finished run returns to its caller."""

    run_id: str
    status: str
    answer: str = ""
    reason: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalAnswer:
    """What a person sends to a run: whether the waiting call may be executed."""

    call_id: str
    approved: bool
    by: str = ""
    note: str = ""


@dataclass(frozen=True, slots=True)
class RunStatus:
    """Where a run stands: its phase, its turn, and the calls that wait for a person."""

    run_id: str
    phase: str
    turn: int
    pending_approvals: tuple[AskApproval, ...] = ()
