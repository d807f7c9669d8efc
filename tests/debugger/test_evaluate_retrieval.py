"""`manage.py evaluate_retrieval` from outside: it brings its own database and leaves nothing running or stored."""

import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import psycopg
import pytest

from debugger.embedded.stack import SOURCE
from tests.conftest import manage, own_environment

COMMAND = [sys.executable, str(SOURCE / "manage.py"), "evaluate_retrieval"]
PAIRS = Path(SOURCE) / "knowledge" / "evaluation" / "corpora" / "thefuck.pairs.jsonl"
QUICK = ("--sample", "6", "--versions", "fts.or", "fts.websearch")
COUNT = "SELECT (SELECT count(*) FROM ingest_project), (SELECT count(*) FROM knowledge_knowledgeitem)"


@pytest.fixture
def folder() -> Iterator[Path]:
    """A short-named place for temporary files of the command, so that what it leaves is seen."""
    with tempfile.TemporaryDirectory(prefix="ev-") as name:
        yield Path(name)


def environment(folder: Path, **more: str) -> dict[str, str]:
    (folder / "tmp").mkdir(exist_ok=True)
    return own_environment() | {"TMPDIR": str(folder / "tmp"), "VAR_DIR": str(folder / "var"), **more}


def run(folder: Path, *options: str, **more: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([*COMMAND, *options], env=environment(folder, **more), capture_output=True, text=True)


def running_in(folder: Path) -> list[str]:
    """Return the command lines of processes that name the folder."""
    lines = []
    for entry in Path("/proc").iterdir():
        if entry.name.isdigit() and int(entry.name) != os.getpid():
            try:
                lines.append((entry / "cmdline").read_bytes().decode(errors="replace"))
            except OSError:
                continue
    return [line for line in lines if str(folder) in line]


def left_in(folder: Path) -> list[str]:
    return sorted(path.name for path in (folder / "tmp").iterdir())


def test_it_brings_its_own_database(folder: Path) -> None:
    """Where nobody answers at DATABASE_URL: one JSON object as the last line, progress on stderr, nothing is left.

    The password of the address is not shown. Without DATABASE_URL it goes the same way, as the other tests do.
    """
    url = "postgresql://someone:pass-w0rd@127.0.0.1:1/nothing"
    options = (*QUICK, "--pairs", str(PAIRS), "--json", "--html", str(folder / "report.html"))
    done = run(folder, *options, DATABASE_URL=url)
    assert done.returncode == 0, done.stderr
    assert "pass-w0rd" not in done.stdout + done.stderr
    printed = json.loads(done.stdout.splitlines()[-1])
    assert set(printed["versions"]) == {"fts.or", "fts.websearch"}
    found = {"r_at_1_ungated", "right_passed", "false_injection", "near_miss_injection", "injection_all"}
    assert found <= set(printed["versions"]["fts.or"])
    assert (printed["counts"]["answerable"], printed["counts"]["held_out"], printed["counts"]["foreign"]) == (6, 6, 6)
    assert "starting a PostgreSQL of its own" in done.stderr
    assert "PostgreSQL" not in done.stdout.split("##")[0]
    assert "fts.websearch" in (folder / "report.html").read_text()
    assert left_in(folder) == []
    assert running_in(folder) == []


def test_what_the_model_is_missing_for_is_said(folder: Path) -> None:
    """With the model off, the version that needs it is not measured under its name, and the result says why."""
    done = run(folder, *QUICK[:2], "--versions", "hybrid.v3", "hybrid.v3-lexical", "--json", HINTS_EMBEDDINGS="0")
    assert done.returncode == 0, done.stderr
    printed = json.loads(done.stdout.splitlines()[-1])
    assert set(printed["versions"]) == {"hybrid.v3-lexical"}
    assert printed["not_measured"] == {"hybrid.v3": "HINTS_EMBEDDINGS is off"}
    assert "hybrid.v3 is not measured: HINTS_EMBEDDINGS is off" in done.stderr


def test_ctrl_c_puts_everything_away(folder: Path) -> None:
    """Interrupted while it asks, it ends with 130, says that nothing is kept, and leaves no process and no file."""
    with subprocess.Popen(
        [*COMMAND, "--corpus", "ruff", "--full", *QUICK[2:]],
        env=environment(folder),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    ) as process:
        assert process.stderr is not None
        for line in process.stderr:
            if "items are there" in line:
                break
        # Again until it ends: Python loses an interrupt that meets it in a finalizer.
        while process.poll() is None:
            process.send_signal(signal.SIGINT)
            with suppress(subprocess.TimeoutExpired):
                process.wait(5)
        rest = process.stderr.read()
        assert process.returncode == 130
    assert "nothing is kept" in rest
    assert "Traceback" not in rest
    assert left_in(folder) == []
    assert running_in(folder) == []


def test_a_database_of_ones_own_is_left_as_it_was(folder: Path, postgres_url: str) -> None:
    """At DATABASE_URL: no project and no item more than before, also when it is terminated half way."""
    name = "evaluated"
    with psycopg.connect(postgres_url, autocommit=True) as connection:
        connection.execute(f"CREATE DATABASE {name}")
    url = postgres_url.replace("/temporality?", f"/{name}?")
    try:
        manage(environment(folder, DATABASE_URL=url), "migrate", "-v0")
        manage(environment(folder, DATABASE_URL=url), "create_project", "alpha")
        with psycopg.connect(url) as connection:
            before = connection.execute(COUNT).fetchone()
            assert before == (1, 0)
        done = run(folder, *QUICK, DATABASE_URL=url)
        assert done.returncode == 0, done.stderr
        assert "never committed" in done.stderr
        with psycopg.connect(url) as connection:
            assert connection.execute(COUNT).fetchone() == before
        with subprocess.Popen(
            [*COMMAND, "--corpus", "ruff", *QUICK[2:]],
            env=environment(folder, DATABASE_URL=url),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
        ) as process:
            assert process.stderr is not None
            for line in process.stderr:
                if "items are there" in line:
                    process.send_signal(signal.SIGTERM)
                    break
            process.stderr.read()
            assert process.wait(60) == 130
        with psycopg.connect(url) as connection:
            assert connection.execute(COUNT).fetchone() == before
    finally:
        with psycopg.connect(postgres_url, autocommit=True) as connection:
            connection.execute(f"DROP DATABASE {name} WITH (FORCE)")


REFUSED = [
    (("--versions", "best.v9"), "best.v9 is not known; known are"),
    (("--corpus", "all", "--pairs", str(PAIRS)), "--pairs and --items are for one corpus"),
    (("--sample", "0"), "--sample must be 1 or more"),
    (("--sample", "6", "--full"), "--sample and --full say different things"),
    (("--store", "--corpus", "all", "--sample", "6"), "--store keeps a whole measurement only"),
    (("--store",), "--store keeps a whole measurement only"),
    (("--pairs", "absent.jsonl"), "absent.jsonl cannot be read"),
]


@pytest.mark.parametrize(("options", "problem"), REFUSED, ids=[" ".join(options)[:30] for options, _ in REFUSED])
def test_what_cannot_be_measured_is_refused(folder: Path, options: tuple[str, ...], problem: str) -> None:
    """Options that do not go together and files that are not there end in one line, before any database starts."""
    done = run(folder, *options)
    assert done.returncode == 1
    assert problem in done.stderr
    assert "starting" not in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == ""
    assert left_in(folder) == []


def test_a_bad_pairs_file_names_line_and_field(folder: Path) -> None:
    """A row without its command is refused by line and field; the text of the row is not repeated."""
    bad = folder / "bad.jsonl"
    bad.write_text(PAIRS.read_text().splitlines()[0] + '\n{"rule": "sudo", "output": "private words"}\n')
    done = run(folder, "--pairs", str(bad))
    assert done.returncode == 1
    assert f"{bad}:2: command is missing" in done.stderr
    assert "private words" not in done.stderr
    assert done.stdout == ""
