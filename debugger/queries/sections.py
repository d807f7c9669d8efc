"""Which rows of a timeline are shown, under which turns. Pure."""

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from contract.events import TERMINAL_TYPES
from debugger.queries.rows import Row
from debugger.queries.timeline import Timeline, passes


@dataclass(frozen=True, slots=True)
class Section:
    """The rows of one turn. `key` is unique in the list; `note` says what is special about the turn.

    Only the first may have no title, and then no heading: it holds the spans of a run without turns.
    """

    key: str
    title: str
    note: str
    rows: tuple[Row, ...]


def filter_rows(timeline: Timeline, show: str = "all", text: str = "") -> tuple[Row, ...]:
    """Return the rows that pass a filter word of FILTERS and hold every word of `text` (case ignored)."""
    words = text.casefold().split()
    return tuple(
        row
        for row in timeline.rows
        if passes(row, show) and (not words or all(word in searched_text(row) for word in words))
    )


def searched_text(row: Row) -> str:
    """Return what a filter by text looks at, case folded: the row's sentence and its event ids."""
    return f"{row.text} {' '.join(row.event_ids)}".casefold()


def in_sections(rows: Sequence[Row], notes: Mapping[int, str]) -> tuple[Section, ...]:
    """Return rows under their turns, in order. What comes before the first turn or after the last stands apart."""
    sections: list[tuple[str, list[Row]]] = []
    for row in rows:
        title = _section_title(row, bool(sections))
        if not sections or (title and sections[-1][0] != title):
            sections.append((title, []))
        sections[-1][1].append(row)
    seen: Counter[str] = Counter()
    made = []
    for title, inner in sections:
        seen[title] += 1
        key = f"s-{(title or 'spans').replace(' ', '-').replace(',', '').lower()}-{seen[title]}"
        made.append(Section(key, title, notes.get(inner[0].turn or 0, "") if seen[title] == 1 else "", tuple(inner)))
    return tuple(made)


def _section_title(row: Row, begun: bool) -> str:
    if row.kind in TERMINAL_TYPES:
        return "End"
    if row.turn is None:
        return "" if begun or row.is_span else "Start"
    return f"Turn {row.turn:,}"
