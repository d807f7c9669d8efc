"""What the hints API takes and gives: the limits of a request, and the check of an answer before anybody acts on it.

Pure, and the same for Observation and for all who ask it. (Seed 001 §7.1, §7.3.)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final

from contract.events import ID_LIMIT
from contract.text import clip

QUERY_LIMIT: Final = 4_096  # code points
TOOL_RESULT_LIMIT: Final = 8_192  # code points
TOOL_ARGUMENTS_LIMIT: Final = 1_024  # code points
ACTIVATION_ID_LIMIT: Final = 190  # code points; the ids of its events are a little longer
RUN_PART: Final = 150  # code points of the run id that an activation id made for a sender begins with
REVISIONS_LIMIT: Final = 200  # entries of suppressed_revisions
MAX_HINTS: Final = 20  # in one answer
DEFAULT_HINTS: Final = 8

ANSWER_BYTES: Final = 1024 * 1024  # of an answer that is read
TEXT_LIMIT: Final = 4_096  # code points of one proposition or caution
COUNT_LIMIT: Final = 2**31 - 1  # of a count or a revision


class BadHints(ValueError):
    """An answer is not of the agreed shape; the text names what is wrong with it."""


@dataclass(frozen=True, slots=True)
class CheckedHint:
    """One hint of an answer. Its ids can be sent back as they are."""

    hint_id: str
    knowledge_id: str
    revision: int
    proposition: str
    state: str
    matched_by: tuple[str, ...]
    caution: str


@dataclass(frozen=True, slots=True)
class CheckedAnswer:
    """What an answer says, as far as whoever asked relies on it."""

    hints: tuple[CheckedHint, ...]
    n_retrieved: int
    algorithm_version: str
    matcher: str


def check_answer(activation_id: str, answer: object) -> CheckedAnswer:
    """Return the checked answer to that activation. Raises BadHints."""
    if not isinstance(answer, dict):
        raise BadHints("it is no object")
    if answer.get("activation_id") != activation_id:
        raise BadHints("activation_id is not the one asked for")
    hints = answer.get("hints")
    if not isinstance(hints, list):
        raise BadHints("hints is no list")
    if len(hints) > MAX_HINTS:
        raise BadHints(f"{len(hints)} hints; the limit is {MAX_HINTS}")
    counts = answer.get("counts")
    n_retrieved = counts.get("retrieved", len(hints)) if isinstance(counts, dict) else len(hints)
    if not _is_whole(n_retrieved, 0):
        raise BadHints("counts.retrieved is no count")
    return CheckedAnswer(
        hints=tuple(_hint(hint) for hint in hints),
        n_retrieved=n_retrieved,
        algorithm_version=_text(answer, "algorithm_version", ID_LIMIT, required=False),
        matcher=_text(answer, "matcher", ID_LIMIT, required=False),
    )


def is_id(text: str) -> bool:
    """Return whether a text can be the id of an item: whoever asks refuses an answer that names another."""
    return text.isprintable() and text == text.strip()


def _hint(value: object) -> CheckedHint:
    if not isinstance(value, dict):
        raise BadHints("a hint is no object")
    revision = value.get("revision")
    if not isinstance(revision, int) or not _is_whole(revision, 1):
        raise BadHints("revision is no whole number from 1 on")
    matched_by = value.get("matched_by", [])
    if not isinstance(matched_by, list) or not all(isinstance(reason, str) for reason in matched_by):
        raise BadHints("matched_by is no list of texts")
    return CheckedHint(
        hint_id=_id(value, "hint_id"),
        knowledge_id=_id(value, "knowledge_id"),
        revision=revision,
        proposition=_text(value, "proposition", TEXT_LIMIT),
        state=_text(value, "state", ID_LIMIT),
        matched_by=tuple(clip(reason, ID_LIMIT) for reason in matched_by[:MAX_HINTS]),
        caution=_text(value, "caution", TEXT_LIMIT, required=False),
    )


def _is_whole(value: object, lowest: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and lowest <= value <= COUNT_LIMIT


def _text(value: Mapping[str, Any], name: str, limit: int, *, required: bool = True) -> str:
    text = value.get(name)
    if text is None and not required:
        return ""
    if not isinstance(text, str) or (required and not text):
        raise BadHints(f"{name} is no text")
    if len(text) > limit:
        raise BadHints(f"{name} has {len(text)} characters; the limit is {limit}")
    return text


def _id(value: Mapping[str, Any], name: str) -> str:
    """Return an id that can be sent back as it is."""
    text = _text(value, name, ID_LIMIT)
    if not is_id(text):
        raise BadHints(f"{name} is no printable text without space around it")
    return text
