"""`manage.py up`: one clear line when it cannot start, nothing left behind however it ends, nothing lost."""

import json
import os
import signal
import socket
import stat
import subprocess
import sys
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
from pytest_django import Settings

from debugger.embedded.sockets import free_port
from debugger.embedded.stack import NOT_FOR_KERNEL, SOURCE
from debugger.management.commands.up import Matrix
from tests.conftest import RunningStack, own_environment

START_SECONDS = 90.0
STOP_SECONDS = 30.0

pytestmark = pytest.mark.stack


class Up:
    """One `manage.py up` of its own in a process of its own."""

    def __init__(self, var_dir: Path, *options: str, **environment: str) -> None:
        self.var_dir = var_dir
        self.places_path = var_dir / "up.json"
        self.output = var_dir.with_name(f"{uuid.uuid4().hex}.out")
        env = own_environment() | {"VAR_DIR": str(var_dir), "PYTHONUNBUFFERED": "1", **environment}
        with self.output.open("wb") as output:
            command = [sys.executable, str(SOURCE / "manage.py"), "up", *(options or ("--no-demo",))]
            self.process = subprocess.Popen(command, env=env, stdout=output, stderr=output, start_new_session=True)

    def places(self) -> dict[str, Any]:
        """Wait for this start's `up.json` and return it."""
        wait_until(lambda: self.read_places() is not None or self.process.poll() is not None, START_SECONDS)
        places = self.read_places()
        assert places is not None, self.output.read_text()
        return places

    def read_places(self) -> dict[str, Any] | None:
        """Return what `up.json` says when it is this start's, not one left by a killed start."""
        try:
            places = dict(json.loads(self.places_path.read_text()))
        except FileNotFoundError:
            return None
        return places if places["pid"] == self.process.pid else None

    def wait(self, seconds: float = STOP_SECONDS) -> int:
        return self.process.wait(seconds)

    def stop(self, number: int = signal.SIGINT) -> int:
        self.process.send_signal(number)
        return self.wait()


def wait_until(holds: Callable[[], bool], seconds: float) -> None:
    deadline = time.monotonic() + seconds
    while not holds():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


def processes_of(var_dir: Path) -> list[str]:
    """Return the command lines of the processes that know `var_dir` by argument or environment."""
    found = []
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit() or int(entry.name) == os.getpid():
            continue
        try:
            arguments, environment = (entry / "cmdline").read_bytes(), (entry / "environ").read_bytes()
        except OSError:
            continue
        if os.fsencode(var_dir) in arguments + environment:
            found.append(arguments.replace(b"\0", b" ").decode())
    return found


def send_event(places: dict[str, Any], run_id: str) -> None:
    """Have one event of `run_id` acknowledged."""
    event = {"event_id": f"{run_id}:1", "run_id": run_id, "type": "run.started", "occurred_at": "2026-01-01T00:00:00Z"}
    event["data"] = {"task": "a task"}  # type: ignore[assignment]
    answer = httpx.post(
        f"{places['base_url']}/v1/events",
        json={"events": [event]},
        headers={"Authorization": f"Bearer {places['api_key']}"},
    )
    assert answer.json()["accepted"] == 1, answer.text


def get_events(places: dict[str, Any], run_id: str) -> httpx.Response:
    headers = {"Authorization": f"Bearer {places['api_key']}"}
    return httpx.get(f"{places['base_url']}/v1/runs/{run_id}/events", headers=headers)


def kept_event_ids(places: dict[str, Any], run_id: str) -> list[str]:
    return [event["event_id"] for event in get_events(places, run_id).json()["results"]]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Callable[..., Up]]:
    """Starts `up` on one VAR_DIR; whatever a test left of it is killed."""
    started: list[Up] = []

    def start_up(*options: str, **environment: str) -> Up:
        started.append(Up(tmp_path / "var", *options, **environment))
        return started[-1]

    yield start_up
    for up in started:
        if up.process.poll() is None:
            up.process.kill()
            up.process.wait()


