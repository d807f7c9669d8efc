"""What a run reads like whose agent searches by itself: the events around one search, and of the run's two ends.

Observation reports what it searched and offered; these say who asked, what for, and what was handed over. (Seed 001
§13.)
"""

from datetime import datetime
from typing import Any, Final

from contract.hint_api import QUERY_LIMIT
from contract.redaction import redact
from contract.text import clip, estimate_tokens, storable
from knowledge.client.answers import Hints
from knowledge.client.asking import Ask, bounded
from knowledge.client.failures import ObservationError

Event = dict[str, Any]

NAME_LIMIT: Final = 120  # code points of an agent's name
TASK_LIMIT: Final = 300  # code points
ERROR_LIMIT: Final = 300  # code points


def started_event(run_id: str, agent: str, question: str, at: datetime) -> Event:
    """Return the start of a run that nobody else tells of; its first question stands for the task."""
    data = {"agent": tidy(agent, NAME_LIMIT) or "unnamed MCP client", "task": tidy(question, TASK_LIMIT)}
    return _event(run_id, f"{run_id}:started", "run.started", data, at)


def ended_event(run_id: str) -> Event:
    """Return the end of a run, now; whether its task was done is not known here."""
    return _event(run_id, f"{run_id}:ended", "run.completed", {"reason": "the MCP session is over"}, None)


def search_events(
    ask: Ask, found: Hints | ObservationError, text: str, asked_at: datetime, answered_at: datetime
) -> list[Event]:
    """Return the events of one search: asked, answered, and each hint that was handed over with `text`.

    What was handed over is selected. Whether it reached a model is said later, by the agent that reports on it.
    """
    asked_id = f"{ask.activation_id}:asked"
    said = {"trigger": ask.trigger, "query": bounded(ask.query, QUERY_LIMIT), "budget": {"hint_limit": ask.limit}}
    about = _about(ask)
    done = {
        "trigger": ask.trigger,
        "duration_ms": round((answered_at - asked_at).total_seconds() * 1_000, 3),
        **(_failed(found) if isinstance(found, ObservationError) else _answered(found, text)),
    }
    hints = () if isinstance(found, ObservationError) else found.hints
    return [
        {**_event(ask.run, asked_id, "activation.requested", said, asked_at), **about},
        {
            **_event(ask.run, f"{ask.activation_id}:answered", "activation.completed", done, answered_at),
            **about,
            "caused_by": asked_id,
        },
        *(
            {
                **_event(ask.run, f"{hint.hint_id}:selected", "hint.delivery", {"stage": "selected"}, answered_at),
                "activation_id": hint.activation_id,
                "hint_id": hint.hint_id,
                "knowledge_id": hint.knowledge_id,
            }
            for hint in hints
        ),
    ]


def tidy(text: str, limit: int) -> str:
    """Return a text of somebody else's on one line, without secrets, within `limit`."""
    printable = "".join(sign if sign.isprintable() else " " for sign in storable(text[: 4 * limit]))
    return clip(redact(" ".join(printable.split()))[0], limit)


def _answered(found: Hints, text: str) -> Event:
    n_hints = len(found)
    given = {"block": text, "tokens": estimate_tokens(text)} if text else {}
    return {
        "result": found.result,
        "n_retrieved": found.n_retrieved,
        "n_offered": n_hints,
        "n_selected": n_hints,
        "algorithm_version": found.algorithm_version,
        **given,
    }


def _failed(error: ObservationError) -> Event:
    return {"result": error.result, "error": clip(str(error), ERROR_LIMIT)}


def _about(ask: Ask) -> Event:
    names = {"activation_id": ask.activation_id, "tool": ask.tool, "mcp_server": ask.mcp_server}
    return {name: value for name, value in names.items() if value}


def _event(run_id: str, event_id: str, kind: str, data: Event, at: datetime | None) -> Event:
    event: Event = {"event_id": event_id, "run_id": run_id, "type": kind, "data": data}
    return event if at is None else {**event, "occurred_at": at.isoformat()}
