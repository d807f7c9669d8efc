"""What a workflow calls an activity through: arguments that fit, a sign of life, failures in words.

Used inside Temporal's sandbox. (Seed 001 §12, §15.)
"""

from collections.abc import Iterator
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final, TypeVar

from temporalio import workflow
from temporalio.common import RetryPolicy
from temporalio.exceptions import ApplicationError, is_cancelled_exception

with workflow.unsafe.imports_passed_through():
    from kernel.messages import SendEvents

HEARTBEAT: Final = timedelta(seconds=12)  # after which a silent worker counts as lost
MAX_ARGUMENT_BYTES: Final = 1_500_000  # Temporal refuses 2 MiB by retrying for ever, so nothing gets near it
WHY_LIMIT: Final = 500  # characters

ONCE: Final = RetryPolicy(maximum_attempts=1)

T = TypeVar("T")


async def act(
    name: str,
    command: Any,
    result: type[T],
    *,
    retry: RetryPolicy,
    start_to_close: timedelta | None = None,
    schedule_to_close: timedelta | None = None,
    beats: bool = True,
) -> T:
    """Execute one activity. Raises ActivityError, or ApplicationError for an argument that is too large."""
    guard(command)
    value: T = await workflow.execute_activity(
        name,
        command,
        result_type=result,
        retry_policy=retry,
        start_to_close_timeout=start_to_close,
        schedule_to_close_timeout=schedule_to_close,
        heartbeat_timeout=HEARTBEAT if beats else None,
    )
    return value


def fitting(command: SendEvents) -> Iterator[SendEvents]:
    """Yield the events in as many commands as the limit of one argument asks for."""
    if _size(command) <= MAX_ARGUMENT_BYTES or len(command.events) < 2:
        yield command
        return
    half = len(command.events) // 2
    for events in (command.events[:half], command.events[half:]):
        yield from fitting(replace(command, events=events))


def guard(value: Any) -> None:
    """Raise ApplicationError for a value that Temporal would refuse for ever."""
    size = _size(value)
    if size > MAX_ARGUMENT_BYTES:
        text = f"{type(value).__name__} has {size} bytes; the limit is {MAX_ARGUMENT_BYTES}"
        raise ApplicationError(text, type="argument_too_large", non_retryable=True)


def _size(value: Any) -> int:
    return sum(len(payload.data) for payload in workflow.payload_converter().to_payloads([value]))


def unless_cancelled(error: BaseException) -> None:
    """Raise `error` again when it is a cancellation: then nothing was lost."""
    if is_cancelled_exception(error):
        raise error


def why(error: BaseException) -> str:
    """Return why something failed; its text was redacted before it was raised."""
    unless_cancelled(error)
    cause = error.__cause__ or error
    return f"{kind(error)}: {getattr(cause, 'message', cause)}"[:WHY_LIMIT]


def kind(error: BaseException) -> str:
    """Return the class of what made an activity or a child workflow fail."""
    cause = error.__cause__ or error
    return getattr(cause, "type", None) or type(cause).__name__
