"""A long trace on our page beside Arize Phoenix's, one after the other: `python -m bench.peers_timeline [--json]`.

Both get the same OTLP requests, then the trace is opened in the same Chromium, each time in a context that has cached
nothing. Phoenix runs as its documents say (`phoenix serve`, its database SQLite) in an environment made for it from
requirements-bench-timeline.txt; ours is the product's own stack, the run folded and its timeline stored. `data` are
the bytes of pages and answers alone, without scripts, styles, fonts and pictures.
"""

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.request
import venv
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median
from typing import Any

from playwright.sync_api import Error, Page, sync_playwright

from bench.ingest_stack import running_stack
from bench.timeline_browser import FLAGS, heap_kib
from bench.timeline_trace import MODEL, trace_bodies
from debugger.embedded.processes import Child, Program, stop_all, wait_ready
from debugger.embedded.sockets import free_port
from debugger.embedded.stack import page_problem

REQUIREMENTS = Path(__file__).resolve().parent.parent / "requirements-bench-timeline.txt"
READY_SECONDS = 300.0
STORED_SECONDS = 600.0
ROW_SECONDS = 300.0
QUIET_SECONDS = 3.0  # without a byte: the page is there
PROTOBUF = {"Content-Type": "application/x-protobuf"}
ASSETS = ("Script", "Stylesheet", "Font", "Image", "Manifest", "Other")
KINDS = ("first_row_ms", "bytes", "data_bytes", "heap_kib")

