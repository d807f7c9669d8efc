"""The dialects of model calls, tools and searches, each read into the same events. Pure."""

import json
from typing import Any

import pytest

from tests.ingest.otlp.mapped import OPERATION, ROLE, draft, one, told
from tests.ingest.otlp.sending import TRACE, event_of, span_id

OPENINFERENCE = {
    ROLE: "LLM",
    "llm.model_name": "gpt-4o",
    "llm.provider": "openai",
    "llm.input_messages.0.message.role": "system",
    "llm.input_messages.0.message.content": "Be brief.",
    "llm.input_messages.1.message.role": "user",
    "llm.input_messages.1.message.contents.0.message_content.type": "text",
    "llm.input_messages.1.message.contents.0.message_content.text": "Where is my order?",
    "llm.input_messages.2.message.role": "assistant",
    "llm.input_messages.2.message.tool_calls.0.tool_call.id": "c-1",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.name": "find_order",
    "llm.input_messages.2.message.tool_calls.0.tool_call.function.arguments": '{"id": 7}',
    "llm.input_messages.3.message.role": "tool",
    "llm.input_messages.3.message.content": "shipped",
    "llm.input_messages.3.message.tool_call_id": "c-1",
    "llm.output_messages.0.message.role": "assistant",
    "llm.output_messages.0.message.content": "It was shipped.",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.name": "close",
    "llm.output_messages.0.message.tool_calls.0.tool_call.function.arguments": "{}",
    "llm.token_count.prompt": 40,
    "llm.token_count.completion": 6,
    "llm.token_count.total": 46,
    "llm.token_count.prompt_details.cache_read": 8,
    "llm.token_count.completion_details.reasoning": 2,
    "llm.finish_reason": "stop",
}
TO_136 = {
    OPERATION: "chat",
    "gen_ai.system": "openai",
    "gen_ai.request.model": "gpt-4o",
    "gen_ai.prompt.0.role": "system",
    "gen_ai.prompt.0.content": "Be brief.",
    "gen_ai.prompt.1.role": "user",
    "gen_ai.prompt.1.content": "Where is my order?",
    "gen_ai.prompt.2.role": "assistant",
    "gen_ai.prompt.2.tool_calls.0.id": "c-1",
    "gen_ai.prompt.2.tool_calls.0.name": "find_order",
    "gen_ai.prompt.2.tool_calls.0.arguments": '{"id": 7}',
    "gen_ai.prompt.3.role": "tool",
    "gen_ai.prompt.3.content": "shipped",
    "gen_ai.prompt.3.tool_call_id": "c-1",
    "gen_ai.completion.0.role": "assistant",
    "gen_ai.completion.0.content": "It was shipped.",
    "gen_ai.completion.0.finish_reason": "stop",
    "gen_ai.completion.0.tool_calls.0.name": "close",
    "gen_ai.completion.0.tool_calls.0.arguments": "{}",
    "gen_ai.usage.prompt_tokens": 40,
    "gen_ai.usage.completion_tokens": 6,
    "gen_ai.usage.cache_read_input_tokens": 8,
}
WANTED = {"type": "tool_call", "id": "c-1", "name": "find_order", "arguments": '{"id": 7}'}
PARTS = [
    {"role": "user", "parts": [{"type": "text", "content": "Where is my order?"}]},
    {
        "role": "assistant",
        "parts": [{"type": "tool_call", "id": "c-1", "name": "find_order", "arguments": '{"id": 7}'}],
    },
    {"role": "tool", "parts": [{"type": "tool_call_response", "id": "c-1", "response": "shipped"}]},
]
ANSWER = [
    {
        "role": "assistant",
        "parts": [
            {"type": "text", "content": "It was shipped."},
            {"type": "tool_call", "name": "close", "arguments": "{}"},
        ],
        "finish_reason": "stop",
    }
]
FROM_137 = {
    OPERATION: "chat",
    "gen_ai.provider.name": "openai",
    "gen_ai.response.model": "gpt-4o",
    "gen_ai.system_instructions": json.dumps([{"type": "text", "content": "Be brief."}]),
    "gen_ai.input.messages": json.dumps(PARTS),
    "gen_ai.output.messages": json.dumps(ANSWER),
    "gen_ai.response.finish_reasons": ["stop"],
    "gen_ai.usage.input_tokens": 40,
    "gen_ai.usage.output_tokens": 6,
    "gen_ai.usage.cache_read.input_tokens": 8,
    "gen_ai.usage.reasoning.output_tokens": 2,
}
STRUCTURED = FROM_137 | {"gen_ai.input.messages": PARTS, "gen_ai.output.messages": ANSWER}
CALL = {"id": "c-1", "type": "function", "function": {"name": "find_order", "arguments": '{"id": 7}'}}
EVENTS = [
    event_of("gen_ai.system.message", {"content": "Be brief."}),
    event_of("gen_ai.user.message", {"content": "Where is my order?"}),
    event_of("gen_ai.assistant.message", {"tool_calls": json.dumps([CALL])}),
    event_of("gen_ai.tool.message", {"content": "shipped", "id": "c-1"}),
    event_of("something.else", {"a": 1}),
    event_of(
        "gen_ai.choice",
        {
            "index": 0,
            "finish_reason": "stop",
            "message": json.dumps(
                {
                    "role": "assistant",
                    "content": "It was shipped.",
                    "tool_calls": [{"function": {"name": "close", "arguments": "{}"}}],
                }
            ),
        },
    ),
]
AS_EVENTS = {
    OPERATION: "chat",
    "gen_ai.system": "openai",
    "gen_ai.response.model": "gpt-4o",
    "gen_ai.usage.input_tokens": 40,
    "gen_ai.usage.output_tokens": 6,
    "gen_ai.response.finish_reasons": ["stop"],
}


