"""The chain of a whole run as counts: which stage each candidate reached, and where and why it stopped. Pure.

A line is one candidate of one activation, or an activation that gave none; it passes one node of each column up to
the one where it stopped. Every word is explained from contract.stages. (Seed 001 §13, §14.)
"""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from contract import stages
from debugger.queries.pieces import one_line, plural
from debugger.queries.rows import NS
from knowledge.models import Activation, Candidate
from knowledge.span_searches import AGENT_SEARCH

COLUMNS: Final = ("Trigger", "Activation", "Candidates", "Hints", "Delivery", "Use", "Outcome")
TRIGGER, ACTIVATION, FOUND, HINTS, DELIVERY, USE, OUTCOME = range(len(COLUMNS))
MOST_APART: Final = 12  # activations with a node of their own; more are put together by how they ended
LABEL: Final = 60


@dataclass(frozen=True, slots=True)
class Stop:
    """A node as one line passes it. `key` is unique in the picture; `tone` is a tone of the pages."""

    column: int
    key: str
    label: str
    meaning: str = ""
    tone: str = "soft"
    is_inferred: bool = False


@dataclass(frozen=True, slots=True)
class Line:
    """One candidate on its way, or (`candidate` is None) an activation without; `n` are alike, not told apart."""

    activation: Activation
    candidate: Candidate | None
    stops: tuple[Stop, ...]
    n: int = 1


@dataclass(frozen=True, slots=True)
class Node:
    """A stop with all lines that pass it. `n_activations` is how many activations those lines are of."""

    stop: Stop
    n: int
    n_activations: int
    is_of_candidates: bool

    @property
    def counted(self) -> str:
        if self.is_of_candidates:
            return plural(self.n, "candidate" if self.stop.column <= HINTS else "hint")
        return plural(self.n_activations, "activation")


@dataclass(frozen=True, slots=True)
class Chain:
    """The counts of a run. `nodes` are in the order they are drawn in, column by column; `links` by their two keys."""

    lines: tuple[Line, ...]
    nodes: tuple[Node, ...]
    links: Mapping[tuple[str, str], int]
    n_activations: int
    are_apart: bool

    @property
    def n_lines(self) -> int:
        return sum(line.n for line in self.lines)

    def column(self, number: int) -> tuple[Node, ...]:
        return tuple(node for node in self.nodes if node.stop.column == number)

    def through(self, keys: Iterable[str]) -> tuple[Line, ...]:
        """Return the lines that pass one of the nodes `keys`."""
        wanted = frozenset(keys)
        return tuple(line for line in self.lines if any(stop.key in wanted for stop in line.stops))


def build_chain(activations: Sequence[Activation], candidates: Iterable[Candidate], origin_ns: int) -> Chain:
    """Return the chain of a run from its rows; `origin_ns` is the run's start."""
    own: dict[str, list[Candidate]] = {}
    for candidate in candidates:
        own.setdefault(candidate.activation_id, []).append(candidate)
    known = {activation.activation_id for activation in activations}
    strays = [Activation(activation_id=name) for name in own if name not in known]
    every = (*activations, *strays)
    are_apart = len(every) <= MOST_APART
    lines = []
    for activation in every:
        found = own.get(activation.activation_id, [])
        start = (_trigger(activation), _activation(activation, found, origin_ns, are_apart))
        lines += _lines(activation, found, start)
    return Chain(tuple(lines), _nodes(lines), _links(lines), len(every), are_apart)


def _lines(activation: Activation, found: Sequence[Candidate], start: tuple[Stop, ...]) -> list[Line]:
    lines = [Line(activation, one, (*start, _found(activation), *_way_of(one))) for one in found]
    unlisted = activation.n_retrieved - len(found)
    if unlisted > 0:
        stop = Stop(HINTS, "unlisted", "not listed", "found, and not in the list that was reported")
        lines.append(Line(activation, None, (*start, _found(activation), stop), unlisted))
    return lines or [Line(activation, None, (*start, _nothing(activation)))]


def _trigger(activation: Activation) -> Stop:
    if activation.trigger:
        meaning = stages.TRIGGERS.get(activation.trigger, "a trigger that is not explained here")
        return Stop(TRIGGER, f"trigger:{activation.trigger}", activation.trigger, meaning, "hint")
    return Stop(TRIGGER, "trigger", "not reported", "nobody reported what set the search off")


def _activation(activation: Activation, found: Sequence[Candidate], origin_ns: int, is_apart: bool) -> Stop:
    guess = f"inferred, not reported: {activation.inferred_trigger}" if activation.inferred_trigger else ""
    result = "skipped" if activation.skip_reason else activation.result
    tone = "hint" if found else "warn" if result in ("timeout", "error") else "soft"
    meaning = stages.ACTIVATION_RESULTS.get(result, result or "not answered yet")
    if not is_apart:
        key, label = f"result:{result}{':inferred' if guess else ''}", result or "not answered yet"
        return Stop(ACTIVATION, key, label, meaning, tone, bool(guess))
    if not activation.activation_id:
        return Stop(ACTIVATION, "activation:", "not known", "reports that name no activation", tone)
    since = activation.requested_ns or activation.completed_ns
    at = f"{(since - origin_ns) / NS:+,.2f} s " if since is not None and origin_ns else ""
    name = activation.mcp_server or activation.tool or ("task" if activation.trigger == "task.priming" else "search")
    told = " · ".join(part for part in (meaning, guess) if part)
    label = one_line(f"{at}{name}", LABEL)
    return Stop(ACTIVATION, f"activation:{activation.activation_id}", label, told, tone, bool(guess))


