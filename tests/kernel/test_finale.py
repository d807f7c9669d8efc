"""The safe end of a run: exact numbers of requests, what the last one holds, what stands for an answer."""

import asyncio
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import pytest

from kernel.core.finale import WORDS
from kernel.drivers import DriverReply, ModelRequest
from kernel.edge.retry import ModelError
from kernel.messages import Limits, Locale, Message, RunResult
from kernel.runtime.local import LocalRun
from kernel.testing import MemoryEdges, ScriptedModel, call
from tests.kernel.test_scenarios import SPEC, fails, on, works

TERMINAL = ("run.completed", "run.failed", "run.limit_reached", "run.escalated", "run.cancelled")
LAST = (DriverReply("Two of three are done."),)


class Tireless(ScriptedModel):
    """A model that calls a tool whenever it is offered one, and gives `last` replies to requests that offer none."""

    def __init__(self, *last: DriverReply | ModelError, at_once: int = 1) -> None:
        super().__init__()
        self._last = list(last)
        self._at_once = at_once
        self.offered: list[tuple[str, ...]] = []

    async def reply(self, request: ModelRequest) -> DriverReply:
        self.requests.append(request.messages)
        self.offered.append(tuple(tool.name for tool in request.tools))
        if request.tools:
            n = len(self.requests)
            names = [f"c{n}-{one}" for one in range(self._at_once)]
            return DriverReply(calls=tuple(call("shell", name, command=f"step {name}") for name in names))
        given = self._last.pop(0)
        if isinstance(given, ModelError):
            raise given
        return given


async def ended(model: Tireless, limits: Limits, tool: Any = None, **spec: Any) -> tuple[MemoryEdges, RunResult]:
    edges = MemoryEdges(model, {"shell": tool or works("stored")}, on("tool.failed"))
    run = LocalRun(edges, clock_ns=edges.clock)
    return edges, await run.run(replace(SPEC, limits=limits, **spec))


def replies(messages: Sequence[Message]) -> list[str]:
    return [message.text for message in messages if message.role == "tool"]


@pytest.mark.parametrize("rounds", [1, 2, 8])
async def test_t16_t22_n_rounds_are_n_plus_one_requests(rounds: int) -> None:
    """T16, T22: every round is made, its receipts stay, and exactly one request without tools follows."""
    limits = Limits() if rounds == 8 else Limits(max_turns=rounds)
    edges, result = await ended(model := Tireless(*LAST), limits)
    assert (result.status, result.answer) == ("limit_reached", "Two of three are done.")
    assert model.offered == [("shell",)] * rounds + [()]
    assert len(edges.executed) == len(replies(model.requests[-1])) == rounds
    assert [kind for kind in edges.event_types() if kind in TERMINAL] == ["run.limit_reached"]
    (end,) = edges.data_of("run.limit_reached")
    assert (end["limit"], end["answer"]) == ("tool_rounds", "Two of three are done.")


async def test_a_round_is_a_reply_however_many_calls_it_has() -> None:
    """Three calls of one reply are one round."""
    edges, _ = await ended(model := Tireless(*LAST, at_once=3), Limits(max_turns=2, max_tool_calls=6))
    assert (len(model.requests), len(edges.executed)) == (3, 6)


@pytest.mark.parametrize(
    ("tool", "receipt"), [(works("stored at 8"), "stored at 8"), (fails("disk is full"), "disk is full")]
)
async def test_t18_the_last_round_is_in_the_last_request(tool: Any, receipt: str) -> None:
    """T18: the result of the last allowed round, well or ill, is what the last request ends with, before the note."""
    edges, _ = await ended(model := Tireless(*LAST), Limits(max_turns=2), tool)
    *_, reply, note = model.requests[-1]
    assert reply.role == "tool" and receipt in reply.text
    assert (note.role, note.origin) == ("context", "finale")
    assert "The limit of 2 tool rounds is reached" in note.text
    for told in ("no tools", "from the results recorded above and nothing else", "unfinished", "Start nothing new"):
        assert told in note.text
    assert edges.hint_requests[1:] == [], "nothing is searched for before a request that offers no tools"


async def test_the_way_into_the_finale_is_seen() -> None:
    """A thinking event names the limit before the last request, which says of itself what it is."""
    edges, _ = await ended(Tireless(*LAST), Limits(max_turns=2))
    (thinking,) = edges.data_of("thinking")
    assert (thinking["kind"], thinking["limit"], thinking["n_receipts"]) == ("safe_completion", "tool_rounds", 2)
    requested = edges.data_of("model.requested")
    assert [one.get("finale") for one in requested] == [None, None, True]
    assert [one["n_tools"] for one in requested] == [1, 1, 0]


async def test_t17_the_answer_is_the_models_and_the_status_the_limits() -> None:
    """T17, T25: what the model said in its last reply is the answer, and the run is not called completed."""
    edges, result = await ended(Tireless(*LAST), Limits(max_turns=1))
    assert result.answer == "Two of three are done."
    assert result.status == "limit_reached" and edges.data_of("run.completed") == []


async def test_t19_calls_of_the_last_reply_are_not_executed() -> None:
    """T19: no event of a call, nothing executed; they are counted, and the answer says so."""
    more = (call("shell", "x1", command="rm -r all"), call("shell", "x2"))
    edges, result = await ended(model := Tireless(DriverReply("One more check.", more)), Limits(max_turns=1))
    assert [name for name, _ in edges.executed] == ["shell"]
    assert len(edges.data_of("tool.requested")) == 1
    assert edges.data_of("model.completed")[-1]["n_dropped"] == 2
    assert result.answer.startswith("One more check.\n\n2 further tool calls")
    stored = await edges.store.read(SPEC.run_id, len(model.requests[-1]) + 1)
    assert (stored[-1].text, stored[-1].calls) == ("One more check.", ())


