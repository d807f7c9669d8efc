"""What the MCP server remembers is bounded, ends, and is each key's own."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import anyio

from knowledge.client.agent_runs import HINTS_OF_A_RUN, KEYS, RUNS_OF_A_KEY, AgentRun, AgentRuns
from knowledge.client.exchange import open_connections
from knowledge.client.hint import Hint
from tests.kernel.http_server import Answer, Asked, LocalServer, local_server

KEY = "tk_0a1b2c3d_secret"


def hint(number: int) -> Hint:
    return Hint(f"h{number}", f"k{number}", 1, "p", "confirmed", "r", "a")


def stored(asked: Asked) -> Answer:
    return Answer(body={"rejected": []})


@asynccontextmanager
async def remembering(url: str) -> AsyncIterator[AgentRuns]:
    async with open_connections() as connections, anyio.create_task_group() as tasks:
        yield AgentRuns(url, connections, tasks)
        tasks.cancel_scope.cancel()


def told(server: LocalServer, kind: str) -> list[str]:
    events = [event for asked in server.asked for event in asked.body["events"]]
    return [event["run_id"] for event in events if event["type"] == kind]


def begun(runs: AgentRuns, key: str = KEY, session: str = "") -> AgentRun:
    run = runs.run_of(runs.caller(key), session, "")
    run.started = True
    return run


async def test_ends_are_told_once_and_only_of_runs_that_began_here() -> None:
    """A run that began here is told as ended; one with a name of its own, and one without a search, is not."""
    with local_server(stored) as server:
        async with remembering(server.url) as runs:
            ours = begun(runs)
            caller = runs.caller(KEY)
            runs.run_of(caller, "", "theirs").started = True
            runs.run_of(caller, "other", "")
            await runs.end_all()
            await runs.end_all()
    assert told(server, "run.completed") == [ours.run_id]


async def test_idle_runs_end_and_their_key_is_forgotten() -> None:
    """What nobody uses any more goes; what was used since stays with its key."""
    with local_server(stored) as server:
        async with remembering(server.url) as runs:
            old = begun(runs, session="s")
            middle = time.monotonic()
            new = begun(runs, "tk_another_key_of_it")
            new.last_used = middle + 1
            runs.end_idle(middle + 0.5)
            assert runs.known(KEY) is None
            kept = runs.known("tk_another_key_of_it")
            assert kept is not None and list(kept.runs) == [new.run_id]
            await server.until_asked()
    assert told(server, "run.completed") == [old.run_id]


async def test_memory_is_bounded() -> None:
    """The longest unused goes first: of runs, of keys, of hints; a session whose run is gone begins another."""
    with local_server(stored) as server:
        async with remembering(server.url) as runs:
            first = begun(runs, session="s")
            made = [begun(runs) for _ in range(RUNS_OF_A_KEY)]
            caller = runs.caller(KEY)
            assert list(caller.runs) == [run.run_id for run in made]
            assert runs.run_of(caller, "s", "").run_id != first.run_id
            first.keep([hint(number) for number in range(HINTS_OF_A_RUN + 3)])
            assert first.issued()[0] == "k3" and len(first.issued()) == HINTS_OF_A_RUN
            for number in range(KEYS):
                begun(runs, f"tk_key_number_{number}")
            assert runs.known(KEY) is None and runs.known("tk_key_number_0") is not None


async def test_refused_keys_take_no_room() -> None:
    """A key that Observation refuses leaves neither run nor key, and ends nobody else's."""
    async with remembering("http://127.0.0.1:9") as runs:
        mine = begun(runs)
        for number in range(KEYS + 5):
            caller = runs.caller(f"tk_nobodys_key_{number}")
            runs.refuse(caller, runs.run_of(caller, "s", ""))
        assert runs.known("tk_nobodys_key_7") is None
        kept = runs.known(KEY)
        assert kept is not None and list(kept.runs) == [mine.run_id]
        runs.refuse(kept, mine)  # one that went well before is remembered
        assert list(kept.runs) == [mine.run_id]


async def test_a_run_given_a_name_again_makes_other_activations() -> None:
    """After a restart the ids of the same run do not meet those from before, which would bring the old answers back."""
    ids: set[str] = set()
    for _ in range(2):
        async with remembering("http://127.0.0.1:9") as runs:
            run = runs.run_of(runs.caller(KEY), "", "r" * 200)
            ids |= {run.next_activation() for _ in range(3)}
    assert len(ids) == 6 and all(len(name) <= 190 for name in ids)


async def test_goodbye_takes_no_longer_than_it_may() -> None:
    """A silent Observation does not keep the server from ending."""
    with local_server(lambda _: Answer(silent=True)) as server:
        async with asyncio.timeout(60), remembering(server.url) as runs:
            begun(runs)
            await runs.end_all()
            assert runs.known(KEY) is not None and not runs.caller(KEY).runs


async def test_one_callers_cookie_is_not_anothers() -> None:
    """Connections are shared by keys; what a server sets on one of them goes back with none."""
    cookies: list[Any] = []

    def answer(asked: Asked) -> Answer:
        cookies.append(asked.headers.get("cookie"))
        return Answer(body={"rejected": []}, headers={"Set-Cookie": "who=alpha"})

    with local_server(answer) as server:
        async with remembering(server.url) as runs:
            for key in (KEY, "tk_another_key_of_it"):
                await runs.caller(key).client.send([{"event_id": "e", "run_id": "r", "type": "thinking", "data": {}}])
    assert cookies == [None, None]
    assert [asked.headers["authorization"] for asked in server.asked] == [
        f"Bearer {KEY}",
        "Bearer tk_another_key_of_it",
    ]
