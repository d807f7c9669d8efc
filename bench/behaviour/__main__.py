"""`python -m bench.behaviour`: makes the runs of the behavioural benchmark and leaves its report.

The JSON goes to `VAR_DIR/experiments/` (or `--out`), the page that is committed to `--doc`. Ends with 1 when a check of
the scripted agent is missed.
"""

import argparse
import asyncio
import json
import os
import platform
import resource
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Final

from bench.behaviour.agents import Chooser, ChoosingDriver, HintFollower, LedDriver
from bench.behaviour.arms import ARMS, DEFAULT_ARMS
from bench.behaviour.plan import SWEPT, Budget, Planned, planned
from bench.behaviour.report import About, document
from bench.behaviour.rows import Row
from bench.behaviour.running import Made, make_runs
from bench.behaviour.stack import BenchError, World, embedded_world, running_world
from bench.behaviour.task import FITTING, Task
from bench.behaviour.tasks import TASKS
from bench.behaviour.trying import missing_tools
from bench.behaviour.words import markdown
from kernel.drivers import Driver

AGENTS: Final = {
    "scripted": "The scripted agent runs what a hint in its context names. It proves that the mechanism works: "
    "that the right "
    "hint is found by the error, placed, and reaches the agent in time. How much a real agent gains it does not show.",
    "choice_model": "A small language model (see versions) chooses among the task's commands by how much its "
    "context speaks "
    "for each. What is found holds for this model and this way to choose, and for no other.",
    "openai_chat": "A model behind an OpenAI-compatible endpoint (see versions) that is free after the first "
    "call. What is "
    "found holds for this model on these tasks.",
}
SWEEP_EVERY: Final = 4  # of the tasks of a kind one in so many
PACKAGES: Final = ("statsmodels", "numpy")


def main() -> int:
    """Run the benchmark and return the exit code."""
    options = _options()
    out = _place(options)
    tasks, left_out = _tasks(options.tasks)
    for tool, names in left_out.items():
        print(f"{tool} is not installed, so these tasks are left out: {', '.join(names)}", file=sys.stderr)
    try:
        driver, versions = _driver(options.agent, options.model)
        started = time.monotonic()
        rows, world = _rows(options, tasks, driver)
    except (BenchError, ImportError) as error:
        print(error, file=sys.stderr)
        return 2
    about = About(
        agent=options.agent,
        agent_note=AGENTS[options.agent],
        command=_command(),
        seeds=tuple(options.seeds),
        versions=versions | world.versions | _versions(),
        made_at=datetime.now(UTC).isoformat(timespec="seconds"),
        base_url=world.base_url if world.is_kept else "",
        seconds=time.monotonic() - started,
        cpu_seconds=_cpu_seconds(),
        load=os.getloadavg()[0],
        any_moment=options.any_moment,
    )
    report = document(about, rows)
    _write(report, out, options.doc, options.beside)
    return int(not all(check["met"] for check in report["checks"]))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m bench.behaviour", description=__doc__)
    parser.add_argument("--agent", choices=list(AGENTS), default="scripted")
    parser.add_argument("--model", default="", help="of an OpenAI-compatible endpoint")
    parser.add_argument("--arms", type=_names, default=DEFAULT_ARMS, help=f"of {', '.join(ARMS)}")
    parser.add_argument("--seeds", type=lambda text: [int(one) for one in text.split(",")], default=[1])
    parser.add_argument("--tasks", type=_names, default=(), help="names, apart by commas; all when absent")
    parser.add_argument("--parallel", type=int, default=2, help="runs at the same time")
    parser.add_argument("--sweep", action="store_true", help="try other budgets in the runtime arm as well")
    parser.add_argument("--any-moment", action="store_true", help="items about failures may be found when a run begins")
    parser.add_argument("--into", type=Path, help="up.json of a running stack, which keeps the runs")
    parser.add_argument("--out", type=Path, help="file of the report, JSON")
    parser.add_argument("--beside", type=Path, help="report made with --any-moment, told on the page as well")
    parser.add_argument("--doc", type=Path, help="file of the page, markdown")
    options = parser.parse_args()
    unknown = [arm for arm in options.arms if arm not in ARMS]
    if unknown:
        parser.error(f"there is no arm {unknown[0]!r}; there are: {', '.join(ARMS)}")
    return options


def _names(text: str) -> tuple[str, ...]:
    return tuple(name for name in text.split(",") if name)


def _tasks(names: Sequence[str]) -> tuple[list[Task], dict[str, list[str]]]:
    """Return the tasks that can be run, and by tool that is not there those that cannot."""
    known = {task.name: task for task in TASKS}
    unknown = [name for name in names if name not in known]
    if unknown:
        raise SystemExit(f"there is no task {unknown[0]!r}")
    wanted = [known[name] for name in names] if names else list(TASKS)
    left_out = missing_tools(wanted)
    without = {name for of_tool in left_out.values() for name in of_tool}
    return [task for task in wanted if task.name not in without], left_out


