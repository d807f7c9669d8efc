"""The command: `python -m kernel.conformance` tries every condition in every column and prints the matrix.

    --json                  print the report as JSON, and nothing else
    --out FILE              write the JSON there, whole or not at all
    --unless-current        with --out: do nothing when FILE is a report of this code and these worlds
    --only CONDITION        that condition alone; may be repeated
    --column NAME           that column alone; may be repeated
    --driver NAME=MODULE:CLASS    a column of your own (kernel.conformance.outside_column); may be repeated

Exit status: 0 when no cell fails, 1 when one does, 2 for an argument that cannot be used.
"""

import argparse
import asyncio
import json
import logging
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from kernel.conformance.columns import all_columns
from kernel.conformance.condition import Condition
from kernel.conformance.conditions import CONDITIONS
from kernel.conformance.outside_column import outside_columns
from kernel.conformance.playing import Column
from kernel.conformance.report import Report, is_current, make_report, versions
from kernel.conformance.worlds import set_hash
from kernel.drivers.outside import OutsideError
from kernel.runtime.leaving import leave

T = TypeVar("T", Condition, Column)


def parser() -> argparse.ArgumentParser:
    """Return the command's arguments."""
    arguments = argparse.ArgumentParser(prog="python -m kernel.conformance", description=__doc__.split("\n")[0])
    arguments.add_argument("--json", action="store_true", help="print the report as JSON, and nothing else")
    arguments.add_argument("--out", type=Path, help="write the JSON report to this file")
    arguments.add_argument("--unless-current", action="store_true", help="do nothing when --out is up to date")
    arguments.add_argument("--only", action="append", default=[], metavar="CONDITION")
    arguments.add_argument("--column", action="append", default=[], metavar="NAME")
    arguments.add_argument("--driver", action="append", default=[], metavar="NAME=MODULE:CLASS")
    return arguments


async def main(given: Sequence[str] | None = None) -> int:
    """Run the command and return its exit status."""
    asked = parser().parse_args(given)
    try:
        conditions = chosen(CONDITIONS, asked.only, "condition")
        own = all_columns()
        every: tuple[Column, ...] = (*own, *outside_columns(",".join(asked.driver), [one.id for one in own]))
        columns = chosen(every, asked.column, "column")
    except (LookupError, OutsideError) as error:
        print(error, file=sys.stderr)
        return 2
    world_set = set_hash([one.world for one in conditions])
    if asked.unless_current and asked.out and asked.out.exists():
        kept = asked.out.read_text(encoding="utf-8", errors="replace")
        if is_current(kept, versions(), world_set):
            return 0
    report = await make_report(columns, conditions)
    text = json.dumps(report.to_json(), ensure_ascii=False, indent=1)
    if asked.out:
        write_whole(asked.out, text)
    if asked.json or not asked.out:
        print(text if asked.json else report.to_text())
    return exit_status(report)


def exit_status(report: Report) -> int:
    return 1 if report.failed else 0


def chosen(every: Sequence[T], names: Sequence[str], what: str) -> tuple[T, ...]:
    """Return those named, all without a name. Raises LookupError for a name that is none."""
    known = [one.id for one in every]
    unknown = [name for name in names if name not in known]
    if unknown:
        raise LookupError(f"there is no {what} {unknown[0]!r}; there are: {', '.join(known)}")
    return tuple(one for one in every if not names or one.id in names)


def write_whole(path: Path, text: str) -> None:
    """Write a file so that whoever reads it finds the whole text or what was there before."""
    path.parent.mkdir(parents=True, exist_ok=True)
    beside = path.with_name(f"{path.name}.tmp")
    beside.write_text(text, encoding="utf-8")
    beside.replace(path)


async def until_stopped(given: Sequence[str] | None = None) -> int:
    """Run the command; a SIGTERM ends it together with what it started."""
    task = asyncio.ensure_future(main(given))
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        return await task
    except asyncio.CancelledError:
        return 143


if __name__ == "__main__":
    logging.disable(logging.CRITICAL)  # what is wrong stands in the cells; stdout may be the report
    leave(asyncio.run(until_stopped()))
