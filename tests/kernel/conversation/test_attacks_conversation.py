"""What holds for conversations under hostile rows, odd evidence, crashes and turns at once."""

import asyncio
import json
import uuid
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from contract.state_block import LABELS
from kernel.conversation.heard import LEFT_OUT, PREFIX_LIMIT, text_hash
from kernel.conversation.labels import answer_text
from kernel.conversation.records import ConversationView, Heard, Record, Summary, time_problem
from kernel.conversation.tell import TellError, read_parts
from kernel.core.codec import to_json
from kernel.edge.records import MemoryRecords, Part, PostgresRecords
from kernel.messages import (
    Conversation,
    Cut,
    KeepAnswer,
    Limits,
    Message,
    PrepareRun,
    RunPrepared,
    RunResult,
    RunSpec,
    Switches,
)
from kernel.runtime.local import LocalRun
from kernel.testing import MemoryEdges, ScriptedModel, call
from tests.kernel.conversation.talks import OWNER, STORY, at, played, report, rows, turn
from tests.kernel.temporal_run import temporal_run

TALK = Conversation("talk", owner=OWNER, said_at=at("18:00"))
SPEC = RunSpec("one", "hi", switches=Switches(False), tools=(), conversation=TALK)
HEADERS = tuple(labels.header for labels in LABELS.values())
PAYLOAD_BYTES = 256 * 1024  # of what preparation returns; a payload of Temporal has room for eight times as many


async def go(edges: MemoryEdges, run_id: str, said: str, **talk: Any) -> RunResult:
    """Let one turn run."""
    spec = replace(SPEC, run_id=run_id, task=said, conversation=replace(TALK, **talk))
    return await LocalRun(edges, clock_ns=edges.clock).run(spec)


@pytest.mark.parametrize("space", ["\u3000", "\u00a0", "\u2028", "\x1c", "\r", " \t"])
def test_white_space_of_any_kind_around_labels_shows_none(space: str) -> None:
    """Wide and unbreakable spaces as well: what is stripped at the end leaves no label at the head of an answer."""
    label = f"[2026-09-24T18:00:00+08:00]{space}jarvis:{space}"
    assert answer_text(f"{space}{label}{label}好", {"jarvis"}) == "好"
    assert answer_text(f"[2026-09-24T18:00:00+08:00]{space}[2026-09-24T18:00:00Z]{space}好", ()) == "好"
    assert answer_text(f"一\n{label}二", {"jarvis"}) == "一\n二"


@pytest.mark.parametrize("colon", [":", "："])
def test_a_copied_label_goes_with_the_colon_of_its_language(colon: str) -> None:
    """At the start and on later lines; a wide colon elsewhere stays."""
    label = f"[2026-09-24T18:00:00+08:00] jarvis{colon} "
    assert answer_text(f"{label}好，我继续。\n{label}他说：好", {"jarvis"}) == "好，我继续。\n他说：好"
    assert answer_text(f"jarvis{colon} 好", {"jarvis"}) == f"jarvis{colon} 好"


def test_nothing_played_after_a_person_broke_in_is_no_contradiction() -> None:
    """An empty part goes on past nothing: no word was heard. One with a word in it still contradicts."""
    records = rows((OWNER, "a"), ("jarvis", STORY))
    broke_in = report("r2", "interrupted", "18:30")
    assert turn(records, heard=(broke_in, played("r2", "", STORY, "18:31"))).cut == Cut("nothing", "", "r2")
    assert turn(records, heard=(broke_in, played("r2", STORY[:1], STORY, "18:31"))).cut == Cut("unknown", "", "r2")


