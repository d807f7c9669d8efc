"""`task.priming`: the run starts, and knowledge is looked up for the task itself. (Seed 001 §7.1, §11.)"""

from collections.abc import Iterable

from kernel.core.state import Candidate
from kernel.core.triggers.facts import Facts, Reason


class Priming:
    """Sees one reason at the start of a run, none later."""

    name = "task.priming"
    needs_text = False

    def reasons(self, facts: Facts) -> Iterable[Reason]:
        if facts.started_event_id:
            yield Reason(0, Candidate(self.name, facts.started_event_id, "this task"))
