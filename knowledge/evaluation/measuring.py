"""Asks every subject every question, on items that exist only inside a transaction that is always rolled back.

Nothing is committed, so nothing can be left behind: not after Ctrl-C and not after a kill. An item is held out by
really deleting its rows inside a savepoint, which is then rolled back. Judging a ranking without it would not be the
same: a version may weigh words by how many items have them, and the item may have pushed out a near duplicate or
stood in for a retired one.
"""

import time
import uuid
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Final

from django.db import connection, transaction
from django.utils import timezone

from ingest.models import Project
from ingest.projects import create_project
from knowledge.drafts import ItemDraft
from knowledge.evaluation.figures import Outcome
from knowledge.evaluation.pairs import Pair
from knowledge.evaluation.questions import OFFER_LIMIT, RANKED_LIMIT, Question, Questions, hint_query
from knowledge.evaluation.subjects import Subject
from knowledge.find_hints.findings import HintQuery
from knowledge.items import import_items
from knowledge.models import ItemEmbedding, KnowledgeItem, KnowledgeRevision, SearchRow, TermCount
from knowledge.search_rows import forget

TOLD_EVERY: Final = 100  # questions
WARM_UP: Final = hint_query(Pair(None, "warm-up", "the first question loads what all of them need"), 0, OFFER_LIMIT)
Tell = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Measured:
    """What one subject answered to all questions, and the threshold its gate named."""

    outcomes: tuple[Outcome, ...]
    gate: float | None


def measure(
    drafts: Sequence[ItemDraft], questions: Questions, subjects: Sequence[Subject], tell: Tell, task: str = ""
) -> dict[str, Measured]:
    """Return what each subject answered. `task` stands in the place of every command line.

    Raises RuntimeError when an item taken away is still found.
    """
    outcomes: dict[str, list[Outcome]] = {subject.name: [] for subject in subjects}
    gates: dict[str, float | None] = {}
    with scratch_project(drafts) as project_id:
        for subject in subjects:
            if subject.prepare:
                subject.prepare(project_id)
        tell_planner()
        for subject in subjects:
            subject.ask(project_id, WARM_UP, True)  # what is loaded at the first question is not timed
        tell(f"{len(drafts)} items are there; asking {len(questions.all)} questions of {len(subjects)} subjects")
        for number, question in enumerate(questions.all):
            with without_item(project_id, question.taken_away):
                for subject in subjects:
                    query = hint_query(question.pair, number, OFFER_LIMIT, task)
                    outcome, gate = ask(project_id, subject, question, query)
                    outcomes[subject.name].append(outcome)
                    gates[subject.name] = gate
            if (number + 1) % TOLD_EVERY == 0:
                tell(f"{number + 1} of {len(questions.all)} questions asked")
    return {name: Measured(tuple(found), gates.get(name)) for name, found in outcomes.items()}


@contextmanager
def scratch_project(drafts: Sequence[ItemDraft]) -> Iterator[int]:
    """Give the id of a project of its own with these items; it is never committed."""
    with transaction.atomic():
        project = create_project(f"evaluation-{uuid.uuid4().hex[:12]}", "Measurement of retrieval")
        import_items(project, drafts, by="evaluation", reason="measurement")
        yield project.pk
        transaction.set_rollback(True)


def tell_planner() -> None:
    """Have PostgreSQL look at the rows it could not see come, as it would have done in the background."""
    with connection.cursor() as cursor:
        for model in (KnowledgeItem, KnowledgeRevision, SearchRow, ItemEmbedding, TermCount):
            cursor.execute(f"ANALYZE {connection.ops.quote_name(model._meta.db_table)}")


@contextmanager
def without_item(project_id: int, knowledge_id: str) -> Iterator[None]:
    """Take an item away while this lasts; with no id nothing happens.

    History may be deleted only with its project, so the project counts as being deleted while the rows go.
    """
    if not knowledge_id:
        yield
        return
    with transaction.atomic():
        project = Project.objects.filter(pk=project_id)
        item = KnowledgeItem.objects.filter(project_id=project_id, knowledge_id=knowledge_id)
        forget(project_id, list(item.values_list("pk", flat=True)))
        project.update(deleted_at=timezone.now())
        item.delete()
        project.update(deleted_at=None)
        yield
        transaction.set_rollback(True)


def ask(project_id: int, subject: Subject, question: Question, query: HintQuery) -> tuple[Outcome, float | None]:
    """Ask as a kernel asks, timed and first, so that nothing is kept yet; then with the gate off and deeper.

    A plain subject is asked once, and deeper.
    """
    deeper = replace(query, limit=RANKED_LIMIT)
    started = time.perf_counter_ns()
    answer = subject.ask(project_id, deeper if subject.plain else query, True)
    took_ms = (time.perf_counter_ns() - started) / 1e6
    ranked = answer if subject.plain else subject.ask(project_id, deeper, False)
    found = {offer.knowledge_id for offer in (*ranked.offers, *answer.offers)}
    if question.taken_away in found:
        raise RuntimeError(f"{subject.name} finds {question.taken_away}, which is not there: it keeps items elsewhere")
    offered = tuple(offer.knowledge_id for offer in answer.offers[: query.limit])
    return Outcome(question.kind, question.right, ranked.offers, offered, took_ms), answer.gate
