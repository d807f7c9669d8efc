"""Opens a run for its pages: from its stored timeline where there is a true one, else from all of its events."""

from dataclasses import dataclass
from datetime import datetime

from django.conf import settings

from debugger.access import GuardedRun
from debugger.queries.escalations import Escalation, escalation_of
from debugger.queries.live import Changes, Cursor, Shown, Window, changes_since, cut_window, start_of_event
from debugger.queries.loading import Loaded, load
from debugger.queries.run_header import RunHeader, build_header
from debugger.queries.stored import StoredRun, find_stored
from debugger.queries.strip import Stretch, strip_of, window_starts
from debugger.queries.timeline import Timeline


@dataclass(frozen=True, slots=True)
class BuiltRun:
    """A run that was read as a whole. Answers what `StoredRun` answers."""

    loaded: Loaded

    @property
    def run(self) -> GuardedRun:
        return self.loaded.run

    @property
    def timeline(self) -> Timeline:
        return self.loaded.timeline

    @property
    def cursor(self) -> Cursor:
        return self.loaded.cursor

    @property
    def strip(self) -> tuple[Stretch, ...]:
        return strip_of(self.timeline.rows)

    @property
    def starts(self) -> tuple[float, ...]:
        return window_starts(self.timeline.rows)

    def header(self, now: datetime) -> RunHeader:
        return build_header(self.run, self.timeline, self.loaded.events, self.loaded.activations, now)

    def escalation(self) -> Escalation | None:
        return escalation_of(self.run, self.loaded.events)

    def window(self, shown: Shown) -> Window:
        return cut_window(self.timeline, shown)

    def start_of_event(self, shown: Shown, event_id: str) -> int:
        return start_of_event(self.timeline, shown, event_id)

    def changes(self, window: Window, cursor: Cursor) -> Changes:
        return changes_since(self.timeline, self.loaded.timeline_at(cursor.arrival), window, cursor)

    def about_panel(self, event_id: str) -> Loaded:
        return self.loaded

    def about_event(self, event_id: str) -> Loaded:
        return self.loaded

    def about_activation(self, activation_id: str) -> Loaded:
        return self.loaded


def warnings_of(run: GuardedRun) -> tuple[str, ...]:
    """Return what does not fit together in a run's spans; of a long run only once its timeline is stored.

    Four queries for a short run, one for a stored one.
    """
    stored = find_stored(run, settings.TIMELINE_STORED_FROM)
    if stored is not None:
        return stored.timeline.warnings
    return load(run).timeline.warnings if run.registry.last_arrival < settings.TIMELINE_STORED_FROM else ()


def open_run(run: GuardedRun) -> BuiltRun | StoredRun:
    """Return the run as its pages read it. Four queries where all of it is read, one where it is stored."""
    return find_stored(run, settings.TIMELINE_STORED_FROM) or BuiltRun(load(run))
