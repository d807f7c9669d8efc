"""How shares, differences and times of a report of effects are written. Pure."""

from typing import Final

from knowledge.effects.counts import Tally
from knowledge.effects.rates import Rate

NOT_REPORTED: Final = {
    "trigger": "trigger not reported",
    "tool": "no tool",
    "mcp_server": "no MCP server",
    "algorithm_version": "version not reported",
    "experiment": "no experiment named",
}
TONES: Final = {"helps": "ok", "harms": "bad", "invalid": "bad", "no_practical_effect": "ink"}  # of verdicts
SMALL: Final = 0.1  # shares below it have a decimal


def group_label(group: str, value: str) -> str:
    """Return how a value of the grouping is called; what was not reported says so."""
    return value or NOT_REPORTED[group]


def percent(share: float | None) -> str:
    """Return a share as a percentage; an en dash while it is not known."""
    if share is None:
        return "–"
    return f"{100 * share:.1f}%" if 0 < share < SMALL else f"{100 * share:.0f}%"


def tally_words(tally: Tally) -> str:
    """Return successes of those known: 62% of 120."""
    return f"{percent(tally.rate)} of {tally.n:,}" if tally.n else "–"


def rate_words(rate: Rate) -> str:
    """Return a rate with its 95 % interval in words: 62% (53–70%)."""
    if rate.value is None or rate.low is None or rate.high is None:
        return "–"
    return f"{percent(rate.value)} ({100 * rate.low:.0f}–{100 * rate.high:.0f}%)"


def duration_words(milliseconds: float | None) -> str:
    """Return a time of a search with its unit; an en dash while it is not known."""
    if milliseconds is None:
        return "–"
    return f"{milliseconds:.0f} ms" if milliseconds < 1_000 else f"{milliseconds / 1_000:.1f} s"  # noqa: PLR2004


def number_words(value: float | None) -> str:
    """Return an average with two digits where it is small; an en dash while it is not known."""
    if value is None:
        return "–"
    return f"{value:.2f}" if abs(value) < 10 else f"{value:,.0f}"  # noqa: PLR2004
