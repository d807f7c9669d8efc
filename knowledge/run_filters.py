"""Which runs a person or program asked for: the filters, their one queryset, and pages of it by a stable cursor.

The list starts from the run registry, so that a run is in it from its first event; what the fold derives is
joined to it and is None while it has not been derived. Newest first by the time we first heard of a run: the
sender's clock may be wrong and would let runs vanish or the cursor slip.

How each filter is served: status, tool, mcp_server, drop_reason and knowledge_id by an index of their own; since,
until and the order by `ingest_run_recent`; trigger by `activation_by_trigger` or by the key of the activations, run
by run; has_injection, agent and text are checked run by run in the order of the list, which ends as soon as the page
is full.
"""

from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from django.db import connection
from django.db.models import Exists, F, OuterRef, Q, QuerySet, TextField, Value
from django.db.models.functions import Coalesce

from contract import stages
from ingest.cursors import make_cursor, read_cursor
from ingest.errors import IngestError
from ingest.models import Run
from ingest.parameters import FLAGS, MOMENT_FORM, TEXT_FORM, is_text, parse_moment
from knowledge.models import Activation, Candidate, RunSummary

RUNNING: Final = "running"
WORDS: Final = {"status": stages.RUN_STATUSES, "drop_reason": stages.DROP_REASONS}
MOST_TRIGGERS: Final = 100  # offered as choices of the filter
JOINED: Final = tuple(
    field.attname
    for field in RunSummary._meta.concrete_fields
    if field.attname not in ("project_id", "run_id", "status", "folded_arrival", "first_received_at", "facets")
)


@dataclass(frozen=True, slots=True)
class RunFilter:
    """What must hold of a run; an empty text and None ask for nothing. All that is asked must hold.

    `trigger`, `drop_reason` and `knowledge_id` ask for at least one such activation or candidate in the run, `tool`
    and `mcp_server` for at least one call, `text` for a part of the task in any case of letters or for the run's id;
    `since` is inclusive, `until` exclusive, both compared with the time the run was first received.
    """

    status: str = ""
    trigger: str = ""
    tool: str = ""
    mcp_server: str = ""
    drop_reason: str = ""
    knowledge_id: str = ""
    agent: str = ""
    text: str = ""
    has_injection: bool | None = None
    since: datetime | None = None
    until: datetime | None = None


FILTER_NAMES: Final = tuple(field.name for field in fields(RunFilter))


@dataclass(frozen=True, slots=True)
class RunPage:
    """Rows of one page, newest first, and the cursor of the next one (None at the end)."""

    rows: tuple[Run, ...]
    next: str | None


def parse_filter(params: Mapping[str, str]) -> RunFilter:
    """Return the filter that `params` (texts, as in a URL) ask for; empty values ask for nothing.

    Raises IngestError (400) naming the parameter that is unknown or whose value cannot be.
    """
    values: dict[str, Any] = {}
    for name, raw in params.items():
        if name not in FILTER_NAMES:
            known = ", ".join(FILTER_NAMES)
            raise IngestError("unknown_filter", 400, f"unknown filter {name[:50]!r}; known are {known}", field=name)
        if raw:
            values[name] = _parse_value(name, raw)
    return RunFilter(**values)


def _parse_value(name: str, raw: str) -> str | bool | datetime:
    if name in WORDS and raw not in WORDS[name]:
        raise _invalid(name, f"one of: {', '.join(WORDS[name])}")
    if name == "trigger" and (problem := stages.trigger_problem(raw)) is not None:
        raise _invalid(name, problem.removeprefix("must be "))
    if name == "has_injection":
        if raw not in FLAGS:
            raise _invalid(name, "true or false")
        return FLAGS[raw]
    if name in ("since", "until"):
        return _parse_time(name, raw)
    if not is_text(raw):
        raise _invalid(name, TEXT_FORM)
    return raw


def _parse_time(name: str, raw: str) -> datetime:
    moment = parse_moment(raw)
    if moment is None:
        raise _invalid(name, MOMENT_FORM)
    return moment


def _invalid(name: str, must: str) -> IngestError:
    return IngestError("invalid_filter", 400, f"{name} must be {must}", field=name)


