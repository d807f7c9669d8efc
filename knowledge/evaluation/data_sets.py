"""Knows the corpora that are measured by, where their files lie, and which of them are about other things."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from knowledge.drafts import ItemDraft, KnowledgeError, parse_draft
from knowledge.evaluation.pairs import CorpusError, Pair, json_rows, read_pairs

FOLDER: Final = Path(__file__).with_name("corpora")
DEFAULT: Final = "thefuck"
# corpus -> lists of what none of its items is about; other corpora know the same tools and could answer
FOREIGN_TO: Final[Mapping[str, tuple[str, ...]]] = {
    "thefuck": ("unanswerable", "ruff"),
    "ruff": ("unanswerable", "thefuck", "noisy", "russian"),
    "ruff-words": ("unanswerable", "thefuck", "noisy", "russian"),
    "noisy": ("unanswerable", "ruff"),
    "russian": ("unanswerable", "ruff"),
    "tasks": ("tasks_unanswerable",),
}
ASKED_MOST: Final = 400  # pairs of a corpus that a measurement in reasonable time asks


@dataclass(frozen=True, slots=True)
class DataSet:
    """Items, what is asked of them, and lists of failures that none of them is about."""

    name: str
    drafts: tuple[ItemDraft, ...]
    pairs: tuple[Pair, ...]
    foreign: tuple[tuple[Pair, ...], ...]

    @property
    def item_ids(self) -> frozenset[str]:
        return frozenset(draft.knowledge_id for draft in self.drafts)

    @property
    def n_with_rule(self) -> int:
        return sum(pair.rule is not None for pair in self.pairs)


def load(name: str, *, pairs: Path | None = None, items: Path | None = None) -> DataSet:
    """Return a corpus, with other pairs or items when they are named. Raises CorpusError for a file not in order."""
    return DataSet(
        name=name,
        drafts=tuple(read_items(items or _file(name, "items"))),
        pairs=tuple(read_pairs(pairs or _file(name, "pairs"))),
        foreign=tuple(_foreign(name)),
    )


def read_items(file: Path) -> list[ItemDraft]:
    """Return the items of one JSON Lines file. Raises CorpusError for the first that is not in order."""
    drafts = []
    for number, row in json_rows(file):
        try:
            drafts.append(parse_draft(row))
        except KnowledgeError as error:
            raise CorpusError(f"{file}:{number}: {error}") from None
    if not drafts:
        raise CorpusError(f"{file} holds no items; each line is an item as import_knowledge takes it")
    return drafts


def _foreign(name: str) -> list[tuple[Pair, ...]]:
    return [tuple(read_pairs(_file(other, "pairs"))) for other in FOREIGN_TO[name]]


def _file(name: str, kind: str) -> Path:
    return FOLDER / f"{name}.{kind}.jsonl"
