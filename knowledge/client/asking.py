"""What is asked: one search as its caller states it, and as it leaves: without secrets, within the API's limits.

(Seed 001 §7.1.)
"""

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from contract.hint_api import DEFAULT_HINTS, QUERY_LIMIT, TOOL_ARGUMENTS_LIMIT, TOOL_RESULT_LIMIT
from contract.hint_block import holds_block
from contract.redaction import redact
from contract.text import storable
from knowledge.client.failures import NotSendable

CUT: Final = " … [{n} characters left out] … "
LOOKED_AT: Final = 1024 * 1024  # code points of a text that are searched for secrets; of a longer one its two ends

FIRST: Final = "/v1/observations/hints"
BATCH: Final = "/v1/observations/hints/batch"


@dataclass(frozen=True, slots=True)
class Ask:
    """One search. `run` is the run it belongs to; `issued` names the items whose text the agent has already.

    `tool_arguments` is what the tool was called with: the command line of a shell, else the JSON of the arguments.
    """

    run: str
    trigger: str = "agent.search"
    query: str = ""
    tool: str = ""
    tool_result: str = ""
    mcp_server: str = ""
    error_class: str = ""
    source_event_id: str = ""
    task: str = ""
    actor: str = ""
    team_root: str = ""
    entities: Sequence[str] = ()
    topics: Sequence[str] = ()
    active_skills: Sequence[str] = ()
    issued: Sequence[str] = ()
    suppressed: Sequence[str] = ()
    limit: int = DEFAULT_HINTS
    activation_id: str = ""
    tool_arguments: str = ""


def ask_to_json(ask: Ask, activation_id: str) -> dict[str, Any]:
    """Return the request as the hints API takes it; the project is the key's."""
    texts = {
        "task": ask.task,
        "actor": ask.actor,
        "tool": ask.tool,
        "mcp_server": ask.mcp_server,
        "error_class": ask.error_class,
        "team_root": ask.team_root,
        "activation_source_id": ask.source_event_id,
    }
    lists = {
        "entities": [cleaned(text) for text in ask.entities],
        "topics": [cleaned(text) for text in ask.topics],
        "active_skills": [storable(text) for text in ask.active_skills],
        "issued_knowledge_ids": list(ask.issued),
        "suppressed_knowledge_ids": list(ask.suppressed),
    }
    return {
        "run": ask.run,
        "trigger": ask.trigger,
        "query": bounded(ask.query, QUERY_LIMIT),
        "tool_result": bounded(ask.tool_result, TOOL_RESULT_LIMIT),
        "limit": ask.limit,
        "activation_id": activation_id,
        **({"tool_arguments": arguments} if (arguments := arguments_of(ask)) else {}),
        **{name: cleaned(text) for name, text in texts.items() if text},
        **{name: texts for name, texts in lists.items() if texts},
    }


def body_of(value: Mapping[str, Any]) -> bytes:
    """Return a JSON body. Raises NotSendable without repeating what was to be sent."""
    try:
        return json.dumps(value, allow_nan=False).encode()
    except (TypeError, ValueError, RecursionError) as error:
        problem = f"the request cannot be written as JSON ({type(error).__name__}); give texts, numbers and lists"
    raise NotSendable(problem)


def arguments_of(ask: Ask) -> str:
    """Return what the tool was called with, nothing of it when it quotes hints: they are no question."""
    text = bounded(ask.tool_arguments, TOOL_ARGUMENTS_LIMIT)
    return "" if holds_block(text) else text


def bounded(text: str, limit: int) -> str:
    """Return `text` without its secrets and within `limit` code points: its two ends, and how much is left out.

    What went wrong stands at the end of an output as often as at its start. Secrets are taken out before the cut, so
    that no half of one is left.
    """
    half = LOOKED_AT // 2
    if len(text) > LOOKED_AT:
        return joined(cleaned(text[:half]), cleaned(text[-half:]), limit, len(text) - 2 * half)
    whole = cleaned(text)
    return whole if len(whole) <= limit else joined(whole[: len(whole) // 2], whole[len(whole) // 2 :], limit, 0)


def joined(head: str, tail: str, limit: int, between: int) -> str:
    """Return the start of `head` and the end of `tail` within `limit`; `between` characters are missing already."""
    n_all = len(head) + between + len(tail)
    room = limit - len(CUT.format(n=n_all))
    start, end = head[: room // 2], tail[-(room - room // 2) :]
    return start + CUT.format(n=n_all - len(start) - len(end)) + end


def cleaned(text: str) -> str:
    return redact(storable(text))[0]
