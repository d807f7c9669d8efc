"""How a timeline is written into its tables and read back: rows, what is said of all of them, where an event is. Pure.

What is read back equals what was written; a change of what is built or of this form changes VERSION.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields, replace
from typing import Any, Final

import orjson

from debugger.queries.axis import Axis
from debugger.queries.foreign import ForeignRun
from debugger.queries.pieces import Piece
from debugger.queries.rows import Row
from debugger.queries.run_header import HeaderFacts, Segment
from debugger.queries.sections import searched_text
from debugger.queries.strip import Stretch
from debugger.queries.timeline import FILTERS, WINDOW, Timeline, passes
from ingest.journal import JournalEvent

VERSION: Final = f"timeline.v2/{WINDOW}"
NOWHERE: Final = -1  # the place of an event without a row: the frame of a turn
FILTERED: Final = tuple(name for name in FILTERS if name != "all")
_ROW_FIELDS: Final = tuple(field.name for field in fields(Row))


@dataclass(frozen=True, slots=True)
class Head:
    """What a page says of a run as a whole. `timeline` has no rows here."""

    timeline: Timeline
    facts: HeaderFacts
    strip: tuple[Stretch, ...]
    starts: tuple[float, ...]


def write_row(row: Row) -> str:
    """Return a row as JSON: its fields in order."""
    values = [getattr(row, name) for name in _ROW_FIELDS]
    values[_ROW_FIELDS.index("pieces")] = [[piece.text, piece.tone, piece.href] for piece in row.pieces]
    return orjson.dumps(values).decode()


def read_row(text: str) -> Row:
    """Return the row that `write_row` wrote."""
    values: dict[str, Any] = dict(zip(_ROW_FIELDS, orjson.loads(text), strict=True))
    for name in ("event_ids", "marks"):
        values[name] = tuple(values[name])
    for name in ("bar", "drawn_ns", "whole"):
        values[name] = tuple(values[name]) if values[name] is not None else None
    return Row(**{**values, "pieces": tuple(Piece(*piece) for piece in values["pieces"])})


def write_search(row: Row) -> str:
    """Return what the filter by text looks at; PostgreSQL keeps no NUL."""
    return searched_text(row).replace("\0", " ")


def write_head(head: Head) -> str:
    """Return the head as JSON."""
    timeline = asdict(replace(head.timeline, rows=()))
    timeline["notes"] = list(head.timeline.notes.items())
    strip = [[box.left, box.width, box.top, box.height, box.tone] for box in head.strip]
    return orjson.dumps(
        {"timeline": timeline, "facts": asdict(head.facts), "strip": strip, "starts": head.starts}
    ).decode()


def read_head(text: str) -> Head:
    """Return the head that `write_head` wrote."""
    told = orjson.loads(text)
    values, facts = told["timeline"], told["facts"]
    foreign = ForeignRun(**values["foreign"]) if values["foreign"] is not None else None
    timeline = Timeline(
        **{
            **values,
            "rows": (),
            "axis": Axis(**{**values["axis"], "gaps": tuple(map(tuple, values["axis"]["gaps"]))}),
            "notes": dict(values["notes"]),
            "warnings": tuple(values["warnings"]),
            "foreign": foreign,
        }
    )
    segments = tuple(Segment(**segment) for segment in facts["segments"])
    strip = tuple(Stretch(*box) for box in told["strip"])
    return Head(timeline, HeaderFacts(**{**facts, "segments": segments}), strip, tuple(told["starts"]))


def places_of(rows: Sequence[Row], events: Sequence[JournalEvent]) -> list[int]:
    """Return, for each arrival from 1 on, the ordinal of the row that tells of the event."""
    ordinal_of = {event_id: ordinal for ordinal, row in enumerate(rows) for event_id in row.event_ids}
    places = [NOWHERE] * max((event.arrival for event in events), default=0)
    for event in events:
        places[event.arrival - 1] = ordinal_of.get(event.event_id, NOWHERE)
    return places


def ordinals_of(rows: Sequence[Row]) -> Mapping[str, list[int]]:
    """Return, for each filter word but "all", the ordinals of the rows that pass."""
    return {name: [ordinal for ordinal, row in enumerate(rows) if passes(row, name)] for name in FILTERED}
