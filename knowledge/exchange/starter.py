"""The items that are shipped as a starter set. (Seed 001 §7.)"""

from pathlib import Path
from typing import Final

from knowledge.drafts import ItemDraft
from knowledge.exchange.json_lines import read_lines

FOLDER: Final = Path(__file__).parents[1] / "starter"


def starter_drafts() -> list[ItemDraft]:
    """Return the items of the starter set."""
    files = sorted(FOLDER.glob("*.jsonl"))
    return [placed.draft for file in files for placed in read_lines(file.read_bytes(), file.name)]
