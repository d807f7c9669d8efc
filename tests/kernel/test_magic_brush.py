"""The one brush: operations in order and their exact receipts, a gate for current dates, and the way to the model."""

import asyncio
import errno
import hashlib
import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import pytest

from contract.redaction import redact
from kernel.edge.activities import Activities
from kernel.edge.clean_text import clean
from kernel.edge.tool_call import REPLY_LIMIT, reply_text
from kernel.messages import Message, PrepareRun, RunSpec, TimeReceipt, ToolFinished
from kernel.runtime.local import LocalRun
from kernel.testing import AGENT, MemoryEdges, MemoryObservation, MemoryTelemetry, ScriptedModel, call
from kernel.tools.brush_operations import OPERATIONS_LIMIT, SCHEMA, TEXT_LIMIT
from kernel.tools.catalogue import Catalogue, ToolEntry, ToolResult, arguments_problem
from kernel.tools.clock import DEFAULT_ZONE, read_clock, zone_named
from kernel.tools.jail import landlock_abi
from kernel.tools.magic_brush import BRUSH, TIME_RULES, brush_entry
from kernel.tools.registry import LocalTool, RunPlace, Toolbox
from kernel.tools.time_receipts import FOLDER
from tests.kernel.test_activities import CANARY
from tests.kernel.test_magic_brush_dates import at
from tests.kernel.test_magic_brush_notes import HOSTILE, everything_below

