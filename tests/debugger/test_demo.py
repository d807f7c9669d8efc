"""The demo's files are read as they are, and what a killed demo left switched off is switched on again."""

import json
import re
import uuid
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import psycopg
import pytest

from debugger.demo import DEMO_FILES, PAUSED_MARK, RUNS_NOW, Demo, read_demo_tasks
from debugger.demo_conversation import add_records
from debugger.kernel_client import Answer, RunAddress, answer, look
from debugger.launching import LaunchError, Runtime, wait_for_run
from ingest.models import Project, Run
from tests.conftest import RunningStack

NOWHERE = Runtime("127.0.0.1:1", "default", "queue")


def write(folder: Path, name: str, document: object) -> None:
    (folder / name).write_text(json.dumps(document))


def test_demo_files_are_read_in_order_with_their_script(tmp_path: Path) -> None:
    """A file gives a spec; the script is the one it names, or its own."""
    write(tmp_path, "b_second.json", {"spec": {"task": "two", "script": "other"}, "pause_hints": True, "waits": True})
    write(tmp_path, "a_first.json", {"title": "First", "spec": {"task": "one"}})
    first, second = read_demo_tasks(tmp_path)
    assert (first.name, first.title, first.pause_hints, first.waits) == ("a-first", "First", False, False)
    assert first.spec == {"task": "one", "script": "a_first"}
    assert (second.name, second.spec["script"]) == ("b-second", "other")
    assert (second.pause_hints, second.waits) == (True, True)


@pytest.mark.parametrize("text", ["{", "[]", '{"task": "no spec"}', '{"spec": 7}'])
def test_a_file_that_is_no_demo_is_named(tmp_path: Path, text: str) -> None:
    """A broken file is refused by its name."""
    (tmp_path / "broken.json").write_text(text)
    with pytest.raises(LaunchError, match="broken.json is no demo file"):
        read_demo_tasks(tmp_path)


def demo_of(project: str, var_dir: Path, told: list[str]) -> Demo:
    return Demo(NOWHERE, project, "http://127.0.0.1:1", told.append, var_dir)


@pytest.mark.django_db
def test_what_a_killed_demo_left_off_is_switched_on(tmp_path: Path) -> None:
    """The mark of an unfinished demo run restores Observation, once."""
    project = Project.objects.create(slug="demo", name="Demo", hints_paused=True)
    (tmp_path / PAUSED_MARK).touch()
    demo_of("demo", tmp_path, []).restore_hints()
    project.refresh_from_db()
    assert not project.hints_paused
    assert list(tmp_path.iterdir()) == []


@pytest.mark.django_db
def test_what_a_person_switched_off_stays_off(tmp_path: Path) -> None:
    """Without the mark the switch is somebody's own decision."""
    project = Project.objects.create(slug="demo", name="Demo", hints_paused=True)
    demo_of("demo", tmp_path, []).restore_hints()
    project.refresh_from_db()
    assert project.hints_paused


def known(project: Project, run_id: str) -> None:
    """The journal has the run, as it has in a stack once the run reported its start."""
    now = datetime.now(UTC)
    Run.objects.create(project=project, run_id=run_id, run_day=now.date(), first_received_at=now, last_received_at=now)


@pytest.mark.stack
@pytest.mark.django_db(transaction=True)
def test_a_run_that_waits_is_told_and_not_started_twice(stack: RunningStack, tmp_path: Path) -> None:
    """The demo ends without the person; while the run waits it is told again and another is never started."""
    project = Project.objects.create(slug=stack.project, name="Demo")
    name, told = f"ask-{uuid.uuid4().hex[:8]}", list[str]()
    spec = {"task": "Tag it", "script": "ask-first", "tools": ["ask_human"]}
    write(tmp_path, f"{name}.json", {"spec": spec, "waits": True})
    first, second = (RunAddress(stack.project, f"{name}-{number}") for number in (1, 2))

    def run(again: bool) -> list[str]:
        told.clear()
        Demo(stack.runtime(), stack.project, "http://here", told.append, tmp_path, tmp_path).run(again=again)
        return [line for line in told if not line.startswith(RUNS_NOW)]

    waits = f"{first.run_id} waits for you: http://here/{stack.project}/runs/{first.run_id}/"
    finished = f"demo finished: http://here/{stack.project}/runs/"
    assert run(again=False) == [waits, finished]
    known(project, first.run_id)
    assert run(again=False) == [waits]
    assert run(again=True) == [waits]
    [ask] = look(stack.runtime(), first).asks
    answer(stack.runtime(), first, ask.key, Answer("question", "ada", "not now"))
    assert wait_for_run(stack.runtime(), first.run_id, 60) == "completed"
    assert run(again=False) == []
    assert run(again=True) == [waits.replace(first.run_id, second.run_id), finished]
    [ask] = look(stack.runtime(), second).asks
    answer(stack.runtime(), second, ask.key, Answer("question", "ada", "not now"))
    assert wait_for_run(stack.runtime(), second.run_id, 60) == "completed"


