"""Decides whether this process can serve: the database answers, its schema is ours, and what the broker does.

Each look uses a short connection of its own and is bounded, so that a hanging service cannot hold a probe. Reasons
are words; an address, a user or a password never stands in one.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from typing import Any, Final

import psycopg
from celery import current_app
from django.conf import settings
from django.db import connection
from django.db.migrations.loader import MigrationLoader
from psycopg.conninfo import make_conninfo

from debugger.bounded import Bounded, TooSlow
from debugger.queries.lag import Fetch

MOST_NAMED: Final = 10  # migrations named in one answer


@dataclass(frozen=True, slots=True)
class Part:
    """One part of the whole: `reason` is a word, empty when it is well; `missing` names migrations."""

    name: str
    reason: str = ""
    is_required: bool = True
    missing: tuple[str, ...] = ()

    @property
    def is_ok(self) -> bool:
        return not self.reason

    def body(self) -> dict[str, Any]:
        body: dict[str, Any] = {"ok": self.is_ok, "required": self.is_required}
        if self.reason:
            body["reason"] = self.reason
        if self.missing:
            body["missing"] = list(self.missing)
        return body


_database_look, _broker_look = Bounded(), Bounded()


def readiness() -> list[Part]:
    """Look at every part; ready is when each required one is ok."""
    return [*_database_parts(), _broker_part()]


def is_ready(parts: Sequence[Part]) -> bool:
    return all(part.is_ok for part in parts if part.is_required)


def connect() -> psycopg.Connection[tuple[Any, ...]]:
    """Return a new connection to our database that gives up by itself: on connecting, and on each statement."""
    named = connection.settings_dict
    options = {name: str(value) for name, value in named["OPTIONS"].items() if isinstance(value, str | int)}
    options["options"] = f"{options.get('options', '')} -c statement_timeout={settings.READY_SECONDS * 1000}".strip()
    options["connect_timeout"] = str(settings.READY_SECONDS)
    names = {"dbname": "NAME", "user": "USER", "password": "PASSWORD", "host": "HOST", "port": "PORT"}
    address = {name: str(named[key]) for name, key in names.items() if named[key]}
    return psycopg.connect(make_conninfo("", **address, **options), autocommit=True)


def fetch_with(other: psycopg.Connection[tuple[Any, ...]]) -> Fetch:
    def fetch(statement: str, values: Sequence[object]) -> list[tuple[Any, ...]]:
        return other.execute(statement.encode(), values).fetchall()

    return fetch


def database_reason(error: Exception) -> str:
    """Return the word for why the database did not do what was asked."""
    if isinstance(error, TooSlow | psycopg.errors.QueryCanceled | psycopg.errors.ConnectionTimeout):
        return "too_slow"
    if isinstance(error, psycopg.Error) and error.sqlstate:
        return f"sqlstate_{error.sqlstate}"
    return "unreachable"


def _database_parts() -> list[Part]:
    try:
        applied = _database_look.run(_applied_migrations, settings.READY_SECONDS)
    except psycopg.errors.UndefinedTable:
        applied = frozenset()
    except (psycopg.Error, TooSlow) as error:
        return [Part("database", database_reason(error)), Part("schema", "unknown")]
    missing = tuple(f"{app}.{name}" for app, name in sorted(known_migrations() - applied))
    schema = Part("schema", "behind", missing=missing[:MOST_NAMED]) if missing else Part("schema")
    return [Part("database"), schema]


def _applied_migrations() -> frozenset[tuple[str, str]]:
    with connect() as other:
        rows = fetch_with(other)("SELECT app, name FROM django_migrations", [])
    return frozenset((str(app), str(name)) for app, name in rows)


@cache
def known_migrations() -> frozenset[tuple[str, str]]:
    """Return (app, name) of every migration of the code, read from disk once."""
    loader = MigrationLoader(None, ignore_no_migrations=True)
    return frozenset(loader.disk_migrations)


def _broker_part() -> Part:
    """The broker is told and not required: without it events are stored all the same and folded by the sweep."""
    try:
        _broker_look.run(_ask_broker, settings.READY_SECONDS)
    except TooSlow:
        return Part("broker", "too_slow", is_required=False)
    except Exception:  # noqa: BLE001 - every transport has errors of its own; whatever it is, the broker is away
        return Part("broker", "unreachable", is_required=False)
    return Part("broker", is_required=False)


def _ask_broker() -> None:
    seconds = settings.READY_SECONDS
    with current_app.connection_for_write(
        connect_timeout=seconds,
        transport_options={"socket_connect_timeout": seconds, "socket_timeout": seconds, "max_retries": 1},
    ) as asked:
        asked.ensure_connection(max_retries=1, interval_start=0, timeout=seconds)
