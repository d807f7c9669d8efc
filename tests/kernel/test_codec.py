"""State to JSON and back: what does not fit is refused by its place, and what fits comes back equal."""

from dataclasses import replace

import pytest

from kernel.core.codec import CodecError, from_json, to_json
from kernel.core.state import RunState
from kernel.messages import (
    ApprovalDecided,
    CallModel,
    Limits,
    Message,
    ModelAnswer,
    ModelReplied,
    RunSpec,
    ToolCall,
    ToolFinished,
    ToolSpec,
)
from kernel.testing import hint
from tests.kernel.core_run import SPEC, CoreRun


def test_every_state_of_a_run_survives() -> None:
    """Each state a run goes through is equal after JSON, and equal states give equal text."""
    run = CoreRun(replace(SPEC, approval_tools=("sql",), limits=Limits(activations_per_turn=1)))
    run.reply("shell", "sql", "git_status")
    run.fail("c1", "ошибка \u2028 \ud800 \x00")
    run.see(ApprovalDecided(run.tick(), "c2", True))
    run.fail("c2", "no such table")
    run.finish("c3", excerpt="ok")
    run.answer(hint("k-1", matched_by=("a",)), hint("k-2", "w " * 900))
    for state in run.states:
        text = to_json(state)
        assert from_json(RunState, text) == state
        assert to_json(from_json(RunState, text)) == text


@pytest.mark.parametrize(
    "value",
    [
        Message("assistant", "x", "model", (ToolCall("c", "shell", "{"),)),
        ModelAnswer(replied=ModelReplied(1, 2, input_tokens=None)),
        CallModel("r", 1, (), 2, "r:3", "scripted", "", ""),
        RunSpec("r", "t", limits=Limits(max_turns=3)),
    ],
)
def test_messages_survive(value: object) -> None:
    """Nested tuples, optional members and literals come back as what they were."""
    assert from_json(type(value), to_json(value)) == value


@pytest.mark.parametrize(
    ("cls", "text", "says"),
    [
        (ToolSpec, "{", "not JSON"),
        (ToolSpec, "[]", "ToolSpec: expected an object"),
        (ToolSpec, "{}", "ToolSpec: missing field name"),
        (ToolSpec, '{"name":"a","colour":1}', "ToolSpec: unknown field colour"),
        (ToolSpec, '{"name":1}', "ToolSpec.name: expected str"),
        (ToolSpec, '{"name":"a","mcp_server":1}', "ToolSpec.mcp_server: fits none of"),
        (Limits, '{"max_turns":true}', "Limits.max_turns: expected int"),
        (Limits, '{"max_turns":1.0}', "Limits.max_turns: expected int"),
        (Limits, '{"max_turns":NaN}', "NaN is no number"),
        (Message, '{"role":"boss","text":"","origin":"task"}', "Message.role: not one of"),
        (Message, '{"role":[],"text":"","origin":"task"}', "Message.role: not one of"),
        (Message, '{"role":"user","text":"","origin":"task","calls":{}}', "Message.calls: expected a list"),
        (Message, '{"role":"user","text":"","origin":"task","calls":[{}]}', "Message.calls[0]: missing field call_id"),
        (RunState, '{"spec":{"run_id":"r","task":"t"},"activation":{"processed":[["a"]]}}', "expected 2 entries"),
        (ToolFinished, "[" * 100_000, "not JSON"),
    ],
)
def test_what_does_not_fit_is_refused_by_place(cls: type, text: str, says: str) -> None:
    """The error names the field; nothing is guessed or converted."""
    with pytest.raises(CodecError) as refused:
        from_json(cls, text)
    assert says in str(refused.value)


def test_only_dataclasses_are_encoded() -> None:
    """A set or another object in a state is a defect that is found at once."""
    with pytest.raises(CodecError, match="set is no dataclass"):
        to_json(replace(ToolSpec("a"), mcp_server={"b"}))  # type: ignore[arg-type]
