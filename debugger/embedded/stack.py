"""Decides what the whole stack consists of, in which order it starts and stops, and what each part is told.

A service whose environment variable is set is somebody else's: it is checked, never started or stopped.
"""

import http.client
import os
import socket
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path
from urllib.parse import urlsplit

from debugger.embedded.postgres import await_postgres, postgres_problem, start_postgres
from debugger.embedded.processes import Child, Program, StackError, first_ended, stop_all, wait_ready
from debugger.embedded.redis import await_redis, broker_problem, start_redis
from debugger.embedded.sockets import make_socket_dir, remove_socket_dir
from debugger.embedded.temporal import await_temporal, start_temporal, temporal_problem

SOURCE = Path(__file__).resolve().parent.parent.parent
WEB_READY_SECONDS = 60.0
KERNEL_PROJECT = "demo"  # slug of the project whose key the kernel's worker gets
WEB_OPTIONS = (
    "--config=python:debugger.web_server",
    "--workers=2",
    "--worker-class=debugger.web_worker.WatchedWorker",
    "--threads=8",
    "--timeout=60",
    "--graceful-timeout=3",
    "--keep-alive=0",  # kept connections stay with one process: a few busy senders would leave the other idle
    "--no-control-socket",
)  # no access log: a sign-in link's token stands in its address
# The kernel is a customer of the HTTP API: it gets none of the server's secrets.
NOT_FOR_KERNEL = (
    "SECRET_KEY", "DATABASE_URL", "CELERY_BROKER_URL", "DJANGO_SETTINGS_MODULE", "VAR_DIR", "METRICS_TOKEN",
)  # fmt: skip


@dataclass(frozen=True, slots=True)
class Addresses:
    """Where the three services are."""

    database_url: str
    broker_url: str
    temporal_address: str


