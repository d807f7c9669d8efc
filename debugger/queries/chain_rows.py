"""Reads what the picture of a run's chain is drawn from, within bounds, and says why there may be nothing to draw."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

from debugger.access import GuardedRun
from debugger.queries.candidates import describe_candidate
from debugger.queries.chain import Chain, Line, build_chain
from debugger.queries.pieces import Piece, plural
from knowledge.models import Activation, Candidate

MOST_ACTIVATIONS: Final = 2_000
MOST_CANDIDATES: Final = 10_000
LISTED: Final = 50  # lines of a node listed at once
UNREAD: Final = ("query", "block", "query_diagnostics", "later_calls")  # long, and not drawn


@dataclass(frozen=True, slots=True)
class ChainRows:
    """The chain of a run, and what was left out because there is too much of it."""

    chain: Chain
    origin_ns: int
    warnings: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ListedLine:
    """A line of a node, as a row of the list below the picture: where it leads and how it ended."""

    line: Line
    way: str
    happened: tuple[Piece, ...]

    @property
    def is_dropped(self) -> bool:
        one = self.line.candidate
        return one is not None and one.dropped_ns is not None and one.injected_ns is None


def load_chain(run: GuardedRun) -> ChainRows:
    """Read a run's activations and candidates. Two queries, whatever its size."""
    own: dict[str, Any] = {"project_id": run.project.pk, "run_id": run.registry.run_id}
    found = Activation.objects.filter(**own).defer(*UNREAD).order_by("ordinal")[: MOST_ACTIVATIONS + 1]
    activations = list(found)
    candidates = list(Candidate.objects.filter(**own).order_by("activation_id", "rank")[: MOST_CANDIDATES + 1])
    warnings = []
    if len(activations) > MOST_ACTIVATIONS:
        warnings.append(f"Only the first {MOST_ACTIVATIONS:,} activations of this run are counted here.")
    if len(candidates) > MOST_CANDIDATES:
        warnings.append(f"Only {MOST_CANDIDATES:,} candidates of this run are counted here.")
    activations = activations[:MOST_ACTIVATIONS]
    kept = {activation.activation_id for activation in activations}
    candidates = [
        one for one in candidates[:MOST_CANDIDATES] if len(kept) < MOST_ACTIVATIONS or one.activation_id in kept
    ]
    origin_ns = (run.summary.started_ns or 0) if run.summary else 0
    return ChainRows(build_chain(activations, candidates, origin_ns), origin_ns, tuple(warnings))


def list_lines(lines: Sequence[Line], origin_ns: int) -> list[ListedLine]:
    """Return lines as rows of a list."""
    listed = []
    for line in lines:
        one = line.candidate
        happened = describe_candidate(one, {}, origin_ns).happened if one is not None else (_without(line),)
        listed.append(ListedLine(line, " → ".join(stop.label for stop in line.stops), happened))
    return listed


def _without(line: Line) -> Piece:
    last = line.stops[-1]
    alike = f"{plural(line.n, 'candidate')}: " if line.n > 1 else ""
    return Piece(f"{alike}{last.meaning or last.label}", "soft")


def why_empty(run: GuardedRun) -> str:
    """Return why a run has no activation, in words, as far as what it reported tells."""
    summary = run.summary
    if summary is None:
        return "Nothing has been derived from its events yet; the chain follows in a moment."
    if summary.switches.get("activation") is False:
        return "Searching was switched off for this run."
    off = summary.switches.get("off")
    named = f" Switched off: {', '.join(map(str, off[:20]))}." if isinstance(off, list) and off else ""
    if not summary.n_tools_failed and not summary.mcp_servers:
        return f"No tool failed and no MCP server was used, and nothing was looked up for its task.{named}"
    happened = f"{plural(summary.n_tools_failed, 'call')} failed" if summary.n_tools_failed else "MCP servers were used"
    return f"{happened}, and whoever sent this run reported no search for it.{named}"
