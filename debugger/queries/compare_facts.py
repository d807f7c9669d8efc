"""What two runs were and were given: the facts of their heads, and the settings that differ. Pure. (Seed 001 §14.)"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from debugger.queries.compare_loading import Read
from debugger.queries.compare_rows import own_pattern, settle
from debugger.queries.pieces import one_line
from ingest.journal import JournalEvent

SHOWN: Final = 300  # code points of a value
DEEPEST: Final = 4  # levels of a setting that are told apart
NOT_SAID: Final = "not reported"
NOT_COMPARED: Final = ("task",)  # of run.started, told elsewhere on the page


@dataclass(frozen=True, slots=True)
class Fact:
    """One thing that is told of both runs: in words, or a number (a count or milliseconds, None while not known)."""

    name: str
    a: str | float | None
    b: str | float | None
    is_alike: bool = False  # but for ids and times

    @property
    def differs(self) -> bool:
        return self.a != self.b and not self.is_alike

    @property
    def is_once(self) -> bool:
        """Whether one text is enough for both."""
        return isinstance(self.a, str) and self.a == self.b

    @property
    def is_duration(self) -> bool:
        return isinstance(self.a, float)

    @property
    def is_count(self) -> bool:
        return not isinstance(self.a, str | float)

    @property
    def more(self) -> str:
        """How much more of it B has than A, with its sign; "" where that says nothing."""
        if isinstance(self.a, str) or isinstance(self.b, str) or self.a is None or self.b is None or self.a == self.b:
            return ""
        change = self.b - self.a
        sign = "+" if change > 0 else "−"
        return f"{sign}{abs(change) / 1_000:,.2f} s" if self.is_duration else f"{sign}{abs(change):,.0f}"


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings that differ, how many there are in all, and which sides reported none."""

    different: tuple[Fact, ...]
    n_settings: int
    unreported: tuple[str, ...]


def facts_of(a: Read, b: Read) -> tuple[Fact, ...]:
    """Return what both heads say, in the order it is read."""
    told_a, told_b = _facts(a), _facts(b)
    own_a, own_b = (own_pattern(side.header.run_id) for side in (a, b))
    return tuple(
        Fact(name, told, other, settle(str(told), own_a) == settle(str(other), own_b) and isinstance(told, str))
        for name, told in told_a.items()
        for other in (told_b[name],)
    )


def _facts(side: Read) -> dict[str, str | float | None]:
    summary, head = side.loaded.run.summary, side.header
    reason = f": {one_line(head.reason, SHOWN)}" if head.reason else ""
    solved = {True: "solved", False: "not solved", None: NOT_SAID}[head.success]
    return {
        "Status": f"{head.status.replace('_', ' ')}{reason}",
        "Task": one_line(head.task, SHOWN) or NOT_SAID,
        "Task solved": solved,
        "Answer": one_line(head.answer, SHOWN) or "none",
        "Agent": head.agent or NOT_SAID,
        "Model": head.model or NOT_SAID,
        "Duration": float(head.duration_ms),
        "Turns": head.n_turns,
        "Tool calls": summary.n_tool_calls if summary else None,
        "Failed calls": head.n_failed,
        "Activations": head.n_activations,
        "Skipped activations": head.n_skipped,
        "Hints offered": head.n_offered,
        "Hints injected": head.n_injected,
        "Hint tokens": summary.hint_tokens if summary else None,
        "Priming tokens": summary.priming_tokens if summary else None,
        "Model tokens": summary.model_tokens if summary else None,
    }


def settings_of(a: Sequence[JournalEvent], b: Sequence[JournalEvent]) -> Settings:
    """Return in what the two runs were started differently, as their first events say it."""
    told_a, told_b = _started(a), _started(b)
    flat_a, flat_b = dict(_flat(told_a or {})), dict(_flat(told_b or {}))
    names = sorted({*flat_a, *flat_b})
    facts = [Fact(name, flat_a.get(name, NOT_SAID), flat_b.get(name, NOT_SAID)) for name in names]
    unreported = tuple(side for side, told in (("A", told_a), ("B", told_b)) if told is None)
    return Settings(tuple(fact for fact in facts if fact.differs), len(facts), unreported)


def _started(events: Sequence[JournalEvent]) -> Mapping[str, Any] | None:
    return next((event.data for event in events if event.type == "run.started"), None)


def _flat(data: Mapping[str, Any], before: str = "", level: int = 1) -> Iterator[tuple[str, str]]:
    """Yield each setting with the names it stands under; lists are one setting, whatever their order."""
    for name, value in data.items():
        if level == 1 and name in NOT_COMPARED:
            continue
        whole = f"{before}{name}".replace("_", " ")
        if isinstance(value, dict) and value and level < DEEPEST:
            yield from _flat(value, f"{whole} · ", level + 1)
        else:
            yield whole, _in_words(value)


def _in_words(value: Any) -> str:
    if isinstance(value, list):
        return one_line(", ".join(sorted(map(_in_words, value))), SHOWN) or "none"
    if isinstance(value, bool):
        return "on" if value else "off"
    if isinstance(value, int):
        return f"{value:,}"
    return one_line(str(value), SHOWN) if value not in (None, "", {}) else "none"
