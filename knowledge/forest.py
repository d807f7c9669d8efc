"""Makes trees out of links to parents that may be missing, circular or thousands deep: without recursion.

A circle is cut at its first member in reading order, which then stands as a root. (Seed 001 §13.)
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Forest:
    """Nodes are numbered from 0. `parents` holds no circle any more; `cut` are the nodes whose link was taken away."""

    parents: tuple[int | None, ...]
    depths: tuple[int, ...]
    cut: frozenset[int]

    def from_above(self) -> list[int]:
        """Return all nodes, every parent before its children, else in their order."""
        return sorted(range(len(self.depths)), key=self.depths.__getitem__)

    def descend(self) -> Iterator[int]:
        """Yield all nodes depth first, children in their order."""
        children: dict[int | None, list[int]] = {}
        for node, parent in enumerate(self.parents):
            children.setdefault(parent, []).append(node)
        waiting = children.get(None, [])[::-1]
        while waiting:
            node = waiting.pop()
            yield node
            waiting.extend(reversed(children.get(node, ())))


def plant(parents: Sequence[int | None]) -> Forest:
    """Return the forest of nodes linked to their parents by index. Takes time in proportion to their number."""
    linked = list(parents)
    cut = _cut_circles(linked)
    depths = [-1] * len(linked)
    for start in range(len(linked)):
        path: list[int] = []
        node: int | None = start
        while node is not None and depths[node] < 0:
            path.append(node)
            node = linked[node]
        depth = -1 if node is None else depths[node]
        for above in reversed(path):
            depth += 1
            depths[above] = depth
    return Forest(tuple(linked), tuple(depths), frozenset(cut))


def _cut_circles(linked: list[int | None]) -> list[int]:
    """Take one link out of every circle, in place; return the nodes that lost theirs."""
    cut: list[int] = []
    walked_by = [-1] * len(linked)  # the start of the walk that came past, which tells a circle from a known path
    for start in range(len(linked)):
        node: int | None = start
        while node is not None and walked_by[node] < 0:
            walked_by[node] = start
            node = linked[node]
        if node is None or walked_by[node] != start:
            continue
        first, current = node, linked[node]
        while current is not None and current != node:
            first, current = min(first, current), linked[current]
        linked[first] = None
        cut.append(first)
    return cut
