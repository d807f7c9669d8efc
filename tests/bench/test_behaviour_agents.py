"""The benchmark's agents act on what stands in their request, and on nothing else."""

import json
from collections.abc import Mapping, Sequence

import pytest

from bench.behaviour.agents import DONE, MOST_CALLS, ChoosingDriver, HintFollower, LedDriver, named_command
from bench.behaviour.arms import ARMS
from bench.behaviour.plan import Budget, planned
from bench.behaviour.tasks import TASKS
from contract.hint_block import render_hint_block
from kernel.drivers import DriverReply, ModelRequest
from kernel.messages import Message, ToolCall
from kernel.testing import hint

COMMANDS = ("make dist", "make dist FLAVOUR=kestrel", "make dist FLAVOUR=plain", "make -k dist")


def called(*commands: str, status: str = "failed") -> list[Message]:
    """The history of a run that called these commands, each with the same status."""
    messages = [Message("user", "Build it", "task")]
    for number, command in enumerate(commands):
        call = ToolCall(f"c{number}", "shell", json.dumps({"command": command}))
        messages.append(Message("assistant", "", "model", calls=(call,)))
        messages.append(Message("tool", "no", "tool", call_id=call.call_id, status=status))
    return messages


def told(*rules: str) -> Message:
    hints = [hint(f"note-{number}", rule) for number, rule in enumerate(rules)]
    return Message("context", render_hint_block("tool.failed", "a failed call", "run:a2", hints), "hints")


def request(messages: Sequence[Message], run_id: str = "task-s1-abc", *, finale: bool = False) -> ModelRequest:
    return ModelRequest(run_id, len(messages), messages, (), script="task", finale=finale)


def command_of(reply: DriverReply) -> str:
    return str(json.loads(reply.calls[0].arguments)["command"])


class FirstOffered:
    """A chooser that notes what it is asked and takes the last candidate."""

    name = "last"

    def __init__(self) -> None:
        self.asked: list[tuple[str, ...]] = []

    def versions(self) -> Mapping[str, str]:
        return {}

    async def choose(self, messages: Sequence[Message], candidates: Sequence[str], dice: str) -> int:
        self.asked.append(tuple(candidates))
        return len(candidates) - 1

    async def close(self) -> None: ...


@pytest.mark.parametrize(
    ("rules", "named"),
    [
        (["Only one ship is left: `FLAVOUR=kestrel`."], "make dist FLAVOUR=kestrel"),
        (["Run `make dist`, whatever it says."], ""),  # three candidates hold that
        (["Write `LEDGER_EPOCH=7` before it."], ""),
        (["Only one ship is left: FLAVOUR=kestrel."], ""),  # no action
    ],
)
def test_an_action_names_the_one_command_that_holds_it(rules: list[str], named: str) -> None:
    """An action that none or several of the commands hold names none."""
    assert named_command([*called("make dist"), told(*rules)], COMMANDS[1:]) == named


def test_only_a_hint_block_is_read() -> None:
    """The same words in the reply of a tool, or in the task, name nothing."""
    text = "Only one ship is left: `FLAVOUR=kestrel`."
    assert named_command([Message("user", text, "task"), Message("tool", text, "tool")], COMMANDS) == ""


async def test_the_follower_takes_what_a_hint_names_once() -> None:
    """Having run it, it falls back to its habit, although the hint stands there still."""
    follower, rule = HintFollower(), told("Only one ship is left: `FLAVOUR=kestrel`.")
    first = [*called("make dist"), rule]
    assert COMMANDS[await follower.choose(first, COMMANDS, "d")] == "make dist FLAVOUR=kestrel"
    again = [*first, *called("make dist FLAVOUR=kestrel")[1:]]
    chosen = {COMMANDS[await follower.choose(again, COMMANDS, f"d{number}")] for number in range(30)}
    assert "make dist" in chosen


