"""How a run is drawn: idle gaps short, a part alone, an overview that is as large for any run."""

from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given
from hypothesis import strategies as st

from bench.timeline_rows import long_run
from debugger.queries.axis import NS, Axis, rough
from debugger.queries.drawing import Drawing, read_drawing, read_place
from debugger.queries.idle import MOST_GAPS, with_idle_gaps
from debugger.queries.live import Shown, cut_window
from debugger.queries.rows import Row
from debugger.queries.strip import COLUMNS, EACH, HEIGHT, gaps_of, paths_of, redrawn, strip_of
from debugger.queries.timeline import WINDOW, Timeline, build_timeline
from ingest.models import Project
from tests.factories import Recorder, make_person, make_project, send
from tests.knowledge.streams import arrive, from_wire

HOUR_MS = 3_600_000
HOUR = HOUR_MS * 1_000_000
START = datetime(2026, 11, 29, 2, tzinfo=UTC)


def two_bursts(wait_ms: float = 9 * HOUR_MS) -> list[dict[str, Any]]:
    """Return a run of two bursts of two seconds, some fifty events each, with a wait between them."""
    to = Recorder("bursts", START)
    to.add("run.started", {"task": "Two bursts"})
    for turn in range(1, 17):
        to.add("turn.started", turn=turn, after_ms=wait_ms if turn == 9 else 20)
        asked = to.add("model.requested", {"n_messages": turn}, turn=turn)
        to.add("model.completed", {"duration_ms": 110, "n_calls": 1}, after_ms=110, turn=turn, caused_by=asked)
        ids = {"turn": turn, "call_id": f"c{turn}", "tool": "shell"}
        to.add("tool.requested", {"arguments": "{}"}, after_ms=1, **ids)
        to.add("tool.completed", {"duration_ms": 90, "result": "ok"}, after_ms=90, **ids)
    to.add("run.completed", {"answer": "done"}, after_ms=30)
    return to.events


def timeline_of(events: list[dict[str, Any]]) -> Timeline:
    times = [round(datetime.fromisoformat(event["occurred_at"]).timestamp() * 1_000) * 1_000_000 for event in events]
    told = zip(events, times, strict=True)
    return build_timeline(arrive(from_wire(event | {"occurred_at_unix_nano": at}) for event, at in told))


def row(start_s: float, end_s: float, **given: Any) -> Row:
    start, end = round(start_s * NS), round(end_s * NS)
    fields: dict[str, Any] = {
        "key": f"r{start}", "kind": "tool", "state": "ok", "event_id": "", "activation_id": "", "turn": 1,
        "start_ns": start, "end_ns": end, "duration_ms": None, "pieces": (), "event_ids": (), "last_arrival": 0,
    }  # fmt: skip
    return Row(**(fields | given))


# ---- idle gaps -------------------------------------------------------------------------------------------------


def test_case_37_bursts_hours_apart_are_not_squeezed() -> None:
    """Users saw two bursts of seconds as one pixel each at the ends of nine empty hours.

    The wait is a narrow gap with its length in words, and each burst has close to half of the picture.
    """
    timeline = timeline_of(two_bursts())
    ((low, high),) = timeline.axis.gaps
    assert rough(high - low) == "9 h"
    assert [one.idle for one in timeline.rows if one.idle] == ["9 h"]
    ((left, width, middle, words),) = gaps_of(timeline.axis, timeline.axis)
    assert words == "9 h idle" and width < 60 and 48 < middle < 52
    first = [one.bar for one in timeline.rows if one.bar and one.start_ns < low]
    second = [one.bar for one in timeline.rows if one.bar and one.start_ns >= high]
    assert max(bar[0] for bar in first) > 400 and min(bar[0] for bar in second) < 600
    assert left > 400
    in_full = timeline.axis.in_full
    assert in_full.place(timeline.rows[-1].start_ns, None)[0] > 999
    assert {in_full.place(one.start_ns, one.end_ns)[1] for one in timeline.rows} <= {0.0, 0.01}


def test_a_wait_that_squeezes_nothing_is_no_gap() -> None:
    """Under a minute, or short against the rest, it is drawn as it was; work between others is no wait."""
    axis = Axis(0, 10_000 * NS)
    assert not with_idle_gaps(Axis(0, 70 * NS), [row(0, 1), row(60.5, 70)]).gaps
    assert not with_idle_gaps(axis, [row(0, 9_000), row(9_100, 10_000)]).gaps
    assert not with_idle_gaps(axis, [row(0, 1), row(1, 9_990), row(9_990, 10_000)]).gaps
    assert with_idle_gaps(axis, [row(0, 1), row(9_990, 10_000)]).gaps == ((NS, 9_990 * NS),)


