"""System checks of this project: what must hold before any process serves, each with an id."""

from collections.abc import Sequence

from django.apps import AppConfig
from django.conf import settings
from django.core.checks import CheckMessage, Error, register
from django.utils.module_loading import import_string

from debugger.celery import app

MIN_SECRET_LENGTH = 32


@register("temporality")
def check_tasks(app_configs: Sequence[AppConfig] | None, **kwargs: object) -> list[CheckMessage]:
    """temporality.E001, E002, E005: what settings and the beat schedule name by its path is there."""
    problems: list[CheckMessage] = []
    try:
        import_string(settings.INGEST_TOTALS)
    except ImportError:
        problems.append(
            Error(
                f"INGEST_TOTALS names {settings.INGEST_TOTALS!r}, which cannot be imported",
                hint="no day would ever be forgotten: name a function such as knowledge.totals.add_to_totals",
                id="temporality.E005",
            )
        )
    if settings.INGEST_FOLD_TASK not in app.tasks:
        problems.append(
            Error(
                f"INGEST_FOLD_TASK names {settings.INGEST_FOLD_TASK!r}, which is no registered Celery task",
                hint="runs would never be folded: name a task of knowledge.tasks",
                id="temporality.E001",
            )
        )
    for name, entry in app.conf.beat_schedule.items():
        if entry["task"] not in app.tasks:
            problems.append(
                Error(
                    f"the beat schedule's {name!r} names {entry['task']!r}, which is no registered Celery task",
                    hint="correct the schedule in debugger/celery.py",
                    id="temporality.E002",
                )
            )
    return problems


@register("temporality")
def check_limits(app_configs: Sequence[AppConfig] | None, **kwargs: object) -> list[CheckMessage]:
    """temporality.E003, E004: limits that contradict each other, and a secret key that can be guessed."""
    problems: list[CheckMessage] = []
    if settings.INGEST_MAX_EVENT_BYTES > settings.INGEST_MAX_BODY_BYTES:
        problems.append(
            Error(
                f"INGEST_MAX_EVENT_BYTES ({settings.INGEST_MAX_EVENT_BYTES}) is over "
                f"INGEST_MAX_BODY_BYTES ({settings.INGEST_MAX_BODY_BYTES})",
                hint="an event as large as allowed could never be sent: lower the first or raise the second",
                id="temporality.E003",
            )
        )
    if len(settings.SECRET_KEY) < MIN_SECRET_LENGTH:
        problems.append(
            Error(
                f"SECRET_KEY has {len(settings.SECRET_KEY)} characters, at least {MIN_SECRET_LENGTH} are needed",
                hint="sign-in links are signed with it: set a long random one",
                id="temporality.E004",
            )
        )
    return problems
