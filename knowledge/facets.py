"""Decides by which words a list finds an item: an indexed array of its scope and topics, the project in each. Pure."""

from collections.abc import Sequence

from knowledge.drafts import ItemDraft


def facets_of(project_id: int, draft: ItemDraft) -> list[str]:
    """Return the facets of an item's text: its scope as far as it has one, and its topics."""
    scope = {"tool": draft.tool, "mcp_server": draft.mcp_server, "trigger": draft.trigger}
    named = [facet(project_id, name, word) for name, word in scope.items() if word]
    return named + list(dict.fromkeys(facet(project_id, "topic", topic) for topic in draft.topics))


def facet(project_id: int, name: str, word: str) -> str:
    return f"{project_id}:{name}:{word}"


def wanted_facets(project_id: int, asked: Sequence[tuple[str, str]]) -> list[str]:
    """Return the facets that an item must have, from (name, word) pairs; an empty word asks for nothing."""
    return [facet(project_id, name, word) for name, word in asked if word]
