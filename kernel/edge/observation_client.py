"""Asks Observation for knowledge: one batch call a boundary, one attempt, an answer for every request.

Retrieval is best effort: no failure of it is raised into a run. An answer of the wrong shape is an `error` of its
own and costs the others nothing. (Seed 001 §7, §12.)
"""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from typing import Any, Final

import httpx

from contract.redaction import redact
from contract.text import clip
from kernel.messages import FetchHints, Hint, HintAnswer, HintRequest, SuppressedItem

logger = logging.getLogger(__name__)

PATH: Final = "/v1/observations/hints/batch"
MAX_ANSWER_BYTES: Final = 1024 * 1024
MOST: Final = 2**31 - 1  # of a count or a revision
MAX_HINTS: Final = 20  # in one answer
MAX_REVISIONS: Final = 200  # the API takes no more; of the newest suppressions
TEXT_LIMIT: Final = 4_096  # code points of one proposition or caution
ID_LIMIT: Final = 200  # code points
ERROR_LIMIT: Final = 300  # code points


class ObservationFailure(Exception):
    """The whole call failed: `result` is timeout or error, the text says why without secrets."""

    def __init__(self, result: str, detail: str) -> None:
        super().__init__(detail)
        self.result = result


class BadAnswer(ValueError):
    """One answer is not of the agreed shape; the text names what is wrong with it."""


class ObservationClient:
    """Speaks to one Observation with one project's key."""

    def __init__(self, base_url: str, api_key: str) -> None:
        headers = {"Authorization": f"Bearer {api_key}", "Content-Type": "application/json"}
        self._http = httpx.AsyncClient(base_url=base_url, headers=headers)
        self.n_failed = 0

    async def fetch(self, command: FetchHints) -> tuple[HintAnswer, ...]:
        """Return one answer a request, in their order, within the command's timeout. Never raises."""
        try:
            answers = await self._ask(command)
        except ObservationFailure as failure:
            self.n_failed += 1
            logger.warning("hints of run %s: %s: %s", command.run_id, failure.result, failure)
            return tuple(failed_answer(request, failure.result, str(failure)) for request in command.requests)
        pairs = zip(command.requests, answers, strict=True)
        return tuple(self._read(request, answer) for request, answer in pairs)

    async def close(self) -> None:
        await self._http.aclose()

    async def _ask(self, command: FetchHints) -> list[object]:
        """Return the raw answers, one a request. Raises ObservationFailure."""
        body = {"requests": [request_to_json(request) for request in command.requests]}
        try:
            async with asyncio.timeout(command.timeout_ms / 1000):
                status, content = await self._post(body)
        except (TimeoutError, httpx.TimeoutException):
            raise ObservationFailure("timeout", f"no answer within {command.timeout_ms} ms") from None
        except (httpx.HTTPError, httpx.InvalidURL) as error:
            raise ObservationFailure("error", _safe(str(error) or type(error).__name__)) from None
        if status != 200:
            raise ObservationFailure("error", f"{status} {_error_code(content)}".strip())
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            raise ObservationFailure("error", "the answer is not JSON") from None
        answers = value.get("answers") if isinstance(value, dict) else None
        if not isinstance(answers, list) or len(answers) != len(command.requests):
            raise ObservationFailure("error", f"the answer must have {len(command.requests)} answers")
        return answers

    async def _post(self, body: Mapping[str, object]) -> tuple[int, bytes]:
        content = json.dumps(body).encode()
        answer = bytearray()
        async with self._http.stream("POST", PATH, content=content, timeout=None) as response:
            async for chunk in response.aiter_bytes():
                answer += chunk
                if len(answer) > MAX_ANSWER_BYTES:
                    raise ObservationFailure("error", f"the answer is over {MAX_ANSWER_BYTES} bytes")
        return response.status_code, bytes(answer)

    def _read(self, request: HintRequest, answer: object) -> HintAnswer:
        try:
            return parse_answer(request, answer)
        except BadAnswer as error:
            self.n_failed += 1
            logger.warning("hints of activation %s: %s", request.activation_id, error)
            return failed_answer(request, "error", f"the answer is not of the agreed shape: {error}")


