"""What the world expects of a run's searches, from what happened and from the events alone."""

import json
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from contract.stages import SKIP_REASONS
from kernel.messages import Event, RunSpec

PRIMING = "task.priming"
LINE = 4  # candidates that may wait for the next boundary


@dataclass(frozen=True, slots=True)
class Executed:
    """A real outcome: of a call that was executed, or of an operation."""

    call_id: str
    operation_id: str | None
    tool: str
    server: str | None
    status: str
    error_class: str
    family: str  # which text, whatever its noise; empty without one that says anything

    @property
    def spender(self) -> str:
        return f"server {self.server}" if self.server else self.tool


@dataclass(frozen=True, slots=True)
class Expected:
    """A reason to search that must be seen. `situation` tells situations apart."""

    trigger: str
    call_id: str | None = None
    operation_id: str | None = None
    spender: str = ""
    situation: tuple[str, ...] = ()
    has_text: bool = True


@dataclass(slots=True)
class Activation:
    """One activation as the events told it so far; `end` is its result or its skip reason."""

    activation_id: str
    expected: Expected
    key: str
    deferred: bool = False
    requested: bool = False
    end: str = ""


@dataclass(slots=True)
class Boundary:
    """What one decision said of activations, in order."""

    new: list[Activation] = field(default_factory=list)
    requested: list[Activation] = field(default_factory=list)
    deferred: list[Activation] = field(default_factory=list)
    skipped: list[tuple[Activation, dict[str, object]]] = field(default_factory=list)


