"""Makes many runs of realistic shape as derived rows: words that are common and rare, old and new, long and short."""

import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from knowledge.chain_facts import ActivationFacts, CandidateFacts, RunChain, RunFacts

NEWEST: Final = datetime(2026, 11, 30, tzinfo=UTC)
DAYS: Final = 90
SYLLABLES: Final = (
    "ba",
    "cor",
    "den",
    "fil",
    "gra",
    "hub",
    "ist",
    "jo",
    "ken",
    "lam",
    "mor",
    "net",
    "pul",
    "rus",
    "tek",
    "vo",
)
STATUSES: Final = {"completed": 780, "failed": 120, "limit_reached": 45, "cancelled": 30, "escalated": 20, "running": 5}
TRIGGERS: Final = {"task.priming": 0.6, "tool.failed": 0.5, "mcp.first_call": 0.3, "budget.low": 0.0005}
DROPS: Final = {"hint_limit": 300, "activation_tokens": 200, "already_issued": 80, "holdout": 60, "run_ended": 1}
OUTCOMES: Final = {"": 700, "helpful": 200, "neutral": 90, "harmful": 10}
COMMON_TASK: Final = "Release the parser package and tell the team what has changed since the last release. "
RARE_TASK: Final = "Rechne die Übergabe für das Kraftwerk nach. "
LONG_TASK: Final = 4_000  # characters the fold keeps
UNFOLDED: Final = 0.002  # share of runs of which nothing was derived yet


@dataclass(frozen=True, slots=True)
class MadeRun:
    """One run: when it came, and its chain, None while nothing was derived."""

    run_id: str
    at: datetime
    chain: RunChain | None


class Words:
    """Draws the words of runs, the same for the same seed."""

    def __init__(self, seed: str) -> None:
        self.draw = random.Random(seed)
        vocabulary = {"".join(self.draw.choices(SYLLABLES, k=self.draw.randint(1, 4))) for _ in range(3_000)}
        self.vocabulary = sorted(vocabulary)

    def one_of(self, weights: Mapping[str, int]) -> str:
        return self.draw.choices(list(weights), list(weights.values()))[0]

    def skewed(self, name: str, n: int) -> str:
        """Return one of `n` names: the first ones are common, the last ones rare."""
        return f"{name}-{min(int(self.draw.paretovariate(0.8)), n)}"

    def task(self, place: float) -> str:
        start = COMMON_TASK if self.draw.random() < 0.4 else ""  # noqa: PLR2004
        n_words = 600 if self.draw.random() < 0.01 else self.draw.randint(6, 50)  # noqa: PLR2004
        rest = " ".join(self.draw.choices(self.vocabulary, k=n_words))
        old = " before the move" if place < 0.3 else ""  # noqa: PLR2004 - words that only old runs have
        return (start + rest)[: LONG_TASK - 100] + old


