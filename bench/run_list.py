"""Measures the list of runs: `python -m bench.run_list --runs 100000`.

The runs stand beside those of another project, written as derived rows into a PostgreSQL of their own. The page is
asked for in this process by Django's client, so a time is that of the server with its queries, without the network.
Each filter is tried with a common word, a rare one, one that only old runs have and one that no run has, alone and in
pairs, on the first page and on a page far behind. `work` is processor time, which tells the same on a busy machine.
"""

import argparse
import json
import logging
import os
import re
import statistics
import time
from collections.abc import Iterator
from itertools import combinations
from typing import Any, Final
from urllib.parse import unquote, urlencode

import django

from debugger.embedded.scratch import scratch_postgres

LIMIT_MS: Final = 150
ROUNDS: Final = 5
PAGES_ON: Final = 20  # pages before the one that counts as deep
# filter -> its words: common, rare, of old runs only, and of none
WORDS: Final = {
    "status": ("completed", "escalated", "running"),
    "waiting": ("person", "approval", "question", "escalation"),
    "trigger": ("task.priming", "budget.low", "never.fired"),
    "tool": ("tool-1", "tool-79", "no-such-tool"),
    "mcp_server": ("server-1", "server-15", "no-such-server"),
    "drop_reason": ("hint_limit", "run_ended", "estimate_failed"),
    "knowledge_id": ("item-1", "item-1999", "no-such-item"),
    "outcome": ("helpful", "harmful"),
    "arm": ("withheld",),
    "experiment": ("exp-1", "no-such-experiment"),
    "version": ("hybrid.v3", "lexical-entity-topic.v2"),
    "search_tool": ("tool-1", "tool-79", "no-such-tool"),
    "search_server": ("server-1", "server-15", "no-such-server"),
    "agent": ("agent-1", "agent-29", "agent-old", "no-such-agent"),
    "conversation": ("talk-7", "no-such-talk"),
    "text": ("parser package", "kraftwerk", "before the move", "no such text", "ba", "qz", "e"),
    "has_injection": ("true", "false"),
    "since": ("2026-11-29T00:00:00Z", "2026-09-10T00:00:00Z"),
    "until": ("2026-09-05T00:00:00Z",),
}

Figures = dict[str, Any]


def main() -> int:
    arguments = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    arguments.add_argument("--runs", type=int, default=100_000)
    arguments.add_argument("--beside", type=int, default=20_000, help="runs of another project")
    arguments.add_argument("--rounds", type=int, default=ROUNDS, help="requests of each page, after one to warm up")
    arguments.add_argument("--only", help="a filter; only what has it is measured")
    arguments.add_argument("--json", action="store_true", help="print JSON instead of text")
    given = arguments.parse_args()
    with scratch_postgres() as address:
        os.environ |= {"DATABASE_URL": address, "ALLOWED_HOSTS": "127.0.0.1,testserver", "TEMPORALITY_ENV": "local"}
        os.environ |= {"INGEST_EVENTS_PER_MINUTE": "0", "DJANGO_SETTINGS_MODULE": "debugger.settings"}
        django.setup()
        logging.disable(logging.WARNING)
        try:
            person, report = loaded(given.runs, given.beside)
            report["pages"] = measured(person, given.rounds, given.only)
        finally:
            from django.db import connections  # noqa: PLC0415 - Django is set up by then

            connections.close_all()
    print(json.dumps(report) if given.json else "\n".join(lines(report)), flush=True)
    return 0


def loaded(n_runs: int, n_beside: int) -> tuple[Any, Figures]:
    """Write the runs of both projects; return a member of the first, and what that took in seconds."""
    from django.contrib.postgres.indexes import GinIndex  # noqa: PLC0415 - needs the settings
    from django.core.management import call_command  # noqa: PLC0415
    from django.db import connection  # noqa: PLC0415

    from bench.run_list_rows import copy_runs, make_runs  # noqa: PLC0415
    from knowledge.models import RunSummary  # noqa: PLC0415
    from tests.factories import make_person, make_project  # noqa: PLC0415

    call_command("migrate", verbosity=0)
    begun = time.perf_counter()
    project = make_project("bench")
    person = make_person("bench", project)
    word_indexes = [index for index in RunSummary._meta.indexes if isinstance(index, GinIndex)]
    with connection.cursor() as cursor:
        for index in word_indexes:  # made at the end, or each row would be entered some hundred times
            cursor.execute(f"DROP INDEX {index.name}")
        copy_runs(cursor.cursor, project.pk, make_runs(n_runs, "main"))
        copy_runs(cursor.cursor, make_project("beside").pk, make_runs(n_beside, "side"))
        with connection.schema_editor() as editor:
            for index in word_indexes:
                editor.add_index(RunSummary, index)
        cursor.execute("VACUUM ANALYZE")
        cursor.execute("SELECT pg_total_relation_size('knowledge_runsummary')")
        (size,) = cursor.fetchone()
    took = round(time.perf_counter() - begun, 1)
    return person, {
        "runs": n_runs,
        "beside": n_beside,
        "load_s": took,
        "summary_bytes_a_run": size // (n_runs + n_beside),
    }


