"""Measures finding hints over HTTP on projects of many items: `python -m bench.hints --items 1000 100000 1000000`.

For each size a stack of its own: one project of that many items and two of a tenth, answered by the real web server
while the queue folds what is reported. Beside it, in the same run, plain full-text search of the same rules. Vectors
are those of 2,000 embedded texts with noise. `--keep DIR` keeps the loaded data of each size for the next run.
"""

import argparse
import json
import os
import platform
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import psycopg

from bench.hints_asked import Failure, failures, plan
from bench.hints_stack import HintsStack, running_stack
from bench.process_figures import Watch
from bench.sending import percentiles, send

SEED = "hints 1"
SMALLER = 10  # each other project has one item where the measured one has this many
MARK = "loaded.json"
WARM_UP = 40
PARTS_ASKED = 150
RECALL_ASKED = 60

Figures = dict[str, Any]


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--items", type=int, nargs="+", default=[1_000, 100_000])
    arguments.add_argument("--requests", type=int, default=300, help="requests of one point")
    arguments.add_argument("--rounds", type=int, default=2)
    arguments.add_argument("--keep", type=Path, help="folder that keeps the loaded data, one folder a size")
    arguments.add_argument("--load-only", action="store_true", help="with --keep: load what a later run measures")
    arguments.add_argument("--json", action="store_true", help="print one JSON object a size instead of text")
    given = arguments.parse_args()
    if len(given.items) > 1:
        return _each_in_its_own_process(given.items)
    (n_items,) = given.items
    folder = given.keep / str(n_items) if given.keep else None
    if folder:
        folder.mkdir(parents=True, exist_ok=True)
    with running_stack(folder) as stack:
        report = {"items": n_items, "python": platform.python_version(), "cpus": os.cpu_count()}
        report |= loaded(stack, folder, n_items)
        if not given.load_only:
            report |= figures(stack, given.requests, given.rounds)
    told = lines(report) if given.load_only else chain(lines(report), figure_lines(report))
    print(json.dumps(report) if given.json else "\n".join(told), flush=True)
    return 0


def _each_in_its_own_process(sizes: Sequence[int]) -> int:
    """Run this program for each size: Django is set up for one database in the life of a process."""
    given = sys.argv[1:]
    place = given.index("--items")
    rest = given[:place] + given[place + 1 + len(sizes) :]
    commands = [[sys.executable, "-m", "bench.hints", *rest, "--items", str(size)] for size in sizes]
    return max(subprocess.run(command).returncode for command in commands)


