"""Projects, people and runs for tests of the pages: plain functions over the real write paths."""

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any

from django.contrib.auth.models import User

from ingest.accept import AcceptResult, accept_events
from ingest.models import Membership, Project
from knowledge.chains import refresh_run

START = datetime(2026, 11, 30, 3, 12, 8, tzinfo=UTC)
VERSION = "lexical-entity-topic.v2"
BLOCK = (
    '<temporality.memory activation="{id}" trigger="tool.failed">\n'
    "Experience from earlier runs, found for the failed call of shell (exit_nonzero).\n"
    "- Outside a repository git commands fail: run `git init` in the project folder first.\n"
    "  [confirmed] matched error text · k-17\n"
    "</temporality.memory>"
)


def make_project(slug: str = "alpha") -> Project:
    return Project.objects.get_or_create(slug=slug, defaults={"name": slug.title()})[0]


def make_person(name: str, *projects: Project) -> User:
    """Return a person who is a member of `projects`."""
    person = User.objects.create(username=name)
    for project in projects:
        Membership.objects.create(project=project, user=person)
    return person


def send(project: Project, events: Sequence[dict[str, Any]], *, fold: bool = True) -> AcceptResult:
    """Store wire events as the endpoint does; with `fold` derive the chains as the queue's worker does."""
    result = accept_events(project.pk, events)
    assert not result.rejected, result.rejected
    if fold:
        for run_id in dict.fromkeys(event["run_id"] for event in events):
            refresh_run(project.pk, run_id)
    return result


class Recorder:
    """Writes the events of one run, numbered and a little time apart, as the kernel does."""

    def __init__(self, run_id: str = "r-42", start: datetime = START) -> None:
        self.run_id = run_id
        self.now = start
        self.number = 0
        self.events: list[dict[str, Any]] = []

    def add(self, kind: str, data: dict[str, Any] | None = None, *, after_ms: float = 20, **ids: Any) -> str:
        """Append an event `after_ms` after the one before; return its id."""
        self.now += timedelta(milliseconds=after_ms)
        self.number += 1
        event = {"event_id": f"{self.run_id}:{self.number}", "seq": self.number, **self._envelope(kind, data), **ids}
        self.events.append(event)
        return str(event["event_id"])

    def foreign(self, event_id: str, kind: str, data: dict[str, Any], **ids: Any) -> str:
        """Append an event of somebody else, such as Observation: an id of its own and no number."""
        self.events.append({"event_id": event_id, **self._envelope(kind, data), **ids})
        return event_id

    def _envelope(self, kind: str, data: dict[str, Any] | None) -> dict[str, Any]:
        return {"run_id": self.run_id, "type": kind, "occurred_at": self.now.isoformat(), "data": data or {}}


def typical_run(run_id: str = "r-42", start: datetime = START, *, ended: bool = True) -> list[dict[str, Any]]:
    """Return a run with a failed call that leads to an injected hint, a skipped search, an MCP server's first call."""
    to = Recorder(run_id, start)
    a1, a2, a3 = (f"{run_id}:a{number}" for number in (1, 2, 3))
    task = "Release the parser package"
    limits = {"tokens_per_run": 1600, "tokens_per_activation": 400, "hints_per_activation": 2}
    to.add("run.started", {"task": task, "agent": "scripted", "tools": ["shell", "git_status"], "limits": limits})
    messages = [
        {"role": "system", "text": "Be careful.", "origin": "rules"},
        {"role": "user", "text": task, "origin": "task"},
    ]
    first = _ask(to, 1, messages, n=2, tokens=812)
    failed = _call(to, 1, "c1", "git commit -m release", failed="fatal: not a git repository (or any parent): .git")
    to.add("turn.completed", {"n_calls": 1}, turn=1)
    situation = {
        "situation_key": "5c1f" * 8,
        "situation_class": "77aa" * 8,
        "fingerprint": "fatal: not a git repository",
    }
    block = BLOCK.format(id=a1)
    about = {"activation_id": a1, "tool": "shell", "turn": 1}
    budget = {"activation_tokens": 400, "run_tokens": 1600, "hint_limit": 2}
    asked = {"trigger": "tool.failed", "query": task, "budget": budget, **situation}
    to.add("activation.requested", asked, caused_by=failed, call_id="c1", **about)
    _offers(to, a1, failed)
    done = {
        "trigger": "tool.failed",
        "result": "success",
        "n_retrieved": 4,
        "n_offered": 3,
        "n_selected": 1,
        "n_dropped": 2,
    }
    spent = {"tokens": 96, "tokens_left": 1504, "duration_ms": 18, "block": block, **situation}
    to.add("activation.completed", {**done, **spent}, after_ms=18, caused_by=failed, call_id="c1", **about)
    _deliver(to, a1, 1, "k-17", {"stage": "selected", "tokens": 96})
    _deliver(
        to,
        a1,
        2,
        "k-20",
        {"stage": "dropped", "drop_reason": "activation_tokens", "needed": 212, "left": 188, "limit": 400},
    )
    _deliver(to, a1, 3, "k-03", {"stage": "dropped", "drop_reason": "hint_limit", "needed": 1, "left": 0, "limit": 2})
    new = [
        {
            "role": "assistant",
            "text": "",
            "origin": "model",
            "calls": [{"call_id": "c1", "name": "shell", "arguments": "{}"}],
        },
        {"role": "tool", "text": "exit 128: fatal: not a git repository", "origin": "tool", "call_id": "c1"},
        {"role": "context", "text": block, "origin": "hints"},
    ]
    second = _ask(to, 2, new, n=5, tokens=1104, follows=first, kept=2)
    sent = {"stage": "injected", "tokens": 96, "position": 4, "message_hash": "ab" * 32, "request_event_id": second}
    _deliver(to, a1, 1, "k-17", sent)
    _call(to, 2, "c2", "git init", result="Initialized empty Git repository")
    used = _call(to, 2, "c3", "", result="On branch main", tool="git_status", server="git")
    to.add("turn.completed", {"n_calls": 2}, turn=2)
    first_use = {"activation_id": a2, "tool": "git_status", "mcp_server": "git", "turn": 2, "caused_by": used}
    to.add("activation.requested", {"trigger": "mcp.first_call", "query": task}, **first_use)
    to.add(
        "activation.completed",
        {"trigger": "mcp.first_call", "result": "empty", "n_retrieved": 0},
        after_ms=12,
        **first_use,
    )
    _ask(
        to,
        3,
        [{"role": "tool", "text": "On branch main", "origin": "tool", "call_id": "c3"}],
        n=8,
        tokens=1388,
        follows=second,
        kept=5,
    )
    again = _call(to, 3, "c4", "git commit -m release", failed="fatal: not a git repository (or any parent): .git")
    skipped = {"trigger": "tool.failed", "skip_reason": "duplicate_situation", "same_as": a1, **situation}
    to.add("activation.skipped", skipped, activation_id=a3, tool="shell", turn=3, caused_by=again, call_id="c4")
    if ended:
        to.add("run.completed", {"answer": "Released as 1.0.", "n_turns": 3}, after_ms=300)
    return to.events


