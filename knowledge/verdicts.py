"""THE write path of what people say of hints: only added to, read by the fold, which puts it over all that it judges.

A verdict is about one hint in one search of one run and goes with that run. What was said before stays, and who said
it; an empty outcome takes back. (Seed 001 §13.)
"""

from collections.abc import Sequence
from typing import Final

from django.db import transaction
from django.utils import timezone

from contract import stages
from knowledge.chain_facts import Verdict
from knowledge.models import Candidate, HintVerdict

REASON_LIMIT: Final = 1_000  # code points


class VerdictError(ValueError):
    """What was said cannot be kept; the text says which field, and what is allowed."""


def say(
    project_id: int, run_id: str, activation_id: str, knowledge_id: str, *, outcome: str, reason: str, by: str
) -> None:
    """Keep what `by` says of a hint that was injected; "" takes back. The caller folds the run again.

    Raises VerdictError for a word that is no outcome, a reason that is too long, or a hint that was never injected.
    """
    if outcome and outcome not in stages.OUTCOMES:
        raise VerdictError(f"outcome must be one of {', '.join(stages.OUTCOMES)}, or empty to take back what was said")
    if len(reason) > REASON_LIMIT:
        raise VerdictError(f"the reason has {len(reason):,} characters; at most {REASON_LIMIT:,} are kept: shorten it")
    about = {
        "project_id": project_id,
        "run_id": run_id,
        "activation_id": activation_id,
        "knowledge_id": knowledge_id,
    }
    with transaction.atomic():
        if not Candidate.objects.filter(**about).exclude(injected_ns=None).exists():
            raise VerdictError("only a hint that was injected can be judged: this one was not")
        HintVerdict.objects.create(**about, outcome=outcome, reason=reason, by=by, said_at=timezone.now())


def verdicts_of(project_id: int, run_ids: Sequence[str]) -> dict[str, list[Verdict]]:
    """Return what people said of the hints of these runs, in the order they said it; runs of which nothing was not."""
    found: dict[str, list[Verdict]] = {}
    for row in HintVerdict.objects.filter(project_id=project_id, run_id__in=list(run_ids)).order_by("id"):
        said = Verdict(row.activation_id, row.knowledge_id, row.outcome, row.reason, row.by, row.said_at.isoformat())
        found.setdefault(row.run_id, []).append(said)
    return found