def request_to_json(request: HintRequest) -> dict[str, object]:
    """Return the request as the hints API takes it; the project is the key's."""
    fields: dict[str, object] = {
        "run": request.run_id,
        "task": request.task_id,
        "actor": request.actor_id,
        "query": _storable(request.query),
        "tool_result": _storable(request.tool_result),
        "limit": request.limit,
        "active_skills": list(request.active_skills),
        "issued_knowledge_ids": list(request.issued_knowledge_ids),
        "suppressed_knowledge_ids": [item.knowledge_id for item in request.suppressed],
        "suppressed_revisions": _revisions(request.suppressed),
        "trigger": request.trigger,
        "activation_source_id": request.source_event_id,
        "activation_id": request.activation_id,
        "budget": {
            "activation_tokens": request.activation_tokens,
            "run_tokens": request.run_tokens,
            "hint_limit": request.hint_limit,
        },
    }
    optional = {
        "tool": request.tool,
        "tool_arguments": _storable(request.tool_arguments),
        "team_root": request.team_root,
        "mcp_server": request.mcp_server,
        "error_class": request.error_class,
    }
    return fields | {name: value for name, value in optional.items() if value}


def _storable(text: str) -> str:
    """Return text without what the API cannot keep: NUL characters and half surrogate pairs."""
    return text.replace("\0", "\ufffd").encode("utf-8", "replace").decode()


def _revisions(suppressed: Sequence[SuppressedItem]) -> dict[str, int]:
    """Return the revisions of the newest suppressions, as the API takes them: whole numbers from 1."""
    return {item.knowledge_id: item.revision for item in suppressed[-MAX_REVISIONS:] if item.revision >= 1}


def parse_answer(request: HintRequest, answer: object) -> HintAnswer:
    """Return the checked answer to `request`. Raises BadAnswer naming what is wrong."""
    if not isinstance(answer, dict):
        raise BadAnswer("it is no object")
    if answer.get("activation_id") != request.activation_id:
        raise BadAnswer("activation_id is not the one asked for")
    hints = answer.get("hints")
    if not isinstance(hints, list):
        raise BadAnswer("hints is no list")
    if len(hints) > MAX_HINTS:
        raise BadAnswer(f"{len(hints)} hints; the limit is {MAX_HINTS}")
    counts = answer.get("counts")
    n_retrieved = counts.get("retrieved", len(hints)) if isinstance(counts, dict) else len(hints)
    if isinstance(n_retrieved, bool) or not isinstance(n_retrieved, int) or not 0 <= n_retrieved <= MOST:
        raise BadAnswer("counts.retrieved is no count")
    return HintAnswer(
        activation_id=request.activation_id,
        result="success" if hints else "empty",
        hints=tuple(_parse_hint(hint) for hint in hints),
        n_retrieved=n_retrieved,
        algorithm_version=_text(answer, "algorithm_version", ID_LIMIT, required=False),
    )


def failed_answer(request: HintRequest, result: str, detail: str) -> HintAnswer:
    """Return the answer of a request that got none; `result` is timeout or error."""
    return HintAnswer(request.activation_id, result, error=clip(detail, ERROR_LIMIT))


def _parse_hint(value: object) -> Hint:
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
        matched_by=tuple(clip(reason, ID_LIMIT) for reason in matched_by[:MAX_HINTS]),
        caution=_text(value, "caution", TEXT_LIMIT, required=False),
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


def _error_code(content: bytes) -> str:
    """Return the machine word of an error body, or nothing: the rest of the body is not ours to repeat."""
    try:
        code = json.loads(content).get("code")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return clip(code, 64) if isinstance(code, str) else ""


def _safe(text: str) -> str:
    return clip(redact(text)[0], ERROR_LIMIT)
