"""Adds to a conversation from a file: `python -m kernel.conversation.tell --conversation ID FILE` (`-` for input).

Each line is a JSON object with one key: `{"record": {"record_id", "at", "source", "text"}}`, `{"summary": {"anchor",
"text"}}` or `{"heard": {"record_id", "kind", "at", "text", "text_sha256"}}`. The whole file is checked before anything
is written; a part that is there already is left as it is. The database is KERNEL_DATABASE_URL. (Seed 002.)
"""

import argparse
import asyncio
import os
import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Final

import psycopg

from kernel.conversation.checks import LineError, id_problems, read_part
from kernel.edge.records import Part, PostgresRecords, RecordStore

FILE_BYTES: Final = 64 * 1024 * 1024


class TellError(Exception):
    """Nothing was written; the text says why in one line."""


def read_parts(text: str) -> list[Part]:
    """Return the parts a file's text holds, empty lines aside. Raises TellError, which names the line.

    A line feed alone ends a line: other line ends may stand in a JSON text as they are.
    """
    parts: list[Part] = []
    for number, line in enumerate(text.split("\n"), 1):
        if not line.strip():
            continue
        try:
            parts.append(read_part(line))
        except LineError as error:
            raise TellError(f"line {number}: {error}") from None
    return parts


async def tell(store: RecordStore, conversation: str, parts: list[Part]) -> int:
    """Add the parts in their order and return how many of them were new."""
    return sum([await store.add(conversation, part) for part in parts])


async def main(arguments: list[str]) -> int:
    """Add what the file holds; return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m kernel.conversation.tell", description="Add to a conversation.")
    parser.add_argument("--conversation", required=True, help="id of the conversation")
    parser.add_argument("file", help="file of JSON lines, - for standard input")
    options = parser.parse_args(arguments)
    try:
        parts = read_parts(_content(options.file))
        for problem in id_problems("--conversation", options.conversation):
            raise TellError(problem)
        store = await PostgresRecords.open(_database(), max_connections=1)
    except (TellError, OSError, UnicodeError) as error:
        print(f"nothing was written: {error}", file=sys.stderr)
        return 2
    except psycopg.Error as error:
        print(f"KERNEL_DATABASE_URL leads to no usable database: {type(error).__name__}", file=sys.stderr)
        return 2
    try:
        added = await tell(store, options.conversation, parts)
    finally:
        await store.close()
    print(f"{added} added, {len(parts) - added} were there")
    return 0


def _content(name: str) -> str:
    """Return the text of the file. Raises TellError for one that is too large."""
    with nullcontext(sys.stdin.buffer) if name == "-" else Path(name).open("rb") as file:
        data = file.read(FILE_BYTES + 1)
    if len(data) > FILE_BYTES:
        raise TellError(f"the file is larger than {FILE_BYTES} bytes: split it")
    return data.decode("utf-8-sig")


def _database() -> str:
    url = os.environ.get("KERNEL_DATABASE_URL", "")
    if not url:
        raise TellError("KERNEL_DATABASE_URL is not set")
    return url


if __name__ == "__main__":
    sys.exit(asyncio.run(main(sys.argv[1:])))
