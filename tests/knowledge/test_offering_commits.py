"""The events of an answer are committed with it: outside of a test's own transaction, as in a web request."""

import pytest

from ingest.models import Event, Project
from knowledge import offering
from knowledge.find_hints.findings import HintQuery
from knowledge.models import HintAnswer


@pytest.mark.django_db(transaction=True)
def test_an_answer_and_its_events_are_committed_together() -> None:
    """No answer is kept without its hint.query in the journal."""
    project = Project.objects.create(slug="alpha", name="Alpha")
    failures = offering.telemetry_failures
    offering.answer_all(project, [HintQuery(run_id="r-1", activation_id="r-1:a1", query="anything")])
    assert HintAnswer.objects.filter(project=project, activation_id="r-1:a1").exists()
    assert list(Event.objects.values_list("event_id", "type")) == [("r-1:a1:query", "hint.query")]
    assert offering.telemetry_failures == failures
