"""The escalations of a project: runs that ended in an ask for a person, and what was decided of them.

Which runs those are is what the fold derived; what was asked, and of whom, stands in the event that ended the run.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final

import orjson
from django.db import connection
from django.db.models import Exists, OuterRef

from debugger.access import GuardedRun
from debugger.models import EscalationDecision
from debugger.queries.event_detail import visible
from debugger.queries.pieces import counted, one_line, said
from debugger.queries.runs import COUNTED, DECIDED, ESCALATED, PAGE, TASK_SHOWN, UNDECIDED, moment
from ingest.journal import JournalEvent
from ingest.models import Event, Run
from knowledge.models import RunSummary
from knowledge.run_clauses import Clause
from knowledge.run_filters import RunFilter
from knowledge.run_pages import count_runs, page_of

EVENT_TYPE: Final = "run.escalated"
SHOWN: Final = {"open": "open", "decided": "decided", "all": "all"}
MORE: Final[Mapping[str, tuple[Clause, ...]]] = {"open": (UNDECIDED,), "decided": (DECIDED,), "all": ()}
NAV_MOST: Final = 99  # open ones counted beside the page's name; beyond it "99+"
TEXT_SHOWN: Final = 4_000
TOOL_NAME: Final = re.compile(r"[A-Za-z0-9_-]{1,128}")  # what model providers accept
LAST_READ: Final = 1_000  # events looked at for each run of a page
REFUSED_READ: Final = 1_000  # refused calls looked at for names to propose

# Each run's end is looked for from its last event back: it is among the last, and no long run is read as a whole.
LAST_ENDS: Final = """
SELECT given.run_id, ended.event_id, ended.task_id, ended.actor_id, ended.occurred_ns, ended.data
FROM unnest(%s::text[], %s::date[]) AS given(run_id, run_day)
CROSS JOIN LATERAL (
    SELECT * FROM (
        SELECT event_id, task_id, actor_id, occurred_ns, data, type, arrival FROM ingest_event
        WHERE project_id = %s AND run_day = given.run_day AND run_id = given.run_id
        ORDER BY arrival DESC LIMIT %s
    ) last
    WHERE last.type = %s ORDER BY last.arrival DESC LIMIT 1
) ended
"""


@dataclass(frozen=True, slots=True)
class Asked:
    """What the run's last event says: who is asked for what, and for whom a grant would hold.

    `n_denied` counts the calls after the ask, None when it is not told; `at` is None for a clock that cannot be.
    """

    event_id: str
    reason: str
    reviewer: str
    n_denied: int | None
    at: datetime | None
    task_id: str
    actor_id: str

    @property
    def holds_for(self) -> str:
        """For which runs a grant would hold, in words; "" when no later run could fit."""
        if self.task_id:
            return f"task {self.task_id}"
        return f"actor {self.actor_id}, where they name no task" if self.actor_id else ""


@dataclass(frozen=True, slots=True)
class Escalation:
    """One escalated run; `reason` is what the fold kept of it where its event was not found.

    `asked` is None then; `decision` is None while it is open.
    """

    run_id: str
    task: str
    agent: str
    reason: str
    first_seen: datetime
    asked: Asked | None
    decision: EscalationDecision | None


@dataclass(frozen=True, slots=True)
class EscalationList:
    """One page. `n_matching` is None beyond COUNTED."""

    lines: tuple[Escalation, ...]
    next: str | None
    n_matching: int | None


def list_escalations(project_id: int, show: str, cursor: str = "") -> EscalationList:
    """Return one page of the escalated runs, newest first; `show` is a word of SHOWN. Four queries at most.

    Raises IngestError for a cursor that is none of ours.
    """
    wanted, more = RunFilter(status=ESCALATED), MORE[show]
    page = page_of(project_id, wanted, cursor, PAGE, *more)
    n_found = None if cursor else page.n_found
    n_matching = count_runs(project_id, wanted, COUNTED, *more) if n_found is None else n_found
    return EscalationList(lines_of(project_id, page.rows), page.next, n_matching)


def lines_of(project_id: int, runs: Sequence[Run]) -> tuple[Escalation, ...]:
    """Return escalated runs as lines. Two queries, none without a run."""
    asked = _ends_of(project_id, runs, LAST_READ)
    decisions = _decisions_of(project_id, [run.run_id for run in runs])
    return tuple(_line(run, asked.get(run.run_id), decisions.get(run.run_id)) for run in runs)


def n_open(project_id: int) -> int:
    """Return how many escalations nobody has decided, counted up to one more than NAV_MOST. One query."""
    asked = RunSummary.objects.filter(project_id=project_id, status=ESCALATED)
    return asked.filter(~_is_decided(project_id)).values("run_id")[: NAV_MOST + 1].count()


def _is_decided(project_id: int) -> Exists:
    return Exists(EscalationDecision.objects.filter(project_id=project_id, run_id=OuterRef("run_id")))


def _line(run: Run, asked: Asked | None, decision: EscalationDecision | None) -> Escalation:
    derived: Any = run
    task = one_line(visible(derived.task or ""), TASK_SHOWN)
    reason = asked.reason if asked else visible(derived.status_reason or "")
    return Escalation(run.run_id, task, derived.agent or "", reason, run.first_received_at, asked, decision)


def _ends_of(project_id: int, runs: Sequence[Run], most: int | None = None) -> dict[str, Asked]:
    if not runs:
        return {}
    with connection.cursor() as cursor:
        given = [run.run_id for run in runs], [run.run_day for run in runs]
        cursor.execute(LAST_ENDS, [*given, project_id, most, EVENT_TYPE])
        rows = cursor.fetchall()
    return {
        run_id: read_asked(event_id, task_id, actor_id, occurred_ns, orjson.loads(data))
        for run_id, event_id, task_id, actor_id, occurred_ns, data in rows
    }


def _decisions_of(project_id: int, run_ids: Sequence[str]) -> dict[str, EscalationDecision]:
    if not run_ids:
        return {}
    found = EscalationDecision.objects.filter(project_id=project_id, run_id__in=run_ids)
    return {decision.run_id: decision for decision in found}


def escalation_of(run: GuardedRun, events: Sequence[JournalEvent] | None = None) -> Escalation | None:
    """Return the escalation a run ended in, None when it did not. One query for a run that did; two without `events`.

    A run that was not folded yet has not ended for this.
    """
    summary = run.summary
    if summary is None or summary.status != ESCALATED:
        return None
    project_id, registry = run.project.pk, run.registry
    if events is None:
        asked = _ends_of(project_id, [registry]).get(registry.run_id)
    else:
        ends = [event for event in events if event.type == EVENT_TYPE]
        last = max(ends, key=lambda event: event.arrival, default=None)
        asked = read_asked(last.event_id, last.task_id, last.actor_id, last.occurred_ns, last.data) if last else None
    decision = _decisions_of(project_id, [registry.run_id]).get(registry.run_id)
    task, reason = visible(summary.task)[:TEXT_SHOWN], asked.reason if asked else visible(summary.status_reason)
    return Escalation(registry.run_id, task, summary.agent, reason, registry.first_received_at, asked, decision)


def read_asked(
    event_id: str, task_id: str | None, actor_id: str | None, occurred_ns: int, data: Mapping[str, Any]
) -> Asked:
    """Return what an event of EVENT_TYPE says. Pure; a sender's field of another type counts as absent."""
    return Asked(
        event_id=event_id,
        reason=visible(said(data, "reason"))[:TEXT_SHOWN],
        reviewer=visible(said(data, "reviewer")),
        n_denied=counted(data, "n_denied"),
        at=moment(occurred_ns),
        task_id=task_id or "",
        actor_id=actor_id or "",
    )


def refused_names(run: GuardedRun) -> tuple[str, ...]:
    """Return the tools that the run called and was not offered, those that can be granted. One query."""
    registry = run.registry
    refused = Event.objects.filter(
        project_id=run.project.pk, run_day=registry.run_day, run_id=registry.run_id, type="tool.blocked"
    )
    rows = refused.values_list("tool", "data")[:REFUSED_READ]
    names = {tool for tool, data in rows if said(data, "code") == "tool_unavailable"}
    return tuple(sorted(name for name in names if name and TOOL_NAME.fullmatch(name)))