async def test_a_long_heard_part_fits_the_state_of_a_run() -> None:
    """Its end is quoted, where the answer was cut; the history keeps the answer whole."""
    answer = "".join(chr(0x4E00 + place % 5_000) for place in range(900_000))
    edges = MemoryEdges(ScriptedModel())
    parts: tuple[Part, ...] = (
        *rows((OWNER, "a"), ("jarvis", answer)),
        Heard("r2", "played", at("18:30"), answer[:800_000], text_hash(answer)),
    )
    for part in parts:
        await edges.records.add("talk", part)
    prepared = await edges.prepare_run(PrepareRun(SPEC))
    assert prepared.cut == Cut("prefix", LEFT_OUT + answer[800_000 - PREFIX_LIMIT : 800_000], "r2")
    assert len(to_json(prepared).encode()) < PAYLOAD_BYTES
    messages = await edges.store.read("one", prepared.n_messages)
    assert messages[2].text == answer
    assert f"“{prepared.cut.prefix}”" in messages[-1].text


async def test_an_answer_at_the_end_of_the_calendar_is_kept() -> None:
    """What was said in its last second is answered in it."""

    def wait() -> str:
        edges.now_ns += 90 * 10**9
        return "waited"

    edges = MemoryEdges(ScriptedModel([call("wait")], "done"), {"wait": wait})
    result = await go(edges, "one", "hi", said_at="9999-12-31T23:59:59Z")
    assert result.status == "completed"
    kept = [(row.at, row.text) for row in (await edges.records.view("talk")).records]
    assert kept == [("9999-12-31T23:59:59+00:00", "hi"), ("9999-12-31T23:59:59+00:00", "done")]


@pytest.mark.parametrize("header", HEADERS)
async def test_the_header_stands_once_wherever_it_is_pasted(header: str) -> None:
    """In rows of both sides, the utterance, mode, profile and what is asked for; labels and tags around it as well."""
    pasted = f"<voice>{header}\nTime: 2026-09-24"
    records = rows((OWNER, pasted), ("jarvis", f"[2026-09-24T18:00Z] jarvis: {pasted}"), (OWNER, pasted))
    given = {"mode": header, "pending": f"{header}\n{header}", "profile": (header,), "utterance": pasted}
    messages = turn(records, **given).messages
    own = LABELS["en"].header
    assert [sum(message.text.count(one) for one in HEADERS) for message in messages] == [0, 0, 0, 1]
    assert messages[-1].text.count(own) == 1


async def test_turns_at_once_keep_every_row_and_see_their_own_past() -> None:
    """Eight turns of one conversation and eight of another, interleaved: no row is lost, doubled or of the other."""
    edges = MemoryEdges(ScriptedModel(*["answer"] * 16))
    talks = [(f"{talk}{number}", talk) for number in range(8) for talk in ("a", "b")]
    await asyncio.gather(*(go(edges, run_id, f"words {run_id}", conversation_id=talk) for run_id, talk in talks))
    for talk in ("a", "b"):
        ids = [row.record_id for row in (await edges.records.view(talk)).records]
        assert sorted(ids) == sorted(f"{talk}{number}:{part}" for number in range(8) for part in ("said", "answer"))
    other = {"a": "words b", "b": "words a"}
    for run_id, talk in talks:
        messages = await edges.store.read(run_id, 2)
        assert not any(other[talk] in message.text for message in messages)


async def test_a_crash_between_utterance_and_answer_leaves_an_unanswered_row() -> None:
    """The next turn folds it in and says that there was no answer; an answer that is kept late comes after both."""
    records = MemoryRecords()
    await MemoryEdges(ScriptedModel(), records=records).prepare_run(PrepareRun(SPEC))
    edges = MemoryEdges(ScriptedModel("here"), records=records)
    await go(edges, "two", "are you there?", said_at=at("18:05"))
    [sent] = edges.model.requests
    assert [message.role for message in sent] == ["system", "user"]
    assert sent[1].text.startswith("[Thursday, 24 September]\nhi\n\n[Current state")
    assert "\nPrevious answer: there was none\n" in sent[1].text
    again = MemoryEdges(ScriptedModel("late"), records=records)
    await LocalRun(again, clock_ns=again.clock).run(SPEC)
    kept = [row.record_id for row in (await records.view("talk")).records]
    assert kept == ["one:said", "two:said", "two:answer", "one:answer"]
    assert [message.text for message in again.model.requests[0]][1:] == [
        f"{LABELS['en'].header}\nTime: 2026-09-24 18:00 +08:00 Thursday\n\nhi"
    ]


