"""What every version of FindHints takes and gives: the query, the items considered, the verdict on each."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace


@dataclass(frozen=True, slots=True)
class HintQuery:
    """One question to FindHints, bounded by its sender. `limit` is 1..20 hints. (Seed 001 §7.)

    `issued`, `suppressed` and `offered_before` are knowledge ids: in this run's history, dropped earlier in this run,
    offered by an earlier activation of the same boundary. `suppressed_revisions` says of some suppressed ones which
    revision was dropped: a newer one is not suppressed. `tool_arguments` is what the tool was called with: a command
    line, or the JSON of the arguments, which may have been cut. `embedding` is the sender's own of what happened, made
    with `embedding_model`. `budget` is what the sender has left, by name: it is reported, and decides nothing here.
    """

    run_id: str
    activation_id: str
    trigger: str = "task.priming"
    query: str = ""
    tool: str = ""
    mcp_server: str = ""
    tool_result: str = ""
    tool_arguments: str = ""
    error_class: str = ""
    source_event_id: str = ""
    task_id: str = ""
    actor_id: str = ""
    team_root: str = ""
    entities: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    active_skills: tuple[str, ...] = ()
    issued: tuple[str, ...] = ()
    suppressed: tuple[str, ...] = ()
    suppressed_revisions: Mapping[str, int] = field(default_factory=dict)
    offered_before: tuple[str, ...] = ()
    limit: int = 8
    embedding: tuple[float, ...] = ()
    embedding_model: str = ""
    budget: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class ItemView:
    """The current revision of one item, as a version of FindHints may see it."""

    knowledge_id: str
    revision: int
    kind: str
    state: str
    proposition: str
    why: str = ""
    caution: str = ""
    trigger: str = ""
    tool: str = ""
    mcp_server: str = ""
    version_scope: str = ""
    entities: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    error_examples: tuple[str, ...] = ()
    suspended: bool = False
    replaced_by: str | None = None


@dataclass(frozen=True, slots=True)
class Finding:
    """One candidate: its match, its rank, and why it is held back; an empty reason means offered.

    Rank 1 is the best hint offered; the candidates held back rank behind all that are offered.
    """

    item: ItemView
    rank: int
    matched_by: tuple[str, ...]
    scores: Mapping[str, float] = field(default_factory=dict)
    hold_reason: str = ""


@dataclass(frozen=True, slots=True)
class Findings:
    """The answer of one version: every candidate in rank order, and the legs that took part.

    `gate` is the confidence below which a candidate is held back, None where the version has none. `notes` are
    sentences for the sender about how was searched; none repeats anything of the query.
    """

    version: str
    matcher: str
    candidates: tuple[Finding, ...]
    gate: float | None = None
    notes: tuple[str, ...] = ()

    @property
    def offered(self) -> tuple[Finding, ...]:
        return tuple(finding for finding in self.candidates if not finding.hold_reason)


def lift_suppressions(query: HintQuery, current: Iterable[ItemView]) -> HintQuery:
    """Return the query without the suppressions of items whose current revision is newer than the one dropped."""
    dropped = query.suppressed_revisions
    newer = {item.knowledge_id for item in current if item.revision > dropped.get(item.knowledge_id, item.revision)}
    return replace(query, suppressed=tuple(one for one in query.suppressed if one not in newer))
