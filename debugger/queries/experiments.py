"""A project's experiments: draws that withheld hints on purpose, with what may be said of each. (Seed 001 §16.4.)"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from debugger.queries.effect_words import TONES, percent, tally_words
from knowledge.effects.counts import Arms, arms_by_stratum
from knowledge.effects.estimates import Outcome, Strata, both_arms
from knowledge.effects.power import table
from knowledge.effects.verdicts import Verdict, in_points, verdict_of
from knowledge.rollups import STRATA, Cell, points_by_stratum, read_cells

DAYS: Final = 365
MOST: Final = 100  # experiments listed, those with most decision points
FEWEST_FOR_RATE: Final = 20  # withheld outcomes from which on their rate is taken for that of the power table
USUAL_RATE: Final = 0.5


@dataclass(frozen=True, slots=True)
class Experiment:
    """One experiment by the name its runs reported; draws that named none are one, too."""

    name: str
    address: str
    shares: str
    n_points: int
    n_offered: int
    n_withheld: int
    offered: str
    withheld: str
    effect: str
    span: str
    arms: Arms
    near: Verdict
    far: Verdict
    tone: str


@dataclass(frozen=True, slots=True)
class PowerRow:
    """What one effect takes: its size in percentage points, the share withheld, decision points of both arms."""

    effect: str
    share: str
    one_look: int
    watched: int


@dataclass(frozen=True, slots=True)
class Power:
    """How many decision points an effect takes to be seen, where `rate` of the situations end well without hints."""

    rate: str
    is_observed: bool
    rows: tuple[PowerRow, ...]


@dataclass(frozen=True, slots=True)
class Experiments:
    """Those of the last DAYS days; `n_left_out` smaller ones are not listed."""

    since: date
    until: date
    rows: tuple[Experiment, ...]
    n_left_out: int
    power: Power


def read_experiments(project_id: int, slug: str, today: date) -> Experiments:
    """Return the experiments of a project. One query."""
    since = today - timedelta(days=DAYS - 1)
    cells = read_cells(project_id, since, today, by=("experiment", *STRATA), words=False)
    return lay_out(cells, slug, since, today)


def lay_out(cells: Sequence[Cell], slug: str, since: date, until: date) -> Experiments:
    """Return the page of cells that were read by experiment and STRATA. Pure."""
    by_name: dict[str, list[Cell]] = {}
    for cell in cells:
        if cell.key["arm"]:
            by_name.setdefault(cell.key["experiment"], []).append(cell)
    days = {"since": since.isoformat(), "until": until.isoformat()}
    largest = sorted(by_name.items(), key=lambda found: (-sum(cell.points.n_points for cell in found[1]), found[0]))
    found = [_experiment(name, arms_by_stratum(points_by_stratum(of)), slug, days) for name, of in largest[:MOST]]
    everything = both_arms(arms_by_stratum(points_by_stratum(cells)))
    return Experiments(since, until, tuple(found), max(len(by_name) - MOST, 0), _power(everything))


def _experiment(name: str, strata: Strata, slug: str, days: Mapping[str, str]) -> Experiment:
    arms = both_arms(strata)
    near, far = verdict_of(strata, Outcome.NEAR), verdict_of(strata, Outcome.FAR)
    shares = sorted({stratum.share for stratum in strata if stratum.share is not None})
    named: dict[str, Any] = {"experiment": name} if name else {"group": "experiment"}
    return Experiment(
        name=name,
        address=f"/{slug}/effects/?{urlencode({**named, **days})}",
        shares=", ".join(percent(share) for share in shares) or "not reported",
        n_points=arms.n_points,
        n_offered=arms.offered.n_points,
        n_withheld=arms.withheld.n_points,
        offered=tally_words(arms.offered.near),
        withheld=tally_words(arms.withheld.near),
        effect=in_points(near.effect.value) if near.effect else "–",
        span=f"{in_points(near.sequence.low)} to {in_points(near.sequence.high)}" if near.sequence else "–",
        arms=arms,
        near=near,
        far=far,
        tone=TONES.get(near.word, "soft"),
    )


def _power(arms: Arms) -> Power:
    withheld = arms.withheld.near
    rate = withheld.rate if withheld.rate is not None and withheld.n >= FEWEST_FOR_RATE else None
    is_usable = rate is not None and 0 < rate < 1
    used = rate if is_usable and rate is not None else USUAL_RATE
    rows = (PowerRow(in_points(one.difference), percent(one.share), one.one_look, one.watched) for one in table(used))
    return Power(percent(used), is_usable, tuple(rows))
