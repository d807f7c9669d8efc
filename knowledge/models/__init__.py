"""Django finds a package's models through this module."""

from knowledge.models.chains import Activation, Candidate, RunSummary
from knowledge.models.items import HintAnswer, KnowledgeChange, KnowledgeItem, KnowledgeRevision
from knowledge.models.rollups import HintVerdict, ItemRollup, Rollup, RunContribution
from knowledge.models.search import ItemEmbedding, SearchRow, TermCount
from knowledge.models.totals import DayTotals, ItemTotals
from knowledge.models.uses import ItemCounts, KnowledgeVersion

__all__ = [
    "Activation",
    "Candidate",
    "DayTotals",
    "HintAnswer",
    "HintVerdict",
    "ItemCounts",
    "ItemEmbedding",
    "ItemRollup",
    "ItemTotals",
    "KnowledgeChange",
    "KnowledgeItem",
    "KnowledgeRevision",
    "KnowledgeVersion",
    "Rollup",
    "RunContribution",
    "RunSummary",
    "SearchRow",
    "TermCount",
]
