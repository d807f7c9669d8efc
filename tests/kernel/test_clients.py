"""The clients of Observation and ingest against real HTTP servers, the hostile ones included."""

import asyncio
import json
from typing import Any

import pytest

from kernel.edge.observation_client import ObservationClient
from kernel.edge.telemetry_client import MAX_EVENTS, TelemetryClient, batches
from kernel.messages import FetchHints, HintAnswer, HintRequest, SuppressedItem
from tests.kernel.http_server import Answer, Asked, local_server

REQUESTS = tuple(
    HintRequest(
        activation_id=f"r:a{number}",
        trigger="tool.failed",
        source_event_id="r:7",
        run_id="r",
        task_id="task-1",
        actor_id="agent",
        team_root=None,
        query="Release the package",
        tool="shell",
        tool_result="fatal: not a git repository",
        error_class="exit_nonzero",
        issued_knowledge_ids=("k-9",),
        suppressed=(SuppressedItem("k-8", 1),),
        activation_tokens=400,
        run_tokens=1600,
        hint_limit=2,
        tool_arguments="git status" if number == 1 else "",
    )
    for number in (1, 2)
)
HINT = {
    "hint_id": "r:a1:h1",
    "knowledge_id": "k-1",
    "revision": 3,
    "proposition": "Run `git init` first.",
    "state": "confirmed",
    "matched_by": ["terms"],
    "scores": {"terms": 3},
    "caution": None,
    "tokens": 6,
    "rank": 1,
}


def answer_of(activation_id: str, *hints: Any) -> dict[str, Any]:
    return {
        "activation_id": activation_id,
        "matcher": "lexical",
        "algorithm_version": "lexical-entity-topic.v2",
        "count": len(hints),
        "hints": list(hints),
        "counts": {"retrieved": 5, "offered": len(hints)},
        "dropped": [],
    }


GOOD = {"answers": [answer_of("r:a1", HINT), answer_of("r:a2")]}


async def fetch(answer: Answer, timeout_ms: int = 5_000) -> tuple[tuple[HintAnswer, ...], list[Asked]]:
    with local_server(lambda asked: answer) as server:
        client = ObservationClient(server.url, "tk_key")
        answers = await client.fetch(FetchHints("r", REQUESTS, timeout_ms))
        await client.close()
    return answers, server.asked


async def test_one_call_answers_all_activations() -> None:
    """All requests of a boundary travel in one call with the key, and each gets its answer."""
    answers, asked = await fetch(Answer(body=GOOD))
    [request] = asked
    assert request.path == "/v1/observations/hints/batch"
    assert request.headers["authorization"] == "Bearer tk_key"
    first = request.body["requests"][0]
    assert first["budget"] == {"activation_tokens": 400, "run_tokens": 1600, "hint_limit": 2}
    assert (first["activation_source_id"], first["issued_knowledge_ids"]) == ("r:7", ["k-9"])
    assert "mcp_server" not in first and "team_root" not in first
    assert [one.get("tool_arguments") for one in request.body["requests"]] == ["git status", None]
    assert [answer.result for answer in answers] == ["success", "empty"]
    [hint] = answers[0].hints
    assert (hint.hint_id, hint.knowledge_id, hint.revision, hint.caution) == ("r:a1:h1", "k-1", 3, "")
    assert (answers[0].n_retrieved, answers[0].algorithm_version) == (5, "lexical-entity-topic.v2")


@pytest.mark.parametrize(
    "answer",
    [
        Answer(500),
        Answer(503, {"code": "hints_paused", "detail": "switched off"}),
        Answer(401, b"<html>"),
        Answer(302, headers={"Location": "/elsewhere"}),
        Answer(body=b"nonsense"),
        Answer(body=b"[" * 100_000),
        Answer(body=[]),
        Answer(body={"answers": None}),
        Answer(body={"answers": [answer_of("r:a1")]}),
        Answer(body=b'{"answers": "' + b"x" * 3_000_000 + b'"}'),
        Answer(headers={"Content-Encoding": "gzip"}, body=b"not gzip"),
    ],
    ids=lambda answer: f"{answer.status}-{str(answer.body)[:20]}",
)
async def test_a_failed_call_is_an_error_of_every_activation(answer: Answer) -> None:
    """Whatever comes instead of an answer, each activation has the result error with a short reason."""
    answers, asked = await fetch(answer)
    assert len(asked) == 1, "one attempt"
    assert [(one.activation_id, one.result, one.hints) for one in answers] == [
        ("r:a1", "error", ()),
        ("r:a2", "error", ()),
    ]
    assert all(0 < len(one.error) <= 300 for one in answers)


async def test_the_reason_is_the_machine_word_of_the_error() -> None:
    """A switched-off Observation is named by status and code; the rest of the body is not repeated."""
    answers, _ = await fetch(Answer(503, {"code": "hints_paused", "detail": "a long story"}))
    assert answers[0].error == "503 hints_paused"


async def test_silence_is_a_timeout() -> None:
    """No answer within the time is a timeout of every activation, and is not waited for longer."""
    answers, _ = await asyncio.wait_for(fetch(Answer(silent=True), timeout_ms=300), 60)
    assert [answer.result for answer in answers] == ["timeout", "timeout"]


async def test_nobody_listening_is_an_error() -> None:
    """An address where nothing answers is an error, not an exception."""
    client = ObservationClient("http://127.0.0.1:1", "tk_key")
    answers = await client.fetch(FetchHints("r", REQUESTS, 1_000))
    assert [answer.result for answer in answers] == ["error", "error"]
    await client.close()


