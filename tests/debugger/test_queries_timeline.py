"""The timeline: what happened becomes rows, in an order that does not depend on the order of arrival."""

import random
from dataclasses import replace
from datetime import datetime
from typing import Any

import pytest

from debugger.queries.grouping import group_events, missing_numbers
from debugger.queries.live import Cursor, Shown, changes_since, cut_window
from debugger.queries.sections import filter_rows, in_sections
from debugger.queries.timeline import WINDOW, Timeline, build_timeline
from ingest.journal import JournalEvent
from tests.factories import typical_run
from tests.knowledge.streams import arrive, from_wire, run_of


def journal(events: list[dict[str, Any]]) -> list[JournalEvent]:
    """Wire events as the journal reads them back."""
    return arrive([from_wire({**event, "occurred_at_unix_nano": _nanos(event["occurred_at"])}) for event in events])


def _nanos(stamp: str) -> int:
    return int(datetime.fromisoformat(stamp).timestamp() * 1_000_000) * 1_000


def texts(events: list[JournalEvent]) -> list[str]:
    return [row.text for row in build_timeline(events).rows]


def test_a_request_and_its_answer_are_one_row() -> None:
    """A model request with its answer, a call with its outcome: one row each, with both events."""
    timeline = build_timeline(journal(typical_run()))
    kinds = [row.kind for row in timeline.rows]
    assert kinds.count("model") == 3
    assert kinds.count("tool") == 4
    tool = next(row for row in timeline.rows if row.kind == "tool")
    assert len(tool.event_ids) == 2
    assert tool.state == "bad"
    assert tool.duration_ms == 41
    assert "shell git commit -m release fatal: not a git repository (or any parent): .git · exit_nonzero" in tool.text


def test_an_activation_stands_under_its_trigger() -> None:
    """Each activation, skipped ones too, is the child of the row that holds its trigger event."""
    rows = build_timeline(journal(typical_run())).rows
    for index, row in enumerate(rows):
        if row.kind == "activation":
            assert row.is_child
            assert rows[index - 1].kind == "tool"
    skipped = rows[-2]
    assert "No search" in skipped.text
    assert "the same situation was already searched for in this run at +" in skipped.text


@pytest.mark.parametrize(
    ("data", "ends"),
    [
        ({"holdout": {"arm": "withheld", "share": 0.2}, "n_dropped": 1}, "1 dropped withheld on purpose"),
        ({"shadow_tokens": 96, "n_dropped": 1}, "1 dropped shadow mode"),
        ({"holdout": {"arm": "offered", "share": 0.2}, "n_selected": 1}, "1 selected"),
        ({"holdout": "withheld"}, "0 selected"),
    ],
)
def test_an_activation_says_when_nothing_went_in_on_purpose(data: dict[str, Any], ends: str) -> None:
    """By the draw of a holdout or in shadow mode; the other arm reads like any activation."""
    told = {"trigger": "tool.failed", "result": "success", **data}
    (row,) = build_timeline(run_of(("activation.completed", {"activation_id": "a1", "data": told}))).rows
    assert row.text.endswith(ends)


def test_an_activation_without_its_trigger_is_marked() -> None:
    """Where the trigger event is lost the activation keeps its place and says so."""
    events = [event for event in journal(typical_run()) if event.type != "tool.failed"]
    activation = next(row for row in build_timeline(events).rows if row.kind == "activation")
    assert not activation.is_child
    assert "its trigger event has not arrived" in activation.marks


def test_activations_that_name_each_other_are_shown() -> None:
    """No chain of triggers, not even a circle, makes a row disappear."""
    asked = {"data": {"trigger": "tool.failed"}}
    events = run_of(
        ("activation.requested", {"activation_id": "a1", "caused_by": "r-1:2", **asked}),
        ("activation.requested", {"activation_id": "a2", "caused_by": "r-1:1", **asked}),
        ("activation.requested", {"activation_id": "a3", "caused_by": "r-1:3", **asked}),
    )
    assert [row.activation_id for row in build_timeline(events).rows] == ["a1", "a2", "a3"]


