"""The tables of the pages as files have them: the same filters and order, every column, texts whole."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from debugger.access import GuardedRun
from debugger.exports import Table, pages
from debugger.queries.compare import TurnPairs
from debugger.queries.conformance import Report
from debugger.queries.escalations import MORE, lines_of
from debugger.queries.knowledge_list import ListFilter, read_items
from debugger.queries.rows import Row
from debugger.queries.runs import ESCALATED, Asked, moment, run_lines
from ingest.models import ApiKey, Project, Reject, Run
from knowledge.models import Activation, Candidate
from knowledge.run_filters import RunFilter
from knowledge.run_pages import page_of

AT_ONCE: Final = 500  # rows read with one query
SEARCHES_AT_ONCE: Final = 50  # searches read with their candidates
RUN_COLUMNS: Final = (
    "run_id", "status", "waiting", "task", "agent", "conversation_id", "started_at", "duration_ms", "n_turns",
    "n_tools_failed", "n_activations", "n_offered", "n_injected", "success", "model_tokens", "hint_tokens", "n_events",
    "n_unfolded",
)  # fmt: skip
ITEM_COLUMNS: Final = (
    "knowledge_id", "state", "is_suspended", "kind", "proposition", "topics", "scope", "revision", "n_offered",
    "n_injected", "n_used", "n_helpful", "n_harmful", "updated_at",
)  # fmt: skip
ACTIVATION_COLUMNS: Final = (
    "activation_id", "ordinal", "trigger", "turn", "tool", "mcp_server", "result", "skip_reason", "algorithm_version",
    "arm",
)  # fmt: skip
CANDIDATE_COLUMNS: Final = (
    "knowledge_id", "revision", "rank", "proposition", "state", "matched_by", "scores", "tokens", "hold_reason",
    "hint_id", "drop_reason", "usage_source", "outcome", "outcome_source",
)  # fmt: skip
STAMPS: Final = ("offered", "selected", "injected", "dropped", "used", "ignored")
ESCALATION_COLUMNS: Final = (
    "run_id", "task", "agent", "reason", "reviewer", "n_denied", "asked_at", "verdict", "tools", "note", "decided_by",
    "decided_at",
)  # fmt: skip
REJECT_COLUMNS: Final = ("received_at", "code", "detail", "run_id", "event_id")
PAIR_COLUMNS: Final = (
    "turn", "verdict", "differs", "a_event_id", "a_kind", "a_offset_ms", "a_text", "b_event_id", "b_kind",
    "b_offset_ms", "b_text",
)  # fmt: skip
CELL_COLUMNS: Final = ("condition", "title", "requirement", "column", "column_title", "result", "reason", "attempts")

About = tuple[tuple[str, str], ...]


def asked_of(params: Mapping[str, str]) -> About:
    """Return the filters of an address that a file is of, those that ask for nothing left out."""
    return tuple((name, value) for name, value in params.items() if value and name not in ("form", "cursor"))


def runs_table(project: Project, asked: Asked, about: About) -> Table:
    """Return the runs of the list, newest first."""

    def read(cursor: str) -> tuple[Iterable[Sequence[Any]], str | None]:
        page = page_of(project.pk, asked.runs, cursor, AT_ONCE, *asked.more())
        return list(_run_rows(project.pk, page.rows)), page.next

    return Table(f"{project.slug}-runs", RUN_COLUMNS, pages(read), about)


def _run_rows(project_id: int, runs: Sequence[Run]) -> Iterator[Sequence[Any]]:
    for run, line in zip(runs, run_lines(project_id, runs), strict=True):
        whole = {"task": getattr(run, "task") or ""}  # noqa: B009 - annotated, not declared
        yield [whole[name] if name in whole else getattr(line, name) for name in RUN_COLUMNS]


def items_table(project: Project, wanted: ListFilter, about: About) -> Table:
    """Return the knowledge items of the list, in the order of the page."""

    def read(cursor: str) -> tuple[Iterable[Sequence[Any]], str | None]:
        lines, following = read_items(project.pk, wanted, cursor, AT_ONCE)
        return [[getattr(line, name) for name in ITEM_COLUMNS] for line in lines], following

    return Table(f"{project.slug}-knowledge", ITEM_COLUMNS, pages(read), about)


def candidates_table(run: GuardedRun) -> Table:
    """Return a run's searches in order, each with its candidates by rank; a search without any is one row."""
    stamps = tuple(f"{name}_at" for name in STAMPS)
    columns = (*ACTIVATION_COLUMNS, *CANDIDATE_COLUMNS, *stamps)
    return Table(f"{run.project.slug}-candidates", columns, _candidate_rows(run), (("run_id", run.registry.run_id),))


