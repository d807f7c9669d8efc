"""Runs made of foreign spans on the page: nested, named, timed, honest about what is missing, wrong or guessed."""

import random
import re
import time
from dataclasses import replace
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse
from hypothesis import given, settings
from hypothesis import strategies as st

from contract import stages
from debugger.queries.event_detail import shown_text
from debugger.queries.live import Cursor, Shown, changes_since, cut_window
from debugger.queries.nesting import CIRCLE, LOST_PARENT, OWN_PARENT
from debugger.queries.pieces import PREVIEW
from debugger.queries.rows import DEEPEST, Row
from debugger.queries.sections import in_sections
from debugger.queries.span_times import WRONG_CLOCK
from debugger.queries.timeline import WINDOW, Timeline, build_timeline
from ingest.models import Project
from knowledge.fold import fold_run
from knowledge.models import Activation, RunSummary
from knowledge.run_bodies import duration_ms
from tests.factories import make_person, make_project, send
from tests.knowledge.spans import MS, START_NS, TRACE, agent_run, journal, span
from tests.knowledge.streams import arrive, run_of
from tests.knowledge.test_foreign_runs import SPAN, chain_of

HOUR = 3_600_000


def timeline_of(*events: dict[str, Any]) -> Timeline:
    return build_timeline(fold_order(journal(events)))


def fold_order(events: list[Any]) -> list[Any]:
    return sorted(events, key=lambda event: (event.occurred_ns, event.event_id))


def names(timeline: Timeline) -> list[tuple[int, str]]:
    return [(row.level, row.event_id.lstrip("0")) for row in timeline.rows]


def row_of(timeline: Timeline, number: int) -> Row:
    return next(row for row in timeline.rows if row.event_id.startswith(f"{number:016x}"))


# ---- rows ------------------------------------------------------------------------------------------------------


def test_spans_stand_in_each_other_under_their_names() -> None:
    """One row a span, under its parent, with its kind, name, duration and state; no turn headings."""
    timeline = timeline_of(*agent_run())
    assert names(timeline) == [(0, "1"), (1, "2"), (1, "3"), (1, "4"), (1, "5"), (1, "6")]
    assert [row.kind for row in timeline.rows] == ["span", "model", "tool", "activation", "span", "model"]
    assert [row.state for row in timeline.rows] == ["ok", "model", "bad", "open", "plain", "model"]
    assert [row.duration_ms for row in timeline.rows] == [1000, 100, 30, 20, 5, 700]
    assert timeline.rows[1].text == "model 2 gpt-x 100 → 20 tokens → 1 call “I will commit.”"
    assert timeline.rows[2].text == "bash fatal: not a git repository"
    assert timeline.rows[4].text == "reranker 5 3 in, 1 kept, 2 dropped"
    assert [section.title for section in in_sections(timeline.rows, timeline.notes)] == [""]
    assert (timeline.is_running, timeline.warnings, [row.marks for row in timeline.rows]) == (False, (), [()] * 6)


def test_what_is_inferred_is_said_to_be() -> None:
    """The row of a search shows its reported trigger, and beside it the guess as a guess."""
    events = fold_order(journal(agent_run()))
    (facts,) = fold_run(events).activations
    known = {name: getattr(facts, name) for name in facts.__dataclass_fields__}
    timeline = build_timeline(events, [Activation(**known)])
    assert row_of(timeline, 4).text == "Activation agent.search 3 found 2 dropped inferred: tool.failed"
    assert [piece.tone for piece in row_of(timeline, 4).pieces][-1] == "inferred"


def test_log_records_stand_in_their_span() -> None:
    """A log record is a row under its span, with its severity."""
    log = {
        "event_id": "log:1", "run_id": TRACE, "type": "log", "caused_by": f"{1:016x}",
        "occurred_at_unix_nano": START_NS + MS, "data": {"severity": "ERROR", "event_name": "retry", "body": "again"},
    }  # fmt: skip
    row = next(row for row in timeline_of(*agent_run(), log).rows if row.kind == "log")
    assert (row.level, row.state, row.text) == (1, "bad", "retry error again")


def test_rows_are_the_same_in_any_order_of_arrival() -> None:
    """What came first does not show; only the keys of rows tell it."""
    events = journal([*agent_run(), span(7, parent=99), span(8, parent=9, start=1), span(9, parent=8, start=2)])
    expected = build_timeline(fold_order(events))
    for seed in range(5):
        random.Random(seed).shuffle(events)
        again = build_timeline(fold_order(arrive(events)))
        plain = [replace(row, key="", last_arrival=0) for row in again.rows]
        assert plain == [replace(row, key="", last_arrival=0) for row in expected.rows]
        assert again.warnings == expected.warnings


