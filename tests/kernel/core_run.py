"""Drives the core by hand: observations in, commands out, nothing executed."""

import json
from collections.abc import Sequence
from typing import Any

from kernel.core.decide import decide, start
from kernel.core.state import RunState
from kernel.messages import (
    CallSeen,
    Command,
    Event,
    FetchHints,
    Hint,
    HintAnswer,
    HintsArrived,
    Limits,
    ModelReplied,
    Observation,
    RunPrepared,
    RunSpec,
    SendEvents,
    SentMessage,
    Switches,
    ToolFinished,
    ToolSpec,
)

ROOM = Limits(max_turns=40, max_tool_calls=400)  # room for what is not about these two
SPEC = RunSpec(run_id="r-1", task="Release the parser package", switches=Switches(off=("task.priming",)), limits=ROOM)
TOOLS = (
    ToolSpec("shell"),
    ToolSpec("sql"),
    ToolSpec("git_status", "git"),
    ToolSpec("now", "time"),
    ToolSpec("build", kind="background"),
    ToolSpec("clone", "git", "background"),
    ToolSpec("await_operation", kind="await_operation"),
    ToolSpec("ask_human", kind="ask_human"),
    ToolSpec("update_plan", kind="plan"),
    ToolSpec("delegate", kind="delegate"),
)


class CoreRun:
    """A prepared run: `state` is the last one, `commands` those of the last observation, `events` all so far."""

    def __init__(self, spec: RunSpec = SPEC, tools: Sequence[ToolSpec] = TOOLS) -> None:
        self.now = 1_000
        self.events: list[Event] = []
        self.states: list[RunState] = []
        self.state, self.commands = start(spec)
        self.see(RunPrepared(self.tick(), tuple(tools)))

    def tick(self) -> int:
        self.now += 1_000_000
        return self.now

    def see(self, observation: Observation) -> tuple[Command, ...]:
        self.state, self.commands = decide(self.state, observation)
        self.states.append(self.state)
        for command in self.commands:
            if isinstance(command, SendEvents):
                self.events.extend(command.events)
        return self.commands

    def reply(self, *names: str, sent: tuple[SentMessage, ...] = (), **fields: Any) -> tuple[Command, ...]:
        """The model answers with a call of each tool, ids c1, c2, …, all different."""
        calls = tuple(CallSeen(f"c{n}", name, f"{name}{n}", "{}") for n, name in enumerate(names, 1))
        return self.see(ModelReplied(self.tick(), self.tick(), calls, sent_context=sent, **fields))

    def ask(self, *calls: tuple[str, dict[str, Any]], **fields: Any) -> tuple[Command, ...]:
        """The model answers with calls (tool, arguments), ids c1, c2, …; equal calls are identical."""
        seen = []
        for n, (name, given) in enumerate(calls, 1):
            arguments = json.dumps(given)
            seen.append(CallSeen(f"c{n}", name, f"{name}{arguments}", arguments, arguments=arguments))
        return self.see(ModelReplied(self.tick(), self.tick(), tuple(seen), **fields))

    def finish(self, call_id: str, **fields: Any) -> tuple[Command, ...]:
        return self.see(ToolFinished(self.tick(), self.tick(), call_id, fields.pop("status", "ok"), **fields))

    def fail(self, call_id: str, text: str, **fields: Any) -> tuple[Command, ...]:
        return self.finish(call_id, status="failed", diagnostic=text, **fields)

    def turn_failing(self, *failures: tuple[str, str]) -> tuple[Command, ...]:
        """One turn in which every call (tool, diagnostic) fails."""
        self.reply(*(name for name, _ in failures))
        for n, (_, text) in enumerate(failures, 1):
            self.fail(f"c{n}", text)
        return self.commands

    def fetch(self) -> FetchHints:
        """The retrieval among the last commands."""
        (found,) = [command for command in self.commands if isinstance(command, FetchHints)]
        return found

    def answer(self, *hints: Hint, result: str = "") -> tuple[Command, ...]:
        """Observation answers each request of the boundary with the same hints."""
        answers = tuple(
            HintAnswer(request.activation_id, result or ("success" if hints else "empty"), hints, len(hints))
            for request in self.fetch().requests
        )
        return self.see(HintsArrived(self.tick(), self.tick(), answers))

    def answer_if_asked(self, *hints: Hint) -> None:
        if any(isinstance(command, FetchHints) for command in self.commands):
            self.answer(*hints)

    def reported(self) -> list[Event]:
        """All events so far, those waiting included."""
        return [*self.events, *self.state.events]
