"""`manage.py start_run`: settings given on the command line, and waiting for the end with a code that tells it."""

import asyncio
import io
import json
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from temporalio.client import Client

from debugger.launching import find_run
from debugger.run_bases import FREE
from debugger.run_overrides import SETTABLE, SettingError, with_settings
from debugger.run_settings import BUDGETS, MOST
from debugger.views.run_form import RunForm, initial_of
from kernel.testing import MemoryEdges, ScriptedModel, call
from tests.factories import make_project
from tests.kernel_worker import KernelWorker, kernel_worker

SPEC: dict[str, Any] = {
    "task": "Release it",
    "limits": {"max_turns": 5, "run_ms": 9_000},
    "switches": {"off": ["my.trigger", "tool.failed"]},
}


def test_settings_of_the_command_line_replace_those_of_the_spec() -> None:
    """Only what is named changes; of a name given twice the last counts; the given spec itself stays."""
    given = ["max_turns=3", "max_turns=7", "shadow=on", "triggers=tool.failed", "holdout_salt=s1", "holdout_share=0.5"]
    given += ["holdout_experiment=spring"]
    assert with_settings(SPEC, [*given, "locale=ru"]) == {
        "task": "Release it",
        "limits": {"max_turns": 7, "run_ms": 9_000},
        "switches": {"off": ["my.trigger", "task.priming", "mcp.first_call"], "shadow": True},
        "holdout": {"share": 0.5, "salt": "s1", "experiment": "spring"},
        "locale": "ru",
    }
    assert SPEC["limits"]["max_turns"] == 5 and "holdout" not in SPEC
    assert with_settings(SPEC, []) == SPEC


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ("max_turns=0", "max_turns must be a whole number from 1 to 1000000000"),
        ("max_turns=-1", "max_turns must be"),
        ("max_turns=1e3", "max_turns must be"),
        ("max_turns=²", "max_turns must be"),
        (f"run_tokens={MOST + 1}", "run_tokens must be a whole number from 0 to"),
        ("max_turns", "'max_turns' is no setting: give name=value"),
        ("task=x", f"'task' is no setting: give name=value with one of {', '.join(SETTABLE)}"),
        ("shadow=maybe", "shadow must be one of on, true, off, false"),
        ("triggers=tool.failed,x", "triggers must be names of task.priming, tool.failed, mcp.first_call"),
        ("holdout_share=1.1", "holdout_share must be a number from 0 to 1"),
        ("holdout_share=nan", "holdout_share must be"),
        ("holdout_share=0.5", "holdout_salt is empty"),
        ("holdout_salt=a\nb", "holdout_salt must be a printable text of at most 200"),
        ("locale=xx", "locale is not known: use one of en, zh, ru"),
        (f"model={'m' * 201}", "model must be a printable text"),
    ],
)
def test_a_setting_that_cannot_be_is_named_with_its_bounds(given: str, said: str) -> None:
    """The message has the setting, what it may be, and nothing is made of it."""
    with pytest.raises(SettingError, match=said.replace("(", r"\(")):
        with_settings(SPEC, [given])


@pytest.mark.django_db
@pytest.mark.parametrize("name", sorted(BUDGETS))
def test_command_and_form_take_the_same_limits(name: str) -> None:
    """At its bounds and beyond them a limit is taken or refused by both, and means the same."""
    for value in (BUDGETS[name].least - 1, BUDGETS[name].least, MOST, MOST + 1):
        form = RunForm(FREE, {**initial_of(FREE), f"limit_{name}": str(value)})
        form.is_valid()
        taken = f"limit_{name}" not in form.errors
        try:
            assert with_settings({}, [f"{name}={value}"])["limits"] == {name: form.cleaned_data[f"limit_{name}"]}
        except SettingError:
            assert not taken
        else:
            assert taken


@pytest.fixture
def kernel(db: None, temporal_address: str, settings: Any, tmp_path: Path) -> Iterator[KernelWorker]:
    """A worker that executes what the command starts for the project."""
    make_project("alpha")
    settings.TEMPORAL_ADDRESS, settings.VAR_DIR = temporal_address, tmp_path
    with kernel_worker(temporal_address, MemoryEdges(ScriptedModel("done"), {})) as worker:
        settings.TEMPORAL_TASK_QUEUE = worker.runtime.task_queue
        yield worker


def start(tmp_path: Path, *arguments: str) -> tuple[str, str, int]:
    """Return what the command printed last, the id of its run, and the code it ends with."""
    path, run_id = tmp_path / "spec.json", f"run-{uuid.uuid4().hex}"
    path.write_text(json.dumps({**SPEC, "switches": {"activation": False}, "tools": []}))
    out, code = io.StringIO(), 0
    given = ["--spec", str(path), "--project", "alpha", "--run-id", run_id, *arguments]
    try:
        call_command("start_run", *given, stdout=out)
    except SystemExit as ended:
        code = int(ended.code or 0)
    except CommandError as error:
        return str(error), run_id, error.returncode
    return out.getvalue().split()[-1], run_id, code


def test_waiting_tells_how_the_run_ended(kernel: KernelWorker, tmp_path: Path) -> None:
    """An answer is 0; a run that spent its limit says so, by its own code; the runtime got what was set."""
    kernel.replies("done")
    word, run_id, code = start(tmp_path, "--wait", "--set", "max_turns=4")
    assert (word, code) == ("completed", 0)
    assert asyncio.run(limits_of(kernel.runtime.address, run_id)) == {"max_turns": 4, "run_ms": 9_000}
    kernel.replies([call("shell")], "all I know")
    assert start(tmp_path, "--wait", "--set", "max_turns=1")[::2] == ("limit_reached", 6)


def test_a_run_that_goes_on_is_told_and_left(kernel: KernelWorker, settings: Any, tmp_path: Path) -> None:
    """Nobody executes it: the wait ends, the run does not."""
    settings.TEMPORAL_TASK_QUEUE = f"queue-{uuid.uuid4().hex}"
    said, run_id, code = start(tmp_path, "--wait", "0.2")
    assert code == 7 and said.endswith("it goes on")
    found = find_run(kernel.runtime, run_id)
    assert found is not None and not found.is_over


def test_a_refused_setting_starts_nothing(kernel: KernelWorker, tmp_path: Path) -> None:
    """The runtime never hears of a run whose settings cannot be."""
    said, run_id, code = start(tmp_path, "--set", "max_turns=0")
    assert code == 1 and "max_turns" in said
    assert find_run(kernel.runtime, run_id) is None


async def limits_of(address: str, run_id: str) -> dict[str, Any]:
    """Return the limits that the runtime was given."""
    client = await Client.connect(address)
    begun = (
        (await client.get_workflow_handle(run_id).fetch_history()).events[0].workflow_execution_started_event_attributes
    )
    return dict(json.loads(begun.input.payloads[0].data)["spec"]["limits"])
