"""The form of a new run: each field within the limits that the kernel has for it, what is wrong said at its place."""

import re
import secrets
from collections.abc import Mapping
from typing import Any, Final

from django import forms
from django.conf import settings
from django.utils import timezone

from contract import stages
from contract.redaction_rules import ExtraRules
from debugger.queries.waiting import read_written
from debugger.run_settings import (
    BUDGETS,
    ID_LIMIT,
    LOCALES,
    MOST,
    NAME_LIMIT,
    SCRIPTED,
    TASK_LIMIT,
    TRIGGERS,
    Base,
    Settings,
    settings_of,
)

OPENAI: Final = "openai_chat"
KEY: Final = re.compile(r"\d{8}-\d{6}-[0-9a-f]{8}")
DRIVERS: Final[Mapping[str, str]] = {
    SCRIPTED: "plays the scenario's script; no model is asked",
    OPENAI: "asks a model behind an OpenAI-compatible endpoint",
}
NOT_OFFERED: Final = {"invalid_choice": "names what is not offered here: choose from what is shown"}
NOT_IN_NAME: Final = "use letters, digits, dots, hyphens and underscores, beginning with a letter or digit"


def new_key() -> str:
    """Return what tells one opened form from every other."""
    return f"{timezone.now():%Y%m%d-%H%M%S}-{secrets.token_hex(4)}"


def drivers_of(base: Base) -> dict[str, tuple[str, str]]:
    """Return driver -> what it does, and why it cannot be chosen ("" when it can)."""
    own = settings_of(base).agent
    names = dict.fromkeys([SCRIPTED, OPENAI, *settings.RUN_DRIVERS, own])
    return {
        name: (DRIVERS.get(name, "a driver from outside the kernel"), _driver_problem(name, base)) for name in names
    }


def _driver_problem(name: str, base: Base) -> str:
    if name == SCRIPTED:
        return "" if base.spec.get("script") else "there is no script to play: it needs a scenario"
    if name in settings.RUN_DRIVERS:
        return ""
    if name == OPENAI:
        return "the kernel's worker has neither OPENAI_BASE_URL nor OPENAI_API_KEY, as far as is known here"
    return "the kernel's worker has no such driver, as far as is known here: name it in KERNEL_DRIVERS"


