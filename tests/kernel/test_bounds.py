"""The state of a run stays small whatever its tools say: 64 KB in all, 8 KB of it for activation."""

import json
from dataclasses import replace

import pytest

from kernel.core.bounds import (
    ACTIVATION_BYTES,
    DEFERRED_LIMIT,
    LEAST_TEXT_BYTES,
    PROCESSED_LIMIT,
    STATE_BYTES,
    SUPPRESSED_LIMIT,
    TURN_TEXT_BYTES,
    bounded,
    clip_bytes,
)
from kernel.core.codec import from_json, to_json
from kernel.core.state import ActivationState, RunState, Suppressed
from kernel.messages import (
    CallModel,
    CallSeen,
    ContinueAsNew,
    Conversation,
    Finish,
    HintAnswer,
    HintsArrived,
    Limits,
    Member,
    ModelReplied,
    OperationFinished,
    QuestionAnswered,
    Resumed,
    Switches,
    ToolSpec,
)
from kernel.testing import hint
from tests.kernel.core_run import SPEC, TOOLS, CoreRun


def size(value: RunState | ActivationState) -> int:
    return len(to_json(value).encode())


TEXTS = {
    "ascii": "error kind {n}: " + "y" * 9_000,
    "cyrillic": "ошибка вида {n}: " + "ж" * 9_000,
    "emoji": "🙈" * 9_000,
}


@pytest.mark.parametrize("kind", TEXTS)
def test_a_turn_of_many_failures_stays_small(kind: str) -> None:
    """32 calls that all fail at length, a background operation for each second one, a long task: under 64 KB."""
    limits = Limits(max_tool_calls=96)
    run = CoreRun(replace(SPEC, task=TEXTS[kind], switches=Switches(), limits=limits))
    run.answer(*(hint(f"k-{n}", TEXTS[kind]) for n in range(8)))
    for turn in range(3):
        run.reply(*["shell", "build"] * 16)
        for n in range(1, 33):
            text = TEXTS[kind].replace("{n}", "abcdefghijklmnopqrstuvwxyz"[n % 26] * (turn + 1))[:4_096]
            if n % 2:
                called = text[::-1][:1_024]
                run.fail(f"c{n}", text, error_class="exit_nonzero", effect="uncertain", tool_arguments=called)
        for operation in run.state.operations:
            if run.state.phase == "calling":
                failed = OperationFinished(run.tick(), operation.operation_id, "failed", "none", "x", text, text)
                run.see(replace(failed, tool_arguments=text))
        run.answer_if_asked(*(hint(f"k-{turn}-{n}", TEXTS[kind]) for n in range(8)))
    assert max(size(state) for state in run.states) < STATE_BYTES
    assert max(size(state.activation) for state in run.states) < ACTIVATION_BYTES
    assert all("y" * 5_000 not in to_json(state) for state in run.states), "no full output is carried"


@pytest.mark.parametrize("kind", TEXTS)
def test_many_long_answers_stay_small(kind: str) -> None:
    """Eight questions of one reply, each asked and answered at length: under 64 KB, and what is cut says so."""
    run = CoreRun()
    run.ask(*(("ask_human", {"question": f"{n}: {TEXTS[kind][:80]}"}) for n in range(8)))
    for n in range(1, 9):
        run.see(QuestionAnswered(run.tick(), f"c{n}", TEXTS[kind][:4_096]))
    assert run.state.phase == "calling"
    assert max(size(state) for state in run.states) < STATE_BYTES
    (request,) = [command for command in run.commands if isinstance(command, CallModel)]
    assert [append.seq for append in request.append] == list(range(3, 11))
    assert "characters were left out" in request.append[-1].message.text


