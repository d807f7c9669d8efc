"""Decides which moves of an item's lifecycle are allowed, and in what words its history is told. Pure. (Seed 001 §4.2.)

A retired item stays retired: to bring its rule back, a new item is made.
"""

from collections.abc import Mapping
from typing import Final

from contract.stages import RETIRED_STATES
from knowledge.drafts import NEEDS_REPLACEMENT, KnowledgeConflict, KnowledgeError

TRANSITIONS: Final[Mapping[str, tuple[str, ...]]] = {
    "proposed": ("confirmed", "challenged", "invalidated", "superseded", "corrected"),
    "confirmed": ("challenged", "at_risk", "invalidated", "superseded", "corrected"),
    "challenged": ("confirmed", "at_risk", "invalidated", "superseded", "corrected"),
    "at_risk": ("confirmed", "challenged", "invalidated", "superseded", "corrected"),
    "invalidated": (),
    "superseded": (),
    "corrected": (),
}
CHANGES: Final[Mapping[str, str]] = {
    "created": "the item was made, with its first revision",
    "revised": "its text got a new revision",
    "state": "it moved along its lifecycle",
    "suspended": "it is kept from runtime offers",
    "resumed": "it is offered at runtime triggers again",
    "evidence": "a run was named that speaks for it or against it",
    "replacement": "its replacement was itself replaced, and it leads to the live one",
}
REPLACED: Final = "replaced_by"
MOST_STEPS: Final = 5  # from a retired item to the live one in its place, as far as FindHints follows


def check_move(knowledge_id: str, state: str, to_state: str, replaced_by: str | None) -> None:
    """Raise KnowledgeError for a move the table does not allow, or one with or without a replacement wrongly."""
    if to_state not in TRANSITIONS:
        raise KnowledgeError(f"state must be one of: {', '.join(TRANSITIONS)}", field="state")
    if to_state not in TRANSITIONS[state]:
        allowed = ", ".join(TRANSITIONS[state]) or "nothing: it is retired, make a new item instead"
        raise KnowledgeConflict(f"{knowledge_id} is {state}; it may become {allowed}", field="state")
    if to_state in NEEDS_REPLACEMENT:
        if not replaced_by:
            raise KnowledgeError(f"replaced_by is required: the live item in place of {knowledge_id}", field=REPLACED)
        if replaced_by == knowledge_id:
            raise KnowledgeError("replaced_by must name another item", field=REPLACED)
    elif replaced_by is not None:
        needing = " and ".join(NEEDS_REPLACEMENT)
        raise KnowledgeError(f"replaced_by is only for {needing}; leave it out", field=REPLACED)


def check_not_retired(knowledge_id: str, state: str) -> None:
    if state in RETIRED_STATES:
        raise KnowledgeConflict(f"{knowledge_id} is {state}: a retired item is not revised; make a new one")


def check_revision(knowledge_id: str, current: int, expected: int | None) -> None:
    """Raise KnowledgeConflict when somebody who edits has read another revision than the current one."""
    if expected is not None and expected != current:
        raise KnowledgeConflict(
            f"{knowledge_id} is at revision {current}, and the change was made from revision {expected}: "
            "read it again and decide anew",
            field="expected_revision",
        )


def check_chains(replaced_by: Mapping[str, str]) -> None:
    """Raise KnowledgeError for replacements (old -> new) that lead in a circle or over more than MOST_STEPS."""
    for start in replaced_by:
        seen = [start]
        while (following := replaced_by.get(seen[-1])) is not None:
            if following in seen:
                raise KnowledgeError(f"{start}: replaced_by leads in a circle; name the live item", field=REPLACED)
            seen.append(following)
            if len(seen) > MOST_STEPS + 1:
                told = f"{start}: more than {MOST_STEPS} replacements follow one another; name the live item"
                raise KnowledgeError(told, field=REPLACED)
