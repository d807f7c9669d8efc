"""What a page that shows a run in progress has to change: rows replaced, rows put in, or all of them anew. Pure."""

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from debugger.queries.rows import Row
from debugger.queries.sections import Section, filter_rows, in_sections
from debugger.queries.timeline import WINDOW, Timeline


@dataclass(frozen=True, slots=True)
class Shown:
    """Which rows of a timeline are shown: the filter, and the index of the first row of the window."""

    show: str = "all"
    text: str = ""
    start: int = 0


@dataclass(frozen=True, slots=True)
class Window:
    """One window of the filtered rows. `n_filtered` counts all rows that pass, `start` is the index of the first."""

    shown: Shown
    sections: tuple[Section, ...]
    n_rows: int
    n_filtered: int

    @property
    def first(self) -> int:
        return self.shown.start + 1 if self.n_rows else 0

    @property
    def last(self) -> int:
        return self.shown.start + self.n_rows

    @property
    def earlier(self) -> int | None:
        return max(0, self.shown.start - WINDOW) if self.shown.start else None

    @property
    def later(self) -> int | None:
        return self.last if self.last < self.n_filtered else None

    @property
    def end(self) -> int | None:
        """Where the last window begins, None when it is this one or the next."""
        start = max(0, (self.n_filtered - 1) // WINDOW * WINDOW)
        return start if self.later is not None and start > self.later else None


@dataclass(frozen=True, slots=True)
class Cursor:
    """How far a page has come: the last arrival and the last folded arrival it shows, and its axis in nanoseconds."""

    arrival: int
    folded: int
    axis_ns: int


@dataclass(frozen=True, slots=True)
class Insertion:
    """Sections (or the rest of one) to put in right after the row or heading `anchor`; "" means at the start."""

    anchor: str
    sections: tuple[Section, ...]


@dataclass(frozen=True, slots=True)
class Changes:
    """What became different since a cursor. With `anew` the whole window is to be drawn again."""

    anew: bool
    replaced: tuple[Row, ...] = ()
    headings: tuple[Section, ...] = ()
    inserted: tuple[Insertion, ...] = ()


def cut_window(timeline: Timeline, shown: Shown) -> Window:
    """Return the window that `shown` asks for; a start past the end gives the last window."""
    rows = filter_rows(timeline, shown.show, shown.text)
    start = min(max(0, shown.start), max(0, (len(rows) - 1) // WINDOW * WINDOW))
    cut = rows[start : start + WINDOW]
    return Window(Shown(shown.show, shown.text, start), in_sections(cut, timeline.notes), len(cut), len(rows))


def start_of_event(timeline: Timeline, shown: Shown, event_id: str) -> int:
    """Return the start of the window that holds an event's row; 0 when no row of the filter does."""
    for index, row in enumerate(filter_rows(timeline, shown.show, shown.text)):
        if event_id in row.event_ids:
            return index // WINDOW * WINDOW
    return 0


def changes_since(timeline: Timeline, before: Timeline, window: Window, cursor: Cursor) -> Changes:
    """Return what a page at `cursor` has to change to show `window`; `before` is the timeline of the events it knows.

    Row by row only where no row it shows has moved: no filter, one window, the same axis, the same order. Otherwise
    everything is drawn anew.
    """
    if window.shown.show != "all" or window.shown.text or window.n_filtered > WINDOW:
        return Changes(anew=True)
    axis_ns = timeline.axis.end_ns - timeline.axis.start_ns
    known = _keys(in_sections(before.rows, before.notes))
    same_axis = axis_ns == cursor.axis_ns and timeline.axis.gaps == before.axis.gaps
    in_place = known == [key for key in _keys(window.sections) if key in set(known)]
    if not same_axis or not in_place or _has_new_heading(window.sections, set(known), cursor):
        return Changes(anew=True)
    old = {row.key: row for row in before.rows}
    replaced = tuple(
        row for section in window.sections for row in section.rows if _is_changed(row, old.get(row.key), cursor)
    )
    touched = tuple(
        section
        for section in window.sections
        if section.title
        and not _is_all_new(section, cursor)
        and any(_is_new(row, cursor) or row.last_arrival > cursor.arrival for row in section.rows)
    )
    return Changes(False, replaced, touched, _insertions(window.sections, cursor))


def _keys(sections: Sequence[Section]) -> list[str]:
    return [
        key
        for section in sections
        for key in (*((section.key,) if section.title else ()), *(r.key for r in section.rows))
    ]


def _has_new_heading(sections: Sequence[Section], known: Collection[str], cursor: Cursor) -> bool:
    """Say whether a row that is shown stands under a heading that is not: what joined it named its turn."""
    return any(section.title and section.key not in known and not _is_all_new(section, cursor) for section in sections)


def _is_all_new(section: Section, cursor: Cursor) -> bool:
    return all(_is_new(row, cursor) for row in section.rows)


def _is_new(row: Row, cursor: Cursor) -> bool:
    return int(row.key[1:]) > cursor.arrival


def _is_changed(row: Row, old: Row | None, cursor: Cursor) -> bool:
    """A known row is different when events joined it, when what it stands under came, and when the fold went on."""
    return not _is_new(row, cursor) and (row.last_arrival > cursor.arrival or row.from_chain or row != old)


def _insertions(sections: Sequence[Section], cursor: Cursor) -> tuple[Insertion, ...]:
    """Return the new rows, gathered behind the known row or heading they follow."""
    found: list[Insertion] = []
    anchor, pending = "", list[Section]()
    for section in sections:
        opened = _is_all_new(section, cursor)
        run: list[Row] = []
        if not opened:
            found += _flush(anchor, pending)
            anchor, pending = section.key if section.title else "", []
        for row in section.rows:
            if _is_new(row, cursor):
                run.append(row)
                continue
            pending += _piece(section, run, opened)
            found += _flush(anchor, pending)
            anchor, pending, run, opened = row.key, [], [], False
        pending += _piece(section, run, opened)
    return tuple(found + _flush(anchor, pending))


def _piece(section: Section, rows: Sequence[Row], opened: bool) -> list[Section]:
    """Return the new rows of a section, with its heading when that is new too (a title of "" has none)."""
    if not rows:
        return []
    return [Section(section.key, section.title if opened else "", section.note, tuple(rows))]


def _flush(anchor: str, pending: Sequence[Section]) -> list[Insertion]:
    return [Insertion(anchor, tuple(pending))] if pending else []
