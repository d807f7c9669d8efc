"""The embedded services: they start anywhere, keep what was acknowledged, and are checked alike when foreign."""

import os
import signal
import subprocess
import time
from pathlib import Path

import psycopg
import pytest
import redis

from debugger.embedded.postgres import await_postgres, postgres_problem, start_postgres
from debugger.embedded.processes import StackError, stop_all
from debugger.embedded.redis import await_redis, broker_problem, start_redis
from debugger.embedded.sockets import free_port, make_socket_dir, remove_socket_dir
from debugger.embedded.temporal import temporal_problem


def test_a_killed_postgres_keeps_what_was_committed(tmp_path: Path) -> None:
    """SIGKILL to the server loses no committed row: the next start recovers it."""
    sockets = make_socket_dir(tmp_path)
    server = start_postgres(tmp_path, sockets, tmp_path / "postgres.log")
    try:
        url = await_postgres(server, sockets)
        with psycopg.connect(url) as connection:
            connection.execute("CREATE TABLE kept (n int)")
            connection.execute("INSERT INTO kept VALUES (7)")
        assert server.pid is not None
        os.kill(server.pid, signal.SIGKILL)
        assert server.wait_stopped(time.monotonic() + 10)
        server = start_postgres(tmp_path, sockets, tmp_path / "postgres.log")
        with psycopg.connect(await_postgres(server, sockets)) as connection:
            assert connection.execute("SELECT n FROM kept").fetchall() == [(7,)]
    finally:
        stop_all([server])
        remove_socket_dir(sockets, tmp_path)


def test_postgres_folds_case_beyond_ascii_whatever_the_locale(postgres_url: str) -> None:
    """The database's own locale is used, not the machine's."""
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SELECT lower('ÄЖ')").fetchone() == ("äж",)


def test_half_a_data_folder_of_a_killed_start_is_replaced(tmp_path: Path) -> None:
    """A start that was killed while it made the data folder does not stand in the way of the next."""
    (tmp_path / "postgres.new").mkdir()
    (tmp_path / "postgres.new" / "PG_VERSION").write_text("18")
    sockets = make_socket_dir(tmp_path)
    server = start_postgres(tmp_path, sockets, tmp_path / "postgres.log", durable=False)
    try:
        assert postgres_problem(await_postgres(server, sockets)) == ""
    finally:
        stop_all([server])
        remove_socket_dir(sockets, tmp_path)
    assert not (tmp_path / "postgres.new").exists()


def test_a_data_folder_of_another_version_is_refused_and_left(tmp_path: Path) -> None:
    """Data of another PostgreSQL is named, with the way out, and not touched."""
    (tmp_path / "postgres").mkdir()
    (tmp_path / "postgres" / "PG_VERSION").write_text("16\n")
    sockets = make_socket_dir(tmp_path)
    with pytest.raises(StackError, match="made by PostgreSQL 16"):
        start_postgres(tmp_path, sockets, tmp_path / "postgres.log")
    remove_socket_dir(sockets, tmp_path)
    assert [path.name for path in (tmp_path / "postgres").iterdir()] == ["PG_VERSION"]


def test_a_long_folder_gets_short_sockets(tmp_path: Path) -> None:
    """A path too long for a socket does not stop the broker; the short folder goes when it is done."""
    folder = tmp_path / ("deep" * 30)
    folder.mkdir()
    sockets = make_socket_dir(folder)
    assert len(os.fsencode(sockets)) < 60
    server = start_redis(folder, sockets, folder / "redis.log")
    try:
        assert broker_problem(await_redis(server, sockets)) == ""
    finally:
        stop_all([server])
        remove_socket_dir(sockets, folder)
    assert not sockets.exists()


def test_redis_keeps_its_queue_over_a_restart(tmp_path: Path) -> None:
    """What was queued before a stop is there after the next start."""
    sockets = make_socket_dir(tmp_path)
    values = []
    for _ in range(2):
        server = start_redis(tmp_path, sockets, tmp_path / "redis.log")
        try:
            await_redis(server, sockets)
            with redis.Redis(unix_socket_path=str(sockets / "redis.sock")) as client:
                values.append(client.get("queued"))
                client.set("queued", "task")
        finally:
            stop_all([server])
    remove_socket_dir(sockets, tmp_path)
    assert values == [None, b"task"]


def test_temporal_answers(temporal_address: str) -> None:
    """The embedded Temporal serves its default namespace, and says when a namespace is not there."""
    assert temporal_problem(temporal_address, "default") == ""
    assert "nowhere" in temporal_problem(temporal_address, "nowhere")


def test_an_unreachable_service_is_one_line_without_its_password() -> None:
    """The checks name what is wrong in one line and never the password."""
    port = free_port()
    problems = [
        postgres_problem(f"postgresql://me:s3cret@127.0.0.1:{port}/x"),
        postgres_problem("nonsense"),
        broker_problem(f"redis://:s3cret@127.0.0.1:{port}/0"),
        broker_problem("nonsense://x"),
        temporal_problem(f"127.0.0.1:{port}", "default"),
    ]
    for problem in problems:
        assert problem
        assert "\n" not in problem
        assert "s3cret" not in problem


def test_postgres_listens_on_no_port(postgres_url: str) -> None:
    """Only the socket leads to the embedded server."""
    with psycopg.connect(postgres_url) as connection:
        assert connection.execute("SHOW listen_addresses").fetchone() == ("",)


def test_nothing_of_a_service_is_left_after_its_stop(tmp_path: Path) -> None:
    """Every process of a stopped PostgreSQL is gone, workers included."""
    sockets = make_socket_dir(tmp_path)
    server = start_postgres(tmp_path, sockets, tmp_path / "postgres.log", durable=False)
    await_postgres(server, sockets)
    stop_all([server])
    remove_socket_dir(sockets, tmp_path)
    listed = subprocess.run(["ps", "-eo", "args"], capture_output=True, text=True, check=True).stdout
    assert str(tmp_path) not in listed
