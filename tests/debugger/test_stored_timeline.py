"""A stored timeline shows what a built one shows, is read by index, and goes when its run does."""

import json
import re
from collections.abc import Iterator
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import call_command
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from bench.timeline_rows import long_run
from debugger import tasks, timeline_store
from debugger.access import GuardedRun
from debugger.models import StoredTimeline, TimelineRow
from debugger.queries.live import Shown, cut_window, start_of_event
from debugger.queries.loading import Loaded, load
from debugger.queries.opening import BuiltRun, open_run
from debugger.queries.run_header import build_header, read_facts
from debugger.queries.stored import StoredRun
from debugger.queries.stored_form import FILTERED, VERSION, Head, read_head, read_row, write_head, write_row
from debugger.queries.strip import strip_of, window_starts
from debugger.queries.timeline import FILTERS, WINDOW
from debugger.views.panel import panel_of
from ingest.deletion import delete_run
from ingest.forgetting import project_models, run_models
from ingest.models import Project, Run
from knowledge.chains import refresh_run
from knowledge.models import RunSummary
from knowledge.signals import run_folded
from knowledge.tasks import fold_runs
from tests.factories import make_person, make_project, send, typical_run
from tests.knowledge.streams import recorded_names, wire_of

pytestmark = pytest.mark.django_db
COUNTS = Path(__file__).parent.parent / "query_counts.json"
N_EVENTS = 900


@pytest.fixture(autouse=True)
def _every_run_is_long(settings: Any) -> None:
    settings.TIMELINE_STORED_FROM = 1


@pytest.fixture
def project() -> Project:
    return make_project()


def guarded(project: Project, run_id: str) -> GuardedRun:
    registry = Run.objects.get(project_id=project.pk, run_id=run_id)
    return GuardedRun(project, registry, RunSummary.objects.filter(project_id=project.pk, run_id=run_id).first())


def stored(project: Project, run_id: str) -> tuple[Loaded, StoredRun]:
    """Store a run's timeline; return the run as it is built and as it is stored."""
    assert timeline_store.store(project.pk, run_id)
    run = guarded(project, run_id)
    opened = open_run(run)
    assert isinstance(opened, StoredRun)
    return load(run), opened


def long_one(project: Project) -> str:
    events = [dict(event) for event in long_run("long", N_EVENTS, 20, 400)]
    send(project, events)
    return "long"


def runs_of(project: Project) -> Iterator[str]:
    """Store every recorded run that ended and a mixed one, and yield their ids."""
    for name in recorded_names():
        events = wire_of(name)
        send(project, events)
        for run_id in dict.fromkeys(event["run_id"] for event in events):
            if guarded(project, run_id).summary.status != "running":  # type: ignore[union-attr]
                yield run_id
    send(project, typical_run())
    yield "r-42"
    yield long_one(project)


def test_a_stored_timeline_equals_the_built_one(project: Project) -> None:
    """Every row, every window of every filter, the head and the strip: recorded runs and a mixed one."""
    n_runs = 0
    for run_id in runs_of(project):
        built, kept = stored(project, run_id)
        timeline = built.timeline
        assert [read_row(write_row(row)) for row in timeline.rows] == list(timeline.rows)
        assert kept._rows_from(0, len(timeline.rows) + 1) == list(timeline.rows)
        for name in FILTERS:
            for start in range(0, timeline.counts[name] + WINDOW, WINDOW):
                assert kept.window(Shown(name, "", start)) == cut_window(timeline, Shown(name, "", start))
        now = timezone.now()
        assert kept.header(now) == build_header(built.run, timeline, built.events, built.activations, now)
        assert kept.strip == strip_of(timeline.rows)
        assert kept.starts == window_starts(timeline.rows)
        assert kept.cursor == built.cursor
        n_runs += 1
    assert n_runs > 5


def test_the_head_is_read_as_it_was_written(project: Project) -> None:
    """Counts, notes, warnings and what the header needs come back with their types."""
    run_id = long_one(project)
    built, _ = stored(project, run_id)
    facts = read_facts(built.run, built.timeline, built.events, built.activations)
    head = Head(built.timeline, facts, strip_of(built.timeline.rows), window_starts(built.timeline.rows))
    again = read_head(write_head(head))
    assert again.facts == head.facts
    assert (again.strip, again.starts) == (head.strip, head.starts)
    assert again.timeline.counts == built.timeline.counts
    assert again.timeline.axis == built.timeline.axis


def test_the_filter_by_text_finds_the_same_rows(project: Project) -> None:
    """Words in any case, event ids, and what is nowhere; alone and beside another filter."""
    built, kept = stored(project, long_one(project))
    assert cut_window(built.timeline, Shown("failed", "step 12 CANNOT")).n_filtered == 2
    for text in ("step 12 CANNOT", "SHELL", "long:40", "no such words", "  ", "a\0b"):
        for show in FILTERS:
            shown = Shown(show, text, 0)
            assert kept.window(shown) == cut_window(built.timeline, shown)


