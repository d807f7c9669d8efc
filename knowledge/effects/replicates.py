"""What a cell of counts keeps so that any sum of cells still knows its uncertainty by run. Pure.

Points of one run are alike, so an honest interval resamples runs, not points. Every run is given N_REPLICATES weights
that are drawn once from its id, each Poisson(1): how often the run would occur in a resample. A cell holds, for each
replicate, its sums times these weights. Sums of weighted sums are weighted sums of the whole, so the bootstrap of any
aggregate costs no more than adding up its cells, in any order, and a run that lies in many cells has one weight in all
of them. (Poisson bootstrap: Hanley and MacGibbon 2006; for counts that are added up apart: Chamandy, Muralidharan,
Najmi and Naidu, "Estimating Uncertainty for Massive Data Streams", 2012. Seed 001 §16.)
"""

import functools
import hashlib
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final, Self

import numpy as np
from numpy.typing import NDArray

Whole = NDArray[np.integer]  # any width; sums are made in 64 bits

N_REPLICATES: Final = 256  # a standard error out of 256 replicates is itself known to 4.4 %
N_MARKS: Final = 256  # places that distinct runs are counted in
ROWS: Final = ("near_known", "near_success", "far_known", "far_success", "calls_after", "failed_after")
SALT: Final = b"temporality.effects.1"  # the same for all projects: a run has one set of weights wherever it is counted
LENGTH: Final = len(ROWS) * N_REPLICATES + N_MARKS
FORM: Final = 1  # first byte of the stored form; the second is the width of its numbers
WIDTHS: Final = (1, 2, 4, 8)  # bytes
N_NEAR: Final = 2 * N_REPLICATES  # numbers of the first two rows, which tell of the outcome `near`


def _poisson_steps() -> NDArray[np.uint32]:
    """Return where a number of 16 bits passes from one weight to the next: the distribution of Poisson(1)."""
    chances = [math.exp(-1) / math.factorial(weight) for weight in range(9)]
    return np.round(np.cumsum(chances)[:-1] * 2**16).astype(np.uint32)


STEPS: Final = _poisson_steps()


@functools.lru_cache(maxsize=1024)  # a run has several cells, and runs are added up some hundreds at once
def weights_of(run_id: str) -> Whole:
    """Return how often the run occurs in each of the N_REPLICATES resamples: the same today and in a year."""
    named = hashlib.shake_256(SALT + run_id.encode("utf-8", "surrogatepass"))
    drawn = np.frombuffer(named.digest(2 * N_REPLICATES), dtype="<u2")
    weights = np.searchsorted(STEPS, drawn, side="right").astype(np.int64)
    weights.flags.writeable = False
    return weights


@functools.lru_cache(maxsize=1024)
def mark_of(run_id: str) -> int:
    """Return the place among N_MARKS where the run is counted."""
    named = hashlib.sha256(SALT + b"\x1f" + run_id.encode("utf-8", "surrogatepass"))
    return named.digest()[0] % N_MARKS


def _unreadable(length: int) -> str:
    return f"replicates: {length} bytes are not of form {FORM} with {LENGTH} numbers; rebuild"


def _by_width(parts: Iterable[bytes], length: int) -> dict[int, list[bytes]]:
    """Return the numbers of stored forms of so many numbers, by their width in bytes."""
    found: dict[int, list[bytes]] = {}
    for data in parts:
        width = data[1] if len(data) > 1 and data[0] == FORM else 0
        if width not in WIDTHS or len(data) != 2 + width * length:
            raise ValueError(_unreadable(len(data)))
        found.setdefault(width, []).append(data[2:])
    return found


def halves_of(stored: bytes) -> tuple[bytes, bytes]:
    """Return a stored form as what tells of `near` and of runs, a form of its own, and the numbers that this leaves."""
    width = stored[1]
    first, last = 2 + width * N_NEAR, len(stored) - width * N_MARKS
    return stored[:first] + stored[last:], stored[first:last]


def joined(near: bytes, rest: bytes) -> bytes:
    """Return the stored form that `halves_of` cut."""
    first = 2 + near[1] * N_NEAR
    return near[:first] + rest + near[first:]


