"""One model call: the request is built from the transcript, checked, sent, and the reply written once.

The core is told what it decides by: digests, short excerpts, counts. Texts stay in the transcript.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import count, repeat
from json.encoder import encode_basestring_ascii as quoted
from typing import Final

from contract.redaction import redact_value
from contract.text import clip
from kernel.conversation.labels import answer_text
from kernel.core.bounds import bounded_metadata
from kernel.core.codec import from_json
from kernel.core.history import ProtocolViolation
from kernel.drivers import Driver, DriverReply, ModelRequest
from kernel.drivers.decisions import MOST, check_declared, check_shape, token_count
from kernel.drivers.outcomes import words_of
from kernel.edge.clean_text import clean
from kernel.edge.histories import Histories, History
from kernel.edge.preparation import safe
from kernel.edge.retry import ModelError
from kernel.edge.transcript import Entry, append_all, outcome_text
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
from kernel.tools.catalogue import NOT_IN_NAMES, Catalogue, arguments_problem

MAX_CALLS: Final = 32  # in one reply
ID_LIMIT: Final = 120  # code points of a call id or tool name
TEXT_LIMIT: Final = 4_096  # code points of the reply's text that leave the transcript
EXCERPT_LIMIT: Final = 500  # code points of a call's arguments that leave the transcript
ARGUMENTS_LIMIT: Final = 4_096  # code points of the arguments of a call that the core answers itself
ANSWERED_BY_CORE: Final = ("await_operation", "ask_human", "plan", "delegate")  # kinds whose arguments the core reads
ERROR_LIMIT: Final = 1_000
REASON_LIMIT: Final = 512  # code points of why a person is asked
_sorted_json: Final = json.JSONEncoder(sort_keys=True).encode
# Failures found before anything was sent: what stood in that request reached nobody and is not reported as injected.
NEVER_SENT: Final = ("protocol_violation", "unknown_agent", "model_not_named", "script_invalid")


async def call_model(
    store: Histories, drivers: Mapping[str, Driver], clock_ns: Callable[[], int], command: CallModel
) -> ModelAnswer:
    """Return the reply, which stands at `reply_seq`; when it stood there before, the model is not asked again.

    Raises ModelError only when another attempt is worth it; `failed_answer` makes an answer of it.
    """
    written = await store.entry(command.run_id, command.reply_seq)
    if written is not None:
        return _kept(written, clock_ns)
    await append_all(store, command.run_id, command.append)
    history = await store.history(command.run_id, command.reply_seq)
    tools = await store.tools(command.run_id)
    # Neither tools nor anything that speaks of tools goes with the last request: some providers refuse it.
    offers = () if command.finale else tools.offers
    request = ModelRequest(command.run_id, command.turn, history, offers, command.script, command.model, command.finale)
    requested_ns = clock_ns()
    try:
        history.check()
        said = _without_labels(await _ask(_driver(drivers, command.agent), request), tools.catalogue)
        reply = checked(said, history, request)
    except ProtocolViolation as error:
        failure = ModelError("protocol_violation", str(error))
        return failed_answer(failure, requested_ns, clock_ns(), ())
    except ModelError as error:
        if error.retryable:
            raise
        sent = () if error.error_class in NEVER_SENT else history.sent_context(added_from(command))
        return failed_answer(error, requested_ns, clock_ns(), sent)
    n_dropped = len(reply.calls) if command.finale else 0
    reply = _without_calls(reply) if command.finale else reply
    replied = _replied(command, requested_ns, clock_ns(), history, tools.catalogue, reply, n_dropped)
    answer = ModelAnswer(replied=replied)
    message = Message("assistant", reply.text or reply.failed, "finale" if command.finale else "model", reply.calls)
    outcome = outcome_text(answer)
    written = await store.write(command.run_id, command.reply_seq, message, outcome)
    return answer if written.outcome == outcome else _kept(written, clock_ns)


async def _ask(driver: Driver, request: ModelRequest) -> DriverReply:
    """Ask the driver. Raises ModelError, also for what a driver raises that is none, and for what is no reply.

    A cancellation that nobody asked for is the driver's own making.
    """
    try:
        reply = await driver.reply(request)
        check_shape(reply)
        return reply
    except (ModelError, ProtocolViolation, KeyboardInterrupt, GeneratorExit):
        raise
    except BaseException as error:  # noqa: BLE001 - a driver is anybody's code, and its defect ends its run alone
        task = asyncio.current_task()
        if isinstance(error, asyncio.CancelledError) and task is not None and task.cancelling():
            raise
        raise ModelError("driver_failed", f"{type(error).__name__}: {words_of(error)}") from None


def _without_labels(reply: DriverReply, catalogue: Catalogue) -> DriverReply:
    """Return the reply in a conversation as its text alone: nothing reads it before that, nor is it kept otherwise."""
    return replace(reply, text=answer_text(reply.text, catalogue.speakers)) if catalogue.conversation else reply


def _without_calls(reply: DriverReply) -> DriverReply:
    """Return a last reply without its calls, which nobody executes and nobody is told of but in a number."""
    return replace(reply, calls=(), steps=(), escalation=None, failed="", metadata={})


def _kept(written: Entry, clock_ns: Callable[[], int]) -> ModelAnswer:
    """Return the answer that stands in the transcript; where the run was closed meanwhile there is none."""
    if written.outcome:
        return from_json(ModelAnswer, written.outcome)
    now = clock_ns()
    return failed_answer(ModelError("run_ended", "the run ended before the model answered"), now, now, ())


def failed_answer(error: ModelError, requested_ns: int, at_ns: int, sent: tuple[SentMessage, ...]) -> ModelAnswer:
    """Return the answer of a request that failed for good."""
    detail = safe(str(error), ERROR_LIMIT)
    was_sent = error.error_class not in NEVER_SENT
    failed = ModelFailed(at_ns, requested_ns, error.error_class, detail, sent, was_sent, error.source)
    return ModelAnswer(failed=failed)


async def last_failure(
    store: Histories, clock_ns: Callable[[], int], command: CallModel, error: ModelError
) -> ModelAnswer:
    """Return the answer of a request whose last attempt failed with `error`, with what stood in it."""
    history = await store.history(command.run_id, command.reply_seq)
    now = clock_ns()
    return failed_answer(error, now, now, history.sent_context(added_from(command)))


def added_from(command: CallModel) -> int:
    """Return the position of the first message that is new in this request; what stood before was told before."""
    return min([append.seq for append in command.append], default=command.reply_seq)


def checked(reply: DriverReply, history: History, request: ModelRequest) -> DriverReply:
    """Return the reply with call ids that are short and unique in the run.

    Raises ModelError for too many calls, for no answer, and for what a driver may not declare. A last reply may be
    empty: the run has an answer of its own then.
    """
    check_declared(reply, request.turn - 1)
    if request.finale:
        return reply
    if len(reply.calls) > MAX_CALLS:
        raise ModelError(
            "model_invalid_answer", f"{len(reply.calls)} tool calls in one reply; the limit is {MAX_CALLS}"
        )
    if not (reply.text.strip() or reply.calls or reply.failed):
        raise ModelError("model_empty_answer", "the model said nothing and called nothing", retryable=True)
    given = [_plain(call.call_id) for call in reply.calls]
    used: list[str] = []
    calls: list[ToolCall] = []
    for index, call in enumerate(reply.calls):
        call_id = given[index]
        if not call_id or call_id in used or history.uses(call_id):
            call_id = _free_id(call_id, len(history), (*given, *used), history)
        used.append(call_id)
        calls.append(ToolCall(call_id, _plain(call.name), call.arguments))
    return replace(reply, calls=tuple(calls))


def _plain(name: str) -> str:
    """Return a name as it may be written down everywhere: short, of whole characters, and with no secret in it."""
    given = name[: 8 * ID_LIMIT]
    plain = clean(given).encode("utf-8", "replace").decode()
    return (given if plain == given else NOT_IN_NAMES.sub("_", plain))[:ID_LIMIT]


def _free_id(wanted: str, place: int, taken: Sequence[str], history: History) -> str:
    """Return an id that no call of this reply and of the run so far has."""
    names = (f"{wanted[:80] or 'call'}-{place}-{number}" for number in count())
    return next(name for name in names if name not in taken and not history.uses(name))


def see(call: ToolCall, catalogue: Catalogue, step: int | None = None, escalates: str = "") -> CallSeen:
    """Return what the core sees of a call; arguments that mean the same, at the same claimed step, have the same
    digest."""
    entry = catalogue.find(call.name)
    problem = arguments_problem(call.arguments, entry.schema if entry else {})
    try:
        meaning = _sorted_json(json.loads(call.arguments or "{}"))
    except (ValueError, RecursionError):
        meaning = call.arguments
    claim = "" if step is None else f", {step}"
    digest = hashlib.sha256(f"[{quoted(call.name)}, {quoted(meaning)}{claim}]".encode()).hexdigest()
    excerpt = safe(call.arguments, ARGUMENTS_LIMIT if entry is not None and entry.asks else EXCERPT_LIMIT)
    arguments = ""
    if entry is not None and entry.kind in ANSWERED_BY_CORE and not problem:
        arguments = json.dumps(redact_value(json.loads(call.arguments or "{}"))[0], ensure_ascii=False)
        if len(arguments) > ARGUMENTS_LIMIT:
            problem = f"they have {len(arguments)} characters; the limit for {call.name} is {ARGUMENTS_LIMIT}"
            arguments = ""
    shown = safe(problem, EXCERPT_LIMIT)
    return CallSeen(call.call_id, call.name, digest, excerpt, shown, arguments, step, safe(escalates, REASON_LIMIT))


def _driver(drivers: Mapping[str, Driver], agent: str) -> Driver:
    driver = drivers.get(agent)
    if driver is None:
        raise ModelError("unknown_agent", f"no agent named {agent!r}; there are: {', '.join(sorted(drivers))}")
    return driver


def _replied(
    command: CallModel,
    requested_ns: int,
    at_ns: int,
    history: History,
    catalogue: Catalogue,
    reply: DriverReply,
    n_dropped: int,
) -> ModelReplied:
    return ModelReplied(
        at_ns=at_ns,
        requested_ns=requested_ns,
        calls=_seen(reply, catalogue),
        text=safe(reply.text, TEXT_LIMIT),
        n_messages=len(history),
        request_tokens=history.tokens,
        sent_context=history.sent_context(added_from(command)),
        model=clip(reply.model, ID_LIMIT),
        input_tokens=token_count(reply.input_tokens),
        output_tokens=token_count(reply.output_tokens),
        finish_reason=clip(reply.finish_reason, ID_LIMIT),
        failed=safe(reply.failed, ERROR_LIMIT),
        metadata=_metadata(reply) if reply.metadata else "",
        n_dropped=n_dropped,
    )


def _metadata(reply: DriverReply) -> str:
    """Return what goes with an ending as JSON; of one that is too large only its size, as it would stay in workflow
    history for good."""
    return bounded_metadata(json.dumps(redact_value(reply.metadata)[0]))


def _seen(reply: DriverReply, catalogue: Catalogue) -> tuple[CallSeen, ...]:
    """Return what the core sees of a reply's calls, with what the driver declares about them."""
    steps: Sequence[int | None] = (None,) * len(reply.calls)
    if reply.steps:
        steps = [None if step is None else min(step, MOST) for step in reply.steps]
    reasons = [""] * len(reply.calls)
    if reply.escalation is not None:
        reasons[reply.escalation.call] = reply.escalation.reason
    return tuple(map(see, reply.calls, repeat(catalogue), steps, reasons))