NOW = "2026-11-30T17:30:00Z"  # the first of December in Shanghai
TIME = {"op": "get_current_time"}
RECEIPT = TimeReceipt(NOW, "2026-12-01T01:30:00+08:00", DEFAULT_ZONE, at(NOW) // 1_000_000_000)


@dataclass
class Worker:
    """A worker's toolbox whose clock stands still, and the folder it works in."""

    folder: Path
    now_ns: int = at(NOW)

    def __post_init__(self) -> None:
        self.toolbox = Toolbox(self.folder / "work", clock_ns=lambda: self.now_ns)

    @property
    def notes(self) -> Path:
        return self.folder / "work" / "notes"

    async def brush(self, *operations: Mapping[str, Any], run_id: str = "r", **more: Any) -> ToolResult:
        return await self.call({"operations": list(operations), **more}, run_id)

    async def call(self, arguments: Mapping[str, Any], run_id: str = "r") -> ToolResult:
        return await self.toolbox.run(run_id, Catalogue((brush_entry(),)), brush_entry(), arguments)


@pytest.fixture
def worker(tmp_path: Path) -> Worker:
    return Worker(tmp_path)


def receipts(result: ToolResult) -> list[dict[str, Any]]:
    return list(json.loads(result.output)["receipts"])


def put(path: str, text: str, op: str = "write", **more: Any) -> dict[str, Any]:
    return {"op": op, "path": path, "text": text, **more}


def written(step: int, path: str, whole: str, op: str = "write", *, created: bool = True) -> dict[str, Any]:
    """The receipt of a write or append after which the note holds `whole`."""
    content = whole.encode()
    facts = {"bytes": len(content), "sha256": hashlib.sha256(content).hexdigest(), "created": created}
    return {"step": step, "op": op, "path": path, "status": "ok", **facts}


# ---- operations and receipts -----------------------------------------------------------------------------


async def test_one_call_composes_operations(worker: Worker) -> None:
    """Each operation sees what those before it did, and the receipts stand in order with all that was done."""
    result = await worker.brush(
        put("plan.md", "un"), put("plan.md", " деux", "append"), {"op": "read", "path": "plan.md"}, {"op": "list"}, TIME
    )
    whole = "un деux"
    read = written(3, "plan.md", whole, "read")
    del read["created"]
    assert json.loads(result.output) == {
        "ok": 5,
        "failed": 0,
        "not_run": 0,
        "receipts": [
            written(1, "plan.md", "un"),
            written(2, "plan.md", whole, "append", created=False),
            {**read, "text": whole},
            {"step": 4, "op": "list", "status": "ok", "entries": [{"name": "plan.md", "kind": "note", "bytes": 9}]},
            {"step": 5, "op": "get_current_time", "status": "ok", **asdict(RECEIPT)},
        ],
    }
    assert (result.status, result.effect, result.diagnostic, result.note) == ("ok", "applied", "", "")
    assert result.time_receipts == (RECEIPT,)
    assert everything_below(worker.notes) == {"plan.md": whole}


async def test_a_failing_step_stops_the_rest(worker: Worker) -> None:
    """What failed is named, what came after it was not run, and what was applied before it is not hidden."""
    result = await worker.brush(put("a.md", "a"), {"op": "read", "path": "b.md"}, put("c.md", "c"), TIME)
    assert (result.status, result.effect, result.error_class) == ("failed", "applied", "not_found")
    assert result.diagnostic.startswith("step 2 (read) failed: not_found: there is no such note")
    assert result.diagnostic.endswith("; 2 after it not run")
    first, second, third, fourth = receipts(result)
    assert first == written(1, "a.md", "a")
    assert (second["status"], second["code"]) == ("failed", "not_found") and "text" not in second
    assert third == {"step": 3, "op": "write", "path": "c.md", "status": "not_run"}
    assert fourth == {"step": 4, "op": "get_current_time", "status": "not_run"}
    assert result.time_receipts == ()
    assert everything_below(worker.notes) == {"a.md": "a"}


async def test_told_to_go_on_the_rest_is_run(worker: Worker) -> None:
    """Every failure is in the diagnostic, every other operation was done."""
    result = await worker.brush(
        {"op": "read", "path": "b.md"}, put("../x", "x"), put("c.md", "c"), TIME, on_failure="go_on"
    )
    assert [one["status"] for one in receipts(result)] == ["failed", "failed", "ok", "ok"]
    assert (result.status, result.effect, result.error_class) == ("failed", "applied", "not_found")
    assert "step 1 (read) failed: not_found" in result.diagnostic
    assert "step 2 (write) failed: path_rejected" in result.diagnostic
    assert result.time_receipts == (RECEIPT,)
    assert everything_below(worker.folder / "work" / "notes") == {"c.md": "c"}


async def test_what_changed_nothing_says_so(worker: Worker) -> None:
    """Reading, listing and taking the time leave the effect `none`, and so does a write that was refused."""
    assert (await worker.brush(TIME, {"op": "list"})).effect == "none"
    assert (await worker.brush(put("/a", "a"))).effect == "none"
    assert not worker.notes.exists()


async def test_what_the_disk_does_not_tell_is_uncertain(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """When putting the new file in place fails, nobody knows which one will be there: `uncertain`, also after a write
    that was applied."""
    await worker.brush(put("a.md", "before"))

    def broken(*_: Any, **__: Any) -> None:
        raise OSError(errno.EIO, "broken")

    monkeypatch.setattr(os, "rename", broken)
    result = await worker.brush(put("a.md", "after"))
    assert (result.status, result.effect, result.error_class) == ("failed", "uncertain", "io_error")
    assert "EIO" in result.diagnostic and "read it before you go on" in result.diagnostic
    assert "[effect: uncertain]" in reply_text(result)
    assert everything_below(worker.notes) == {"a.md": "before"}


async def test_a_full_disk_changes_nothing(worker: Worker, monkeypatch: pytest.MonkeyPatch) -> None:
    """What cannot be written down whole never takes the note's place, and leaves no half behind."""
    await worker.brush(put("a.md", "before"))

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, "full")

    monkeypatch.setattr(os, "fsync", full)
    result = await worker.brush(put("a.md", "after"), put("b.md", "b"), TIME, on_failure="go_on")
    assert [one.get("code") for one in receipts(result)] == ["io_error"] * 3
    assert (result.status, result.effect, result.time_receipts) == ("failed", "none", ())
    assert everything_below(worker.folder / "work" / FOLDER) == {}
    assert everything_below(worker.notes) == {"a.md": "before"}


REFUSED: list[tuple[Any, str]] = [
    ({}, "operations must be a list"),
    ({"operations": []}, "operations must be a list of 1 to 16"),
    ({"operations": {}}, "operations must be a list"),
    ({"operations": [TIME] * (OPERATIONS_LIMIT + 1)}, "split a longer one"),
    ({"operations": [TIME], "on_failure": "retry"}, "on_failure must be stop or go_on"),
    ({"operations": [TIME], "on_failure": ["stop"]}, "on_failure must be stop or go_on"),
    ({"operations": [TIME], "then": 1}, "and no others"),
    ({"operations": ["list"]}, "operations[0] must be an object"),
    ({"operations": [{}]}, "operations[0].op must be one of"),
    ({"operations": [{"op": "delete", "path": "a"}]}, "operations[0].op must be one of list, read, write, append"),
    ({"operations": [{"op": ["list"]}]}, "operations[0].op must be one of"),
    ({"operations": [{"op": "read"}]}, "read needs path"),
    ({"operations": [{"op": "write", "path": "a"}]}, "write needs text"),
    ({"operations": [{"op": "read", "path": 3}]}, "operations[0].path must be a text"),
    ({"operations": [{"op": "read", "path": "a", "text": "x"}]}, "it takes path, offset"),
    ({"operations": [{"op": "read", "path": "a", "dated": True}]}, "it takes path, offset"),
    ({"operations": [{"op": "read", "path": "a", "offset": -1}]}, "operations[0].offset must be 0 or more"),
    ({"operations": [{"op": "read", "path": "a", "offset": True}]}, "operations[0].offset must be a whole number"),
    ({"operations": [{"op": "get_current_time", "path": "a"}]}, "it takes nothing else"),
    ({"operations": [put("a", "a", dated="yes")]}, "operations[0].dated must be true or false"),
    ({"operations": [put("a", "a", dated=1)]}, "operations[0].dated must be true or false"),
    ({"operations": [put("a", "a", mode="x")]}, "a key that write does not take"),
    ({"operations": [put("a", "x" * (TEXT_LIMIT + 1))]}, f"the limit is {TEXT_LIMIT}"),
    ({"operations": [put("a", "x" * TEXT_LIMIT)] * 5}, "split it into several calls"),
    ({"operations": [put("a", "a\x00b")]}, "control character"),
    ({"operations": [put("a", "\ud800")]}, "surrogate"),
]


@pytest.mark.parametrize(("arguments", "said"), REFUSED, ids=range(len(REFUSED)))
async def test_what_is_no_list_of_operations_is_refused_before_anything_runs(
    worker: Worker, arguments: dict[str, Any], said: str
) -> None:
    """Nothing is run, not even what is right; the refusal says where and how much, and quotes nothing."""
    result = await worker.call(arguments)
    assert (result.status, result.effect, result.error_class, result.output) == ("failed", "none", "not_operations", "")
    assert said in result.diagnostic and result.diagnostic.endswith("Nothing was run.")
    assert not worker.notes.exists() and result.time_receipts == ()


async def test_one_bad_operation_refuses_the_good_ones_before_it(worker: Worker) -> None:
    """The list is judged whole, so that half of a misspelt plan is never carried out."""
    result = await worker.brush(put("good.md", "good"), TIME, {"op": "read", "path": "good.md", "of": "it"})
    assert result.diagnostic.startswith("operations[2]: a key that read does not take")
    assert not worker.notes.exists() and not (worker.folder / "work" / FOLDER).exists()


def test_the_schema_and_the_check_agree() -> None:
    """What the catalogue tells of operations is what is checked; no operation is a tool of its own."""
    items = SCHEMA["properties"]["operations"]["items"]
    assert items["properties"]["op"]["enum"] == ["list", "read", "write", "append", "get_current_time"]
    assert arguments_problem("{}", SCHEMA) and not arguments_problem('{"operations": []}', SCHEMA)


@pytest.mark.parametrize("path", HOSTILE, ids=range(len(HOSTILE)))
async def test_a_hostile_path_is_a_failed_receipt(worker: Worker, path: str) -> None:
    """The step fails by its path, the steps around it are done, and the receipts stay bounded."""
    operations = [put("a.md", "a"), put(path, "x"), {"op": "read", "path": path}, {"op": "list"}]
    result = await worker.brush(*operations, on_failure="go_on")
    assert [one.get("code", "") for one in receipts(result)] == ["", "path_rejected", "path_rejected", ""]
    assert everything_below(worker.folder) == {
        "work": "folder", "work/notes": "folder", "work/notes/a.md": "a"
    }  # fmt: skip
    assert len(result.output) < 3_000


async def test_receipts_reach_the_model_whole_whatever_they_hold(worker: Worker) -> None:
    """What was read is cut to what a reply holds, and says where to read on; the parts are the note."""
    text = "".join(f'line {n} "quoted"\n' for n in range(2_000))
    (worker.notes).mkdir(parents=True)
    (worker.notes / "long.md").write_text(text)
    parts: list[str] = []
    offset: int | None = 0
    while offset is not None:
        result = await worker.brush({"op": "read", "path": "long.md", "offset": offset}, {"op": "read", "path": "none"})
        assert result.output in reply_text(result) and len(result.output) < REPLY_LIMIT
        receipt = receipts(result)[0]
        assert receipt["sha256"] == hashlib.sha256(text.encode()).hexdigest()
        parts.append(receipt["text"])
        offset = receipt.get("next_offset")
    assert "".join(parts) == text and len(parts) > 2
    result = await worker.brush({"op": "read", "path": "long.md", "offset": len(text) + 1})
    assert receipts(result)[0]["code"] == "past_the_end"


async def test_sixteen_long_receipts_fit_a_reply(worker: Worker) -> None:
    """The most operations, each with the longest path and dates to tell of, leave a reply that is cut nowhere."""
    claims = "".join(f"Today is 2025-{n:02}-01T10:00:00.000000+00:00. " for n in range(1, 9))
    paths = [f"{'x' * 95}{n:02}/{chr(39) * 100}" for n in range(OPERATIONS_LIMIT - 1)]
    result = await worker.brush(TIME, *(put(path, claims) for path in paths))
    assert [one["status"] for one in receipts(result)] == ["ok"] * OPERATIONS_LIMIT
    assert reply_text(result).startswith(result.output)


async def test_a_note_that_is_no_text_is_told(worker: Worker) -> None:
    """Bytes that are not UTF-8 are not guessed at."""
    worker.notes.mkdir(parents=True)
    (worker.notes / "b").write_bytes(b"\xff\xfe")
    assert receipts(await worker.brush({"op": "read", "path": "b"}))[0]["code"] == "not_text"


async def test_notes_are_those_of_all_runs(worker: Worker) -> None:
    """What one run wrote another one reads; a long folder is listed as far as there is room."""
    await worker.brush(put("a.md", "a"), run_id="first")
    assert receipts(await worker.brush({"op": "read", "path": "a.md"}, run_id="second"))[0]["text"] == "a"
    for number in range(300):
        (worker.notes / f"{number:03}").touch()
    listed = receipts(await worker.brush({"op": "list"}))[0]
    assert len(listed["entries"]) + listed["more"] == 301 and len(listed["entries"]) == 200


# ---- the gate --------------------------------------------------------------------------------------------


async def test_t27_a_dated_note_needs_a_receipt(worker: Worker) -> None:
    """Without a receipt of this run it is refused and nothing is written; with one its date is the receipt's."""
    dated = "# 2026-01-30\nbuilt the release\n"
    for operation in (put("log.md", dated), put("log.md", dated, "append"), put("log.md", "built it", dated=True)):
        result = await worker.brush(operation)
        assert (result.status, result.effect, result.error_class) == ("failed", "none", "time_receipt_required")
        assert receipts(result)[0]["code"] == "time_receipt_required"
        assert "get_current_time" in result.diagnostic
    assert not worker.notes.exists()
    taken = await worker.brush(TIME)
    today = taken.time_receipts[0].zoned[:10]
    result = await worker.brush(put("log.md", f"# {today}\nbuilt the release\n", "append"))
    assert (result.status, result.note) == ("ok", "")
    assert receipts(result)[0]["time_receipt"] == NOW and "flag" not in receipts(result)[0]
    assert everything_below(worker.notes) == {"log.md": "# 2026-12-01\nbuilt the release\n"}


async def test_t27_a_date_from_the_models_memory_is_flagged(worker: Worker) -> None:
    """January instead of November: written, because it may be meant, and flagged with both dates that are today."""
    result = await worker.brush(TIME, put("log.md", "# 2026-01-30\nbuilt it\n"))
    assert (result.status, result.effect, result.note) == ("ok", "applied", "date_mismatch: step 2")
    receipt = receipts(result)[1]
    assert (receipt["flag"], receipt["asserted"]) == ("date_mismatch", ["2026-01-30"])
    assert receipt["today"] == ["2026-11-30", "2026-12-01"]
    assert "[date_mismatch: step 2]" in reply_text(result)


@pytest.mark.parametrize("day", ["2026-11-30", "2026-12-01"])
async def test_both_zones_dates_are_today(worker: Worker, day: str) -> None:
    """Near midnight it is one day in UTC and another in the second zone: neither is flagged."""
    result = await worker.brush(TIME, put(f"{day}.md", f"Today is {day}."))
    assert (result.status, result.note) == ("ok", "")


async def test_history_needs_no_receipt(worker: Worker) -> None:
    """A text that tells of dates is written without one, and its receipt says nothing of time."""
    result = await worker.brush(put("history.md", "The war ended on 8 May 1945; v2 is due 2026-12-31."))
    assert result.status == "ok" and "time_receipt" not in receipts(result)[0]


async def test_the_order_within_a_call_counts(worker: Worker) -> None:
    """A receipt taken after the write is none for it; one taken before it in the same call is."""
    late = await worker.brush(put("a.md", "Today is 2026-11-30"), TIME, on_failure="go_on", run_id="late")
    assert [one["status"] for one in receipts(late)] == ["failed", "ok"]
    early = await worker.brush(TIME, put("a.md", "Today is 2026-11-30"), run_id="early")
    assert early.status == "ok"


async def test_the_newest_receipt_counts(worker: Worker) -> None:
    """After midnight the date of an earlier receipt is flagged once a new one was taken."""
    await worker.brush(TIME)
    worker.now_ns = at("2026-12-02T12:00:00Z")
    assert (await worker.brush(put("a.md", "Today is 2026-11-30"))).note == ""
    assert (await worker.brush(TIME, put("a.md", "Today is 2026-11-30"))).note == "date_mismatch: step 2"
    assert (await worker.brush(put("a.md", "Today is 2026-12-02"))).note == ""


async def test_a_receipt_is_of_one_run_and_outlives_its_worker(worker: Worker) -> None:
    """Another worker process finds it; another run has to take its own; a run that begins anew begins without."""
    await worker.brush(TIME)
    dated = put("a.md", "Today is 2026-11-30")
    assert (await worker.brush(dated, run_id="other")).error_class == "time_receipt_required"
    assert (await Worker(worker.folder).brush(dated)).status == "ok"
    await worker.toolbox.prepare(RunSpec("r", "again", tools=(BRUSH,)))
    assert (await worker.brush(dated)).error_class == "time_receipt_required"


NO_TIME = '{"run_id": "r", "utc": "2026-11-30T10:00:00Z", "zoned": "later", "zone": "x", "unix": 1}'
ODD_FILES = ["", "[]", "{}", "not json", '{"run_id": "r", "utc": 1}', '{"run_id": "x"}', NO_TIME]


@pytest.mark.parametrize("content", ODD_FILES)
async def test_what_cannot_be_read_is_no_receipt(worker: Worker, content: str) -> None:
    """A damaged or strange file, or a link in its place, counts as none."""
    await worker.brush(TIME)
    kept = next((worker.folder / "work" / FOLDER).iterdir())
    good = kept.read_text()
    kept.write_text(content)
    dated = put("a.md", "Today is 2026-11-30")
    assert (await worker.brush(dated)).error_class == "time_receipt_required"
    (worker.folder / "forged.json").write_text(good)
    kept.unlink()
    kept.symlink_to(worker.folder / "forged.json")
    assert (await worker.brush(dated)).error_class == "time_receipt_required"


async def test_a_command_cannot_forge_a_receipt(worker: Worker) -> None:
    """Receipts and notes lie where a command of a run may neither write nor read."""
    await worker.brush(TIME, put("a.md", "a"), run_id="other")
    toolbox = worker.toolbox
    prepared = await toolbox.prepare(RunSpec("r", "x", tools=("shell", BRUSH)))
    shell = prepared.catalogue.find("shell")
    assert shell is not None
    kept = next((worker.folder / "work" / FOLDER).iterdir())
    own = kept.with_name(f"{toolbox.folders('r').root.name}.json")
    before = everything_below(worker.folder / "work" / FOLDER)
    for command in (f"cp {kept} {own}", f"echo x > {own}", f"echo x > {worker.notes}/a.md", f"cat {worker.notes}/a.md"):
        ended = await toolbox.run("r", prepared.catalogue, shell, {"command": command})
        assert (ended.status == "failed") is (landlock_abi() > 0), command
    if landlock_abi():
        assert everything_below(worker.folder / "work" / FOLDER) == before
        assert everything_below(worker.notes) == {"a.md": "a"}
        assert (await worker.brush(put("b.md", "b", dated=True))).error_class == "time_receipt_required"


# ---- secrets ---------------------------------------------------------------------------------------------


async def test_a_secret_is_not_written_and_not_read(worker: Worker) -> None:
    """It is left out of the note and of the receipts, which say how many were and hash what was written."""
    result = await worker.brush(put("a.md", f"token {CANARY}\nrest"), {"op": "read", "path": "a.md"})
    first, second = receipts(result)
    whole = "token [REDACTED:github_token]\nrest"
    assert everything_below(worker.notes) == {"a.md": whole}
    assert first == {**written(1, "a.md", whole), "secrets_left_out": 1}
    assert second["text"] == whole
    (worker.notes / "b.md").write_text(f"password={CANARY}\nrest")
    result = await worker.brush({"op": "read", "path": "b.md"})
    assert CANARY not in result.output
    assert receipts(result)[0]["text"].endswith("\nrest") and receipts(result)[0]["secrets_left_out"] == 1


async def test_redaction_changes_nothing_of_receipts(worker: Worker) -> None:
    """What passes through redaction on its way to the model is the same text, time receipts above all."""
    for number in range(40):
        worker.now_ns = at(NOW) + number * 9_386_461_000_000_000
        result = await worker.brush(TIME, put("a.md", f"{number}", dated=True), {"op": "read", "path": "a.md"})
        assert clean(result.output) == result.output == redact(result.output)[0]
        taken = result.time_receipts[0]
        assert all(redact(text) == (text, 0) for text in (taken.utc, taken.zoned, taken.zone, str(taken.unix)))


# ---- a run with the brush --------------------------------------------------------------------------------


@dataclass
class BrushEdges(MemoryEdges):
    """The world of a run in memory with a real toolbox, whose only clock is the world's."""

    folder: Path = Path()
    extra: tuple[LocalTool, ...] = ()

    def __post_init__(self) -> None:
        super().__post_init__()
        self.now_ns = at(NOW)
        self.toolbox = Toolbox(self.folder, extra=self.extra, clock_ns=self.clock)  # type: ignore[assignment]
        self.finished: list[ToolFinished] = []
        ways_out = (MemoryObservation(self), MemoryTelemetry(self))
        self.activities = Activities(self.store, {AGENT: self.model}, self.toolbox, *ways_out, self.clock)

    async def run_tool(self, command: Any) -> ToolFinished:
        self.finished.append(await super().run_tool(command))
        return self.finished[-1]


def news() -> LocalTool:
    """A tool that returns what happened this year."""

    async def run(place: RunPlace, arguments: Mapping[str, Any]) -> ToolResult:
        return ToolResult("ok", "none", "Release 9 came out on 2026-11-28.")

    return LocalTool(ToolEntry("news", "what happened lately", {"type": "object"}, effectful=False), run)


async def run_with(edges: BrushEdges, *tools: str) -> None:
    spec = RunSpec("r", "What is new?", tools=tools)
    await asyncio.wait_for(LocalRun(edges, clock_ns=edges.clock).run(spec), 60)


def replies(edges: BrushEdges, request: int) -> list[Message]:
    return [message for message in edges.model.requests[request] if message.role == "tool"]


async def test_t28_the_receipt_precedes_the_interpretation(tmp_path: Path) -> None:
    """In 2026 a tool tells of 2026: the receipt stands before it in the history; a note that says 2024 is flagged."""
    look = [call(BRUSH, operations=[TIME]), call("news")]
    judge = [call(BRUSH, operations=[put("n.md", "The current year is 2024, so release 9 is fictional.")])]
    correct = [call(BRUSH, operations=[put("n.md", "The current year is 2026; release 9 is two days old.")])]
    edges = BrushEdges(ScriptedModel(look, judge, correct), folder=tmp_path, extra=(news(),))
    await run_with(edges, BRUSH, "news")
    first, second = replies(edges, 1)
    assert json.loads(first.text)["receipts"][0]["utc"] == NOW
    assert second.text == "Release 9 came out on 2026-11-28."
    flagged, plain = replies(edges, 3)[2:]
    assert "date_mismatch" in flagged.text and "date_mismatch" not in plain.text
    assert (tmp_path / "notes" / "n.md").read_text().startswith("The current year is 2026")


async def test_t28_a_judgement_without_a_receipt_is_not_noted(tmp_path: Path) -> None:
    """A model that takes its memory for today is refused and told what to do, and the run goes on."""
    judge = [call(BRUSH, operations=[put("n.md", "Today is 30 January 2024, so this is fictional.")])]
    edges = BrushEdges(ScriptedModel([call("news")], judge), folder=tmp_path, extra=(news(),))
    await run_with(edges, BRUSH, "news")
    refused = replies(edges, 2)[1]
    assert refused.text.startswith("[failed: time_receipt_required]") and "get_current_time" in refused.text
    assert json.loads(refused.text.splitlines()[-1])["receipts"][0]["code"] == "time_receipt_required"
    assert not (tmp_path / "notes").exists()
    assert edges.event_types()[-1] == "run.completed"


async def test_t30_the_time_is_a_result_and_in_no_catalogue(tmp_path: Path) -> None:
    """What the model is told of the tool is the same at all times and names no date; the receipt is a tool's reply."""
    early, late = Worker(tmp_path / "early", at("2026-11-30T00:00:00Z")), Worker(tmp_path / "late", at(NOW))
    found = [await one.toolbox.prepare(RunSpec("r", "x", tools=(BRUSH,))) for one in (early, late)]
    assert found[0].catalogue == found[1].catalogue
    told = json.dumps([asdict(tool) for tool in found[0].catalogue.tools]) + TIME_RULES
    assert not any(year in told for year in ("2024", "2025", "2026", "2027"))
    edges = BrushEdges(ScriptedModel([call(BRUSH, operations=[TIME])]), folder=tmp_path)
    await run_with(edges, BRUSH)
    before, after = edges.model.requests
    assert not any("2026" in message.text for message in before)
    assert [message.role for message in after if NOW in message.text] == ["tool"]


async def test_the_clock_is_read_through_the_brush_alone(worker: Worker) -> None:
    """No tool has the operation's name, and without the brush nothing in the catalogue speaks of it."""
    refused = (await worker.toolbox.prepare(RunSpec("r", "x", tools=(TIME["op"],)))).error
    assert "there is no tool" in refused
    everything = tuple(name for name in refused.rpartition("there are: ")[2].split(", ") if name != BRUSH)
    found = await worker.toolbox.prepare(RunSpec("r", "x", tools=everything))
    assert len(found.catalogue.tools) == len(everything) > 5
    assert TIME["op"] not in json.dumps([asdict(tool) for tool in found.catalogue.tools])


async def test_the_rules_stand_in_the_system_message_where_the_brush_is_offered(tmp_path: Path) -> None:
    """With the brush the rules about time follow the run's own; without it, or without its grant, they do not."""
    edges = BrushEdges(ScriptedModel(), folder=tmp_path)
    specs = {
        "offered": RunSpec("offered", "x", tools=(BRUSH,)),
        "not requested": RunSpec("not requested", "x"),
        "not granted": RunSpec("not granted", "x", tools=(BRUSH, "shell"), grants=("shell",)),
    }
    systems = {}
    for name, spec in specs.items():
        await edges.prepare_run(PrepareRun(spec))
        systems[name] = (await edges.store.read(name, 1))[0].text
    assert [TIME_RULES in systems[name] for name in specs] == [True, False, False]
    assert systems["offered"].startswith(specs["offered"].rules)


async def test_a_time_receipt_is_reported_as_an_event(tmp_path: Path) -> None:
    """The kernel reports each reading with its three renderings, redacted like all that leaves and yet exact."""
    edges = BrushEdges(ScriptedModel([call(BRUSH, operations=[TIME, put("a.md", "x", dated=True)])]), folder=tmp_path)
    await run_with(edges, BRUSH)
    taken = edges.finished[0].time_receipts
    assert [one.zone for one in taken] == [DEFAULT_ZONE]
    assert read_clock(lambda: taken[0].unix * 1_000_000_000, zone_named(DEFAULT_ZONE)) == taken[0]
    assert edges.data_of("time.receipt") == [asdict(taken[0])]
    assert [event["data"] for event in edges.wire if event["type"] == "time.receipt"] == [asdict(taken[0])]