def make_runs(n_runs: int, seed: str) -> Iterator[MadeRun]:
    """Yield the runs, the oldest first."""
    words = Words(seed)
    for number in range(n_runs):
        place = number / n_runs
        at = NEWEST - timedelta(days=DAYS) * (1 - place)
        run_id = f"{seed}-{number:06d}-{words.draw.getrandbits(48):012x}"
        is_folded = words.draw.random() >= UNFOLDED
        rare = number in (n_runs // 10, n_runs // 2)
        yield MadeRun(run_id, at, _chain(words, place, at, rare=rare) if is_folded else None)


def _chain(words: Words, place: float, at: datetime, *, rare: bool) -> RunChain:
    draw = words.draw
    started = int(at.timestamp() * 1e9)
    activations, candidates = _searches(words, place, started)
    status = words.one_of(STATUSES)
    waits = draw.choice(("approval", "question", "", "")) if status == "running" else ""
    run = RunFacts(
        status=status,
        task=(RARE_TASK if rare else "") + words.task(place),
        agent="agent-old" if place < 0.3 and draw.random() < 0.5 else words.skewed("agent", 30),  # noqa: PLR2004
        model="m-large",
        conversation_id=f"talk-{int(place * 1_000)}" if draw.random() < 0.05 else None,  # noqa: PLR2004
        waiting_for=waits,
        started_ns=started,
        ended_ns=None if status == "running" else started + draw.randint(5, 900) * 10**9,
        limits={"tokens_per_run": 1600, "tokens_per_activation": 400, "hints_per_activation": 2},
        answer=" ".join(draw.choices(words.vocabulary, k=20)),
        success=draw.choice((True, False, None)),
        tools=tuple(sorted({words.skewed("tool", 80) for _ in range(draw.randint(1, 6))})),
        mcp_servers=tuple(sorted({words.skewed("server", 15) for _ in range(draw.randint(0, 2))})),
        n_events=draw.randint(20, 400),
        n_turns=draw.randint(1, 40),
        n_tool_calls=draw.randint(1, 60),
        n_tools_failed=draw.randint(0, 5),
        n_activations=len(activations),
        n_offered=sum(one.offered_ns is not None for one in candidates),
        n_injected=sum(one.injected_ns is not None for one in candidates),
        hint_tokens=96,
        model_tokens=draw.randint(2_000, 200_000),
    )
    return RunChain(run, tuple(activations), tuple(candidates))


def _searches(words: Words, place: float, started: int) -> tuple[list[ActivationFacts], list[CandidateFacts]]:
    activations: list[ActivationFacts] = []
    candidates: list[CandidateFacts] = []
    version = "hybrid.v3" if place > 0.6 else "lexical-entity-topic.v2"  # noqa: PLR2004
    for trigger, share in TRIGGERS.items():
        if words.draw.random() >= share:
            continue
        number = len(activations)
        arm = words.draw.choice(("offered", "withheld", "", "")) if place > 0.8 else ""  # noqa: PLR2004
        activations.append(
            ActivationFacts(
                activation_id=f"a{number}", ordinal=number, trigger=trigger, tool=words.skewed("tool", 80), turn=number,
                query=" ".join(words.draw.choices(words.vocabulary, k=15)), algorithm_version=version, arm=arm,
                experiment="exp-1" if arm else "", result="success",
                mcp_server=words.skewed("server", 15) if trigger == "mcp.first_call" else None,
            )
        )  # fmt: skip
        items = {words.skewed("item", 2_000) for _ in range(words.draw.randint(0, 4))}
        candidates += [_candidate(words, f"a{number}", one, started) for one in sorted(items)]
    return activations, candidates


def _candidate(words: Words, activation_id: str, knowledge_id: str, started: int) -> CandidateFacts:
    one = CandidateFacts(
        activation_id=activation_id, knowledge_id=knowledge_id, revision=1, rank=1, state="confirmed",
        proposition="Outside a repository git commands fail: run `git init` in the project folder first.",
        scores={"score": 0.8}, tokens=96, offered_ns=started, hint_id=f"{activation_id}:{knowledge_id}",
    )  # fmt: skip
    if words.draw.random() < 0.3:  # noqa: PLR2004
        return replace(one, injected_ns=started, outcome=words.one_of(OUTCOMES))
    return replace(one, dropped_ns=started, drop_reason=words.one_of(DROPS))


def copy_runs(cursor: Any, project_id: int, runs: Iterator[MadeRun]) -> int:
    """Write the runs and what is derived of them; return how many there are. Columns that are not named stay empty."""
    from knowledge.models import Activation, Candidate, RunSummary  # noqa: PLC0415 - needs the settings

    for model in (RunSummary, Activation, Candidate):
        _give_defaults(cursor, model)
    n_runs = 0
    batch: list[MadeRun] = []
    for run in runs:
        batch.append(run)
        n_runs += 1
        if len(batch) == 5_000:  # noqa: PLR2004
            _copy(cursor, project_id, batch)
            batch.clear()
    _copy(cursor, project_id, batch)
    return n_runs


def _give_defaults(cursor: Any, model: Any) -> None:
    """Give the columns the empty values that the models have in Python."""
    from django.db import connection  # noqa: PLC0415

    empty = {"text": "''", "integer": "0", "bigint": "0", "jsonb": "'{}'", "text[]": "'{}'", "integer[]": "'{}'"}
    for field in model._meta.concrete_fields:
        kind = field.db_type(connection) if field.column else None
        if kind in empty and not field.null:
            cursor.execute(
                f'ALTER TABLE {model._meta.db_table} ALTER COLUMN "{field.column}" SET DEFAULT {empty[kind]}'
            )


def _copy(cursor: Any, project_id: int, batch: Sequence[MadeRun]) -> None:
    from knowledge.run_days import day_of  # noqa: PLC0415 - needs the settings
    from knowledge.run_facets import run_facets  # noqa: PLC0415
    from knowledge.task_grams import task_grams  # noqa: PLC0415

    registry, summaries, activations, candidates = [], [], [], []
    for one in batch:
        folded = 40 if one.chain else 0
        registry.append((project_id, one.run_id, one.at.date(), one.at, one.at + timedelta(minutes=5), 40, folded, 0))
        if one.chain is None:
            continue
        key = {"project_id": project_id, "run_id": one.run_id, "fold_version": "fold.v1"}
        listed = {"facets": run_facets(project_id, day_of(one.at), one.chain), "first_received_at": one.at}
        listed["task_grams"] = task_grams(project_id, day_of(one.at), one.chain.run.task)
        folds = {"folded_arrival": 40, "folded_at": one.at + timedelta(minutes=6)}
        summaries.append({**key, **_told(one.chain.run), **listed, **folds})
        activations += [{**key, **_told(facts)} for facts in one.chain.activations]
        candidates += [{**key, **_told(facts)} for facts in one.chain.candidates]
    names = (
        "project_id, run_id, run_day, first_received_at, last_received_at, last_arrival, folded_arrival, n_conflicts"
    )
    with cursor.copy(f"COPY ingest_run ({names}) FROM STDIN") as copy:
        for row in registry:
            copy.write_row(row)
    for table, rows in (
        ("knowledge_runsummary", summaries), ("knowledge_activation", activations), ("knowledge_candidate", candidates),
    ):  # fmt: skip
        _copy_rows(cursor, table, rows)


def _told(facts: Any) -> dict[str, Any]:
    """Return the fields that are not empty, always the same ones for a class."""
    return {name: getattr(facts, name) for name in WRITTEN[type(facts).__name__]}


WRITTEN: Final = {
    "RunFacts": (
        "status", "task", "agent", "model", "conversation_id", "waiting_for", "started_ns", "ended_ns", "limits",
        "answer",
        "success", "tools", "mcp_servers", "n_events", "n_turns", "n_tool_calls", "n_tools_failed", "n_activations",
        "n_offered", "n_injected", "hint_tokens", "model_tokens",
    ),
    "ActivationFacts": (
        "activation_id", "ordinal", "trigger", "tool", "mcp_server", "turn", "query", "algorithm_version", "arm",
        "experiment", "result",
    ),
    "CandidateFacts": (
        "activation_id", "knowledge_id", "revision", "rank", "state", "proposition", "scores", "tokens", "offered_ns",
        "injected_ns", "dropped_ns", "drop_reason", "outcome", "hint_id",
    ),
}  # fmt: skip


def _copy_rows(cursor: Any, table: str, rows: Sequence[Mapping[str, Any]]) -> None:
    from psycopg.types.json import Jsonb  # noqa: PLC0415

    if not rows:
        return
    with cursor.copy(f"COPY {table} ({', '.join(rows[0])}) FROM STDIN") as copy:
        for row in rows:
            copy.write_row([_value(value, Jsonb) for value in row.values()])


def _value(value: Any, as_json: Any) -> Any:
    if isinstance(value, dict):
        return as_json(value)
    return list(value) if isinstance(value, tuple) else value