@pytest.mark.parametrize(
    ("attributes", "events"),
    [(OPENINFERENCE, []), (TO_136, []), (FROM_137, []), (STRUCTURED, []), (AS_EVENTS, EVENTS)],
    ids=["openinference", "genai up to 1.36", "genai from 1.37", "structured", "span events"],
)
def test_every_dialect_says_the_same_of_a_model_call(attributes: dict[str, Any], events: list[Any]) -> None:
    """Five ways to write it down, one event: messages by role, calls by name, tokens as the provider counted."""
    data = one(attributes, events=events).data
    assert data["new_messages"] == [
        {"role": "system", "text": "Be brief."},
        {"role": "user", "text": "Where is my order?"},
        {
            "role": "assistant",
            "text": "",
            "calls": [{"call_id": "c-1", "name": "find_order", "arguments": '{"id": 7}'}],
        },
        {"role": "tool", "text": "shipped", "call_id": "c-1"},
    ]
    assert (data["n_messages"], data["n_kept"], data["text"]) == (4, 0, "It was shipped.")
    assert data["calls"] == [{"call_id": "", "name": "close", "arguments": "{}"}]
    assert (data["model"], data["provider"], data["finish_reason"]) == ("gpt-4o", "openai", "stop")
    assert (data["input_tokens"], data["output_tokens"], data["duration_ms"]) == (40, 6, 1_000)
    assert data.get("cached_tokens", 8) == 8 and data.get("reasoning_tokens", 2) == 2
    assert data["span"]["attributes"].keys() <= {ROLE, OPERATION, "llm.token_count.total"}
    assert [event["name"] for event in data["span"].get("events", [])] == (["something.else"] if events else [])


def test_messages_go_to_the_store_and_the_event_names_them() -> None:
    """A conversation that is sent again with every turn costs its new messages only."""
    turns = [PARTS[: number + 1] for number in range(3)]
    drafts = [draft(one(FROM_137 | {"gen_ai.input.messages": json.dumps(turn)})) for turn in turns]
    bodies = {message.hash for made in drafts for message in made.messages}
    assert [len(made.messages) for made in drafts] == [3, 4, 5]  # with instructions and resource
    assert len(bodies) == 5
    assert not any("Where is my order" in str(made.columns) for made in drafts)


def test_parts_that_no_text_can_express_are_kept() -> None:
    """An image or a thought stands beside the text of its message."""
    image = {"type": "blob", "mime_type": "image/png", "content": "iVBORw0KGgo="}
    thought = {"type": "reasoning", "content": "hm"}
    sent = [{"role": "user", "parts": [{"type": "text", "content": "See:"}, image]}]
    answer = [{"role": "assistant", "parts": [thought, {"type": "text", "content": "Nice."}]}]
    data = one(
        FROM_137 | {"gen_ai.input.messages": json.dumps(sent), "gen_ai.output.messages": json.dumps(answer)}
    ).data
    assert data["new_messages"][1] == {"role": "user", "text": "See:", "parts": [image]}
    assert (data["text"], data["parts"]) == ("Nice.", [thought])


