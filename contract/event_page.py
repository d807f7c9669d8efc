"""The page that documents every event type, made from the one table of types; `docs/events.md` is its text."""

import json
from collections.abc import Iterator, Mapping

from contract.event_fields import Field
from contract.events import EVENT_TYPES, INTEGER_FIELDS, REQUIRED_FIELDS, EventType

_HEAD = """# Event types

Made from `contract/events.py`; a test compares the two and says how to make it anew. An event
is an envelope ({required} are required, {integers} are integers, times are RFC 3339 or integer `…_unix_nano`) around
`data`. Unknown types and unknown keys of `data` are kept, shown and nothing is derived from them.
"""


def event_page() -> str:
    """Return the whole page as Markdown: each type with its fields and one example of its `data`."""
    head = _HEAD.format(
        required=", ".join(f"`{name}`" for name in REQUIRED_FIELDS),
        integers=" and ".join(f"`{name}`" for name in INTEGER_FIELDS),
    )
    return "\n".join([head, *(_section(name, known) for name, known in EVENT_TYPES.items())])


def _section(name: str, known: EventType) -> str:
    lines = [f"## {name}", "", known.doc, ""]
    if known.fields:
        lines += ["| field | kind | meaning |", "|---|---|---|"]
        lines += _rows(known.fields)
        lines.append("")
    return "\n".join([*lines, "```json", json.dumps(dict(known.example), ensure_ascii=False), "```", ""])


def _rows(fields: Mapping[str, Field], prefix: str = "") -> Iterator[str]:
    """Yield a table row for each field, and after an object the rows of its keys."""
    for key, field in fields.items():
        kind = f"{field.kind}{', required' if field.required else ''}"
        words = f": {', '.join(f'`{word}`' for word in field.words)}" if field.words else ""
        yield f"| `{prefix}{key}` | {kind} | {field.doc}{words}{_limits(field)} |"
        yield from _rows(field.keys or {}, f"{prefix}{key}.")


def _limits(field: Field) -> str:
    if field.lowest is None:
        return ""
    return f", {field.lowest} or more" if field.highest is None else f", {field.lowest} to {field.highest}"