def test_native_runs_keep_their_headings_beside_spans_of_a_library() -> None:
    """A run that reports itself keeps its turns and its end; spans sent into it stand in their own tree."""
    told = run_of(
        ("run.started", {"data": {"task": "t"}}),
        ("tool.requested", {"turn": 1, "call_id": "c", "tool": "shell"}),
        ("tool.completed", {"turn": 1, "call_id": "c", "tool": "shell"}),
        ("run.completed", {}),
    )
    shift = START_NS - 10 * MS
    told = [replace(event, occurred_ns=event.occurred_ns + shift) for event in told]
    spans = journal([span(1, ms=2), span(2, "model", parent=1, start=1, ms=None)])
    timeline = build_timeline(arrive([*told, *spans]))
    assert [section.title for section in in_sections(timeline.rows, {})] == ["Start", "Turn 1", "End"]
    assert [(row.kind, row.level) for row in timeline.rows[-2:]] == [("span", 0), ("model", 1)]
    assert not timeline.is_running


# ---- cases from real reports -----------------------------------------------------------------------------------


@pytest.mark.parametrize("n", [1_500, 5_000])
def test_case_17_a_very_deep_run_is_drawn(n: int) -> None:
    """Thousands of spans inside each other: every row there, in order, the indent capped, the level said."""
    begun = time.process_time()
    timeline = timeline_of(*chain_of(n))
    assert [row.level for row in timeline.rows] == list(range(n))
    assert max(row.indent for row in timeline.rows) == DEEPEST
    assert [row.is_deep for row in timeline.rows[DEEPEST : DEEPEST + 2]] == [False, True]
    assert time.process_time() - begun < 3


def test_case_20_circles_are_cut_flagged_and_drawn() -> None:
    """Its own parent; two that are each other's: all rows there once, the cut marked, a banner with the cause."""
    own = timeline_of(span(1, "agent", parent=1))
    assert (names(own), own.rows[0].marks) == ([(0, "1")], (OWN_PARENT,))
    timeline = timeline_of(span(2, parent=3, start=1), span(3, parent=2, start=2), span(4, parent=3, start=3))
    assert names(timeline) == [(0, "2"), (1, "3"), (2, "4")]
    assert [row.marks for row in timeline.rows] == [(CIRCLE,), (), ()]
    assert any("1 circle, cut" in warning for warning in timeline.warnings)


def test_case_21_an_orphan_is_shown_at_once_and_moves_under_its_parent() -> None:
    """Marked while its parent is missing; drawn under it when it comes, on the page that follows the run too."""
    root, *children = agent_run()
    before = timeline_of(*children)
    assert {row.level for row in before.rows} == {0}
    assert all(LOST_PARENT in row.marks for row in before.rows)
    assert [warning.partition(":")[0] for warning in before.warnings] == [
        "The root span has not arrived", "Incomplete",
    ]  # fmt: skip
    assert before.is_running
    after = build_timeline(fold_order(journal([*children, root])))
    assert [row.level for row in after.rows] == [0, 1, 1, 1, 1, 1]
    assert not any(row.marks for row in after.rows)
    window = cut_window(after, Shown())
    same_axis = Cursor(len(children), 0, after.axis.end_ns - after.axis.start_ns)
    changes = changes_since(after, before, window, same_axis)
    assert not changes.anew
    assert {row.level for row in changes.replaced} == {1}
    assert [(insertion.anchor, insertion.sections[0].rows[0].event_id) for insertion in changes.inserted] == [
        ("", f"{1:016x}")
    ]
    assert changes.headings == ()


def test_case_23_the_unfinished_copy_shares_the_row_of_the_finished_one() -> None:
    """One row; open before the end, ended after it; a link to the unfinished copy leads to the row."""
    opened, ended = span(2, "model", ms=None), span(2, "model")
    running = timeline_of(opened)
    assert (running.rows[0].state, running.rows[0].end_ns, running.is_running) == ("open", None, True)
    both = timeline_of(ended, opened)
    assert [row.event_ids for row in both.rows] == [(f"{2:016x}", f"{2:016x}:open")]
    assert (both.rows[0].state, both.n_events, both.is_running) == ("model", 2, False)