@pytest.mark.parametrize(
    "value", ["no json", "[1, 2]", '"text"', "{}", "[]", "[" * 2_000, 7, True, [1], {"a": 1}]
)  # fmt: skip
def test_messages_that_are_none_stay_attributes(value: Any) -> None:
    """What is no list of messages is kept as it was sent, and the span with it."""
    attributes = {OPERATION: "chat", "gen_ai.input.messages": value, "gen_ai.output.messages": value}
    event = one(attributes)
    assert event.data["new_messages"] == []
    assert told(event)["attributes"] == attributes
    assert draft(event).run_id == TRACE.hex()


def test_a_model_span_without_messages_tells_its_input_and_output() -> None:
    """Plain input is the one message; raw JSON of a request is none."""
    plain = one({ROLE: "LLM", "input.value": "hi", "input.mime_type": "text/plain", "output.value": "hello"})
    assert (plain.data["new_messages"], plain.data["text"]) == ([{"role": "user", "text": "hi"}], "hello")
    raw = one({ROLE: "LLM", "input.value": '{"messages": []}', "input.mime_type": "application/json"})
    assert (raw.data["new_messages"], told(raw)["attributes"]["input.value"]) == ([], '{"messages": []}')


@pytest.mark.parametrize("count", [-1, str(2**63), "many", 1.5, True, float("nan"), [3], None])
def test_a_count_that_is_none_stays_an_attribute(count: Any) -> None:
    """A count that cannot be one is in no sum and is not lost."""
    event = one({ROLE: "LLM", "llm.token_count.prompt": count, "gen_ai.usage.output_tokens": "12"})
    assert "input_tokens" not in event.data
    assert "llm.token_count.prompt" in told(event)["attributes"]
    assert event.data["output_tokens"] == 12


ABOUT = {"id": "d-1", "score": 0.9, "metadata": {"lang": "en"}}
FOUND = [{**ABOUT, "content": "Run git init first"}, {"content": "second"}]


@pytest.mark.parametrize(
    "attributes",
    [
        {
            ROLE: "RETRIEVER",
            "input.value": "not a repository",
            "retrieval.documents.1.document.content": "second",
            "retrieval.documents.0.document.id": "d-1",
            "retrieval.documents.0.document.content": "Run git init first",
            "retrieval.documents.0.document.score": 0.9,
            "retrieval.documents.0.document.metadata": '{"lang": "en"}',
        },
        {
            OPERATION: "retrieval",
            "gen_ai.retrieval.query.text": "not a repository",
            "gen_ai.retrieval.documents": json.dumps(FOUND),
        },
        {
            OPERATION: "search_memory",
            "gen_ai.memory.query.text": "not a repository",
            "gen_ai.memory.records": FOUND,
        },
    ],
)
def test_searches_tell_query_and_documents_in_order(attributes: dict[str, Any]) -> None:
    """Flattened, as JSON text and as a list: the same documents."""
    event = one(attributes)
    assert (event.ids["type"], event.ids["activation_id"]) == ("hint.query", span_id(1).hex())
    assert (event.data["trigger"], event.data["query"]) == ("agent.search", "not a repository")
    assert event.data["documents"] == [{**ABOUT, "text": "Run git init first"}, {"text": "second"}]
    assert (event.data["n_retrieved"], event.data["result"]) == (2, "success")
    assert told(event)["attributes"].keys() <= {ROLE, OPERATION}


def test_a_search_that_finds_nothing_and_one_that_fails() -> None:
    """Empty and failed are told apart."""
    empty, failed = one({ROLE: "RETRIEVER"}), one({ROLE: "RETRIEVER"}, status={"code": 2, "message": "503"})
    assert (empty.data["result"], empty.data["documents"]) == ("empty", [])
    assert (failed.data["result"], failed.data["error"]) == ("error", "503")


