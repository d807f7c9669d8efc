"""The events of an answer are committed with it: outside of a test's own transaction, as in a web request."""

from typing import Any

import pytest
from django.db import connection

from ingest.models import Event, Project
from knowledge import offering
from knowledge.find_hints.findings import HintQuery
from knowledge.models import HintAnswer
from tests.knowledge.asking import n_failed


@pytest.mark.django_db(transaction=True)
def test_an_answer_and_its_events_are_committed_together() -> None:
    """No answer is kept without its hint.query in the journal."""
    project = Project.objects.create(slug="alpha", name="Alpha")
    failures = n_failed("telemetry")
    offering.answer_all(project, [HintQuery(run_id="r-1", activation_id="r-1:a1", query="anything")])
    assert HintAnswer.objects.filter(project=project, activation_id="r-1:a1").exists()
    assert list(Event.objects.values_list("event_id", "type")) == [("r-1:a1:query", "hint.query")]
    assert n_failed("telemetry") == failures


@pytest.mark.django_db(transaction=True)
def test_a_process_lost_between_answer_and_events_keeps_neither() -> None:
    """The retry then answers and reports anew, so that no kept answer lacks its events for good."""
    project = Project.objects.create(slug="alpha", name="Alpha")
    query = HintQuery(run_id="r-1", activation_id="r-1:a1", query="anything")

    def lose(execute: Any, sql: str, params: Any, many: bool, context: Any) -> Any:
        if "ingest_run" in sql:
            raise SystemExit("the process is going down")
        return execute(sql, params, many, context)

    with pytest.raises(SystemExit), connection.execute_wrapper(lose):
        offering.answer_all(project, [query])
    assert not HintAnswer.objects.exists()
    offering.answer_all(project, [query])
    assert HintAnswer.objects.count() == Event.objects.count() == 1
