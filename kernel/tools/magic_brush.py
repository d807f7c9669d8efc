"""Owns `magic_brush`, the one tool for notes and the clock: operations in, their exact receipts out. (Seed 000.)

A receipt is what became of one operation: `ok` with its facts, `failed` with a code and a text, or `not_run`. The
effect of a call is `uncertain` when a write or append may have been done or not, else `applied` when one was done,
whatever failed after it, else `none`. A call whose arguments are refused ran nothing and has no receipts.
"""

import asyncio
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, Final
from zoneinfo import ZoneInfo

from contract.redaction import redact
from kernel.messages import Effect, TimeReceipt
from kernel.tools.brush_operations import SCHEMA, TAKE_TIME, WRITING, BrushError, Operation, read_operations
from kernel.tools.catalogue import ToolEntry, ToolResult
from kernel.tools.clock import read_clock
from kernel.tools.note_errors import NoteError
from kernel.tools.note_names import PATH_CHARACTERS
from kernel.tools.notes import NoteEntry, NotesFolder
from kernel.tools.time_gate import MISMATCH, check_dates
from kernel.tools.time_receipts import keep_receipt, newest_receipt

BRUSH: Final = "magic_brush"
RECEIPTS_CHARACTERS: Final = 15_000  # of all receipts of a call, so that a reply to the model holds them whole
RESERVED: Final = 900  # of these for each operation still to come
ENTRIES_LIMIT: Final = 200  # of one list

# Added to the system message of a run that is offered the brush.
TIME_RULES: Final = (
    "Current time: you do not know today's date or the time; what you remember from training is no evidence of it, and "
    "neither is a date in a tool's description. Before you write a current date or timestamp, and before you judge "
    "whether something is recent, future, outdated or fictional, take a time receipt in this run: call "
    f"`{BRUSH}` with the operation `{TAKE_TIME}`. Use the dates of the newest receipt as they stand there. "
    "A note that states today's date is refused without a receipt (`time_receipt_required`); set `dated` on a write or "
    "append whose text is about the present day. What failed in a receipt was not done: say so, never guess its result."
)


def brush_entry() -> ToolEntry:
    """Return the catalogue entry of the brush: the same at every time and in every zone."""
    description = (
        "Do one or more operations in order and return the exact receipt of each: list, read, write, append (text "
        f"notes in one folder that all runs share), and {TAKE_TIME} (UTC, a second zone, Unix seconds). After one that "
        "fails the rest is not run, unless on_failure is go_on; the receipts say what was done. Text that states "
        f"today's date needs a receipt of {TAKE_TIME} taken in this run, which may be an earlier operation of the call."
    )
    return ToolEntry(name=BRUSH, description=description, schema=SCHEMA)


class Brush:
    """The brush of all runs of a worker: one notes folder, one second zone."""

    def __init__(self, notes_dir: Path, zone: ZoneInfo) -> None:
        self._notes = NotesFolder(notes_dir)
        self._zone = zone

    async def use(
        self, run_id: str, run_root: Path, clock_ns: Callable[[], int], arguments: Mapping[str, Any]
    ) -> ToolResult:
        """Do what one call asks for."""
        try:
            operations, goes_on = read_operations(arguments)
        except BrushError as error:
            return ToolResult("failed", "none", diagnostic=f"{error}. Nothing was run.", error_class="not_operations")
        stroke = _Stroke(self._notes, self._zone, run_id, run_root, clock_ns)
        return await asyncio.to_thread(stroke.run, operations, goes_on)