def measured(person: Any, rounds: int, only: str | None) -> list[Figures]:
    """Return what each page costs, the first one without a filter."""
    from django.test import Client  # noqa: PLC0415 - needs the settings

    client = Client()
    client.force_login(person)
    pages = []
    for asked in addresses():
        if only and only not in asked:
            continue
        pages.append({"asked": asked, **page(client, f"/bench/runs/?{urlencode(asked)}", rounds)})
    deep = [one for one in pages if one["next"] and len(one["asked"]) < 2]  # noqa: PLR2004 - one filter or none
    return pages + [far(client, one["asked"], rounds) for one in deep]


def addresses() -> Iterator[dict[str, str]]:
    """Yield what is asked: nothing, each word of each filter, and each pair of filters with their words in turn."""
    yield {}
    for name, words in WORDS.items():
        yield from ({name: word} for word in words)
    for number, (one, other) in enumerate(combinations(WORDS, 2)):
        first, second = WORDS[one], WORDS[other]
        yield {one: first[0], other: second[0]}
        yield {one: first[number % len(first)], other: second[-1 - number % len(second)]}


def far(client: Any, asked: dict[str, str], rounds: int) -> Figures:
    """Return what the page costs that is PAGES_ON pages behind the first, or the last but one before it."""
    cursor = ""
    for _ in range(PAGES_ON):
        following = next_cursor(client.get(f"/bench/runs/?{urlencode({**asked, 'cursor': cursor})}"))
        if not following:
            break
        cursor = following
    address = f"/bench/runs/?{urlencode({**asked, 'cursor': cursor})}"
    return {"asked": {**asked, "cursor": "far"}, **page(client, address, rounds)}


def next_cursor(response: Any) -> str | None:
    """Return the cursor of the page's link to the next one."""
    found = re.search(r'cursor=([^"&]+)">Older', response.content.decode())
    return unquote(found[1]) if found else None


def page(client: Any, address: str, rounds: int) -> Figures:
    """Return the median and the worst time of a page, its rows and its queries."""
    from django.db import connection  # noqa: PLC0415 - needs the settings
    from django.test.utils import CaptureQueriesContext  # noqa: PLC0415

    from bench.timeline import _work  # noqa: PLC0415

    with CaptureQueriesContext(connection) as queries:
        response = client.get(address, headers={"HX-Request": "true"})
        n_queries = len(queries)
    if response.status_code != 200:  # noqa: PLR2004
        raise RuntimeError(f"{address} answered {response.status_code}")
    counted = re.search(r'id="run-count"[^>]*>([^<]+)', response.content.decode())
    times = []
    worked = _work()
    for _ in range(rounds):
        begun = time.perf_counter()
        client.get(address, headers={"HX-Request": "true"})
        times.append((time.perf_counter() - begun) * 1000)
    return {
        "ms": round(statistics.median(times), 1), "worst_ms": round(max(times), 1),
        "work_ms": round((_work() - worked) * 1000 / rounds, 1), "shown": counted[1] if counted else "",
        "next": next_cursor(response), "queries": n_queries,
    }  # fmt: skip


def lines(report: Figures) -> Iterator[str]:
    """Return the report as text, the slowest pages first, and the ratio of each to the limit."""
    pages = sorted(report["pages"], key=lambda one: -one["ms"])
    told = ", ".join(f"{name} {value}" for name, value in report.items() if name != "pages")
    yield f"{told}; {os.cpu_count()} processors, load average {os.getloadavg()[0]:.1f}"
    times = sorted(one["ms"] for one in pages)
    over = [one for one in pages if one["ms"] > LIMIT_MS]
    yield (
        f"{len(pages)} pages: median {statistics.median(times):.1f} ms, slowest {times[-1]:.1f} ms"
        f" ({times[-1] / LIMIT_MS:.2f} of the {LIMIT_MS} ms limit); over the limit {len(over)}"
    )
    for one in pages:
        asked = " ".join(f"{name}={value}" for name, value in one["asked"].items()) or "(no filter)"
        yield (
            f"  {one['ms']:>7.1f} ms ({one['ms'] / LIMIT_MS:.2f} of the limit; worst {one['worst_ms']:.1f}, work"
            f" {one['work_ms']:.1f}) {one['queries']} queries  {asked}: {one['shown']}"
        )


if __name__ == "__main__":
    raise SystemExit(main())
