"""Asks any OpenAI-compatible endpoint through the official client; retries belong to the runner, not to the client."""

import json
from typing import Any, Final

import openai
from openai.types.chat import ChatCompletion

from kernel.drivers import DriverReply, ModelRequest, ToolOffer
from kernel.drivers.decisions import token_count
from kernel.drivers.escalation import recognised
from kernel.drivers.rendering import render_openai
from kernel.edge.retry import ModelError, posture
from kernel.messages import ToolCall

TIMEOUT_SECONDS: Final = 120.0


class OpenAIChatDriver:
    """One endpoint and key. A run names the model; `default_model` serves runs that name none."""

    def __init__(
        self, base_url: str, api_key: str, *, default_model: str = "", timeout_seconds: float = TIMEOUT_SECONDS
    ) -> None:
        self._client = openai.AsyncOpenAI(
            base_url=base_url or None, api_key=api_key, max_retries=0, timeout=timeout_seconds
        )
        self._default_model = default_model

    async def reply(self, request: ModelRequest) -> DriverReply:
        """Ask once. Raises ModelError, which says whether another attempt is worth it."""
        model = request.model or self._default_model
        if not model:
            raise ModelError("model_not_named", "the run names no model: set `model` in its spec")
        # Some endpoints refuse a tool choice, or an empty list of tools, when no tools are sent.
        body: dict[str, Any] = {"model": model, "messages": render_openai(request.messages)}
        if request.tools:
            body["tools"] = [_tool(offer) for offer in request.tools]
        try:
            completion: ChatCompletion = await self._client.chat.completions.create(**body)
        except openai.OpenAIError as error:
            raise posture(error) from None
        except ValueError as error:  # a body that is no JSON although the status is 200
            raise ModelError("model_invalid_answer", f"the model's answer is not JSON: {error}") from None
        return recognised(read_completion(completion), request.tools)

    async def end_run(self, run_id: str) -> None:
        """Nothing is held for a run."""

    async def close(self) -> None:
        await self._client.close()


def _tool(offer: ToolOffer) -> dict[str, Any]:
    function = {"name": offer.name, "description": offer.description, "parameters": dict(offer.schema)}
    return {"type": "function", "function": function}


def read_completion(completion: ChatCompletion) -> DriverReply:
    """Return what the first choice says. Raises ModelError when the answer has none or is of another shape.

    The client checks no shapes by itself, so nothing is taken for granted here.
    """
    try:
        choice = completion.choices[0]
        message = choice.message
        asked: Any = message.tool_calls or ()
        calls = tuple(
            ToolCall(str(call.id or ""), str(call.function.name), _arguments(call.function.arguments))
            for call in asked
            if getattr(call, "function", None) is not None  # some endpoints leave out the type of a call
        )
        text = message.content or ""
        if not isinstance(text, str):
            raise TypeError("content is no text")
        text = text if text.strip() else str(message.refusal or text)
        input_tokens = token_count(getattr(completion.usage, "prompt_tokens", None))
        output_tokens = token_count(getattr(completion.usage, "completion_tokens", None))
        return DriverReply(
            text, calls, str(completion.model or ""), input_tokens, output_tokens, str(choice.finish_reason or "")
        )
    except (AttributeError, IndexError, TypeError) as error:
        raise ModelError("model_invalid_answer", f"the model's answer is not of the chat form: {error}") from None


def _arguments(given: object) -> str:
    """Return the arguments of a call as JSON text; some endpoints give the object itself."""
    return given or "{}" if isinstance(given, str) else json.dumps(given or {})
