"""Prints every command of every scenario as JSON lines, to be kept in `golden/commands.jsonl`.

Run as `python -m tests.kernel.command_log > tests/kernel/golden/commands.jsonl`. Replay of a recorded history is
blind to changed arguments of activities; this record is not. Write it again when a change of what commands carry
is meant, and read the difference. Times are counted, not read, so runs are equal.
"""

import asyncio
import json
import sys
from dataclasses import replace

from kernel.core.codec import to_json
from kernel.messages import Switches
from kernel.runtime.local import LocalRun
from tests.kernel.test_scenarios import SCENARIOS, Scenario


async def lines_of(scenario: Scenario) -> list[str]:
    """Return the commands of one run, primed and continued anew at each second turn, in the order given."""
    limits = replace(scenario.spec.limits, turns_per_workflow=2)
    spec = replace(scenario.spec, limits=limits, switches=Switches())
    edges = scenario.edges()
    await LocalRun(edges, clock_ns=edges.clock).run(spec)
    return [
        json.dumps([scenario.name, type(command).__name__, json.loads(to_json(command))], ensure_ascii=False)
        for command in edges.commands
    ]


async def main() -> None:
    for scenario in SCENARIOS:
        sys.stdout.write("".join(f"{line}\n" for line in await lines_of(scenario)))


if __name__ == "__main__":
    asyncio.run(main())
