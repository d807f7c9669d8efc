"""FindHints: the one search engine, for priming and runtime alike, and the registry of its frozen versions.

To add a version: a module with VERSION and `find(query, items, replacements)`, a line in VERSIONS, its hash in the
test that freezes versions. (Seed 001 §20.)
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import Final

from knowledge.find_hints import candidates, v2
from knowledge.find_hints.findings import Findings, HintQuery, ItemView

Version = Callable[[HintQuery, Iterable[ItemView], Mapping[str, ItemView]], Findings]

VERSIONS: Final[Mapping[str, Version]] = {v2.VERSION: v2.find}


def find_hints(project_id: int, query: HintQuery, version: str) -> Findings:
    """Search the project's knowledge with one version. Raises KeyError for an unknown version."""
    find = VERSIONS[version]
    items = candidates.fetch(project_id, query)
    replacements = candidates.fetch_replacements(project_id, items)
    return find(lift_suppressions(query, (*items, *replacements.values())), items, replacements)


def lift_suppressions(query: HintQuery, current: Iterable[ItemView]) -> HintQuery:
    """Return the query without the suppressions of items whose current revision is newer than the one dropped."""
    dropped = query.suppressed_revisions
    newer = {item.knowledge_id for item in current if item.revision > dropped.get(item.knowledge_id, item.revision)}
    return replace(query, suppressed=tuple(one for one in query.suppressed if one not in newer))