def loaded(stack: HintsStack, folder: Path | None, n_items: int) -> Figures:
    """Have the items in the database, and return what loading took (now, or when it was done) and their sizes."""
    # Imported here: their models need the settings.
    from bench import hints_beside, hints_proof, hints_store  # noqa: PLC0415
    from bench.hints_items import source  # noqa: PLC0415
    from knowledge import embeddings  # noqa: PLC0415

    mark = folder / MARK if folder else None
    sizes = [n_items, *[max(1, n_items // SMALLER)] * (len(stack.project_ids) - 1)]
    with psycopg.connect(stack.dsn, autocommit=True) as connection:
        if mark is None or not mark.exists():
            projects = list(zip(stack.project_ids, sizes, strict=True))
            kept = folder.parent / "vectors" if folder else None
            vectors = hints_store.embedded(SEED, len(source().bases), embeddings.embed, kept)
            seconds = hints_store.fill(connection, SEED, projects, vectors)
            with hints_store.timed(seconds, "plain full-text search"):
                hints_beside.prepare(connection)
            with hints_store.timed(seconds, "proof"):
                for project_id in stack.project_ids:
                    hints_proof.check_counts(project_id)
            found = {"load_s": seconds}
            if mark:
                mark.write_text(json.dumps(found))
        else:
            found = {**json.loads(mark.read_text()), "kept": True}
        # Each time: what was kept may be of another version of the search.
        checked = [hints_proof.different_rows(project_id) for project_id in stack.project_ids]
        found["rows_differing"], found["rows_checked"] = (sum(column) for column in zip(*checked, strict=True))
        if found["rows_differing"] and "kept" not in found:
            raise RuntimeError(f"{found['rows_differing']} search rows are not what the write path writes")
        return {**found, "sizes": hints_store.sizes(connection, sum(sizes))}


def figures(stack: HintsStack, n_requests: int, rounds: int) -> Figures:
    """Return the figures of calls with meaning, then by words alone, then of their parts and what stands beside."""
    from bench import hints_beside, hints_parts  # noqa: PLC0415
    from ingest.models import Project  # noqa: PLC0415
    from knowledge.find_hints.v3 import legs  # noqa: PLC0415

    asked = failures()
    project = Project.objects.get(pk=stack.project_ids[0])
    found: Figures = {}
    for name, by_meaning in (("with meaning", True), ("by words alone", False)):
        found[name] = calls(stack, asked, n_requests, rounds, by_meaning=by_meaning)
    some = asked[-PARTS_ASKED:]
    for name, by_meaning in (("parts, with meaning", True), ("parts, by words alone", False)):
        found[name] = hints_parts.measured(project, some, f"{name} {time.time_ns()}", by_meaning=by_meaning)
    found["plain full-text search"] = hints_beside.measured(stack.dsn, project.pk, asked[:n_requests])
    counts = {pk: _n_items(stack, pk) for pk in stack.project_ids[:2]}
    found["recall"] = {
        f"{n:,} items": hints_parts.recall(pk, some[:RECALL_ASKED]) for pk, n in counts.items() if n > legs.EXACT_LIMIT
    }
    return {**found, "load_average": _load()}


def _n_items(stack: HintsStack, project_id: int) -> int:
    with psycopg.connect(stack.dsn) as connection:
        row = connection.execute(
            "SELECT n_items FROM knowledge_termcount WHERE project_id = %s AND term = ''", [project_id]
        ).fetchone()
    return int(row[0]) if row else 0


def calls(stack: HintsStack, asked: Sequence[Failure], n_requests: int, rounds: int, *, by_meaning: bool) -> Figures:
    """Return the time of the first call of a new server, of warm ones from one and two senders, and its memory."""
    url = stack.serve(embeddings=by_meaning)
    tag = f"bench {time.time_ns()}"
    before = stack.web_processes()
    first = send(url, stack.headers, plan(asked[:1], f"{tag} first", 1))
    send(url, stack.headers, plan([(command, f"{output} .") for command, output in asked[:WARM_UP]], f"{tag} warm", 2))
    points = []
    for number in range(2 * rounds):
        start = number * n_requests % len(asked)
        n_senders = number % 2 + 1
        chosen = (asked * 2)[start : start + n_requests]  # others each time: a server keeps vectors of what was asked
        points.append(_point(stack, url, plan(chosen, f"{tag} {number}", n_senders)))
        _tell(_point_line(points[-1]))
    after = stack.web_processes()
    return {
        "first_call_ms": round(max(first.latencies, default=0.0) * 1e3),
        "points": points,
        "web_mib_before": [(one.rss_mib, one.pss_mib) for one in before],
        "web_mib": [(one.rss_mib, one.pss_mib) for one in after],
    }


def _point(stack: HintsStack, url: str, bodies: Any) -> Figures:
    load = _load()
    with Watch(stack.roots()) as watch:
        sent = send(url, stack.headers, bodies)
    if sent.n_lost:
        raise RuntimeError(f"{sent.n_lost} requests were refused: {sent.refusals}")
    cpu = {part: round(seconds / sent.n_items * 1e3, 1) for part, seconds in watch.cpu_seconds.items()}
    return {"senders": len(bodies), "n": sent.n_items, **percentiles(sent.latencies), "load_average": load,
            "cpu_ms_each": {part: value for part, value in cpu.items() if value >= 0.1}}  # fmt: skip


def _tell(line: str) -> None:
    """Say at once what was measured: a whole run takes long."""
    print(line, file=sys.stderr, flush=True)


def _load() -> float:
    return round(os.getloadavg()[0], 1)


def lines(report: Figures) -> Iterator[str]:
    """Yield what was loaded as text."""
    yield f"{report['items']:,} items and two projects of a tenth; Python {report['python']}, {report['cpus']} cores"
    yield f"  load, s: {report['load_s']}{' (kept from then)' if report.get('kept') else ''}"
    yield f"  search rows other than the write path's: {report['rows_differing']} of {report['rows_checked']} looked at"
    yield f"  {report['sizes']['bytes_an_item']:,} bytes an item; MiB: {report['sizes']['MiB']}"


def figure_lines(report: Figures) -> Iterator[str]:
    """Yield what was measured as text."""
    for name in ("with meaning", "by words alone"):
        found = report[name]
        mib = f"{found['web_mib_before']} -> {found['web_mib']}"
        yield f"{name}: first call {found['first_call_ms']} ms; web MiB (RSS, PSS) {mib}"
        for one in found["points"]:
            yield _point_line(one)
    for name in ("parts, with meaning", "parts, by words alone"):
        yield f"{name}, in process:"
        for part, one in report[name].items():
            yield (
                f"  {part:24} work p50 {one['busy']['p50']:6.1f} p95 {one['busy']['p95']:6.1f} ms {one['share']:6.1%}"
                f"  by the clock p50 {one['p50']:6.1f} p95 {one['p95']:6.1f}  in {one['n']}"
            )
    beside = report["plain full-text search"]
    for name, one in beside.items():
        ratios = [min(point[part] for point in report["with meaning"]["points"]) / one[part] for part in ("p50", "p95")]
        yield (
            f"plain full-text search, {name}: ms p50 {one['p50']} p95 {one['p95']} p99 {one['p99']} ({one['n']} asked,"
            f" {one['refused']} refused); a call with meaning takes {ratios[0]:.2f} (p50), {ratios[1]:.2f} (p95) of it"
        )
    for name, one in report["recall"].items():
        yield f"ten nearest found by the approximate index, {name}: {one}"
    yield f"load average at the end {report['load_average']}"


def _point_line(one: Figures) -> str:
    return (
        f"  {one['senders']} senders, {one['n']} calls: ms p50 {one['p50']} p95 {one['p95']} p99 {one['p99']}"
        f"  CPU ms each {one['cpu_ms_each']}  load average {one['load_average']}"
    )


if __name__ == "__main__":
    sys.exit(main())
