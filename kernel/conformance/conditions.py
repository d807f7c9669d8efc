"""The rows of the matrix, in the order they are shown."""

from typing import Final

from kernel.conformance.condition import Condition
from kernel.conformance.envelope_conditions import ASKS, DECISIONS, STEPS
from kernel.conformance.turn_conditions import BESIDE, CALLS, ENDS

CONDITIONS: Final[tuple[Condition, ...]] = (*CALLS, *STEPS, *ASKS, *DECISIONS, *ENDS, *BESIDE)
