"""The chain of a run as a drawing: where its boxes and bands stand, and what had to be put together. Pure.

Heights are shares of all lines, but nothing that is there gets too thin to see. What is put together for lack of room
is one box that says how many it stands for; the table beside the picture names each.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Final

from debugger.queries.chain import COLUMNS, Chain, Node, Stop
from debugger.queries.pieces import one_line, plural

MOST_NODES: Final = 12  # boxes of a column
REST: Final = "rest:"  # key of the box that stands for what a column has no room for
WIDTH, STEP, BOX = 1_240.0, 178.0, 10.0
TOP, GAP, LINE = 34.0, 12.0, 30.0  # the heads, between boxes, two lines of text
TALLEST, THICKEST, THINNEST = 320.0, 26.0, 1.5  # all lines, one line, anything
LABEL: Final = 26  # code points that fit beside a box


@dataclass(frozen=True, slots=True)
class Box:
    """A node as drawn, with its two lines of text."""

    key: str
    tone: str
    is_inferred: bool
    x: float
    y: float
    height: float
    label: str
    counted: str
    told: str


@dataclass(frozen=True, slots=True)
class Band:
    """A link as drawn: an SVG path, in the tone of where it leads."""

    path: str
    tone: str
    told: str


@dataclass(frozen=True, slots=True)
class Picture:
    """The drawing. `merged` is column name -> how many nodes its last box stands for."""

    width: float
    height: float
    heads: tuple[tuple[str, float], ...]
    boxes: tuple[Box, ...]
    bands: tuple[Band, ...]
    merged: tuple[tuple[str, int], ...]


def keys_of(chain: Chain, key: str) -> tuple[str, ...]:
    """Return the nodes a box stands for: itself, or those that were put together in it; none for an unknown key."""
    merged = _merged(chain)
    inside = tuple(name for name, into in merged.items() if into == key)
    return inside or tuple(node.stop.key for node in chain.nodes if node.stop.key == key)


def draw(chain: Chain) -> Picture:
    """Return the drawing of a chain that has at least one line."""
    merged = _merged(chain)
    columns = [_drawn(chain, number, merged) for number in range(len(COLUMNS))]
    unit = min(THICKEST, TALLEST / max(1, chain.n_lines))
    sizes = {node.stop.key: max(THINNEST, node.n * unit) for column in columns for node in column}
    boxes: dict[str, Box] = {}
    for number, column in enumerate(columns):
        y = TOP
        for node in column:
            boxes[node.stop.key] = _box(node, number * STEP, y, sizes[node.stop.key])
            y += max(sizes[node.stop.key], LINE) + GAP
    height = max(box.y + max(box.height, LINE) for box in boxes.values()) + GAP
    shown = [number for number, column in enumerate(columns) if column]
    return Picture(
        width=WIDTH,
        height=round(height, 1),
        heads=tuple((COLUMNS[number], number * STEP) for number in shown),
        boxes=tuple(boxes.values()),
        bands=_bands(chain, merged, boxes, unit),
        merged=tuple(
            (COLUMNS[number], n)
            for number in shown
            if (n := sum(into == f"{REST}{number}" for into in merged.values()))
        ),
    )


def _merged(chain: Chain) -> dict[str, str]:
    """Return node -> the box that stands for it, for those a column has no room for: its smallest."""
    merged = {}
    for number in range(len(COLUMNS)):
        column = chain.column(number)
        if len(column) > MOST_NODES:
            smallest = sorted(column, key=lambda node: -node.n)[MOST_NODES - 1 :]
            merged.update({node.stop.key: f"{REST}{number}" for node in smallest})
    return merged


def _drawn(chain: Chain, number: int, merged: Mapping[str, str]) -> list[Node]:
    column = chain.column(number)
    alone = [node for node in column if node.stop.key not in merged]
    rest = [node for node in column if node.stop.key in merged]
    return [*alone, _rest(number, rest)] if rest else alone


def _rest(number: int, nodes: Sequence[Node]) -> Node:
    told = f"{plural(len(nodes), 'node')} put together for lack of room; the table names each"
    stop = Stop(number, f"{REST}{number}", f"{len(nodes):,} others", told)
    return Node(
        stop,
        sum(node.n for node in nodes),
        sum(node.n_activations for node in nodes),
        any(node.is_of_candidates for node in nodes),
    )


def _box(node: Node, x: float, y: float, height: float) -> Box:
    stop = node.stop
    told = f"{COLUMNS[stop.column]}: {stop.label}, {node.counted}"
    return Box(
        key=stop.key,
        tone=stop.tone,
        is_inferred=stop.is_inferred,
        x=x,
        y=round(y, 1),
        height=round(height, 1),
        label=one_line(stop.label, LABEL),
        counted=node.counted,
        told=f"{told}. {stop.meaning[:1].upper()}{stop.meaning[1:]}" if stop.meaning else told,
    )


def _bands(chain: Chain, merged: Mapping[str, str], boxes: Mapping[str, Box], unit: float) -> tuple[Band, ...]:
    """Return the bands, stacked at both ends in the order of the boxes, so that few of them cross."""
    counts: dict[tuple[str, str], int] = {}
    for (one, other), n in chain.links.items():
        pair = merged.get(one, one), merged.get(other, other)
        counts[pair] = counts.get(pair, 0) + n
    order = {key: place for place, key in enumerate(boxes)}
    left, right = (dict.fromkeys(boxes, 0.0) for _ in range(2))
    bands = []
    for (one, other), n in sorted(counts.items(), key=lambda item: (order[item[0][0]], order[item[0][1]])):
        source, target, thick = boxes[one], boxes[other], max(THINNEST, n * unit)
        y1, y2 = source.y + left[one], target.y + right[other]
        left[one] += thick
        right[other] += thick
        path = _path(source.x + BOX, y1, target.x, y2, thick)
        bands.append(Band(path, target.tone, f"{n:,} from “{source.label}” to “{target.label}”"))
    return tuple(bands)


def _path(x1: float, y1: float, x2: float, y2: float, thick: float) -> str:
    """Return a band of one thickness from one box to the next, bent in the middle."""
    middle = (x1 + x2) / 2
    there = f"M{x1:.1f} {y1:.1f}C{middle:.1f} {y1:.1f} {middle:.1f} {y2:.1f} {x2:.1f} {y2:.1f}"
    back = f"V{y2 + thick:.1f}C{middle:.1f} {y2 + thick:.1f} {middle:.1f} {y1 + thick:.1f} {x1:.1f} {y1 + thick:.1f}Z"
    return there + back
