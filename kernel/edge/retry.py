"""Decides which failures of a model request are worth another attempt, and when."""

from typing import Final

import openai

RETRY_AFTER_LIMIT: Final = 60.0  # seconds; a provider asking for more gets Temporal's own backoff
RETRYABLE_STATUS: Final = (408, 409, 429)


class ModelError(Exception):
    """A model request failed. `retry_after` is in seconds; the text is not redacted.

    `source` says who found it: the runtime itself, or the envelope around it.
    """

    source: str = "runtime"

    def __init__(
        self, error_class: str, detail: str, *, retryable: bool = False, retry_after: float | None = None
    ) -> None:
        super().__init__(detail)
        self.error_class = error_class
        self.retryable = retryable
        self.retry_after = retry_after


class EnvelopeError(ModelError):
    """What a driver or a runtime did was refused from outside it. (Seed 003.)"""

    source = "envelope"


def posture(error: openai.OpenAIError) -> ModelError:
    """Return what a failure of the OpenAI client means for the run.

    Lost connections, timeouts, 408, 409, 429 and 5xx are tried again, as is what the provider marks so; a wrong
    key, an unknown model or a malformed request is not.
    """
    if isinstance(error, openai.APITimeoutError):
        return ModelError("model_timeout", "the model did not answer in time", retryable=True)
    if isinstance(error, openai.APIConnectionError):
        return ModelError(
            "model_unreachable", f"the model cannot be reached: {error.__cause__ or error}", retryable=True
        )
    if isinstance(error, openai.APIStatusError):
        return _status_posture(error)
    return ModelError("model_invalid_answer", f"the model's answer cannot be read: {error}")


def _status_posture(error: openai.APIStatusError) -> ModelError:
    status = error.status_code
    asked = error.response.headers.get("x-should-retry")
    retryable = status in RETRYABLE_STATUS or status >= 500
    if asked in ("true", "false"):
        retryable = asked == "true"
    return ModelError(
        f"model_http_{status}", f"{status}: {error.message}", retryable=retryable, retry_after=_retry_after(error)
    )


def _retry_after(error: openai.APIStatusError) -> float | None:
    """Return the seconds the provider asks to wait, when it says so in a number we are ready to wait."""
    headers = error.response.headers
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(headers.get(name, "")) * scale
        except ValueError:
            continue
        if 0 <= seconds <= RETRY_AFTER_LIMIT:
            return seconds
    return None
