"""Reads our own attributes: `temporality.*` on a span or log record says exactly which event it is. Pure.

`temporality.type` is the event's type, `temporality.<envelope field>` its fields, `temporality.data` (JSON text or a
kvlist) and `temporality.data.<key>` its data. What they say is checked like a native event. (Seed 001 §7.3, §13.)
"""

from collections.abc import Iterable
from typing import Any, Final

from contract.events import ID_FIELDS, ID_LIMIT, INTEGER_FIELDS
from contract.integers import INT64_MAX
from ingest.errors import IngestError
from ingest.otlp.attributes import json_integer
from ingest.otlp.records import bad
from ingest.otlp.semconv import from_json

PREFIX: Final = "temporality."
NO_IDS: Final[dict[str, str | None]] = dict.fromkeys(ID_FIELDS)
_DATA: Final = "temporality.data"
_MOST_OTHERS: Final = 4_096
_LONGEST_OTHER: Final = 128
_others: Final[dict[str, None]] = {}


def take_own(attributes: dict[str, Any], ids: dict[str, str | None]) -> tuple[dict[str, Any], list[int | None]] | None:
    """Take our attributes out: envelope fields into `ids`; return (data, [seq, turn]), or None when there are none.

    Raises IngestError naming the attribute that is wrong.
    """
    if attributes.keys() <= _others.keys():
        return None
    keys = [key for key in attributes if key.startswith(PREFIX)]
    if not keys:
        _remember(attributes)
        return None
    data: dict[str, Any] = {}
    integers: list[int | None] = [None] * len(INTEGER_FIELDS)
    for key in keys:
        name = key.removeprefix(PREFIX)
        if name in ids:
            ids[name] = _id(attributes.pop(key), key)
        elif name in INTEGER_FIELDS:
            integers[INTEGER_FIELDS.index(name)] = json_integer(attributes.pop(key), key, INT64_MAX)
        elif key == _DATA:
            data = {**_object(attributes.pop(key)), **data}
        elif key.startswith(_DATA + "."):
            data[key.removeprefix(_DATA + ".")] = attributes.pop(key)
    return data, integers


def _remember(keys: Iterable[str]) -> None:
    """Keep which names are not ours, within bounds: nearly every span brings the same ones."""
    if len(_others) >= _MOST_OTHERS:
        _others.clear()
    _others.update(dict.fromkeys(key for key in keys if len(key) <= _LONGEST_OTHER))


def run_id_of(resource: dict[str, Any]) -> str | None:
    """Return the run that a whole resource belongs to, when it says so."""
    value = resource.get("temporality.run_id")
    return None if value is None else _id(value, "temporality.run_id")


def _id(value: object, key: str) -> str:
    text = str(value) if isinstance(value, int) and not isinstance(value, bool) else value
    if not isinstance(text, str) or not text:
        raise bad("invalid_field", key, f"must be text of 1 to {ID_LIMIT} characters")
    if len(text) > ID_LIMIT:
        raise bad("field_too_long", key, f"has {len(text)} characters; the limit is {ID_LIMIT}, shorten it")
    return text


def _object(value: object) -> dict[str, Any]:
    parsed = from_json(value)
    if not isinstance(parsed, dict):
        raise IngestError("invalid_field", 400, f"{_DATA} must be a JSON object, as text or as a kvlist", field=_DATA)
    return parsed
