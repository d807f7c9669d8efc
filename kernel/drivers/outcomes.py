"""How a runtime's turn ended: one object that is read strictly, or what went wrong. (Seed 003.)"""

import asyncio
from collections.abc import Mapping
from typing import Final

from kernel.drivers import DriverReply
from kernel.drivers.decisions import read_decision
from kernel.edge.retry import EnvelopeError, ModelError

INVALID_OUTCOME: Final = "invalid_runtime_outcome"
FAILED: Final = "runtime_failed"
ENDINGS: Final = ("complete", "fail", "escalate")


def outcome_of(task: asyncio.Task[object]) -> DriverReply:
    """Return what the end of a turn says. Raises EnvelopeError."""
    if task.cancelled():
        raise EnvelopeError(FAILED, "the runtime's turn was cancelled, and not by its run")
    error = task.exception()
    if error is not None:
        raise EnvelopeError(FAILED, f"{type(error).__name__}: {words_of(error)}") from None
    return read_outcome(task.result())


def words_of(error: BaseException) -> str:
    """Return what an exception says, whatever it is made of."""
    try:
        return str(error)
    except Exception:  # noqa: BLE001 - an exception of somebody else's making may fail at this, too
        return "it does not say why"


def read_outcome(outcome: object) -> DriverReply:
    """Return the reply that an outcome stands for. Raises EnvelopeError."""
    kind = outcome.get("type") if isinstance(outcome, Mapping) else None
    if kind not in ENDINGS:
        raise EnvelopeError(INVALID_OUTCOME, f"run_turn must return one object of type {', '.join(ENDINGS)}")
    try:
        return read_decision(outcome)
    except ModelError as error:
        raise EnvelopeError(INVALID_OUTCOME, str(error)) from None