@pytest.mark.stack
@pytest.mark.django_db(transaction=True)
def test_a_demo_whose_project_was_made_anew_runs_again(stack: RunningStack, tmp_path: Path) -> None:
    """Run ids that Temporal remembers of an earlier project, or of a run that was deleted, are not used again."""
    project = Project.objects.create(slug=stack.project, name="Demo")
    name, told = f"ask-{uuid.uuid4().hex[:8]}", list[str]()
    spec = {"task": "Tag it", "script": "ask-first", "tools": ["ask_human"]}
    write(tmp_path, f"{name}.json", {"spec": spec, "waits": True})

    def run() -> RunAddress:
        told.clear()
        Demo(stack.runtime(), stack.project, "http://here", told.append, tmp_path, tmp_path).run()
        [waits] = [line for line in told if " waits for you" in line]
        assert waits is told[0] or told[0].startswith(RUNS_NOW)
        return RunAddress(stack.project, waits.partition(" waits for you")[0])

    def end(waiting: RunAddress) -> None:
        [ask] = look(stack.runtime(), waiting).asks
        answer(stack.runtime(), waiting, ask.key, Answer("question", "ada", "not now"))
        assert wait_for_run(stack.runtime(), waiting.run_id, 60) == "completed"

    first = run()
    assert (first.run_id, run()) == (f"{name}-1", first)
    project.delete()
    Project.objects.create(slug=stack.project, name="Demo")
    second = run()
    assert second.run_id == f"{name}-2"
    end(second)
    third = run()
    assert third.run_id == f"{name}-3"
    end(first)
    end(third)


@pytest.mark.parametrize("turns", ["{}", "[7]", '[{"task": "no conversation"}]', '[{"conversation": {}}]'])
def test_turns_that_are_none_are_named(tmp_path: Path, turns: str) -> None:
    """A conversation whose turns cannot be read is refused by its file's name."""
    (tmp_path / "talk.json").write_text(f'{{"spec": {{"task": "one"}}, "turns": {turns}}}')
    with pytest.raises(LaunchError, match="talk.json is no demo file"):
        read_demo_tasks(tmp_path)


@pytest.mark.stack
def test_what_cannot_be_told_says_why(stack: RunningStack) -> None:
    """The command's own reason, and nothing of what was to be told."""
    with pytest.raises(LaunchError, match="talk could not be told: nothing was written: line 1: .*one key"):
        add_records(stack.database_url, "talk", [{"secret": "words"}], "")


@pytest.mark.stack
@pytest.mark.django_db(transaction=True)
def test_a_conversation_is_a_run_a_turn(stack: RunningStack, tmp_path: Path) -> None:
    """Two answers were cut and a day went by: each request says what was heard of the answer before, quotes no more of
    it, and holds the whole of it in the history, without the label it had copied."""
    Project.objects.create(slug=stack.project, name="Demo")
    name, told = f"talk-{uuid.uuid4().hex[:8]}", list[str]()
    document = json.loads((DEMO_FILES / "conversation.json").read_text())
    write(tmp_path, f"{name}.json", {**document, "spec": {**document["spec"], "script": "conversation"}})
    demo = Demo(stack.runtime(), stack.project, "http://h", told.append, tmp_path, tmp_path, stack.database_url)
    demo.run()
    runs = [f"{name}-{number}" for number in (1, 2, 3)]
    assert [line.split(":")[0] for line in told[1:4]] == [f"{run_id} completed" for run_id in runs]
    first, second, third = (stack_request(stack, run_id) for run_id in runs)
    assert "Good evening, Ada." in first and "note-1" not in first and "by Friday" not in first
    assert "2026-09-24T21:08" not in first
    assert "Previous answer" not in first
    assert "heard only “The build took nine minutes, two tests of the parser”" in second
    assert "Its notes still lack the part about dates." in second
    assert "cut before the user heard any word of it" in third
    assert "They compared dates as texts." in third
    assert "since the last exchange" not in second
    assert "[Thursday, 24 September]" in third
    assert re.search(r"2026-09-25 08:30 \+02:00 Friday, 11 h 1\d min since the last exchange", third)
    cuts = [event["data"] for run_id in runs for event in events_of(stack, run_id) if event["type"] == "answer.cut"]
    assert [(cut["heard"], cut["record_id"]) for cut in cuts] == [
        ("prefix", f"{runs[0]}:answer"),
        ("nothing", f"{runs[1]}:answer"),
    ]
    [ended] = [event for event in events_of(stack, runs[2]) if event["type"] == "run.completed"]
    assert ended["data"]["answer"].endswith("on Friday, and that is today.")


def events_of(stack: RunningStack, run_id: str) -> list[dict[str, Any]]:
    """Return what a run reported."""
    return list(stack.get(f"/v1/runs/{run_id}/events").json().get("results", []))


def stack_request(stack: RunningStack, run_id: str) -> str:
    """Return the texts that stood in a run's transcript, one after the other, as far as its first reply."""
    query = "SELECT message FROM kernel.message WHERE run_id = %s ORDER BY seq"
    with psycopg.connect(stack.database_url) as connection:
        messages = [json.loads(row[0]) for row in connection.execute(query, [run_id])]
    [said] = [place for place, message in enumerate(messages) if message["origin"] == "utterance"]
    return "\n".join(str(message["text"]) for message in messages[: said + 1])
