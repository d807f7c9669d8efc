"""Which row stands under which: what came of a call under the call, an activation under its trigger, a span in a span.

Links may be missing, late, circular, and thousands deep: a row without its parent stands at the top and says so; a
circle is cut where it was met first. Pure. (Seed 001 §13, §14.)
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Final

from debugger.queries.grouping import OF_CALLS, Group
from debugger.queries.rows import Row
from debugger.queries.span_times import WRONG_CLOCK, held_in, skew_of
from knowledge.forest import plant
from knowledge.models import Activation
from knowledge.spans import base_id, is_span

LOST_TRIGGER: Final = "its trigger event has not arrived"
LOST_PARENT: Final = "its parent has not arrived"
CIRCLE: Final = "its parents form a circle, cut here"
OWN_PARENT: Final = "it names itself as its parent"


@dataclass(frozen=True, slots=True)
class Nested:
    """The rows in the order they are shown; how many miss their parent, were cut off it, or lie outside of it."""

    rows: tuple[Row, ...]
    n_lost: int
    n_circles: int
    n_skewed: int


@dataclass(frozen=True, slots=True)
class _Link:
    """What a row stands under: the index of that row (None at the top), and why. `lost` says what has not arrived."""

    parent: int | None = None
    is_span: bool = False
    lost: str = ""


def nest(rows: Sequence[Row], groups: Sequence[Group], derived: Mapping[str, Activation]) -> Nested:
    """Return `rows` (in reading order, one for each group) as they stand under each other, each with its level."""
    index_of = {event_id: index for index, row in enumerate(rows) for event_id in row.event_ids}
    links = [_link(rows, index, group, derived, index_of) for index, group in enumerate(groups)]
    forest = plant([link.parent for link in links])
    placed: dict[int, Row] = {}
    n_lost = n_skewed = 0
    for index in forest.from_above():
        link, row, parent = links[index], rows[index], forest.parents[index]
        marks = [link.lost] if link.lost else []
        if index in forest.cut:
            marks.append(OWN_PARENT if link.parent == index else CIRCLE)
        if parent is not None:
            row = _under(row, placed[parent], is_span=link.is_span)
            if row.has_wrong_clock and rows[parent].has_wrong_clock:
                row = replace(row, has_wrong_clock=False)  # dated as its parent is: what is wrong is said there
            skew = skew_of(row, placed[parent]) if link.is_span else ""
            if skew:
                row = replace(row, drawn_ns=held_in(row, placed[parent]), is_astray=True)
                marks.append(skew)
                n_skewed += 1
        if row.has_wrong_clock:
            marks.append(WRONG_CLOCK)
        n_lost += link.lost == LOST_PARENT
        placed[index] = replace(row, marks=(*row.marks, *marks)) if marks else row
    return Nested(tuple(placed[index] for index in forest.descend()), n_lost, len(forest.cut), n_skewed)


def _under(row: Row, above: Row, *, is_span: bool) -> Row:
    if not is_span:
        return replace(row, is_child=True, turn=above.turn, level=above.level)
    return replace(row, level=above.level + 1, turn=above.turn if row.turn is None else row.turn)


def _link(
    rows: Sequence[Row], index: int, group: Group, derived: Mapping[str, Activation], index_of: Mapping[str, int]
) -> _Link:
    source = _source(group, derived)
    found = index_of.get(source) if source else None
    if found is not None and not rows[found].activation_id:
        return _Link(found)
    cause = group.events[0].caused_by if is_span(group.events[0]) or group.kind == "log" else None
    if cause is None:
        return _Link(lost=LOST_TRIGGER if source and found is None else "")
    around = index_of.get(cause, index_of.get(f"{base_id(cause)}:open"))
    if around is None:
        return _Link(lost=LOST_PARENT)
    return _Link(around, is_span=True) if rows[around].is_span else _Link()


def _source(group: Group, derived: Mapping[str, Activation]) -> str:
    """Return the id of the event that a row is to stand under, or an empty string."""
    if group.kind != "activation":
        return group.call.event_id if group.kind in OF_CALLS and group.call is not None else ""
    activation = derived.get(group.subject)
    if activation is not None and activation.source_event_id:
        return activation.source_event_id
    for event in group.events:
        if is_span(event):
            continue
        if event.type.startswith("activation.") and event.type != "activation.completed" and event.caused_by:
            return event.caused_by
        if event.type.startswith("hint.") and event.data.get("source_event_id"):
            return str(event.data["source_event_id"])
    return ""
