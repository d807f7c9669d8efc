"""Prepares a run once: folders, setup, servers, catalogue, first messages. Its findings are kept."""

import json
from collections.abc import Callable
from dataclasses import asdict

from contract.redaction import redact
from contract.text import clip
from kernel.core.codec import from_json
from kernel.edge.transcript import TranscriptGap, TranscriptStore
from kernel.messages import Message, PrepareRun, RunPrepared
from kernel.tools.catalogue import Catalogue
from kernel.tools.registry import Toolbox

ERROR_LIMIT = 1_000  # code points of why a server or the run cannot be used


async def prepare(
    store: TranscriptStore, toolbox: Toolbox, clock_ns: Callable[[], int], command: PrepareRun
) -> RunPrepared:
    """Make the run ready and return what the core needs to know; repeated, return what the first time found."""
    spec = command.spec
    record = await store.run_record(spec.run_id)
    if record is None:
        tools = await toolbox.prepare(spec)
        await store.write(spec.run_id, 0, Message("system", spec.rules, "rules"))
        await store.write(spec.run_id, 1, Message("user", spec.task, "task"))
        prepared = RunPrepared(
            at_ns=clock_ns(),
            tools=tools.catalogue.specs(),
            failed_servers=tuple((key, safe(why, ERROR_LIMIT)) for key, why in tools.failed_servers),
            error=safe(tools.error, ERROR_LIMIT),
        )
        kept = {"prepared": asdict(prepared), "catalogue": tools.catalogue.to_json()}
        record = await store.save_run(spec.run_id, json.dumps(kept))
    return from_json(RunPrepared, json.dumps(json.loads(record)["prepared"]))


async def load_catalogue(store: TranscriptStore, run_id: str) -> Catalogue:
    """Return the tools of a prepared run. Raises TranscriptGap for a run that was not prepared."""
    record = await store.run_record(run_id)
    if record is None:
        raise TranscriptGap(f"run {run_id} was not prepared")
    return Catalogue.from_json(json.loads(record)["catalogue"])


def safe(text: str, limit: int) -> str:
    """Return `text` redacted, then cut to `limit` code points."""
    return clip(redact(text)[0], limit)
