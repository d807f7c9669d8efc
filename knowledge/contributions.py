"""What one run adds to the rollups: counts by what was searched for, where, by which version, in which arm. Pure.

A contribution is made from a run's chain alone, in whole numbers, so that sums of contributions are the same in any
order and one can be taken out again. Cells of searches stand beside cells of items: at a decision point an item counts
in the arm drawn, where it would have been placed. (Seed 001 §13, §16.4.)
"""

import zlib
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import orjson

from knowledge.chain_facts import UNKNOWN_ITEM, ActivationFacts, CandidateFacts, RunChain, RunFacts
from knowledge.effects.counts import ATTEMPT_LIMIT, WITHHELD

SKIPPED: Final = "skipped"
LATENCY_MS: Final = (1, 2, 5, 10, 20, 50, 100, 200, 500, 1_000, 2_000, 5_000, 10_000)  # upper bounds of the histogram
LONGER: Final = "longer"
LONGEST_MS: Final = 86_400_000.0  # what a sender says beyond it is nonsense, and would ruin sums
# What a cell counts, in the order of the table's columns; beside them stand those of knowledge.effects.counts.
COUNTS: Final = (
    "n_activations", "n_skipped", "n_offering", "n_injecting", "n_acting", "n_resolved", "n_unresolved",
    "n_retrieved", "n_offered", "n_selected", "n_injected", "n_dropped", "n_used", "n_ignored",
    "n_helpful", "n_harmful", "n_neutral", "tokens", "n_timed", "waited_us", "n_draws",
)  # fmt: skip
WORD_KINDS: Final = ("result", "skip", "hold", "drop", "used_by", "judged_by", "ms")
PPM: Final = 1_000_000


class RollupKey(NamedTuple):
    """Where a count belongs, but for project and day. Empty where it is not known or does not apply."""

    trigger: str
    tool: str
    mcp_server: str
    attempt: int  # of the decision point, 0 where nothing was drawn
    algorithm_version: str
    experiment: str
    arm: str
    share_ppm: int | None
    knowledge_id: str = ""


# Names of COUNTS and of effects.counts.COLUMNS, and `kind:word` of WORD_KINDS; nothing that is 0.
Counts = Mapping[str, int]
Cells = Mapping[RollupKey, Counts]


def contribute(chain: RunChain) -> dict[RollupKey, dict[str, int]]:
    """Return what a run adds to each cell."""
    cells: dict[RollupKey, Counter[str]] = {}
    found: dict[str, list[CandidateFacts]] = {}
    for candidate in chain.candidates:
        found.setdefault(candidate.activation_id, []).append(candidate)
    for activation, attempt, is_point in _drawn(chain.activations):
        key = _key(activation, attempt)
        candidates = found.get(activation.activation_id, [])
        cells.setdefault(key, Counter()).update(_of_search(activation, candidates))
        point = _of_point(activation, chain.run) if is_point else {}
        cells[key].update(point)
        for candidate in candidates:
            if candidate.knowledge_id.startswith(UNKNOWN_ITEM):
                continue
            item = cells.setdefault(key._replace(knowledge_id=candidate.knowledge_id), Counter())
            item.update(_of_item(activation, candidate))
            if _at_stake(activation, candidate):
                item.update(point)
    kept = {key: {name: number for name, number in sorted(cells[key].items()) if number} for key in in_order(cells)}
    return {key: counts for key, counts in kept.items() if counts}


def in_order(keys: Iterable[RollupKey]) -> list[RollupKey]:
    """Return the keys in the one order in which cells are written; a share that is not known stands first."""
    return sorted(keys, key=lambda key: key._replace(share_ppm=-1 if key.share_ppm is None else key.share_ppm))


def pack(cells: Cells) -> bytes:
    """Return the stored form of a contribution: the same bytes for the same cells."""
    rows = [[*key, sorted(cells[key].items())] for key in in_order(cells)]
    return zlib.compress(orjson.dumps(rows)) if rows else b""


def unpack(stored: bytes | memoryview) -> dict[RollupKey, dict[str, int]]:
    """Return the cells that `pack` stored."""
    data = bytes(stored)
    rows: list[list[Any]] = orjson.loads(zlib.decompress(data)) if data else []
    return {RollupKey(*row[:-1]): dict(row[-1]) for row in rows}


def _key(activation: ActivationFacts, attempt: int) -> RollupKey:
    drawn = activation.arm != ""
    return RollupKey(
        trigger=activation.trigger,
        tool=activation.tool or "",
        mcp_server=activation.mcp_server or "",
        attempt=attempt,
        algorithm_version=activation.algorithm_version,
        experiment=activation.experiment if drawn else "",
        arm=activation.arm,
        share_ppm=_ppm(activation.share) if drawn and activation.share is not None else None,
    )


def _ppm(share: float) -> int:
    """Return a share in millionths; only what is 0 or 1 becomes none or all, because these withhold never or always."""
    return round(share * PPM) if share in (0, 1) else min(max(round(share * PPM), 1), PPM - 1)


