"""Which observation may arrive in which phase, and where it may lead: one table, also the source of the diagram."""

from typing import Final

from kernel.core.state import Phase

BOUNDARY: Final[tuple[Phase, ...]] = ("searching", "calling", "continuing", "finished")
AFTER_CALLS: Final[tuple[Phase, ...]] = ("running", "approving", "waiting", *BOUNDARY)
BETWEEN: Final[tuple[Phase, ...]] = ("searching", "calling", "running", "approving", "continuing")

TABLE: Final[dict[tuple[Phase, str], tuple[Phase, ...]]] = {
    ("preparing", "RunPrepared"): ("searching", "calling", "finished"),
    ("searching", "HintsArrived"): ("calling", "continuing", "finished"),
    ("calling", "ModelReplied"): AFTER_CALLS,
    ("calling", "ModelFailed"): ("finished",),
    ("running", "ToolFinished"): AFTER_CALLS,
    ("approving", "ApprovalDecided"): AFTER_CALLS,
    ("continuing", "Resumed"): ("calling",),
    **{
        (phase, ending): ("finished",)
        for phase in ("preparing", "waiting", *BETWEEN)
        for ending in ("CancelRequested", "RunBroken")
    },
    **{(phase, "OperationFinished"): (phase,) for phase in ("preparing", *BETWEEN)},
    **{
        (phase, observation): (phase,)
        for phase in ("running", "approving")
        for observation in ("QuestionAnswered", "DelegateFinished")
    },
    **{
        ("waiting", observation): ("waiting", *BOUNDARY)
        for observation in ("QuestionAnswered", "DelegateFinished", "OperationFinished")
    },
}


class IllegalObservation(Exception):
    """An observation that cannot have happened in this phase: a defect of the runner; the state is unchanged."""


def allowed(phase: Phase, observation: str) -> tuple[Phase, ...]:
    """Return the phases an observation may lead to. Raises IllegalObservation when it may not arrive at all."""
    try:
        return TABLE[phase, observation]
    except KeyError:
        raise IllegalObservation(f"{observation} cannot arrive while the run is {phase}") from None


def diagram() -> str:
    """Return the table as a Mermaid state diagram, one arrow for all observations that may lead the same way."""
    arrows: dict[tuple[Phase, Phase], list[str]] = {}
    for (phase, observation), targets in TABLE.items():
        for target in targets:
            arrows.setdefault((phase, target), []).append(observation)
    lines = [f"    {phase} --> {target}: {', '.join(names)}" for (phase, target), names in arrows.items()]
    return "\n".join(["stateDiagram-v2", "    [*] --> preparing", *lines, "    finished --> [*]"])
