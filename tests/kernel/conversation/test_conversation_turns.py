"""Whole runs that are turns of a conversation, in process: what the model is sent, and what is kept of its answer."""

from dataclasses import replace
from typing import Any

import pytest

from kernel.conversation.heard import text_hash
from kernel.conversation.records import Heard, Record, Summary
from kernel.drivers import DriverReply, ModelRequest
from kernel.edge.preparation import answer_id
from kernel.edge.spec import spec_problem
from kernel.messages import Conversation, Cut, KeepAnswer, Limits, PrepareRun, RunResult, RunSpec, Switches
from kernel.runtime.local import LocalRun
from kernel.testing import MemoryEdges, ScriptedModel, call
from kernel.tools.magic_brush import BRUSH, TIME_RULES
from tests.kernel.conversation.talks import OWNER, STORY, at, rows

TALK = Conversation("talk", owner=OWNER, said_at=at("18:00"))
SPEC = RunSpec("one", "tell me a story", switches=Switches(False), tools=(), conversation=TALK)


LABEL = "[2026-09-24T18:00:00+08:00] jarvis: "


class LabellingModel(ScriptedModel):
    """A model that copies a label ahead of everything it says."""

    async def reply(self, request: ModelRequest) -> DriverReply:
        given = await super().reply(request)
        return replace(given, text=LABEL + given.text)


async def go(edges: MemoryEdges, run_id: str, said: str, **talk: Any) -> RunResult:
    """Let one turn run."""
    spec = replace(SPEC, run_id=run_id, task=said, conversation=replace(TALK, **talk))
    return await LocalRun(edges, clock_ns=edges.clock).run(spec)


def sent(edges: MemoryEdges, request: int) -> list[tuple[str, str]]:
    """Return role and text of each message of a request."""
    return [(message.role, message.text) for message in edges.model.requests[request]]


def hear(run_id: str, prefix: str, spoken: str) -> Heard:
    return Heard(answer_id(run_id), "played", at("18:01"), prefix, text_hash(spoken))


async def test_a_turn_finds_what_the_one_before_left() -> None:
    """Its words and its answer are rows now; system and history of the first stand at the head of the second."""
    edges = MemoryEdges(ScriptedModel(STORY, "and so on"))
    await go(edges, "one", "tell me a story")
    await edges.records.add("talk", hear("one", STORY[:6], STORY))
    await go(edges, "two", "go on", said_at=at("18:05"))
    assert sent(edges, 1)[:-1] == [
        sent(edges, 0)[0],
        ("user", "[Thursday, 24 September]\ntell me a story"),
        ("assistant", STORY),
    ]
    assert f"the user heard only “{STORY[:6]}”" in sent(edges, 1)[-1][1]
    assert sent(edges, 1)[-1][1].endswith("\n\ngo on")
    assert [message.origin for message in edges.model.requests[1]] == ["rules", "record", "record", "utterance"]
    assert edges.data_of("answer.cut") == [{"heard": "prefix", "prefix": STORY[:6], "record_id": answer_id("one")}]


async def test_a_turn_names_its_conversation() -> None:
    """The start of a run says which conversation it is a turn of; one that is none says nothing."""
    edges = MemoryEdges(ScriptedModel("fine", "good"))
    await go(edges, "one", "hi")
    await LocalRun(edges, clock_ns=edges.clock).run(replace(SPEC, run_id="two", conversation=None))
    assert [data.get("conversation_id") for data in edges.data_of("run.started")] == ["talk", None]


async def test_t32_an_answer_is_kept_without_the_label_it_copied() -> None:
    """Neither the run's answer nor the row has it, so nothing that is read again teaches it."""
    edges = MemoryEdges(
        ScriptedModel(f"[2026-09-24T18:00:00+08:00] jarvis: one\n[2026-09-24T18:00:00+08:00] {OWNER}: two")
    )
    result = await go(edges, "one", "hi")
    assert result.answer == "one\ntwo"
    assert [row.text for row in (await edges.records.view("talk")).records] == ["hi", "one\ntwo"]


async def test_t34_labels_go_before_anything_reads_the_reply() -> None:
    """A reply of a label and nothing else is no answer, and one with a call goes on with the call alone."""
    edges = MemoryEdges(ScriptedModel(LABEL))
    assert (await go(edges, "one", "hi")).status == "failed"
    assert [data["error_class"] for data in edges.data_of("model.failed")] == ["model_empty_answer"]
    edges = MemoryEdges(LabellingModel([call("look")], "done"), {"look": lambda: "seen"})
    assert (await go(edges, "one", "hi")).answer == "done"
    assert sent(edges, 1)[2] == ("assistant", "")
    assert [name for name, _ in edges.executed] == ["look"]


