"""One hint as it was offered, with what a report about it must name."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Hint:
    """A piece of knowledge offered in one activation of one run. `state` and `caution` say how far it is trusted."""

    hint_id: str
    knowledge_id: str
    revision: int
    proposition: str
    state: str
    run: str
    activation_id: str
    matched_by: tuple[str, ...] = ()
    caution: str = ""
    tool: str = ""
    mcp_server: str = ""
