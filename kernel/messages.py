"""The words the core and its edges exchange: model messages, observations (past tense), commands (imperative).

All are frozen dataclasses that cross a serialisation boundary (Temporal payloads, the transcript store), so
fields are only str, int, float, bool, None, tuples and other dataclasses of this module. New fields get a
default: recorded histories must stay readable. This module is passed through Temporal's sandbox; the core is not.
"""

from dataclasses import dataclass, field
from typing import Final, Literal

Role = Literal["system", "user", "assistant", "tool", "context"]
Origin = Literal[
    "rules", "task", "priming", "model", "tool", "refusal", "hints", "operation", "finale",
    "summary", "record", "utterance",
]  # fmt: skip
ToolStatus = Literal["ok", "failed", "timed_out", "blocked", "denied", "cancelled"]
Effect = Literal["none", "applied", "uncertain"]
# Who answers a call: a tool at the edge ("call"), or the core itself, at once or when what it stands for has ended.
ToolKind = Literal["call", "background", "await_operation", "ask_human", "plan", "delegate", "escalate"]
# What becomes of a run whose rounds, time or tokens are spent: one last request without tools, or a failure.
AtLimit = Literal["finale", "fail"]
Locale = Literal["en", "zh", "ru"]

# ---- messages to the model -------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call as the model wrote it; `arguments` is the raw JSON text, possibly malformed."""

    call_id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message of the append-only history. `call_id` is set on tool replies, `calls` on assistant messages.

    `status` and `code` say of a reply how its call ended: a word of ToolStatus, and the refusal code or error class.
    """

    role: Role
    text: str
    origin: Origin
    calls: tuple[ToolCall, ...] = ()
    call_id: str | None = None
    status: str = ""
    code: str = ""


@dataclass(frozen=True, slots=True)
class Append:
    """Put `message` at transcript position `seq`; with `copy_of` the text is that of the reply at that position."""

    seq: int
    message: Message
    copy_of: int | None = None


# ---- what a run is given ----------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Limits:
    """Every bound of a run. Tokens are estimates (four code points each), times milliseconds. (Seed 001 §9.3, §11.)

    `max_turns` counts tool rounds: replies of the model that call tools, however many. When they, the time or the
    model's tokens are spent, `at_limit` says what follows. (Seed 000.)
    """

    max_turns: int = 8
    max_tool_calls: int = 0  # in the whole run; 0 is as many as max_turns
    run_ms: int = 0  # from the run's start; 0 is for as long as it takes
    run_tokens: int = 0  # the model's, in and out; 0 is as many as it takes
    at_limit: AtLimit = "finale"
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
    person_timeout_ms: int = 0  # how long an approval or a question waits; 0 is for as long as it takes
    pending_operations: int = 8
    delegates_per_run: int = 8
    max_depth: int = 1  # runs below the root that may be started: 1 lets the root delegate, and nobody else


@dataclass(frozen=True, slots=True)
class Switches:
    """What is on. `activation` governs all runtime triggers, `off` names triggers that are switched off (priming is
    one of them); `shadow` retrieves and reports as usual and never injects."""

    activation: bool = True
    shadow: bool = False
    off: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Holdout:
    """An experiment: the `share` (0..1) of runtime situations whose hints are withheld, drawn with `salt`."""

    share: float = 0.0
    salt: str = ""
    experiment: str = ""


@dataclass(frozen=True, slots=True)
class Conversation:
    """The spoken or written conversation a run is one turn of: the run's task is what was said. (Seed 002.)

    `conversation_id` names its records in the record store, `owner` is the source of the user's rows. `history_since`
    is an RFC 3339 time: rows before the first one on or after it are not in the request. `mode` is the interaction mode
    as the state block gives it, `said_at` when the utterance was said (RFC 3339 with offset; empty is now),
    `pending` a confirmation that is asked for, `running` how many actions are still running.
    """

    conversation_id: str
    owner: str = "user"
    history_since: str = ""
    mode: str = ""
    said_at: str = ""
    pending: str = ""
    running: int = 0
    profile: tuple[str, ...] = ()


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


DEFAULT_RULES: Final = (
    "You are a careful engineer. Use the tools to finish the task, then answer in one short paragraph."
)


@dataclass(frozen=True, slots=True)
class Member:
    """An agent that a run may delegate to: a run of its own, with limits and a state of its own."""

    name: str
    agent: str = "scripted"
    script: str = ""
    model: str = ""
    rules: str = DEFAULT_RULES
    setup: str = ""
    tools: tuple[str, ...] = ("shell",)
    mcp_servers: tuple[McpServer, ...] = ()
    limits: Limits = field(default_factory=Limits)


@dataclass(frozen=True, slots=True)
class RunSpec:
    """The input of one run. `agent` names a driver of the registry, `script` a script of the scripted driver.

    `setup` is a shell command run once in the empty work folder before the first turn. `skills` are the active
    skills; `blocked_tools` are refused by policy; `approval_tools` wait for a person. `tools` names those of the
    kernel's own tools that are offered, `members` whom the run may delegate to; `depth` is 0 for a root run.

    `grants` names the tools the agent may use; "*" stands for every tool that does not insist on being named. A
    namespace is "kernel" or the key of an MCP server; tools of `namespaces_off` are not offered. `reviewer` is who an
    escalation is put to, `locale` the language in which the kernel itself speaks to the person. (Seed 003.)
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
    rules: str = DEFAULT_RULES
    setup: str = ""
    mcp_servers: tuple[McpServer, ...] = ()
    skills: tuple[str, ...] = ()
    blocked_tools: tuple[str, ...] = ()
    approval_tools: tuple[str, ...] = ()
    limits: Limits = field(default_factory=Limits)
    switches: Switches = field(default_factory=Switches)
    tools: tuple[str, ...] = ("shell",)
    members: tuple[Member, ...] = ()
    depth: int = 0
    holdout: Holdout = field(default_factory=Holdout)
    grants: tuple[str, ...] = ("*",)
    namespaces_off: tuple[str, ...] = ()
    reviewer: str = "owner"
    locale: Locale = "en"
    conversation: Conversation | None = None


