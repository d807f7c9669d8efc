"""What is reported: the events of what an agent did with a hint, under ids made from what they say.

The same report has the same id, however often it is sent, so it counts once. (Seed 001 §10.3, §13.)
"""

import hashlib
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from contract.redaction import redact_value
from contract.stages import OUTCOMES
from contract.text import clip, storable
from knowledge.client.answers import ERROR_LIMIT, json_object
from knowledge.client.asking import body_of
from knowledge.client.failures import BadAnswer, ObservationError, ObservationRefused
from knowledge.client.hint import Hint

EVENTS: Final = "/v1/events"
NOTE_LIMIT: Final = 2_000  # code points of a note or of evidence
NAMED: Final = 150  # code points of the hint id that a report's own id begins with


@dataclass(frozen=True, slots=True)
class Report:
    """What became of a report: `result` is stored (now or before), timeout or error; `error` says why not.

    `retry_after` is in seconds, when the server said when to send it again.
    """

    result: str
    error: str = ""
    retry_after: float | None = None


def failed_report(error: ObservationError) -> Report:
    return Report(error.result, clip(str(error), ERROR_LIMIT), error.retry_after)


def hint_event(hint: Hint, kind: str, data: Mapping[str, Any], turn: int | None = None) -> dict[str, Any]:
    """Return an event about a hint, without its time. `turn` is the turn of the run it happened in, if known."""
    said = _cleaned(data)
    event = {
        "event_id": report_id(hint, kind, said),
        "run_id": hint.run,
        "type": kind,
        "activation_id": hint.activation_id,
        "hint_id": hint.hint_id,
        "knowledge_id": hint.knowledge_id,
        "data": said,
    }
    optional = {"tool": hint.tool, "mcp_server": hint.mcp_server, "turn": turn}
    return event | {name: value for name, value in optional.items() if value not in ("", None)}


def outcome_data(outcome: str, note: str, by: str) -> dict[str, Any]:
    """Return the data of a verdict. Raises ValueError for a word that is none."""
    if outcome not in OUTCOMES:
        raise ValueError(f"outcome must be one of {', '.join(OUTCOMES)}")
    return {"outcome": outcome, "by": by, **({"note": note} if note else {})}


def report_id(hint: Hint, kind: str, said: Mapping[str, Any]) -> str:
    """Return the id of a report: a name for a person, and a digest of all that makes it another report."""
    told = json.dumps([hint.run, hint.hint_id, kind, said], sort_keys=True)
    digest = hashlib.sha256(told.encode()).hexdigest()[:16]
    return f"{hint.hint_id[:NAMED]}:{kind.removeprefix('hint.')}:{digest}"


def events_body(events: Sequence[Mapping[str, Any]]) -> bytes:
    return body_of({"events": list(events)})


def check_stored(content: bytes) -> None:
    """Raise ObservationRefused for a rejected event, BadAnswer when the answer does not say what became of it."""
    answer = json_object(content)
    rejected = answer.get("rejected")
    if not isinstance(rejected, list):
        raise BadAnswer("rejected is no list")
    if not rejected:
        return
    first = rejected[0] if isinstance(rejected[0], dict) else {}
    code, detail = first.get("code"), first.get("detail")
    code = clip(code, 64) if isinstance(code, str) else "rejected"
    raise ObservationRefused(207, code, "", clip(detail, ERROR_LIMIT) if isinstance(detail, str) else "")


def _cleaned(data: Mapping[str, Any]) -> dict[str, Any]:
    texts = {name: storable(value) if isinstance(value, str) else value for name, value in data.items()}
    cleaned = redact_value(texts)[0]
    return {name: clip(value, NOTE_LIMIT) if isinstance(value, str) else value for name, value in cleaned.items()}
