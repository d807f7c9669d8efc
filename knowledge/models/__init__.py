"""Django finds a package's models through this module."""

from knowledge.models.chains import Activation, Candidate, RunSummary
from knowledge.models.items import HintAnswer, KnowledgeChange, KnowledgeItem, KnowledgeRevision
from knowledge.models.totals import DayTotals, TriggerTotals

__all__ = [
    "Activation",
    "Candidate",
    "DayTotals",
    "HintAnswer",
    "KnowledgeChange",
    "KnowledgeItem",
    "KnowledgeRevision",
    "RunSummary",
    "TriggerTotals",
]
