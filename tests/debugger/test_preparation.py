"""What a start does with the database it finds."""

from datetime import UTC, datetime, timedelta

import pytest
from django.core.management import CommandError
from django.db import connection

from debugger.preparation import prepare_schema
from ingest.journal import DAYS_AHEAD
from ingest.partitions import list_partitions

pytestmark = pytest.mark.django_db


def test_the_present_schema_is_accepted() -> None:
    """A database that has every column is used, however often it is prepared."""
    prepare_schema()
    prepare_schema()


@pytest.mark.parametrize(
    ("earlier", "missing"),
    [
        ("ALTER TABLE knowledge_activation DROP COLUMN shadow_tokens", r"knowledge_activation\.shadow_tokens"),
        ("DROP TABLE debugger_escalationdecision", "debugger_escalationdecision"),
    ],
)
def test_a_database_of_an_earlier_state_is_refused_by_name(earlier: str, missing: str) -> None:
    """What a migration made anew would have is missing: the start ends with its name and the fix."""
    with connection.cursor() as cursor:
        cursor.execute(earlier)
    with pytest.raises(CommandError, match=rf"{missing} is not there.*VAR_DIR"):
        prepare_schema()


def test_the_next_days_are_ready_from_the_start() -> None:
    """Nobody waits for beat's first hour: the partitions of today and the days ahead are there."""
    with connection.cursor() as cursor:
        for one in list_partitions():
            cursor.execute(f"DROP TABLE {one.name}")
    prepare_schema()
    today = datetime.now(UTC).date()
    assert [one.day for one in list_partitions()] == [today + timedelta(days=ahead) for ahead in range(DAYS_AHEAD + 1)]