class RunForm(forms.Form):
    """The settings of a new run from `base`. Limits that are left empty are the kernel's own."""

    key = forms.RegexField(KEY, error_messages={"invalid": "is not known: reload the page"})
    name = forms.RegexField(
        r"^[A-Za-z0-9][A-Za-z0-9._-]*\Z", max_length=NAME_LIMIT, error_messages={"invalid": NOT_IN_NAME}
    )
    task = forms.CharField(required=False, strip=False)  # judged by clean_task, in the words of every text of a person
    agent = forms.ChoiceField(error_messages=NOT_OFFERED)
    model = forms.CharField(max_length=ID_LIMIT, required=False)
    tools = forms.MultipleChoiceField(required=False, error_messages=NOT_OFFERED)
    activation = forms.BooleanField(required=False)
    shadow = forms.BooleanField(required=False)
    triggers = forms.MultipleChoiceField(
        required=False, choices=[(name, name) for name in TRIGGERS], error_messages=NOT_OFFERED
    )
    holdout_share = forms.FloatField(min_value=0, max_value=1, required=False)
    holdout_salt = forms.CharField(max_length=ID_LIMIT, required=False)
    holdout_experiment = forms.CharField(max_length=ID_LIMIT, required=False)
    locale = forms.ChoiceField(choices=list(LOCALES.items()), error_messages=NOT_OFFERED)

    def __init__(self, base: Base, data: Any = None, *, rules: ExtraRules | None = None) -> None:
        super().__init__(data, initial=initial_of(base) if data is None else None)
        self.base = base
        self.drivers = drivers_of(base)
        self._rules = rules
        self.cleaned_task = ""
        for name, budget in BUDGETS.items():
            self.fields[f"limit_{name}"] = forms.IntegerField(
                required=False, min_value=budget.least, max_value=MOST, label=budget.label
            )
        self.fields["agent"].choices = [(name, name) for name in self.drivers]  # type: ignore[attr-defined]
        self.fields["tools"].choices = list(base.tools().items())  # type: ignore[attr-defined]

    def clean_task(self) -> str:
        """Refuse a task with a secret in it: the form then has the task without, to be looked at before it is sent."""
        written = read_written(self.cleaned_data["task"], "Task", TASK_LIMIT, is_required=True, rules=self._rules)
        self.cleaned_task = written.text
        if written.error:
            raise forms.ValidationError(written.error)
        if written.n_removed:
            many = "1 secret was" if written.n_removed == 1 else f"{written.n_removed} secrets were"
            raise forms.ValidationError(
                f"{many} taken out of it, as a run keeps what it is told: start it as it is now"
            )
        return written.text

    def clean_model(self) -> str:
        model = str(self.cleaned_data["model"]).strip()
        if model and not model.isprintable():
            raise forms.ValidationError("must be a printable text")
        return model

    def clean(self) -> dict[str, Any]:
        given = self.cleaned_data
        agent = given.get("agent", "")
        problem = self.drivers[agent][1] if agent in self.drivers else ""
        if problem:
            self.add_error("agent", f"{agent} cannot be chosen: {problem}")
        if agent == OPENAI and "model" in given and not given["model"]:
            self.add_error("model", "name the model that is asked")
        if given.get("holdout_share") and "holdout_salt" in given and not given["holdout_salt"]:
            said = "is empty: without one of its own every experiment withholds the same situations"
            self.add_error("holdout_salt", said)
        return given

    def shown(self, name: str) -> Any:
        """Return a field's value as the page shows it again: a task without its secrets, the rest as it was sent."""
        if name == "task" and self.is_bound and self.cleaned_task:
            return self.cleaned_task
        return self[name].value()

    def chosen(self) -> Settings:
        """Return the settings of a valid form."""
        given = self.cleaned_data
        on = given["triggers"]
        return Settings(
            task=given["task"],
            agent=given["agent"],
            model=given["model"],
            tools=tuple(given["tools"]),
            activation=given["activation"],
            shadow=given["shadow"],
            off=tuple(name for name in TRIGGERS if name not in on),
            limits={name: given[f"limit_{name}"] for name in BUDGETS if given[f"limit_{name}"] is not None},
            holdout_share=given["holdout_share"] or 0.0,
            holdout_salt=given["holdout_salt"],
            holdout_experiment=given["holdout_experiment"],
            locale=given["locale"],
        )


def initial_of(base: Base) -> dict[str, Any]:
    """Return what the form of a base has in its fields. A secret in an earlier run's task is not shown."""
    told = settings_of(base)
    able = [name for name, (_, problem) in drivers_of(base).items() if not problem]
    task = read_written(told.task, "Task", TASK_LIMIT).text
    return {
        "key": new_key(),
        "name": base.name,
        "task": task,
        "agent": told.agent if told.agent in able or not able else able[0],
        "model": told.model,
        "tools": list(told.tools),
        "activation": told.activation,
        "shadow": told.shadow,
        "triggers": [name for name in TRIGGERS if name not in told.off],
        "holdout_share": told.holdout_share or None,
        "holdout_salt": told.holdout_salt,
        "holdout_experiment": told.holdout_experiment,
        "locale": told.locale,
        **{f"limit_{name}": value for name, value in told.limits.items()},
    }


def trigger_rows(form: RunForm) -> list[tuple[str, str, bool]]:
    """Return (trigger, what it means, whether it is on)."""
    on = form["triggers"].value() or []
    return [(name, stages.TRIGGERS[name], name in on) for name in TRIGGERS]


def tool_rows(form: RunForm) -> list[tuple[str, str, bool]]:
    """Return (tool, what it does, whether it is chosen)."""
    chosen = form["tools"].value() or []
    return [(name, about, name in chosen) for name, about in form.base.tools().items()]


def budget_rows(form: RunForm) -> list[dict[str, Any]]:
    """Return the limits as the page lists them."""
    return [
        {"field": form[f"limit_{name}"], "about": budget.about, "default": budget.default, "least": budget.least}
        for name, budget in BUDGETS.items()
    ]