class Activations:
    """All activations of one run."""

    def __init__(self, spec: RunSpec, reached: Counter[str]) -> None:
        self.spec = spec
        self.reached = reached
        self.known: dict[str, Activation] = {}
        self.met: list[str] = []
        self.key_of: dict[tuple[str, ...], str] = {}
        self.searched: set[tuple[str, ...]] = set()
        self.spent: Counter[str] = Counter()
        self.n_runtime = 0

    def expect(self, happened: Sequence[Executed]) -> list[Expected]:
        """Return the reasons to search in what happened, by the words of the requirement."""
        reasons = []
        for one in happened:
            ids = (one.call_id, one.operation_id, one.spender)
            if one.status in ("failed", "timed_out"):
                situation = ("tool.failed", one.spender, one.error_class, one.family)
                reasons.append(Expected("tool.failed", *ids, situation, bool(one.family)))
            if one.server and one.server not in self.met:
                self.met.append(one.server)
                if one.status == "ok":
                    reasons.append(Expected("mcp.first_call", *ids, ("mcp.first_call", one.server)))
        return reasons

    def take(self, fresh: Sequence[Event], expected: Sequence[Expected] | None, spent: bool, tokens_used: int) -> None:
        """Take in the events of one decision. `expected` is None where no boundary was crossed; `spent` says that a
        limit of the run leaves only its last request, `tokens_used` is what runtime hints had cost before."""
        line = [one for one in self.known.values() if one.deferred and not one.requested and not one.end]
        seen = self._read(fresh, list(expected or ()))
        self.check_reasons_are_those_expected(seen, expected)
        self.check_switches_hold(seen, spent, tokens_used)
        self.check_limits_hold(seen)
        self.check_skips_are_true(seen, spent, tokens_used)
        if expected is not None:
            self.check_deferred_come_first(seen, line)
            self.searched |= {one.expected.situation for one in seen.deferred}

    def _read(self, fresh: Sequence[Event], expected: list[Expected]) -> Boundary:
        seen = Boundary()
        for event in fresh:
            if not event.type.startswith("activation."):
                continue
            one = self._one(event, expected, seen)
            data = json.loads(event.data)
            assert not one.end, f"{event.type} for {one.activation_id}, which had ended: {one.end}"
            if event.type == "activation.requested":
                assert not one.requested, f"{one.activation_id} was requested twice"
                one.requested = True
                seen.requested.append(one)
            elif event.type == "activation.deferred":
                assert not one.requested and not one.deferred, f"{one.activation_id} was deferred too late or twice"
                one.deferred = True
                seen.deferred.append(one)
                self.reached["deferred"] += 1
            elif event.type == "activation.skipped":
                assert not one.requested, f"{one.activation_id} was skipped and requested"
                one.end = data["skip_reason"]
                if one.deferred:
                    self.searched.discard(one.expected.situation)
                seen.skipped.append((one, data))
                self.reached[f"skipped: {one.end}"] += 1
            else:
                assert one.requested, f"{one.activation_id} was completed and never requested"
                one.end = data["result"]
                self.reached[f"search: {one.end}"] += 1
        return seen

    def _one(self, event: Event, expected: list[Expected], seen: Boundary) -> Activation:
        known = self.known.get(event.activation_id or "")
        if known is not None:
            return known
        data = json.loads(event.data)
        wanted = (data["trigger"], event.call_id, event.operation_id)
        found = [one for one in expected if (one.trigger, one.call_id, one.operation_id) == wanted]
        assert found, f"{wanted} is no reason to search; there are {expected}"
        expected.remove(found[0])
        made = Activation(str(event.activation_id), found[0], data.get("situation_key", ""))
        self.known[made.activation_id] = made
        seen.new.append(made)
        return made

    # ---- what must hold ----------------------------------------------------------------------------------

    def check_reasons_are_those_expected(self, seen: Boundary, expected: Sequence[Expected] | None) -> None:
        """Every reason is told once, and nothing else is; one situation has one key."""
        assert len(seen.new) == len(expected or ()), f"expected {expected}, came {[one.expected for one in seen.new]}"
        numbers = [int(one.activation_id.rsplit(":a", 1)[1]) for one in self.known.values()]
        assert sorted(numbers) == list(range(1, len(numbers) + 1)), f"activations are numbered {numbers}"
        for one in seen.new:
            if one.key:
                assert self.key_of.setdefault(one.expected.situation, one.key) == one.key, "a situation has two keys"
        assert len(set(self.key_of.values())) == len(self.key_of), "two situations have one key"

    def check_switches_hold(self, seen: Boundary, spent: bool, tokens_used: int) -> None:
        """Nothing is searched for that is switched off, says nothing, was searched for, or comes too late."""
        switches, limits = self.spec.switches, self.spec.limits
        for one in seen.requested:
            expected = one.expected
            assert expected.trigger not in switches.off, f"{expected.trigger} is off"
            if expected.trigger == PRIMING:
                continue
            assert switches.activation, "activation is off"
            assert expected.has_text, "a failure without text was searched for"
            assert not spent, "searched for a request without tools"
            assert tokens_used < limits.tokens_per_run, "searched with the run's tokens spent"
            waited = one.deferred
            assert waited or expected.situation not in self.searched, f"{expected.situation} was searched for twice"
            self.searched.add(expected.situation)

    def check_limits_hold(self, seen: Boundary) -> None:
        """Searches stay within the limits of the turn, of the tool or server, and of the run."""
        limits = self.spec.limits
        runtime = [one for one in seen.requested if one.expected.trigger != PRIMING]
        self.n_runtime += len(runtime)
        self.spent.update(one.expected.spender for one in runtime)
        assert len(runtime) <= limits.activations_per_turn, "over the limit of a turn"
        assert self.n_runtime <= limits.activations_per_run, "over the limit of the run"
        assert all(count <= limits.activations_per_tool for count in self.spent.values()), "over the limit of a tool"
        assert len(seen.deferred) <= LINE, "too many wait"
        if seen.deferred:
            assert len(runtime) == limits.activations_per_turn, "put off although the turn had room"

    def check_skips_are_true(self, seen: Boundary, spent: bool, tokens_used: int) -> None:
        """Every skip reason is a word of the vocabulary and so."""
        limits, switches = self.spec.limits, self.spec.switches
        full = sum(one.expected.trigger != PRIMING for one in seen.requested) == limits.activations_per_turn
        over = [one for one, _ in seen.skipped if one.end == "turn_cap"]
        handled = self.searched | {one.expected.situation for one in (*seen.deferred, *over)}
        for one, data in seen.skipped:
            expected = one.expected
            holds = {
                "activation_off": not switches.activation,
                "trigger_off": expected.trigger in switches.off,
                "no_diagnostic": not expected.has_text,
                "duplicate_situation": expected.situation in handled and data.get("same_as") in self.known,
                "final_turn": spent,
                "run_cap": self.n_runtime >= limits.activations_per_run,
                "tool_cap": self.spent[expected.spender] >= limits.activations_per_tool,
                "budget_spent": tokens_used >= limits.tokens_per_run,
                "turn_cap": full,
                "run_ended": one.deferred,
            }
            assert one.end in SKIP_REASONS and holds[one.end], f"{one.activation_id} was skipped: {one.end} is not so"

    def check_deferred_come_first(self, seen: Boundary, line: Sequence[Activation]) -> None:
        """What waited is searched for or skipped at the next boundary, ahead of what is new, and waits no longer."""
        still = [one.activation_id for one in line if not one.requested and not one.end]
        assert not still, f"{still} were put off and forgotten"
        taken = [one for one in line if one.requested]
        assert seen.requested[: len(taken)] == taken, "what had waited was not first in line"
        if any(one.end == "turn_cap" for one in line):
            assert seen.requested == taken, "something new was searched for before what had waited"
        self.reached["deferred and searched"] += len(taken)

    def check_all_ended(self) -> None:
        """Each activation was skipped, or requested and completed, once."""
        open_ = [one.activation_id for one in self.known.values() if not one.end]
        assert not open_, f"{open_} were neither skipped nor completed"