def test_who_holds_others_or_waits_for_a_person_is_not_at_work() -> None:
    """An agent's span around all of it, and an approval that took the night, leave the night idle."""
    axis = Axis(0, 10_000 * NS)
    inner = [row(0, 5, level=1, is_span=True), row(9_990, 10_000, level=1, is_span=True)]
    assert with_idle_gaps(axis, [row(0, 10_000, is_span=True), *inner]).gaps == ((5 * NS, 9_990 * NS),)
    waits = row(5, 9_990, kind="approval", is_child=True)
    assert with_idle_gaps(axis, [row(0, 5), waits, row(9_990, 10_000)]).gaps == ((5 * NS, 9_990 * NS),)
    assert with_idle_gaps(axis, [row(0, 9_999), row(9_999, 10_000)]).gaps == ()


def test_no_more_than_the_longest_gaps_are_drawn_short() -> None:
    """A run of many waits keeps the longest, in order, and all of them leave room for the rest."""
    rows = [row(at * 1_000, at * 1_000 + 1) for at in range(40)]
    axis = with_idle_gaps(Axis(0, 39_001 * NS), rows)
    assert len(axis.gaps) == MOST_GAPS
    assert list(axis.gaps) == sorted(axis.gaps)
    assert sum(width for _, width, _, _ in gaps_of(axis, axis)) < 500


