"""What the draw of a holdout, and shadow mode, say in words a person understands. Pure.

The same words stand in the runs API and on the pages. (Seed 001 §16.)
"""

from typing import Final

from contract import stages

LARGEST_ODDS: Final = 1_000  # "1 in n situations" up to this n
NEAR: Final = 0.000_5  # how far a share may be from 1 in n and still be called so


def share_in_words(share: float | None) -> str:
    """Return a share of situations: 1 in 5 situations, 30 % of situations; "" when it is not known."""
    if share is None or share <= 0:
        return "" if share is None else "no situations"
    odds = round(1 / share) if share >= 1 / LARGEST_ODDS else 0
    if odds == 1 and share > 1 - NEAR:
        return "all situations"
    if odds > 1 and abs(1 / odds - share) < NEAR:
        return f"1 in {odds:,} situations"
    return f"{100 * share:.3g} % of situations"


def draw_in_words(arm: str, experiment: str, share: float | None, tokens: int | None) -> str:
    """Return what a draw gave and what it was about; "" when none was made (no arm)."""
    if not arm:
        return ""
    if arm == "withheld":
        parts = (f"experiment {experiment}" if experiment else "", share_in_words(share))
        named = ", ".join(part for part in parts if part)
        cost = "" if tokens is None else f": {would_have_taken(tokens)}"
        return f"withheld on purpose{f' ({named})' if named else ''}{cost}"
    meaning = stages.HOLDOUT_ARMS.get(arm, arm)
    odds = share_in_words(share)
    withheld = f"{odds} {'is' if odds.startswith('1 in') else 'are'} withheld" if odds else ""
    parts = (f"experiment {experiment}" if experiment else "", withheld)
    named = ", ".join(part for part in parts if part)
    return f"{meaning}{f' ({named})' if named else ''}"


def would_have_taken(tokens: int) -> str:
    return f"it would have taken {tokens:,} token{'' if tokens == 1 else 's'}"
