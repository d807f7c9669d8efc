"""Counts what ingest did since the process began, for Prometheus."""

from collections.abc import Mapping


def note(
    source: str,
    *,
    n_accepted: int,
    n_duplicates: int,
    n_conflicts: int,
    rejected: Mapping[str, int],
    repaired: Mapping[str, int],
) -> None:
    """Count one request that was answered with a 2xx: `rejected` by code, `repaired` by repair word."""
