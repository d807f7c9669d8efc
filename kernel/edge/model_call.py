"""One model call: the request is built from the transcript, checked, sent, and the reply written once.

The core is told what it decides by: digests, short excerpts, counts. Texts stay in the transcript.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from typing import Final

from contract.redaction import redact_value
from contract.text import clip, estimate_tokens
from kernel.core.codec import from_json, to_json
from kernel.core.history import ProtocolViolation, check_history
from kernel.drivers import Driver, DriverReply, ModelRequest, ToolOffer
from kernel.drivers.rendering import message_hash
from kernel.edge.preparation import load_catalogue, safe
from kernel.edge.retry import ModelError
from kernel.edge.transcript import TranscriptStore, append_all
from kernel.messages import (
    CallModel,
    CallSeen,
    Message,
    ModelAnswer,
    ModelFailed,
    ModelReplied,
    SentMessage,
    ToolCall,
)
from kernel.tools.catalogue import Catalogue, arguments_problem

MAX_CALLS: Final = 32  # in one reply
ID_LIMIT: Final = 120  # code points of a call id or tool name
TEXT_LIMIT: Final = 4_096  # code points of the reply's text that leave the transcript
EXCERPT_LIMIT: Final = 500  # code points of a call's arguments that leave the transcript
ARGUMENTS_LIMIT: Final = 4_096  # code points of the arguments of a call that the core answers itself
ANSWERED_BY_CORE: Final = ("await_operation", "ask_human", "plan", "delegate")  # kinds whose arguments the core reads
ERROR_LIMIT: Final = 1_000
# Failures found before anything was sent: what stood in that request reached nobody and is not reported as injected.
NEVER_SENT: Final = ("unknown_agent", "model_not_named", "script_invalid")


async def call_model(
    store: TranscriptStore, drivers: Mapping[str, Driver], clock_ns: Callable[[], int], command: CallModel
) -> ModelAnswer:
    """Return the reply, which stands at `reply_seq`; when it stood there before, the model is not asked again.

    Raises ModelError only when another attempt is worth it; `failed_answer` makes an answer of it.
    """
    written = await store.entry(command.run_id, command.reply_seq)
    if written is not None:
        return from_json(ModelAnswer, written.outcome)
    await append_all(store, command.run_id, command.append)
    messages = await store.read(command.run_id, command.reply_seq)
    catalogue = await load_catalogue(store, command.run_id)
    requested_ns = clock_ns()
    try:
        check_history(messages)
        reply = checked(await _driver(drivers, command.agent).reply(_request(command, messages, catalogue)), messages)
    except ProtocolViolation as error:
        failure = ModelError("protocol_violation", str(error))
        return failed_answer(failure, requested_ns, clock_ns(), ())
    except ModelError as error:
        if error.retryable:
            raise
        sent = () if error.error_class in NEVER_SENT else sent_context(messages)
        return failed_answer(error, requested_ns, clock_ns(), sent)
    answer = ModelAnswer(replied=_replied(requested_ns, clock_ns(), messages, catalogue, reply))
    message = Message("assistant", reply.text, "model", reply.calls)
    written = await store.write(command.run_id, command.reply_seq, message, to_json(answer))
    return from_json(ModelAnswer, written.outcome)


def failed_answer(error: ModelError, requested_ns: int, at_ns: int, sent: tuple[SentMessage, ...]) -> ModelAnswer:
    """Return the answer of a request that failed for good."""
    detail = safe(str(error), ERROR_LIMIT)
    return ModelAnswer(failed=ModelFailed(at_ns, requested_ns, error.error_class, detail, sent))


async def last_failure(
    store: TranscriptStore, clock_ns: Callable[[], int], command: CallModel, error: ModelError
) -> ModelAnswer:
    """Return the answer of a request whose last attempt failed with `error`, with what stood in it."""
    messages = await store.read(command.run_id, command.reply_seq)
    now = clock_ns()
    return failed_answer(error, now, now, sent_context(messages))


def sent_context(messages: Sequence[Message]) -> tuple[SentMessage, ...]:
    """Return where the context messages stand in the request, and the hash of each as sent."""
    return tuple(
        SentMessage(seq, seq, message_hash(message))
        for seq, message in enumerate(messages)
        if message.role == "context"
    )


def checked(reply: DriverReply, messages: Sequence[Message]) -> DriverReply:
    """Return the reply with call ids that are short and unique in the run. Raises ModelError for too many calls."""
    if len(reply.calls) > MAX_CALLS:
        raise ModelError(
            "model_invalid_answer", f"{len(reply.calls)} tool calls in one reply; the limit is {MAX_CALLS}"
        )
    used = {call.call_id for message in messages for call in message.calls}
    calls: list[ToolCall] = []
    for index, call in enumerate(reply.calls):
        call_id = call.call_id[:ID_LIMIT]
        if not call_id or call_id in used:
            call_id = f"{call_id[:80] or 'call'}-{len(messages)}-{index}"
        used.add(call_id)
        calls.append(ToolCall(call_id, call.name[:ID_LIMIT], call.arguments))
    return DriverReply(reply.text, tuple(calls), reply.model, reply.input_tokens, reply.output_tokens)


def see(call: ToolCall, catalogue: Catalogue) -> CallSeen:
    """Return what the core sees of a call; arguments that mean the same have the same digest."""
    entry = catalogue.find(call.name)
    problem = arguments_problem(call.arguments, entry.schema if entry else {})
    try:
        meaning = json.dumps(json.loads(call.arguments or "{}"), sort_keys=True)
    except (ValueError, RecursionError):
        meaning = call.arguments
    digest = hashlib.sha256(json.dumps([call.name, meaning]).encode()).hexdigest()
    excerpt = safe(call.arguments, EXCERPT_LIMIT)
    arguments = ""
    if entry is not None and entry.kind in ANSWERED_BY_CORE and not problem:
        arguments = json.dumps(redact_value(json.loads(call.arguments or "{}"))[0], ensure_ascii=False)
        if len(arguments) > ARGUMENTS_LIMIT:
            problem = f"they have {len(arguments)} characters; the limit for {call.name} is {ARGUMENTS_LIMIT}"
            arguments = ""
    return CallSeen(call.call_id, call.name, digest, excerpt, safe(problem, EXCERPT_LIMIT), arguments)


def _driver(drivers: Mapping[str, Driver], agent: str) -> Driver:
    driver = drivers.get(agent)
    if driver is None:
        raise ModelError("unknown_agent", f"no agent named {agent!r}; there are: {', '.join(sorted(drivers))}")
    return driver


def _request(command: CallModel, messages: tuple[Message, ...], catalogue: Catalogue) -> ModelRequest:
    tools = tuple(ToolOffer(tool.name, tool.description, tool.schema) for tool in catalogue.tools)
    return ModelRequest(command.run_id, command.turn, messages, tools, command.script, command.model)


def _replied(
    requested_ns: int, at_ns: int, messages: Sequence[Message], catalogue: Catalogue, reply: DriverReply
) -> ModelReplied:
    return ModelReplied(
        at_ns=at_ns,
        requested_ns=requested_ns,
        calls=tuple(see(call, catalogue) for call in reply.calls),
        text=safe(reply.text, TEXT_LIMIT),
        n_messages=len(messages),
        request_tokens=sum(message_tokens(message) for message in messages),
        sent_context=sent_context(messages),
        model=clip(reply.model, ID_LIMIT),
        input_tokens=reply.input_tokens,
        output_tokens=reply.output_tokens,
    )


def message_tokens(message: Message) -> int:
    """Return the estimated tokens of one message, its calls included."""
    return estimate_tokens(message.text) + sum(estimate_tokens(call.name + call.arguments) for call in message.calls)
