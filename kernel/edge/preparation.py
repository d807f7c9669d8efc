"""Prepares a run once: folders, setup, servers, catalogue, first messages. Its findings are kept."""

import json
from collections.abc import Callable
from dataclasses import asdict

from contract.text import clip
from kernel.core.codec import from_json
from kernel.edge.clean_text import clean
from kernel.edge.spec import spec_problem
from kernel.edge.transcript import TranscriptStore
from kernel.messages import Message, PrepareRun, RunPrepared
from kernel.tools.catalogue import Catalogue
from kernel.tools.registry import PreparedTools, Toolbox

ERROR_LIMIT = 1_000  # code points of why a server or the run cannot be used


async def prepare(
    store: TranscriptStore, toolbox: Toolbox, clock_ns: Callable[[], int], command: PrepareRun
) -> RunPrepared:
    """Make the run ready and return what the core needs to know; repeated, return what the first time found."""
    spec = command.spec
    record = await store.run_record(spec.run_id)
    if record is None:
        problem = spec_problem(spec)
        tools = PreparedTools(Catalogue(()), error=problem) if problem else await toolbox.prepare(spec)
        catalogue = tools.catalogue.asking(spec.approval_tools)
        await store.write(spec.run_id, 0, Message("system", spec.rules, "rules"))
        await store.write(spec.run_id, 1, Message("user", spec.task, "task"))
        prepared = RunPrepared(
            at_ns=clock_ns(),
            tools=catalogue.specs(),
            failed_servers=tuple((key, safe(why, ERROR_LIMIT)) for key, why in tools.failed_servers),
            error=safe(tools.error, ERROR_LIMIT),
        )
        kept = {"prepared": asdict(prepared), "catalogue": catalogue.to_json()}
        record = await store.save_run(spec.run_id, json.dumps(kept))
    return from_json(RunPrepared, json.dumps(json.loads(record)["prepared"]))


def safe(text: str, limit: int) -> str:
    """Return `text` redacted, then cut to `limit` code points."""
    return clip(clean(text), limit)
