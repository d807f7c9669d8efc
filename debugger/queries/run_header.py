"""The head of a run's page: its facts, its token budget, and what the page must not keep quiet about. Pure."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Final

from contract import stages
from contract.events import TERMINAL_TYPES
from debugger.access import GuardedRun
from debugger.queries.pieces import plural
from debugger.queries.runs import moment
from debugger.queries.timeline import Timeline
from debugger.queries.words import STATE_OF_STATUS
from ingest.journal import JournalEvent
from knowledge.models import Activation
from knowledge.span_searches import AGENT_SEARCH

PRIMING: Final = "task.priming"
LATE_FOLD: Final = timedelta(seconds=60)  # unfolded for longer than this: something is wrong, not only slow


@dataclass(frozen=True, slots=True)
class Segment:
    """A stretch of a meter, in thousandths, with its tone."""

    left: float
    width: float
    tone: str
    label: str = ""


@dataclass(frozen=True, slots=True)
class Budget:
    """Tokens of runtime hints against their limit. `limit` is None when the run did not report one."""

    used: int
    limit: int | None
    priming: int
    segments: tuple[Segment, ...]


@dataclass(frozen=True, slots=True)
class RunHeader:
    """What stands above the timeline. Counts of the chain are None while nothing was folded.

    `n_documents` is what the application's own searches found: no hints, unless it says it used them as such.
    `has_hints` is False for a run of a foreign application that nobody offered any.
    """

    run_id: str
    task: str
    status: str
    meaning: str
    state: str
    reason: str
    agent: str
    model: str
    started_at: datetime
    duration_ms: float
    is_running: bool
    n_turns: int
    n_failed: int | None
    n_activations: int | None
    n_skipped: int | None
    n_offered: int | None
    n_injected: int | None
    n_documents: int
    has_hints: bool
    answer: str
    success: bool | None
    parent_run_id: str
    team_root: str
    budget: Budget
    as_of: datetime | None
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class HeaderFacts:
    """What the head takes from all rows, events and activations of a run."""

    n_turns: int
    duration_ms: float
    n_documents: int
    segments: tuple[Segment, ...]
    task: str
    status: str
    parent_run_id: str
    team_root: str


def build_header(
    run: GuardedRun,
    timeline: Timeline,
    events: Iterable[JournalEvent],
    activations: Sequence[Activation],
    now: datetime,
) -> RunHeader:
    """Return the head of a run. What the fold has not reached yet is taken from the events, or left open."""
    return head_of(run, timeline, read_facts(run, timeline, events, activations), now)


def read_facts(
    run: GuardedRun, timeline: Timeline, events: Iterable[JournalEvent], activations: Sequence[Activation]
) -> HeaderFacts:
    """Return what the head takes from everything that is known of a run."""
    started = next((event for event in events if event.type == "run.started"), None)
    terminal = next((event for event in events if event.type in TERMINAL_TYPES), None)
    named = run.summary or next((event for event in events if event.parent_run_id or event.team_root), None)
    return HeaderFacts(
        n_turns=len({row.turn for row in timeline.rows if row.turn is not None}),
        duration_ms=_duration(timeline),
        n_documents=sum(one.n_retrieved for one in activations if one.trigger == AGENT_SEARCH),
        segments=_segments(_limit(run), activations),
        task=str(started.data.get("task") or "") if started else "",
        status=TERMINAL_TYPES[terminal.type] if terminal else "running",
        parent_run_id=(named.parent_run_id if named else None) or "",
        team_root=(named.team_root if named else None) or "",
    )


def head_of(run: GuardedRun, timeline: Timeline, facts: HeaderFacts, now: datetime) -> RunHeader:
    """Return the head of a run from the facts of all its rows; those of `timeline` itself are not looked at."""
    summary, registry = run.summary, run.registry
    told = timeline.foreign
    if summary is not None:
        status, task = summary.status, summary.task
    elif told is not None:
        status, task = told.status, told.task
    else:
        status, task = facts.status, facts.task
    parent, root = facts.parent_run_id, facts.team_root  # a root that is the parent is named once
    used, priming = (summary.hint_tokens, summary.priming_tokens) if summary else (0, 0)
    budget = Budget(used, _limit(run), priming, facts.segments)
    return RunHeader(
        run_id=registry.run_id,
        task=task,
        status=status,
        meaning=stages.RUN_STATUSES.get(status, status),
        state=STATE_OF_STATUS.get(status, "plain"),
        reason=stages.RUN_LIMITS.get(summary.status_reason, summary.status_reason) if summary else "",
        agent=summary.agent if summary else "",
        model=summary.model if summary else "",
        started_at=moment(timeline.axis.start_ns) or registry.first_received_at,
        duration_ms=facts.duration_ms,
        is_running=status == "running",
        n_turns=max(facts.n_turns, summary.n_turns if summary else 0),
        n_failed=summary.n_tools_failed if summary else None,
        n_activations=summary.n_activations if summary else None,
        n_skipped=summary.n_skipped if summary else None,
        n_offered=summary.n_offered if summary else None,
        n_injected=summary.n_injected if summary else None,
        has_hints=told is None or bool(budget.limit or budget.used or (summary and summary.n_offered)),
        n_documents=facts.n_documents,
        answer=summary.answer if summary else "",
        success=summary.success if summary else None,
        parent_run_id=parent,
        team_root=root if root not in (registry.run_id, parent) else "",
        budget=budget,
        as_of=summary.folded_at if summary else None,
        warnings=_warnings(run, timeline, now),
    )


def _duration(timeline: Timeline) -> float:
    ends = [row.end_ns if row.end_ns is not None else row.start_ns for row in timeline.rows]
    last = max((end for end in ends if timeline.axis.start_ns <= end <= timeline.axis.end_ns), default=0)
    return max(0, last - timeline.axis.start_ns) / 1e6


def _limit(run: GuardedRun) -> int | None:
    limit = run.summary.limits.get("tokens_per_run") if run.summary else None
    return limit if isinstance(limit, int) and not isinstance(limit, bool) and limit > 0 else None


def _segments(limit: int | None, activations: Iterable[Activation]) -> tuple[Segment, ...]:
    """Return the stretches of the meter that the blocks took, in order."""
    segments: list[Segment] = []
    left = 0.0
    for activation in activations:
        if limit is None or activation.trigger == PRIMING or not activation.n_injected or activation.tokens <= 0:
            continue
        width = min(1000 - left, 1000 * activation.tokens / limit)
        tone = "hint" if len(segments) % 2 == 0 else "hint-2"
        segments.append(Segment(round(left, 1), round(width, 1), tone, f"{activation.tokens:,} tokens"))
        left += width
    return tuple(segments)


def _warnings(run: GuardedRun, timeline: Timeline, now: datetime) -> tuple[str, ...]:
    registry = run.registry
    said = []
    if run.gone:
        how = "forgotten by the project's retention" if run.gone.reason == "retention" else "deleted"
        said.append(
            f"An earlier part of this run was {how} on {run.gone.at:%Y-%m-%d}: only what came after it is here."
        )
    lag = registry.last_arrival - registry.folded_arrival
    if lag and now - registry.last_received_at > LATE_FOLD:
        waited = round((now - registry.last_received_at).total_seconds())
        said.append(
            f"{plural(lag, 'event')} not folded for {waited:,} s: the counts and chains below are behind. "
            "Look at the log of the Celery worker."
        )
    elif lag:
        said.append(f"{plural(lag, 'event')} not folded yet: counts and chains follow in a moment.")
    said.extend(timeline.warnings)
    if timeline.n_missing:
        said.append(f"{plural(timeline.n_missing, 'event')} of the sender's numbering did not arrive.")
    if registry.n_conflicts:
        said.append(f"{plural(registry.n_conflicts, 'event')} came again with other content: the first copy is shown.")
    if timeline.repairs:
        words = ", ".join(f"{word} {n:,}" for word, n in sorted(timeline.repairs.items()))
        said.append(f"Events were changed before they were stored: {words}.")
    return tuple(said)