def _nothing(activation: Activation) -> Stop:
    """Return where an activation without candidates stopped."""
    if reason := activation.skip_reason:
        meaning = stages.SKIP_REASONS.get(reason, reason)
        return Stop(FOUND, f"skipped:{reason}", f"no search: {_words(reason)}", meaning)
    if activation.result in ("timeout", "error"):
        meaning = stages.ACTIVATION_RESULTS[activation.result]
        return Stop(FOUND, activation.result, f"search: {activation.result}", meaning, "warn")
    if activation.result == "empty":
        return Stop(FOUND, "empty", "nothing that fits", stages.ACTIVATION_RESULTS["empty"])
    if not activation.result:
        return Stop(FOUND, "open", "not answered yet", "the search was put off or is still waited for")
    return Stop(FOUND, "unreported", "none reported", "the search answered, and no candidate was reported")


def _found(activation: Activation) -> Stop:
    if activation.trigger == AGENT_SEARCH:
        return Stop(FOUND, "documents", "found by the application", "documents of the application's own search", "hint")
    return Stop(FOUND, "found", "found", stages.STAGES["retrieved"], "hint")


def _way_of(candidate: Candidate) -> tuple[Stop, ...]:
    """Return the stops of a candidate from Hints on. A later stage that was reported is shown whatever is missing."""
    if candidate.offered_ns is None and (reason := candidate.hold_reason):
        meaning = stages.HOLD_REASONS.get(reason, reason)
        return (Stop(HINTS, f"held:{reason}", f"held back: {_words(reason)}", meaning),)
    went = _delivery(candidate)
    if candidate.offered_ns is None and not candidate.hint_id and went is None:
        return (Stop(HINTS, "untold", "no more is known", "found; nobody reported what became of it"),)
    offered = Stop(HINTS, "offered", "offered", stages.STAGES["offered"], "hint")
    if went is None:
        unsaid = Stop(DELIVERY, "unsaid", "not reported", "offered; the kernel has not said what became of it")
        return (offered, unsaid)
    use, outcome = _use(candidate), _outcome(candidate)
    return tuple(stop for stop in (offered, went, use, outcome) if stop is not None)


def _delivery(candidate: Candidate) -> Stop | None:
    if candidate.injected_ns is not None:
        return Stop(DELIVERY, "injected", "injected", stages.STAGES["injected"], "hint")
    if candidate.dropped_ns is not None:
        reason = candidate.drop_reason or "no reason"
        before = "selected, then " if candidate.selected_ns is not None else ""
        meaning = stages.DROP_REASONS.get(reason, "no reason was reported" if reason == "no reason" else reason)
        key = f"dropped:{'selected:' if before else ''}{reason}"
        return Stop(DELIVERY, key, f"{before}dropped: {_words(reason)}", meaning, "bad")
    if candidate.selected_ns is not None:
        return Stop(DELIVERY, "selected", "selected", "chosen, and not seen in a request yet", "accent")
    return None


def _use(candidate: Candidate) -> Stop | None:
    if candidate.used_ns is not None:
        return Stop(USE, "used", "used", stages.STAGES["used"], "ok")
    if candidate.ignored_ns is not None:
        return Stop(USE, "ignored", "not acted on", "nothing the agent did shows it")
    if candidate.injected_ns is not None or candidate.outcome:
        return Stop(USE, "use-unknown", "not known", "no evidence for or against its use")
    return None


def _outcome(candidate: Candidate) -> Stop | None:
    if candidate.outcome:
        tone = {"helpful": "ok", "harmful": "bad"}.get(candidate.outcome, "soft")
        meaning = stages.OUTCOMES.get(candidate.outcome, candidate.outcome)
        return Stop(OUTCOME, f"outcome:{candidate.outcome}", candidate.outcome, meaning, tone)
    if candidate.used_ns is not None or candidate.ignored_ns is not None:
        return Stop(OUTCOME, "outcome", "not known", "what followed shows neither good nor harm")
    return None


def _words(word: str) -> str:
    return one_line(word.replace("_", " "), LABEL)


def _nodes(lines: Sequence[Line]) -> tuple[Node, ...]:
    """Return the nodes: what goes on first, then what ends there, larger first; activations by their triggers."""
    triggers: dict[str, int] = {}
    for line in lines:
        triggers.setdefault(line.stops[TRIGGER].key, len(triggers))
    passing: dict[str, list[Line]] = {}
    stops: dict[str, Stop] = {}
    for line in sorted(lines, key=lambda line: triggers[line.stops[TRIGGER].key]):
        for stop in line.stops:
            stops.setdefault(stop.key, stop)
            passing.setdefault(stop.key, []).append(line)
    nodes = [_node(stop, passing[key]) for key, stop in stops.items()]
    ends = {key: all(line.stops[-1].key == key for line in passing[key]) for key in stops}

    def place(node: Node) -> tuple[int, ...]:
        column = node.stop.column
        return (column,) if column <= ACTIVATION else (column, ends[node.stop.key], -node.n)

    return tuple(sorted(nodes, key=place))


def _node(stop: Stop, passing: Sequence[Line]) -> Node:
    goes_on = any(line.stops[-1].column > FOUND for line in passing)
    n_activations = len({line.activation.activation_id for line in passing})
    return Node(stop, sum(line.n for line in passing), n_activations, stop.column >= FOUND and goes_on)


def _links(lines: Iterable[Line]) -> dict[tuple[str, str], int]:
    links: dict[tuple[str, str], int] = {}
    for line in lines:
        for one, other in zip(line.stops, line.stops[1:], strict=False):
            links[one.key, other.key] = links.get((one.key, other.key), 0) + line.n
    return links
