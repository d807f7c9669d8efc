"""What is answered: the hints of one search, checked field by field, so that no server's nonsense reaches an agent."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

from contract.hint_block import render_hint_block
from contract.text import clip
from knowledge.client.asking import Ask
from knowledge.client.failures import BadAnswer, ObservationError
from knowledge.client.hint import Hint

MOST: Final = 2**31 - 1  # of a count or a revision
MAX_HINTS: Final = 20  # in one answer
MAX_HELD: Final = 100  # items held back, of one answer
TEXT_LIMIT: Final = 4_096  # code points of one proposition or caution
ID_LIMIT: Final = 200  # code points
ERROR_LIMIT: Final = 300  # code points


@dataclass(frozen=True, slots=True)
class Hints:
    """The answer to one search: `result` is success, empty, timeout or error; `error` says why there is none.

    `held_back` is what fits and was not offered, as (knowledge id, reason).
    """

    activation_id: str
    run: str
    trigger: str
    result: str
    hints: tuple[Hint, ...] = ()
    error: str = ""
    n_retrieved: int = 0
    algorithm_version: str = ""
    matcher: str = ""
    held_back: tuple[tuple[str, str], ...] = ()
    cause: str = ""

    def text(self) -> str:
        """Return the labelled block to put into the agent's context; it is empty when there are no hints."""
        return render_hint_block(self.trigger, self.cause, self.activation_id, self.hints)

    def __iter__(self) -> Iterator[Hint]:
        return iter(self.hints)

    def __len__(self) -> int:
        return len(self.hints)


def failed_hints(ask: Ask, activation_id: str, error: ObservationError) -> Hints:
    """Return the answer of a search that got none."""
    return Hints(activation_id, ask.run, ask.trigger, error.result, error=clip(str(error), ERROR_LIMIT))


def json_object(content: bytes) -> dict[str, Any]:
    """Return the JSON object in a body. Raises BadAnswer."""
    try:
        value = json.loads(content)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise BadAnswer("the answer is no JSON object")
    return value


def parse_hints(ask: Ask, activation_id: str, answer: object) -> Hints:
    """Return the checked answer to `ask`. Raises BadAnswer naming what is wrong."""
    if not isinstance(answer, dict):
        raise BadAnswer("it is no object")
    if answer.get("activation_id") != activation_id:
        raise BadAnswer("activation_id is not the one asked for")
    given = answer.get("hints")
    if not isinstance(given, list):
        raise BadAnswer("hints is no list")
    if len(given) > MAX_HINTS:
        raise BadAnswer(f"{len(given)} hints; the limit is {MAX_HINTS}")
    hints = tuple(_parse_hint(ask, activation_id, hint) for hint in given)
    return Hints(
        activation_id=activation_id,
        run=ask.run,
        trigger=ask.trigger,
        result="success" if hints else "empty",
        hints=hints,
        n_retrieved=_retrieved(answer.get("counts"), len(hints)),
        algorithm_version=_text(answer, "algorithm_version", ID_LIMIT, required=False),
        matcher=_text(answer, "matcher", ID_LIMIT, required=False),
        held_back=_held_back(answer.get("dropped")),
        cause=found_for(ask.trigger, ask.tool, ask.mcp_server, ask.error_class),
    )


def found_for(trigger: str, tool: str, mcp_server: str, error_class: str) -> str:
    """Return what set the search off, as the block's first line names it."""
    if trigger == "tool.failed" and tool:
        return f"a failed call of {tool} ({error_class})" if error_class else f"a failed call of {tool}"
    if trigger == "mcp.first_call" and mcp_server:
        return f"the first use of the MCP server {mcp_server}"
    return "the task" if trigger == "task.priming" else "your question"


def _retrieved(counts: object, n_hints: int) -> int:
    found = counts.get("retrieved", n_hints) if isinstance(counts, dict) else n_hints
    if isinstance(found, bool) or not isinstance(found, int) or not 0 <= found <= MOST:
        raise BadAnswer("counts.retrieved is no count")
    return found


def _held_back(dropped: object) -> tuple[tuple[str, str], ...]:
    """Return what was held back; it is told for people, so an entry of another shape is passed over."""
    entries = dropped[:MAX_HELD] if isinstance(dropped, list) else []
    pairs = ((entry.get("knowledge_id"), entry.get("reason")) for entry in entries if isinstance(entry, dict))
    return tuple(
        (name[:ID_LIMIT], reason[:ID_LIMIT])
        for name, reason in pairs
        if isinstance(name, str) and isinstance(reason, str)
    )


def _parse_hint(ask: Ask, activation_id: str, value: object) -> Hint:
    if not isinstance(value, dict):
        raise BadAnswer("a hint is no object")
    revision = value.get("revision")
    if isinstance(revision, bool) or not isinstance(revision, int) or not 1 <= revision <= MOST:
        raise BadAnswer("revision is no whole number from 1 on")
    matched_by = value.get("matched_by", [])
    if not isinstance(matched_by, list) or not all(isinstance(reason, str) for reason in matched_by):
        raise BadAnswer("matched_by is no list of texts")
    return Hint(
        hint_id=_id(value, "hint_id"),
        knowledge_id=_id(value, "knowledge_id"),
        revision=revision,
        proposition=_text(value, "proposition", TEXT_LIMIT),
        state=_text(value, "state", ID_LIMIT),
        run=ask.run,
        activation_id=activation_id,
        matched_by=tuple(clip(reason, ID_LIMIT) for reason in matched_by[:MAX_HINTS]),
        caution=_text(value, "caution", TEXT_LIMIT, required=False),
        tool=ask.tool,
        mcp_server=ask.mcp_server,
    )


def _text(value: Mapping[str, Any], name: str, limit: int, *, required: bool = True) -> str:
    text = value.get(name)
    if text is None and not required:
        return ""
    if not isinstance(text, str) or (required and not text):
        raise BadAnswer(f"{name} is no text")
    if len(text) > limit:
        raise BadAnswer(f"{name} has {len(text)} characters; the limit is {limit}")
    return text


def _id(value: Mapping[str, Any], name: str) -> str:
    """Return an id that can be sent back as it is."""
    text = _text(value, name, ID_LIMIT)
    if not text.isprintable() or text != text.strip():
        raise BadAnswer(f"{name} is no printable text without space around it")
    return text
