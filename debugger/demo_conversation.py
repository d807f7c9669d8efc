"""Owns what a demo conversation is told between its turns: rows, and how much of the last answer was heard.

The kernel keeps its records itself, so they go through its command line, as anybody's would.
"""

import json
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from django.conf import settings

from debugger.launching import LaunchError

PREVIOUS = "{previous}"  # in a part: the id of the record with the answer of the turn before
COMMAND = (sys.executable, "-m", "kernel.conversation.tell")
TELL_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class DemoTurn:
    """One turn of a demo conversation: what is told before it, what is said, and fields of its conversation."""

    before: tuple[Mapping[str, object], ...]
    task: str
    conversation: Mapping[str, object]


def read_turns(document: Mapping[str, object]) -> tuple[DemoTurn, ...]:
    """Return the turns of a demo file, none for a demo that is a single run. Raises KeyError or TypeError."""
    turns = document.get("turns", [])
    if not isinstance(turns, list):
        raise TypeError("turns must be a list")
    return tuple(DemoTurn(tuple(turn.get("before", ())), turn["task"], dict(turn["conversation"])) for turn in turns)


def turn_spec(spec: Mapping[str, object], turn: DemoTurn, conversation_id: str) -> dict[str, object]:
    """Return the spec of the run that a turn is."""
    base = spec["conversation"]
    shared = dict(base) if isinstance(base, Mapping) else {}
    talk = {**shared, **turn.conversation, "conversation_id": conversation_id}
    return {**spec, "task": turn.task, "conversation": talk}


def add_records(
    database_url: str, conversation_id: str, parts: Sequence[Mapping[str, object]], previous_run: str
) -> None:
    """Add the parts to a conversation of the kernel. Raises LaunchError."""
    if not parts:
        return
    text = "\n".join(json.dumps(part).replace(PREVIOUS, f"{previous_run}:answer") for part in parts)
    command = [*COMMAND, "--conversation", conversation_id, "-"]
    environment = {"KERNEL_DATABASE_URL": database_url}
    try:
        done = subprocess.run(
            command,
            input=text.encode(),
            env=environment,
            cwd=settings.BASE_DIR,
            capture_output=True,
            timeout=TELL_SECONDS,
        )
    except subprocess.TimeoutExpired:
        raise LaunchError(f"telling {conversation_id} took longer than {TELL_SECONDS:.0f} s") from None
    if done.returncode:
        raise LaunchError(f"{conversation_id} could not be told: {done.stderr.decode(errors='replace').strip()[-300:]}")
