"""Session-wide services and shared fixtures. A test that needs no service starts none; nothing is left running."""

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import httpx
import pytest
from django.conf import settings
from playwright.sync_api import Browser, Page, sync_playwright

from debugger.embedded.postgres import await_postgres, start_postgres
from debugger.embedded.processes import stop_all
from debugger.embedded.sockets import listen_web, make_socket_dir, remove_socket_dir
from debugger.embedded.stack import SOURCE, Stack
from debugger.embedded.temporal import await_temporal, start_temporal
from debugger.launching import Runtime
from debugger.settings import database_from_url
from tests import emptying

# Bytecode is kept whatever the environment asks for: Temporal's sandbox imports the kernel anew for every workflow, and
# the tests start hundreds of processes that would compile what they import.
sys.dont_write_bytecode = False
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

# What would point the tests at somebody's real services.
FOREIGN = ("DATABASE_URL", "CELERY_BROKER_URL", "TEMPORAL_ADDRESS", "VAR_DIR", "PORT", "WEB_HOST", "SECRET_KEY")


def own_environment() -> dict[str, str]:
    """Return the environment without the variables that name services outside of the tests."""
    return {name: value for name, value in os.environ.items() if name not in FOREIGN}


@pytest.fixture(scope="session")
def postgres_url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of an embedded PostgreSQL of this session's own."""
    folder = tmp_path_factory.mktemp("postgres")
    sockets = make_socket_dir(folder)
    server = start_postgres(folder, sockets, folder / "postgres.log", durable=False)
    try:
        yield await_postgres(server, sockets)
    finally:
        stop_all([server])
        remove_socket_dir(sockets, folder)


@pytest.fixture(scope="session")
def django_db_modify_db_settings(postgres_url: str) -> None:
    settings.DATABASES["default"].update(database_from_url(postgres_url))
    emptying.install()


@pytest.fixture(scope="session")
def temporal_address(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """Address of a Temporal server of this session's own, with nothing in it."""
    folder = tmp_path_factory.mktemp("temporal")
    server, address = start_temporal(folder, folder / "temporal.log", keep=False)
    try:
        await_temporal(server, address)
        yield address
    finally:
        stop_all([server])


@dataclass(frozen=True, slots=True)
class RunningStack:
    """The whole stack, running: its own database (not pytest-django's), demo project and key.

    `programs` starts, finds and stops single programs: `programs.child("kernel")`, `programs.start("kernel")`.
    """

    base_url: str
    database_url: str
    broker_url: str
    temporal_address: str
    project: str
    api_key: str
    var_dir: Path
    programs: Stack
    api: httpx.Client = field(repr=False)

    def get(self, path: str, **parameters: str | int) -> httpx.Response:
        """GET of the machine API with the demo project's key."""
        return self.api.get(path, params=parameters)

    def post(self, path: str, body: object) -> httpx.Response:
        """POST of a JSON body to the machine API with the demo project's key."""
        return self.api.post(path, json=body)

    def manage(self, *arguments: str) -> str:
        """Run a management command on this stack and return what it printed."""
        return manage(self.programs.environment(), *arguments)

    def sign_in_url(self) -> str:
        """Return the address of a new one-time sign-in link of the demo person."""
        return self.manage("sign_in_link", "--base-url", self.base_url).strip()

    def runtime(self) -> Runtime:
        """Where `debugger.launching` starts runs on this stack."""
        return Runtime(self.temporal_address, "default", "temporality-kernel")


def manage(environment: Mapping[str, str], *arguments: str) -> str:
    command = [sys.executable, str(SOURCE / "manage.py"), *arguments]
    done = subprocess.run(command, env=dict(environment), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.fixture(scope="session")
def stack(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningStack]:
    """The whole embedded stack on free ports in a temporary VAR_DIR, started as `manage.py up` starts it."""
    var_dir = tmp_path_factory.mktemp("var")
    programs = Stack(var_dir, own_environment(), tell=_ignore, durable=False)
    try:
        addresses = programs.start_services()
        prepared = json.loads(manage(programs.environment(), "prepare_demo"))
        manage(programs.environment(), "collectstatic", "--no-input")
        base_url = programs.start_web(listen_web("127.0.0.1", 0, exact=True))
        programs.start_workers(base_url, prepared["api_key"])
        programs.await_web(base_url)
        headers = {"Authorization": f"Bearer {prepared['api_key']}"}
        with httpx.Client(base_url=base_url, headers=headers, timeout=30) as api:
            yield RunningStack(
                base_url=base_url,
                database_url=addresses.database_url,
                broker_url=addresses.broker_url,
                temporal_address=addresses.temporal_address,
                project=prepared["project"],
                api_key=prepared["api_key"],
                var_dir=var_dir,
                programs=programs,
                api=api,
            )
    finally:
        programs.stop()


def chromium_path() -> str | None:
    """Return the Chromium to drive, or None for Playwright's own; `make test` names it in CHROMIUM."""
    named = os.environ.get("CHROMIUM", "")
    if named:
        return None if named == "playwright" else named
    return shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """A Chromium. Playwright's loop counts as running in this thread: no asyncio test and no ORM beside it."""
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=chromium_path())
        yield chromium
        chromium.close()


@pytest.fixture
def page(browser: Browser, stack: RunningStack) -> Iterator[Page]:
    """A fresh browser page, signed in nowhere, whose relative addresses are those of the stack."""
    context = browser.new_context(base_url=stack.base_url, viewport={"width": 1280, "height": 800})
    yield context.new_page()
    context.close()


def _ignore(line: str) -> None:
    """The stack's progress lines, which a test run does not show."""
