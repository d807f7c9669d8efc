"""Items as JSON Lines: one object a line, empty fields left out. Pure."""

import json
from collections.abc import Sequence
from typing import Any, Final

from ingest.errors import shown_name
from knowledge.drafts import ItemDraft, KnowledgeError, as_object, parse_draft
from knowledge.exchange.places import ImportFault, Placed, decode, fault_of

MEDIA_TYPE: Final = "application/jsonl"


def read_lines(data: bytes, file: str) -> list[Placed]:
    """Return the items of a file. Raises ImportFault naming file, line and field of the first that is not in order."""
    placed = []
    # Lines end at a newline and nowhere else: texts may hold other characters that end lines.
    for number, line in enumerate(decode(data, file).split("\n"), 1):
        if not line.strip():
            continue
        try:
            placed.append(Placed(parse_draft(json.loads(line, object_pairs_hook=_object)), file, number))
        except KnowledgeError as error:
            raise fault_of(error, file, number) from None
        except RecursionError:
            raise ImportFault(file, number, "the line is nested too deeply to be read") from None
        except ValueError as error:
            at = f" at character {error.pos + 1}" if isinstance(error, json.JSONDecodeError) else ""
            raise ImportFault(file, number, f"the line is not valid JSON{at}") from None
    return placed


def write_line(draft: ItemDraft) -> str:
    """Return an item as one line, without the newline."""
    return json.dumps(as_object(draft), ensure_ascii=False)


def _object(pairs: Sequence[tuple[str, Any]]) -> dict[str, Any]:
    found: dict[str, Any] = {}
    for name, value in pairs:
        if name in found:
            twice = shown_name(name)
            raise KnowledgeError(f"{twice} is given twice; leave one of them out", field=twice)
        found[name] = value
    return found
