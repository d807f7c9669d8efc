"""A row of the timeline. Pure."""

from dataclasses import dataclass
from typing import Final

from debugger.queries.axis import NS as NS
from debugger.queries.axis import rough
from debugger.queries.pieces import Piece, plain_text

RUN: Final = "mono run"  # tone of a piece that is the id of another run
DEEPEST: Final = 12  # levels that rows are indented by
NARROWEST: Final = 9.0  # thousandths of the axis that the shortest bar takes


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the timeline. Times are Unix nanoseconds; `key` is unique in the run and never changes.

    `bar` is (left, width) in thousandths of the axis, None when nothing is to be drawn. `marks` are what the page must
    not keep quiet about: repairs, missing partners, wrong clocks. `level` counts the spans a row stands in; a row that
    `is_astray` lies outside the time of its run and is drawn (`drawn_ns`) where there is room. `idle_ns` is how long
    nothing had happened in the run before it, 0 for no idle gap; `whole` its bar on the strip where that is another.
    """

    key: str
    kind: str
    state: str
    event_id: str
    activation_id: str
    turn: int | None
    start_ns: int
    end_ns: int | None
    duration_ms: float | None
    pieces: tuple[Piece, ...]
    event_ids: tuple[str, ...]
    last_arrival: int
    is_child: bool = False
    from_chain: bool = False
    marks: tuple[str, ...] = ()
    offset_ns: int = 0
    bar: tuple[float, float] | None = None
    level: int = 0
    is_span: bool = False
    has_wrong_end: bool = False
    has_wrong_clock: bool = False
    is_astray: bool = False
    drawn_ns: tuple[int, int | None] | None = None
    idle_ns: int = 0
    whole: tuple[float, float] | None = None

    @property
    def has_wrong_time(self) -> bool:
        return self.has_wrong_end or self.has_wrong_clock

    @property
    def indent(self) -> int:
        """The level as drawn: deeper rows keep the last indent and say their level."""
        return min(self.level, DEEPEST)

    @property
    def is_deep(self) -> bool:
        return self.level > DEEPEST

    @property
    def bar_box(self) -> tuple[float, float]:
        """(left, width) as drawn: never too narrow to see, never over the edge."""
        left, width = self.bar or (0.0, 0.0)
        return min(left, 1000 - NARROWEST), max(width, NARROWEST)

    @property
    def left(self) -> float | None:
        """Where its bar begins on the strip."""
        bar = self.whole or self.bar
        return bar[0] if bar is not None else None

    @property
    def run_ids(self) -> tuple[str, ...]:
        """The runs its sentence leads to: the child of a delegate."""
        return tuple(piece.text for piece in self.pieces if piece.tone == RUN and piece.text)

    @property
    def idle(self) -> str:
        """How long nothing had happened before it, in words; nothing where there was no idle gap."""
        return rough(self.idle_ns) if self.idle_ns else ""

    @property
    def text(self) -> str:
        return plain_text(self.pieces)
