"""Starts one run from the command line: `python -m kernel.runtime.start --demo release-package --wait`."""

import argparse
import asyncio
import json
import sys
import time
from collections.abc import Sequence
from copy import deepcopy
from pathlib import Path
from typing import Any, Final

from temporalio.client import Client, WorkflowFailureError
from temporalio.common import WorkflowIDReusePolicy
from temporalio.exceptions import WorkflowAlreadyStartedError
from temporalio.service import RPCError

from contract.text import clip
from kernel.core.codec import CodecError, from_json
from kernel.drivers.scripted import DEMOS
from kernel.edge.spec import spec_problem
from kernel.messages import RunResult, RunSpec
from kernel.runtime.config import TemporalConfig, temporal_config
from kernel.runtime.leaving import leave


class StartError(Exception):
    """The run cannot be started; the text says why in one line."""


DEMO_RETRIEVAL_MS: Final = 10_000


def demo_spec(name: str, folder: Path = DEMOS) -> dict[str, Any]:
    """Return the spec of a demo file, without a run id. Raises StartError."""
    path = folder / f"{name}.json"
    try:
        spec: dict[str, Any] = json.loads(path.read_text())["spec"]
    except FileNotFoundError:
        names = ", ".join(sorted(file.stem for file in folder.glob("*.json")))
        raise StartError(f"there is no demo {name!r}; there are: {names}") from None
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise StartError(f"{path} is no demo file: {error!r}") from None
    members = {"members": [_patient(member) for member in spec["members"]]} if "members" in spec else {}
    return {"script": name, **_patient(spec), **members}


def _patient(spec: dict[str, Any]) -> dict[str, Any]:
    """Return the spec with more time for hints: a demo is looked at while everything beside it is still starting."""
    return {**spec, "limits": {"retrieval_timeout_ms": DEMO_RETRIEVAL_MS, **spec.get("limits", {})}}


def with_settings(spec: dict[str, Any], settings: Sequence[str]) -> dict[str, Any]:
    """Return the spec with each setting `PATH=VALUE` in its place, objects on the way made where there are none.

    A part of PATH is the name of a field or the number of a list's entry; VALUE is JSON, or a text where it is none.
    Raises StartError for a path that leads nowhere. Whether the kernel knows such a field, `checked` says.
    """
    changed: dict[str, Any] = deepcopy(spec)
    for setting in settings:
        path, equals, value = setting.partition("=")
        if not equals or not all(path.split(".")):
            raise StartError(f"--set {setting}: write it as PATH=VALUE, for example limits.max_turns=5")
        *way, last = path.split(".")
        place: Any = changed
        for part in way:
            place = _into(place, part, path)
        _put(place, last, _read(value), path)
    return changed


def _read(value: str) -> Any:
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        return value


def _into(place: Any, part: str, path: str) -> Any:
    if isinstance(place, dict):
        return place.setdefault(part, {})
    return place[_index(place, part, path)]


def _put(place: Any, part: str, value: Any, path: str) -> None:
    if isinstance(place, dict):
        place[part] = value
    else:
        place[_index(place, part, path)] = value


def _index(place: Any, part: str, path: str) -> int:
    """Return the number of a list's entry. Raises StartError when `place` is no list or has no such entry."""
    if not isinstance(place, list):
        held = clip(json.dumps(place), 80)
        raise StartError(f"--set {path}: there is no {part!r} to set, as what would hold it is {held}")
    if not part.isascii() or not part.isdigit() or int(part) >= len(place):
        raise StartError(f"--set {path}: {part!r} is no entry of a list of {len(place)}; entries count from 0")
    return int(part)


def checked(spec: dict[str, Any]) -> RunSpec:
    """Return the spec as the kernel reads it. Raises StartError, which names the field."""
    try:
        read = from_json(RunSpec, json.dumps(spec))
    except (CodecError, TypeError, ValueError) as error:
        raise StartError(f"the spec is no RunSpec: {error}") from None
    problem = spec_problem(read)
    if problem:
        raise StartError(f"the spec is refused: {problem}")
    return read


async def start_run(client: Client, config: TemporalConfig, spec: dict[str, Any], project: str = "") -> str:
    """Start a run of `spec` (fields of RunSpec) and return its id.

    `project` is the slug of the project whose people may answer and cancel it from its page; without one nobody can.

    Raises StartError when it exists already or is refused; a spec that is wrong never enters workflow history.
    """
    run_id = checked(spec).run_id
    try:
        await client.start_workflow(
            "AgentRun",
            {"spec": spec, "state": ""},
            id=run_id,
            task_queue=config.task_queue,
            id_reuse_policy=WorkflowIDReusePolicy.REJECT_DUPLICATE,
            memo={"project": project} if project else None,
        )
    except WorkflowAlreadyStartedError:
        raise StartError(f"a run {run_id} exists already: give another --run-id") from None
    except RPCError as error:
        raise StartError(f"Temporal refused the run: {error}") from None
    return run_id


async def main(arguments: list[str]) -> int:
    """Start the run that `arguments` describe; with --wait print how it ended. Return the exit code."""
    parser = argparse.ArgumentParser(prog="python -m kernel.runtime.start", description="Start one run.")
    what = parser.add_mutually_exclusive_group(required=True)
    what.add_argument("--demo", help="name of a demo task")
    what.add_argument("--spec", type=Path, help="file with the fields of a RunSpec as JSON")
    parser.add_argument("--run-id", help="id of the run; made from the name and the time when absent")
    parser.add_argument(
        "--set", action="append", default=[], metavar="PATH=VALUE", help="set a field of the spec: switches.shadow=true"
    )
    parser.add_argument("--project", default="", help="slug of the project whose people may answer and cancel the run")
    parser.add_argument("--wait", action="store_true", help="wait for the end and print it")
    options = parser.parse_args(arguments)
    config = temporal_config()
    try:
        spec = demo_spec(options.demo) if options.demo else dict(json.loads(options.spec.read_text()))
        spec = with_settings(spec, options.set)
        name = options.demo or options.spec.stem
        spec["run_id"] = options.run_id or spec.get("run_id") or f"{name}-{time.strftime('%Y%m%d-%H%M%S')}"
        client = await Client.connect(config.address, namespace=config.namespace)
        run_id = await start_run(client, config, spec, options.project)
        print(run_id, flush=True)
        if options.wait:
            result = await client.get_workflow_handle(run_id, result_type=RunResult).result()
            print(f"{result.status}: {result.answer or result.reason}")
            return 0 if result.status == "completed" else 1
    except (StartError, OSError, ValueError, RuntimeError, WorkflowFailureError) as error:
        print(f"{type(error).__name__}: {error}", file=sys.stderr)
        return 2
    return 0


if __name__ == "__main__":
    leave(asyncio.run(main(sys.argv[1:])))
