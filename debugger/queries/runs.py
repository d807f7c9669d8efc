"""The run list: filtered rows with what each column shows, the choices of the filter form, and their words."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.utils import timezone

from contract import stages
from debugger.models import EscalationDecision
from debugger.queries.pieces import one_line
from debugger.queries.words import STATE_OF_STATUS
from ingest.errors import IngestError
from ingest.models import Run
from knowledge.run_bodies import duration_ms
from knowledge.run_clauses import Clause, has_words
from knowledge.run_facets import PERSON, run_word
from knowledge.run_filters import RunFilter, parse_filter
from knowledge.run_pages import count_runs, page_of, triggers_of

PAGE: Final = 50  # runs on a page
COUNTED: Final = 10_000  # runs counted exactly; beyond it the page says "more than"
COUNTED_FILTERED: Final = 1_000  # of those that a filter is about
WITHIN: Final = {"hour": timedelta(hours=1), "day": timedelta(days=1), "week": timedelta(days=7)}
TASK_SHOWN: Final = 160
OLDEST: Final = timedelta(days=366)  # a run in progress that says it began earlier has a wrong clock
LAST_NS: Final = 253_402_300_799 * 1_000_000_000  # the end of the year 9999
ESCALATED: Final = "escalated"
ESCALATION: Final = "escalation"
# What a run may wait for here: escalations are decided on these pages, so that only they know which are open.
WAITING: Final = {
    PERSON: "waits for a person, whatever for",
    "approval": "a call needs a yes or a no",
    "question": "the agent asked a question",
    ESCALATION: "it ended in an ask that nobody has decided",
}
DECIDED: Final = Clause(
    "EXISTS (SELECT 1 FROM debugger_escalationdecision decided"
    " WHERE decided.project_id = listed.project_id AND decided.run_id = listed.run_id)"
)
UNDECIDED: Final = Clause(f"NOT {DECIDED.sql}")


@dataclass(frozen=True, slots=True)
class RunLine:
    """One row of the list. Counts are None while nothing of the run was folded. `state` is a tone.

    `waiting` is a word of WAITING, empty for a run that waits for nobody.
    """

    run_id: str
    status: str
    meaning: str
    state: str
    waiting: str
    task: str
    agent: str
    conversation_id: str
    started_at: datetime
    duration_ms: float | None
    is_running: bool
    success: bool | None
    n_turns: int | None
    n_tools_failed: int | None
    n_activations: int | None
    n_injected: int | None
    n_offered: int | None
    model_tokens: int | None
    hint_tokens: int | None
    n_events: int
    n_unfolded: int


@dataclass(frozen=True, slots=True)
class RunList:
    """One page of runs. `n_matching` is None beyond `counted`, which is 0 on pages behind the first."""

    lines: tuple[RunLine, ...]
    next: str | None
    n_matching: int | None
    counted: int = COUNTED

    @property
    def digest(self) -> str:
        """A short hash of what the page shows: the same means that nothing has to be drawn again."""
        return hashlib.sha256(repr((self.lines, self.n_matching)).encode()).hexdigest()[:16]


@dataclass(frozen=True, slots=True)
class Asked:
    """What the list is asked for: the filter of runs, and a word of WAITING of which only the pages know."""

    runs: RunFilter
    waiting: str = ""

    def more(self) -> tuple[Clause, ...]:
        """Return what else must hold."""
        if not self.waiting:
            return ()
        ended_so = has_words([run_word("status", ESCALATED)])
        escalated = Clause(f"({ended_so.sql} AND {UNDECIDED.sql})", ended_so.values)
        if self.waiting == ESCALATION:
            return (escalated,)
        asked = has_words([run_word("waiting", PERSON)])
        return (Clause(f"({asked.sql} OR {escalated.sql})", (*asked.values, *escalated.values)),)


def read_filter(params: Mapping[str, str]) -> Asked:
    """Return the filter of the page's URL parameters; `within` (hour, day, week) stands for a `since`.

    Raises IngestError naming the parameter that is unknown or whose value cannot be.
    """
    asked = {name: value.strip() for name, value in params.items() if name not in PAGE_PARAMETERS}
    within = WITHIN.get(params.get("within", ""))
    if within is not None:
        asked["since"] = (timezone.now() - within).isoformat()
    waiting = asked.get("waiting", "")
    if waiting in (PERSON, ESCALATION):
        return Asked(parse_filter({**asked, "waiting": ""}), waiting)
    if waiting and waiting not in WAITING:
        raise IngestError("invalid_filter", 400, f"waiting must be one of: {', '.join(WAITING)}", field="waiting")
    return Asked(parse_filter(asked))


PAGE_PARAMETERS: Final = ("within", "cursor", "seen", "newest", "fresh", "first")


def list_runs(project_id: int, asked: Asked, cursor: str = "") -> RunList:
    """Return one page of the runs that are asked for, newest first; two queries without a filter, at most five.

    Raises IngestError for a cursor that is none of ours.
    """
    wanted, more = asked.runs, asked.more()
    page = page_of(project_id, wanted, cursor, PAGE, *more)
    counted = COUNTED_FILTERED if wanted.is_of_chain or more else COUNTED
    n_matching = page.n_found if not cursor else None
    if n_matching is None and wanted.text:  # each task would be read whole to count those of a common text
        counted = PAGE
    elif n_matching is None and not cursor:
        n_matching = count_runs(project_id, wanted, counted, *more)
    return RunList(run_lines(project_id, page.rows), page.next, n_matching, 0 if cursor else counted)


def run_lines(project_id: int, runs: Sequence[Run]) -> tuple[RunLine, ...]:
    """Return runs of `all_runs` as lines. One query where one of them escalated, otherwise none."""
    escalated = [run.run_id for run in runs if getattr(run, "status") == ESCALATED]  # noqa: B009 - annotated
    decisions = EscalationDecision.objects.filter(project_id=project_id, run_id__in=escalated)
    waiting = set(escalated) - set(decisions.values_list("run_id", flat=True)) if escalated else set()
    return tuple(_line(run, is_undecided=run.run_id in waiting) for run in runs)


def has_runs(project_id: int) -> bool:
    """Tell whether the project was ever sent an event that is still kept."""
    return Run.objects.filter(project_id=project_id).exists()


def _line(run: Run, *, is_undecided: bool) -> RunLine:
    derived: dict[str, Any] = {name: getattr(run, name) for name in DERIVED}
    status, waiting = derived.pop("status"), derived.pop("waiting_for") or ""
    started, ended = derived.pop("started_ns"), derived.pop("ended_ns")
    return RunLine(
        run_id=run.run_id,
        status=status,
        meaning=stages.RUN_STATUSES.get(status, status),
        state=STATE_OF_STATUS.get(status, "plain"),
        task=one_line(derived.pop("task") or "", TASK_SHOWN),
        waiting=ESCALATION if is_undecided else waiting,
        agent=derived.pop("agent") or "",
        conversation_id=derived.pop("conversation_id") or "",
        started_at=moment(started) or run.first_received_at,
        duration_ms=duration_ms(started, ended) if ended else _so_far(run, started),
        is_running=status == "running",
        n_events=run.last_arrival,
        n_unfolded=run.last_arrival - run.folded_arrival,
        **derived,
    )


DERIVED: Final = (
    "status", "waiting_for", "task", "agent", "conversation_id", "success", "started_ns", "ended_ns", "n_turns",
    "n_tools_failed", "n_activations", "n_injected", "n_offered", "model_tokens", "hint_tokens",
)  # fmt: skip


def moment(nanos: int | None) -> datetime | None:
    """Return a sender's Unix nanoseconds as a UTC time, or None when it cannot be one."""
    if nanos is None or not 0 < nanos < LAST_NS:
        return None
    return datetime.fromtimestamp(nanos / 1e9, tz=UTC)


