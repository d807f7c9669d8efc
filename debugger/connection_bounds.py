"""Decides how long a statement of a web request may run and wait, so that none holds its process for ever."""

from django.conf import settings
from django.db.backends.base.base import BaseDatabaseWrapper


def bound_statements(connection: BaseDatabaseWrapper, **kwargs: object) -> None:
    """Bound what a new connection may run and wait for. What is cut off is answered 503, and nothing of it is kept."""
    bounds = {
        "statement_timeout": settings.WEB_STATEMENT_SECONDS,
        "lock_timeout": settings.WEB_LOCK_SECONDS,
        "idle_in_transaction_session_timeout": 2 * settings.WEB_STATEMENT_SECONDS,
    }
    with connection.cursor() as cursor:
        for name, seconds in bounds.items():
            cursor.execute(f"SET {name} = '{seconds}s'")
