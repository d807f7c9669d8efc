"""The history of one run as the edges write it, and a second core that goes on in a new workflow at every boundary."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kernel.core.codec import from_json, to_json
from kernel.core.decide import decide, start
from kernel.core.history import check_history
from kernel.core.state import RunState
from kernel.drivers.rendering import render_blocks, render_openai
from kernel.edge.tool_call import NOT_STARTED, UNANSWERED
from kernel.messages import (
    Append,
    CallModel,
    CloseTranscript,
    ContinueAsNew,
    FetchHints,
    HintRequest,
    Message,
    Observation,
    Resumed,
    RunSpec,
)


class History:
    """The append-only messages of one run: what is written first stays."""

    def __init__(self, spec: RunSpec) -> None:
        self.entries: dict[int, Message] = {
            0: Message("system", spec.rules, "rules"),
            1: Message("user", spec.task, "task"),
        }

    def write(self, seq: int, message: Message) -> None:
        self.entries.setdefault(seq, message)

    def append_all(self, appends: Sequence[Append]) -> None:
        for append in appends:
            message = append.message
            if append.copy_of is not None:
                assert append.copy_of in self.entries, f"nothing to copy at position {append.copy_of}"
                source = self.entries[append.copy_of]
                message = replace(message, text=source.text, status=source.status, code=source.code)
            self.write(append.seq, message)

    def close(self, command: CloseTranscript) -> None:
        self.append_all(command.append)
        self.write(command.assistant_seq, UNANSWERED)
        for number, call in enumerate(self.entries[command.assistant_seq].calls, 1):
            self.write(command.assistant_seq + number, Message("tool", NOT_STARTED, "refusal", call_id=call.call_id))

    def read(self, stop: int) -> tuple[Message, ...]:
        missing = [seq for seq in range(stop) if seq not in self.entries]
        assert not missing, f"no message at {missing}"
        return tuple(self.entries[seq] for seq in range(stop))

    def whole(self) -> tuple[Message, ...]:
        return self.read(max(self.entries) + 1)


@dataclass(frozen=True, slots=True)
class Request:
    """One request to the model, as it went out."""

    turn: int
    event_id: str
    messages: tuple[Message, ...]
    finale: bool = False


def check_request(request: Request, before: Request | None) -> None:
    """A request is a legal history, begins with the one before it, and renders without two user messages in a row."""
    check_history(request.messages)
    if before is not None:
        kept = request.messages[: len(before.messages)]
        assert kept == before.messages, "a request does not begin with the one before it"
        assert len(request.messages) > len(before.messages), "a request adds nothing"
    for rendered in (render_openai(request.messages), render_blocks(request.messages)):
        roles = [message["role"] for message in rendered]
        assert ("user", "user") not in zip(roles, roles[1:], strict=False), "two user messages stand in a row"


class Twin:
    """The same run with a continue-as-new at every boundary, its state written out and read back there."""

    def __init__(self, spec: RunSpec) -> None:
        self.state, _ = start(replace(spec, limits=replace(spec.limits, turns_per_workflow=1)))
        self.history = History(spec)
        self.requests: list[Request] = []
        self.searches: list[tuple[HintRequest, ...]] = []

    def observe(self, observation: Observation) -> None:
        self.state, commands = decide(self.state, observation)
        for command in commands:
            match command:
                case CallModel():
                    self.history.append_all(command.append)
                    messages = self.history.read(command.reply_seq)
                    self.requests.append(Request(command.turn, "", messages, command.finale))
                case FetchHints():
                    self.searches.append(without_numbers(command.requests))
                case CloseTranscript():
                    self.history.close(command)
                case ContinueAsNew():
                    self.state = from_json(RunState, to_json(self.state))
                    self.observe(Resumed(observation.at_ns))


def without_numbers(requests: Sequence[HintRequest]) -> tuple[HintRequest, ...]:
    """Return the requests without the ids of events, which continue-as-new shifts."""
    return tuple(replace(request, source_event_id="") for request in requests)
