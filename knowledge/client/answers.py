"""What is answered: the hints of one search, checked field by field, so that no server's nonsense reaches an agent."""

import json
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any, Final

from contract.events import ID_LIMIT
from contract.hint_api import BadHints, CheckedHint, check_answer
from contract.hint_block import render_hint_block
from contract.text import clip
from knowledge.client.asking import Ask
from knowledge.client.failures import BadAnswer, ObservationError
from knowledge.client.hint import Hint

MAX_HELD: Final = 100  # items held back, of one answer
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
    try:
        checked = check_answer(activation_id, answer)
    except BadHints as error:
        raise BadAnswer(str(error)) from None
    return Hints(
        activation_id=activation_id,
        run=ask.run,
        trigger=ask.trigger,
        result="success" if checked.hints else "empty",
        hints=tuple(_hint(ask, activation_id, hint) for hint in checked.hints),
        n_retrieved=checked.n_retrieved,
        algorithm_version=checked.algorithm_version,
        matcher=checked.matcher,
        held_back=_held_back(answer),
        cause=found_for(ask.trigger, ask.tool, ask.mcp_server, ask.error_class),
    )


def found_for(trigger: str, tool: str, mcp_server: str, error_class: str) -> str:
    """Return what set the search off, as the block's first line names it."""
    if trigger == "tool.failed" and tool:
        return f"a failed call of {tool} ({error_class})" if error_class else f"a failed call of {tool}"
    if trigger == "mcp.first_call" and mcp_server:
        return f"the first use of the MCP server {mcp_server}"
    return "the task" if trigger == "task.priming" else "your question"


def _held_back(answer: object) -> tuple[tuple[str, str], ...]:
    """Return what was held back; it is told for people, so an entry of another shape is passed over."""
    dropped = answer.get("dropped") if isinstance(answer, dict) else None
    entries = dropped[:MAX_HELD] if isinstance(dropped, list) else []
    pairs = ((entry.get("knowledge_id"), entry.get("reason")) for entry in entries if isinstance(entry, dict))
    return tuple(
        (name[:ID_LIMIT], reason[:ID_LIMIT])
        for name, reason in pairs
        if isinstance(name, str) and isinstance(reason, str)
    )


def _hint(ask: Ask, activation_id: str, hint: CheckedHint) -> Hint:
    return Hint(**asdict(hint), run=ask.run, activation_id=activation_id, tool=ask.tool, mcp_server=ask.mcp_server)
