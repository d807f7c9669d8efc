"""Django finds a package's models through this module."""

from knowledge.models.chains import Activation, Candidate, RunSummary
from knowledge.models.items import HintAnswer, KnowledgeChange, KnowledgeItem, KnowledgeRevision

__all__ = [
    "Activation",
    "Candidate",
    "HintAnswer",
    "KnowledgeChange",
    "KnowledgeItem",
    "KnowledgeRevision",
    "RunSummary",
]
