"""Decides how the test database is emptied after a test that committed: row by row, and only where there are rows.

Django truncates every table, which gives each of some five hundred tables and indexes a new file: a hundred times the
work of deleting the few rows a test leaves. What Django keeps of the models themselves is not anybody's data: it stays,
where it would be deleted and made again each time.
"""

from collections.abc import Iterable
from typing import Any

from django.db.backends.postgresql.operations import DatabaseOperations

OF_THE_MODELS = ("auth_permission", "django_content_type")
TRUNCATE = DatabaseOperations.sql_flush


def delete_rows(
    operations: DatabaseOperations, style: Any, tables: Iterable[str], *, reset_sequences: bool = False, **more: Any
) -> list[str]:
    """Return the statements that empty `tables`, which is what Django asks `sql_flush` of a database for."""
    if reset_sequences:
        return list(TRUNCATE(operations, style, tables, reset_sequences=True, **more))
    quoted = [operations.quote_name(table) for table in tables if table not in OF_THE_MODELS]
    with operations.connection.cursor() as cursor:
        looks = (f"SELECT {number} WHERE EXISTS (SELECT FROM {table})" for number, table in enumerate(quoted))
        cursor.execute(" UNION ALL ".join(looks))
        deletions = [f"DELETE FROM {quoted[number]}" for (number,) in cursor.fetchall()]
    if not deletions:
        return []
    # Foreign keys are not looked at: whatever refers to a row goes with it.
    return ["SET LOCAL session_replication_role = replica", *deletions, "SET LOCAL session_replication_role = DEFAULT"]


def install() -> None:
    """Have every test that commits leave its database by `delete_rows`."""
    DatabaseOperations.sql_flush = delete_rows