@dataclass(frozen=True, slots=True)
class ToolSpec:
    """One tool as the core sees it: its name, the configuration key of its MCP server, and who answers its calls.

    `same_as` names the tool whose failures its own are: what is known of one is then known of the other.
    """

    name: str
    mcp_server: str | None = None
    kind: ToolKind = "call"
    same_as: str = ""


# ---- observations: what happened -------------------------------------------------------------------------
# `at_ns` is Unix nanoseconds read by the runner. `continue_suggested` is Temporal's suggestion at that moment.


@dataclass(frozen=True, slots=True)
class Cut:
    """How far the answer of the turn before was heard: `heard` is prefix, nothing, no_answer or unknown, `prefix` the
    part that was heard, `record_id` the answer's record (the utterance's where there was no answer). (Seed 002.)"""

    heard: str
    prefix: str
    record_id: str


@dataclass(frozen=True, slots=True)
class RunPrepared:
    """The work folder is set up, the tools are listed, the first messages are in the transcript."""

    at_ns: int
    tools: tuple[ToolSpec, ...]
    failed_servers: tuple[tuple[str, str], ...] = ()
    error: str = ""
    n_messages: int = 2
    cut: Cut | None = None


@dataclass(frozen=True, slots=True)
class CallSeen:
    """A tool call of a model reply without its (possibly large) arguments: they stay in the transcript.

    `digest` identifies (tool, arguments); `excerpt` is redacted and at most 500 code points; `malformed` says
    what is wrong with the arguments, or is empty. `arguments` is the whole JSON, redacted, of a call that the core
    answers itself, and empty for any other. `step` is the position its driver claims for it; `escalates` is the reason
    (1 to 512 UTF-16 units) when the driver declared that the run ends in this ask. (Seed 003.)
    """

    call_id: str
    name: str
    digest: str
    excerpt: str
    malformed: str = ""
    arguments: str = ""
    step: int | None = None
    escalates: str = ""


