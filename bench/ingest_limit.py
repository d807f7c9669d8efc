"""What one Python thread could do at most: OTLP bytes to durable rows with nothing around it, and rows by COPY alone.

No HTTP, no key, no redaction, no check, no runs: decode, take the columns, attributes as JSON, COPY into a staging
table, INSERT … ON CONFLICT DO NOTHING, commit, request by request, into a table with one index. The rate of the
server is told as a share of this, which is the same on a fast and a slow machine.
"""

import time
from collections.abc import Iterator, Sequence
from typing import Any

import orjson
import psycopg
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.common.v1.common_pb2 import AnyValue

from bench.loads import Body

COLUMNS = (
    "trace_id text, span_id text, parent_span_id text, name text, kind smallint, status smallint, start_ns bigint,"
    " end_ns bigint, resource jsonb, attributes jsonb, events jsonb"
)
STAGED = f"CREATE TEMPORARY TABLE bench_staged ({COLUMNS}) ON COMMIT DELETE ROWS"
TABLE = f"CREATE TABLE bench_span ({COLUMNS}, PRIMARY KEY (trace_id, span_id))"
MOVE = "INSERT INTO bench_span SELECT * FROM bench_staged ON CONFLICT DO NOTHING"
BLOCK_ROWS = 512


def limit_rate(dsn: str, bodies: Sequence[Body]) -> float:
    """Return the spans a second of one thread, the table made and dropped."""
    with psycopg.connect(dsn) as connection:
        connection.execute(TABLE.encode())
        connection.execute(STAGED.encode())
        connection.commit()
        begin = time.perf_counter()
        for body in bodies:
            with connection.cursor() as cursor:
                with cursor.copy("COPY bench_staged FROM STDIN") as copy:
                    for row in span_rows(body.content):
                        copy.write_row(row)
                cursor.execute(MOVE)
            connection.commit()
        seconds = time.perf_counter() - begin
        stored = connection.execute("SELECT count(*) FROM bench_span").fetchone()
        connection.execute("DROP TABLE bench_span")
    n_spans = sum(body.n_items for body in bodies)
    if stored is None or stored[0] != n_spans:
        raise RuntimeError(f"the limit stored {stored} of {n_spans} spans")
    return n_spans / seconds


def span_rows(content: bytes) -> Iterator[tuple[Any, ...]]:
    """Yield one request's spans as rows."""
    request = ExportTraceServiceRequest.FromString(content)
    for resource_spans in request.resource_spans:
        resource = _json({pair.key: _plain(pair.value) for pair in resource_spans.resource.attributes})
        for scope_spans in resource_spans.scope_spans:
            for span in scope_spans.spans:
                yield (
                    span.trace_id.hex(),
                    span.span_id.hex(),
                    span.parent_span_id.hex() or None,
                    span.name,
                    span.kind,
                    span.status.code,
                    span.start_time_unix_nano,
                    span.end_time_unix_nano,
                    resource,
                    _json({pair.key: _plain(pair.value) for pair in span.attributes}),
                    _json([[event.name, event.time_unix_nano] for event in span.events]) if span.events else None,
                )


def _json(value: Any) -> str:
    return orjson.dumps(value).decode()


def _plain(value: AnyValue) -> Any:
    kind = value.WhichOneof("value")
    if kind == "array_value":
        return [_plain(part) for part in value.array_value.values]
    if kind == "kvlist_value":
        return {pair.key: _plain(pair.value) for pair in value.kvlist_value.values}
    return getattr(value, kind) if kind else None


def copy_rate(dsn: str, n_rows: int) -> float:
    """Return the rows a second at which rows of the journal, ready as text, go into a table like it by COPY alone."""
    with psycopg.connect(dsn) as connection:
        connection.execute("CREATE TABLE bench_journal (LIKE ingest_event INCLUDING ALL)")
        connection.commit()
        read = f"COPY (SELECT * FROM ingest_event LIMIT {n_rows}) TO STDOUT".encode()
        with connection.cursor() as cursor, cursor.copy(read) as copy:
            rows = [bytes(block) for block in copy]
        begin = time.perf_counter()
        for start in range(0, len(rows), BLOCK_ROWS):
            with connection.cursor() as cursor, cursor.copy("COPY bench_journal FROM STDIN") as copy:
                copy.write(b"".join(rows[start : start + BLOCK_ROWS]))
            connection.commit()
        seconds = time.perf_counter() - begin
        connection.execute("DROP TABLE bench_journal")
    return len(rows) / seconds