async def test_t37_no_request_of_a_run_has_an_assistant_message_that_begins_with_a_time() -> None:
    """Also not the run's own words between its tool calls, nor old rows that were kept with a label."""
    edges = MemoryEdges(LabellingModel([call("look")], "done"), {"look": lambda: "seen"})
    for row in rows((OWNER, "a"), ("jarvis", "[2026-09-24T17:00:00+08:00] b")):
        await edges.records.add("talk", row)
    await go(edges, "one", "hi")
    said = [text for request in (0, 1) for role, text in sent(edges, request) if role == "assistant" and text]
    assert said == ["b", "b"]


async def test_t44_an_interrupted_turn_leaves_two_rows_and_no_mark() -> None:
    """What was said and the whole answer; a turn that answered nothing leaves what was said."""
    edges = MemoryEdges(ScriptedModel(STORY, ValueError("no model")))
    await go(edges, "one", "tell me a story")
    await edges.records.add("talk", Heard(answer_id("one"), "interrupted", at("18:01")))
    await go(edges, "two", "stop")
    kept = [(row.source, row.text) for row in (await edges.records.view("talk")).records]
    assert kept == [(OWNER, "tell me a story"), ("assistant", STORY), (OWNER, "stop")]


async def test_calls_and_their_results_are_no_rows() -> None:
    """A turn that used tools leaves what was said and the answer, and the next request holds nothing of its calls."""
    edges = MemoryEdges(ScriptedModel([call("look")], "It is there.", "yes"), {"look": lambda: "seen in the drawer"})
    await go(edges, "one", "where is it?")
    await go(edges, "two", "sure?", said_at=at("18:05"))
    kept = [(row.source, row.text) for row in (await edges.records.view("talk")).records]
    assert kept[:2] == [(OWNER, "where is it?"), ("assistant", "It is there.")]
    assert [role for role, _ in sent(edges, 2)] == ["system", "user", "assistant", "user"]
    assert "drawer" not in str(sent(edges, 2))


async def test_preparation_says_where_the_answer_before_was_cut_and_repeats_itself() -> None:
    """What arrives after the utterance was written belongs to the next turn: a repeated preparation finds the same."""
    edges = MemoryEdges(ScriptedModel())
    for row in rows((OWNER, "a"), ("jarvis", STORY)):
        await edges.records.add("talk", row)
    await edges.records.add("talk", Heard("r2", "played", at("18:30"), STORY[:4], text_hash(STORY)))
    first = await edges.prepare_run(PrepareRun(SPEC))
    assert (first.error, first.n_messages, first.cut) == ("", 4, Cut("prefix", STORY[:4], "r2"))
    await edges.records.add("talk", Record("r9", at("18:40"), "jarvis", "a notice"))
    await edges.records.add("talk", Heard("r2", "played", at("18:31"), STORY[:9], text_hash(STORY)))
    messages = await edges.store.read("one", 4)
    assert await edges.prepare_run(PrepareRun(SPEC)) == first
    again = MemoryEdges(ScriptedModel(), records=edges.records)
    second = await again.prepare_run(PrepareRun(SPEC))
    assert (second.n_messages, second.cut) == (4, first.cut)
    assert await again.store.read("one", 4) == messages
    rows_now = (await edges.records.view("talk")).records
    assert [row.record_id for row in rows_now] == ["r1", "r2", "one:said", "r9"]


async def test_a_broken_conversation_fails_the_run_and_changes_nothing() -> None:
    """A summary without its anchor: the model is not asked, and what was said is kept once."""
    edges = MemoryEdges(ScriptedModel("never"))
    await edges.records.add("talk", Summary("gone", "so far"))
    result = await go(edges, "one", "hi")
    assert result.status == "failed"
    assert edges.model.requests == []
    assert [row.text for row in (await edges.records.view("talk")).records] == ["hi"]