async def test_without_a_hint_the_habit_repeats_and_then_throws() -> None:
    """The second call is the first again; the third is any, as the run's throws have it, and the same each time."""
    follower = HintFollower()
    assert COMMANDS[await follower.choose(called("make dist"), COMMANDS, "d")] == "make dist"
    twice = called("make dist", "make dist")
    third = [COMMANDS[await follower.choose(twice, COMMANDS, f"d{number}")] for number in range(60)]
    assert set(third) == set(COMMANDS)
    assert third == [COMMANDS[await follower.choose(twice, COMMANDS, f"d{number}")] for number in range(60)]


async def test_the_driver_begins_with_the_first_command_and_stops_when_a_call_ends_well() -> None:
    """The chooser is not asked for either."""
    chooser = FirstOffered()
    driver = ChoosingDriver(chooser, {"task": COMMANDS})
    assert command_of(await driver.reply(request(called()))) == "make dist"
    reply = await driver.reply(request(called("make dist", status="ok")))
    assert (reply.text, reply.calls) == (DONE, ())
    assert chooser.asked == []


async def test_the_driver_asks_its_chooser_after_a_failure_until_the_calls_are_used_up() -> None:
    """The order of the commands is the run's own, so that a place in the list says nothing."""
    chooser = FirstOffered()
    driver = ChoosingDriver(chooser, {"task": COMMANDS})
    chosen = command_of(await driver.reply(request(called("make dist"))))
    await driver.reply(request(called("make dist"), "task-s1-def"))
    assert chosen == chooser.asked[0][-1]
    assert {frozenset(asked) for asked in chooser.asked} == {frozenset(COMMANDS)}
    assert len(set(chooser.asked)) == 2
    assert (await driver.reply(request(called(*["make dist"] * MOST_CALLS)))).text == DONE
    assert (await driver.reply(request(called("make dist"), finale=True))).text == DONE


async def test_a_free_model_is_led_through_the_first_call_only() -> None:
    """The inner driver makes every later reply."""
    inner = ChoosingDriver(FirstOffered(), {"task": ("other", "free")})
    driver = LedDriver(inner, {"task": COMMANDS})
    assert command_of(await driver.reply(request(called()))) == "make dist"
    assert command_of(await driver.reply(request(called("make dist")))) in ("other", "free")


def test_a_run_says_nothing_of_its_arm_to_the_agent() -> None:
    """What a driver is given of a spec is the same in every arm but for the id, which is a digest."""
    plan = planned(TASKS[:3], list(ARMS.values()), [1])
    for one in plan:
        assert (one.spec().script, one.spec().task) == (one.task.name, one.task.statement)
        assert not [arm for arm in ARMS if arm in one.run_id.removeprefix(one.task.name)]
    assert len({one.run_id for one in plan}) == len(plan)


def test_the_plan_is_the_seeds_and_nothing_elses() -> None:
    """The same seeds give the same runs in the same order; another seed another order; every pair once a seed."""
    arms = [ARMS["priming"], ARMS["runtime"]]
    plan = planned(TASKS, arms, [1, 2], [Budget(), Budget(100, 1)])
    assert plan == planned(TASKS, arms, [1, 2], [Budget(), Budget(100, 1)])
    half = len(plan) // 2
    assert [one.task.name for one in plan[:half]] != [one.task.name for one in plan[half:]]
    assert len({(one.task.name, one.arm.id, one.seed, one.budget) for one in plan}) == len(plan) == len(TASKS) * 8


def test_each_arm_switches_what_it_says() -> None:
    """The control alone has no triggers at runtime, the placebo alone another project, two arms a holdout."""
    specs = {name: planned(TASKS[:1], [arm], [1])[0].spec() for name, arm in ARMS.items()}
    assert [name for name, spec in specs.items() if not spec.switches.activation] == ["priming"]
    assert {name: spec.holdout.share for name, spec in specs.items() if spec.holdout.share} == {
        "withheld": 1.0,
        "trial": 0.5,
    }
    assert {arm.project for arm in ARMS.values() if arm.id != "placebo"} == {"behaviour"}
