"""The style sheet: every text colour can be read on every ground it stands on, in both themes."""

import re

import pytest
from django.conf import settings

SHEET = (settings.BASE_DIR / "static" / "app.css").read_text()
ENOUGH = 4.5  # contrast of text, WCAG 2.2 AA
PAIRS = [
    *((ink, ground) for ink in ("ink", "soft") for ground in ("bg", "panel", "faint", "hint-bg")),
    *((tone, ground) for tone in ("ok", "bad", "warn", "hint", "accent") for ground in ("bg", "panel")),
    *((tone, f"{tone}-bg") for tone in ("ok", "bad", "warn", "hint")),
    ("accent", "open-bg"),
    ("bad", "hint-bg"),
]


def themes() -> dict[str, dict[str, str]]:
    blocks = re.findall(r"color-scheme: (light|dark);([^}]*)}", SHEET)
    colours = [(name, dict(re.findall(r"--([\w-]+): (#[0-9a-f]{3,6});", block))) for name, block in blocks]
    return {name: found for name, found in colours if found}


def luminance(colour: str) -> float:
    digits = colour[1:] if len(colour) == 7 else "".join(digit * 2 for digit in colour[1:])
    shares = [int(digits[place : place + 2], 16) / 255 for place in (0, 2, 4)]
    linear = [share / 12.92 if share <= 0.04045 else ((share + 0.055) / 1.055) ** 2.4 for share in shares]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize(("ink", "ground"), PAIRS)
def test_text_stands_out(theme: str, ink: str, ground: str) -> None:
    """Contrast of at least 4.5 to 1."""
    colours = themes()[theme]
    high, low = sorted((luminance(colours[ink]), luminance(colours[ground])), reverse=True)
    assert (high + 0.05) / (low + 0.05) >= ENOUGH


def test_the_dark_theme_is_one() -> None:
    """By the system's choice and by the switch the same colours hold."""
    blocks = [block for name, block in re.findall(r"color-scheme: (light|dark);([^}]*)}", SHEET) if name == "dark"]
    assert len(blocks) == 2
    assert blocks[0].split() == blocks[1].split()


def test_nothing_is_fetched_by_the_sheet() -> None:
    """No font, picture or sheet from anywhere."""
    assert "url(" not in SHEET
    assert "@import" not in SHEET
