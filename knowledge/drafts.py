"""What a knowledge item is before it is stored: its text and scope, read from JSON and checked. Pure.

A rule holds the action itself and is short; scope fields left empty mean any. (Seed 001 §7, §13.)
"""

from collections.abc import Mapping
from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Final

from contract import stages
from contract.hint_api import is_id
from contract.redaction import redact
from contract.text import estimate_tokens
from ingest.errors import shown_name

PROPOSITION_TOKENS: Final = 120
ID_LIMIT: Final = 200  # code points of an id, a scope, an entity or a topic
TEXT_LIMIT: Final = 2_000  # code points of any other text
LIST_LIMIT: Final = 50  # entries of one list
LANGUAGE_LIMIT: Final = 10  # code points of a language's name
SAY: Final = {"by": "who changes the item", "reason": "why the item changes", "note": "what the run shows"}
KINDS: Final[Mapping[str, str]] = {
    "claim": "a rule somebody states",
    "observation": "something that was seen to happen",
}
NEEDS_REPLACEMENT: Final = ("superseded", "corrected")

REQUIRED: Final = ("knowledge_id", "proposition")
LIST_FIELDS: Final = ("entities", "topics", "error_examples", "evidence")
FLAG_FIELDS: Final = ("suspended_dynamic",)
SHORT_FIELDS: Final = ("knowledge_id", "tool", "mcp_server", "version_scope", "replaced_by")
SHORT_LISTS: Final = ("entities", "topics", "evidence")


class KnowledgeError(ValueError):
    """An item or a change that is not allowed; the message names the field, the limit and the fix.

    `field` is the field that is wrong, empty for none in particular; `limit` is the limit that was passed, if one was.
    """

    def __init__(self, message: str, *, field: str = "", limit: int | None = None) -> None:
        super().__init__(message)
        self.field = field
        self.limit = limit


class KnowledgeUnknown(KnowledgeError):
    """The project has no item of that id."""


class KnowledgeConflict(KnowledgeError):
    """The change does not fit the item as it stands now: somebody else was first, or its lifecycle forbids it."""


@dataclass(frozen=True, slots=True)
class ItemDraft:
    """An item as a person writes it. `trigger`, `tool`, `mcp_server` limit where it is offered; empty means any."""

    knowledge_id: str
    proposition: str
    kind: str = "claim"
    state: str = "proposed"
    why: str = ""
    verify: str = ""
    caution: str = ""
    trigger: str = ""
    tool: str = ""
    mcp_server: str = ""
    version_scope: str = ""
    entities: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()
    error_examples: tuple[str, ...] = ()
    evidence: tuple[str, ...] = ()
    language: str = "en"
    suspended_dynamic: bool = False
    replaced_by: str = ""


def parse_draft(raw: object) -> ItemDraft:
    """Return a draft from a decoded JSON object. Raises KnowledgeError naming the field that is wrong."""
    if not isinstance(raw, dict):
        raise KnowledgeError("an item must be a JSON object")
    known = sorted(field.name for field in fields(ItemDraft))
    unknown = sorted(str(name) for name in raw if name not in known)
    if unknown:
        shown = shown_name(unknown[0])
        raise KnowledgeError(f"unknown field {shown}; known are {', '.join(known)}", field=shown)
    for name in REQUIRED:
        if name not in raw:
            raise KnowledgeError(f"{name} is required", field=name)
    draft = ItemDraft(**{name: _value(name, value) for name, value in raw.items()})
    check_draft(draft)
    return draft


def _value(name: str, value: object) -> Any:
    if name in LIST_FIELDS:
        if not isinstance(value, list) or not all(isinstance(entry, str) for entry in value):
            raise KnowledgeError(f"{name} must be a list of strings", field=name)
        return tuple(value)
    if name in FLAG_FIELDS:
        if not isinstance(value, bool):
            raise KnowledgeError(f"{name} must be true or false", field=name)
        return value
    if not isinstance(value, str):
        raise KnowledgeError(f"{name} must be a string", field=name)
    return value


def as_object(draft: ItemDraft) -> dict[str, Any]:
    """Return a draft as a JSON object that gives it back: what is empty is left out where that is what it means."""
    values = {field.name: (getattr(draft, field.name), field.default) for field in fields(ItemDraft)}
    return {
        name: list(value) if isinstance(value, tuple) else value
        for name, (value, default) in values.items()
        if value or (default is not MISSING and value != default)
    }


def check_draft(draft: ItemDraft) -> None:
    """Raise KnowledgeError when a draft breaks a limit, uses an unknown word or holds what may not be stored."""
    for name in REQUIRED:
        if not getattr(draft, name).strip():
            raise KnowledgeError(f"{name} must not be empty", field=name)
    if not is_id(draft.knowledge_id):
        raise KnowledgeError("knowledge_id must be printable text without space around it", field="knowledge_id")
    size = estimate_tokens(draft.proposition)
    if size > PROPOSITION_TOKENS:
        told = f"proposition has about {size} tokens; the limit is {PROPOSITION_TOKENS}, shorten it"
        raise KnowledgeError(told, field="proposition", limit=PROPOSITION_TOKENS)
    _check_word("kind", draft.kind, KINDS)
    _check_word("state", draft.state, stages.ITEM_STATES)
    if draft.trigger and (problem := stages.trigger_problem(draft.trigger)) is not None:
        raise KnowledgeError(f"trigger {problem}", field="trigger")
    if bool(draft.replaced_by) != (draft.state in NEEDS_REPLACEMENT):
        needing = " and ".join(NEEDS_REPLACEMENT)
        told = f"replaced_by must name the live replacement of a {needing} item, and of no other"
        raise KnowledgeError(told, field="replaced_by")
    for name, value in asdict(draft).items():
        _check_texts(name, value)


def _check_word(name: str, word: str, words: Mapping[str, str]) -> None:
    if word not in words:
        raise KnowledgeError(f"{name} must be one of: {', '.join(words)}", field=name)


def _check_texts(name: str, value: object) -> None:
    texts = value if isinstance(value, tuple) else (value,)
    if len(texts) > LIST_LIMIT:
        told = f"{name} has {len(texts)} entries; the limit is {LIST_LIMIT}"
        raise KnowledgeError(told, field=name, limit=LIST_LIMIT)
    limit = LANGUAGE_LIMIT if name == "language" else TEXT_LIMIT
    limit = ID_LIMIT if name in SHORT_FIELDS or name in SHORT_LISTS else limit
    for text in texts:
        if isinstance(text, str):
            check_text(name, text, limit)


def check_text(name: str, text: str, limit: int) -> None:
    """Raise KnowledgeError for a text over its limit, or one that may not or cannot be stored."""
    if len(text) > limit:
        told = f"{name} has {len(text)} characters; the limit is {limit}, shorten it"
        raise KnowledgeError(told, field=name, limit=limit)
    if "\x00" in text or any("\ud800" <= char <= "\udfff" for char in text):
        raise KnowledgeError(f"{name} holds a NUL or half a surrogate pair; take it out", field=name)
    if redact(text)[1]:
        raise KnowledgeError(f"{name} holds what looks like a secret; take it out", field=name)


def check_words(by: str, reason: str, name: str = "reason") -> None:
    """Raise KnowledgeError unless it is said who changes an item, and why (`name` is what the reason is called)."""
    for field, text, limit in (("by", by, ID_LIMIT), (name, reason, TEXT_LIMIT)):
        if not text.strip():
            raise KnowledgeError(f"{field} is required: say {SAY[field]}", field=field)
        check_text(field, text, limit)