@pytest.mark.parametrize(
    ("begun", "ended", "mark"),
    [
        (START_NS + MS, START_NS + MS - 1, "it ends before it begins"),
        (START_NS + MS, 0, "its end is 0: it was cut short"),
        (0, 0, WRONG_CLOCK),
        (START_NS + MS, 2**63 - 1, "its end lies 235.4 years after its start"),
        ((START_NS + MS) // 10**9, (START_NS + MS) // 10**9 + 1, WRONG_CLOCK),
        ((START_NS + MS) // 10**6, (START_NS + MS) // 10**6 + 10, WRONG_CLOCK),
    ],
)
def test_case_26_an_impossible_time_is_flagged_and_clamped_in_the_drawing(begun: int, ended: int, mark: str) -> None:
    """The bar stays on the axis of the run, which keeps its length; the row has no length and says why."""
    events = journal([span(1, "agent", ms=1000), span(2, parent=1, start=1), span(3, parent=1)])
    far = ("clock_far",) if begun < START_NS else ()
    events[2] = replace(events[2], occurred_ns=begun, ended_ns=ended, repairs=far)
    timeline = build_timeline(fold_order(events))
    row = row_of(timeline, 3)
    assert (row.marks, row.level) == ((mark,), 1)
    assert (row.duration_ms or 0) < 1
    assert row.bar is not None
    assert 0 <= row.bar[0] <= 1000
    assert row.bar[1] <= 1
    assert (timeline.axis.start_ns, timeline.axis.span_ms) == (START_NS, 1000)
    assert any(warning.startswith("Impossible times: 1 span,") for warning in timeline.warnings)


@pytest.mark.parametrize(
    ("offset", "mark", "left"),
    [(7 * 60_000, "ends 6.9 min after its parent", 1000), (-27 * HOUR, "starts 27 h before its parent", 0)],
)
def test_case_27_a_childs_skewed_clock_is_flagged_and_held_in_the_drawing(offset: int, mark: str, left: int) -> None:
    """7 minutes ahead, 27 hours behind: marked, drawn at the parent's edge, the axis unmoved, the offset as sent."""
    timeline = timeline_of(span(1, "agent", ms=6000), span(2, parent=1, start=offset, ms=2000))
    row = row_of(timeline, 2)
    assert (row.marks, row.offset_ns) == ((mark,), offset * MS)
    assert row.bar == (left, 0)
    assert timeline.axis.span_ms == 6000
    assert len(timeline.warnings) == 1


def test_case_27_a_long_span_and_far_dates_are_legal() -> None:
    """27 hours is a duration like any other; a run of 3774 has its own axis and one mark at its top."""
    long = timeline_of(span(1, "agent", start=-27 * HOUR, ms=27 * HOUR))
    assert (long.rows[0].marks, long.rows[0].duration_ms, long.warnings) == ((), 27 * HOUR, ())
    events = journal([span(1, "agent", ms=100), span(2, "tool", parent=1, start=50, ms=25)])
    year_3774 = [
        replace(event, occurred_ns=event.occurred_ns + 55 * 10**18 // 1000 * 1000 - START_NS, ended_ns=None)
        for event in events
    ]
    moved = [
        replace(event, ended_ns=event.occurred_ns + length * MS, repairs=("clock_far",))
        for event, length in zip(year_3774, (100, 25), strict=True)
    ]
    far = build_timeline(fold_order(moved))
    assert far.axis.span_ms == 100
    assert [row.marks for row in far.rows] == [(WRONG_CLOCK,), ()]
    assert far.rows[1].bar == (500, 250)


# ---- pages -----------------------------------------------------------------------------------------------------


@pytest.fixture
def project(db: None) -> Project:
    return make_project("alpha")


def client_of(project: Project) -> Client:
    client = Client()
    client.force_login(make_person("alice", project))
    return client


def page(client: Client, name: str, *ids: str, **query: str) -> str:
    response = client.get(reverse(name, args=["alpha", *ids]), query)
    assert response.status_code == 200
    return response.content.decode()


def plain(html: str) -> str:
    """Return what a person reads of a page."""
    return " ".join(re.sub(r"<[^>]*>", "", html).split())


def test_case_21_the_page_completes_when_the_root_comes(project: Project) -> None:
    """Running with a banner while it is missing; completed with task and answer after; found in the list."""
    client = client_of(project)
    root, *children = agent_run()
    send(project, children)
    early = page(client, "run-detail", TRACE)
    assert "The root span has not arrived" in early
    assert LOST_PARENT in early
    assert ">running<" in early
    send(project, [root])
    late = page(client, "run-detail", TRACE)
    assert "has not arrived" not in late
    assert ">completed<" in late
    assert "Release it" in page(client, "run-list")


def test_case_27_a_run_of_any_date_is_found_by_its_id(project: Project) -> None:
    """Dated 1970 and 2262: listed, found by the whole id, its page opens."""
    client = client_of(project)
    for run_id, at in (("t-1970", 1_700_000_000), ("t-2262", 2**63 - 10)):
        send(project, [span(1, "agent", run_id=run_id) | {"occurred_at_unix_nano": at, "ended_at_unix_nano": at + 5}])
    for run_id in ("t-1970", "t-2262"):
        listed = page(client, "run-list", text=run_id)
        assert re.findall(r'data-key="([^"]+)"', listed) == [run_id]
        assert WRONG_CLOCK.partition("'")[2] in page(client, "run-detail", run_id)
    assert "No run matches" in page(client, "run-list", text="t-19")


def test_case_31_the_list_of_rows_is_sent_without_content(project: Project) -> None:
    """Users waited for ever while a page loaded every span with all its content.

    200 spans of 20 KB each: the page stays small and says how many rows of how many it has, a window is no larger for
    being further on, and the content is in the panel of its row.
    """
    client = client_of(project)
    big = "word " * 4_000
    send(project, [span(1, "agent", ms=900), *(span(n, "model", parent=1, data={"text": big}) for n in range(2, 202))])
    whole = page(client, "run-detail", TRACE)
    assert len(whole) < 400_000
    assert whole.count("word word") <= 201 * 20
    assert f"rows 1–{WINDOW} of 201" in plain(whole)
    last = page(client, "run-rows", TRACE, **{"from": f"{3 * WINDOW}"})
    assert len(last) < 80_000 and last.count("data-row ") == WINDOW
    assert big[:3_000] in page(client, "event-detail", TRACE, f"{2:016x}")


def test_case_32_data_uris_are_chips_in_rows_and_panel(project: Project) -> None:
    """A base64 image is its kind and size, in the row, the fields and the attributes."""
    client = client_of(project)
    image = "data:image/png;base64," + "iVBORw0KGgo" * 2_000
    event = span(2, "model", data={"text": f"Look: {image}"})
    event["data"]["span"]["attributes"] = {"input.image": image}
    send(project, [event])
    words = f"image/png · {len(image):,} characters"
    whole, panel = page(client, "run-detail", TRACE), page(client, "event-detail", TRACE, event["event_id"])
    assert f"[{words}]" in whole
    assert panel.count(f'<span class="chip-data">{words}</span>') == 2
    assert image[:200] not in whole + panel


def test_case_32_many_levels_with_large_pictures_open_as_windows_of_chips(project: Project) -> None:
    """Users saw megabytes of base64 as text, and waited seconds for each click in deep traces.

    130 levels, each with a picture, two of several megabytes: the page and each panel stay small, a picture is a chip,
    also one that was cut when it came in, and a deep row says its level.
    """
    client = client_of(project)
    letters = "iVBORw0KGgo" * 2_000
    for first in range(1, 131, 10):
        batch = []
        for n in range(first, first + 10):
            image = "data:image/png;base64," + letters * (120 if n in (40, 130) else 1)
            batch.append(
                span(n, "model", parent=n - 1 if n > 1 else None, start=n, ms=900 - n, data={"text": f"Look: {image}"})
            )
        send(project, batch)
    pages = [page(client, "run-detail", TRACE, **{"from": f"{start}"}) for start in range(0, 130, WINDOW)]
    assert max(map(len, pages)) < 120_000
    assert sum(one.count("[image/png · ") for one in pages) == 130
    panels = [page(client, "event-detail", TRACE, f"{n:016x}") for n in (39, 40, 130)]
    assert max(map(len, panels)) < 60_000
    assert all('<span class="chip-data">image/png · ' in one for one in panels)
    assert not any(letters[:200] in one for one in (*pages, *panels))
    assert "level 129" in plain(pages[-1])


def test_case_33_counts_and_more_are_always_visible(project: Project) -> None:
    """Users saw the first 1,000 spans and believed that others had been overwritten.

    1,001 spans: what part is shown, of how many, and the way to the rest, filtered or not.
    """
    client = client_of(project)
    send(project, [span(1, "agent", ms=5000), *(span(n, parent=1, start=n) for n in range(2, 1_001))])
    send(project, [span(1_001, parent=1, start=1_001)])
    whole = page(client, "run-detail", TRACE)
    assert f"rows 1–{WINDOW} of 1,001" in plain(whole)
    assert "1,001 events" in whole
    assert "Later rows" in whole
    last = page(client, "run-detail", TRACE, **{"event": f"{1_001:016x}"})
    assert f"rows {1_000 // WINDOW * WINDOW + 1:,}–1,001 of 1,001" in plain(last)
    assert f'data-event="{1_001:016x}"' in last
    found = page(client, "run-detail", TRACE, q="span 99")
    assert "of 1,001 rows" in plain(found) or "1,001 in all" in plain(found)


def test_case_36_a_circle_skew_and_missing_parents_are_banners(project: Project) -> None:
    """Users saw an empty page and took a failed computation for a run without anything in it.

    What could not be put together is said with its cause, on the timeline and where the chain is asked for, and
    everything else is drawn.
    """
    client = client_of(project)
    events = [
        span(1, "agent", ms=1000), span(2, parent=3, start=1), span(3, parent=2, start=2),
        span(4, "tool", parent=1, start=-HOUR), span(5, parent=77),
    ]  # fmt: skip
    send(project, events)
    whole = page(client, "run-detail", TRACE)
    assert whole.count('class="notice warn"') == 3
    for said in ("1 circle, cut", "Outside the time of the parent: 1 span.", "Incomplete: the parent of 1 row has"):
        assert said in whole
    assert len(re.findall(r"data-row ", whole)) == 5
    chain = plain(page(client, "run-chain", TRACE))
    for said in ("1 circle, cut", "Outside the time of the parent: 1 span.", "Incomplete: the parent of 1 row has"):
        assert said in chain


def test_the_panel_of_a_span_shows_all_it_said(project: Project) -> None:
    """Attributes, exception with its stack, links, scope, schema, what was moved; its text escaped."""
    client = client_of(project)
    event = span(2, "tool", error="boom", tool="fetch")
    stack = {"exception.stacktrace": "Traceback\n  line"}
    event["data"]["span"] |= {
        "attributes": {"http.route": "/a<b>"}, "moved": {"tool": "gen_ai.tool.name"},
        "events": [{"name": "exception", "time_unix_nano": START_NS + MS, "attributes": stack}],
        "links": [{"trace_id": "ab" * 16, "span_id": "cd" * 8}],
        "scope": {"name": "openai.v2", "version": "1.2"}, "schema_url": "https://opentelemetry.io/schemas/1.37.0",
        "resource": "ff" * 16,
    }  # fmt: skip
    send(project, [event])
    panel = page(client, "event-detail", TRACE, event["event_id"])
    for said in (
        "/a&lt;b&gt;", "gen_ai.tool.name", "exception", "Traceback\n  line", "cdcdcdcd", "openai.v2 1.2",
        "schemas/1.37.0", "Its resource is no longer kept", f"{START_NS} ns",
    ):  # fmt: skip
        assert said in panel, said


def test_documents_of_its_own_searches_are_no_offered_hints(project: Project) -> None:
    """Head and list agree: no hint was offered, one call failed, and what the application found is told apart."""
    send(project, [*agent_run(), span(9, parent=1, start=500, error="flushing failed")])
    head = page(client_of(project), "run-detail", TRACE)
    assert "offered hint" not in head and "runtime hints" not in head
    assert "<b>3</b> documents found by its own searches" in head
    assert '<b class="bad">1</b> failed tool call<' in head
    summary = RunSummary.objects.get(run_id=TRACE)
    assert (summary.n_tools_failed, summary.n_offered) == (1, 0)


def test_the_panel_of_a_search_tells_inferred_from_reported(project: Project) -> None:
    """Set off by: not reported. Beside it the failed call it came after, as inferred, with a link."""
    client = client_of(project)
    send(project, agent_run())
    panel = page(client, "why", TRACE, f"{4:016x}")
    assert "not reported" in panel
    assert "inferred: tool.failed" in panel
    assert f"?event={3:016x}" in panel
    assert panel.count(stages.DROP_REASONS["reranked_out"]) == 2
    assert "3 found, 2 left out" in panel and "The application searched by itself." in panel
    assert "offered" not in panel.partition("What happened")[0] and "Observation ran" not in panel
    kept = Activation.objects.values("trigger", "inferred_trigger").get()
    assert kept == {"trigger": "agent.search", "inferred_trigger": "tool.failed"}


def test_what_is_left_out_of_a_value_is_counted_without_its_data_uris() -> None:
    """A chip is all that is shown of a data URI, so it hides nothing; plain text over the limit is counted."""
    image = "data:image/png;base64," + "A" * 9_000
    assert [(part.text, part.is_chip) for part in shown_text("x", f"See {image} there").parts] == [
        ("See ", False), ("image/png · 9,022 characters", True), (" there", False),
    ]  # fmt: skip
    assert shown_text("x", f"See {image} there").n_left == 0
    assert shown_text("x", "a" * (PREVIEW + 3) + image).n_left == 3 + len(image)
    assert shown_text("x", image + " " + "a" * (PREVIEW + 2)).n_left == 3


@given(st.lists(SPAN, max_size=12))
@settings(max_examples=100, deadline=None)
def test_every_span_is_on_exactly_one_row(spans: list[dict[str, Any]]) -> None:
    """Whatever parents, circles, copies and times: each event on one row, each bar on the axis."""
    events = journal({event["event_id"]: event for event in spans}.values())
    timeline = build_timeline(fold_order(events))
    assert sorted(one for row in timeline.rows for one in row.event_ids) == sorted(event.event_id for event in events)
    for row in timeline.rows:
        assert row.bar is None or (row.bar[0] >= 0 and row.bar[0] + row.bar[1] <= 1000.01)
        assert row.duration_ms is None or row.duration_ms >= 0


@pytest.mark.parametrize(("ended", "took"), [(START_NS + 5 * MS, 5), (START_NS - 1, None), (2**63 - 1, None)])
def test_case_26_no_impossible_length_goes_into_sums(ended: int, took: int | None) -> None:
    """The length of a run, as lists and averages take it, is none when it cannot be."""
    assert duration_ms(START_NS, ended) == took


def test_case_20_a_circle_over_two_batches_is_drawn_as_in_one(project: Project) -> None:
    """The half that came first stands as an orphan; with the other half the circle is cut and both are drawn."""
    client = client_of(project)
    first, second = span(2, parent=3, start=1), span(3, "tool", parent=2, start=2)
    send(project, [second])
    assert LOST_PARENT in page(client, "run-detail", TRACE)
    send(project, [first])
    apart = page(client, "run-detail", TRACE)
    assert CIRCLE in apart
    assert LOST_PARENT not in apart
    send(project, [{**event, "run_id": "at-once"} for event in (first, second)])
    counts = RunSummary.objects.values_list("n_tool_calls", "n_events", "status").order_by("run_id")
    assert list(counts) == [(1, 2, "completed")] * 2


def test_case_23_batches_fold_to_what_all_at_once_folds_to(project: Project) -> None:
    """Ends before starts, one event a batch, folded after each: the same row as of one batch."""
    started = [span(1, "agent", ms=None), span(2, "model", parent=1, ms=None)]
    ended = [span(2, "model", parent=1, data={"input_tokens": 3}), span(1, "agent", data={"task": "t"})]
    for event in [*ended, *started, *ended]:
        send(project, [event])
    send(project, [{**event, "run_id": "at-once"} for event in [*started, *ended]])
    names = ("status", "task", "started_ns", "ended_ns", "n_turns", "model_tokens", "n_events")
    one, other = RunSummary.objects.values_list(*names)
    assert one == other == ("completed", "t", START_NS, START_NS + 10 * MS, 1, 3, 4)


def test_a_search_that_is_not_folded_yet_is_answered_by_its_own_span() -> None:
    """Before the chain is derived its row says what the span says: found so many, nothing, failed, or not ended."""
    found = {"result": "success", "n_retrieved": 2}
    said = [
        span(1, "retriever", data=found), span(2, "retriever", start=1, data={"result": "empty"}),
        span(3, "retriever", start=2, data={"result": "error"}), span(4, "retriever", start=3, ms=None),
    ]  # fmt: skip
    timeline = timeline_of(*said)
    assert [row.state for row in timeline.rows] == ["hint", "muted", "warn", "open"]
    assert timeline.rows[0].text == "Activation agent.search 2 found"
