"""Decides what `--set name=value` of a command may say: limits and switches, as the form of a new run has them.

Pure. Bounds are those of `run_settings.py`, which the form takes them from too; what is wrong is named with its bound.
"""

from collections.abc import Iterable, Mapping
from typing import Any, Final

from debugger.run_settings import BUDGETS, ID_LIMIT, LOCALES, MOST, TRIGGERS

SWITCHES: Final = ("activation", "shadow")
WORDS: Final[Mapping[str, bool]] = {"on": True, "true": True, "off": False, "false": False}
OTHERS: Final = ("triggers", "holdout_share", "holdout_salt", "holdout_experiment", "locale", "model")
SETTABLE: Final = (*BUDGETS, *SWITCHES, *OTHERS)
DIGITS: Final = 12  # of a number that is read at all


class SettingError(ValueError):
    """A setting that cannot be used; the text names it, its bounds and how to put it right."""


def with_settings(spec: Mapping[str, Any], given: Iterable[str]) -> dict[str, Any]:
    """Return the spec with each `name=value` in it, the last of a name counting; the rest stays as it is.

    Raises SettingError for the first that cannot be used.
    """
    changed = dict(spec)
    for pair in given:
        name, equals, value = pair.partition("=")
        name = name.strip()
        if not equals or name not in SETTABLE:
            raise SettingError(f"{name[:ID_LIMIT]!r} is no setting: give name=value with one of {', '.join(SETTABLE)}")
        changed = _with(changed, name, value.strip())
    holdout = _object(changed, "holdout")
    if holdout.get("share") and not holdout.get("salt") and holdout != _object(spec, "holdout"):
        raise SettingError("holdout_salt is empty: without one of its own every experiment withholds the same: set it")
    return changed


def _with(spec: dict[str, Any], name: str, value: str) -> dict[str, Any]:
    if name in BUDGETS:
        return {**spec, "limits": {**_object(spec, "limits"), name: _count(name, value)}}
    if name in SWITCHES:
        return {**spec, "switches": {**_object(spec, "switches"), name: _flag(name, value)}}
    if name == "triggers":
        return {**spec, "switches": _with_triggers(_object(spec, "switches"), value)}
    if name == "holdout_share":
        return {**spec, "holdout": {**_object(spec, "holdout"), "share": _share(value)}}
    if name == "locale" and value not in LOCALES:
        raise SettingError(f"locale is not known: use one of {', '.join(LOCALES)}")
    if name != "locale" and (len(value) > ID_LIMIT or not value.isprintable()):
        raise SettingError(f"{name} must be a printable text of at most {ID_LIMIT} characters: shorten it")
    if name in ("holdout_salt", "holdout_experiment"):
        return {**spec, "holdout": {**_object(spec, "holdout"), name.removeprefix("holdout_"): value}}
    return {**spec, name: value}


def _count(name: str, value: str) -> int:
    least = BUDGETS[name].least
    number = int(value) if value.isascii() and value.isdecimal() and len(value) <= DIGITS else -1
    if not least <= number <= MOST:
        raise SettingError(f"{name} must be a whole number from {least} to {MOST}: correct it")
    return number


def _flag(name: str, value: str) -> bool:
    if value.lower() not in WORDS:
        raise SettingError(f"{name} must be one of {', '.join(WORDS)}: correct it")
    return WORDS[value.lower()]


def _share(value: str) -> float:
    try:
        share = float(value[: DIGITS * 2])
    except ValueError:
        share = -1.0
    if not 0 <= share <= 1:
        raise SettingError("holdout_share must be a number from 0 to 1: correct it")
    return share


def _with_triggers(switches: Mapping[str, Any], value: str) -> dict[str, Any]:
    """Return the switches with those triggers on that are named, commas between them; of ours the others are off."""
    on = [name.strip() for name in value.split(",") if name.strip()]
    if any(name not in TRIGGERS for name in on):
        raise SettingError(f"triggers must be names of {', '.join(TRIGGERS)} with commas between them: correct it")
    off = switches.get("off")
    kept = [name for name in off if name not in TRIGGERS] if isinstance(off, list | tuple) else []
    return {**switches, "off": [*kept, *(name for name in TRIGGERS if name not in on)]}


def _object(spec: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    """Return a part of a spec; one that is no object is the kernel's to refuse, unless it is set here."""
    value = spec.get(name)
    return value if isinstance(value, Mapping) else {}