def all_runs(project_id: int) -> QuerySet[Run]:
    """Return the project's runs with the fields of their RunSummary as attributes, None while not folded.

    `status` is then running, and `folded_arrival` against `last_arrival` tells how far the fold is behind.
    """
    joined = {name: F(f"summary__{name}") for name in JOINED}
    status = Coalesce(F("summary__status"), Value(RUNNING), output_field=TextField())
    return Run.objects.filter(project_id=project_id).annotate(**joined, status=status)


def filter_runs(project_id: int, wanted: RunFilter) -> QuerySet[Run]:
    """Return the runs of `all_runs` that `wanted` asks for, newest first."""
    runs = all_runs(project_id).annotate(folded_status=F("summary__status")).filter(_on_run(wanted))
    return _with_chain(runs, project_id, wanted).order_by("-first_received_at", "-run_id")


def _on_run(wanted: RunFilter) -> Q:
    """Return what the run's own fields must hold."""
    must = Q()
    if wanted.status:
        open_too = Q(folded_status=None) if wanted.status == RUNNING else Q()
        must &= Q(folded_status=wanted.status) | open_too
    if wanted.has_injection is not None:
        must &= Q(n_injected__gt=0) if wanted.has_injection else Q(n_injected=0) | Q(n_injected=None)
    if wanted.text:
        must &= Q(task__icontains=wanted.text) | Q(run_id=wanted.text)
    lookups = {
        "agent": wanted.agent,
        "tools__contains": [wanted.tool] if wanted.tool else None,
        "mcp_servers__contains": [wanted.mcp_server] if wanted.mcp_server else None,
        "first_received_at__gte": wanted.since,
        "first_received_at__lt": wanted.until,
    }
    return must & Q(**{name: value for name, value in lookups.items() if value})


def _with_chain(runs: QuerySet[Run], project_id: int, wanted: RunFilter) -> QuerySet[Run]:
    same_run = {"project_id": project_id, "run_id": OuterRef("run_id")}
    if wanted.trigger:
        runs = runs.filter(Exists(Activation.objects.filter(**same_run, trigger=wanted.trigger)))
    if wanted.drop_reason:
        runs = runs.filter(Exists(Candidate.objects.filter(**same_run, drop_reason=wanted.drop_reason)))
    if wanted.knowledge_id:
        runs = runs.filter(Exists(Candidate.objects.filter(**same_run, knowledge_id=wanted.knowledge_id)))
    return runs


TRIGGERS_OF: Final = """
SELECT trigger FROM (
    WITH RECURSIVE found(trigger) AS (
        (
            SELECT trigger FROM knowledge_activation
            WHERE project_id = %(project)s AND trigger > '' ORDER BY trigger LIMIT 1
        )
        UNION ALL
        SELECT (
            SELECT trigger FROM knowledge_activation
            WHERE project_id = %(project)s AND trigger > found.trigger ORDER BY trigger LIMIT 1
        ) FROM found WHERE found.trigger IS NOT NULL
    )
    SELECT trigger FROM found WHERE trigger IS NOT NULL LIMIT %(most)s
) listed
"""


def triggers_of(project_id: int) -> list[str]:
    """Return the triggers the project's activations had, at most MOST_TRIGGERS; one step of the index for each."""
    with connection.cursor() as cursor:
        cursor.execute(TRIGGERS_OF, {"project": project_id, "most": MOST_TRIGGERS})
        return [row[0] for row in cursor.fetchall()]


def page_of(runs: QuerySet[Run], cursor: str, limit: int) -> RunPage:
    """Return up to `limit` runs after `cursor` ("" for the first page); one query.

    Runs that arrive meanwhile stand before the cursor and move nothing. Raises IngestError (400) for a cursor that
    is none of ours.
    """
    if cursor:
        moment, run_id = read_cursor(cursor)
        same_moment = Q(first_received_at=moment, run_id__lt=run_id)
        runs = runs.filter(Q(first_received_at__lt=moment) | same_moment, first_received_at__lte=moment)
    rows = tuple(runs[: limit + 1])
    more = len(rows) > limit
    return RunPage(rows[:limit], run_cursor(rows[limit - 1]) if more else None)


def run_cursor(run: Run) -> str:
    """Return the cursor of the runs after `run`: when it was first received, and its id."""
    return make_cursor(run.first_received_at, run.run_id)
