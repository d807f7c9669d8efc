"""For tests and benchmarks of runs: a model with prepared replies, tools that are functions, everything in memory.

`MemoryEdges` keeps the protocol the real edges keep: it validates every request, writes a position once, and
never lets telemetry or knowledge fail the run.
"""

import hashlib
import itertools
import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from contract.redaction import redact
from contract.text import clip, estimate_tokens
from kernel.core.history import check_history
from kernel.drivers.rendering import message_hash
from kernel.messages import (
    CallModel,
    CallSeen,
    Effect,
    Event,
    FetchHints,
    Hint,
    HintAnswer,
    HintRequest,
    HintsArrived,
    Message,
    ModelAnswer,
    ModelFailed,
    ModelReplied,
    PrepareRun,
    RunPrepared,
    RunTool,
    SendEvents,
    SentMessage,
    ToolCall,
    ToolFinished,
    ToolSpec,
    ToolStatus,
)

EXCERPT = 500
DIAGNOSTIC = 4_096
Tool = Callable[..., Any]
FindHints = Callable[[HintRequest], Sequence[Hint]]


class ToolError(Exception):
    """Raised by a test's tool to fail with a class and a diagnostic."""

    def __init__(
        self, detail: str, error_class: str = "error", effect: Effect = "none", status: ToolStatus = "failed"
    ) -> None:
        super().__init__(detail)
        self.error_class = error_class
        self.effect = effect
        self.status = status


@dataclass(frozen=True, slots=True)
class Later:
    """Returned by a test's tool that goes on in the background."""

    operation_id: str


def call(name: str, call_id: str = "", **arguments: Any) -> ToolCall:
    """Return a call as a model would write it; without `call_id` the model numbers it."""
    return ToolCall(call_id, name, json.dumps(arguments, sort_keys=True))


class ScriptedModel:
    """Gives the prepared replies in order: a text, a list of calls, or an exception; records every request."""

    def __init__(self, *replies: str | list[ToolCall] | Exception) -> None:
        self._replies = list(replies)
        self._ids = itertools.count(1)
        self.requests: list[tuple[Message, ...]] = []

    def reply(self, messages: Sequence[Message], seq: int) -> Message:
        self.requests.append(tuple(messages))
        given = self._replies.pop(0) if self._replies else "done"
        if isinstance(given, Exception):
            raise given
        if isinstance(given, str):
            return Message("assistant", given, "model")
        calls = tuple(replace(one, call_id=one.call_id or f"c{next(self._ids)}") for one in given)
        return Message("assistant", "", "model", calls)