@dataclass(frozen=True, slots=True, eq=False)
class Replicates:
    """Weighted sums of a cell: `sums` by ROWS and replicate, `marks` the runs counted at each of N_MARKS places.

    Both are sums over runs: adding and taking away is exact, in any order. Two are equal when their numbers are.
    """

    values: Whole

    @classmethod
    def empty(cls) -> Self:
        return cls(np.zeros(LENGTH, dtype=np.int64))

    @classmethod
    def of_run(cls, run_id: str, sums: Iterable[int]) -> Self:
        """Return what one run adds to a cell; `sums` are its plain sums, in the order of ROWS."""
        values = np.zeros(LENGTH, dtype=np.int64)
        values[: len(ROWS) * N_REPLICATES] = np.outer(np.array(list(sums), dtype=np.int64), weights_of(run_id)).ravel()
        values[len(ROWS) * N_REPLICATES + mark_of(run_id)] = 1
        return cls(values)

    @classmethod
    def of_runs(cls, parts: Sequence[tuple[str, Sequence[int], int]]) -> Self:
        """Return what is left of many runs at once: of each its id, its plain sums, and 1, or -1 to take it away."""
        values = np.zeros(LENGTH, dtype=np.int64)
        if not parts:
            return cls(values)
        signs = np.array([sign for _, _, sign in parts], dtype=np.int64)
        sums = np.array([sums for _, sums, _ in parts], dtype=np.int64) * signs[:, None]
        weights = np.array([weights_of(run_id) for run_id, _, _ in parts])
        values[: len(ROWS) * N_REPLICATES] = (sums.T @ weights).ravel()
        np.add.at(values, [len(ROWS) * N_REPLICATES + mark_of(run_id) for run_id, _, _ in parts], signs)
        return cls(values)

    @classmethod
    def total(cls, parts: Iterable["Replicates"]) -> Self:
        values = np.zeros(LENGTH, dtype=np.int64)
        for part in parts:
            np.add(values, part.values, out=values, casting="unsafe")
        return cls(values)

    @classmethod
    def total_stored(cls, parts: Iterable[bytes]) -> Self:
        """Return the sum of what `to_bytes` stored, without making each of the parts. Raises as `from_bytes` does."""
        values = np.zeros(LENGTH, dtype=np.int64)
        for width, found in _by_width(parts, LENGTH).items():
            values += np.frombuffer(b"".join(found), dtype=f"<u{width}").reshape(-1, LENGTH).sum(axis=0, dtype=np.int64)
        return cls(values)

    @classmethod
    def total_near(cls, parts: Iterable[bytes]) -> Self:
        """Return the sum of first halves of stored forms. Rows of other outcomes are 0: they must not be read."""
        values = np.zeros(LENGTH, dtype=np.int64)
        for width, found in _by_width(parts, N_NEAR + N_MARKS).items():
            table = np.frombuffer(b"".join(found), dtype=f"<u{width}").reshape(-1, N_NEAR + N_MARKS)
            summed = table.sum(axis=0, dtype=np.int64)
            values[:N_NEAR] += summed[:N_NEAR]
            values[-N_MARKS:] += summed[N_NEAR:]
        return cls(values)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Replicates) and bool(np.array_equal(self.values, other.values))

    __hash__ = None  # type: ignore[assignment]

    def __add__(self, other: "Replicates") -> "Replicates":
        return Replicates(np.add(self.values, other.values, dtype=np.int64))

    def __sub__(self, other: "Replicates") -> "Replicates":
        return Replicates(np.subtract(self.values, other.values, dtype=np.int64))

    def row(self, name: str) -> NDArray[np.float64]:
        """Return one of ROWS: N_REPLICATES weighted sums."""
        start = ROWS.index(name) * N_REPLICATES
        return self.values[start : start + N_REPLICATES].astype(np.float64)

    @property
    def n_runs_at_least(self) -> int:
        """Distinct runs, never more than there are; N_MARKS is the most it can say."""
        return int(np.count_nonzero(self.values[-N_MARKS:]))

    @property
    def n_runs(self) -> int:
        """Distinct runs, exact while they are few, then by linear counting (Whang et al. 1990); about 1,600 at most."""
        free = max(N_MARKS - self.n_runs_at_least, 0.5)
        return round(N_MARKS * math.log(N_MARKS / free))

    def to_bytes(self) -> bytes:
        """Return the stored form: two bytes, then the numbers in the smallest width that holds them all.

        Raises ValueError for a sum below 0: more was taken away than had been added.
        """
        if self.values.min() < 0:
            raise ValueError("replicates: a sum is below 0, so a run was taken away that was never added; rebuild")
        largest = int(self.values.max())
        width = next(width for width in WIDTHS if largest < 2 ** (8 * width))
        return bytes((FORM, width)) + self.values.astype(f"<u{width}").tobytes()

    @classmethod
    def from_bytes(cls, stored: bytes | memoryview) -> Self:
        """Return what `to_bytes` stored. Raises ValueError when it is of another form or length."""
        data = bytes(stored)
        width = data[1] if len(data) > 1 and data[0] == FORM else 0
        if width not in WIDTHS or len(data) != 2 + width * LENGTH:
            raise ValueError(_unreadable(len(data)))
        return cls(np.frombuffer(data, dtype=f"<u{width}", offset=2))
