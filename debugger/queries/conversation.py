"""Finds a run's place in its conversation: which turn it is, and the runs of the turns around it."""

from dataclasses import dataclass
from typing import Final

from django.db import connection

from debugger.access import GuardedRun
from ingest.models import Run

TURN: Final = """
SELECT number, n_turns, previous, next FROM (
    SELECT run_id, row_number() OVER place AS number, count(*) OVER () AS n_turns,
           lag(run_id) OVER place AS previous, lead(run_id) OVER place AS next
    FROM knowledge_runsummary WHERE project_id = %s AND conversation_id = %s
    WINDOW place AS (ORDER BY started_ns NULLS LAST, run_id)
) turn WHERE run_id = %s
"""


@dataclass(frozen=True, slots=True)
class Talk:
    """A run as one turn of a conversation, counted from 1 among the runs that are kept; "" where there is no other."""

    conversation_id: str
    number: int
    n_turns: int
    previous_id: str
    next_id: str


def talk_of(run: GuardedRun) -> Talk | None:
    """Return the place of a run in its conversation, None for one that named none. At most one query."""
    name = run.summary.conversation_id if run.summary else None
    if not name:
        return None
    with connection.cursor() as cursor:
        cursor.execute(TURN, [run.project.pk, name, run.registry.run_id])
        found = cursor.fetchone()
    if found is None:
        return None
    number, n_turns, previous, following = found
    return Talk(name, number, n_turns, previous or "", following or "")


def run_before(run: GuardedRun, talk: Talk) -> GuardedRun | None:
    """Return the run of the conversation's turn before, of the same project; one query where there is one."""
    if not talk.previous_id:
        return None
    registry = Run.objects.filter(project_id=run.project.pk, run_id=talk.previous_id).first()
    return GuardedRun(run.project, registry, None) if registry is not None else None
