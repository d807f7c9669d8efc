"""Our ingest beside MLflow's, one after the other on this machine: `python -m bench.peers_ingest [--json]`.

Both get the same bodies over OTLP, from the same client, into a durable PostgreSQL of the same build and options of its
own. MLflow runs as its documents say (`mlflow server`, four workers, PostgreSQL as its backend) in an environment made
for it from requirements-bench-ingest.txt. Counted are rows: spans of its table, events of our journal.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any
from urllib.parse import quote

import psycopg

from bench.ingest import CONNECTIONS, Loads, span_round, warm_up
from bench.ingest_stack import running_stack
from bench.otlp_load import PROTOBUF, send_counted
from bench.process_figures import Watch
from debugger.embedded.postgres import await_postgres, start_postgres
from debugger.embedded.processes import Child, Program, stop_all, wait_ready
from debugger.embedded.sockets import free_port, make_socket_dir, remove_socket_dir
from debugger.embedded.stack import page_problem

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements-bench-ingest.txt"
WORKERS = 4
READY_SECONDS = 180.0
STORED = "SELECT count(*) FROM spans"
WARM_SPANS = 2_000


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--spans", type=int, default=50_000, help="spans of one of our rounds")
    arguments.add_argument("--peer-spans", type=int, default=10_000, help="spans of one of MLflow's rounds")
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--environment", type=Path, default=Path(tempfile.gettempdir()) / "temporality-bench-mlflow",
                           help="where MLflow is installed, and looked for the next time")  # fmt: skip
    arguments.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    given = arguments.parse_args()
    python = installed(given.environment)
    report: dict[str, Any] = {"ours": [], "mlflow": []}
    with running_stack() as stack:
        warm_up(stack, ours := Loads(given.spans), "otlp")
        report["ours"] = [span_round(stack, ours.spans()) for _ in range(given.rounds)]
    report["mlflow"] = list(mlflow_rounds(python, Loads(given.peer_spans), given.rounds))
    our_rate = median(one["rate"] for one in report["ours"])
    their_rate = median(one["durable_rate"] for one in report["mlflow"])
    report["ratio"] = round(our_rate / their_rate, 2)
    print(json.dumps(report) if given.json else lines(report, our_rate, their_rate))
    return 0


def installed(environment: Path) -> Path:
    """Return the Python of MLflow's environment, made when it is absent."""
    python = environment / "bin" / "python"
    if not (environment / "bin" / "mlflow").exists():
        venv.create(environment, with_pip=True, clear=True)
        install = [str(python), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        subprocess.run([*install, "-r", str(REQUIREMENTS)], check=True)
    return python


def mlflow_rounds(python: Path, loads: Loads, rounds: int) -> Iterator[dict[str, Any]]:
    """Yield the figures of each round, after one that does not count."""
    headers = {**PROTOBUF, "x-mlflow-experiment-id": "0"}
    with running_mlflow(python) as (base_url, dsn, roots):
        warm = send_counted(f"{base_url}/v1/traces", headers, loads.spans(n_items=WARM_SPANS), dsn, STORED)
        if warm["rows"] != WARM_SPANS:
            raise RuntimeError(f"MLflow stored {warm['rows']} of {WARM_SPANS} spans: {warm['refusals']}")
        for _ in range(rounds):
            load_average = os.getloadavg()[0]
            with Watch(roots) as watch:
                figures = send_counted(f"{base_url}/v1/traces", headers, loads.spans(), dsn, STORED)
            yield figures | {
                "load_average": round(load_average, 1),
                "cpu_s": watch.cpu_seconds,
                "web_rss_mib": watch.peak_rss_mib["web"],
            }


@contextmanager
def running_mlflow(python: Path) -> Iterator[tuple[str, str, dict[str, int]]]:
    """Run MLflow's server on a durable PostgreSQL; yield its address, its database and its processes."""
    with tempfile.TemporaryDirectory(prefix="temporality-bench-") as name:
        folder = Path(name)
        sockets = make_socket_dir(folder)
        running = [start_postgres(folder, sockets, folder / "postgres.log", durable=True)]
        try:
            dsn = await_postgres(running[0], sockets)
            running.append(start_mlflow(python, folder, backend(dsn, sockets), port := free_port()))
            base_url = f"http://127.0.0.1:{port}"
            wait_ready(running[1], lambda: page_problem(base_url, "/health"), READY_SECONDS)
            with psycopg.connect(dsn) as connection:
                connection.execute(STORED.encode())
            yield base_url, dsn, {"web": running[1].pid or 0, "postgresql": running[0].pid or 0}
        finally:
            stop_all(reversed(running))
            remove_socket_dir(sockets, folder)


def backend(dsn: str, sockets: Path) -> str:
    database = dsn.partition("@/")[2].partition("?")[0]
    return f"postgresql+psycopg2://postgres@/{database}?host={quote(str(sockets / 'postgres'), safe='/')}"


def start_mlflow(python: Path, folder: Path, backend_uri: str, port: int) -> Child:
    command = [str(python), "-m", "mlflow", "server", "--host", "127.0.0.1", "--port", str(port)]
    command += ["--workers", str(WORKERS), "--backend-store-uri", backend_uri]
    command += ["--default-artifact-root", str(folder / "artifacts")]
    path = f"{python.parent}{os.pathsep}{os.environ.get('PATH', os.defpath)}"
    env = {**os.environ, "PATH": path, "MLFLOW_DISABLE_TELEMETRY": "true", "DO_NOT_TRACK": "true"}
    env.pop("PYTHONPATH", None)
    return Child(Program("MLflow", tuple(command), env, folder, grace=15.0), folder / "mlflow.log")


def lines(report: dict[str, Any], our_rate: float, their_rate: float) -> str:
    text = [f"{CONNECTIONS} connections, 512 spans a request, durable spans a second"]
    for name, rate in (("ours", our_rate), ("mlflow", their_rate)):
        rates = [one.get("durable_rate", one["rate"]) for one in report[name]]
        loads = [one["load_average"] for one in report[name]]
        text.append(f"  {name:<7} median {rate:>8,.0f}  best {max(rates):>8,.0f}  of {rates}, load average {loads}")
        text.append(f"          CPU s {report[name][-1]['cpu_s']}, web RSS {report[name][-1]['web_rss_mib']:.0f} MiB")
    text.append(f"  ratio {report['ratio']}")
    return "\n".join(text)


if __name__ == "__main__":
    sys.exit(main())
