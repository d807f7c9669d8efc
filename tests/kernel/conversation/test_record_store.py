"""The records of conversations, in memory and in PostgreSQL: written once, in one order, seen by their own alone."""

import asyncio
from collections.abc import AsyncIterator
from pathlib import Path

import pytest

from kernel.conversation.looking import record_tools
from kernel.conversation.records import ConversationView, Record, Summary
from kernel.conversation.tell import TellError, main, read_parts, tell
from kernel.edge.records import MemoryRecords, PostgresRecords, RecordStore
from kernel.tools.catalogue import ToolResult
from kernel.tools.registry import RunPlace
from kernel.tools.shell import RunFolders
from tests.kernel.conversation.talks import OWNER, played, report, rows

TALK = rows((OWNER, "a"), ("jarvis", "b"), (OWNER, "c"))


@pytest.fixture(params=["memory", "postgres"])
async def records(request: pytest.FixtureRequest) -> AsyncIterator[RecordStore]:
    """Each kind of record store in turn."""
    if request.param == "memory":
        yield MemoryRecords()
        return
    made = await PostgresRecords.open(request.getfixturevalue("postgres_url"))
    yield made
    await made.close()


@pytest.fixture
def talk_id(request: pytest.FixtureRequest) -> str:
    """A conversation of the test's own, as the database is shared."""
    return f"talk/{request.node.name}"


async def test_what_was_written_stays_and_keeps_its_place(records: RecordStore, talk_id: str) -> None:
    """A second record of an id changes nothing; so do a second summary of an anchor and the same report."""
    parts = (*TALK, Summary("r1", "so far"), report("r2", "interrupted"), played("r2", "b", "b"))
    assert [await records.add(talk_id, part) for part in parts] == [True] * 6
    again = (Record("r1", TALK[0].at, "jarvis", "other"), Summary("r1", "other"), report("r2", "interrupted"))
    assert [await records.add(talk_id, part) for part in again] == [False] * 3
    heard = (report("r2", "interrupted"), played("r2", "b", "b"))
    assert await records.view(talk_id) == ConversationView(TALK, Summary("r1", "so far"), heard)


async def test_a_moment_can_be_read_again_as_it_was(records: RecordStore, talk_id: str) -> None:
    """What came after a record is not in the view before it, whichever kind it is of."""
    for part in (*TALK[:2], Summary("r1", "old"), played("r2", "", "b"), TALK[2]):
        await records.add(talk_id, part)
    was = await records.view(talk_id, before="r3")
    for part in (Summary("r2", "new"), played("r2", "b", "b"), Record("r4", TALK[0].at, "jarvis", "d")):
        await records.add(talk_id, part)
    assert await records.view(talk_id, before="r3") == was
    assert was == ConversationView(TALK[:2], Summary("r1", "old"), (played("r2", "", "b"),))
    assert (await records.view(talk_id)).summary == Summary("r2", "new")


async def test_a_conversation_sees_its_own_rows_only(records: RecordStore, talk_id: str) -> None:
    """The same ids in two conversations are two rows."""
    await records.add(talk_id, TALK[0])
    assert await records.add(f"{talk_id}/other", Record("r1", TALK[0].at, OWNER, "theirs"))
    assert await records.view(talk_id) == ConversationView(TALK[:1])
    assert [row.text for row in (await records.view(f"{talk_id}/other")).records] == ["theirs"]
    assert await records.view(f"{talk_id}/none") == ConversationView()


async def test_odd_texts_are_kept_and_secrets_are_not(records: RecordStore, talk_id: str) -> None:
    """What a text column refuses is replaced; a secret is redacted before it is written."""
    secret = "ghp_" + "a1B2" * 9
    await records.add(talk_id, Record("r1", TALK[0].at, OWNER, "Ω 🧵 \x00 \ud800"))
    await records.add(talk_id, Record("r2", TALK[0].at, OWNER, f"my token is {secret}"))
    odd, redacted = (await records.view(talk_id)).records
    assert odd.text == "Ω 🧵 \ufffd ?"
    assert secret not in redacted.text
    assert "[REDACTED:" in redacted.text


async def test_many_writers_leave_one_order(records: RecordStore, talk_id: str) -> None:
    """Every row is there once, and a view from the inside ends where the whole one has that row."""
    made = [Record(f"w{number}", TALK[0].at, OWNER, str(number)) for number in range(20)]
    await asyncio.gather(*(records.add(talk_id, record) for record in made))
    whole = (await records.view(talk_id)).records
    assert sorted(whole, key=lambda row: int(row.text)) == made
    assert (await records.view(talk_id, before=whole[7].record_id)).records == whole[:7]


def place_of(conversation: str) -> RunPlace:
    return RunPlace("run", RunFolders(Path("/nowhere")), lambda: 0, conversation)


async def look(store: RecordStore, tool: str, conversation: str, **arguments: str) -> ToolResult:
    """Call one of both tools as a run of the conversation would."""
    [found] = [one for one in record_tools(store) if one.entry.name == tool]
    return await found.run(place_of(conversation), arguments)


