"""FindHints: the one search engine, for priming and runtime alike, and the registry of its frozen versions.

To add a version: a module with VERSION and `search(project_id, query, *, gated)`, a line in VERSIONS, the hashes of its
files in the test that freezes versions. (Seed 001 §20.)
"""

from collections.abc import Mapping
from typing import Final, Protocol

from knowledge.find_hints import candidates, v2
from knowledge.find_hints.absence import explain_absence
from knowledge.find_hints.findings import Findings, HintQuery, lift_suppressions
from knowledge.find_hints.v3 import engine as v3


class Version(Protocol):
    """Searches a project's knowledge. Without `gated` a version that has a gate lets everything pass it."""

    def __call__(self, project_id: int, query: HintQuery, *, gated: bool = True) -> Findings: ...


def _search_v2(project_id: int, query: HintQuery, *, gated: bool = True) -> Findings:
    items = candidates.fetch(project_id, query)
    replacements = candidates.fetch_replacements(project_id, items)
    return v2.find(lift_suppressions(query, (*items, *replacements.values())), items, replacements)


VERSIONS: Final[Mapping[str, Version]] = {v2.VERSION: _search_v2, v3.VERSION: v3.search}


def find_hints(project_id: int, query: HintQuery, version: str, *, gated: bool = True) -> Findings:
    """Search the project's knowledge with one version. Raises KeyError for an unknown version."""
    return VERSIONS[version](project_id, query, gated=gated)


__all__ = ["VERSIONS", "Version", "explain_absence", "find_hints", "lift_suppressions"]
