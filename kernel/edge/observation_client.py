"""Asks Observation for knowledge: one batch call a boundary, one attempt, an answer for every request.

Retrieval is best effort: no failure of it is raised into a run. An answer of the wrong shape is an `error` of its
own and costs the others nothing. (Seed 001 §7, §12.)
"""

import asyncio
import json
import logging
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Final

import httpx

from contract.hint_api import ANSWER_BYTES, REVISIONS_LIMIT, BadHints, check_answer
from contract.redaction import redact
from contract.text import clip, storable
from kernel.messages import FetchHints, Hint, HintAnswer, HintRequest, SuppressedItem

logger = logging.getLogger(__name__)

PATH: Final = "/v1/observations/hints/batch"
ERROR_LIMIT: Final = 300  # code points


class ObservationFailure(Exception):
    """The whole call failed: `result` is timeout or error, the text says why without secrets."""

    def __init__(self, result: str, detail: str) -> None:
        super().__init__(detail)
        self.result = result


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
                if len(answer) > ANSWER_BYTES:
                    raise ObservationFailure("error", f"the answer is over {ANSWER_BYTES} bytes")
        return response.status_code, bytes(answer)

    def _read(self, request: HintRequest, answer: object) -> HintAnswer:
        try:
            return parse_answer(request, answer)
        except BadHints as error:
            self.n_failed += 1
            logger.warning("hints of activation %s: %s", request.activation_id, error)
            return failed_answer(request, "error", f"the answer is not of the agreed shape: {error}")


def request_to_json(request: HintRequest) -> dict[str, object]:
    """Return the request as the hints API takes it; the project is the key's."""
    fields: dict[str, object] = {
        "run": request.run_id,
        "task": request.task_id,
        "actor": request.actor_id,
        "query": storable(request.query),
        "tool_result": storable(request.tool_result),
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
        "tool_arguments": storable(request.tool_arguments),
        "team_root": request.team_root,
        "mcp_server": request.mcp_server,
        "error_class": request.error_class,
    }
    return fields | {name: value for name, value in optional.items() if value}


def _revisions(suppressed: Sequence[SuppressedItem]) -> dict[str, int]:
    """Return the revisions of the newest suppressions, as the API takes them: whole numbers from 1."""
    return {item.knowledge_id: item.revision for item in suppressed[-REVISIONS_LIMIT:] if item.revision >= 1}


def parse_answer(request: HintRequest, answer: object) -> HintAnswer:
    """Return the checked answer to `request`. Raises BadHints naming what is wrong."""
    checked = check_answer(request.activation_id, answer)
    return HintAnswer(
        activation_id=request.activation_id,
        result="success" if checked.hints else "empty",
        hints=tuple(Hint(**asdict(hint)) for hint in checked.hints),
        n_retrieved=checked.n_retrieved,
        algorithm_version=checked.algorithm_version,
    )


def failed_answer(request: HintRequest, result: str, detail: str) -> HintAnswer:
    """Return the answer of a request that got none; `result` is timeout or error."""
    return HintAnswer(request.activation_id, result, error=clip(detail, ERROR_LIMIT))


def _error_code(content: bytes) -> str:
    """Return the machine word of an error body, or nothing: the rest of the body is not ours to repeat."""
    try:
        code = json.loads(content).get("code")
    except (ValueError, AttributeError, RecursionError):
        return ""
    return clip(code, 64) if isinstance(code, str) else ""


def _safe(text: str) -> str:
    return clip(redact(text)[0], ERROR_LIMIT)
