"""The calls of the current turn as the world knows them: which may be started, what became of them, their replies."""

import hashlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from kernel.messages import CallSeen, Message, RunSpec, ToolCall, ToolKind, ToolSpec
from tests.kernel.machine_activations import Executed
from tests.kernel.machine_draws import ESCALATE, TOOLS, Outcome, Shape, arguments_of
from tests.kernel.machine_envelope import Envelope

READ_BY_CORE = ("await_operation", "ask_human", "plan", "delegate")
ARGUMENTS_BYTES = 8_000  # of one reply, beyond which calls are refused
AGES = ("oldest", "newest")  # of an operation that is under way
EXECUTED = ("ok", "failed", "timed_out")


def tool_named(name: str) -> ToolSpec | None:
    return next((tool for tool in (*TOOLS, ESCALATE) if tool.name == name), None)


def server_named(name: str) -> str | None:
    """Return the MCP server of a tool, by its registration or by a name of the older form."""
    tool = tool_named(name)
    if tool is None or tool.mcp_server:
        return tool.mcp_server if tool else None
    return name.split("__")[1] if name.startswith("mcp__") else None


@dataclass(slots=True)
class View:
    """One call. `started` is how it was started, empty for not at all; `end` how a call or a delegated run ended,
    `awaited` the operation under way that it awaits; `verdict` is what the envelope must make of it, empty where
    nothing stands against it."""

    call: ToolCall
    shape: Shape
    digest: str
    seq: int
    started: str = ""
    asked: bool = False
    approved: bool = False
    end: Outcome | None = None
    awaited: str = ""
    step: int | None = None
    verdict: str = ""

    @property
    def kind(self) -> ToolKind:
        tool = tool_named(self.call.name)
        return tool.kind if tool else "call"

    def seen(self) -> CallSeen:
        """Return what the edge tells the core of the call."""
        read = self.kind in READ_BY_CORE and not self.shape.malformed
        arguments = self.call.arguments if read else ""
        excerpt = self.call.arguments[:500]
        reason = self.shape.arg if self.shape.ask else ""
        problem = self.shape.malformed
        return CallSeen(
            self.call.call_id, self.call.name, self.digest, excerpt, problem, arguments, self.step, reason
        )  # fmt: skip


