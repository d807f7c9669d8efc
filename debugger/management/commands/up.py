"""Starts the whole stack on this machine, keeps it running, and stops all of it again."""

import os
import shutil
import signal
import sys
import threading
import time
from argparse import ArgumentParser
from collections.abc import Callable
from pathlib import Path
from types import FrameType

from django.conf import settings
from django.core.management import CommandError, call_command
from django.core.management.base import BaseCommand
from django.db import DatabaseError, close_old_connections, connections

from debugger.access import is_link_used
from debugger.demo import Demo
from debugger.embedded.processes import Child, StackError, describe_end, end_with_parent
from debugger.embedded.sockets import listen_web
from debugger.embedded.stack import Addresses, Stack
from debugger.embedded.var_dir import claim_var_dir, release_var_dir, remove_places, write_places
from debugger.launching import Runtime
from debugger.preparation import Prepared, fresh_sign_in_path, prepare_demo, prepare_schema
from debugger.queries.conformance import read_report
from debugger.queries.report_file import ReportProblem
from debugger.settings import database_from_url

DEFAULT_PORT = 8000
POLL_SECONDS = 0.25
LINK_POLL_SECONDS = 2.0
WITH_REPORT = (0, 1)  # exit statuses of kernel.conformance: no cell fails, or one does


class Stopped(KeyboardInterrupt):
    """A signal asked for a stop; not an Exception, so that nothing on the way takes it for a failure, and the one kind
    that an event loop passes on from any of its callbacks."""


class Command(BaseCommand):
    help = "Start services, web and workers under VAR_DIR, run the demo, print the address; Ctrl-C stops everything."
    requires_system_checks = []  # run below, when the progress is visible

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--demo", action="store_true", help="run the demo again, though the project has runs")
        parser.add_argument("--no-demo", action="store_true", help="run no demo")
        parser.add_argument("--tied", action="store_true", help="stop when the process that started this one ends")

    def handle(self, *args: object, **options: object) -> None:
        self.started = time.monotonic()
        self.var_dir: Path = settings.VAR_DIR
        self.stack: Stack | None = None
        self.stopping = False
        os.umask(0o077)  # everything under VAR_DIR is its owner's alone
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, self.on_signal)
        if options["tied"]:
            end_with_parent()
        try:
            self.run(demo_again=bool(options["demo"]), no_demo=bool(options["no_demo"]))
        except Stopped:
            return
        except (StackError, CommandError) as error:
            self.stderr.write(f"temporality: {error}")
            sys.exit(1)

    def on_signal(self, number: int, frame: FrameType | None) -> None:
        """Once: leave by Stopped. Again: stop what still runs at once."""
        if self.stopping:
            if self.stack is not None:
                self.stack.hurry()
            return
        self.stopping = True
        raise Stopped

    def tell(self, line: str) -> None:
        self.stdout.write(f"[{time.monotonic() - self.started:5.1f} s] {line}")
        self.stdout.flush()

    def run(self, *, demo_again: bool, no_demo: bool) -> None:
        lock = claim_var_dir(self.var_dir, self.tell)
        stack = self.stack = Stack(self.var_dir, os.environ, tell=self.tell, keep_open=(lock,))
        try:
            remove_places(self.var_dir)
            self.start_and_watch(stack, demo_again=demo_again, no_demo=no_demo)
        finally:
            self.stopping = True
            self.tell("stopping")
            connections.close_all()
            stack.stop()
            remove_places(self.var_dir)
            release_var_dir(lock)
            self.tell("stopped: nothing is left running")

    def start_and_watch(self, stack: Stack, *, demo_again: bool, no_demo: bool) -> None:
        port, exact = web_port()
        listener = listen_web(os.environ.get("WEB_HOST", "127.0.0.1"), port, exact=exact)
        if listener.getsockname()[1] != port and port:
            self.tell(f"port {port} is taken, using {listener.getsockname()[1]}")
        if shutil.which("git") is None:
            self.tell("git is not installed: runs that use it, some of the demo among them, will say so")
        self.tell("starting PostgreSQL, Redis and Temporal")
        addresses = stack.start_services()
        use_services(addresses)
        self.check()
        prepare_schema()
        self.tell("schema up to date")
        call_command("collectstatic", interactive=False, verbosity=0)
        base_url = stack.start_web(listener)
        prepared = prepare_demo()
        self.tell(f"project {prepared.project!r} ready")
        stack.start_workers(base_url, prepared.api_key)
        stack.await_web(base_url)
        self.tell(f"pages are served at {base_url}")
        self.publish(base_url, addresses, prepared.project, prepared.api_key, prepared.sign_in_path)
        self.greet(base_url, prepared)
        runtime = Runtime(addresses.temporal_address, settings.TEMPORAL_NAMESPACE, settings.TEMPORAL_TASK_QUEUE)
        demo = Demo(
            runtime,
            prepared.project,
            base_url,
            self.tell,
            self.var_dir,
            kernel_database=addresses.database_url,
        )
        demo.restore_hints()
        playing = None
        if not no_demo:
            playing = threading.Thread(target=demo.run, args=(demo_again,), name="demo", daemon=True)
            playing.start()
        try:
            self.watch(stack, base_url, addresses, prepared, Matrix(stack, playing, self.tell))
        finally:
            demo.restore_hints()

    def watch(self, stack: Stack, base_url: str, addresses: Addresses, prepared: Prepared, matrix: "Matrix") -> None:
        """Until a signal: look for parts that ended, and keep an unused sign-in link in `up.json`.

        Raises StackError when a part ended by itself.
        """
        path, looked = prepared.sign_in_path, time.monotonic()
        while True:
            ended = stack.ended()
            if ended is not None:
                raise StackError(describe_end(ended))
            matrix.look()
            now = time.monotonic()
            if now - looked >= LINK_POLL_SECONDS:
                looked = now
                fresh = self.renew_link(path)
                if fresh != path:
                    path = fresh
                    self.publish(base_url, addresses, prepared.project, prepared.api_key, path)
            time.sleep(POLL_SECONDS)

    def renew_link(self, path: str) -> str:
        """Return `path`, or a fresh one when it signs nobody in any more; `path` also while the database is away."""
        try:
            close_old_connections()
            return fresh_sign_in_path() if is_link_used(path) else path
        except DatabaseError as error:
            self.tell(f"the sign-in link could not be looked up: {' '.join(str(error).split())}")
            return path

    def publish(self, base_url: str, addresses: Addresses, project: str, api_key: str, path: str) -> None:
        places = {
            "base_url": base_url,
            "database_url": addresses.database_url,
            "broker_url": addresses.broker_url,
            "temporal_address": addresses.temporal_address,
            "project": project,
            "api_key": api_key,
            "sign_in_url": f"{base_url}{path}",
            "pid": os.getpid(),
        }
        write_places(self.var_dir, places)

    def greet(self, base_url: str, prepared: Prepared) -> None:
        self.stdout.write(
            f"\nTemporality is up.\n"
            f"  timeline  {base_url}/{prepared.project}/runs/\n"
            f"  sign in   {base_url}{prepared.sign_in_path}\n"
            f"            (works once; a fresh link is always in {self.var_dir / 'up.json'})\n"
            f"  logs      {self.var_dir / 'log'}\n"
            f"  stop      Ctrl-C\n"
        )
        self.stdout.flush()


