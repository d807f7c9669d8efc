"""The agents of the benchmark: each sees the request it is sent and the commands there are, never the arm it is in.

Every agent makes the task's first call, which fails. After that a *chooser* picks one of the task's commands while the
last call failed, at most `MOST_CALLS` in all; then it says that it is done, whatever the folder looks like. A model
behind an endpoint is led through the first call only, and is free from then on. (Seed 001 §16.4.)
"""

import hashlib
import json
import random
import re
from collections.abc import Mapping, Sequence
from typing import Final, Protocol

from contract.stages import HINT_TYPE
from kernel.drivers import Driver, DriverReply, ModelRequest
from kernel.messages import Message, ToolCall

MOST_CALLS: Final = 4  # of one run: the first, and three chosen ones
DONE: Final = "The task is done."
SPAN: Final = re.compile(r"`([^`\n]{4,300})`")
BLOCK: Final = re.compile(rf"<{re.escape(HINT_TYPE)}[ >].*?</{re.escape(HINT_TYPE)}>", re.DOTALL)
SAME_AGAIN: Final = 0.75  # how often the scripted agent's habit is what it did before


class Chooser(Protocol):
    """Picks the next command. `about` says in a sentence what results with it can show."""

    name: str

    def versions(self) -> Mapping[str, str]:
        """Return what it consists of, by name."""

    async def choose(self, messages: Sequence[Message], candidates: Sequence[str], dice: str) -> int:
        """Return the index of the command to run next; `dice` is a text that differs from run to run."""

    async def close(self) -> None: ...


class HintFollower:
    """The scripted agent: it runs what a hint in its context names, if that is among the commands and was not run yet.

    Without one it follows its habit: the same again first, then by a throw the same again or any of the others.
    """

    name = "scripted"

    def versions(self) -> Mapping[str, str]:
        return {"scripted": "hint-follower.v1"}

    async def choose(self, messages: Sequence[Message], candidates: Sequence[str], dice: str) -> int:
        ran = commands_of(messages)
        named = named_command(messages, [command for command in candidates if command not in ran])
        return candidates.index(named or _habit(ran, candidates, dice))

    async def close(self) -> None:
        """Nothing is held open."""


class ChoosingDriver:
    """A driver whose model is a chooser; `candidates` by script, the first of them is what is tried first."""

    def __init__(self, chooser: Chooser, candidates: Mapping[str, Sequence[str]]) -> None:
        self._chooser = chooser
        self._candidates = candidates

    async def reply(self, request: ModelRequest) -> DriverReply:
        """Call the next command, or answer."""
        ran = commands_of(request.messages)
        candidates = self._candidates[request.script]
        if not ran:
            return _call(candidates[0], 0, self._chooser.name)
        if request.finale or len(ran) >= MOST_CALLS or not last_failed(request.messages):
            return DriverReply(DONE, model=self._chooser.name)
        dice = dice_of(request.run_id)
        shuffled = list(candidates)
        random.Random(dice).shuffle(shuffled)
        chosen = await self._chooser.choose(request.messages, shuffled, dice)
        return _call(shuffled[chosen], len(ran), self._chooser.name)

    async def end_run(self, run_id: str) -> None:
        """Nothing is held for a run."""

    async def close(self) -> None:
        await self._chooser.close()


class LedDriver:
    """A driver whose first call is the task's; everything after that is the inner driver's own."""

    def __init__(self, inner: Driver, candidates: Mapping[str, Sequence[str]]) -> None:
        self._inner = inner
        self._candidates = candidates

    async def reply(self, request: ModelRequest) -> DriverReply:
        if commands_of(request.messages):
            return await self._inner.reply(request)
        return _call(self._candidates[request.script][0], 0, request.model)

    async def end_run(self, run_id: str) -> None:
        await self._inner.end_run(run_id)

    async def close(self) -> None:
        await self._inner.close()


def commands_of(messages: Sequence[Message]) -> list[str]:
    """Return the commands that were called so far, in order; a call of another shape counts as its arguments."""
    return [_command(call.arguments) for message in messages for call in message.calls]


def last_failed(messages: Sequence[Message]) -> bool:
    """Return whether the last call that has a reply did not end well."""
    statuses = [message.status for message in messages if message.role == "tool"]
    return bool(statuses) and statuses[-1] != "ok"


def named_command(messages: Sequence[Message], candidates: Sequence[str]) -> str:
    """Return the candidate that a hint block among the messages names, empty when none does.

    The newest block comes first, and in it the longest action; an action that several candidates hold names none.
    """
    blocks = [block for message in messages if message.role == "context" for block in BLOCK.findall(message.text)]
    for block in reversed(blocks):
        for span in sorted(SPAN.findall(block), key=len, reverse=True):
            holding = [command for command in candidates if span in command]
            if len(holding) == 1:
                return holding[0]
    return ""


def throw(*words: str) -> float:
    """Return a number from 0 to 1 that the words decide."""
    digest = hashlib.sha256("\x1f".join(words).encode()).digest()
    return int.from_bytes(digest[:8], "big") / 2**64


def dice_of(run_id: str) -> str:
    """Return the part of a run's id that its throws are made with."""
    return run_id.rsplit("-", 1)[-1]


def _habit(ran: Sequence[str], candidates: Sequence[str], dice: str) -> str:
    if len(ran) == 1 or throw(dice, str(len(ran))) < SAME_AGAIN:
        return ran[0]
    others = sorted(command for command in candidates if command != ran[0])
    return others[int(throw(dice, str(len(ran)), "which") * len(others))]


def _command(arguments: str) -> str:
    try:
        value = json.loads(arguments)
    except ValueError:
        return arguments
    return str(value["command"]) if isinstance(value, dict) and "command" in value else arguments


def _call(command: str, number: int, model: str) -> DriverReply:
    return DriverReply(calls=(ToolCall(f"call-{number}", "shell", json.dumps({"command": command})),), model=model)