def _so_far(run: Run, started_ns: int | None) -> float:
    """Return how long a run in progress is known to have lasted, in milliseconds: until its last event came."""
    began = moment(started_ns)
    if began is None or abs(run.first_received_at - began) > OLDEST:  # a wrong clock says nothing of how long it took
        began = run.first_received_at
    return max(0.0, (run.last_received_at - began).total_seconds() * 1000)


@dataclass(frozen=True, slots=True)
class Choice:
    """An option of the filter form."""

    value: str
    label: str
    meaning: str
    is_chosen: bool


def choices(name: str, words: Mapping[str, str], params: Mapping[str, str]) -> tuple[Choice, ...]:
    """Return the options of one filter, each with its meaning. A name with a dot, as a trigger has, stays as it is."""
    return tuple(
        Choice(word, word if "." in word else word.replace("_", " "), meaning, params.get(name) == word)
        for word, meaning in words.items()
    )


def trigger_words(project_id: int, chosen: str) -> dict[str, str]:
    """Return the triggers to choose from: the kernel's own, those of the project's runs, and the one in the URL.

    One query. A trigger nobody wrote an explanation for has an empty one.
    """
    named = [*triggers_of(project_id), *([chosen] if chosen and not stages.trigger_problem(chosen) else [])]
    return stages.TRIGGERS | {name: "" for name in named if name not in stages.TRIGGERS}


def n_before(lines: Sequence[RunLine], newest: str) -> int:
    """Return how many of `lines` stand before the run that a page shows first; 0 when it is not among them."""
    return next((index for index, line in enumerate(lines) if line.run_id == newest), 0)
