"""How the data sets of retrieval are written: JSON Lines, one object a line, and how tools are run to record them."""

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

CORPORA = Path(__file__).resolve().parent.parent / "knowledge" / "evaluation" / "corpora"
PROPOSITION_CHARACTERS = 480  # 120 estimated tokens
OUTPUT_CHARACTERS = 8_192  # code points of one query's output


def write_rows(name: str, rows: Iterable[Mapping[str, object]]) -> None:
    """Write one data set and print how many rows it has."""
    lines = [json.dumps(row, ensure_ascii=False) for row in rows]
    (CORPORA / name).write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    print(f"{name}: {len(lines)} rows")


def item(knowledge_id: str, proposition: str, **more: object) -> dict[str, object]:
    """One knowledge item as `manage.py import_knowledge` reads it: a confirmed claim."""
    return {
        "knowledge_id": knowledge_id,
        "proposition": proposition,
        "kind": "claim",
        "state": "confirmed",
        **{name: value for name, value in more.items() if value},
    }


def pair(rule: str | None, command: str, output: str, fixes: Sequence[str] = (), **more: object) -> dict[str, object]:
    """One query: the item that answers it (None: nobody), the command or task, and what came out."""
    return {"rule": rule, "command": command, "output": output, "fixes": list(fixes), **more}
