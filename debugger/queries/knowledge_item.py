"""What an item's page says: its state in words, what may be done to it, its history, what came of its offers. Pure.

The facts come from `knowledge/item_history.py`; here they get their words. (Seed 001 §7, §13.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Final
from urllib.parse import urlencode

from contract import stages
from debugger.queries.knowledge_diff import LISTS, TEXTS, FieldDiff, compare
from debugger.queries.knowledge_moves import STATE_EFFECTS, STATE_TONES, Move, moves_of
from debugger.queries.runs import moment
from knowledge.item_history import ItemPage, Seen
from knowledge.models import KnowledgeChange, KnowledgeRevision

LATEST: Final = 20  # revisions and changes listed at once
EXAMPLE_SHARED: Final = 1_500  # code points of an example that a link carries


@dataclass(frozen=True, slots=True)
class OfferLine:
    """One activation that met the item: how far it came there and what came of it."""

    run_id: str
    activation_id: str
    trigger: str
    at: datetime | None
    revision: int | None
    stage: str
    tone: str
    reason: str
    outcome: str
    outcome_tone: str


@dataclass(frozen=True, slots=True)
class ChangeLine:
    """One change in the item's history, with whether the page was asked before it was made."""

    change: KnowledgeChange
    tone: str
    is_news: bool


@dataclass(frozen=True, slots=True)
class Described:
    """What the page of an item says beyond its facts. `seen` names the newest change the page knows."""

    found: ItemPage
    seen: int
    tone: str
    meaning: str
    effect: str
    is_retired: bool
    moves: tuple[Move, ...]
    chosen: KnowledgeRevision
    diff: tuple[FieldDiff, ...]
    revisions: tuple[KnowledgeRevision, ...]
    history: tuple[ChangeLine, ...]
    n_more: int
    offers: tuple[OfferLine, ...]
    try_query: str


def describe_item(found: ItemPage, chosen: int | None = None, known: int | None = None) -> Described:
    """Put an item into words, with the changes that revision `chosen` made (the current one unless given).

    Changes after the one with the number `known` are marked as news: the person had not seen them.
    """
    by_number = {one.number: one for one in found.revisions}
    revision = by_number.get(chosen or 0, found.revision)
    before = by_number.get(revision.number - 1)
    item = found.item
    return Described(
        found=found,
        seen=found.history[0].pk if found.history else 0,
        tone=STATE_TONES.get(item.state, ""),
        meaning=stages.ITEM_STATES.get(item.state, item.state),
        effect=STATE_EFFECTS.get(item.state, ""),
        is_retired=item.state in stages.RETIRED_STATES,
        moves=moves_of(item.state, item.suspended_dynamic),
        chosen=revision,
        diff=compare(revision_text(before), revision_text(revision)) if before else (),
        revisions=_near(found.revisions, revision),
        history=tuple(_change(change, known) for change in found.history[:LATEST]),
        n_more=max(0, len(found.history) - LATEST),
        offers=tuple(_offer(seen) for seen in found.seen),
        try_query=try_query_of(found.revision),
    )


def try_query_of(revision: KnowledgeRevision) -> str:
    """Return the query string that asks for an item as what happened would: by its first error example."""
    asked = {"trigger": revision.trigger or "tool.failed", "tool": revision.tool, "mcp_server": revision.mcp_server}
    texts = [*revision.error_examples, *revision.entities, revision.proposition]
    name = "query" if asked["trigger"] == "task.priming" else "tool_result"
    asked |= {name: texts[0][:EXAMPLE_SHARED], "knowledge_id": revision.item.knowledge_id}
    return urlencode({name: value for name, value in asked.items() if value})


def revision_text(revision: KnowledgeRevision) -> Mapping[str, Any]:
    """Return what `compare` takes of a revision."""
    return {name: getattr(revision, name) for name in (*TEXTS, *LISTS)}


def _near(revisions: Sequence[KnowledgeRevision], chosen: KnowledgeRevision) -> tuple[KnowledgeRevision, ...]:
    """Return the newest revisions, or those from the chosen one on when it is older than they are."""
    place = revisions.index(chosen)
    start = 0 if place < LATEST else place
    return tuple(revisions[start : start + LATEST])


def _change(change: KnowledgeChange, known: int | None) -> ChangeLine:
    moved = change.from_state != change.to_state
    return ChangeLine(
        change, STATE_TONES.get(change.to_state, "") if moved else "", known is not None and change.pk > known
    )


def _offer(seen: Seen) -> OfferLine:
    tones = {"used": "ok", "injected": "hint", "selected": "hint", "dropped": "warn"}
    reason = stages.DROP_REASONS.get(seen.drop_reason) or stages.HOLD_REASONS.get(seen.hold_reason) or ""
    return OfferLine(
        seen.run_id,
        seen.activation_id,
        seen.trigger,
        moment(seen.requested_ns),
        seen.revision,
        "held back" if seen.stage == "retrieved" and seen.hold_reason else seen.stage,
        tones.get(seen.stage, ""),
        reason,
        seen.outcome,
        {"helpful": "ok", "harmful": "bad"}.get(seen.outcome, ""),
    )
