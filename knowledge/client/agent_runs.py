"""What the MCP server remembers: under each key the runs of its agents, and what each of them has been given.

A run an agent has no name for gets one here, is told to Observation as begun, and as ended when its session ends or
nobody has asked in it for a while. All of it is bounded, and no key sees another's runs. (Seed 001 §7, §13.)
"""

import hashlib
import logging
import secrets
import time
from collections import OrderedDict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import anyio
import httpx
from anyio.abc import TaskGroup

from contract.hint_api import RUN_PART
from knowledge.client.async_observation import AsyncObservation
from knowledge.client.failures import ObservationError, ObservationRefused
from knowledge.client.hint import Hint
from knowledge.client.search_events import ended_event

logger = logging.getLogger(__name__)

KEYS: Final = 1_000
RUNS_OF_A_KEY: Final = 100
HINTS_OF_A_RUN: Final = 200
IDLE_SECONDS: Final = 1_800.0
SWEEP_SECONDS: Final = 60.0
GOODBYE_SECONDS: Final = 1.5  # for all that is still to be told when the server ends; clients wait about two
SEARCH_SECONDS: Final = 5.0


@dataclass(slots=True)
class AgentRun:
    """One agent's run. `ours` are those that were given their id here."""

    run_id: str
    ours: bool
    prefix: str
    n_searches: int = 0
    started: bool = False
    hints: OrderedDict[str, Hint] = field(default_factory=OrderedDict)
    last_used: float = 0.0

    def next_activation(self) -> str:
        self.n_searches += 1
        return f"{self.run_id[:RUN_PART]}:{self.prefix}{self.n_searches}"

    def issued(self) -> tuple[str, ...]:
        """Return the items whose text the agent was given in this run."""
        return tuple(dict.fromkeys(hint.knowledge_id for hint in self.hints.values()))

    def keep(self, hints: Sequence[Hint]) -> None:
        """Remember what was given; of very much the oldest is forgotten, and may be given again."""
        self.hints.update((hint.hint_id, hint) for hint in hints)
        while len(self.hints) > HINTS_OF_A_RUN:
            self.hints.popitem(last=False)


@dataclass(slots=True)
class Caller:
    """One key: its way to Observation and its runs, by id; `sessions` names the run of each MCP session."""

    client: AsyncObservation
    runs: OrderedDict[str, AgentRun] = field(default_factory=OrderedDict)
    sessions: dict[str, str] = field(default_factory=dict)
    may_report: bool = True

    def hint(self, hint_id: str) -> Hint | None:
        """Return a hint that was given under this key."""
        return next((run.hints[hint_id] for run in self.runs.values() if hint_id in run.hints), None)

    def forget(self, run_id: str) -> AgentRun:
        run = self.runs.pop(run_id)
        self.sessions = {name: kept for name, kept in self.sessions.items() if kept != run_id}
        return run


class AgentRuns:
    """All callers of one server. Events are told in the background, within the life of `tasks`."""

    def __init__(self, url: str, connections: httpx.AsyncClient, tasks: TaskGroup) -> None:
        self._url = url
        self._connections = connections
        self._tasks = tasks
        self._callers: OrderedDict[str, Caller] = OrderedDict()
        self._telling: set[anyio.Event] = set()

    def known(self, key: str) -> Caller | None:
        """Return what is known under a key, or None."""
        return self._callers.get(_digest(key))

    def caller(self, key: str) -> Caller:
        """Return what is known under a key, from now on. Raises ValueError for what cannot be one."""
        digest = _digest(key)
        caller = self._callers.get(digest)
        if caller is None:
            client = AsyncObservation(
                self._url, key, timeout=SEARCH_SECONDS, strict=True, connections=self._connections
            )
            caller = self._callers[digest] = Caller(client)
            if len(self._callers) > KEYS:
                self._end(self._callers.popitem(last=False)[1])
        self._callers.move_to_end(digest)
        return caller

    def run_of(self, caller: Caller, session: str, named: str) -> AgentRun:
        """Return the run a search belongs to: the one named, else that of the session, else a new one."""
        run_id = named or caller.sessions.get(session, "")
        run = caller.runs.get(run_id)
        if run is None:
            run = AgentRun(named, False, f"{secrets.token_hex(3)}s") if named else _new_run()
            caller.runs[run.run_id] = run
            if len(caller.runs) > RUNS_OF_A_KEY:
                self._leave(caller, next(iter(caller.runs)))
            if session and not named:
                caller.sessions[session] = run.run_id
        caller.runs.move_to_end(run.run_id)
        run.last_used = time.monotonic()
        return run

    def refuse(self, caller: Caller, run: AgentRun) -> None:
        """Forget what a refused key has begun: keys that are none take no room from others."""
        if not run.started and run.run_id in caller.runs:
            caller.forget(run.run_id)
        if not caller.runs:
            self._callers = OrderedDict((name, one) for name, one in self._callers.items() if one is not caller)

    def tell(self, caller: Caller, events: Sequence[Mapping[str, Any]]) -> None:
        """Send events in the background: an agent never waits for telemetry."""
        if events and caller.may_report:
            done = anyio.Event()
            self._telling.add(done)
            self._tasks.start_soon(self._tell, caller, events, done)

    async def _tell(self, caller: Caller, events: Sequence[Mapping[str, Any]], done: anyio.Event) -> None:
        try:
            await caller.client.send(events)
        except ObservationError as error:
            if isinstance(error, ObservationRefused) and error.status == 403:
                caller.may_report = False
            logger.warning("%d events of a run were not stored: %s", len(events), error)
        finally:
            self._telling.discard(done)
            done.set()

    async def sweep(self) -> None:
        """End runs nobody asks in any more, for ever."""
        while True:
            await anyio.sleep(SWEEP_SECONDS)
            self.end_idle(time.monotonic() - IDLE_SECONDS)

    def end_idle(self, since: float) -> None:
        """End the runs that were last used before `since`, and forget the keys without runs."""
        for digest, caller in list(self._callers.items()):
            for run_id in [run.run_id for run in caller.runs.values() if run.last_used < since]:
                self._leave(caller, run_id)
            if not caller.runs:
                del self._callers[digest]

    async def end_all(self) -> None:
        """End every run, and wait until all is told or the time for it is over."""
        for caller in self._callers.values():
            self._end(caller)
        with anyio.move_on_after(GOODBYE_SECONDS, shield=True):
            for done in list(self._telling):
                await done.wait()

    def _end(self, caller: Caller) -> None:
        for run_id in list(caller.runs):
            self._leave(caller, run_id)

    def _leave(self, caller: Caller, run_id: str) -> None:
        run = caller.forget(run_id)
        if run.ours and run.started:
            self.tell(caller, [ended_event(run.run_id)])


def _digest(key: str) -> str:
    return hashlib.sha256(key.encode()).hexdigest()


def _new_run() -> AgentRun:
    return AgentRun(f"mcp-{secrets.token_hex(6)}", True, "s")
