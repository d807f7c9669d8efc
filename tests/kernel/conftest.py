"""Fixtures of the kernel's tests."""

from collections.abc import AsyncIterator

import pytest

from kernel.edge.transcript import MemoryTranscript, PostgresTranscript, TranscriptStore


@pytest.fixture(params=["memory", "postgres"])
async def store(request: pytest.FixtureRequest) -> AsyncIterator[TranscriptStore]:
    """Each kind of transcript store in turn."""
    if request.param == "memory":
        yield MemoryTranscript()
        return
    made = await PostgresTranscript.open(request.getfixturevalue("postgres_url"))
    yield made
    await made.close()