def _candidate_rows(run: GuardedRun) -> Iterator[Sequence[Any]]:
    own: dict[str, Any] = {"project_id": run.project.pk, "run_id": run.registry.run_id}
    after = -1
    while found := list(Activation.objects.filter(**own, ordinal__gt=after).order_by("ordinal")[:SEARCHES_AT_ONCE]):
        met: dict[str, list[Candidate]] = {one.activation_id: [] for one in found}
        for candidate in Candidate.objects.filter(**own, activation_id__in=list(met)):
            met[candidate.activation_id].append(candidate)
        for one in found:
            head = [getattr(one, name) for name in ACTIVATION_COLUMNS]
            by_rank = sorted(met[one.activation_id], key=lambda it: (it.rank is None, it.rank or 0, it.knowledge_id))
            for candidate in by_rank:
                yield head + [getattr(candidate, name) for name in CANDIDATE_COLUMNS] + _stamps(candidate)
            if not by_rank:
                yield head + [None] * (len(CANDIDATE_COLUMNS) + len(STAMPS))
        after = found[-1].ordinal


def _stamps(candidate: Candidate) -> list[datetime | None]:
    return [moment(getattr(candidate, f"{name}_ns")) for name in STAMPS]


def escalations_table(project: Project, show: str) -> Table:
    """Return the escalations of the list, newest first; `show` is a word of `escalations.SHOWN`."""

    def read(cursor: str) -> tuple[Iterable[Sequence[Any]], str | None]:
        page = page_of(project.pk, RunFilter(status=ESCALATED), cursor, AT_ONCE, *MORE[show])
        return list(_escalation_rows(project.pk, page.rows)), page.next

    return Table(f"{project.slug}-escalations", ESCALATION_COLUMNS, pages(read), (("show", show),))


def _escalation_rows(project_id: int, runs: Sequence[Run]) -> Iterator[Sequence[Any]]:
    for line in lines_of(project_id, runs):
        asked, decision = line.asked, line.decision
        yield (
            line.run_id, line.task, line.agent, line.reason, asked.reviewer if asked else None,
            asked.n_denied if asked else None, (asked.at if asked else None) or line.first_seen,
            *((decision.verdict, decision.tools, decision.note, decision.decided_by, decision.decided_at)
              if decision else (None,) * 5),
        )  # fmt: skip


def rejects_table(key: ApiKey) -> Table:
    """Return what was not stored of what a key sent, the latest first."""

    def read(cursor: str) -> tuple[Iterable[Sequence[Any]], str | None]:
        rows = Reject.objects.filter(api_key=key).order_by("-received_at", "-id")
        found = list(rows[int(cursor or 0) : int(cursor or 0) + AT_ONCE])
        following = str(int(cursor or 0) + AT_ONCE) if len(found) == AT_ONCE else None
        return [[getattr(row, name) for name in REJECT_COLUMNS] for row in found], following

    return Table(f"{key.project.slug}-rejects", REJECT_COLUMNS, pages(read), (("key", key.name),))


def compared_table(project: Project, turns: Iterable[TurnPairs], about: About, *, different: bool) -> Table:
    """Return the rows of two runs beside each other, turn by turn; with `different` those alone that differ."""
    rows = (
        (turn.title, pair.word, pair.differs, *_side(pair.a), *_side(pair.b))
        for turn in turns
        for pair in turn.pairs
        if not different or pair.verdict != "same"
    )
    return Table(f"{project.slug}-compared", PAIR_COLUMNS, rows, about)


def _side(row: Row | None) -> tuple[Any, ...]:
    if row is None:
        return (None,) * 4
    return row.event_id, row.kind, row.offset_ns / 1e6, " ".join(piece.text for piece in row.pieces)


def conformance_table(report: Report) -> Table:
    """Return the cells of the conformance matrix, condition by condition."""
    rows = (
        (one.condition.id, one.condition.title, one.condition.requirement, one.column.id, one.column.title, one.result,
         one.reason, one.attempts)
        for one in report.cells()
    )  # fmt: skip
    return Table("conformance", CELL_COLUMNS, rows, (("world_set", report.world_set),))
