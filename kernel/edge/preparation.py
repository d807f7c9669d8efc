"""Prepares a run once: folders, setup, servers, catalogue, first messages. Its findings are kept.

A run of a conversation begins with that conversation's request; any other with its rules and its task.
"""

import json
from collections.abc import Callable
from dataclasses import asdict, replace
from datetime import datetime
from typing import Final

from contract.text import clip
from kernel.conversation.records import ConversationError, Record, read_time
from kernel.conversation.request import Request, Situation, compose
from kernel.core.codec import from_json
from kernel.edge.clean_text import clean
from kernel.edge.records import RecordStore
from kernel.edge.spec import spec_problem
from kernel.edge.transcript import TranscriptStore
from kernel.messages import Conversation, Message, PrepareRun, RunPrepared, RunSpec
from kernel.tools.catalogue import Catalogue
from kernel.tools.clock import utc_now
from kernel.tools.magic_brush import BRUSH, TIME_RULES
from kernel.tools.registry import PreparedTools, Toolbox

ERROR_LIMIT: Final = 1_000  # code points of why a server or the run cannot be used


async def prepare(
    store: TranscriptStore,
    records: RecordStore,
    toolbox: Toolbox,
    clock_ns: Callable[[], int],
    command: PrepareRun,
) -> RunPrepared:
    """Make the run ready and return what the core needs to know; repeated, return what the first time found."""
    spec = command.spec
    kept = await store.run_record(spec.run_id)
    if kept is None:
        problem = spec_problem(spec)
        tools = PreparedTools(Catalogue(()), error=problem) if problem else await toolbox.prepare(spec)
        catalogue = tools.catalogue.allowed(spec.grants, spec.namespaces_off).asking(spec.approval_tools)
        catalogue = catalogue.without_ask(spec.blocked_tools)
        rules = f"{spec.rules}\n\n{TIME_RULES}" if catalogue.find(BRUSH) else spec.rules
        request, error = await _begin(records, replace(spec, rules=rules), clock_ns, tools.error)
        if spec.conversation is not None:
            name = spec.conversation.conversation_id
            catalogue = replace(catalogue, conversation=name, speakers=request.speakers)
        for seq, message in enumerate(request.messages):
            await store.write(spec.run_id, seq, message)
        prepared = RunPrepared(
            at_ns=clock_ns(),
            tools=catalogue.specs(),
            failed_servers=tuple((key, safe(why, ERROR_LIMIT)) for key, why in tools.failed_servers),
            error=safe(error, ERROR_LIMIT),
            n_messages=len(request.messages),
            cut=request.cut,
        )
        found = {"prepared": asdict(prepared), "catalogue": catalogue.to_json()}
        kept = await store.save_run(spec.run_id, json.dumps(found))
    return from_json(RunPrepared, json.dumps(json.loads(kept)["prepared"]))


async def _begin(records: RecordStore, spec: RunSpec, clock_ns: Callable[[], int], error: str) -> tuple[Request, str]:
    """Return the first messages, and why the run cannot begin: `error`, or what is wrong with its conversation."""
    plain = Request((Message("system", spec.rules, "rules"), Message("user", spec.task, "task")))
    if error or spec.conversation is None:
        return plain, error
    try:
        return compose(await _situation(records, spec, spec.conversation, clock_ns)), ""
    except ConversationError as broken:
        return plain, f"conversation: {broken}"


async def _situation(records: RecordStore, spec: RunSpec, talk: Conversation, clock_ns: Callable[[], int]) -> Situation:
    """Write what was said into the records and return all that was known when it was written, the same each time."""
    moment = moment_of(talk, clock_ns)
    said = Record(utterance_id(spec.run_id), moment.isoformat(timespec="seconds"), talk.owner, spec.task)
    await records.add(talk.conversation_id, said)
    view = await records.view(talk.conversation_id, before=said.record_id)
    return Situation(
        rules=spec.rules,
        utterance=spec.task,
        now=moment,
        records=view.records,
        summary=view.summary,
        heard=view.heard,
        history_since=talk.history_since,
        owner=talk.owner,
        profile=talk.profile,
        mode=talk.mode,
        pending=talk.pending,
        running=talk.running,
        locale=spec.locale,
    )


def moment_of(talk: Conversation, clock_ns: Callable[[], int]) -> datetime:
    """Return when the run's utterance was said: as its spec has it, or now. Raises ConversationError."""
    return read_time(talk.said_at) if talk.said_at else utc_now(clock_ns)


def utterance_id(run_id: str) -> str:
    """Return the id of the record with what was said to a run."""
    return f"{run_id}:said"


def answer_id(run_id: str) -> str:
    """Return the id of the record with what a run answered."""
    return f"{run_id}:answer"


def safe(text: str, limit: int) -> str:
    """Return `text` redacted, then cut to `limit` code points."""
    return clip(clean(text), limit)