def test_every_event_is_reachable(project: Project) -> None:
    """An address that names an event opens the window with its row, whatever the filter; a frame opens the first."""
    built, kept = stored(project, long_one(project))
    for event in built.events[::17]:
        for shown in (Shown(), Shown("tools"), Shown("failed"), Shown("all", "shell")):
            expected = start_of_event(built.timeline, shown, event.event_id)
            assert kept.start_of_event(shown, event.event_id) == expected
    assert kept.start_of_event(Shown(), "long:none") == 0
    assert kept.start_of_event(Shown(), "a\0b") == 0


@pytest.mark.parametrize("run_id", ["r-42", "long"])
def test_panels_of_events_are_the_same(project: Project, run_id: str) -> None:
    """Beside the timeline each event opens what it opens where all of the run is read."""
    send(project, typical_run())
    long_one(project)
    built, kept = stored(project, run_id)
    for event in built.events[:: 1 if run_id == "r-42" else 29]:
        expected = panel_of(built, event.event_id)
        assert panel_of(kept.about_panel(event.event_id), event.event_id) == expected
    assert panel_of(kept.about_panel("nothing"), "nothing") == panel_of(built, "nothing")
    assert panel_of(kept.about_panel(""), "") == panel_of(built, "")


def test_pages_of_a_stored_run_are_the_same(project: Project) -> None:
    """The HTML of page, rows, why panel and event panel does not tell whether the timeline is stored."""
    run_id = long_one(project)
    client = Client()
    client.force_login(make_person("bob", project))
    activation = next(one for one in guarded_activations(project, run_id))
    addresses = [
        reverse("run-detail", args=["alpha", run_id]),
        reverse("run-detail", args=["alpha", run_id]) + "?event=long:500",
        reverse("run-rows", args=["alpha", run_id]) + f"?from={WINDOW}",
        reverse("why", args=["alpha", run_id, activation]),
        reverse("event-detail", args=["alpha", run_id, "long:77"]),
    ]

    def bodies() -> list[str]:
        said = [client.get(address, headers={"HX-Request": "true"}).content.decode() for address in addresses]
        return [re.sub(r"[A-Za-z0-9]{64}", "token", body) for body in said]

    before = bodies()
    stored(project, run_id)
    assert bodies() == before
    unknown = reverse("why", args=["alpha", run_id, "none"]), reverse("event-detail", args=["alpha", run_id, "none"])
    assert [client.get(address).status_code for address in unknown] == [404, 404]


def guarded_activations(project: Project, run_id: str) -> list[str]:
    return [one.activation_id for one in load(guarded(project, run_id)).activations]