async def test_system_and_history_are_the_head_of_the_next_request_over_thirty_turns() -> None:
    """Across a change of day, interruptions, tool calls and a turn without an answer, to the byte."""
    # a turn in three looks something up first; one fails; the sixth answer and every fifth are broken in on
    script: list[Any] = []
    for number in range(30):
        script += [[call("look")]] if number % 3 == 0 else []
        script += [ValueError("no model") if number == 13 else f"[2026-09-24T18:00Z] jarvis: answer {number}"]
    edges = MemoryEdges(ScriptedModel(*script), {"look": lambda: "seen"})
    firsts: list[tuple[Message, ...]] = []
    for number in range(30):
        day, clock = ("2026-12-31", f"23:{30 + number:02}") if number < 15 else ("2027-01-01", f"00:{number:02}")
        before = len(edges.model.requests)
        await go(edges, f"t{number}", f"say {number}", said_at=at(clock, day))
        firsts.append(tuple(edges.model.requests[before]))
        if number % 5 == 0:
            heard = Heard(f"t{number}:answer", "played", at(clock, day), "answer", text_hash(f"answer {number}"))
            await edges.records.add("talk", heard)
    for earlier, later in zip(firsts, firsts[1:], strict=False):
        assert later[: len(earlier) - 1] == earlier[:-1]
    cuts = [data["heard"] for data in edges.data_of("answer.cut")]
    assert cuts == ["prefix", "prefix", "prefix", "no_answer", "prefix", "prefix", "prefix"]
    dated = [message.text.split("\n")[0] for message in firsts[-1] if message.text.startswith(("[Thu", "[Fri"))]
    assert dated == ["[Thursday, 31 December]", "[Friday, 1 January]"]


def test_many_rows_of_one_side_are_joined() -> None:
    """Notices by the thousand become one message; each stands in it once, in order."""
    notices = tuple(Record(f"n{number}", at("18:00"), "live", f"{number} {'w' * 1_000}") for number in range(8_000))
    [_, history, _] = turn(notices).messages
    assert [line.split(" ")[0] for line in history.text.split("\n")] == [str(number) for number in range(8_000)]


@dataclass
class DyingEdges(MemoryEdges):
    """A world whose worker dies each time after it prepared a run or kept an answer, before it can report that."""

    died: list[str] = field(default_factory=list)

    def _die_once(self, place: str) -> None:
        if place not in self.died:
            self.died.append(place)
            raise ConnectionError("the worker is gone")

    async def prepare_run(self, command: PrepareRun) -> RunPrepared:
        prepared = await super().prepare_run(command)
        self._die_once(f"prepared {command.spec.run_id}")
        return prepared

    async def keep_answer(self, command: KeepAnswer) -> None:
        await super().keep_answer(command)
        self._die_once(f"kept {command.run_id}")


async def test_a_worker_lost_after_each_write_of_a_conversation_leaves_it_as_it_was(temporal_address: str) -> None:
    """On Temporal: what was said and what was answered stand once, and the next turn begins as if nothing had been."""
    edges = DyingEdges(ScriptedModel(STORY, "and so on"))
    ids = [f"talk-{uuid.uuid4().hex}" for _ in range(2)]
    for run_id, minute in zip(ids, ("18:00", "18:05"), strict=True):
        talk = replace(TALK, said_at=at(minute))
        spec = replace(SPEC, run_id=run_id, task=f"words at {minute}", conversation=talk)
        async with temporal_run(temporal_address, edges, spec) as run:
            assert (await run.result()).status == "completed"
    assert edges.died == [f"{what} {run_id}" for run_id in ids for what in ("prepared", "kept")]
    kept = [(row.record_id, row.text) for row in (await edges.records.view("talk")).records]
    assert kept == [
        (f"{ids[0]}:said", "words at 18:00"),
        (f"{ids[0]}:answer", STORY),
        (f"{ids[1]}:said", "words at 18:05"),
        (f"{ids[1]}:answer", "and so on"),
    ]
    first, second = edges.model.requests
    assert second[: len(first) - 1] == first[:-1]
    assert [message.text for message in second][1:3] == ["[Thursday, 24 September]\nwords at 18:00", STORY]


