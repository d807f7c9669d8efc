"""Decides how the words that runs are found by are told apart by days. Pure, and the same in SQL.

Facets and grams of a run hold the day on which it was first received. An index of them then answers for one day, so
that a list reads the newest runs of a word without reading all that ever had it. Names of columns in SQL are those of
`days`: the day's number and what it adds to facets (`prefix`) and grams (`salt`).
"""

from datetime import UTC, datetime
from typing import Final

EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC).date()
SPREAD: Final = 1_640_531_527  # an odd number: days next to each other get grams far apart
LARGEST: Final = 0x7FFF_FFFF  # what a PostgreSQL integer holds

NUMBER_SQL: Final = "((listed.first_received_at AT TIME ZONE 'UTC')::date - DATE '1970-01-01')"


def day_of(moment: datetime) -> int:
    """Return the number of the moment's day in UTC."""
    return (moment.astimezone(UTC).date() - EPOCH).days


def day_prefix(project_id: int, day: int) -> str:
    """Return what the facets of that day's runs start with."""
    return f"{project_id}:{day}:"


def day_salt(day: int) -> int:
    """Return what the grams of that day's runs are changed by."""
    return day * SPREAD & LARGEST


def days_sql(project_id: int, day: str) -> str:
    """Return a select of the one row `days` for the SQL of a day's number."""
    salt = f"((({day})::bigint * {SPREAD}) & {LARGEST})::integer"
    return f"SELECT {day} AS day, '{project_id:d}:' || {day} || ':' AS prefix, {salt} AS salt"
