"""A small agent as customers have them: the openai client, an instrumentation, exporters set by environment alone.

Run as `python -m tests.ingest.otlp.agent <openinference|genai|plain> <model address>`; prints its trace id.
"""

import json
import logging
import sys

from openai import OpenAI
from openinference.instrumentation.openai import OpenAIInstrumentor as OpenInference
from opentelemetry import trace
from opentelemetry._logs import set_logger_provider
from opentelemetry.exporter.otlp.proto.http._log_exporter import OTLPLogExporter
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.instrumentation.openai_v2 import OpenAIInstrumentor as GenAI
from opentelemetry.sdk._logs import LoggerProvider, LoggingHandler
from opentelemetry.sdk._logs.export import BatchLogRecordProcessor
from opentelemetry.sdk.trace import TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor

TOOLS = [{"type": "function", "function": {"name": "find_order", "parameters": {"type": "object", "properties": {}}}}]
ROOT = {
    "openinference": {"openinference.span.kind": "AGENT", "input.value": "Where is order 7?"},
    "genai": {"gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": "clerk"},
    "plain": {},
}
TOOL = {
    "openinference": {"openinference.span.kind": "TOOL", "tool.name": "find_order"},
    "genai": {"gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": "find_order", "gen_ai.tool.call.id": "c-1"},
    "plain": {},
}


def main(dialect: str, model_url: str) -> None:
    spans = TracerProvider()
    spans.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    records = LoggerProvider()
    records.add_log_record_processor(BatchLogRecordProcessor(OTLPLogExporter()))
    trace.set_tracer_provider(spans)
    set_logger_provider(records)
    if dialect == "openinference":
        OpenInference().instrument(tracer_provider=spans)
    if dialect == "genai":
        GenAI().instrument(tracer_provider=spans, logger_provider=records)
    work(dialect, OpenAI(base_url=model_url, api_key="sk-unused", max_retries=0), records)
    spans.shutdown()
    records.shutdown()


def work(dialect: str, client: OpenAI, records: LoggerProvider) -> None:
    """Ask the model, run the tool it wants, ask again."""
    logger = logging.getLogger("clerk")
    logger.addHandler(LoggingHandler(logger_provider=records))
    tracer = trace.get_tracer("clerk", "1.0")
    with tracer.start_as_current_span("clerk", attributes=ROOT[dialect]) as root:
        messages: list = [{"role": "user", "content": "Where is order 7?"}]
        asked = client.chat.completions.create(model="gpt-4o", messages=messages, tools=TOOLS).choices[0].message
        with tracer.start_as_current_span("execute_tool find_order", attributes=TOOL[dialect]) as tool:
            logger.warning("order %s is slow to find", 7)
            tool.record_exception(TimeoutError("after 30 s"))
            tool.set_status(trace.StatusCode.ERROR, "after 30 s")
        messages += [
            asked.model_dump(exclude_none=True),
            {"role": "tool", "tool_call_id": "c-1", "content": "timed out"},
        ]
        client.chat.completions.create(model="gpt-4o", messages=messages, tools=TOOLS)
    print(json.dumps({"trace_id": f"{root.get_span_context().trace_id:032x}"}))


if __name__ == "__main__":
    main(*sys.argv[1:])