@dataclass(slots=True)
class Calls:
    """The calls of one model reply, which stands at `assistant_seq`."""

    spec: RunSpec
    envelope: Envelope
    assistant_seq: int = 0
    views: list[View] = field(default_factory=list)

    def open(self, shapes: Sequence[Shape], named: Mapping[str, str], turn: int) -> Message:
        """Take the calls of a reply and return it; `named` is the operation that each way of awaiting means."""
        self.views = []
        own = "op-0"
        for place, shape in enumerate(shapes):
            seq = self.assistant_seq + 1 + place
            arguments = arguments_of(shape, {**named, "own": own}.get(shape.arg, "op-999"))
            call = ToolCall(f"call-{self.assistant_seq}-{place}", shape.name, arguments)
            step = claimed(shape.step, turn - 1, self.spec.limits.max_turns)
            digest = hashlib.sha256(f"{shape.name} {arguments} {step}".encode()).hexdigest()
            awaited = named.get(shape.arg, "") if shape.arg in AGES else ""
            self.views.append(View(call, shape, digest, seq, awaited=awaited, step=step))
            own = f"op-{seq}" if self.views[-1].kind == "background" else own
        self.envelope.judge(self.views, turn)
        return Message("assistant", "", "model", tuple(view.call for view in self.views))

    def find(self, call_id: str) -> View:
        found = [view for view in self.views if view.call.call_id == call_id]
        assert found, f"{call_id} is no call of this turn"
        return found[0]

    def is_copy(self, view: View) -> bool:
        return view.verdict == "copy"

    def source(self, view: View) -> View:
        return next(other for other in self.views if other.digest == view.digest)

    def may_start(self, view: View) -> bool:
        """Return whether the call may be started at all, a person's yes apart."""
        return not view.verdict

    def ends_here(self) -> bool:
        """Return whether the run ends with these calls, in an ask or in one that was forged."""
        return any(view.verdict in ("ask", "forged") for view in self.views)

    # ---- what must hold ----------------------------------------------------------------------------------

    def check_start(self, call_id: str, kind: ToolKind) -> View:
        """What is started may be: readable, offered, allowed, approved, no copy, and not started before."""
        view = self.find(call_id)
        assert self.may_start(view), f"{view.call} must not be started"
        assert view.call.name not in self.spec.approval_tools or view.approved, f"{view.call} was not approved"
        assert view.kind == kind, f"{view.call} was started as {kind}"
        assert not view.started, f"{call_id} was started twice"
        view.started = kind
        return view

    def check_asked(self, call_id: str) -> View:
        """A person is asked once about a call that could otherwise run."""
        view = self.find(call_id)
        assert self.may_start(view) and not view.asked and not view.started, f"asked about {view.call}"
        assert view.call.name in self.spec.approval_tools
        view.asked = True
        return view

    def check_replies(self, entries: Mapping[int, Message]) -> None:
        """Every call has its one reply at its place, at the latest now; an executable one was started exactly once."""
        for view in self.views:
            reply = entries.get(view.seq)
            assert reply is not None, f"{view.call.call_id} has no reply"
            assert (reply.role, reply.call_id) == ("tool", view.call.call_id), f"{reply} stands at {view.seq}"
            self.check_it_was_started_if_it_could_be(view, reply)
            self.check_copies_are_equal(view, reply, entries)
            if view.awaited and not (self.source(view) if self.is_copy(view) else view).verdict:
                head = f"[Background operation {view.awaited} of "
                assert head in reply.text, f"{view.awaited} was under way and its end is not told: {reply.text}"
        held = [message.call_id for message in entries.values() if message.role == "tool"]
        assert len(held) == len(set(held)), "a call has two replies"

    def check_it_was_started_if_it_could_be(self, view: View, reply: Message) -> None:
        """Nothing that could run is left out; what was refused says so."""
        if view.call.name in self.spec.approval_tools and self.may_start(view):
            assert view.asked, f"nobody was asked about {view.call}"
            if not view.approved:
                assert not view.started and reply.origin == "refusal"
                return
        if self.may_start(view) and view.kind == "call":
            assert view.started, f"{view.call} was never executed"
        if view.kind == "escalate" and self.may_start(view):
            assert (reply.status, reply.code) == ("failed", "escalation_not_terminated"), f"{reply} to a forwarded ask"
            self.envelope.reached["ask: passed on"] += 1
        if view.verdict == "ask":
            assert (reply.status, reply.code) == ("ok", ""), f"the ask was answered {reply}"
        elif view.verdict not in ("", "copy"):
            assert not view.started and reply.origin == "refusal", f"{view.call} was not refused"
            status = "blocked" if view.verdict == "policy_blocked" else "denied"
            assert (reply.status, reply.code) == (status, view.verdict), f"{reply.code} instead of {view.verdict}"
        if "could not be read" in reply.text and not self.is_copy(view) and not view.shape.malformed:
            seen = [one.seen() for one in self.views]
            read = sum(len((one.arguments + one.excerpt).encode()) for one in seen)
            assert read > ARGUMENTS_BYTES, f"{view.call} was refused as unreadable"

    def check_copies_are_equal(self, view: View, reply: Message, entries: Mapping[int, Message]) -> None:
        """A copy has the reply of the call that was executed in its place."""
        if self.is_copy(view):
            other = entries[self.source(view).seq]
            assert not view.started and reply.text == other.text, "a copy differs"
            assert (reply.status, reply.code) == (other.status, other.code), "a copy ended otherwise"

    def executed(self) -> list[Executed]:
        """Return the real outcomes of calls, in call order. A delegated run that ended well is no outcome of a tool."""
        return [
            outcome_of(view.end, view.call.call_id, None, view.call.name)
            for view in self.views
            if view.end is not None and _is_outcome(view, view.end)
        ]


def claimed(how: str, position: int, max_turns: int) -> int | None:
    """Return the step a call claims, at a loop that is at `position`."""
    return {"": None, "equal": position, "ahead": position + 1, "past": max(position, max_turns)}[how]


def _is_outcome(view: View, end: Outcome) -> bool:
    if view.kind == "delegate":
        return end.status != "ok" and end.error_class != "delegate_not started"
    return end.status in EXECUTED


def outcome_of(end: Outcome, call_id: str, operation_id: str | None, name: str) -> Executed:
    """Return an outcome under the name its tool's failures are known by."""
    tool, family = tool_named(name), end.family if end.text.strip() else ""
    known = (tool.same_as if tool else "") or name
    return Executed(call_id, operation_id, known, server_named(name), end.status, end.error_class, family)