def test_a_long_run_of_new_errors_stays_small() -> None:
    """200 turns, each with a new error and eight offers, limits wide open: bounded, and the oldest is forgotten."""
    limits = Limits(
        max_turns=10_000,
        activations_per_run=9_999,
        activations_per_tool=9_999,
        tokens_per_run=10**9,
        turns_per_workflow=10,
    )
    run = CoreRun(replace(SPEC, limits=limits))
    names = [f"{a}{b}" for a in "bcdfghjklmnpqrstvwxyz" for b in "bcdfghjklmnpqrstvwxyzaeiou"][:200]
    for name in names:
        run.turn_failing(("shell", f"fatal: {name} is broken"), ("sql", f"fatal: {name} is bad"), ("sql", f"no {name}"))
        assert run.state.phase == "searching"
        run.answer(*(hint(f"knowledge-{name}-{n}", "word " * 400) for n in range(8)))
        if any(isinstance(command, ContinueAsNew) for command in run.commands):
            carried = to_json(run.state)
            assert len(carried) < 12_000
            assert from_json(RunState, carried) == run.state
            run.see(Resumed(run.tick()))
    activation = run.state.activation
    assert size(activation) < ACTIVATION_BYTES
    assert 50 < len(activation.processed) <= PROCESSED_LIMIT
    assert activation.processed[-1][1] > 500
    assert len(activation.suppressed) <= SUPPRESSED_LIMIT
    assert len(activation.deferred) <= DEFERRED_LIMIT


def test_what_is_forgotten_first() -> None:
    """Over 8 KB the oldest suppressed goes, then the oldest situation; issued ids never do."""
    full = ActivationState(
        issued=tuple(f"k-{n}" for n in range(40)),
        processed=tuple((f"{n:016x}", n) for n in range(300)),
        suppressed=tuple(Suppressed(f"k-{n}", 1, "run_tokens", 500) for n in range(50)),
    )
    kept = bounded(full)
    assert size(kept) <= ACTIVATION_BYTES
    assert kept.issued == full.issued
    assert kept.processed[-1] == full.processed[-1]
    assert kept.processed == full.processed[-len(kept.processed) :]
    assert kept.suppressed == full.suppressed[len(full.suppressed) - len(kept.suppressed) :]
    assert bounded(kept) == kept


def test_many_waiting_events_are_sent_before_the_boundary() -> None:
    """A long turn reports in between, ahead of what it does next, and no event is lost or sent twice."""
    run = CoreRun(replace(SPEC, limits=Limits(max_tool_calls=32)))
    run.reply(*["shell"] * 32)
    for n in range(1, 33):
        commands = run.fail(f"c{n}", "fatal: " + "x" * 4_000)
        names = [type(command).__name__ for command in commands]
        assert names in (["RunTool"], ["SendEvents", "RunTool"], ["SendEvents", "FetchHints"], ["FetchHints"])
    run.answer()
    run.reply()
    assert isinstance(run.commands[-1], Finish)
    assert [event.seq for event in sorted(run.events, key=lambda event: event.seq)] == list(
        range(1, len(run.events) + 1)
    )


@pytest.mark.parametrize(("text", "limit"), [("abc", 2), ("жжж", 3), ("🙈🙈", 5), ("\ud800abc", 2), ("ok", 9)])
def test_a_cut_is_never_inside_a_character(text: str, limit: int) -> None:
    """The cut text fits in bytes and is the beginning of the text."""
    cut = clip_bytes(text, limit)
    assert len(cut.encode("utf-8", "replace")) <= limit
    assert text.encode("utf-8", "replace").decode().startswith(cut)


def test_answers_of_other_sizes_are_not_carried() -> None:
    """A whole answer of Observation leaves nothing in the state but ids and sizes."""
    run = CoreRun()
    run.turn_failing(("shell", "fatal: no"))
    answer = HintAnswer("r-1:a1", "success", tuple(hint(f"k-{n}", "secret recipe " * 90) for n in range(8)))
    run.see(HintsArrived(run.tick(), run.tick(), (answer,)))
    assert to_json(run.state).count("secret recipe") <= 2 * 90, "no more than the block that is to be written"
    run.reply("shell")
    assert "secret recipe" not in to_json(run.state)


def test_what_goes_on_as_new_is_small_when_everything_is_full() -> None:
    """At the boundary where the state is carried over: many tools, a team, a long task, long answers full of quotes."""
    tools = tuple(ToolSpec(f"server-{n:02}__tool_{n:02}", f"server-{n:02}") for n in range(124))
    people = tuple(ToolSpec(name, kind=name) for name in ("ask_human",))
    members = (Member("m", rules="r" * 5_000),)
    spec = replace(SPEC, task="ж" * 9_000, limits=Limits(max_tool_calls=12, turns_per_workflow=1), members=members)
    run = CoreRun(spec, (*tools, *people))
    run.ask(*(("ask_human", {"question": f"{n}?"}) for n in range(12)))
    for n in range(1, 13):
        run.see(QuestionAnswered(run.tick(), f"c{n}", '"\\n' * 1_300))
    assert run.state.phase == "continuing"
    assert size(run.state) < STATE_BYTES


