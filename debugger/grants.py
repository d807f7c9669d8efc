"""THE write module of decisions about escalations, and what a grant gives to runs that are started later.

Nothing resumes the run that asked. A grant is seen by the next run that is started for the project, of the same task
or, where a run names none, of the same actor. (Seed 003.)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final, Literal

from django.db import transaction

from contract.text import storable
from debugger.models import EscalationDecision
from ingest.models import Project, Run

DEFAULT_ACTOR: Final = "agent"  # of a spec that names none, as the kernel reads it
MOST_DECISIONS: Final = 1_000  # grants that one start reads, the newest

Verdict = Literal["granted", "dismissed"]


class AlreadyDecided(Exception):
    """Somebody was faster; `decision` is what stands."""

    def __init__(self, decision: EscalationDecision) -> None:
        super().__init__(f"{decision.verdict} by {decision.decided_by}")
        self.decision = decision


class RunIsGone(Exception):
    """The run was taken away meanwhile: there is nothing left to decide."""


@dataclass(frozen=True, slots=True)
class Ask:
    """The escalation that is decided, and for whom its grant will hold."""

    run_id: str
    event_id: str
    task_id: str
    actor_id: str


@dataclass(frozen=True, slots=True)
class Choice:
    """What is decided of it. `tools` are none unless it is granted; `note` holds no secret any more."""

    verdict: Verdict
    tools: tuple[str, ...] = ()
    note: str = ""


def decide(project: Project, ask: Ask, choice: Choice, by: str) -> EscalationDecision:
    """Keep the decision. The same one again by the same person is the one that stands.

    Raises AlreadyDecided when another one stands, RunIsGone when the run does not. Whoever comes second waits for the
    run's row and finds the decision of the first.
    """
    with transaction.atomic():
        if not _lock_run(project.pk, ask.run_id):
            raise RunIsGone(ask.run_id)
        standing = EscalationDecision.objects.filter(project=project, run_id=ask.run_id).first()
        if standing is None:
            return EscalationDecision.objects.create(
                project=project,
                run_id=ask.run_id,
                event_id=ask.event_id,
                task_id=ask.task_id,
                actor_id=ask.actor_id,
                decided_by=by,
                verdict=choice.verdict,
                tools=list(choice.tools),
                note=choice.note,
            )
    kept = (standing.decided_by, standing.verdict, tuple(standing.tools), standing.note)
    if kept != (by, choice.verdict, choice.tools, choice.note):
        raise AlreadyDecided(standing)
    return standing


def _lock_run(project_id: int, run_id: str) -> bool:
    return Run.objects.select_for_update().filter(project_id=project_id, run_id=run_id).first() is not None


def granted_tools(project_slug: str, task_id: str, actor_id: str) -> list[str]:
    """Return the tools granted for runs of the task, of the actor where there is no task; one query."""
    fitting = {"task_id": task_id} if task_id else {"task_id": "", "actor_id": actor_id}
    granted = EscalationDecision.objects.filter(
        project__slug=project_slug, project__deleted_at=None, verdict="granted", **fitting
    )
    lists = granted.order_by("-pk").values_list("tools", flat=True)[:MOST_DECISIONS]
    return sorted({name for names in lists for name in names})


def granted_to(spec: Mapping[str, object], project_slug: str) -> list[str]:
    """Return the tools that people of the project have granted to runs such as the one of `spec`. One query."""
    task_id, actor_id = spec.get("task_id", ""), spec.get("actor_id", DEFAULT_ACTOR)
    if not isinstance(task_id, str) or not isinstance(actor_id, str) or not (task_id or actor_id):
        return []
    if storable(task_id + actor_id) != task_id + actor_id:
        return []  # no run can have such an id: none was granted anything
    return granted_tools(project_slug, task_id, actor_id)
