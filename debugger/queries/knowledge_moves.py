"""What a curator may do to an item as it stands: the moves its lifecycle allows, in words. Pure. (Seed 001 §7.)"""

from dataclasses import dataclass
from typing import Final

from contract import stages
from knowledge.drafts import NEEDS_REPLACEMENT
from knowledge.items import TRANSITIONS

# A state's tone on the pages; an unknown word gets the neutral one.
STATE_TONES: Final = {
    "confirmed": "ok",
    "challenged": "warn",
    "at_risk": "warn",
    "invalidated": "bad",
    "superseded": "bad",
    "corrected": "bad",
}
# What a state means for being found and offered.
STATE_EFFECTS: Final = {
    "proposed": "It is offered, with the caution that nobody has confirmed it yet.",
    "confirmed": "It is offered wherever it matches.",
    "challenged": "It is still offered, with the caution that evidence against it exists, behind better ones.",
    "at_risk": "It is not offered until somebody confirms it again.",
    "invalidated": "It is kept for the record and never offered again.",
    "superseded": "It is never offered again; where it matches, its replacement is.",
    "corrected": "It is never offered again; where it matches, the corrected item is.",
}
LABELS: Final = {
    "confirmed": "Confirm",
    "challenged": "Challenge",
    "at_risk": "Mark at risk",
    "invalidated": "Invalidate",
    "superseded": "Supersede by",
    "corrected": "Correct by",
}
SUSPEND: Final = "suspend"
RESUME: Final = "resume"
EVIDENCE: Final = "evidence"


@dataclass(frozen=True, slots=True)
class Move:
    """One thing that can be done to an item. `name` is a state it may become, or suspend, resume, evidence."""

    name: str
    label: str
    meaning: str
    is_final: bool = False
    needs_replacement: bool = False
    needs_run: bool = False

    @property
    def is_state(self) -> bool:
        return self.name in stages.ITEM_STATES


BACK: Final = Move(RESUME, "Resume", "It is offered at runtime triggers again, as its state allows.")
AWAY: Final = Move(SUSPEND, "Suspend", "Its state stays; it is offered only when a run starts, until it is resumed.")
ADD_EVIDENCE: Final = Move(
    EVIDENCE, "Add evidence", "Names a run that speaks for it or against it. Its text and state stay.", needs_run=True
)


def moves_of(state: str, is_suspended: bool) -> tuple[Move, ...]:
    """Return the moves that are open to an item in `state`; a retired one has none."""
    if state in stages.RETIRED_STATES:
        return ()
    changes = tuple(_to(target) for target in TRANSITIONS.get(state, ()))
    kept = [move for move in changes if not move.is_final]
    final = [move for move in changes if move.is_final]
    return (*kept, ADD_EVIDENCE, BACK if is_suspended else AWAY, *final)


def _to(state: str) -> Move:
    is_final = state in stages.RETIRED_STATES
    final = " This cannot be taken back." if is_final else ""
    return Move(
        state,
        LABELS.get(state, state.replace("_", " ").capitalize()),
        STATE_EFFECTS.get(state, stages.ITEM_STATES.get(state, "")) + final,
        is_final,
        needs_replacement=state in NEEDS_REPLACEMENT,
    )