def test_a_page_costs_the_same_queries_however_long_the_run_is(project: Project) -> None:
    """The counts of a stored run are committed, and those of a run a third as long are the same."""
    send(project, [dict(event) for event in long_run("short", N_EVENTS // 3, 20, 400)])
    long_one(project)
    client = Client()
    client.force_login(make_person("bob", project))
    committed = json.loads(COUNTS.read_text())
    for run_id in ("short", "long"):
        stored(project, run_id)
        pages = {
            "stored-run-detail": reverse("run-detail", args=["alpha", run_id]),
            "stored-run-rows": reverse("run-rows", args=["alpha", run_id]),
            "stored-why": reverse("why", args=["alpha", run_id, guarded_activations(project, run_id)[0]]),
        }
        for name, address in pages.items():
            client.get(address)
            with CaptureQueriesContext(connection) as queries:
                client.get(address)
            assert (name, len(queries)) == (name, committed[name])


def test_a_page_that_followed_a_run_ends_with_its_stored_rows(project: Project) -> None:
    """A poll of a page that knows less draws all rows of its window anew, and stops asking."""
    client = Client()
    client.force_login(make_person("bob", project))
    built, _ = stored(project, long_one(project))
    asked = reverse("run-rows", args=["alpha", "long"]) + f"?after=40&folded=40&axis=5&from={WINDOW}"
    answer = client.get(asked, headers={"HX-Request": "true"})
    assert answer.status_code == 286
    assert "run-ended" in answer.headers["HX-Trigger"]
    body = answer.content.decode()
    shown = cut_window(built.timeline, Shown("all", "", WINDOW))
    assert all(f'id="{row.key}"' in body for section in shown.sections for row in section.rows)
    assert body.count('class="row"') == WINDOW


def test_what_changed_is_not_shown_from_the_store(project: Project) -> None:
    """New events, a new fold and another version each make the stored rows untrue; then all is read as before."""
    events = typical_run()
    send(project, events)
    stored(project, "r-42")
    send(project, [{**events[-1], "event_id": "late", "seq": 900, "type": "run.outcome"}], fold=False)
    assert isinstance(open_run(guarded(project, "r-42")), BuiltRun)
    refresh_run(project.pk, "r-42")
    assert isinstance(open_run(guarded(project, "r-42")), BuiltRun)
    built, kept = stored(project, "r-42")
    assert kept.window(Shown()) == cut_window(built.timeline, Shown())
    refresh_run(project.pk, "r-42", force=True)
    assert isinstance(open_run(guarded(project, "r-42")), BuiltRun)
    stored(project, "r-42")
    StoredTimeline.objects.update(version="timeline.v0")
    assert isinstance(open_run(guarded(project, "r-42")), BuiltRun)


def test_a_fold_marks_the_run_and_the_sweep_stores_it(project: Project) -> None:
    """A run that ended is marked when it is folded; one that goes on and one that is short are not."""
    send(project, typical_run(), fold=False)
    send(project, typical_run("going", ended=False), fold=False)
    fold_runs(project.pk, ["r-42", "going"])
    assert timeline_store.wanted(10) == [(project.pk, "r-42")]
    assert tasks.sweep_timelines() == 1
    assert timeline_store.wanted(10) == []
    assert isinstance(open_run(guarded(project, "r-42")), StoredRun)
    StoredTimeline.objects.update(version="timeline.v0")
    assert tasks.sweep_timelines() == 1
    assert StoredTimeline.objects.get().version == VERSION


def test_a_rebuild_marks_runs_that_were_folded_before(project: Project) -> None:
    """`manage.py rebuild` derives chains anew; what was stored of them is made anew as well."""
    send(project, typical_run())
    assert timeline_store.wanted(10) == []
    call_command("rebuild", run="r-42", stdout=StringIO())
    assert timeline_store.wanted(10) == [(project.pk, "r-42")]
    assert tasks.sweep_timelines() == 1


def test_a_listener_that_fails_costs_no_fold(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    """The fold is done and told of, whatever becomes of those who listen."""

    def fails(**_: object) -> None:
        raise LookupError

    send(project, typical_run(), fold=False)
    run_folded.connect(fails)
    try:
        assert fold_runs(project.pk, ["r-42"]) == 1
    finally:
        run_folded.disconnect(fails)
    assert "a listener to folds failed: LookupError" in caplog.text
    assert timeline_store.wanted(10) == [(project.pk, "r-42")]


def test_a_short_run_is_not_stored(project: Project, settings: Any) -> None:
    """Below the setting a run is read as a whole, without a look for stored rows."""
    settings.TIMELINE_STORED_FROM = 1_000
    send(project, typical_run(), fold=False)
    fold_runs(project.pk, ["r-42"])
    assert not StoredTimeline.objects.exists()
    run = guarded(project, "r-42")
    with CaptureQueriesContext(connection) as queries:
        assert isinstance(open_run(run), BuiltRun)
    assert not any("storedtimeline" in one["sql"] for one in queries)


def test_a_run_that_goes_on_is_not_stored(project: Project) -> None:
    """Asked to store what has not ended, the writer stores nothing and takes the mark back."""
    send(project, typical_run(ended=False))
    StoredTimeline.objects.create(project_id=project.pk, run_id="r-42")
    assert not timeline_store.store(project.pk, "r-42")
    assert not StoredTimeline.objects.exists()
    assert not TimelineRow.objects.exists()


def test_what_cannot_be_stored_is_given_up(project: Project, caplog: pytest.LogCaptureFixture) -> None:
    """A failure is told by its kind, is not tried again by the sweep, and the pages go on; a new fold tries again."""
    send(project, typical_run())
    assert timeline_store.want(project.pk, "r-42")
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE debugger_timelinerow RENAME COLUMN search TO elsewhere")
    assert tasks.sweep_timelines() == 0
    assert "could not be stored: ProgrammingError" in caplog.text
    assert timeline_store.wanted(10) == []
    assert isinstance(open_run(guarded(project, "r-42")), BuiltRun)
    with connection.cursor() as cursor:
        cursor.execute("ALTER TABLE debugger_timelinerow RENAME COLUMN elsewhere TO search")
    assert timeline_store.want(project.pk, "r-42")
    assert tasks.sweep_timelines() == 1


def test_stored_rows_go_with_their_run(project: Project) -> None:
    """Deleting a run deletes its stored timeline, and the tables are among those that retention clears."""
    send(project, typical_run())
    send(project, typical_run("other"))
    stored(project, "r-42")
    stored(project, "other")
    delete_run(project.pk, "r-42")
    assert set(TimelineRow.objects.values_list("run_id", flat=True)) == {"other"}
    assert set(StoredTimeline.objects.values_list("run_id", flat=True)) == {"other"}
    assert {StoredTimeline, TimelineRow} <= set(run_models())
    assert {StoredTimeline, TimelineRow} <= set(project_models())


def test_the_arrays_are_those_of_the_filters() -> None:
    """Each filter word but "all" has its array in the table."""
    assert set(FILTERED) <= {field.name for field in StoredTimeline._meta.concrete_fields}
