"""One tool call: executed at most once, its reply written once, and everything that leaves it redacted here.

What an activity returns is in workflow history the moment it returns, so redaction cannot come later; the
model reads the redacted text as well. (Seed 001 §7.3.)
"""

import json
from collections.abc import Callable
from dataclasses import replace
from typing import Final

from contract.text import clip
from kernel.core.codec import from_json
from kernel.core.settling import CHECK_FIRST
from kernel.edge.called_with import called_with
from kernel.edge.clean_text import clean
from kernel.edge.histories import Histories
from kernel.edge.transcript import TranscriptGap, append_all, outcome_text
from kernel.messages import CloseTranscript, Message, OperationFinished, RunTool, StartOperation, ToolFinished
from kernel.tools.catalogue import Catalogue, ToolEntry, ToolResult
from kernel.tools.registry import Toolbox

REPLY_LIMIT: Final = 16_000  # code points of a reply
DIAGNOSTIC_LIMIT: Final = 4_096  # code points
CUT: Final = "\n… [{n} characters left out] …\n"
NOT_STARTED: Final = "[The run ended before this call was started. Nothing was executed.]"
UNANSWERED: Final = Message("assistant", "[The run ended before the model answered.]", "finale")
INTERRUPTED: Final = ToolResult(
    "timed_out", "uncertain", error_class="interrupted", note="an earlier attempt was interrupted"
)


async def run_tool(store: Histories, toolbox: Toolbox, clock_ns: Callable[[], int], command: RunTool) -> ToolFinished:
    """Execute the call and return its outcome; when its reply stands there already, return that outcome.

    A call that may have an effect is not executed again after an attempt that left no reply.
    Raises TranscriptGap when the transcript does not hold the call.
    """
    written = await store.entry(command.run_id, command.reply_seq)
    if written is not None and written.outcome:
        return from_json(ToolFinished, written.outcome)
    arguments, entry, catalogue = await _find(store, command)
    started_ns = clock_ns()
    if await store.begin_call(command.run_id, command.reply_seq) or not entry.effectful:
        result = await toolbox.run(command.run_id, catalogue, entry, arguments)
    else:
        result = INTERRUPTED
    result = redacted(result)
    finished = ToolFinished(
        at_ns=clock_ns(),
        started_ns=started_ns,
        call_id=command.call_id,
        status=result.status,
        effect=result.effect,
        error_class=clip(result.error_class, 200),
        diagnostic=cut_middle(result.diagnostic, DIAGNOSTIC_LIMIT),
        excerpt=clip(result.output, command.excerpt_limit),
        tool_arguments=called_with(arguments, result),
        time_receipts=result.time_receipts,
    )
    reply = Message(
        "tool", reply_text(result), "tool", call_id=command.call_id, status=result.status, code=finished.error_class
    )
    outcome = outcome_text(finished)
    written = await store.write(command.run_id, command.reply_seq, reply, outcome)
    if written.outcome in ("", outcome):
        return finished
    return from_json(ToolFinished, written.outcome)


async def run_operation(
    store: Histories, toolbox: Toolbox, clock_ns: Callable[[], int], command: StartOperation
) -> OperationFinished:
    """Execute a call in the background and return its outcome; its reply stands in the transcript already.

    It is not executed again after an attempt that was interrupted. Raises TranscriptGap when the call is not there.
    """
    arguments, entry, catalogue = await _find(store, command)
    if await store.begin_call(command.run_id, command.call_seq):
        result = redacted(await toolbox.run(command.run_id, catalogue, entry, arguments))
    else:
        result = INTERRUPTED
    return OperationFinished(
        at_ns=clock_ns(),
        operation_id=command.operation_id,
        status=result.status,
        effect=result.effect,
        error_class=clip(result.error_class, 200),
        diagnostic=cut_middle(result.diagnostic, DIAGNOSTIC_LIMIT),
        note=result.note,
        excerpt=cut_middle(result.output, DIAGNOSTIC_LIMIT),
        tool_arguments=called_with(arguments, result),
    )


async def close_transcript(store: Histories, command: CloseTranscript) -> None:
    """Write what an ended run had still to write and answer what it left open: calls of the last reply of the model
    were not started when the core does not know of them. A reply that is not there yet has come too late."""
    await append_all(store, command.run_id, command.append)
    assistant = await store.write(command.run_id, command.assistant_seq, UNANSWERED)
    for number, call in enumerate(assistant.message.calls, 1):
        reply = Message("tool", NOT_STARTED, "refusal", call_id=call.call_id, status="cancelled", code="run_ended")
        await store.write(command.run_id, command.assistant_seq + number, reply)


async def _find(store: Histories, command: RunTool | StartOperation) -> tuple[dict[str, object], ToolEntry, Catalogue]:
    """Return the call's arguments, its tool and the catalogue."""
    assistant = await store.message(command.run_id, command.assistant_seq)
    calls = assistant.calls if assistant is not None else ()
    call = next((call for call in calls if call.call_id == command.call_id), None)
    catalogue = (await store.tools(command.run_id)).catalogue
    entry = catalogue.find(call.name) if call is not None else None
    if call is None or entry is None:
        raise TranscriptGap(f"run {command.run_id}: no executable call {command.call_id!r} at {command.assistant_seq}")
    return json.loads(call.arguments or "{}"), entry, catalogue


def redacted(result: ToolResult) -> ToolResult:
    """Return the result with every text redacted."""
    texts = (result.output, result.diagnostic, result.error_class, result.note)
    output, diagnostic, error_class, note = [clean(text) for text in texts]
    return replace(result, output=output, diagnostic=diagnostic, error_class=error_class, note=note)


def reply_text(result: ToolResult) -> str:
    """Return the reply the model reads: the output; of a failure first how it failed, its diagnostic, its effect."""
    if result.status == "ok":
        text = cut_middle(result.output, REPLY_LIMIT) or "(no output)"
        return f"{text}\n[{result.note}]" if result.note else text
    how = f"{result.error_class}: {result.note}" if result.note else result.error_class
    lines = [f"[{result.status}: {how}]", cut_middle(result.diagnostic, DIAGNOSTIC_LIMIT)]
    if result.effect == "uncertain":
        lines.append(f"[effect: uncertain] {CHECK_FIRST}")
    else:
        lines.append(f"[effect: {result.effect}]")
    lines.append(cut_middle(result.output, REPLY_LIMIT))
    return "\n".join(line for line in lines if line)


def cut_middle(text: str, limit: int) -> str:
    """Return `text` within `limit` code points: the beginning and, as errors end with what matters, more of the end."""
    if len(text) <= limit:
        return text
    room = limit - len(CUT.format(n=len(text)))
    head = room // 4
    tail = room - head
    return text[:head] + CUT.format(n=len(text) - room) + text[-tail:]