@pytest.mark.parametrize("seed", range(5))
def test_arrival_order_changes_only_keys(seed: int) -> None:
    """The same events in any order of arrival give the same rows."""
    events = journal(typical_run())
    order = list(range(len(events)))
    random.Random(seed).shuffle(order)
    shuffled = sorted(
        (replace(event, arrival=order[index] + 1) for index, event in enumerate(events)),
        key=lambda event: (event.seq is None, event.seq or 0, event.occurred_ns, event.event_id),
    )
    straight = sorted(events, key=lambda event: (event.seq is None, event.seq or 0, event.occurred_ns, event.event_id))
    assert texts(shuffled) == texts(straight)


def test_an_end_without_a_beginning_and_a_beginning_without_an_end() -> None:
    """Neither is lost: the one is marked, the other is open."""
    events = run_of(
        ("tool.completed", {"call_id": "lost", "tool": "shell", "data": {"duration_ms": 5}}),
        ("tool.requested", {"call_id": "open", "tool": "shell"}),
    )
    ended, opened = build_timeline(events).rows
    assert "its beginning has not arrived" in ended.marks
    assert opened.state == "open"
    assert opened.end_ns is None


def test_an_end_before_its_beginning_is_one_row() -> None:
    """Skewed clocks put an end first; it is paired all the same, marked, and drawn inside the axis."""
    events = run_of(
        ("tool.failed", {"call_id": "c", "tool": "shell", "data": {}}),
        ("tool.requested", {"call_id": "c", "tool": "shell"}),
    )
    (row,) = build_timeline(events).rows
    assert "it ends before it begins" in row.marks
    assert row.bar is not None
    assert 0 <= row.bar[0] <= 1000


def test_two_rounds_with_one_call_id_are_two_rows() -> None:
    """A call id that comes again after its end opens a new row."""
    call = {"call_id": "c", "tool": "shell"}
    events = run_of(*(("tool.requested", call), ("tool.completed", call)) * 2)
    assert [len(row.event_ids) for row in build_timeline(events).rows] == [2, 2]