@dataclass(frozen=True, slots=True)
class SentMessage:
    """Where a message stood in the request as sent: 0-based position, and the hash of what it says
    (kernel.drivers.rendering.message_hash), which is the same for every provider."""

    seq: int
    position: int
    message_hash: str


@dataclass(frozen=True, slots=True)
class ModelReplied:
    """The model answered; the assistant message is at the transcript position the command named.

    `failed` is the error (at most 1,000 code points) with which the driver ended the run, `metadata` the JSON object it
    gave with its ending; `n_dropped` counts calls of a last reply that nobody executes.
    """

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
    finish_reason: str = ""
    continue_suggested: bool = False
    failed: str = ""
    metadata: str = ""
    n_dropped: int = 0


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """The model request could not be made or answered, retries included. `sent` is False when it never left.

    `source` is "envelope" where what the runtime returned was refused from outside it. (Seed 003.)
    """

    at_ns: int
    requested_ns: int
    error_class: str
    error: str
    sent_context: tuple[SentMessage, ...] = ()
    sent: bool = True
    source: str = "runtime"


@dataclass(frozen=True, slots=True)
class ModelAnswer:
    """Exactly one of the two; a wrapper, because a payload converter cannot tell the members of a union apart."""

    replied: ModelReplied | None = None
    failed: ModelFailed | None = None


@dataclass(frozen=True, slots=True)
class TimeReceipt:
    """One reading of the clock: `utc` and `zoned` are RFC 3339 texts of the same instant, `unix` its whole seconds."""

    utc: str
    zoned: str
    zone: str
    unix: int


@dataclass(frozen=True, slots=True)
class ToolFinished:
    """A tool call was executed and its reply is in the transcript. Texts are redacted.

    `reply_written` is False when the edge was lost before it could write (a worker died, a time limit): the
    core then appends a neutral reply itself.

    `diagnostic` is at most 4,096 code points and empty when there is nothing to search for; `excerpt` is the
    bounded result of a success. `tool_arguments` is what the call that left a diagnostic was called with, at most 1,024
    code points: its command line, else its JSON. `time_receipts` are the readings of the clock it returned.
    """

    at_ns: int
    started_ns: int
    call_id: str
    status: ToolStatus
    effect: Effect = "none"
    error_class: str = ""
    diagnostic: str = ""
    excerpt: str = ""
    reply_written: bool = True
    continue_suggested: bool = False
    tool_arguments: str = ""
    time_receipts: tuple[TimeReceipt, ...] = ()


@dataclass(frozen=True, slots=True)
class OperationFinished:
    """A background operation reached its real outcome. Fields as in ToolFinished; `note` says in a few words what no
    tool said (it was lost, its exit code): it is told, and never searched with."""

    at_ns: int
    operation_id: str
    status: ToolStatus
    effect: Effect = "none"
    error_class: str = ""
    diagnostic: str = ""
    excerpt: str = ""
    note: str = ""
    tool_arguments: str = ""


@dataclass(frozen=True, slots=True)
class ApprovalDecided:
    """A person allowed or refused a call, or nobody did in time."""

    at_ns: int
    call_id: str
    approved: bool
    by: str = ""
    note: str = ""
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class QuestionAnswered:
    """A person answered a question, or nobody did in time. `text` is at most 4,096 code points."""

    at_ns: int
    call_id: str
    text: str = ""
    by: str = ""
    timed_out: bool = False


@dataclass(frozen=True, slots=True)
class DelegateFinished:
    """A run that was delegated to ended; `status` is a word of contract.stages.RUN_STATUSES. Texts are redacted.

    `started` is False when there never was such a run; `reason` then says why.
    """

    at_ns: int
    call_id: str
    status: str
    answer: str = ""
    reason: str = ""
    started: bool = True


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
class RunBroken:
    """The runner came upon a defect and cannot go on. `error` is redacted."""

    at_ns: int
    error: str


@dataclass(frozen=True, slots=True)
class Resumed:
    """A new workflow run took over after continue-as-new."""

    at_ns: int


