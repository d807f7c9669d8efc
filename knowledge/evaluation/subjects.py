"""The registry of what is measured side by side: versions of FindHints and the plain searches beside them."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from knowledge.evaluation import baselines
from knowledge.evaluation.figures import Offer
from knowledge.find_hints import VERSIONS, find_hints
from knowledge.find_hints.findings import HintQuery


@dataclass(frozen=True, slots=True)
class Answer:
    """What a subject offers for one question, best first, and the threshold of its gate (None: it has none)."""

    offers: tuple[Offer, ...]
    gate: float | None = None


Ask = Callable[[int, HintQuery, bool], Answer]  # project id, query, whether the gate is on


@dataclass(frozen=True, slots=True)
class Subject:
    """One thing to measure. `prepare` is called once the items of a project are there."""

    name: str
    about: str
    ask: Ask
    prepare: Callable[[int], None] | None = None


def version_subject(name: str, about: str, version: str) -> Subject:
    """Return a version of FindHints as it answers a kernel."""

    def ask(project_id: int, query: HintQuery, gated: bool) -> Answer:
        findings = find_hints(project_id, query, version)
        return Answer(tuple(Offer(one.item.knowledge_id, one.scores.get("confidence")) for one in findings.offered))

    return Subject(name, about, ask)


def baseline_subject(
    name: str,
    about: str,
    search: Callable[[int, HintQuery], Sequence[tuple[str, float]]],
    prepare: Callable[[int], None],
) -> Subject:
    """Return a plain search: it offers all it finds, up to the limit, and its score is its only confidence."""

    def ask(project_id: int, query: HintQuery, gated: bool) -> Answer:
        return Answer(tuple(Offer(one, score) for one, score in search(project_id, query)[: query.limit]))

    return Subject(name, about, ask, prepare)


def all_subjects() -> dict[str, Subject]:
    """Return everything that can be measured on this machine, by name, in the order reports show it."""
    versions = [version_subject(name, "FindHints as it answers a kernel", name) for name in VERSIONS]
    plain = [
        baseline_subject(
            "fts.websearch",
            "plain PostgreSQL: websearch_to_tsquery over the rules, ts_rank",
            baselines.websearch,
            baselines.prepare_words,
        ),
        baseline_subject(
            "fts.or",
            "plain PostgreSQL: any word of the text over the rules, ts_rank by length",
            baselines.any_word,
            baselines.prepare_words,
        ),
    ]
    return {subject.name: subject for subject in (*versions, *plain)}


NAMES: Final = tuple(all_subjects())