@pytest.mark.parametrize("inside", ["\u2028", "\u2029", "\x85", "\x7f", "\\n"])
def test_a_line_of_a_file_ends_with_a_line_feed_alone(inside: str) -> None:
    """What else may end a line is part of what was said; a carriage return before the line feed is not."""
    fields = f'"record_id": "r", "at": "{at("18:00")}", "source": "allen", "text": "a{inside}b"'
    line = f'{{"record": {{{fields}}}}}'
    text = "a\nb" if inside == "\\n" else f"a{inside}b"
    part = Record("r", at("18:00"), "allen", text)
    assert read_parts(f"{line}\r\n\n{line}\n") == [part, part]


@pytest.mark.parametrize("kind", ["spoken", "interrupted", "played"])
def test_a_hash_that_is_none_is_refused_in_every_report(kind: str) -> None:
    """Also where none is needed: the whole file is checked before anything is written."""
    heard = {"record_id": "r", "kind": kind, "at": at("18:00"), "text": "x", "text_sha256": "\x00"}
    with pytest.raises(TellError, match="line 1: heard: text_sha256 must be the SHA-256"):
        read_parts(json.dumps({"heard": heard}))


def test_an_offset_has_at_most_59_minutes() -> None:
    """One with more names no place."""
    assert time_problem(at("18:00", offset="+14:59")) == ""
    assert time_problem(at("18:00", offset="+08:60")).startswith("must be an RFC 3339 time")


async def test_writers_at_once_never_change_what_a_turn_has_seen(postgres_url: str) -> None:
    """Two workers write rows, summaries and reports of one conversation: each view before a row stays as it was."""
    stores = [await PostgresRecords.open(postgres_url) for _ in range(2)]
    talk = f"talk/{uuid.uuid4().hex}"
    seen: dict[str, ConversationView] = {}

    async def turn_of(number: int) -> None:
        store, record = stores[number % 2], Record(f"r{number}", at("18:00"), OWNER, f"words {number}")
        await store.add(talk, record)
        seen[record.record_id] = await store.view(talk, before=record.record_id)
        await store.add(talk, Summary(record.record_id, f"up to {number}"))
        await store.add(talk, played(record.record_id, "words", record.text))
        await store.add(talk, record)

    await asyncio.gather(*(turn_of(number) for number in range(40)))
    for record_id, view in seen.items():
        assert await stores[0].view(talk, before=record_id) == view
    whole = await stores[1].view(talk)
    assert (len(whole.records), len(whole.heard)) == (40, 40)
    assert [len(seen[record.record_id].records) for record in whole.records] == list(range(40))
    for store in stores:
        await store.close()


@pytest.mark.parametrize("said", ["what does <document> mean?", "<voice>"])
def test_what_is_said_now_is_sent_as_it_was_said(said: str) -> None:
    """Retired tags go from rows; a person who asks about one now is understood."""
    assert turn(utterance=f" {said}\n").messages[-1].text.endswith(f"\n\n{said}")
    [_, row, *_] = turn(rows((OWNER, "<voice>a</voice>"), ("jarvis", "b"))).messages
    assert row.text == "[Thursday, 24 September]\na"


async def test_a_conversation_goes_on_in_a_new_workflow_run() -> None:
    """What a turn carries over keeps its conversation: the answer is a row, and the next turn finds it."""
    edges = MemoryEdges(ScriptedModel([call("look")], [call("look")], "done", "again"), {"look": lambda: "seen"})
    spec = replace(SPEC, limits=Limits(turns_per_workflow=1))
    assert (await LocalRun(edges, clock_ns=edges.clock).run(spec)).status == "completed"
    await go(edges, "two", "and?", said_at=at("18:05"))
    assert [(message.role, message.text) for message in edges.model.requests[3]][1:3] == [
        ("user", "[Thursday, 24 September]\nhi"),
        ("assistant", "done"),
    ]
