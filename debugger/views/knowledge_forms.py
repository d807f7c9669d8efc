"""The form of an item's text, for making and revising alike: what a person typed becomes a draft, or errors by field.

Each field is judged by the rules of `knowledge/drafts.py`, one by one, so that every mistake is told at once and at its
place, and nothing that was typed is lost. (Seed 001 §7.)
"""

from collections.abc import Mapping
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

from django.http import QueryDict

from contract.text import estimate_tokens
from knowledge.drafts import (
    ID_LIMIT,
    LIST_LIMIT,
    PROPOSITION_TOKENS,
    TEXT_LIMIT,
    ItemDraft,
    KnowledgeError,
    check_draft,
)

LONG_TEXTS: Final[Mapping[str, tuple[str, str]]] = {
    "why": ("Why", "what makes it true"),
    "verify": ("Verify", "how to see that it worked"),
    "caution": ("Caution", "when to be careful with it"),
}
SCOPES: Final[Mapping[str, tuple[str, str]]] = {
    "trigger": ("Trigger", "any"),
    "tool": ("Tool", "any"),
    "mcp_server": ("MCP server", "any"),
    "version_scope": ("Version", "any"),
}
# Lists whose entries are short: one a line.
LINES: Final[Mapping[str, tuple[str, str]]] = {
    "entities": ("Entities", "names and phrases that stand in what happened"),
    "topics": ("Topics", "what it is about; at most two hints of one first topic are offered at once"),
    "evidence": ("Evidence", "ids of runs that show it"),
}
FIRST_STATES: Final = ("proposed", "confirmed")
BLANK_EXAMPLES: Final = 2  # empty fields for further error examples


@dataclass(slots=True)
class ItemForm:
    """The fields as typed, by name, and what is wrong with each. `draft` is None until all of it is in order."""

    values: dict[str, Any]
    errors: dict[str, str] = field(default_factory=dict)
    draft: ItemDraft | None = None

    @property
    def tokens(self) -> int:
        return estimate_tokens(self.values["proposition"])

    @property
    def examples(self) -> list[str]:
        return [*self.values["error_examples"], *[""] * BLANK_EXAMPLES]


LIMITS: Final[Mapping[str, int]] = {
    "tokens": PROPOSITION_TOKENS,
    "id": ID_LIMIT,
    "text": TEXT_LIMIT,
    "entries": LIST_LIMIT,
}


def blank_form(given: Mapping[str, str]) -> ItemForm:
    """Return a form with nothing in it but what another page hands over in its address."""
    form = form_of(ItemDraft("", ""))
    form.values |= {name: given.get(name, "")[:ID_LIMIT] for name in ("trigger", "tool", "mcp_server")}
    return form


def form_of(draft: ItemDraft) -> ItemForm:
    """Return the form that shows a draft."""
    values = {one.name: getattr(draft, one.name) for one in fields(ItemDraft)}
    values |= {name: "\n".join(values[name]) for name in LINES}
    values["error_examples"] = list(draft.error_examples)
    return ItemForm(values)


def read_form(post: QueryDict, kept: ItemDraft | None = None) -> ItemForm:
    """Return the form as it was sent. `kept` is the item that is revised: its id and place in the lifecycle stay."""
    values: dict[str, Any] = {name: _typed(post, name) for name in (*LONG_TEXTS, *SCOPES, *LINES)}
    values["proposition"] = _typed(post, "proposition")
    values["error_examples"] = [_line_ends(text) for text in post.getlist("error_examples") if text.strip()]
    for name, default in (("kind", "claim"), ("language", "en")):
        values[name] = post.get(name, default).strip()
    values["knowledge_id"] = kept.knowledge_id if kept else post.get("knowledge_id", "").strip()
    values["state"] = kept.state if kept else post.get("state", "proposed")
    form = ItemForm(values)
    _judge(form, kept)
    return form


def _judge(form: ItemForm, kept: ItemDraft | None) -> None:
    """Fill the form's errors field by field, or make its draft."""
    given: dict[str, Any] = {**form.values, "error_examples": tuple(form.values["error_examples"])}
    for name in LINES:
        given[name] = tuple(line.strip() for line in given[name].splitlines() if line.strip())
    if kept is None and given["state"] not in FIRST_STATES:
        form.errors["state"] = f"must be one of: {', '.join(FIRST_STATES)}"
    for name, value in given.items():
        problem = _problem(name, value) if name != "state" else ""
        if problem:
            form.errors[name] = problem
    if not form.errors:
        lifecycle: dict[str, Any] = (
            {"suspended_dynamic": kept.suspended_dynamic, "replaced_by": kept.replaced_by} if kept else {}
        )
        form.draft = ItemDraft(**given, **lifecycle)


def _problem(name: str, value: Any) -> str:
    """Return what is wrong with one field, judged in an item whose other fields are in order."""
    try:
        check_draft(replace(ItemDraft("an-id", "A rule."), **{name: value}))
    except KnowledgeError as error:
        return str(error).removeprefix(f"{name} ")  # it stands at its field
    return ""


def _typed(post: QueryDict, name: str) -> str:
    return _line_ends(post.get(name, "")).strip()


def _line_ends(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
