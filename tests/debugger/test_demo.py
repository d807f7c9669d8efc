"""The demo's files are read as they are, and what a killed demo left switched off is switched on again."""

import json
from pathlib import Path

import pytest

from debugger.demo import PAUSED_MARK, Demo, read_demo_tasks
from debugger.launching import LaunchError, Runtime
from ingest.models import Project

NOWHERE = Runtime("127.0.0.1:1", "default", "queue")


def write(folder: Path, name: str, document: object) -> None:
    (folder / name).write_text(json.dumps(document))


def test_demo_files_are_read_in_order_with_their_script(tmp_path: Path) -> None:
    """A file gives a spec; the script is the one it names, or its own."""
    write(tmp_path, "b_second.json", {"spec": {"task": "two", "script": "other"}, "pause_hints": True})
    write(tmp_path, "a_first.json", {"title": "First", "spec": {"task": "one"}})
    first, second = read_demo_tasks(tmp_path)
    assert (first.name, first.title, first.pause_hints) == ("a-first", "First", False)
    assert first.spec == {"task": "one", "script": "a_first"}
    assert (second.name, second.spec["script"], second.pause_hints) == ("b-second", "other", True)


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