Observation = (
    RunPrepared | ModelReplied | ModelFailed | ToolFinished | OperationFinished | ApprovalDecided
    | QuestionAnswered | DelegateFinished | HintsArrived | CancelRequested | RunBroken | Resumed
)  # fmt: skip

# ---- commands: what to do --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PrepareRun:
    """Set up the work folder, start the MCP servers, list the tools."""

    spec: RunSpec


@dataclass(frozen=True, slots=True)
class CallModel:
    """Write `append` to the transcript, build the request from positions 0..`reply_seq`-1, call the model,
    write its reply at `reply_seq`. `event_id` is the id of the model.requested event of this request.

    A `finale` is the last request of a run: no tools are sent, and calls in its reply are dropped. (Seed 000.)
    """

    run_id: str
    turn: int
    append: tuple[Append, ...]
    reply_seq: int
    event_id: str
    agent: str
    script: str
    model: str
    finale: bool = False


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
    """Ask a person whether the call may run. `timeout_ms` 0 waits for as long as it takes."""

    run_id: str
    call_id: str
    tool: str
    excerpt: str
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class AskQuestion:
    """Put the model's question to a person; the turn waits for the answer. `timeout_ms` as for an approval."""

    run_id: str
    call_id: str
    question: str
    timeout_ms: int = 0


@dataclass(frozen=True, slots=True)
class StartOperation:
    """Execute the call found in the assistant message at `assistant_seq` in the background. Its outcome is reported by
    OperationFinished whenever it is there. `call_seq` is the position of the call's reply, which names the operation.
    """

    run_id: str
    operation_id: str
    call_id: str
    assistant_seq: int
    call_seq: int


@dataclass(frozen=True, slots=True)
class StopOperation:
    """Stop an operation whose run is over; nothing is reported back."""

    run_id: str
    operation_id: str


@dataclass(frozen=True, slots=True)
class StartDelegate:
    """Start a run of its own and report its end by DelegateFinished."""

    run_id: str
    call_id: str
    spec: RunSpec


@dataclass(frozen=True, slots=True)
class CloseTranscript:
    """Write what a run that ends had still to write; calls of the message at `assistant_seq` that have no reply get a
    neutral one, so that the history is a legal one."""

    run_id: str
    append: tuple[Append, ...]
    assistant_seq: int


@dataclass(frozen=True, slots=True)
class SuppressedItem:
    """A knowledge item that was offered and not injected, with the revision that was."""

    knowledge_id: str
    revision: int


@dataclass(frozen=True, slots=True)
class HintRequest:
    """What Observation is asked, already bounded and redacted: query 4,096 code points, tool_result 8,192,
    tool_arguments 1,024."""

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
    suppressed: tuple[SuppressedItem, ...] = ()
    limit: int = 8
    activation_tokens: int = 0
    run_tokens: int = 0
    hint_limit: int = 0
    tool_arguments: str = ""


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
class KeepAnswer:
    """Write what a run of a conversation said into the conversation's records, once. (Seed 002.)

    `seq` is the transcript position of the message whose text is the whole answer; None when `answer` is all there is.
    """

    run_id: str
    conversation: Conversation
    answer: str
    seq: int | None = None


@dataclass(frozen=True, slots=True)
class Finish:
    """The run is over: `status` is a word of contract.stages.RUN_STATUSES."""

    run_id: str
    status: str
    answer: str = ""
    reason: str = ""


Command = (
    PrepareRun | CallModel | RunTool | AskApproval | FetchHints | ContinueAsNew | Finish
    | SendEvents | CloseTranscript | AskQuestion | StartOperation | StopOperation | StartDelegate | KeepAnswer
)  # fmt: skip


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
class QuestionAnswer:
    """What a person sends to a run that asked. The text is in workflow history as it is sent: redact it before."""

    call_id: str
    text: str
    by: str = ""


@dataclass(frozen=True, slots=True)
class RunStatus:
    """Where a run stands: its phase, its turn, and what waits for a person."""

    run_id: str
    phase: str
    turn: int
    pending_approvals: tuple[AskApproval, ...] = ()
    pending_questions: tuple[AskQuestion, ...] = ()
