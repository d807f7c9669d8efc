"""`POST /v1/traces` and `POST /v1/logs`: OTLP over HTTP, in protobuf and JSON.

A 200 means committed in PostgreSQL; what was rejected is counted and named in it. Only a 429 or 503 asks the sender to
try again. (Seed 001 §7.3, §13.)
"""

from datetime import UTC, datetime
from typing import Any

from django.conf import settings
from django.http import HttpResponse
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import extend_schema
from google.protobuf.message import Message
from rest_framework.exceptions import MethodNotAllowed
from rest_framework.request import Request
from rest_framework.response import Response

from ingest import openapi, quota
from ingest.accept import Rejection, Sender, accept_drafts, limits, rules_of
from ingest.at_once import reading
from ingest.bodies import read_body
from ingest.errors import IngestError
from ingest.machine_view import MachineView, key_of
from ingest.models import ApiKey
from ingest.otlp import answers
from ingest.otlp.answers import JSON, PROTOBUF
from ingest.otlp.intake import LOGS, TRACES, Signal, check_number, decode, make_drafts
from ingest.otlp.records import Refused
from ingest.times import to_nanoseconds
from ingest.wire import check_media_type, inflate

_PROTOBUF_NAMES = (PROTOBUF, "application/protobuf", "application/vnd.google.protobuf")
_SHAPES = {JSON: OpenApiTypes.OBJECT, PROTOBUF: OpenApiTypes.BINARY}
_REFUSALS = (400, 401, 403, 413, 415, 429, 503)
_RESPONSES = {(status, media): shape for status in (200, *_REFUSALS) for media, shape in _SHAPES.items()}


class OtlpView(MachineView):
    """What both signals do alike; answers and errors are of the type of the request."""

    required_scope = "ingest"
    signal: Signal

    def initial(self, request: Request, *arguments: Any, **named: Any) -> None:
        if request.method not in ("POST", "OPTIONS"):
            raise MethodNotAllowed(str(request.method))
        super().initial(request, *arguments, **named)

    def receive(self, request: Request) -> HttpResponse:
        """Store what the request holds and answer how much of it was taken."""
        as_json = _is_json(request)
        key = key_of(request)
        bounds = limits()
        sent = read_body(request, bounds.max_body_bytes)
        quota.check(key, 0)
        body = inflate(sent, request.headers.get("Content-Encoding", ""), bounds.max_body_bytes) if sent else b""
        if not body.strip() if as_json else not body:
            return _answered(self.answer([]), as_json)
        with reading(body):
            refused = self._store(key, body, as_json)
        return _answered(self.answer(refused), as_json)

    def _store(self, key: ApiKey, body: bytes, as_json: bool) -> list[Refused]:
        counted = decode(self.signal, body, as_json)
        check_number(counted, settings.INGEST_MAX_SPANS)
        quota.check(key, counted.n_records)
        received, extra = datetime.now(UTC), rules_of(key.project_id)
        drafts, refused = make_drafts(self.signal, counted, to_nanoseconds(received), limits(), extra)
        rejections = [Rejection(item.index, item.event_id, item.run_id, item.code, item.detail) for item in refused]
        accept_drafts(Sender(key.project_id, f"otlp_{self.signal.name}", key.pk), drafts, rejections, received)
        return refused

    def answer(self, refused: list[Refused]) -> Message:
        """Return the export response that names what was refused."""
        reasons = [f"[{item.index}] {item.detail}" for item in refused]
        made = answers.traces_answer if self.signal is TRACES else answers.logs_answer
        return made(len(refused), reasons)

    def handle_exception(self, exc: Exception) -> Response:
        """Turn the refusal that other addresses answer in JSON into a Status of the type of the request."""
        response = super().handle_exception(exc)
        status = answers.status_answer(response.status_code, response.data or {})
        answered = _answered(status, _sends_json(self.request), response.status_code)
        for name, value in response.headers.items():
            if name != "Content-Type":
                answered[name] = value
        return answered  # type: ignore[return-value]  # DRF passes on any HttpResponse


class TracesView(OtlpView):
    """Store OTLP spans: each ended span is one event of the run of its trace.

    200: taken and committed; `partialSuccess` counts and names the spans that were rejected.
    """

    signal = TRACES

    @extend_schema(
        request=_SHAPES, responses=_RESPONSES, parameters=[openapi.RETRY_AFTER], operation_id="send_traces",
        summary="Store OTLP spans", tags=["send"],
    )  # fmt: skip
    def post(self, request: Request) -> HttpResponse:
        return self.receive(request)


class LogsView(OtlpView):
    """Store OTLP log records: each is one event of the run of its trace.

    200: taken and committed; `partialSuccess` counts and names the records that were rejected.
    """

    signal = LOGS

    @extend_schema(
        request=_SHAPES, responses=_RESPONSES, parameters=[openapi.RETRY_AFTER], operation_id="send_logs",
        summary="Store OTLP log records", tags=["send"],
    )  # fmt: skip
    def post(self, request: Request) -> HttpResponse:
        return self.receive(request)


def _media_type(request: Request) -> str:
    return str(request.headers.get("Content-Type", "")).partition(";")[0].strip().lower()


def _sends_json(request: Request) -> bool:
    """Say whether an error is best told in JSON: to all but a sender of protobuf."""
    return _media_type(request) not in _PROTOBUF_NAMES


def _is_json(request: Request) -> bool:
    """Return whether the body is JSON. Raises IngestError 415 when it is declared as neither of the two."""
    media_type = _media_type(request)
    if media_type in _PROTOBUF_NAMES:
        return False
    if media_type != JSON:
        detail = f"send OTLP as Content-Type: {PROTOBUF} or {JSON}"
        raise IngestError("unsupported_type", 415, detail, field="Content-Type")
    check_media_type(request.headers.get("Content-Type", ""))
    return True


def _answered(answer: Message, as_json: bool, status: int = 200) -> HttpResponse:
    return HttpResponse(answers.written(answer, as_json), content_type=JSON if as_json else PROTOBUF, status=status)
