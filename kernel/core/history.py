"""The protocol of the history: every call id has exactly one reply, contiguous, in call order, before anything else;
the rules stand first, and the user never speaks twice in a row.

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
        _check_neighbour(message, place, messages[place - 1] if place else None)
        if message.role == "tool":
            raise ProtocolViolation(f"orphan reply to {message.call_id!r} at position {place}: no call awaits it")
        if message.call_id is not None:
            raise ProtocolViolation(f"only a tool reply carries a call id (position {place}, role {message.role})")
        if message.calls and message.role != "assistant":
            raise ProtocolViolation(f"only an assistant message carries calls (position {place}, role {message.role})")
        place += 1
        if message.calls:
            place = _check_replies(messages, place, [call.call_id for call in message.calls])


def _check_neighbour(message: Message, place: int, before: Message | None) -> None:
    """Check what a message follows. A `context` message is not the user's: renderers join it to a user message."""
    if message.role == "system" and before is not None:
        raise ProtocolViolation(f"a system message stands at position {place}: it belongs at the start")
    if message.role == "user" and before is not None and before.role == "user":
        raise ProtocolViolation(f"the user messages at positions {place - 1} and {place} are two in a row")


def _check_replies(messages: Sequence[Message], start: int, call_ids: Sequence[str]) -> int:
    """Check the run of replies from `start`; return the position after it."""
    repeated = [call_id for call_id in dict.fromkeys(call_ids) if call_ids.count(call_id) > 1]
    if repeated:
        raise ProtocolViolation(f"call ids used twice in one message: {', '.join(repeated)}")
    end = start
    while end < len(messages) and messages[end].role == "tool":
        end += 1
    replies = [message.call_id for message in messages[start:end]]
    missing = [call_id for call_id in call_ids if call_id not in replies]
    if missing:
        late = any(message.role == "tool" and message.call_id in missing for message in messages[end:])
        foreign = f"; a {messages[end].role} message stands inside the run of replies at position {end}" if late else ""
        raise ProtocolViolation(f"no reply in place to: {', '.join(missing)}{foreign}")
    orphans = [str(call_id) for call_id in replies if call_id not in call_ids]
    if orphans:
        raise ProtocolViolation(f"orphan replies at {start}..{end - 1}, no call awaits them: {', '.join(orphans)}")
    if replies != list(call_ids):
        raise ProtocolViolation(f"replies at {start}..{end - 1} are not one per call in call order: {replies}")
    return end
