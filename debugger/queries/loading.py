"""Reads what a run's pages are built from: its journal, its chain and, from them, its timeline."""

from dataclasses import dataclass

from debugger.access import GuardedRun
from debugger.queries.live import Cursor
from debugger.queries.timeline import Timeline, build_timeline
from ingest.journal import JournalEvent, read_events
from knowledge.models import Activation, Candidate


@dataclass(frozen=True, slots=True)
class Loaded:
    """A run with everything its timeline is built from. `cursor` is how far the page shows it."""

    run: GuardedRun
    events: list[JournalEvent]
    activations: list[Activation]
    candidates: list[Candidate]
    timeline: Timeline
    cursor: Cursor

    def timeline_at(self, arrival: int) -> Timeline:
        """Return the timeline of the events up to `arrival`, as a page that knows no more shows it."""
        known = [event for event in self.events if event.arrival <= arrival]
        return build_timeline(known, self.activations, self.candidates)


def load(run: GuardedRun) -> Loaded:
    """Read a run's journal and chain, and build its timeline. Four queries, whatever its size."""
    project_id, run_id = run.project.pk, run.registry.run_id
    events = read_events(project_id, run_id)
    activations = list(Activation.objects.filter(project_id=project_id, run_id=run_id).order_by("ordinal"))
    candidates = list(Candidate.objects.filter(project_id=project_id, run_id=run_id))
    timeline = build_timeline(events, activations, candidates)
    last = max((event.arrival for event in events), default=0)
    axis_ns = timeline.axis.end_ns - timeline.axis.start_ns
    cursor = Cursor(last, run.registry.folded_arrival, axis_ns)
    return Loaded(run, events, activations, candidates, timeline, cursor)
