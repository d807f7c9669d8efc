"""Decides how the settings on the form of a new run and the kernel's spec of a run become each other; pure.

A run is started from a base: a scenario, an earlier run, or nothing. What the form does not show of it is kept.
"""

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final, Literal

MOST: Final = 10**9  # of any limit, as the kernel takes it
ID_LIMIT: Final = 200  # characters of short texts, as the kernel takes them
TASK_LIMIT: Final = 1_000_000  # characters
NAME_LIMIT: Final = 100  # characters of a run's name; the kernel takes 150 of its whole id
SCRIPTED: Final = "scripted"  # the driver that plays a scenario's script and asks no model
ESCALATE: Final = "escalate"  # the tool that a grant of everything does not include
EVERYTHING: Final = ("*",)  # the grants of a spec that names none
DEFAULT_TOOLS: Final = ("shell",)

# The kernel's own tools by name.
TOOLS: Final[Mapping[str, str]] = {
    "shell": "runs a command in the run's work folder",
    "shell_background": "starts a command that may take longer; the run is told when it ends",
    "await_operation": "waits for the end of what was started in the background",
    "ask_human": "asks a person one question, here on the run's page, and waits",
    "update_plan": "notes the plan as a list of steps",
    "magic_brush": "reads the clock, and reads and writes notes",
    "delegate": "gives a part of the task to a member of the team",
    "search_records": "searches the conversation's records",
    "read_records": "reads the conversation's records in order",
    ESCALATE: "ends the run by asking a person to decide",
}
NEEDS: Final[Mapping[str, str]] = {
    "delegate": "members",
    "search_records": "conversation",
    "read_records": "conversation",
}  # tool -> the part of a spec without which it is of no use
TRIGGERS: Final = ("task.priming", "tool.failed", "mcp.first_call")  # those the kernel itself has
LOCALES: Final[Mapping[str, str]] = {"en": "English", "zh": "Chinese", "ru": "Russian"}


@dataclass(frozen=True, slots=True)
class Budget:
    """One limit of a run: what it bounds, what the kernel takes when a spec names none, and the least it takes."""

    label: str
    default: int
    least: int = 0
    about: str = ""


BUDGETS: Final[Mapping[str, Budget]] = {
    "max_turns": Budget("Tool rounds", 8, 1, "replies of the model that call tools"),
    "max_tool_calls": Budget("Tool calls", 0, 0, "in the whole run; 0: as many as rounds"),
    "run_tokens": Budget("Model tokens", 0, 0, "in and out, of the run; 0: no limit"),
    "activations_per_run": Budget("Activations", 12, 0, "searches of one run"),
    "hints_per_activation": Budget("Hints", 2, 0, "of one activation"),
    "tokens_per_activation": Budget("Hint tokens", 400, 0, "of one activation"),
    "tokens_per_run": Budget("Hint tokens, run", 1_600, 0, "of the whole run, priming apart"),
}

Kind = Literal["free", "scenario", "again"]


@dataclass(frozen=True, slots=True)
class Base:
    """What a new run starts from: `spec` has fields of the kernel's RunSpec, and `name` begins the new run's id.

    `key` names it in an address: a scenario's name, or the id of the earlier run. `unknown` says what of an earlier run
    is not known any more, and so not kept.
    """

    kind: Kind
    key: str
    name: str
    spec: Mapping[str, Any]
    unknown: str = ""

    def tools(self) -> dict[str, str]:
        """Return the tools that a run from this base can be offered, with a line about each."""
        own = {name: about for name, about in TOOLS.items() if not (needed := NEEDS.get(name)) or self.spec.get(needed)}
        named = _names(self.spec.get("tools"), DEFAULT_TOOLS)
        return own | {name: TOOLS.get(name, "named by the run it starts from") for name in named if name not in own}


@dataclass(frozen=True, slots=True)
class Settings:
    """What a person chose. A limit that is not in `limits` is the kernel's own; `off` are triggers switched off."""

    task: str
    agent: str
    model: str
    tools: tuple[str, ...]
    activation: bool
    shadow: bool
    off: tuple[str, ...]
    limits: Mapping[str, int]
    holdout_share: float
    holdout_salt: str
    holdout_experiment: str
    locale: str