@pytest.mark.parametrize(
    "last",
    [
        DriverReply("  ", (call("shell", "x1"),)),
        DriverReply(""),
        ModelError("model_http_400", "tool_choice is not allowed"),
        ModelError("model_timeout", "no answer"),
    ],
    ids=["only calls", "empty", "refused", "silent"],
)
@pytest.mark.parametrize(
    ("locale", "head", "listed"),
    [
        ("en", "The limit of 2 tool rounds is reached, and no final answer", "What is recorded:"),
        ("zh", "已达到 2 轮工具调用的上限", "已记录的结果："),
        ("ru", "Достигнут предел раундов с инструментами: 2", "Записанные результаты:"),
    ],
)
async def test_without_an_answer_the_receipts_are_listed(
    last: DriverReply | ModelError, locale: Locale, head: str, listed: str
) -> None:
    """T20, T23: no text, or a request that fails, ends in a fixed text of the run's language that lists the results."""
    edges, result = await ended(Tireless(last), Limits(max_turns=2), locale=locale)
    assert result.status == "limit_reached"
    assert result.answer.startswith(head)
    assert result.answer.splitlines()[1:] == [
        listed,
        '- shell {"command": "step c1-0"}: ok',
        '- shell {"command": "step c2-0"}: ok',
    ]
    assert edges.data_of("turn.failed") == []
    assert [kind for kind in edges.event_types() if kind in TERMINAL] == ["run.limit_reached"]


async def test_a_limit_of_time_ends_in_the_finale() -> None:
    """The run's time is judged at the boundary: what runs is not torn, and the last request still goes out."""
    edges, result = await ended(model := Tireless(*LAST), Limits(run_ms=1))
    assert result.status == "limit_reached" and len(model.requests) == 2
    assert edges.data_of("run.limit_reached")[0]["limit"] == "time"


async def test_a_limit_of_tokens_ends_in_the_finale() -> None:
    """The model's tokens, in and out, as the provider counts them or else as estimated."""
    edges, result = await ended(model := Tireless(*LAST), Limits(run_tokens=60))
    assert result.status == "limit_reached" and len(model.requests) == 3
    assert edges.data_of("run.limit_reached")[0]["limit"] == "tokens"


@pytest.mark.parametrize(
    ("limits", "code"),
    [
        (Limits(max_turns=1, at_limit="fail"), "step_limit_exceeded"),
        (Limits(run_ms=1, at_limit="fail"), "time_limit_exceeded"),
        (Limits(run_tokens=1, at_limit="fail"), "token_limit_exceeded"),
    ],
)
async def test_a_run_may_fail_at_its_limit_instead(limits: Limits, code: str) -> None:
    """No further request; the turn names the limit, and that the runtime's own loop came to its end."""
    edges, result = await ended(model := Tireless(), limits)
    assert (result.status, len(model.requests)) == ("failed", 1)
    (failed,) = edges.data_of("turn.failed")
    assert (failed["code"], failed["source"]) == (code, "runtime")


async def test_a_cancellation_in_the_last_request_is_one() -> None:
    """It is not swallowed by the fixed text: the run ends cancelled, once."""

    class Cancelling(Tireless):
        async def reply(self, request: ModelRequest) -> DriverReply:
            if request.finale:
                run.cancel("stop")
                await asyncio.Event().wait()
            return await super().reply(request)

    edges = MemoryEdges(Cancelling(), {"shell": works()})
    run = LocalRun(edges, clock_ns=edges.clock)
    result = await run.run(replace(SPEC, limits=Limits(max_turns=1)))
    assert (result.status, result.answer) == ("cancelled", "")
    assert [kind for kind in edges.event_types() if kind in TERMINAL] == ["run.cancelled"]


async def test_long_lists_of_receipts_keep_the_newest() -> None:
    """The fixed text is bounded: the newest results are listed, the others counted."""
    edges, result = await ended(Tireless(DriverReply(""), at_once=30), Limits(max_turns=2, max_tool_calls=60))
    lines = result.answer.splitlines()[2:]
    assert lines[0] == f"- {60 - len(lines) + 1} earlier results"
    assert len(lines) == 25 and "c2-29" in lines[-1]
    assert len(edges.executed) == 60


def test_the_words_of_all_languages_have_the_same_places() -> None:
    """Each language says the same: a missing place would break a run at its very end."""
    places = [
        [json.dumps(getattr(words, name), ensure_ascii=False).count("{") for name in ("note", "limitation", "earlier")]
        for words in WORDS.values()
    ]
    assert places == [places[0]] * 3


async def test_t24_a_ceiling_is_told_apart_from_a_crash() -> None:
    """T24: each ends in exactly one terminal event, and the words are not the same."""

    class Broken(Tireless):
        async def reply(self, request: ModelRequest) -> DriverReply:
            raise RuntimeError("the driver is on fire")

    ends = []
    for model in (Tireless(*LAST), Broken()):
        edges, result = await ended(model, Limits(max_turns=1))
        (terminal,) = [kind for kind in edges.event_types() if kind in TERMINAL]
        ends.append((terminal, result.status))
    assert ends == [("run.limit_reached", "limit_reached"), ("run.failed", "failed")]