def _drawn(activations: Sequence[ActivationFacts]) -> Iterator[tuple[ActivationFacts, int, bool]]:
    """Yield each search with the number of its decision point and whether it is that point.

    A point is the first draw of a situation. A later draw of it falls into the same arm: it is none of its own, and
    stands with the point it repeats.
    """
    met: Counter[tuple[str, str]] = Counter()
    attempts: dict[tuple[str, str], int] = {}
    for activation in activations:
        if not activation.arm:
            yield activation, 0, False
            continue
        named = activation.situation_key
        situation = (activation.trigger, named) if named else ("", activation.activation_id)
        is_point = situation not in attempts
        if is_point:
            place = (activation.trigger, activation.mcp_server or activation.tool or "")
            met[place] += 1
            attempts[situation] = min(met[place], ATTEMPT_LIMIT)
        yield activation, attempts[situation], is_point


def _of_search(activation: ActivationFacts, candidates: Sequence[CandidateFacts]) -> Counter[str]:
    """Count one search, or one that was due and not made."""
    counts: Counter[str] = Counter()
    for candidate in candidates:
        counts.update(_of_candidate(candidate))
    # Of what was found only a part is listed.
    counts["n_retrieved"] = activation.n_retrieved
    counts["n_draws"] = int(activation.arm != "")
    counts["tokens"] = activation.tokens
    if activation.result == SKIPPED:
        counts.update({"n_skipped": 1, f"skip:{activation.skip_reason}": 1})
        return counts
    counts["n_activations"] = 1
    counts[f"result:{activation.result}"] = 1
    counts["n_resolved"] = int(activation.resolved is True)
    counts["n_unresolved"] = int(activation.resolved is False)
    counts["n_offering"] = int(activation.n_offered > 0)
    counts["n_injecting"] = int(activation.n_injected > 0)
    counts["n_acting"] = int(any(candidate.used_ns is not None for candidate in candidates))
    waited = waited_ms(activation)
    if waited is not None:
        bound = next((str(bound) for bound in LATENCY_MS if waited <= bound), LONGER)
        counts.update({"n_timed": 1, "waited_us": round(waited * 1_000), f"ms:{bound}": 1})
    return counts


def waited_ms(activation: ActivationFacts) -> float | None:
    """Return how long the run waited for a search, a day at most; how long that took where only this is known."""
    waited = activation.search_ms if activation.duration_ms is None else activation.duration_ms
    return None if waited is None else min(waited, LONGEST_MS)


def _of_candidate(candidate: CandidateFacts) -> Counter[str]:
    """Count how far one item came in one search."""
    injected, used = candidate.injected_ns is not None, candidate.used_ns is not None
    dropped = candidate.dropped_ns is not None and not injected
    counts = Counter(
        n_retrieved=1,
        n_offered=int(candidate.offered_ns is not None),
        n_selected=int(candidate.selected_ns is not None),
        n_injected=int(injected),
        n_dropped=int(dropped),
        n_used=int(used),
        n_ignored=int(candidate.ignored_ns is not None and not used),
    )
    if candidate.outcome in ("helpful", "harmful", "neutral"):
        counts[f"n_{candidate.outcome}"] = 1
    words = {
        "hold": candidate.hold_reason,
        "drop": candidate.drop_reason if dropped else "",
        "used_by": candidate.usage_source,
        "judged_by": candidate.outcome_source,
    }
    counts.update({f"{kind}:{word}": 1 for kind, word in words.items() if word})
    return counts


def _of_item(activation: ActivationFacts, candidate: CandidateFacts) -> Counter[str]:
    """Count one item in one search; what followed the search and what it cost, where the item was injected."""
    counts = _of_candidate(candidate)
    counts.update(n_activations=1, n_draws=int(_at_stake(activation, candidate)))
    if candidate.injected_ns is not None:
        counts.update(
            tokens=candidate.tokens or 0,
            n_resolved=int(activation.resolved is True),
            n_unresolved=int(activation.resolved is False),
        )
    return counts


def _at_stake(activation: ActivationFacts, candidate: CandidateFacts) -> bool:
    """Say whether a draw was about this item: it was chosen, and then placed or withheld."""
    if activation.arm == WITHHELD:
        return candidate.drop_reason == "holdout"
    return activation.arm != "" and (candidate.selected_ns is not None or candidate.injected_ns is not None)


def _of_point(activation: ActivationFacts, run: RunFacts) -> dict[str, int]:
    """Count one decision point in the arm it was drawn into, whatever then became of its hints."""
    return {
        "n_points": 1,
        "near_success": int(activation.near is True),
        "near_failure": int(activation.near is False),
        "far_success": int(run.success is True),
        "far_failure": int(run.success is False),
        "calls_after": activation.calls_after,
        "failed_after": activation.failed_after,
        "hint_tokens": activation.tokens,
        "search_ms": round(waited_ms(activation) or 0),
        "turns_after": activation.turns_after,
        "model_tokens_after": activation.model_tokens_after,
    }
