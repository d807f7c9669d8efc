"""The site of the chaos tests, one for all of them."""

from collections.abc import Iterator

import pytest

from tests.chaos.site import Site


@pytest.fixture(scope="package")
def site(tmp_path_factory: pytest.TempPathFactory, temporal_address: str) -> Iterator[Site]:
    """Its data is kept as in earnest: what PostgreSQL acknowledged is on disk."""
    running = Site(tmp_path_factory.mktemp("chaos"), temporal_address)
    try:
        yield running
    finally:
        running.close()
