"""What a small model reads of a run before it chooses: a short story in its chat template, bounded to its window. Pure.

The model was made for short chats, so the history becomes one message of a user: the task, each command with what came
back, what experience says, and the question. The newest results and hints are kept, older ones give way. Ids of a run,
an activation and an item stay out: they differ between runs and say nothing.

The neutral story is the same without anything that came back, results and hints alike: what a command is worth there
it is worth because of the task and of the commands before.
"""

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal

from contract.stages import HINT_TYPE
from kernel.drivers.choice_scoring import Piece
from kernel.messages import Message, ToolCall

SYSTEM: Final = "You work in a shell. Reply with one command and nothing else."
QUESTION: Final = "What is the next command?"
EXPERIENCE: Final = "Experience from earlier runs: "
CUT: Final = " … "
# In UTF-8 bytes: a token of the model is at least one, so what keeps these bounds keeps to its window of 8,192 tokens.
TASK_BYTES: Final = 800
PART_BYTES: Final = 1_600  # of one result, one command or one hint block
STORY_BYTES: Final = 5_000
BLOCK: Final = re.compile(rf"<{re.escape(HINT_TYPE)}[ >].*?</{re.escape(HINT_TYPE)}>\n?", re.DOTALL)

Kind = Literal["task", "command", "result", "hint"]


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the story: what kind it is, its text, and whether it came after the last command."""

    kind: Kind
    text: str
    newest: bool


def render(messages: Sequence[Message]) -> tuple[Piece, ...]:
    """Return what the model reads of a request."""
    return _chat(_bounded(list(_parts(messages))))


def render_neutral(messages: Sequence[Message]) -> tuple[Piece, ...]:
    """Return the same without results and hints."""
    return _chat([part for part in _bounded(list(_parts(messages))) if part.kind in ("task", "command")])


def _chat(parts: Sequence[Part]) -> tuple[Piece, ...]:
    story = "\n".join([*(part.text for part in parts), QUESTION])
    return (
        Piece("<|im_start|>", special=True),
        Piece(f"system\n{SYSTEM}"),
        Piece("<|im_end|>", special=True),
        Piece("\n"),
        Piece("<|im_start|>", special=True),
        Piece(f"user\n{story}"),
        Piece("<|im_end|>", special=True),
        Piece("\n"),
        Piece("<|im_start|>", special=True),
        Piece("assistant\n"),
    )


def _parts(messages: Sequence[Message]) -> Iterator[Part]:
    """Yield the story's parts in the order they stand in the history; the rules are replaced by SYSTEM."""
    last = max((place for place, message in enumerate(messages) if message.calls), default=-1)
    for place, message in enumerate(messages):
        if message.role == "user":
            yield Part("task", f"Task: {shortened(message.text, TASK_BYTES)}", True)
        elif message.role == "tool":
            yield Part("result", shortened(message.text.strip(), PART_BYTES), place > last)
        elif message.role == "context":
            yield from _told(message.text, place > last)
        for call in message.calls:
            yield Part("command", f"$ {shortened(command_of(call), PART_BYTES)}", place == last)


def _told(text: str, newest: bool) -> Iterator[Part]:
    """Yield what a context message says: the cues of its hint blocks, and what else stands in it."""
    cues = [cue for block in BLOCK.findall(text) for cue in _cues(block)]
    if cues:
        yield Part("hint", EXPERIENCE + shortened(" ".join(cues), PART_BYTES), newest)
    rest = BLOCK.sub("", text).strip()
    if rest:
        yield Part("result", shortened(rest, PART_BYTES), newest)


def _cues(block: str) -> Iterator[str]:
    """Yield the rules of a block with their cautions, without the lines that say how each was found."""
    taken = False
    for line in block.splitlines():
        if line.startswith("- "):
            taken = True
            yield line.removeprefix("- ")
        elif line.startswith("  caution: "):
            yield line.removeprefix("  caution: ")
        elif line.startswith("    ") and taken:
            yield line.strip()
        else:
            taken = False


def command_of(call: ToolCall) -> str:
    """Return a call as it is typed: the command of a shell, of any other tool its name and arguments."""
    try:
        arguments: Any = json.loads(call.arguments)
    except (ValueError, RecursionError):
        arguments = None
    command = arguments.get("command") if isinstance(arguments, dict) else None
    return command if isinstance(command, str) else f"{call.name} {call.arguments}"


def _bounded(parts: list[Part]) -> list[Part]:
    """Return the parts that fit: the latest task, what is new, then the others from the latest backwards."""
    task = max((place for place, part in enumerate(parts) if part.kind == "task"), default=-1)
    room = STORY_BYTES
    kept: list[int] = []
    for place in sorted(range(len(parts)), key=lambda place: (place != task, not parts[place].newest, -place)):
        size = len(parts[place].text.encode()) + 1
        if size > room:
            break
        room -= size
        kept.append(place)
    return [parts[place] for place in sorted(kept)]


def shortened(text: str, limit: int) -> str:
    """Return a text of at most `limit` UTF-8 bytes: its start and its end where it is longer, no character split."""
    data = text.encode("utf-8", "replace")
    if len(data) <= limit:
        return data.decode()
    half = (limit - len(CUT.encode())) // 2
    return data[:half].decode("utf-8", "ignore") + CUT + data[-half:].decode("utf-8", "ignore")