def test_a_stop_removes_everything_but_the_data(start: Callable[..., Up], tmp_path: Path) -> None:
    """Ctrl-C: exit 0, no process, no `up.json`; the next start has the data and refuses the earlier start's key."""
    up = start()
    first = up.places()
    assert stat.S_IMODE(up.places_path.stat().st_mode) == 0o600
    wanted = {"base_url", "database_url", "broker_url", "temporal_address", "api_key", "sign_in_url"}
    assert wanted <= first.keys()
    send_event(first, "kept-run")
    assert up.stop() == 0
    assert processes_of(up.var_dir) == []
    assert not up.places_path.exists()
    assert "nothing is left running" in up.output.read_text()

    again = start()
    second = again.places()
    assert kept_event_ids(second, "kept-run") == ["kept-run:1"]
    assert get_events(second | {"api_key": first["api_key"]}, "kept-run").status_code == 401
    assert again.stop(signal.SIGTERM) == 0
    assert processes_of(up.var_dir) == []
    kept = [path for path in up.var_dir.rglob("*") if path.is_file() and "postgres" not in path.parts]
    assert not [path for path in kept if second["api_key"].encode() in path.read_bytes()]


def test_a_killed_start_leaves_no_process_and_loses_nothing(start: Callable[..., Up]) -> None:
    """SIGKILL to `up`: its processes end too, the next start waits for them and has every acknowledged event."""
    up = start()
    send_event(up.places(), "survivor")
    up.process.kill()
    up.wait()
    again = start()
    assert kept_event_ids(again.places(), "survivor") == ["survivor:1"]
    again.process.kill()
    again.wait()
    wait_until(lambda: processes_of(up.var_dir) == [], STOP_SECONDS)


def test_a_second_start_on_the_same_folder_is_refused(start: Callable[..., Up]) -> None:
    """The second gets one line; the first runs on and keeps its file."""
    up = start()
    places = up.places()
    second = start()
    assert second.wait() == 1
    assert f"already running on {up.var_dir} (process {up.process.pid})" in second.output.read_text()
    assert up.process.poll() is None
    assert up.places() == places
    assert up.stop() == 0


def test_a_used_sign_in_link_is_replaced(start: Callable[..., Up]) -> None:
    """The link works once; `up.json` then gets a fresh one that works too."""
    up = start()
    first = up.places()["sign_in_url"]
    with httpx.Client() as client:
        sign_in(client, first)
    wait_until(lambda: up.places()["sign_in_url"] != first, 20)
    with httpx.Client() as client:
        sign_in(client, up.places()["sign_in_url"])
    assert up.stop() == 0


def sign_in(client: httpx.Client, url: str) -> None:
    """Use a sign-in link as a browser does: open it, send its form when it has one; a session must come of it."""
    page = client.get(url)
    if "sessionid" not in client.cookies and "csrftoken" in client.cookies:
        page = client.post(url, data={"csrfmiddlewaretoken": client.cookies["csrftoken"]})
    assert "sessionid" in client.cookies, page.text


def test_a_part_that_ends_is_named_and_everything_stops(start: Callable[..., Up]) -> None:
    """When a worker dies `up` says which one and its last lines, stops all and exits non-zero."""
    up = start()
    up.places()
    workers = [line for line in Path("/proc").iterdir() if line.name.isdigit() and is_beat(line, up.var_dir)]
    os.kill(int(workers[0].name), signal.SIGKILL)
    assert up.wait() == 1
    assert "beat ended with status 137" in up.output.read_text()
    assert processes_of(up.var_dir) == []
    assert not up.places_path.exists()


def is_beat(entry: Path, var_dir: Path) -> bool:
    try:
        arguments = (entry / "cmdline").read_bytes().split(b"\0")
    except OSError:
        return False
    return b"keeper.py" not in b"".join(arguments) and os.fsencode(f"--schedule={var_dir}/beat-schedule") in arguments


def test_two_stops_in_a_row_leave_nothing(start: Callable[..., Up]) -> None:
    """A second Ctrl-C while it stops only makes it faster."""
    up = start()
    up.places()
    up.process.send_signal(signal.SIGINT)
    wait_until(lambda: "stopping" in up.output.read_text(), 10)
    up.process.send_signal(signal.SIGINT)
    assert up.wait() == 0
    assert processes_of(up.var_dir) == []


def test_a_stop_while_starting_leaves_nothing(start: Callable[..., Up]) -> None:
    """Ctrl-C in the middle of a start."""
    up = start()
    wait_until(lambda: "PostgreSQL ready" in up.output.read_text(), START_SECONDS)
    assert up.stop() == 0
    assert processes_of(up.var_dir) == []
    assert not up.places_path.exists()


def refused(up: Up) -> str:
    """Return the one line with which a start that cannot go on ended, leaving nothing running."""
    assert up.wait(START_SECONDS) == 1
    lines = [line for line in up.output.read_text().splitlines() if not line.startswith("[")]
    assert len(lines) == 1, lines
    assert processes_of(up.var_dir) == []
    assert not up.places_path.exists()
    return lines[0]


