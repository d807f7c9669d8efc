"""What an OTLP sender is answered, in the type it sent: an export response, or a Status that says what is wrong. Pure.

A Status carries an ErrorInfo with our code, the field and the limit, so that a program can read them. (Seed 001 §13.)
"""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from google.protobuf.json_format import MessageToJson
from google.protobuf.message import Message
from google.rpc.error_details_pb2 import ErrorInfo
from google.rpc.status_pb2 import Status
from opentelemetry.proto.collector.logs.v1.logs_service_pb2 import ExportLogsServiceResponse
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceResponse

PROTOBUF: Final = "application/x-protobuf"
JSON: Final = "application/json"
_REASONS_NAMED: Final = 3
# HTTP status -> google.rpc.Code
_CODES: Final = {400: 3, 401: 16, 403: 7, 404: 5, 405: 12, 413: 3, 415: 3, 429: 8, 503: 14}
_INTERNAL: Final = 13


def traces_answer(n_rejected: int, reasons: Sequence[str]) -> Message:
    """Return the answer to spans: empty when all were taken."""
    answer = ExportTraceServiceResponse()
    if n_rejected:
        answer.partial_success.rejected_spans = n_rejected
        answer.partial_success.error_message = _message(n_rejected, "spans", reasons)
    return answer


def logs_answer(n_rejected: int, reasons: Sequence[str]) -> Message:
    """Return the answer to log records: empty when all were taken."""
    answer = ExportLogsServiceResponse()
    if n_rejected:
        answer.partial_success.rejected_log_records = n_rejected
        answer.partial_success.error_message = _message(n_rejected, "log records", reasons)
    return answer


def status_answer(http_status: int, body: Mapping[str, Any]) -> Message:
    """Return the Status of a refusal whose native body is {"code", "detail", …}."""
    status = Status(code=_CODES.get(http_status, _INTERNAL), message=str(body.get("detail", "")))
    told = {name: str(value) for name, value in body.items() if name not in ("code", "detail")}
    info = ErrorInfo(reason=str(body.get("code", "")).upper(), domain="temporality", metadata=told)
    status.details.add().Pack(info)
    answer: Message = status
    return answer


def written(answer: Message, as_json: bool) -> bytes:
    """Return the bytes of an answer."""
    return MessageToJson(answer, indent=None).encode() if as_json else answer.SerializeToString()


def _message(n_rejected: int, what: str, reasons: Sequence[str]) -> str:
    """Name the first different reasons; all of them are listed at /v1/rejects."""
    different = list(dict.fromkeys(reasons))
    named = "; ".join(different[:_REASONS_NAMED])
    more = f"; and {len(different) - _REASONS_NAMED} more reasons" if len(different) > _REASONS_NAMED else ""
    return f"{n_rejected} {what} rejected: {named}{more}. GET /v1/rejects lists each; sending them again does not help"
