"""The arms of the benchmark and what is known in each: the corpus, and the same with texts that do not help."""

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from bench.behaviour.task import Item, Task
from kernel.messages import Holdout, Switches

PROJECT: Final = "behaviour"
PLACEBO_PROJECT: Final = "behaviour-placebo"
CONTROL: Final = "priming"
EXPERIMENT: Final = "behaviour"
AT_RUNTIME: Final = ("invented", "known", "wrong")  # kinds whose item the placebo's corpus says something else in


@dataclass(frozen=True, slots=True)
class Arm:
    """One way to run a task. What is known comes from `project`; the rest is the run's own switches."""

    id: str
    title: str
    about: str
    project: str = PROJECT
    activation: bool = True
    withheld: float = 0.0

    def switches(self) -> Switches:
        return Switches(activation=self.activation)

    def holdout(self, seed: int) -> Holdout:
        if not self.withheld:
            return Holdout()
        return Holdout(share=self.withheld, salt=f"behaviour-{seed}", experiment=EXPERIMENT)


ARMS: Final[dict[str, Arm]] = {
    arm.id: arm
    for arm in (
        Arm(CONTROL, "priming only", "searches once, when the run begins: the control", activation=False),
        Arm("runtime", "priming + runtime", "searches again when a tool fails"),
        Arm(
            "placebo",
            "priming + placebo",
            "searches as runtime does; what is found says something else of the same length",
            project=PLACEBO_PROJECT,
        ),
        Arm("withheld", "priming + withheld", "searches as runtime does; nothing of it is placed", withheld=1.0),
        Arm("trial", "priming + coin", "a draw for each situation whether its hints are placed", withheld=0.5),
    )
}
DEFAULT_ARMS: Final = (CONTROL, "runtime", "placebo", "withheld")


@dataclass(frozen=True, slots=True)
class Note:
    """An item of a corpus. Its id says nothing of the task, because ids are searched, too."""

    knowledge_id: str
    rule: str
    phrases: tuple[str, ...]
    errors: tuple[str, ...]
    topics: tuple[str, ...]
    trigger: str = ""


def note_id(task: Task) -> str:
    """Return the id of the task's item, empty without one."""
    return f"note-{hashlib.sha256(task.name.encode()).hexdigest()[:8]}" if task.item else ""


def corpus(tasks: Sequence[Task], *, any_moment: bool = False) -> list[Note]:
    """Return what is known: the item of each task that has one.

    Items about failures say so, as those of the starter set do, and are not offered when a run begins; with
    `any_moment` none says it, and the task's own words may bring them.
    """
    return [_note(task, task.item, any_moment) for task in tasks if task.item]


def placebo_corpus(tasks: Sequence[Task], *, any_moment: bool = False) -> list[Note]:
    """Return the same items, found by the same errors; those found at runtime have the rule of another one.

    Items of about the same length swap: sorted by it, each two neighbours, of an odd number the last three in a ring.
    """
    swapped = [task for task in tasks if task.item and task.kind in AT_RUNTIME]
    ordered = sorted(swapped, key=lambda task: (len(task.item.rule) if task.item else 0, task.name))
    other: dict[str, Item] = {}
    while ordered:
        group = ordered[:2] if len(ordered) != 3 else ordered[:3]
        ordered = ordered[len(group) :]
        for place, task in enumerate(group):
            says = group[(place + 1) % len(group)].item
            if says:
                other[task.name] = says
    return [_note(task, other.get(task.name, task.item), any_moment) for task in tasks if task.item]


def _note(task: Task, says: Item, any_moment: bool) -> Note:
    """Return the item of a task with the rule of `says`."""
    found_by = task.item or says
    trigger = "tool.failed" if task.kind in AT_RUNTIME and not any_moment else ""
    return Note(note_id(task), says.rule, found_by.phrases, found_by.errors, found_by.topics, trigger)