async def test_the_whole_answer_is_kept_once() -> None:
    """Longer than what travels through the run's state; the activity repeated adds nothing."""
    answer = "word " * 2_000 + "end"
    edges = MemoryEdges(ScriptedModel(answer))
    await go(edges, "one", "hi")
    [kept] = [command for command in edges.commands if isinstance(command, KeepAnswer)]
    await edges.activities.keep_answer(kept)
    assert [row.text for row in (await edges.records.view("talk")).records] == ["hi", answer]


async def test_an_answer_has_the_time_of_its_conversation() -> None:
    """As long after what was said as the run took; where nobody says when that was, by the clock."""

    def wait() -> str:
        edges.now_ns += 90 * 10**9
        return "waited"

    edges = MemoryEdges(ScriptedModel([call("wait")], "done", "done"), {"wait": wait})
    await go(edges, "one", "hi")
    await go(edges, "two", "hi", said_at="")
    times = [row.at for row in (await edges.records.view("talk")).records]
    assert times[:2] == ["2026-09-24T18:00:00+08:00", "2026-09-24T18:01:30+08:00"]
    assert times[2:] == ["2027-01-15T08:01:30+00:00"] * 2


async def test_the_answer_at_a_limit_is_a_row_too() -> None:
    """What the person is told is what the next turn finds."""
    edges = MemoryEdges(ScriptedModel([call("look")], "as far as I got"), {"look": lambda: "seen"})
    spec = replace(SPEC, limits=Limits(max_turns=1))
    result = await LocalRun(edges, clock_ns=edges.clock).run(spec)
    assert result.status == "limit_reached"
    assert [row.text for row in (await edges.records.view("talk")).records][1:] == [result.answer]


async def test_a_run_without_a_conversation_is_as_it_was() -> None:
    """Rules and task, two messages, no record, its words untouched."""
    edges = MemoryEdges(ScriptedModel("[2026-09-24T18:00:00Z] fine"))
    result = await LocalRun(edges, clock_ns=edges.clock).run(replace(SPEC, conversation=None))
    assert result.answer == "[2026-09-24T18:00:00Z] fine"
    assert sent(edges, 0) == [("system", SPEC.rules), ("user", SPEC.task)]
    assert (await edges.records.view("talk")).records == ()


async def test_the_catalogue_is_what_was_granted() -> None:
    """Registered, granted and of a namespace that is on; the rules about time go with the brush alone."""
    edges = MemoryEdges(ScriptedModel(), {BRUSH: lambda: "", "look": lambda: ""})
    both = await edges.prepare_run(PrepareRun(replace(SPEC, run_id="both")))
    one = await edges.prepare_run(PrepareRun(replace(SPEC, run_id="one", grants=("look",))))
    off = await edges.prepare_run(PrepareRun(replace(SPEC, run_id="off", namespaces_off=("kernel",))))
    assert [[tool.name for tool in found.tools] for found in (both, one, off)] == [[BRUSH, "look"], ["look"], []]
    systems = [(await edges.store.read(run_id, 1))[0].text for run_id in ("both", "one", "off")]
    assert [TIME_RULES in system for system in systems] == [True, False, False]


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"conversation_id": ""}, "conversation.conversation_id must be a printable text of 1 to 200"),
        ({"conversation_id": "a\nb"}, "conversation.conversation_id must be a printable"),
        ({"owner": "a b"}, "conversation.owner must be 1 to 200 characters without spaces"),
        ({"owner": "assistant"}, "name the person otherwise"),
        ({"history_since": "2026-09-24"}, "conversation.history_since must be an RFC 3339 time with an offset"),
        ({"said_at": "2026-09-24T18:00:00"}, "conversation.said_at must be an RFC 3339 time with an offset"),
        ({"said_at": "2026-02-31T18:00:00Z"}, "conversation.said_at must be an RFC 3339"),
        ({"mode": "m" * 201}, "conversation.mode has 201 characters; the limit is 200"),
        ({"pending": "p" * 1_001}, "conversation.pending has 1001 characters; the limit is 1000"),
        ({"running": -1}, "conversation.running is -1; it must be from 0"),
        ({"profile": ("x",) * 101}, "conversation.profile has 101 lines; the limit is 100"),
        ({"profile": ("é" * 5_000,)}, "conversation.profile has 10000 bytes; the limit is 8192"),
    ],
)
def test_a_spec_with_a_conversation_that_cannot_be_is_refused(change: dict[str, Any], said: str) -> None:
    """The field, the limit and the fix are named."""
    assert said in spec_problem(replace(SPEC, conversation=replace(TALK, **change)))
    assert spec_problem(SPEC) == ""
