"""Owns what the kernel's processes read from the environment; a bad value is refused with its name and the fix."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from kernel.tools.clock import DEFAULT_ZONE, zone_named
from kernel.tools.registry import NOTES


class ConfigError(Exception):
    """A variable is missing or unusable; the text names it."""


@dataclass(frozen=True, slots=True)
class TemporalConfig:
    """Where runs are executed."""

    address: str
    namespace: str
    task_queue: str


@dataclass(frozen=True, slots=True)
class WorkerConfig:
    """All a worker needs. Secrets are left out of its text form by never printing it."""

    temporal: TemporalConfig
    base_url: str
    api_key: str
    database_url: str
    work_dir: Path
    openai_base_url: str
    openai_api_key: str
    tool_seconds: float
    notes_dir: Path
    time_zone: str
    drivers: str = ""


def temporal_config(environ: Mapping[str, str] = os.environ) -> TemporalConfig:
    """Return where Temporal is."""
    return TemporalConfig(
        environ.get("TEMPORAL_ADDRESS") or "127.0.0.1:7233",
        environ.get("TEMPORAL_NAMESPACE") or "default",
        environ.get("TEMPORAL_TASK_QUEUE") or "temporality-kernel",
    )


def worker_config(environ: Mapping[str, str] = os.environ) -> WorkerConfig:
    """Return the worker's configuration. Raises ConfigError."""
    base_url = _required(environ, "TEMPORALITY_URL", "the address of Temporality's API")
    if not base_url.startswith(("http://", "https://")):
        raise ConfigError("TEMPORALITY_URL must start with http:// or https://")
    work_dir = Path(_required(environ, "KERNEL_WORK_DIR", "the folder of the runs' work folders")).resolve()
    return WorkerConfig(
        temporal=temporal_config(environ),
        base_url=base_url.rstrip("/"),
        api_key=_required(environ, "TEMPORALITY_API_KEY", "a key with the scopes ingest and observe"),
        database_url=_required(environ, "KERNEL_DATABASE_URL", "the PostgreSQL address of the transcript store"),
        work_dir=work_dir,
        openai_base_url=environ.get("OPENAI_BASE_URL", ""),
        openai_api_key=environ.get("OPENAI_API_KEY", ""),
        tool_seconds=_seconds(environ, "KERNEL_TOOL_SECONDS", 60.0, 240.0),
        notes_dir=Path(environ.get("KERNEL_NOTES_DIR") or work_dir / NOTES).resolve(),
        time_zone=_time_zone(environ, "KERNEL_TIME_ZONE"),
        drivers=environ.get("KERNEL_DRIVERS", ""),
    )


def _required(environ: Mapping[str, str], name: str, what: str) -> str:
    value = environ.get(name, "")
    if not value:
        raise ConfigError(f"{name} is not set: give it {what}")
    return value


def _time_zone(environ: Mapping[str, str], name: str) -> str:
    zone = environ.get(name) or DEFAULT_ZONE
    try:
        return zone_named(zone).key
    except ValueError as error:
        raise ConfigError(f"{name}: {error}") from None


def _seconds(environ: Mapping[str, str], name: str, default: float, most: float) -> float:
    raw = environ.get(name)
    if not raw:
        return default
    try:
        value = float(raw)
    except ValueError:
        value = -1.0
    if not 0 < value <= most:
        raise ConfigError(f"{name} must be seconds over 0 and at most {most:g}, not {raw!r}")
    return value
