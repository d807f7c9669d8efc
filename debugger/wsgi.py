"""WSGI entry point for gunicorn; no statement of a web request holds its process for ever."""

import os

from django.conf import settings
from django.core.wsgi import get_wsgi_application
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "debugger.settings")


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


connection_created.connect(bound_statements)
application = get_wsgi_application()