def settings_of(base: Base) -> Settings:
    """Return the settings as the base has them; what is not of its type there is taken as not set."""
    spec = base.spec
    switches, holdout, limits = (_object(spec.get(name)) for name in ("switches", "holdout", "limits"))
    share = holdout.get("share", 0)
    return Settings(
        task=_text(spec, "task"),
        agent=_text(spec, "agent") or SCRIPTED,
        model=_text(spec, "model"),
        tools=_names(spec.get("tools"), DEFAULT_TOOLS),
        activation=switches.get("activation") is not False,
        shadow=switches.get("shadow") is True,
        off=_names(switches.get("off")),
        limits={name: limits[name] for name in BUDGETS if _is_count(limits.get(name))},
        holdout_share=share if isinstance(share, int | float) and not isinstance(share, bool) else 0,
        holdout_salt=_text(holdout, "salt"),
        holdout_experiment=_text(holdout, "experiment"),
        locale=_text(spec, "locale") or "en",
    )


def spec_of(base: Base, chosen: Settings) -> dict[str, Any]:
    """Return the spec, without a run id, of a root run from the base with these settings."""
    spec = dict(base.spec)
    for name in ("parent_run_id", "team_root", "depth", "run_id"):
        spec.pop(name, None)  # of an earlier run's own place in its team
    switches, holdout, limits = (_object(spec.get(name)) for name in ("switches", "holdout", "limits"))
    unshown = [name for name in _names(switches.get("off")) if name not in TRIGGERS]
    grants = _names(spec.get("grants"), EVERYTHING)
    if ESCALATE in chosen.tools and ESCALATE not in grants:
        spec["grants"] = [*grants, ESCALATE]  # who offers it means it to be used
    return {
        **spec,
        "task": chosen.task,
        "agent": chosen.agent,
        "model": chosen.model,
        "tools": list(chosen.tools),
        "switches": {
            **switches,
            "activation": chosen.activation,
            "shadow": chosen.shadow,
            "off": [*unshown, *chosen.off],
        },
        "limits": {name: value for name, value in limits.items() if name not in BUDGETS} | dict(chosen.limits),
        "holdout": {
            **holdout,
            "share": chosen.holdout_share,
            "salt": chosen.holdout_salt,
            "experiment": chosen.holdout_experiment,
        },
        "locale": chosen.locale,
    }


def spec_of_report(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return what the event run.started tells of a run's spec."""
    told = {name: data[name] for name in ("task", "agent", "model") if isinstance(data.get(name), str)}
    told |= {name: data[name] for name in ("limits", "switches") if isinstance(data.get(name), dict)}
    tools = _names(data.get("tools"))
    return told | {"tools": [name for name in tools if name in TOOLS and name not in NEEDS]}


def run_id_of(name: str, key: str, project: str, spec: Mapping[str, Any]) -> str:
    """Return the id of the run that a form stands for: the same form sent twice has the same, another never has.

    `key` belongs to the form as it was opened: the time, and chance. (Seed 001 §9.)
    """
    told = json.dumps([key, project, spec], sort_keys=True)
    moment = re.sub(r"-[0-9a-f]{8}$", "", key)
    return f"{name}-{moment}-{hashlib.sha256(told.encode('utf-8', 'surrogatepass')).hexdigest()[:8]}"


def name_of(run_id: str) -> str:
    """Return the name in an id that `run_id_of` made, else as much of the id as can be one."""
    own = re.sub(r"-\d{8}-\d{6}(-[0-9a-f]{8})?$|-\d{1,9}$", "", run_id)
    return re.sub(r"[^A-Za-z0-9._-]+", "-", own).strip("-._")[:NAME_LIMIT] or "run"


def _object(value: object) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _text(given: Mapping[str, Any], name: str) -> str:
    value = given.get(name)
    return value if isinstance(value, str) else ""


def _names(value: object, default: tuple[str, ...] = ()) -> tuple[str, ...]:
    """Return the names of a list, each once, and `default` for what is no list."""
    if not isinstance(value, list | tuple):
        return default
    return tuple(dict.fromkeys(name for name in value if isinstance(name, str)))


def _is_count(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)