class _Stroke:
    """One call under way."""

    def __init__(
        self, notes: NotesFolder, zone: ZoneInfo, run_id: str, run_root: Path, clock_ns: Callable[[], int]
    ) -> None:
        self._notes = notes
        self._zone = zone
        self._run_id = run_id
        self._run_root = run_root
        self._clock_ns = clock_ns
        self._receipts: list[dict[str, Any]] = []
        self._times: list[TimeReceipt] = []
        self._effect: Effect = "none"
        self._room = RECEIPTS_CHARACTERS

    def run(self, operations: Sequence[Operation], goes_on: bool) -> ToolResult:
        """Do the operations and return what the receipts say together."""
        failed: list[dict[str, Any]] = []
        for number, operation in enumerate(operations, 1):
            receipt: dict[str, Any] = {"step": number, "op": operation.op}
            if operation.path:
                receipt["path"] = redact(operation.path)[0][:PATH_CHARACTERS]
            if failed and not goes_on:
                receipt["status"] = "not_run"
            else:
                receipt |= self._receipt(operation, RESERVED * (len(operations) - number + 1))
            if receipt["status"] == "failed":
                failed.append(receipt)
            self._receipts.append(receipt)
            self._room -= len(_json(receipt))
        return self._result(failed)

    def _receipt(self, operation: Operation, reserved: int) -> dict[str, Any]:
        room = max(self._room - reserved, 0)
        try:
            if operation.op == TAKE_TIME:
                return {"status": "ok", **self._take_time()}
            if operation.op in WRITING:
                return {"status": "ok", **self._put(operation)}
            if operation.op == "list":
                return {"status": "ok", **_listed(self._notes.list(operation.path), room)}
            return {"status": "ok", **_read(self._notes, operation, room)}
        except NoteError as error:
            if error.may_have_changed:
                self._effect = "uncertain"
            return {"status": "failed", "code": error.code, "error": str(error)}

    def _take_time(self) -> dict[str, Any]:
        receipt = read_clock(self._clock_ns, self._zone)
        try:
            keep_receipt(self._run_root, self._run_id, receipt)
        except OSError as error:
            raise NoteError("io_error", f"the time receipt cannot be kept: {type(error).__name__}") from None
        self._times.append(receipt)
        return asdict(receipt)

    def _put(self, operation: Operation) -> dict[str, Any]:
        text, n_secrets = redact(operation.text)
        newest = self._times[-1] if self._times else newest_receipt(self._run_root, self._run_id)
        dates = check_dates(replace(operation, text=text), newest)
        put = self._notes.write if operation.op == "write" else self._notes.append
        written = put(operation.path, text.encode())
        if self._effect == "none":
            self._effect = "applied"
        facts: dict[str, Any] = {"bytes": written.n_bytes, "sha256": written.sha256, "created": written.created}
        if n_secrets:
            facts["secrets_left_out"] = n_secrets
        return {**facts, **dates}

    def _result(self, failed: Sequence[Mapping[str, Any]]) -> ToolResult:
        counts = {word: sum(one["status"] == word for one in self._receipts) for word in ("ok", "failed", "not_run")}
        output = _json({**counts, "receipts": self._receipts})
        times = tuple(self._times)
        if not failed:
            flagged = [str(one["step"]) for one in self._receipts if one.get("flag") == MISMATCH]
            note = f"{MISMATCH}: step {', '.join(flagged)}" if flagged else ""
            return ToolResult("ok", self._effect, output=output, note=note, time_receipts=times)
        told = "; ".join(f"step {one['step']} ({one['op']}) failed: {one['code']}: {one['error']}" for one in failed)
        rest = f"; {counts['not_run']} after it not run" if counts["not_run"] else ""
        return ToolResult("failed", self._effect, output, told + rest, failed[0]["code"], time_receipts=times)


def _listed(entries: Sequence[NoteEntry], room: int) -> dict[str, Any]:
    """Return the receipt of a list, with as many entries as there is room for; names with secrets without them."""
    shown: list[dict[str, Any]] = []
    for entry in entries[:ENTRIES_LIMIT]:
        one: dict[str, Any] = {"name": redact(entry.name)[0], "kind": entry.kind}
        if entry.kind == "note":
            one["bytes"] = entry.n_bytes
        if entry.links > 1:
            one["hard_links"] = entry.links
        room -= len(_json(one)) + 2
        if room < 0:
            break
        shown.append(one)
    more = {"more": len(entries) - len(shown)} if len(shown) < len(entries) else {}
    return {"entries": shown, **more}


def _read(notes: NotesFolder, operation: Operation, room: int) -> dict[str, Any]:
    """Return the receipt of a read: size and hash are the whole note's, the text is what there is room for."""
    content, n_links = notes.read(operation.path)
    try:
        text, n_secrets = redact(content.decode())
    except UnicodeDecodeError:
        raise NoteError("not_text", "the note is not text in UTF-8: it was not written with this tool") from None
    if operation.offset > len(text):
        raise NoteError("past_the_end", f"offset is past the end: the note has {len(text)} characters")
    rest = text[operation.offset :]
    shown = _fitting(rest, room)
    facts: dict[str, Any] = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(), "text": shown}
    if len(shown) < len(rest):
        facts["next_offset"] = operation.offset + len(shown)
    if n_links > 1:
        facts["hard_links"] = n_links
    if n_secrets:
        facts["secrets_left_out"] = n_secrets
    return facts


def _fitting(text: str, room: int) -> str:
    """Return the beginning of `text` that takes at most `room` characters as JSON."""
    shown = text[:room]
    while len(_json(shown)) > room and shown:
        shown = shown[: min(len(shown) - 1, len(shown) * room // len(_json(shown)))]
    return shown


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)