def test_a_wrong_clock_is_marked_and_does_not_stretch_the_axis() -> None:
    """An event dated far in the future is shown, marked, and drawn at the edge."""
    events = run_of(("run.started", {}), ("tool.requested", {"call_id": "c"}), ("run.completed", {}))
    events[1] = replace(events[1], occurred_ns=10**19 // 2)
    timeline = build_timeline(events)
    assert "the sender's clock is wrong" in timeline.rows[1].marks
    assert timeline.axis.span_ms < 1_000
    assert timeline.rows[1].bar == (1000.0, 0.0)


@pytest.mark.parametrize("duration", [1e308, 2**63 - 1, -1, "41"])
def test_a_duration_nobody_can_believe_is_not_drawn(duration: Any) -> None:
    """What a sender says to have measured moves no row to another year, and costs nobody the page."""
    events = typical_run()
    failed = next(event for event in events if event["type"] == "tool.failed")
    failed["data"] = {**failed["data"], "duration_ms": duration}
    row = next(row for row in build_timeline(journal(events)).rows if failed["event_id"] in row.event_ids)
    assert row.duration_ms is not None and 0 <= row.duration_ms < 3_600_000
    assert row.start_ns > _nanos("2000-01-01T00:00:00Z")


def test_unknown_types_are_rows() -> None:
    """A type nobody knows is shown with what it says."""
    (row,) = build_timeline(run_of(("vendor.thing", {"data": {"note": "hello"}}))).rows
    assert row.text == "vendor.thing hello"


def test_missing_numbers_are_counted() -> None:
    """Gaps of the sender's numbering are counted, events without a number are not."""
    events = journal(typical_run())
    assert missing_numbers(events) == 0
    assert missing_numbers([event for event in events if event.seq not in (3, 4)]) == 2
    assert missing_numbers([]) == 0


def test_every_event_is_in_a_group_or_a_frame() -> None:
    """Nothing of the journal is left out of the page."""
    events = journal(typical_run())
    grouped = group_events(events)
    assert sum(len(group.events) for group in grouped.groups) + len(grouped.frames) == len(events)


def test_filters() -> None:
    """Each filter word shows what it counts; every word of a text must be there, in any case."""
    timeline = build_timeline(journal(typical_run()))
    for word, n in timeline.counts.items():
        assert len(filter_rows(timeline, word)) == n
    assert timeline.counts == {"all": 12, "failed": 2, "activations": 3, "model": 3, "tools": 4}
    assert [row.kind for row in filter_rows(timeline, "all", "GIT Init")] == ["tool"]


def test_sections_have_unique_keys() -> None:
    """Turns are headed once each, start and end stand apart, and a turn that comes again has another key."""
    timeline = build_timeline(journal(typical_run()))
    sections = in_sections(timeline.rows, timeline.notes)
    assert [section.title for section in sections] == ["Start", "Turn 1", "Turn 2", "Turn 3", "End"]
    assert sections[2].note == "2 calls in one reply"
    mixed = build_timeline(run_of(("thinking", {"turn": 1}), ("thinking", {"turn": 2}), ("thinking", {"turn": 1})))
    keys = [section.key for section in in_sections(mixed.rows, mixed.notes)]
    assert len(set(keys)) == 3


def test_windows_cover_all_rows_once() -> None:
    """Every row is in exactly one window, and a start past the end gives the last."""
    events = run_of(*(("thinking", {"turn": number // 10 + 1}) for number in range(WINDOW * 2 + 5)))
    timeline = build_timeline(events)
    shown, start = [], 0
    while True:
        window = cut_window(timeline, Shown(start=start))
        shown += [row.key for section in window.sections for row in section.rows]
        if window.later is None:
            break
        start = window.later
    assert shown == [row.key for row in timeline.rows]
    assert cut_window(timeline, Shown(start=10**9)).last == len(timeline.rows)


def page_after(rows: list[str], timeline: Timeline, before: Timeline, cursor: Cursor) -> list[str]:
    """What a page that shows `rows` shows after the changes: a browser in small."""
    window = cut_window(timeline, Shown())
    changes = changes_since(timeline, before, window, cursor)
    full = [key for section in window.sections for key in (section.key, *(row.key for row in section.rows))]
    if changes.anew:
        return full
    for row in changes.replaced:
        assert row.key in rows
    for heading in changes.headings:
        assert heading.key in rows
    for insertion in changes.inserted:
        place = rows.index(insertion.anchor) + 1 if insertion.anchor else 0
        new = [
            key
            for section in insertion.sections
            for key in ([section.key] if section.title else []) + [row.key for row in section.rows]
        ]
        rows = rows[:place] + new + rows[place:]
    return rows


@pytest.mark.parametrize("step", [1, 3, 7])
@pytest.mark.parametrize("seed", [None, 1, 2])
def test_following_a_run_ends_at_the_same_page(step: int, seed: int | None) -> None:
    """A page that takes the changes as events come, in any order, shows what a page opened at the end shows."""
    events = journal(typical_run(ended=False))
    if seed is not None:
        random.Random(seed).shuffle(events)
        events = arrive(events)
    rows: list[str] = []
    cursor = Cursor(0, 0, 0)
    for count in range(step, len(events) + step, step):
        here = sorted(
            events[:count], key=lambda event: (event.seq is None, event.seq or 0, event.occurred_ns, event.arrival)
        )
        timeline = build_timeline(here)
        before = build_timeline([event for event in here if event.arrival <= cursor.arrival])
        rows = page_after(rows, timeline, before, cursor)
        window = cut_window(timeline, Shown())
        assert rows == [key for section in window.sections for key in (section.key, *(row.key for row in section.rows))]
        cursor = Cursor(max(event.arrival for event in here), 0, timeline.axis.end_ns - timeline.axis.start_ns)


def test_a_heading_that_comes_after_its_rows_has_everything_drawn_anew() -> None:
    """A row whose turn became known stands under a heading the page does not have: nothing is put behind that."""
    timeline = build_timeline(journal(typical_run()))
    of_turn = [row for row in timeline.rows if row.turn == 1]
    known = timeline.rows[: timeline.rows.index(of_turn[0]) + 1]
    before = replace(timeline, rows=tuple(replace(row, turn=None) for row in known))
    cursor = Cursor(int(known[-1].key[1:]), 0, timeline.axis.end_ns - timeline.axis.start_ns)
    window = cut_window(timeline, Shown())
    assert changes_since(timeline, before, window, cursor).anew
    same = replace(timeline, rows=known)
    changes = changes_since(timeline, same, window, cursor)
    assert not changes.anew and changes.inserted