Figures = dict[str, Any]


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--spans", type=int, default=10_000)
    arguments.add_argument("--rounds", type=int, default=3)
    place = Path(tempfile.gettempdir()) / "temporality-bench-phoenix"
    arguments.add_argument("--environment", type=Path, default=place,
                           help="where Phoenix is installed, and looked for the next time")  # fmt: skip
    arguments.add_argument("--json", action="store_true", help="print one JSON object instead of lines")
    given = arguments.parse_args()
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"  # Playwright's loop counts as running in this thread
    phoenix = installed(given.environment)
    trace_id, requests = trace_bodies(given.spans, (int(time.time()) // 60 * 60 - given.spans) * 10**9)
    report = {"spans": given.spans, "sent_bytes": sum(map(len, requests))}
    report["ours"] = ours(trace_id, requests, given.rounds)
    report["phoenix"] = theirs(phoenix, trace_id, requests, given.rounds)
    report["ratios"] = {name: ratio(report["phoenix"], report["ours"], name) for name in KINDS}
    print(json.dumps(report) if given.json else "\n".join(lines(report)))
    return 0


def ratio(peer: Figures, own: Figures, name: str) -> float:
    return round(float(median(peer[name]) / median(own[name])), 1)


def installed(environment: Path) -> Path:
    """Return the command of Phoenix in an environment of its own, made when it is absent."""
    command = environment / "bin" / "phoenix"
    if not command.exists():
        venv.create(environment, with_pip=True, clear=True)
        install = [str(environment / "bin" / "python"), "-m", "pip", "install", "--quiet"]
        subprocess.run([*install, "--disable-pip-version-check", "-r", str(REQUIREMENTS)], check=True)
    return command


def ours(trace_id: str, requests: list[bytes], rounds: int) -> Figures:
    """Send the trace to our stack, fold and store it, and open its page."""
    with running_stack() as stack:
        from debugger.access import make_sign_in_link  # noqa: PLC0415 - Django is set up by then
        from debugger.tasks import store_timeline  # noqa: PLC0415
        from ingest.models import Project  # noqa: PLC0415
        from knowledge.tasks import fold_runs  # noqa: PLC0415
        from tests.factories import make_person  # noqa: PLC0415

        send(stack.traces_url(), requests, stack.headers)
        fold_runs(stack.project_id, [trace_id])
        if not store_timeline(stack.project_id, trace_id):
            raise RuntimeError("the timeline was not stored")
        person = make_person("bench", Project.objects.get(pk=stack.project_id))
        page = f"{stack.base_url}/bench/runs/{trace_id}/"
        return opened(page, "a.row", rounds, lambda: stack.base_url + make_sign_in_link(person))


def theirs(command: Path, trace_id: str, requests: list[bytes], rounds: int) -> Figures:
    """Send the trace to Phoenix, wait until it has all of it, and open its page."""
    with running_phoenix(command) as base_url:
        send(f"{base_url}/v1/traces", requests, {})
        project = await_spans(base_url, trace_id, len(requests))
        return opened(f"{base_url}/projects/{project}/traces/{trace_id}", f'text="{MODEL}"', rounds)


def send(url: str, requests: list[bytes], headers: Mapping[str, str]) -> None:
    for body in requests:
        with urllib.request.urlopen(urllib.request.Request(url, body, {**PROTOBUF, **headers})) as answer:
            answer.read()


@contextmanager
def running_phoenix(command: Path) -> Iterator[str]:
    """Run Phoenix in a folder thrown away afterwards; yield its address."""
    with tempfile.TemporaryDirectory(prefix="temporality-bench-") as name:
        folder, port = Path(name), free_port()
        told = {"WORKING_DIR": name, "HOST": "127.0.0.1", "PORT": str(port), "GRPC_PORT": str(free_port())}
        told |= {"TELEMETRY_ENABLED": "false", "ALLOW_EXTERNAL_RESOURCES": "false"}
        env = {name: value for name, value in os.environ.items() if name in ("PATH", "HOME", "LANG")}
        env |= {f"PHOENIX_{name}": value for name, value in told.items()}
        child = Child(Program("Phoenix", (str(command), "serve"), env, folder, grace=15.0), folder / "phoenix.log")
        try:
            base_url = f"http://127.0.0.1:{port}"
            wait_ready(child, lambda: page_problem(base_url, "/healthz"), READY_SECONDS)
            yield base_url
        finally:
            stop_all([child])


def await_spans(base_url: str, trace_id: str, n_requests: int) -> str:
    """Return the id of the project once the number of its spans has stood still."""
    query = json.dumps({"query": "{projects{edges{node{id name recordCount}}}}"}).encode()
    asked = urllib.request.Request(f"{base_url}/graphql", query, {"Content-Type": "application/json"})
    ends, before, since = time.monotonic() + STORED_SECONDS, 0, time.monotonic()
    while time.monotonic() < ends:
        with urllib.request.urlopen(asked) as answer:
            projects = [edge["node"] for edge in json.load(answer)["data"]["projects"]["edges"]]
        node = max(projects, key=lambda one: one["recordCount"])
        if node["recordCount"] != before:
            before, since = node["recordCount"], time.monotonic()
        elif before and time.monotonic() - since > 4 * QUIET_SECONDS:
            return str(node["id"])
        time.sleep(1)
    raise RuntimeError(f"Phoenix still takes in trace {trace_id} of {n_requests} requests: {before} spans")


def opened(address: str, row: str, rounds: int, sign_in: Any = None) -> Figures:
    """Open a page in a fresh context each time; return milliseconds to the first `row`, bytes, and heap."""
    figures: Figures = {name: [] for name in KINDS} | {"load_average": []}
    with sync_playwright() as playwright:
        chromium = playwright.chromium.launch(executable_path=shutil.which("chromium"), args=FLAGS)
        for _ in range(rounds):
            context = chromium.new_context(viewport={"width": 1280, "height": 860})
            page = context.new_page()
            if sign_in is not None:
                page.goto(sign_in(), wait_until="commit")  # cookies alone: what the list caches is measured again
                state = context.storage_state()
                context.close()
                context = chromium.new_context(viewport={"width": 1280, "height": 860}, storage_state=state)
                page = context.new_page()
            figures["load_average"].append(round(os.getloadavg()[0], 1))
            for name, value in _looked_at(page, address, row).items():
                figures[name].append(value)
            context.close()
        chromium.close()
    return figures


def _looked_at(page: Page, address: str, row: str) -> Figures:
    tools = page.context.new_cdp_session(page)
    tools.send("Network.enable")
    kinds: dict[str, str] = {}
    sizes: dict[str, int] = {}
    tools.on("Network.responseReceived", lambda told: kinds.update({told["requestId"]: told["type"]}))
    tools.on("Network.loadingFinished", lambda told: sizes.update({told["requestId"]: told["encodedDataLength"]}))
    begun = time.perf_counter()
    page.goto(address, wait_until="commit")
    page.locator(row).first.wait_for(timeout=ROW_SECONDS * 1000)
    first_row = (time.perf_counter() - begun) * 1000
    n_known = -1
    while n_known != len(sizes):
        n_known = len(sizes)
        page.wait_for_timeout(QUIET_SECONDS * 1000)
    data = sum(size for request, size in sizes.items() if kinds.get(request) not in ASSETS)
    try:
        heap = heap_kib(page)
    except Error:
        heap = 0
    return {"first_row_ms": round(first_row), "bytes": sum(sizes.values()), "data_bytes": data, "heap_kib": heap}


def lines(report: Figures) -> Iterator[str]:
    yield f"one trace of {report['spans']:,} spans, {report['sent_bytes']:,} bytes sent"
    for name in ("ours", "phoenix"):
        told = report[name]
        values = ", ".join(f"{kind} {median(told[kind]):,.0f} of {told[kind]}" for kind in KINDS)
        yield f"  {name:<8} {values}, load average {told['load_average']}"
    yield "  Phoenix / ours: " + ", ".join(f"{name} {value}" for name, value in report["ratios"].items())


if __name__ == "__main__":
    sys.exit(main())
