"""The seat of the scripted driver: a world's rounds become rules in a file, told apart by the calls made before."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from kernel.conformance.moves import Reaching, ordinary, stand_in
from kernel.conformance.playing import Seat
from kernel.conformance.worlds import World
from kernel.drivers.scripted import ScriptedDriver


def scripted_seat(world: World, folder: Path) -> Seat:
    """Write the world's rules below `folder` and return a seat that follows them."""
    (folder / f"{world.id}.json").write_text(json.dumps({"script": {"rules": rules_of(world)}}))
    reaching = Reaching(ScriptedDriver(folder), world)
    return Seat(reaching, reaching)


def rules_of(world: World) -> list[Mapping[str, Any]]:
    """Return the rules, that of the last round first: each holds once the calls of the round before were made."""
    rules: list[Mapping[str, Any]] = []
    condition: Mapping[str, Any] = {"start": True}
    for tried in (*world.rounds, *((world.round_at(len(world.rounds)),) if world.rounds[-1].calls else ())):
        moves = ordinary(tried)
        if tried.fails:
            break  # no rule is left that fits
        if not moves:
            rules.append({"if": condition, "answer": tried.say})
            break
        calls = [{"tool": tool, "arguments": arguments} for tool, arguments in (stand_in(one, False) for one in moves)]
        made = f"^{re.escape(moves[0].written)}$"
        rules.append({"if": {**condition, "not_called": made}, "text": tried.say, "call": calls})
        condition = {"called": made}
    return rules[::-1]
