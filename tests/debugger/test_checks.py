"""System checks: a setting that would lose work or contradict another stops every start, by id."""

import pytest
from django.core.checks import run_checks
from pytest_django import Settings

from debugger.celery import app


def found() -> list[str]:
    return [problem.id for problem in run_checks(tags=["temporality"]) if problem.id]


def test_the_settings_as_they_are_pass() -> None:
    """Nothing is wrong with the defaults, and every scheduled task exists."""
    assert found() == []


@pytest.mark.parametrize("name", ["knowledge.no_such_task", ""])
def test_a_fold_task_that_is_not_registered_is_an_error(settings: Settings, name: str) -> None:
    """Events would be kept and never folded."""
    settings.INGEST_FOLD_TASK = name
    assert found() == ["temporality.E001"]


def test_a_scheduled_task_that_is_not_registered_is_an_error(monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock would queue what no worker knows."""
    monkeypatch.setitem(app.conf.beat_schedule, "odd", {"task": "knowledge.odd", "schedule": 1.0})
    assert found() == ["temporality.E002"]


def test_limits_that_contradict_each_other_are_an_error(settings: Settings) -> None:
    """An event as large as allowed must fit into a body."""
    settings.INGEST_MAX_EVENT_BYTES = settings.INGEST_MAX_BODY_BYTES + 1
    assert found() == ["temporality.E003"]


def test_a_short_secret_key_is_an_error(settings: Settings) -> None:
    """A guessable key signs sessions for anybody."""
    settings.SECRET_KEY = "short"
    assert found() == ["temporality.E004"]
