"""The protocol of tool calls: every call id has exactly one reply, contiguous, in call order, before anything else.

Checked on every request in every runner; a request that breaks it is a defect and is never sent. (Seed 001 §6.2.)
"""

from collections.abc import Sequence

from kernel.messages import Message


class ProtocolViolation(Exception):
    """The messages are no legal history; the text names every call id or position concerned."""


def check_history(messages: Sequence[Message]) -> None:
    """Raise ProtocolViolation unless `messages` may be sent."""
    if not messages:
        raise ProtocolViolation("a request needs at least one message")
    place = 0
    while place < len(messages):
        message = messages[place]
        if message.role == "tool":
            raise ProtocolViolation(f"orphan reply to {message.call_id!r} at position {place}: no call awaits it")
        if message.call_id is not None:
            raise ProtocolViolation(f"only a tool reply carries a call id (position {place}, role {message.role})")
        if message.calls and message.role != "assistant":
            raise ProtocolViolation(f"only an assistant message carries calls (position {place}, role {message.role})")
        place += 1
        if message.calls:
            place = _check_replies(messages, place, [call.call_id for call in message.calls])


def _check_replies(messages: Sequence[Message], start: int, call_ids: Sequence[str]) -> int:
    """Check the run of replies from `start`; return the position after it."""
    repeated = sorted({call_id for call_id in call_ids if call_ids.count(call_id) > 1})
    if repeated:
        raise ProtocolViolation(f"call ids used twice in one message: {', '.join(repeated)}")
    replies = []
    place = start
    while place < len(messages) and messages[place].role == "tool":
        replies.append(messages[place].call_id)
        place += 1
    missing = [call_id for call_id in call_ids if call_id not in replies]
    if missing:
        foreign = place < len(messages) and any(
            message.role == "tool" and message.call_id in missing for message in messages[place:]
        )
        if foreign:
            raise ProtocolViolation(f"foreign message ({messages[place].role}) inside a run of replies at {place}")
        raise ProtocolViolation(f"no reply to: {', '.join(missing)}")
    if replies != list(call_ids):
        raise ProtocolViolation(f"replies at {start}..{place - 1} are not one per call in call order: {replies}")
    return place
