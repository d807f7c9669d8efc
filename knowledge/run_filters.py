"""Which runs a person or program asked for: the filters, read from a URL, and what a run must have for each of them.

A run's own words and those of its chain are found by its facets, a part of its task by its grams. Filters that are
about a search or a hint are about the same one: two of them are also looked up in the chain. (Seed 001 §14.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from datetime import datetime
from typing import Any, Final

from contract import stages
from ingest.errors import IngestError
from ingest.parameters import FLAGS, MOMENT_FORM, TEXT_FORM, is_text, parse_moment
from knowledge.run_facets import PERSON, run_word

RUNNING: Final = "running"
WAITING: Final = {
    PERSON: "waits for a person, whatever for",
    "approval": "a call needs a yes or a no",
    "question": "the agent asked a question",
}
WORDS: Final[Mapping[str, Mapping[str, str]]] = {
    "status": stages.RUN_STATUSES,
    "drop_reason": stages.DROP_REASONS,
    "waiting": WAITING,
    "arm": stages.HOLDOUT_ARMS,
    "outcome": stages.OUTCOMES,
}
TIMES: Final = ("since", "until")
# What a filter asks of a run's activation.
OF_SEARCH: Final = ("trigger", "arm", "experiment", "version", "search_tool", "search_server")
OF_HINT: Final = ("drop_reason", "knowledge_id", "outcome")  # what a filter asks of a candidate of that activation
OF_RUN: Final = ("status", "waiting", "tool", "mcp_server", "agent", "conversation")
# Where the word of the filter is not the column's.
COLUMNS: Final = {"version": "algorithm_version", "search_tool": "tool", "search_server": "mcp_server"}


@dataclass(frozen=True, slots=True)
class RunFilter:
    """What must hold of a run; an empty text and None ask for nothing. All that is asked must hold.

    `trigger`, `arm`, `experiment`, `version`, `search_tool` and `search_server` (what the search was about) ask for at
    least one search of which all of them hold, `drop_reason`, `knowledge_id` and `outcome` for at least one candidate
    of such a search; `tool` and `mcp_server` for at least one call, `text` for a part of the task in any case of
    letters or for the run's id; `since` is inclusive, `until` exclusive, both compared with the time the run was first
    received.
    """

    status: str = ""
    waiting: str = ""
    trigger: str = ""
    tool: str = ""
    mcp_server: str = ""
    drop_reason: str = ""
    knowledge_id: str = ""
    outcome: str = ""
    arm: str = ""
    experiment: str = ""
    version: str = ""
    search_tool: str = ""
    search_server: str = ""
    agent: str = ""
    conversation: str = ""
    text: str = ""
    has_injection: bool | None = None
    since: datetime | None = None
    until: datetime | None = None

    def words(self) -> list[str]:
        """Return the facets that a run must have, without project and day."""
        asked = [(name, getattr(self, name)) for name in (*OF_RUN, *OF_SEARCH, *OF_HINT)]
        if self.has_injection is not None:
            asked.append(("injection", str(self.has_injection).lower()))
        return [run_word(name, word) for name, word in asked if word]

    def of(self, names: Sequence[str]) -> dict[str, str]:
        """Return what is asked under these names, by column."""
        return {COLUMNS.get(name, name): getattr(self, name) for name in names if getattr(self, name)}

    @property
    def needs_chain(self) -> bool:
        """Whether two filters must hold of one search, which the facets of a run cannot tell."""
        return len(self.of((*OF_SEARCH, *OF_HINT))) > 1

    @property
    def fits_unfolded(self) -> bool:
        """Whether a run of which nothing was derived yet can be meant: it is running, and nothing else is known."""
        known = RunFilter(self.status, has_injection=self.has_injection, since=self.since, until=self.until)
        return self == known and self.status in ("", RUNNING) and self.has_injection is not True

    @property
    def is_of_chain(self) -> bool:
        """Whether anything is asked that is derived; times alone are not."""
        return self != RunFilter(since=self.since, until=self.until)


FILTER_NAMES: Final = tuple(field.name for field in fields(RunFilter))


def parse_filter(params: Mapping[str, str]) -> RunFilter:
    """Return the filter that `params` (texts, as in a URL) ask for; empty values ask for nothing.

    Raises IngestError (400) naming the parameter that is unknown or whose value cannot be.
    """
    values: dict[str, Any] = {}
    for name, raw in params.items():
        if name not in FILTER_NAMES:
            known = ", ".join(FILTER_NAMES)
            raise IngestError("unknown_filter", 400, f"unknown filter {name[:50]!r}; known are {known}", field=name)
        if raw:
            values[name] = _parse_value(name, raw)
    return RunFilter(**values)


def _parse_value(name: str, raw: str) -> str | bool | datetime:
    if name in WORDS and raw not in WORDS[name]:
        raise _invalid(name, f"one of: {', '.join(WORDS[name])}")
    if name == "trigger" and (problem := stages.trigger_problem(raw)) is not None:
        raise _invalid(name, problem.removeprefix("must be "))
    if name == "has_injection":
        if raw not in FLAGS:
            raise _invalid(name, "true or false")
        return FLAGS[raw]
    if name in TIMES:
        return _parse_time(name, raw)
    if not is_text(raw):
        raise _invalid(name, TEXT_FORM)
    return raw


def _parse_time(name: str, raw: str) -> datetime:
    moment = parse_moment(raw)
    if moment is None:
        raise _invalid(name, MOMENT_FORM)
    return moment


def _invalid(name: str, must: str) -> IngestError:
    return IngestError("invalid_filter", 400, f"{name} must be {must}", field=name)
