"""Decides what a hints measurement asks: failures of the corpora, one in five a long log. Pure."""

import json
from collections.abc import Sequence
from random import Random
from typing import Any

from bench.hints_items import corpus_rows
from bench.loads import Body

LONG_EVERY = 5
ACTIVATIONS_A_RUN = 5
COMMAND_LIMIT, OUTPUT_LIMIT = 4_096, 8_192

Failure = tuple[str, str]  # command and output


def failures() -> list[Failure]:
    """Return failures in a fixed order, each fifth a long log. No text comes twice: repeated logs are marked."""
    short = [one for row in corpus_rows("pairs", "ruff", "thefuck", "russian") if (one := _failure(row))[1]]
    short = list(dict.fromkeys(short))
    long = [_failure(row) for row in corpus_rows("pairs", "noisy")]
    Random("failures").shuffle(short)
    mixed: list[Failure] = []
    for place, one in enumerate(short):
        mixed.append(one)
        if place % (LONG_EVERY - 1) == LONG_EVERY - 2:
            mixed.append(_again(long, place // (LONG_EVERY - 1)))
    return mixed


def _again(long: Sequence[Failure], number: int) -> Failure:
    """Return a log, from its second time on with a letter before each line, which is no word: other texts to embed."""
    command, output = long[number % len(long)]
    time = number // len(long)
    mark = f"{chr(ord('a') + time - 1)}> " if time else ""
    return command, "\n".join(mark + line for line in output.splitlines())[:OUTPUT_LIMIT]


def _failure(row: dict[str, Any]) -> Failure:
    return row["command"][:COMMAND_LIMIT], row["output"][:OUTPUT_LIMIT].strip()


def requests(asked: Sequence[Failure], tag: str) -> list[dict[str, Any]]:
    """Return the requests as objects; `tag` makes their ids new."""
    return [
        {
            "run": f"{tag}-{place // ACTIVATIONS_A_RUN}",
            "activation_id": f"{tag}-a{place}",
            "trigger": "tool.failed",
            "query": command,
            "tool": "bash",
            "tool_result": output,
            "error_class": "exit_nonzero",
        }
        for place, (command, output) in enumerate(asked)
    ]


def plan(asked: Sequence[Failure], tag: str, n_senders: int) -> list[list[Body]]:
    """Return the bodies of each sender."""
    bodies = [Body(json.dumps(one, ensure_ascii=False).encode(), 1) for one in requests(asked, tag)]
    return [bodies[first::n_senders] for first in range(n_senders)]