@pytest.mark.parametrize(
    ("bad", "reason"),
    [
        ("nothing", "no object"),
        (answer_of("r:other", HINT), "activation_id"),
        ({**answer_of("r:a1"), "hints": {}}, "hints is no list"),
        (answer_of("r:a1", *[HINT] * 21), "21 hints"),
        (answer_of("r:a1", 3), "a hint is no object"),
        (answer_of("r:a1", {**HINT, "revision": True}), "revision"),
        (answer_of("r:a1", {**HINT, "proposition": ""}), "proposition is no text"),
        (answer_of("r:a1", {**HINT, "proposition": "x" * 5_000}), "the limit is 4096"),
        (answer_of("r:a1", {**HINT, "matched_by": "terms"}), "matched_by"),
        ({**answer_of("r:a1"), "counts": {"retrieved": -1}}, "counts.retrieved"),
    ],
)
async def test_one_bad_answer_costs_no_other(bad: Any, reason: str) -> None:
    """An answer of the wrong shape is an error that names the field; its neighbour is used."""
    good = answer_of("r:a2", {**HINT, "hint_id": "r:a2:h1"})
    answers, _ = await fetch(Answer(body={"answers": [bad, good]}))
    assert [answer.result for answer in answers] == ["error", "success"]
    assert reason in answers[0].error


async def test_text_no_encoding_can_hold_is_sent() -> None:
    """Half a surrogate pair in a diagnostic does not keep the request from being asked."""
    request = HintRequest("r:a1", "tool.failed", "r:7", "r", "", "agent", None, "half \ud800 pair")
    with local_server(lambda asked: Answer(body={"answers": [answer_of("r:a1")]})) as server:
        client = ObservationClient(server.url, "tk_key")
        [answer] = await client.fetch(FetchHints("r", (request,), 5_000))
        await client.close()
    assert answer.result == "empty"


EVENTS = [{"event_id": f"r:{number}", "run_id": "r", "type": "turn.started"} for number in range(3)]
ACCEPTED = Answer(body={"accepted": 3, "duplicates": 0, "rejected": []})


async def test_events_are_sent_with_the_key() -> None:
    """A batch goes out once and is counted as delivered."""
    with local_server(lambda asked: ACCEPTED) as server:
        client = TelemetryClient(server.url, "tk_key")
        report = await client.send(EVENTS)
        await client.close()
    [asked] = server.asked
    assert (asked.path, asked.body) == ("/v1/events", {"events": EVENTS})
    assert asked.headers["authorization"] == "Bearer tk_key"
    assert (report.n_delivered, client.counts["delivered"]) == (3, 3)


async def test_a_passing_failure_is_tried_again() -> None:
    """Statuses that pass are tried again, and the events arrive once."""
    answers = [Answer(503, {"code": "database_down"}, {"Retry-After": "0"}), Answer(429), ACCEPTED]
    with local_server(lambda asked: answers.pop(0)) as server:
        client = TelemetryClient(server.url, "tk_key")
        report = await client.send(EVENTS)
        await client.close()
    assert len(server.asked) == 3
    assert (report.n_delivered, report.n_undelivered) == (3, 0)


async def test_events_that_cannot_be_delivered_are_counted() -> None:
    """After the last attempt the events are reported as undelivered; nothing is raised."""
    with local_server(lambda asked: Answer(500)) as server:
        client = TelemetryClient(server.url, "tk_key")
        report = await client.send(EVENTS)
        await client.close()
    assert len(server.asked) == 3
    assert (report.n_undelivered, report.problem) == (3, "status 500")
    assert client.counts["undelivered"] == 3


async def test_a_refusal_is_not_repeated() -> None:
    """A wrong key is no passing failure: the events are refused once, by its code."""
    with local_server(lambda asked: Answer(401, {"code": "bad_key"})) as server:
        client = TelemetryClient(server.url, "tk_key")
        report = await client.send(EVENTS)
        await client.close()
    assert len(server.asked) == 1
    assert (report.n_rejected, report.problem) == (3, "status 401 bad_key")


async def test_rejected_events_are_logged_by_code(caplog: pytest.LogCaptureFixture) -> None:
    """Of a 207 the rejected events are counted and logged by index and code, never by content."""
    rejected = [{"index": 1, "event_id": "r:1", "code": "invalid_data", "detail": "the secret detail"}]
    with local_server(lambda asked: Answer(207, {"accepted": 2, "duplicates": 0, "rejected": rejected})) as server:
        client = TelemetryClient(server.url, "tk_key")
        report = await client.send(EVENTS)
        await client.close()
    assert (report.n_delivered, report.n_rejected, report.n_undelivered) == (2, 1, 0)
    assert "1: invalid_data" in caplog.text
    assert "secret" not in caplog.text


def test_batches_stay_within_the_limits() -> None:
    """Many events are split by number and large ones by size; none is lost and the order stays."""
    many = [{"event_id": str(number)} for number in range(1_201)]
    large = [{"event_id": str(number), "data": {"detail": "x" * 1_500_000}} for number in range(5)]
    for events in (many, large, []):
        sent = list(batches(events))
        assert all(count <= MAX_EVENTS and len(body) < 8 * 1024 * 1024 for count, body in sent)
        assert [event for _, body in sent for event in json.loads(body)["events"]] == events
        assert sum(count for count, _ in sent) == len(events)