def _driver(agent: str, model: str) -> tuple[Driver, dict[str, str]]:
    """Return what drives the runs, and its versions. Raises ImportError or BenchError when it cannot be had."""
    candidates = {task.name: task.candidates for task in TASKS}
    if agent == "openai_chat":
        from kernel.drivers.openai_chat import OpenAIChatDriver  # noqa: PLC0415 - only this agent needs it

        url, key = os.environ.get("OPENAI_BASE_URL", ""), os.environ.get("OPENAI_API_KEY", "")
        if not (url or key) or not model:
            raise BenchError("openai_chat needs --model, and OPENAI_BASE_URL or OPENAI_API_KEY in the environment")
        return LedDriver(OpenAIChatDriver(url, key or "none"), candidates), {"model": model}
    chooser = _chooser(agent)
    return ChoosingDriver(chooser, candidates), dict(chooser.versions())


def _chooser(agent: str) -> Chooser:
    if agent == "scripted":
        return HintFollower()
    from kernel.drivers.choice_model import ChoiceModel  # noqa: PLC0415 - an optional extra

    return ChoiceModel()


def _rows(options: argparse.Namespace, tasks: Sequence[Task], driver: Driver) -> tuple[list[Row], World]:
    """Make all runs and return their rows, in the order of the plan."""
    batch = datetime.now(UTC).strftime("%m%d%H%M%S") if options.into else ""
    arms = [ARMS[name] for name in options.arms]
    runs = planned(tasks, arms, options.seeds, batch=batch, model=options.model)
    if options.sweep:
        budgets = [Budget(tokens, hints) for tokens, hints in SWEPT]
        some = [task for kind in FITTING for task in _every(tasks, kind)]
        runs += planned(some, [ARMS["runtime"]], options.seeds, budgets, batch=batch, model=options.model, part="sweep")
    opened = (
        running_world(options.into, tasks, any_moment=options.any_moment)
        if options.into
        else embedded_world(tasks, any_moment=options.any_moment)
    )
    with opened as world, tempfile.TemporaryDirectory(prefix="temporality-tasks-") as folder:
        from bench.behaviour.reading import read_rows  # noqa: PLC0415 - needs the settings

        made = asyncio.run(make_runs(world, driver, runs, Path(folder), options.parallel, _teller(len(runs))))
        return read_rows(world, made), world


def _every(tasks: Sequence[Task], kind: str) -> list[Task]:
    return [task for task in tasks if task.kind == kind][::SWEEP_EVERY]


def _teller(n_runs: int):  # type: ignore[no-untyped-def] # a closure
    """Return what tells on stderr, now and then, how many runs are made."""
    made: list[Planned] = []

    def tell(one: Made) -> None:
        made.append(one.planned)
        if len(made) % 50 == 0 or len(made) == n_runs:
            print(f"{len(made)} of {n_runs} runs", file=sys.stderr)

    return tell


def _versions() -> dict[str, str]:
    return {"python": platform.python_version(), **{name: version(name) for name in PACKAGES}}


def _cpu_seconds() -> float:
    """Return the processor time of this process and of all it started and waited for: tools, the embedded stack."""
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(one.ru_utime + one.ru_stime for one in used)


def _command() -> str:
    return " ".join(["python -m bench.behaviour", *sys.argv[1:]])


def _place(options: argparse.Namespace) -> Path:
    """Return where the JSON goes; asked before a stack is started, as that has a VAR_DIR of its own."""
    var_dir = options.into.parent if options.into else Path(os.environ.get("VAR_DIR", "var"))
    stamp = datetime.now(UTC).strftime("%Y%m%dT%H%M%SZ")
    named = var_dir / "experiments" / f"behaviour-{options.agent}-{stamp}.json"
    return Path(options.out or named).absolute()


def _write(report: dict[str, object], out: Path, doc: Path | None, beside: Path | None) -> None:
    """Write the JSON, whole or not at all, and the page."""
    out.parent.mkdir(parents=True, exist_ok=True)
    part = out.with_suffix(".part")
    part.write_text(json.dumps(report, indent=1))
    part.replace(out)
    print(f"report: {out}")
    if doc:
        doc.write_text(markdown(report, json.loads(beside.read_text()) if beside else None))
        print(f"page: {doc}")
    for check in report["checks"]:  # type: ignore[attr-defined] # a list of objects
        print(
            f"{'met   ' if check['met'] else 'MISSED'} {check['says']}: {check['value']:.3f}, wanted {check['wanted']}"
        )


if __name__ == "__main__":
    sys.exit(main())
