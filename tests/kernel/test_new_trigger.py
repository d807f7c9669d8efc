"""A trigger of a new type is one new file and one line of the registry: shown on a copy of the kernel.

The type is not shipped: a technology named for the first time in what a tool said. (Seed 001 §5.3.)
"""

import json
import shutil
import subprocess
import sys
from pathlib import Path

from contract.events import check_data
from contract.stages import TRIGGERS

ROOT = Path(__file__).parents[2]
TRIGGER = '''
"""`entity.appeared`: a technology is named for the first time in what a tool said."""

import re
from collections.abc import Iterable

from kernel.core.situations import situation_of
from kernel.core.state import Candidate
from kernel.core.triggers.facts import Facts, Reason

KNOWN = re.compile("terraform|kubernetes")


class EntityAppeared:
    name = "entity.appeared"
    needs_text = True

    def reasons(self, facts: Facts) -> Iterable[Reason]:
        for place, happened in enumerate(facts.happened):
            for entity in KNOWN.findall(happened.excerpt) if happened.executed else ():
                yield Reason(
                    place,
                    Candidate(
                        trigger=self.name,
                        source_event_id=happened.event_id,
                        found_for=f"the first mention of {entity}",
                        tool=happened.tool,
                        tool_result=happened.excerpt,
                        situation=situation_of(self.name, entity, "", entity),
                    ),
                )
'''
REGISTRY_LINE = "RUNTIME_TRIGGERS: tuple[Trigger, ...] = (ToolFailed(), McpFirstCall(), EntityAppeared())"
RUN = """
import asyncio, json
from dataclasses import asdict, replace
from kernel.messages import RunSpec, Switches
from kernel.runtime.local import LocalRun
from kernel.testing import MemoryEdges, ScriptedModel, call, hint

async def main(off):
    model = ScriptedModel([call("read", n=1)], [call("read", n=2)], "done")
    edges = MemoryEdges(model, {"read": lambda n: "a terraform module"}, lambda request: [hint("k-1")])
    spec = RunSpec("r-1", "Look around", switches=Switches(off=("task.priming", *off)))
    await LocalRun(edges, clock_ns=edges.clock).run(spec)
    return {
        "asked": [[request.trigger, request.tool_result] for request in edges.hint_requests],
        "blocks": [m.text for m in model.requests[-1] if m.role == "context"],
        "roles": [m.role for m in model.requests[1]],
        "skips": edges.data_of("activation.skipped"),
        "events": [[event.type, json.loads(event.data)] for event in edges.events],
    }

print(json.dumps([asyncio.run(main(())), asyncio.run(main(("entity.appeared",)))]))
"""


def test_one_file_and_one_line_make_a_trigger(tmp_path: Path) -> None:
    """It is searched for, placed after the replies, told once a situation, reported, and switched off by its name."""
    for package in ("kernel", "contract"):
        shutil.copytree(ROOT / package, tmp_path / package, ignore=shutil.ignore_patterns("__pycache__"))
    triggers = tmp_path / "kernel" / "core" / "triggers"
    (triggers / "entity_appeared.py").write_text(TRIGGER)
    registry = (triggers / "__init__.py").read_text()
    old = next(line for line in registry.splitlines() if line.startswith("RUNTIME_TRIGGERS"))
    added = f"from kernel.core.triggers.entity_appeared import EntityAppeared\n{REGISTRY_LINE}"
    (triggers / "__init__.py").write_text(registry.replace(old, added))
    command = [sys.executable, "-c", RUN]
    made = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
    assert made.returncode == 0, made.stderr
    on, off = json.loads(made.stdout)
    assert on["asked"] == [["entity.appeared", "a terraform module"]]
    assert on["roles"] == ["system", "user", "assistant", "tool", "context"]
    assert len(on["blocks"]) == 1 and "found for the first mention of terraform" in on["blocks"][0]
    assert [skip["skip_reason"] for skip in on["skips"]] == ["duplicate_situation"]
    assert [check_data(kind, data) for kind, data in on["events"]] == [None] * len(on["events"])
    assert (off["asked"], {skip["skip_reason"] for skip in off["skips"]}) == ([], {"trigger_off"})
    assert "entity.appeared" not in TRIGGERS, "it is a test's trigger and is not shipped"