class Matrix:
    """Has the conformance report made once the demo is over, without a demo never; what comes of it is told."""

    def __init__(self, stack: Stack, demo: threading.Thread | None, tell: Callable[[str], None]) -> None:
        self._stack = stack
        self._demo = demo
        self._tell = tell
        self._child: Child | None = None

    def look(self) -> None:
        """Start what is due, tell what has ended. From the main thread, with whose end the process would end."""
        if self._demo is not None and not self._demo.is_alive():
            self._demo = None
            self._child = self._stack.start_conformance(settings.CONFORMANCE_REPORT)
        if self._child is not None and self._child.exit_code() is not None:
            self._tell(self._outcome(self._child))
            self._child = None

    def _outcome(self, child: Child) -> str:
        if child.exit_code() not in WITH_REPORT:
            return f"no conformance report was made, exit status {child.exit_code()}: see {child.log}"
        try:
            report = read_report(settings.CONFORMANCE_REPORT)
        except ReportProblem as problem:
            return f"the conformance report cannot be shown: {problem}"
        if report is None:
            return f"the conformance report is not there: see {child.log}"
        return f"conformance report of {report.made_at:%Y-%m-%d %H:%M} UTC, cells that fail: {len(report.failures)}"


def web_port() -> tuple[int, bool]:
    """Return the port to use and whether it was asked for. Raises StackError when PORT is no port."""
    raw = os.environ.get("PORT", "")
    if not raw:
        return DEFAULT_PORT, False
    if not raw.isdigit() or int(raw) > 65535:
        raise StackError(f"PORT must be a whole number from 0 to 65535, not {raw!r}")
    return int(raw), True


def use_services(addresses: Addresses) -> None:
    """Point this process, whose settings were read before the services were started, at them."""
    connections.close_all()
    settings.DATABASES["default"].update(database_from_url(addresses.database_url))
    settings.CELERY_BROKER_URL = addresses.broker_url
    settings.TEMPORAL_ADDRESS = addresses.temporal_address
