"""Dataclasses to JSON text and back, strictly: what does not fit its annotation is refused, not guessed."""

import json
from collections.abc import Mapping
from dataclasses import MISSING, Field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

T = TypeVar("T")


class CodecError(ValueError):
    """JSON that is not the dataclass it should be; the text names the place."""


def to_json(value: Any) -> str:
    """Return a dataclass instance as JSON text; equal values give equal text."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"), default=_as_object)


def _as_object(value: Any) -> dict[str, Any]:
    if not is_dataclass(value) or isinstance(value, type):
        raise CodecError(f"{type(value).__name__} is no dataclass")
    return {name: getattr(value, name) for name in _fields_of(type(value))}


def from_json(cls: type[T], text: str) -> T:
    """Return the instance of `cls` that `text` describes. Raises CodecError."""
    try:
        raw = json.loads(text, parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        raise CodecError(f"not JSON: {error}") from None
    value: T = _decode(cls, raw, cls.__name__)
    return value


def _refuse_constant(name: str) -> None:
    raise CodecError(f"{name} is no number of JSON")


def _decode(kind: Any, raw: Any, place: str) -> Any:
    origin = get_origin(kind)
    if origin in (Union, UnionType):
        return _decode_union(kind, raw, place)
    if origin is Literal:
        if not isinstance(raw, str) or raw not in get_args(kind):
            raise CodecError(f"{place}: not one of {get_args(kind)}")
        return raw
    if origin is tuple:
        return _decode_tuple(get_args(kind), raw, place)
    if is_dataclass(kind) and isinstance(kind, type):
        return _decode_dataclass(kind, raw, place)
    if kind is NoneType and raw is None:
        return None
    if kind in (str, int, bool) and type(raw) is kind:
        return raw
    if kind is float and type(raw) in (int, float):
        return float(raw)
    raise CodecError(f"{place}: expected {getattr(kind, '__name__', kind)}")


def _decode_union(kind: Any, raw: Any, place: str) -> Any:
    for member in get_args(kind):
        try:
            return _decode(member, raw, place)
        except CodecError:
            continue
    raise CodecError(f"{place}: fits none of {kind}")


def _decode_tuple(members: tuple[Any, ...], raw: Any, place: str) -> tuple[Any, ...]:
    if not isinstance(raw, list):
        raise CodecError(f"{place}: expected a list")
    if len(members) == 2 and members[1] is Ellipsis:
        return tuple(_decode(members[0], entry, f"{place}[{index}]") for index, entry in enumerate(raw))
    if len(raw) != len(members):
        raise CodecError(f"{place}: expected {len(members)} entries")
    pairs = zip(members, raw, strict=True)
    return tuple(_decode(member, entry, f"{place}[{index}]") for index, (member, entry) in enumerate(pairs))


def _decode_dataclass(kind: Any, raw: Any, place: str) -> Any:
    if not isinstance(raw, Mapping):
        raise CodecError(f"{place}: expected an object")
    known = _fields_of(kind)
    unknown = [name for name in raw if name not in known]
    if unknown:
        raise CodecError(f"{place}: unknown field {unknown[0]}")
    values = {}
    for name, (field, annotation) in known.items():
        if name in raw:
            values[name] = _decode(annotation, raw[name], f"{place}.{name}")
        elif field.default is MISSING and field.default_factory is MISSING:
            raise CodecError(f"{place}: missing field {name}")
    return kind(**values)


@cache
def _fields_of(kind: Any) -> dict[str, tuple[Field[Any], Any]]:
    hints = get_type_hints(kind)
    return {field.name: (field, hints[field.name]) for field in fields(kind)}