async def test_a_run_looks_into_its_own_conversation() -> None:
    """Rows that hold all words, wherever they stand; rows in order from one on; never a stranger's."""
    store = MemoryRecords()
    for row in rows((OWNER, "Buy green tea"), ("jarvis", "Green, noted."), (OWNER, "and red paint")):
        await store.add("mine", row)
    await store.add("theirs", Record("x", TALK[0].at, OWNER, "green secret"))
    found = await look(store, "search_records", "mine", query="GREEN tea")
    assert (found.status, found.effect) == ("ok", "none")
    assert found.output == f"1 of 1 rows\n\nr1 | {TALK[0].at} | allen\nBuy green tea"
    assert "secret" not in (await look(store, "search_records", "mine", query="green")).output
    assert (await look(store, "search_records", "mine", query="blue")).output == "0 of 0 rows"
    read = await look(store, "read_records", "mine", record_id="r2")
    assert [part.split(" ")[0] for part in read.output.split("\n\n")] == ["2", "r2", "r3"]
    assert (await look(store, "read_records", "mine")).output.startswith("3 of 3 rows")


async def test_a_look_is_bounded() -> None:
    """Twenty rows, the latest, each cut to its first 600 characters with how many more there are."""
    store = MemoryRecords()
    for number in range(30):
        await store.add("mine", Record(f"n{number}", TALK[0].at, OWNER, f"row {number} " + "x" * 1_000))
    found = (await look(store, "search_records", "mine", query="row")).output.split("\n\n")
    assert found[0] == "20 of 30 rows"
    assert found[1].startswith("n10 |")
    assert all(len(part) < 720 and part.endswith("more characters]") for part in found[1:])


@pytest.mark.parametrize(
    ("tool", "conversation", "arguments", "error_class"),
    [
        ("search_records", "", {"query": "a"}, "no_conversation"),
        ("read_records", "", {}, "no_conversation"),
        ("search_records", "mine", {"query": "  "}, "invalid_query"),
        ("search_records", "mine", {"query": "x" * 201}, "invalid_query"),
        ("read_records", "mine", {"record_id": "gone"}, "record_not_found"),
    ],
)
async def test_a_look_that_cannot_be_says_why(
    tool: str, conversation: str, arguments: dict[str, str], error_class: str
) -> None:
    """As a failure without an effect, with its class and no row."""
    store = MemoryRecords()
    await store.add("mine", TALK[0])
    result = await look(store, tool, conversation, **arguments)
    assert (result.status, result.effect, result.error_class, result.output) == ("failed", "none", error_class, "")
    assert result.diagnostic


LINES = """{"record": {"record_id": "r1", "at": "2026-09-24T18:01:00+08:00", "source": "allen", "text": "hi"}}

{"record": {"record_id": "r2", "at": "2026-09-24T18:02:00+08:00", "source": "jarvis", "text": "hello"}}
{"summary": {"anchor": "r1", "text": "so far"}}
{"heard": {"record_id": "r2", "kind": "interrupted", "at": "2026-09-24T18:03:00+08:00"}}
"""


async def test_a_file_is_told_once() -> None:
    """Its parts in their order; told again it adds nothing."""
    store, parts = MemoryRecords(), read_parts(LINES)
    assert await tell(store, "mine", parts) == 4
    assert await tell(store, "mine", parts) == 0
    view = await store.view("mine")
    assert [row.text for row in view.records] == ["hi", "hello"]
    assert (view.summary, len(view.heard)) == (Summary("r1", "so far"), 1)


@pytest.mark.parametrize(
    ("line", "why"),
    [
        ("{", "not JSON"),
        ("[]", "an object with one key"),
        ('{"event": {}}', "one of record, summary, heard"),
        ('{"record": {"record_id": "r1"}}', "lacks a field"),
        ('{"record": {"record_id": "r1", "at": "now", "source": "a", "text": ""}}', "RFC 3339"),
        ('{"record": {"record_id": "r1", "at": "2026-09-24T18:01:00", "source": "a", "text": ""}}', "with an offset"),
        (
            '{"record": {"record_id": "r1", "at": "2026-09-24T18:01:00Z", "source": "a b", "text": ""}}',
            "source must be",
        ),
        ('{"record": {"record_id": "r\\u0007", "at": "2026-09-24T18:01:00Z", "source": "a", "text": ""}}', "printable"),
        ('{"record": {"record_id": 7, "at": "", "source": "a", "text": ""}}', "an object of texts"),
        ('{"summary": {"anchor": "r1", "text": "", "more": ""}}', "unknown"),
        ('{"heard": {"record_id": "r1", "kind": "seen", "at": "2026-09-24T18:01:00Z"}}', "kind must be one of"),
        ('{"heard": {"record_id": "r1", "kind": "played", "at": "2026-09-24T18:01:00Z"}}', "text_sha256"),
    ],
)
def test_a_line_that_cannot_be_used_is_named(line: str, why: str) -> None:
    """By its number and its reason; nothing of the file is used."""
    with pytest.raises(TellError, match=f"^line 2: .*{why}"):
        read_parts(f"{LINES.splitlines()[0]}\n{line}")


async def test_the_command_writes_to_the_database(
    postgres_url: str, talk_id: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """It says how much was new; a broken file writes nothing and says so."""
    monkeypatch.setenv("KERNEL_DATABASE_URL", postgres_url)
    good, bad = tmp_path / "good.jsonl", tmp_path / "bad.jsonl"
    good.write_text(LINES)
    bad.write_text(LINES.replace("r1", "r9") + "{")
    assert await main(["--conversation", talk_id, str(bad)]) == 2
    assert "nothing was written: line 6: it is not JSON" in capsys.readouterr().err
    assert await main(["--conversation", talk_id, str(good)]) == 0
    assert await main(["--conversation", talk_id, str(good)]) == 0
    assert capsys.readouterr().out == "4 added, 0 were there\n0 added, 4 were there\n"
    store = await PostgresRecords.open(postgres_url)
    try:
        assert [row.record_id for row in (await store.view(talk_id)).records] == ["r1", "r2"]
    finally:
        await store.close()
