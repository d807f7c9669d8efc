"""The stretch of time that bars are drawn on: all of a run or a part, idle gaps drawn short. Pure."""

from dataclasses import dataclass, replace
from typing import Final

NS: Final = 1_000_000_000
GAP_SHARE: Final = 0.05  # width of a gap drawn short, as a share of the time in which something happened
GAPS_SHARE: Final = 0.6  # of all of them together
UNITS: Final = ((86_400, "d"), (3_600, "h"), (60, "m"), (1, "s"))


@dataclass(frozen=True, slots=True)
class Axis:
    """From and to in Unix nanoseconds; `gaps` are (from, to) of the stretches drawn short, in order and apart."""

    start_ns: int
    end_ns: int
    gaps: tuple[tuple[int, int], ...] = ()

    @property
    def span_ms(self) -> float:
        return (self.end_ns - self.start_ns) / 1e6

    @property
    def in_full(self) -> "Axis":
        """The same stretch with every gap as long as it was."""
        return replace(self, gaps=())

    def between(self, start_ns: int, end_ns: int) -> "Axis":
        """Return the part from `start_ns` to `end_ns`, which are brought into the axis first."""
        start = min(max(start_ns, self.start_ns), self.end_ns - 1)
        end = min(max(end_ns, start + 1), self.end_ns)
        cut = tuple((max(low, start), min(high, end)) for low, high in self.gaps if low < end and high > start)
        return Axis(start, end, cut if (start, end) not in cut else ())

    def place(self, start_ns: int, end_ns: int | None) -> tuple[float, float]:
        """Return (left, width) in thousandths; a time outside is drawn at the edge."""
        span = max(1, self._drawn(self.end_ns))
        first = min(max(start_ns, self.start_ns), self.end_ns)
        last = min(max(end_ns if end_ns is not None else start_ns, first), self.end_ns)
        left, right = self._drawn(first), self._drawn(last)
        return round(1000 * left / span, 2), round(1000 * (right - left) / span, 2)

    def time_at(self, place: float) -> int:
        """Return the time that stands at `place` thousandths."""
        wanted = round(min(max(place, 0), 1000) * self._drawn(self.end_ns) / 1000)
        now = self.start_ns
        for low, high in self.gaps:
            if wanted <= low - now:
                break
            wanted -= low - now
            if wanted <= self._gap_drawn:
                return low + round((high - low) * wanted / self._gap_drawn)
            wanted -= self._gap_drawn
            now = high
        return min(now + wanted, self.end_ns)

    @property
    def _gap_drawn(self) -> int:
        idle = sum(high - low for low, high in self.gaps)
        share = min(GAP_SHARE, GAPS_SHARE / max(1, len(self.gaps)))
        return max(1, round((self.end_ns - self.start_ns - idle) * share))

    def _drawn(self, now_ns: int) -> int:
        """Return how far from the start a time inside is drawn, in nanoseconds of time in which something happened."""
        if not self.gaps:
            return now_ns - self.start_ns
        drawn, since, width = 0, self.start_ns, self._gap_drawn
        for low, high in self.gaps:
            if now_ns <= low:
                break
            drawn += low - since
            if now_ns < high:
                return drawn + width * (now_ns - low) // (high - low)
            drawn, since = drawn + width, high
        return drawn + now_ns - since


def rough(nanoseconds: int) -> str:
    """Return a long time in its largest unit: 9 h, 1.5 h, 3 d, 25 m."""
    seconds = nanoseconds / NS
    size, unit = next(((size, unit) for size, unit in UNITS if seconds >= size), UNITS[-1])
    return f"{seconds / size:,.1f}".removesuffix(".0") + f" {unit}"