@pytest.mark.parametrize("text", ["x", "ж", '"'])
def test_many_failures_put_off_with_their_calls_stay_small(text: str) -> None:
    """Four searches put off, each with as much as is kept of its call, fit the activation part at continue-as-new."""
    run = CoreRun(replace(SPEC, limits=Limits(activations_per_turn=1, turns_per_workflow=1)))
    names = ["alpha", "bravo", "charlie", "delta", "echo"]
    run.reply(*["shell"] * len(names))
    for n, name in enumerate(names, 1):
        run.fail(f"c{n}", f"fatal: {name} " + text * 4_000, tool_arguments=f"make {name} " + text * 1_000)
    run.answer()
    assert run.state.phase == "continuing" and len(run.state.activation.deferred) == DEFERRED_LIMIT
    assert size(run.state.activation) < ACTIVATION_BYTES and size(run.state) < STATE_BYTES
    assert from_json(RunState, to_json(run.state)) == run.state
    assert [one.tool_arguments.split()[1] for one in run.state.activation.deferred] == names[1:]


def test_what_was_called_takes_of_the_room_of_the_turn() -> None:
    """Diagnostics and arguments of one turn's calls have one bound together, but for the least kept of each."""
    run = CoreRun(replace(SPEC, limits=Limits(max_tool_calls=32)))
    run.reply(*["shell"] * 32)
    for n in range(1, 33):
        run.fail(f"c{n}", "fatal: no", tool_arguments="x" * 1_024)
    kept = sum(len(call.diagnostic) + len(call.tool_arguments) for call in run.states[-2].calls)
    assert TURN_TEXT_BYTES * 0.9 < kept < TURN_TEXT_BYTES + 32 * LEAST_TEXT_BYTES


@pytest.mark.parametrize("text", ["x", "ж", "🙈"])
def test_an_ask_at_the_end_of_everything_stays_small(text: str) -> None:
    """Results of earlier calls, 32 calls with long arguments, persons who answer at length before an ask, and as much
    metadata as may be carried: under 64 KB, with the newest results listed."""
    spec = replace(SPEC, task=text * 9_000, limits=Limits(max_tool_calls=99), conversation=Conversation("talk-1"))
    run = CoreRun(spec, (*TOOLS, ToolSpec("escalate", kind="escalate")))
    metadata = json.dumps({"log": '"' * 1_000})
    for name, seen in (("shell", long_calls("shell", text, 32)), ("ask_human", [*asked(text), *after(text)])):
        run.see(ModelReplied(run.tick(), run.tick(), tuple(seen), metadata=metadata))
        if name == "shell":
            for call in seen:
                run.fail(call.call_id, "fatal: no", error_class="exit_nonzero")
            run.answer_if_asked(*(hint(f"k-{n}", text * 4_000) for n in range(8)))
    for n in range(12):
        run.see(QuestionAnswered(run.tick(), f"q{n}", text * 4_096))
    assert run.commands[-1].status == "escalated"
    assert max(size(state) for state in run.states) < STATE_BYTES
    assert run.state.n_receipts == 32 + 12


def long_calls(name: str, text: str, n: int, letter: str = "c") -> list[CallSeen]:
    return [CallSeen(f"{letter}{place}", name, f"{letter}{place}", text * 500) for place in range(n)]


def asked(text: str) -> list[CallSeen]:
    """Questions with long arguments, as many as fit, then the ask."""
    questions = long_calls("ask_human", text, 12, "q")
    arguments = json.dumps({"question": text * 150}, ensure_ascii=False)
    ask = CallSeen("ask", "escalate", "ask", text * 500, escalates=text * 512)
    return [*(replace(one, arguments=arguments) for one in questions), ask]


def after(text: str) -> list[CallSeen]:
    return long_calls("shell", text, 19, "z")
