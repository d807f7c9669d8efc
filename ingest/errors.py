"""The one error of ingest: a stable code, an HTTP status and a sentence for a person."""


class IngestError(Exception):
    """A request or an event that is not accepted: a stable `code`, an HTTP `status`, a sentence for a person.

    `detail` names the field, the limit and the fix; it never repeats what was sent. `extra` is merged into the
    body (for example `{"limit": 1000}`).
    """

    def __init__(self, code: str, status: int, detail: str, **extra: object) -> None:
        super().__init__(detail)
        self.code = code
        self.status = status
        self.detail = detail
        self.extra = extra