def test_rerankers_tell_what_went_in_and_what_came_out() -> None:
    """The difference of the two lists is what was dropped."""
    listed = {f"reranker.input_documents.{n}.document.id": f"d-{n}" for n in range(3)}
    attributes = {ROLE: "RERANKER", "reranker.query": "q", **listed, "reranker.output_documents.0.document.id": "d-2"}
    event = one(attributes)
    assert (event.ids["type"], told(event)["kind"], event.data["query"]) == ("span", "reranker", "q")
    assert event.data["input_documents"] == [{"id": "d-0"}, {"id": "d-1"}, {"id": "d-2"}]
    assert event.data["output_documents"] == [{"id": "d-2"}]


def test_what_is_said_twice_word_for_word_is_kept_once() -> None:
    """The field holds it and `moved` names both; what differs by a letter is no repetition."""
    again = {"input.value": "shipped", "output.value": "It was shipped."}
    repeated = one(OPENINFERENCE | again)
    assert not again.keys() & told(repeated)["attributes"].keys()
    assert told(repeated)["moved"]["text"] == "llm.output_messages, output.value"
    other = {"input.value": "shipped!", "output.value": "It was shipped"}
    assert other.items() <= told(one(OPENINFERENCE | other))["attributes"].items()
    tool = one({ROLE: "TOOL", "input.value": "{}", "tool.parameters": "{}"})
    assert told(tool)["moved"]["arguments"] == "input.value, tool.parameters"


def test_structures_inside_json_text_have_an_end() -> None:
    """Arguments and parts nested hundreds deep in JSON text are cut like everything else."""
    deep: list[Any] = []
    for _ in range(900):
        deep = [deep]
    parts = [{"type": "tool_call", "name": "f", "arguments": deep}, {"type": "odd", "content": deep}]
    event = one({OPERATION: "chat", "gen_ai.input.messages": json.dumps([{"role": "assistant", "parts": parts}])})
    assert "[nested deeper than 64 levels]" in event.data["new_messages"][0]["calls"][0]["arguments"]
    assert list(draft(event).repairs) == ["nesting"]


def test_a_search_is_named_by_its_scope() -> None:
    """What looked is the version of the algorithm that Observation did not run."""
    assert one({ROLE: "RETRIEVER"}).data["algorithm_version"] == "tests 1.2"


def test_fields_of_a_document_that_we_do_not_know_are_kept() -> None:
    """Under `more`, so that they are in nobody's way."""
    listed = json.dumps([{"id": "d-1", "rank": 3, "document_id": "other"}])
    event = one({OPERATION: "retrieval", "gen_ai.retrieval.documents": listed})
    assert event.data["documents"] == [{"id": "d-1", "more": {"rank": 3, "document_id": "other"}}]


def test_a_raw_request_beside_the_messages_costs_nothing_twice() -> None:
    """Its messages go with those that were told, with all that a text does not say; the rest of it stays."""
    image = {"type": "image_url", "image_url": {"url": "https://example.org/a.png"}}
    raw = {"model": "m", "messages": [{"role": "user", "content": "hi"}, {"role": "user", "content": [image]}]}
    flat = {
        "llm.input_messages.0.message.role": "user",
        "llm.input_messages.0.message.content": "hi",
        "llm.input_messages.1.message.role": "user",
        "llm.input_messages.1.message.contents.0.message_content.type": "image",
    }
    event = one({ROLE: "LLM", "input.value": json.dumps(raw), **flat})
    first, second = event.data["new_messages"]
    assert first == {"role": "user", "text": "hi"}
    assert second["raw"] == {"role": "user", "content": [image]}
    left = json.loads(told(event)["attributes"]["input.value"])
    assert left == {"model": "m", "messages": "[2 messages, kept apart]"}
    assert told(event)["moved"]["new_messages"] == "llm.input_messages, input.value.messages"


def test_a_raw_request_of_other_messages_stays_whole() -> None:
    """Where the two lists differ in number, neither stands for the other."""
    raw = json.dumps({"messages": [{"role": "user", "content": "hi"}] * 2})
    flat = {"llm.input_messages.0.message.role": "user", "llm.input_messages.0.message.content": "hi"}
    assert told(one({ROLE: "LLM", "input.value": raw, **flat}))["attributes"]["input.value"] == raw
