"""Decides by which words a list finds a run: an indexed array of what its chain holds, with its day. Pure."""

from collections.abc import Iterable, Iterator
from typing import Final

from knowledge.chain_facts import RunChain
from knowledge.run_days import day_prefix

PERSON: Final = "person"  # waits for a person, whatever for


def run_facets(project_id: int, day: int, chain: RunChain) -> list[str]:
    """Return the facets of a run that was first received on that day, sorted, each once."""
    prefix = day_prefix(project_id, day)
    return sorted({prefix + run_word(name, word) for name, word in _words(chain) if word})


def run_word(name: str, word: str) -> str:
    """Return a facet without project and day."""
    return f"{name}:{word}"


def _words(chain: RunChain) -> Iterator[tuple[str, str | None]]:
    run = chain.run
    yield "status", run.status
    yield "agent", run.agent
    yield "injection", "true" if run.n_injected else "false"
    yield "waiting", run.waiting_for
    yield "waiting", PERSON if run.waiting_for else ""
    yield "conversation", run.conversation_id
    yield from _each("tool", run.tools)
    yield from _each("mcp_server", run.mcp_servers)
    for activation in chain.activations:
        yield "trigger", activation.trigger
        yield "arm", activation.arm
        yield "experiment", activation.experiment
        yield "version", activation.algorithm_version
        yield "search_tool", activation.tool
        yield "search_server", activation.mcp_server
    for candidate in chain.candidates:
        yield "knowledge_id", candidate.knowledge_id
        yield "drop_reason", candidate.drop_reason
        yield "outcome", candidate.outcome


def _each(name: str, words: Iterable[str]) -> Iterator[tuple[str, str]]:
    return ((name, word) for word in words)