def _ask(
    to: Recorder,
    turn: int,
    new: list[dict[str, Any]],
    *,
    n: int,
    tokens: int,
    follows: str | None = None,
    kept: int = 0,
) -> str:
    to.add("turn.started", turn=turn)
    data = {
        "n_messages": n,
        "n_kept": kept,
        "new_messages": new,
        "tokens": tokens,
        **({"follows": follows} if follows else {}),
    }
    asked = to.add("model.requested", data, turn=turn)
    to.add("model.completed", {"duration_ms": 1310, "n_calls": 1}, after_ms=1310, turn=turn, caused_by=asked)
    return asked


def _call(
    to: Recorder,
    turn: int,
    call_id: str,
    command: str,
    *,
    failed: str = "",
    result: str = "",
    tool: str = "shell",
    server: str = "",
) -> str:
    ids = {"turn": turn, "call_id": call_id, "tool": tool, **({"mcp_server": server} if server else {})}
    to.add("tool.requested", {"arguments": f'{{"command": "{command}"}}' if command else "{}"}, after_ms=1, **ids)
    if failed:
        data = {
            "status": "failed",
            "error_class": "exit_nonzero",
            "effect": "uncertain",
            "detail": failed,
            "duration_ms": 41,
        }
        return to.add("tool.failed", data, after_ms=41, **ids)
    return to.add("tool.completed", {"duration_ms": 63, "result": result, "effect": "applied"}, after_ms=63, **ids)


def _offers(to: Recorder, activation_id: str, source: str) -> None:
    found = list(_candidates())
    common = {"trigger": "tool.failed", "source_event_id": source, "algorithm_version": VERSION}
    counts = {
        "matcher": "entity+topic+phrase+terms",
        "n_retrieved": 4,
        "n_offered": 3,
        "result": "success",
        "duration_ms": 6.5,
    }
    to.foreign(
        f"{activation_id}:query", "hint.query", {**common, **counts, "candidates": found}, activation_id=activation_id
    )
    for candidate in found[:3]:
        hint_id = f"{activation_id}:h{candidate['rank']}"
        offered = {name: value for name, value in candidate.items() if name != "knowledge_id"}
        ids = {"activation_id": activation_id, "hint_id": hint_id, "knowledge_id": candidate["knowledge_id"]}
        to.foreign(hint_id, "hint.offered", {**common, **offered}, **ids)


def _candidates() -> Iterator[dict[str, Any]]:
    rules = (
        (
            "k-17",
            "Outside a repository git commands fail: run `git init` in the project folder first.",
            96,
            "confirmed",
            0.82,
        ),
        ("k-20", "A worktree's `.git` is a file; check `GIT_DIR`.", 212, "confirmed", 0.58),
        ("k-03", "Set `user.name` before the first commit.", 64, "proposed", 0.47),
        ("k-31", "Use shallow clones in CI.", 58, "confirmed", 0.22),
    )
    for rank, (knowledge_id, rule, tokens, state, score) in enumerate(rules, 1):
        held = {"hold_reason": "gate"} if rank == len(rules) else {}
        yield {
            "knowledge_id": knowledge_id, "revision": 1, "rank": rank, "proposition": rule, "state": state,
            "tokens": tokens, "scores": {"score": score}, "matched_by": ["error text: not a git repository"], **held,
        }  # fmt: skip


def _deliver(to: Recorder, activation_id: str, rank: int, knowledge_id: str, data: dict[str, Any]) -> None:
    ids = {"activation_id": activation_id, "hint_id": f"{activation_id}:h{rank}", "knowledge_id": knowledge_id}
    to.add("hint.delivery", data, after_ms=0.1, **ids)
