"""What the comparison of two runs says in words: where they first part, and what limits what it can say. Pure."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

from debugger.queries.compare import CHANGED, ONLY_A, Pair, TurnPairs, first_difference
from debugger.queries.compare_loading import Read, last_turn
from debugger.queries.pieces import plural

# Kind of a row -> what it is called in a sentence.
KINDS: Final = {
    "model": "request to the model",
    "tool": "call",
    "activation": "search for knowledge",
    "operation": "operation",
    "approval": "approval",
    "human": "question",
    "delegate": "delegated run",
    "run.started": "start of the run",
    "span": "span",
}


@dataclass(frozen=True, slots=True)
class FirstDifference:
    """Where two runs part: under which heading, in words, and the rows of both that stand there."""

    title: str
    said: str
    pair: Pair


def where_first(turns: Sequence[TurnPairs]) -> FirstDifference | None:
    """Return where the two runs part, or None when no line differs."""
    found = first_difference(turns)
    if found is None:
        return None
    place, pair = found
    row = pair.a or pair.b
    kind = KINDS.get(row.kind, row.kind.replace("_", " ").replace(".", " ")) if row else ""
    if pair.verdict == CHANGED:
        said = f"{_a(kind)} in both; what differs: {pair.gist}"
    else:
        side, other = ("A", "B") if pair.verdict == ONLY_A else ("B", "A")
        said = f"{side} has {_a(kind)} here that {other} has not"
    return FirstDifference(turns[place].title, said, pair)


def _a(kind: str) -> str:
    return f"{'an' if kind[:1] in 'aeiou' else 'a'} {kind}"


def notices_of(a: Read, b: Read, turns: Sequence[TurnPairs]) -> tuple[str, ...]:
    """Return what a reader has to know of the two runs before believing what is said of them."""
    said = [sentence for letter, side in (("A", a), ("B", b)) for sentence in _of_side(letter, side)]
    if a.is_cut or b.is_cut:
        end = last_turn(a, b)
        said.append(f"Rows are compared {'as far as both were read' if end is None else f'before turn {end:,}'}.")
    in_order = [turn.title for turn in turns if turn.in_order]
    if in_order:
        named = ", ".join(in_order[:5]) + (" …" if len(in_order) > 5 else "")  # noqa: PLR2004
        said.append(f"Too many rows to find the best pairs: in {named} they are paired in their order.")
    return tuple(said)


def _of_side(letter: str, side: Read) -> list[str]:
    loaded, head = side.loaded, side.header
    said = []
    if head.is_running:
        said.append(f"{letter} has not ended: it is compared as far as it has come. Load the page again for more.")
    if loaded.timeline.foreign is not None:
        said.append(
            f"{letter} is told by spans of an application that is not ours: it has no turns, and of knowledge only "
            "what the application reported."
        )
    behind = loaded.cursor.arrival - loaded.cursor.folded
    if behind > 0:
        said.append(f"{plural(behind, 'event')} of {letter} not folded yet: its counts and hints are behind.")
    if side.is_cut:
        n_read = f"{len(loaded.events):,} of {side.n_events:,}"
        said.append(f"{letter} is long: the first {n_read} events are read. Numbers, hints and situations are of all.")
    if loaded.timeline.n_missing and not side.is_cut:
        said.append(f"{plural(loaded.timeline.n_missing, 'event')} of {letter} did not arrive.")
    if loaded.run.gone is not None:
        said.append(f"An earlier part of {letter} is gone: only what came after it is compared.")
    return said