@dataclass
class MemoryEdges:
    """The world of a test run: tools by name (`server.tool` belongs to that MCP server), hints by function."""

    model: ScriptedModel
    tools: dict[str, Tool] = field(default_factory=dict)
    find_hints: FindHints | None = None
    servers: dict[str, str] = field(default_factory=dict)
    transcript: dict[int, Message] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    hint_requests: list[HintRequest] = field(default_factory=list)
    commands: list[Any] = field(default_factory=list)
    executed: list[tuple[str, dict[str, Any]]] = field(default_factory=list)
    now_ns: int = 1_800_000_000_000_000_000

    def clock(self) -> int:
        """Return a time that moves a millisecond at each look."""
        self.now_ns += 1_000_000
        return self.now_ns

    def write(self, seq: int, message: Message) -> Message:
        return self.transcript.setdefault(seq, message)

    async def prepare_run(self, command: PrepareRun) -> RunPrepared:
        self.commands.append(command)
        self.write(0, Message("system", command.spec.rules, "rules"))
        self.write(1, Message("user", command.spec.task, "task"))
        return RunPrepared(self.clock(), tuple(ToolSpec(name, self.servers.get(name)) for name in self.tools))

    async def call_model(self, command: CallModel) -> ModelAnswer:
        self.commands.append(command)
        for append in command.append:
            message = append.message
            if append.copy_of is not None:
                message = replace(message, text=self.transcript[append.copy_of].text)
            self.write(append.seq, message)
        messages = [self.transcript[seq] for seq in range(command.reply_seq)]
        check_history(messages)
        requested = self.clock()
        sent = tuple(
            SentMessage(seq, seq, message_hash(message))
            for seq, message in enumerate(messages)
            if message.role == "context"
        )
        try:
            reply = self.model.reply(messages, command.reply_seq)
        except Exception as error:  # noqa: BLE001 - a prepared failure of the model
            return ModelAnswer(failed=ModelFailed(self.clock(), requested, type(error).__name__, str(error), sent))
        self.write(command.reply_seq, reply)
        replied = ModelReplied(
            self.clock(),
            requested,
            calls=tuple(seen(one) for one in reply.calls),
            text=reply.text,
            n_messages=len(messages),
            request_tokens=sum(estimate_tokens(message.text) for message in messages),
            sent_context=sent,
        )
        return ModelAnswer(replied=replied)

    async def run_tool(self, command: RunTool) -> ToolFinished:
        self.commands.append(command)
        assistant = self.transcript[command.assistant_seq]
        asked = next(one for one in assistant.calls if one.call_id == command.call_id)
        arguments = json.loads(asked.arguments)
        self.executed.append((asked.name, arguments))
        started = self.clock()
        base = ToolFinished(0, started, command.call_id, "ok", "applied")
        try:
            result = self.tools[asked.name](**arguments)
        except ToolError as error:
            text = redact(str(error))[0]
            base = replace(
                base,
                status=error.status,
                effect=error.effect,
                error_class=error.error_class,
                diagnostic=clip(text, DIAGNOSTIC),
            )
        else:
            text = redact(str(result))[0] if not isinstance(result, Later) else f"started {result.operation_id}"
            base = replace(base, excerpt=clip(text, command.excerpt_limit))
            if isinstance(result, Later):
                base = replace(base, operation_id=result.operation_id)
        reply = Message("tool", text, "tool", call_id=command.call_id)
        self.write(command.reply_seq, reply)
        return replace(base, at_ns=self.clock())

    async def fetch_hints(self, command: FetchHints) -> HintsArrived:
        self.commands.append(command)
        self.hint_requests.extend(command.requests)
        requested = self.clock()
        offered: list[str] = []
        answers = []
        for request in command.requests:
            known = {*request.issued_knowledge_ids, *request.suppressed_knowledge_ids, *offered}
            hints = [hint for hint in (self.find_hints or no_hints)(request) if hint.knowledge_id not in known]
            offered += [hint.knowledge_id for hint in hints]
            named = tuple(replace(hint, hint_id=f"{request.activation_id}:h{n}") for n, hint in enumerate(hints, 1))
            result = "success" if named else "empty"
            answers.append(HintAnswer(request.activation_id, result, named, len(named), "test"))
        return HintsArrived(self.clock(), requested, tuple(answers))

    async def send_events(self, command: SendEvents) -> None:
        self.commands.append(command)
        self.events.extend(command.events)

    def event_types(self) -> list[str]:
        """Return the types of the events sent, in order."""
        return [event.type for event in self.events]

    def data_of(self, event_type: str) -> list[dict[str, Any]]:
        """Return the data of every event of one type, in order."""
        return [json.loads(event.data) for event in self.events if event.type == event_type]


def no_hints(request: HintRequest) -> Sequence[Hint]:
    return ()


def seen(asked: ToolCall) -> CallSeen:
    """Return what the core sees of a call: a digest, an excerpt, whether its arguments can be read."""
    malformed = ""
    try:
        if not isinstance(json.loads(asked.arguments), dict):
            malformed = "the arguments are no JSON object"
    except ValueError as error:
        malformed = f"the arguments are no valid JSON ({error})"
    digest = hashlib.sha256(f"{asked.name}\x1f{asked.arguments}".encode()).hexdigest()
    return CallSeen(asked.call_id, asked.name, digest, clip(redact(asked.arguments)[0], EXCERPT), malformed)


def hint(knowledge_id: str, proposition: str = "", **fields: Any) -> Hint:
    """Return an offered hint; its hint_id is given by the edge."""
    text = proposition or f"rule of {knowledge_id}: run `{knowledge_id}`"
    return Hint("", knowledge_id, fields.pop("revision", 1), text, fields.pop("state", "confirmed"), **fields)