class Stack:
    """Services, then web and workers. Use from the main thread; call `stop` whatever happened."""

    def __init__(
        self,
        var_dir: Path,
        environ: Mapping[str, str],
        *,
        tell: Callable[[str], None],
        durable: bool = True,
        keep_open: tuple[int, ...] = (),
    ) -> None:
        """`environ` is the base of every child's environment; `durable` False is for data thrown away anyway."""
        self.var_dir = var_dir
        self.tell = tell
        self._environ = {"RUN_PROJECT": KERNEL_PROJECT} | dict(environ)
        self._durable = durable
        self._keep_open = keep_open
        self._sockets: Path | None = None
        self._addresses: Addresses | None = None
        self._listener: socket.socket | None = None
        self._services: list[Child] = []
        self._programs: dict[str, Child] = {}
        self._errand: Child | None = None

    # services

    def start_services(self) -> Addresses:
        """Start what is ours side by side, check what is not. Raises StackError when one is not to be had."""
        sockets = self._sockets = make_socket_dir(self.var_dir)
        database_url = self._environ.get("DATABASE_URL", "")
        broker_url = self._environ.get("CELERY_BROKER_URL", "")
        temporal_address = self._environ.get("TEMPORAL_ADDRESS", "")
        temporal = redis = postgres = None
        if not temporal_address:
            temporal, temporal_address = start_temporal(
                self.var_dir, self._log("temporal"), keep=self._durable, keep_open=self._keep_open
            )
            self._services.append(temporal)
        if not broker_url:
            redis = start_redis(self.var_dir, sockets, self._log("redis"), keep_open=self._keep_open)
            self._services.append(redis)
        if not database_url:
            postgres = start_postgres(
                self.var_dir, sockets, self._log("postgres"), durable=self._durable, keep_open=self._keep_open
            )
            self._services.append(postgres)
        if postgres:
            database_url = await_postgres(postgres, sockets)
        else:
            _refuse("DATABASE_URL", postgres_problem(database_url))
        self.tell(f"PostgreSQL {'ready' if postgres else 'answers at DATABASE_URL'}")
        if redis:
            broker_url = await_redis(redis, sockets)
        else:
            _refuse("CELERY_BROKER_URL", broker_problem(broker_url))
        self.tell(f"{'Redis ready' if redis else 'the queue answers at CELERY_BROKER_URL'}")
        if temporal:
            await_temporal(temporal, temporal_address)
        else:
            namespace = self._environ.get("TEMPORAL_NAMESPACE", "default")
            _refuse("TEMPORAL_ADDRESS", temporal_problem(temporal_address, namespace))
        self.tell(f"Temporal {'ready' if temporal else 'answers'} at {temporal_address}")
        self._addresses = Addresses(database_url, broker_url, temporal_address)
        return self._addresses

    def environment(self) -> dict[str, str]:
        """Return the environment of the Django processes. Raises RuntimeError before the services are started."""
        if self._addresses is None:
            raise RuntimeError("start_services comes first")
        return self._environ | {
            "PATH": f"{Path(sys.executable).parent}{os.pathsep}{self._environ.get('PATH', os.defpath)}",
            "PYTHONUNBUFFERED": "1",
            "DJANGO_SETTINGS_MODULE": "debugger.settings",
            "VAR_DIR": str(self.var_dir),
            "DATABASE_URL": self._addresses.database_url,
            "CELERY_BROKER_URL": self._addresses.broker_url,
            "TEMPORAL_ADDRESS": self._addresses.temporal_address,
        }

    # web and workers

    def start_web(self, listener: socket.socket) -> str:
        """Serve the pages and the API on `listener`, a listening socket; return the base address, not yet answering."""
        self._listener = listener
        listener.set_inheritable(True)
        self.start("web")
        host, port = listener.getsockname()[:2]
        return f"http://{'127.0.0.1' if host == '0.0.0.0' else host}:{port}"

    def await_web(self, base_url: str) -> None:
        """Wait until the first page is served. Raises StackError when it is not."""
        wait_ready(self._programs["web"], lambda: page_problem(base_url, "/sign-in/"), WEB_READY_SECONDS)

    def start_workers(self, base_url: str, api_key: str) -> None:
        """Start the queue's worker and clock, and the kernel's worker with its key for `base_url`."""
        self._environ |= {"TEMPORALITY_URL": base_url}
        self._api_key = api_key
        for name in ("queue", "beat", "kernel"):
            self.start(name)

    def start(self, name: str) -> None:
        """Start one program (again): "web", "queue", "beat" or "kernel"."""
        self._programs[name] = Child(self._program(name), self._log(name))

    def child(self, name: str) -> Child:
        return self._programs[name]

    def ended(self) -> Child | None:
        """Return a part that ended by itself, or None while all run."""
        return first_ended([*self._services, *self._programs.values()])

    # work that ends

    def start_conformance(self, report: Path) -> Child:
        """Make the conformance report beside everything else, unless this code has made it already; it may end."""
        env = {name: value for name, value in self.environment().items() if name not in NOT_FOR_KERNEL}
        command = (sys.executable, "-m", "kernel.conformance", f"--out={report}", "--unless-current")
        program = Program("conformance", command, env, SOURCE, niceness=19, keep_open=self._keep_open)
        self._errand = Child(program, self._log("conformance"))
        return self._errand

    def stop(self) -> None:
        """Stop everything of ours: the kernel first, as it reports to the web, and the services last."""
        stop_all([self._errand] if self._errand is not None else [])
        stop_all([child for name, child in self._programs.items() if name in ("kernel", "beat")])
        stop_all([child for name, child in self._programs.items() if name in ("web", "queue")])
        stop_all(self._services)
        self._programs.clear()
        self._services.clear()
        if self._listener is not None:
            self._listener.close()
        if self._sockets is not None:
            remove_socket_dir(self._sockets, self.var_dir)

    def hurry(self) -> None:
        """Stop everything at once, without a clean end; for the second Ctrl-C."""
        errands = [self._errand] if self._errand is not None else []
        for child in [*errands, *self._programs.values(), *self._services]:
            child.ask_to_stop()

    def _log(self, name: str) -> Path:
        return self.var_dir / "log" / f"{name}.log"

    def _program(self, name: str) -> Program:
        env = self.environment()
        python = sys.executable
        fds: tuple[int, ...] = ()
        if name == "web" and self._listener is not None:
            fds = (self._listener.fileno(),)
            env["PROMETHEUS_MULTIPROC_DIR"] = str(self.var_dir / "metrics")
            command = [python, "-m", "gunicorn", f"--bind=fd://{fds[0]}", *WEB_OPTIONS, "debugger.wsgi:application"]
        elif name == "queue":
            command = [python, "-m", "celery", "--quiet", "-A", "debugger", "worker", "--loglevel=INFO"]
            command += ["--concurrency=2", "--without-gossip", "--without-mingle", "--hostname=queue@localhost"]
        elif name == "beat":
            command = [python, "-m", "celery", "--quiet", "-A", "debugger", "beat", "--loglevel=WARNING", "--pidfile="]
            command += [f"--schedule={self.var_dir / 'beat-schedule'}"]
        elif name == "kernel":
            command = [python, "-m", "kernel.runtime.worker"]
            env = self._kernel_environment(env)
        else:
            raise ValueError(f"there is no program {name!r}")
        return Program(name, tuple(command), env, SOURCE, pass_fds=fds, keep_open=self._keep_open)

    def _kernel_environment(self, env: dict[str, str]) -> dict[str, str]:
        """Return what the kernel's worker may know: where to ask and report, its key, its own stores."""
        kept = {name: value for name, value in env.items() if name not in NOT_FOR_KERNEL}
        return kept | {
            "TEMPORALITY_API_KEY": self._api_key,
            "KERNEL_DATABASE_URL": env["DATABASE_URL"],
            "KERNEL_WORK_DIR": str(self.var_dir / "work"),
        }


def page_problem(base_url: str, path: str) -> str:
    """Return why `path` is not served with a status under 500 within 5 s, or an empty string."""
    connection = http.client.HTTPConnection(urlsplit(base_url).netloc, timeout=5)
    try:
        connection.request("GET", path)
        status = connection.getresponse().status
    except (OSError, http.client.HTTPException) as error:
        return str(error) or type(error).__name__
    finally:
        connection.close()
    return f"{path} answers {status}" if status >= 500 else ""


def _refuse(variable: str, problem: str) -> None:
    if problem:
        raise StackError(f"{variable} does not lead to a working service: {problem}")