@given(
    st.lists(st.integers(0, 10**6), unique=True, min_size=2, max_size=12), st.integers(0, 10**6), st.integers(0, 1000)
)
def test_places_and_times_keep_their_order(edges: list[int], moment: int, place: int) -> None:
    """With any gaps a later time stands no further left, all within the picture, and a place leads to its time."""
    edges = sorted(edges)[: len(edges) // 2 * 2]
    axis = Axis(0, 10**6, tuple(zip(edges[::2], edges[1::2], strict=True)))
    left, width = axis.place(moment, moment + 1_000)
    assert 0 <= left <= left + width <= 1000.01
    assert axis.place(moment + 1, None)[0] >= left
    found = axis.time_at(place)
    assert 0 <= found <= 10**6
    busy = 10**6 - sum(high - low for low, high in axis.gaps)
    if busy > 10_000 and all(high - low > busy / 10 for low, high in axis.gaps):
        assert abs(axis.place(found, None)[0] - place) < 1


def test_long_times_in_words() -> None:
    """The largest unit, one digit behind the point at most."""
    assert [rough(seconds * NS) for seconds in (0, 59, 90, 5_400, 32_400, 259_200)] == [
        "0 s", "59 s", "1.5 m", "1.5 h", "9 h", "3 d",
    ]  # fmt: skip


# ---- a part ----------------------------------------------------------------------------------------------------


def test_a_part_is_drawn_alone() -> None:
    """Bars of the part take all of the axis, rows outside have none, and every row keeps its place on the strip."""
    timeline = timeline_of(two_bursts())
    drawing = read_drawing({"zoom": "0-300"}, timeline.axis)
    assert drawing.part is not None and drawing.part[0] == 0 and 500 < drawing.part[1] < 2_000
    assert read_drawing(dict(drawing.query), timeline.axis) == drawing
    plain = [one for section in cut_window(timeline, Shown()).sections for one in section.rows]
    window = drawing.window(cut_window(timeline, Shown()), timeline.axis)
    drawn = [one for section in window.sections for one in section.rows]
    assert [one.left for one in drawn] == [one.left for one in plain]
    bars = [one.bar for one in drawn if one.bar is not None]
    assert len(bars) < len(plain) - 16
    assert max(left + width for left, width in bars) > 900
    assert drawn[-1].bar is None


@pytest.mark.parametrize("asked", ["", "5", "5-", "9-2", "-3-4", "a-b", "1-2-3", "9" * 30 + "-1", "1e5-2e5", "٣-٤"])
def test_what_is_no_part_is_the_whole_run(asked: str) -> None:
    """An address that asks for no part shows all of the run."""
    axis = Axis(0, 10 * NS)
    assert read_drawing({"part": asked, "zoom": asked, "idle": asked}, axis) == Drawing()
    assert read_place(asked) == (5.0 if asked == "5" else None)


def test_a_part_beyond_the_run_ends_with_it() -> None:
    """Old addresses of a run that lost rows still open: an axis has a length."""
    axis = Axis(0, 10 * NS)
    for part in ((5_000, 90_000), (20_000, 30_000)):
        cut = Drawing(part).axis(axis)
        assert 0 <= cut.start_ns < cut.end_ns <= axis.end_ns


# ---- the strip -------------------------------------------------------------------------------------------------


def test_the_strip_of_many_rows_is_as_small_as_that_of_some() -> None:
    """Columns share their height between the states in them, so its failures are seen and hide nothing."""
    rows = [row(at, at + 1, state="bad" if at % 10 == 0 else "ok", bar=(at / 20, 0.05)) for at in range(20_000)]
    strip = strip_of(rows)
    assert {box.tone for box in strip} == {"ok", "bad"}
    for left in range(0, 1000, 5):
        column = [box for box in strip if box.left <= left < box.left + box.width]
        assert sum(box.height for box in column) == HEIGHT
        assert min(box.height for box in column if box.tone == "bad") >= 2
    assert len(strip) < 3 * COLUMNS
    assert sum(len(path) for _, path in paths_of(strip)) < 12_000
    assert len(strip_of(rows[:EACH])) <= EACH


def test_every_state_of_a_column_is_seen() -> None:
    """One failure among thousands has its box."""
    rows = [row(1, 2, bar=(500.0, 0.0)) for _ in range(5_000)]
    strip = strip_of([*rows, replace(rows[0], state="bad"), replace(rows[0], state="hint")])
    assert {(box.tone, box.height) for box in strip} == {("bad", 2), ("hint", 2), ("ok", HEIGHT - 4)}


def test_the_strip_follows_the_way_gaps_are_drawn() -> None:
    """Drawn in full, the second burst stands at the end."""
    timeline = timeline_of(two_bursts())
    strip = strip_of(timeline.rows)
    assert any(300 < box.left < 700 for box in strip)
    in_full = redrawn(strip, timeline.axis, timeline.axis.in_full)
    assert not any(10 < box.left < 990 for box in in_full)


# ---- the page --------------------------------------------------------------------------------------------------


@pytest.fixture
def project(db: None) -> Project:
    return make_project()


@pytest.fixture
def client(project: Project) -> Client:
    client = Client()
    client.force_login(make_person("bob", project))
    return client


def test_the_page_says_what_is_drawn_short_and_leads_to_the_rest(project: Project, client: Client) -> None:
    """The gap is told between the rows, on the strip and in the line of counts, whose link draws it in full."""
    send(project, two_bursts())
    run = reverse("run-detail", args=["alpha", "bursts"])
    page = client.get(run).content.decode()
    assert '<p class="idle"><span>9 h idle</span></p>' in page
    assert ">9 h idle</text>" in page
    assert f'href="{run}?idle=full"' in page and "1 idle gap drawn short</a>" in page
    whole = client.get(run, {"idle": "full"}).content.decode()
    assert "1 idle gap drawn in full</a>" in whole
    assert f'href="{run}" title="Stretches in which nothing happened. Follow to draw them short"' in whole


def test_a_drag_leads_to_the_address_of_its_part(project: Project, client: Client) -> None:
    """Places on the strip become milliseconds, the window is the one that begins there, other choices stay."""
    send(project, [dict(event) for event in long_run("long", 900, 20, 100)])
    run = reverse("run-detail", args=["alpha", "long"])
    answer = client.get(run, {"zoom": "500-600", "q": "", "show": "all"})
    assert answer.status_code == 302
    address = answer.headers["Location"]
    assert address.startswith(f"{run}?") and "part=" in address and "zoom" not in address
    assert int(address.partition("from=")[2].partition("&")[0]) >= WINDOW
    page = client.get(address).content.decode()
    assert 'id="strip-part"' in page and ">whole run</a>" in page
    assert '<input type="hidden" form="filters" name="part"' in page
    assert "&amp;part=" in page.partition('<nav class="pager"')[2].partition("</nav>")[0]
    rows = client.get(reverse("run-rows", args=["alpha", "long"]), {"at": "999"})
    assert "from=" in rows.headers["HX-Replace-Url"]
    failed = client.get(reverse("run-rows", args=["alpha", "long"]), {"at": "999", "show": "failed"})
    assert failed.headers["HX-Replace-Url"] == f"{run}?show=failed"


def test_a_long_page_is_no_larger_than_a_short_one(project: Project, client: Client) -> None:
    """Users' pages grew with the run. Three times the events are at most a tenth more bytes, page and window."""
    for run_id, n_events in (("short", 900), ("long", 2_700)):
        send(project, [dict(event) for event in long_run(run_id, n_events, 20, 100)])
    sizes = {
        name: [len(client.get(reverse(name, args=["alpha", run_id])).content) for run_id in ("short", "long")]
        for name in ("run-detail", "run-rows")
    }
    for short, long in sizes.values():
        assert long < 1.1 * short
    assert sizes["run-rows"][1] < 60_000