def test_a_taken_port_that_was_asked_for_is_one_line(start: Callable[..., Up]) -> None:
    """PORT names a port in use: said in one line, with the way out."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        assert f"port {port} on 127.0.0.1 cannot be used" in refused(start(PORT=str(port)))


@pytest.mark.parametrize("raw", ["web", "-1", "70000"])
def test_a_port_that_is_none_is_one_line(start: Callable[..., Up], raw: str) -> None:
    """PORT is no port number."""
    assert f"PORT must be a whole number from 0 to 65535, not {raw!r}" in refused(start(PORT=raw))


@pytest.mark.parametrize(
    ("variable", "address"),
    [
        ("DATABASE_URL", "postgresql://me:s3cret@127.0.0.1:{port}/x"),
        ("CELERY_BROKER_URL", "redis://:s3cret@127.0.0.1:{port}/0"),
        ("TEMPORAL_ADDRESS", "127.0.0.1:{port}"),
    ],
)
def test_a_service_that_cannot_be_reached_is_one_line(start: Callable[..., Up], variable: str, address: str) -> None:
    """A given address that leads nowhere is named by its variable, without the password."""
    line = refused(start(**{variable: address.format(port=free_port())}))
    assert f"{variable} does not lead to a working service" in line
    assert "s3cret" not in line


def test_given_services_are_used_and_left_running(
    start: Callable[..., Up], temporal_address: str, tmp_path: Path
) -> None:
    """A service given by its variable is not started here and not stopped here."""
    up = start(TEMPORAL_ADDRESS=temporal_address)
    assert up.places()["temporal_address"] == temporal_address
    assert not (up.var_dir / "log" / "temporal.log").exists()
    assert up.stop() == 0
    with socket.create_connection(("127.0.0.1", int(temporal_address.rpartition(":")[2])), timeout=5):
        pass


def test_the_matrix_is_made_after_the_demo_at_low_priority(stack: RunningStack, settings: Settings) -> None:
    """Once the demo is over, with Temporal's address and no secret of the server; what came of it is told once."""
    settings.CONFORMANCE_REPORT = stack.var_dir / "conformance.json"
    demo, over, told = threading.Thread(target=lambda: over.wait(60)), threading.Event(), list[str]()
    matrix = Matrix(stack.programs, demo, told.append)
    demo.start()
    matrix.look()
    assert made(settings.CONFORMANCE_REPORT) == []
    over.set()
    demo.join(60)
    matrix.look()
    wait_until(lambda: len(makers(settings.CONFORMANCE_REPORT)) == 1, START_SECONDS)
    [process] = makers(settings.CONFORMANCE_REPORT)
    assert int((process / "stat").read_text().rpartition(")")[2].split()[16]) == 19
    names = {entry.partition(b"=")[0].decode() for entry in (process / "environ").read_bytes().split(b"\0")}
    assert "TEMPORAL_ADDRESS" in names
    assert names & {*NOT_FOR_KERNEL, "TEMPORALITY_API_KEY"} == set()
    os.kill(int(process.name), signal.SIGKILL)
    wait_until(lambda: made(settings.CONFORMANCE_REPORT) == [], STOP_SECONDS)
    wait_until(lambda: matrix.look() is None and bool(told), STOP_SECONDS)
    matrix.look()
    assert told == [f"no conformance report was made, exit status 137: see {stack.var_dir}/log/conformance.log"]


def test_without_a_demo_no_matrix_is_made(stack: RunningStack, settings: Settings) -> None:
    """`--no-demo` is for those who want nothing more than the services."""
    settings.CONFORMANCE_REPORT = stack.var_dir / "none.json"
    told = list[str]()
    Matrix(stack.programs, None, told.append).look()
    assert (made(settings.CONFORMANCE_REPORT), told) == ([], [])


def makers(report: Path) -> list[Path]:
    """Return those of the processes that make `report` that are the command itself: no keeper, nor a fork of one."""
    return [entry for entry in made(report) if b"keeper.py" not in (entry / "cmdline").read_bytes()]


def made(report: Path) -> list[Path]:
    """Return the processes, as folders of /proc, that make `report`."""
    found = []
    for entry in Path("/proc").iterdir():
        try:
            if entry.name.isdigit() and f"--out={report}".encode() in (entry / "cmdline").read_bytes():
                found.append(entry)
        except OSError:
            continue
    return found
