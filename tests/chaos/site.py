"""A site of its own for tests that kill parts of it: every part can be found, killed, frozen and started again."""

import json
import os
import signal
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psycopg

from debugger.embedded.postgres import await_postgres, start_postgres
from debugger.embedded.processes import stop_all
from debugger.embedded.redis import await_redis, start_redis
from debugger.embedded.sockets import listen_web, make_socket_dir, remove_socket_dir
from debugger.embedded.stack import Stack
from tests.conftest import manage, own_environment


def children_of(pid: int) -> list[int]:
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def wait_until(holds: Callable[[], bool], seconds: float, what: str) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, f"waited in vain for {what}"
        time.sleep(0.05)


class Site:
    """PostgreSQL that keeps what it acknowledged, Redis, two web processes, the queue's worker and its clock."""

    def __init__(self, var_dir: Path, temporal_address: str) -> None:
        self.var_dir = var_dir
        self.sockets = make_socket_dir(var_dir)
        self.postgres = start_postgres(var_dir, self.sockets, var_dir / "log" / "postgres.log")
        self.redis = start_redis(var_dir, self.sockets, var_dir / "log" / "redis.log")
        self.programs: Stack | None = None
        self.database_url = await_postgres(self.postgres, self.sockets)
        addresses = {
            "DATABASE_URL": self.database_url,
            "CELERY_BROKER_URL": await_redis(self.redis, self.sockets),
            "TEMPORAL_ADDRESS": temporal_address,
            "FOLD_SWEEP_SECONDS": "2",
            "LOG_FORMAT": "json",
        }
        self.programs = Stack(var_dir, {**own_environment(), **addresses}, tell=lambda line: None)
        self.programs.start_services()
        self.api_key = str(json.loads(manage(self.programs.environment(), "prepare_demo"))["api_key"])
        manage(self.programs.environment(), "collectstatic", "--no-input")
        self.base_url = self.programs.start_web(listen_web("127.0.0.1", 0, exact=True))
        for name in ("queue", "beat"):
            self.programs.start(name)
        self.programs.await_web(self.base_url)

    def close(self) -> None:
        if self.programs is not None:
            self.programs.stop()
        stop_all([self.redis, self.postgres])
        remove_socket_dir(self.sockets, self.var_dir)

    def pid(self, name: str) -> int:
        assert self.programs is not None
        pid = self.programs.child(name).pid
        assert pid is not None
        return pid

    def web_workers(self) -> list[int]:
        return children_of(self.pid("web"))

    def web_kilobytes(self) -> int:
        """Memory of the web processes that is their own: resident, without what a file backs."""
        total = 0
        for pid in self.web_workers():
            status = Path(f"/proc/{pid}/status").read_text()
            total += next(int(line.split()[1]) for line in status.splitlines() if line.startswith("RssAnon"))
        return total

    def kill(self, name: str) -> None:
        """kill -9 of a program, then a new one in its place."""
        assert self.programs is not None
        killed = self.programs.child(name)
        os.kill(self.pid(name), signal.SIGKILL)
        wait_until(lambda: killed.exit_code() is not None, 20, f"the end of {name}")
        self.programs.start(name)

    def kill_redis(self) -> None:
        assert self.redis.pid is not None
        os.kill(self.redis.pid, signal.SIGKILL)
        wait_until(lambda: self.redis.exit_code() is not None, 20, "the end of Redis")

    def start_redis(self) -> None:
        self.redis = start_redis(self.var_dir, self.sockets, self.redis.log)
        await_redis(self.redis, self.sockets)

    def kill_postgres(self) -> None:
        assert self.postgres.pid is not None
        os.kill(self.postgres.pid, signal.SIGKILL)
        wait_until(lambda: self.postgres.exit_code() is not None, 20, "the end of PostgreSQL")

    def start_postgres(self) -> None:
        (self.var_dir / "postgres" / "postmaster.pid").unlink(missing_ok=True)
        self.postgres = start_postgres(self.var_dir, self.sockets, self.postgres.log)
        await_postgres(self.postgres, self.sockets)

    @contextmanager
    def frozen_postgres(self) -> Iterator[None]:
        """Every process of the server is stopped, as on a machine that hangs; connections stay open."""
        main = self.postgres.pid
        assert main is not None
        stopped = [main, *children_of(main)]
        for pid in stopped:
            os.kill(pid, signal.SIGSTOP)
        try:
            yield
        finally:
            for pid in reversed(stopped):
                os.kill(pid, signal.SIGCONT)

    def rows(self, statement: str, *values: object) -> list[tuple[object, ...]]:
        with psycopg.connect(self.database_url, autocommit=True) as connection:
            cursor = connection.execute(statement.encode(), values)
            return cursor.fetchall() if cursor.description else []
