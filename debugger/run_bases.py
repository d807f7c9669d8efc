"""Finds what a new run can be started from: the scenarios of the kernel's demo files, and a project's earlier runs."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from debugger.access import GuardedRun
from debugger.demo import DemoTask, read_demo_tasks
from debugger.kernel_client import NoAnswer, NotDrivenHere, RunAddress
from debugger.launching import Runtime
from debugger.run_settings import Base, name_of, spec_of_report
from debugger.run_starts import started_spec
from ingest.models import Event

FREE: Final = Base("free", "", "run", {})
AS_TOLD: Final = (
    "What is known of it is what it reported: its task, perhaps shortened, driver, model, limits, switches and tools. "
    "Its rules, setup command, MCP servers, members, grants and holdout are not known, and this run goes without them."
)
NOT_TOLD: Final = "It did not report how it was started: this form begins with its task alone, as far as that is known."


@dataclass(frozen=True, slots=True)
class Scenario:
    """A demo file as the page offers it; `remark` says what is different when it is started from here."""

    name: str
    title: str
    spec: Mapping[str, Any]
    remark: str = ""


def scenarios() -> list[Scenario]:
    """Return the demo files that are one run each. Raises LaunchError naming the file that cannot be used."""
    return [Scenario(task.name, task.title, task.spec, _remark(task)) for task in read_demo_tasks() if not task.turns]


def _remark(task: DemoTask) -> str:
    if task.waits:
        return "It waits for a person on its page."
    return "Nobody switches Observation off on its way when it is started from here." if task.pause_hints else ""


def scenario_base(scenario: Scenario) -> Base:
    return Base("scenario", scenario.name, scenario.name, scenario.spec)


def earlier_base(runtime: Runtime, run: GuardedRun) -> Base:
    """Return what a run can be started again from: its spec as Temporal keeps it, else what it reported.

    Raises NoAnswer when Temporal does not answer: what a run reported is the lesser answer, to be given only for sure.
    """
    run_id = run.registry.run_id
    try:
        spec, unknown = started_spec(runtime, RunAddress(run.project.slug, run_id)), ""
    except NotDrivenHere:
        spec, unknown = _reported(run)
    return Base("again", run_id, name_of(run_id), spec, unknown)


def reported_base(run: GuardedRun, error: NoAnswer) -> Base:
    """Return a base for looking at only: what the run reported, while Temporal is away."""
    spec, unknown = _reported(run)
    return Base("again", run.registry.run_id, name_of(run.registry.run_id), spec, f"{error}. {unknown}")


def _reported(run: GuardedRun) -> tuple[dict[str, Any], str]:
    registry = run.registry
    events = Event.objects.filter(project_id=run.project.pk, run_day=registry.run_day, run_id=registry.run_id)
    started = events.filter(type="run.started").order_by("arrival").first()
    if started is None:
        return ({"task": run.summary.task} if run.summary else {}), NOT_TOLD
    return spec_of_report(started.data), AS_TOLD
