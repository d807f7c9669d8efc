"""The protocol of the history: every call id has exactly one reply, contiguous, in call order, before anything else;
the rules stand first, and the user never speaks twice in a row.

Checked on every request in every runner; a request that breaks it is a defect and is never sent. (Seed 001 §6.2.)
"""

from collections.abc import Iterator, Sequence

from kernel.messages import Message


class ProtocolViolation(Exception):
    """The messages are no legal history; the text names every call id or position concerned."""


def check_history(messages: Sequence[Message], checked: int = 0) -> None:
    """Raise ProtocolViolation unless `messages` may be sent.

    The first `checked` messages are known to be legal and are not looked at again, but for the group the boundary
    touches: work grows with the new messages. Nothing is kept between two calls, so a call id that stands in an
    earlier group is found when both groups are looked at.
    """
    if not messages:
        raise ProtocolViolation("a request needs at least one message")
    if not 0 <= checked <= len(messages):
        raise ProtocolViolation(f"{checked} messages were checked before and the history has {len(messages)}")
    problems = list(_problems(messages, _group_start(messages, checked)))
    if problems:
        raise ProtocolViolation("; ".join(problems))


def _group_start(messages: Sequence[Message], place: int) -> int:
    """Return where the group ends that `place` stands in or behind: never between calls and their replies."""
    while place and messages[place - 1].role == "tool":
        place -= 1
    return place - 1 if place and messages[place - 1].calls else place


def _problems(messages: Sequence[Message], place: int) -> Iterator[str]:
    """Yield what is wrong from `place` on, in order; a reply that comes too late is told once, with its call."""
    used: set[str] = set()
    late: set[str] = set()
    while place < len(messages):
        message = messages[place]
        if message.role == "tool":
            if message.call_id not in late:
                yield f"orphan reply to {message.call_id!r} at position {place}: no call awaits it"
        else:
            yield from _misplaced(message, place, messages[place - 1] if place else None)
        place += 1
        if message.calls and message.role == "assistant":
            call_ids = [call.call_id for call in message.calls]
            end = _end_of_replies(messages, place)
            yield from _call_problems(call_ids, used)
            yield from _reply_problems(messages, place, end, call_ids, late)
            used.update(call_ids)
            place = end


def _misplaced(message: Message, place: int, before: Message | None) -> Iterator[str]:
    """Yield what is wrong with a message that is no reply, where it stands. A `context` message is not the user's:
    renderers join it to a user message."""
    if message.role == "system" and before is not None:
        yield f"a system message stands at position {place}: it belongs at the start"
    if message.role == "user" and before is not None and before.role == "user":
        yield f"the user messages at positions {place - 1} and {place} are two in a row"
    if message.call_id is not None:
        yield f"only a tool reply carries a call id (position {place}, role {message.role})"
    if message.calls and message.role != "assistant":
        yield f"only an assistant message carries calls (position {place}, role {message.role})"


def _end_of_replies(messages: Sequence[Message], place: int) -> int:
    while place < len(messages) and messages[place].role == "tool":
        place += 1
    return place


def _call_problems(call_ids: Sequence[str], used: set[str]) -> Iterator[str]:
    twice = [call_id for call_id in dict.fromkeys(call_ids) if call_ids.count(call_id) > 1]
    if twice:
        yield f"call ids used twice in one message: {', '.join(twice)}"
    again = [call_id for call_id in dict.fromkeys(call_ids) if call_id in used]
    if again:
        yield f"call ids of an earlier message used again: {', '.join(again)}"


def _reply_problems(
    messages: Sequence[Message], start: int, end: int, call_ids: Sequence[str], late: set[str]
) -> Iterator[str]:
    """Yield what is wrong with the run of replies from `start` to `end`; remember in `late` whose reply comes later."""
    for place in range(start, end):
        if messages[place].calls:
            yield f"only an assistant message carries calls (position {place}, role tool)"
    replies = [message.call_id for message in messages[start:end]]
    if replies == list(call_ids):
        return
    missing = [call_id for call_id in dict.fromkeys(call_ids) if call_id not in replies]
    if missing:
        came = {str(message.call_id) for message in messages[end:] if message.role == "tool"} & set(missing)
        late.update(came)
        foreign = f"; a {messages[end].role} message stands inside the run of replies at position {end}" if came else ""
        yield f"no reply in place to: {', '.join(missing)}{foreign}"
    orphans = [str(call_id) for call_id in replies if call_id not in call_ids]
    if orphans:
        yield f"orphan replies at {start}..{end - 1}, no call awaits them: {', '.join(orphans)}"
    if not missing and not orphans:
        yield f"replies at {start}..{end - 1} are not one per call in call order: {replies}"
