"""What can go wrong between a program and Observation, as typed errors whose words hold no key and no sent text."""


class ObservationError(Exception):
    """A call that was not answered as asked. `result` is the word of the activation: timeout or error."""

    result = "error"

    def __init__(self, detail: str, *, retry_after: float | None = None) -> None:
        super().__init__(detail)
        self.detail = detail
        self.retry_after = retry_after  # seconds, when the server said so


class ObservationTimeout(ObservationError):
    """No answer within the time allowed."""

    result = "timeout"


class ObservationUnreachable(ObservationError):
    """The connection could not be made, or was lost before the answer was whole."""


class ObservationRefused(ObservationError):
    """The server answered with another status than asked: its status, its code, the field it names."""

    def __init__(self, status: int, code: str, field: str, detail: str, *, retry_after: float | None = None) -> None:
        super().__init__(detail, retry_after=retry_after)
        self.status = status
        self.code = code
        self.field = field

    def __str__(self) -> str:
        return " ".join(part for part in (str(self.status), self.code, self.detail) if part)


class BadAnswer(ObservationError):
    """The answer is not of the agreed shape; the text names what is wrong with it."""


class NotSendable(ObservationError):
    """The request cannot be written as JSON, so nothing was sent."""
