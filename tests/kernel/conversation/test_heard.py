"""How far an answer was heard: what the reports say, and unknown where they do not."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.conversation.heard import find_cut
from kernel.conversation.records import Heard, Record
from kernel.messages import Cut
from tests.kernel.conversation.talks import OWNER, STORY, at, played, report, rows

TALK = rows((OWNER, "tell me a story"), ("jarvis", STORY))
UNKNOWN = Cut("unknown", "", "r2")


def cut(*heard: Heard, talk: tuple[Record, ...] = TALK) -> Cut | None:
    return find_cut(talk, OWNER, heard)


def heard_to(count: int, when: str = "18:30") -> Heard:
    return played("r2", STORY[:count], STORY, when)


def test_t38_a_heard_part_is_quoted() -> None:
    """Shorter than the answer: a prefix. The whole of it: no cut. Nothing of it: before any word."""
    assert cut(heard_to(5)) == Cut("prefix", STORY[:5], "r2")
    assert cut(heard_to(5), report("r2", "interrupted")) == Cut("prefix", STORY[:5], "r2")
    assert cut(heard_to(len(STORY))) is None
    assert cut(heard_to(len(STORY)), report("r2", "interrupted")) is None
    assert cut(heard_to(0), report("r2", "interrupted")) == Cut("nothing", "", "r2")


def test_t39_a_part_played_before_the_interruption_counts_however_late_it_is_told() -> None:
    """The report's own time decides; one that goes on past the interruption contradicts it."""
    stop = report("r2", "interrupted", "18:31")
    assert cut(heard_to(3, "18:29"), stop, heard_to(7, "18:30")) == Cut("prefix", STORY[:7], "r2")
    assert cut(stop, heard_to(7, "18:31")) == Cut("prefix", STORY[:7], "r2")
    assert cut(heard_to(3, "18:29"), stop, heard_to(7, "18:32")) == UNKNOWN
    assert cut(heard_to(7, "18:29"), stop, heard_to(7, "18:32")) == Cut("prefix", STORY[:7], "r2")
    assert cut(stop, heard_to(7, "18:32")) == UNKNOWN


def test_t40_no_position_is_invented() -> None:
    """An interruption of which nothing more is known leaves it unknown."""
    assert cut(report("r2", "interrupted")) == UNKNOWN


def test_nothing_reported_counts_as_heard() -> None:
    """A written answer has no reports; nor has a conversation that has not begun."""
    assert cut() is None
    assert cut(heard_to(3), talk=()) is None
    assert cut(report("r2", "spoken", text="short form")) is None


def test_no_answer_at_all() -> None:
    """The last row is the owner's: there was none, whatever is reported of earlier answers."""
    talk = rows((OWNER, "a"), ("jarvis", STORY), (OWNER, "b"))
    assert cut(heard_to(3), talk=talk) == Cut("no_answer", "", "r3")


def test_only_the_turn_before_counts() -> None:
    """Reports of an earlier turn's answer say nothing about this one."""
    talk = rows((OWNER, "a"), ("jarvis", STORY), (OWNER, "b"), ("jarvis", "fine"))
    assert cut(heard_to(3), talk=talk) is None
    notice = (*TALK, Record("r3", at("18:09"), "jarvis", "the build ended"))
    assert cut(heard_to(3), talk=notice) == Cut("prefix", STORY[:3], "r2")


@pytest.mark.parametrize(
    "reports",
    [
        (played("r2", "Once", STORY),),
        (played("r2", STORY[:3], f"{STORY} The end."),),
        (Heard("r2", "played", at("18:30"), STORY[:3], ""),),
        (heard_to(7, "18:29"), heard_to(3, "18:30")),
        (report("r2", "spoken", text="a"), report("r2", "spoken", text="b"), played("r2", "a", "a")),
        (Heard("r2", "played", "yesterday", STORY[:3], ""),),
    ],
    ids=["no prefix", "hash of another text", "no hash", "shorter later", "two spoken texts", "no time"],
)
def test_contradictory_reports_leave_it_unknown(reports: tuple[Heard, ...]) -> None:
    """A part that is no beginning of the spoken text, is bound to another, or shrinks is no evidence of anything."""
    assert cut(*reports) == UNKNOWN


def test_the_spoken_text_may_be_another_than_the_written_one() -> None:
    """Where the voice was given a shorter form, the heard part is a part of that."""
    spoken = report("r2", "spoken", text="A monk told a story.")
    assert cut(spoken, played("r2", "A monk", "A monk told a story.")) == Cut("prefix", "A monk", "r2")
    assert cut(spoken, heard_to(3)) == UNKNOWN


@given(st.permutations([heard_to(2, "18:28"), heard_to(4, "18:29"), heard_to(9, "18:30")]))
def test_the_order_of_arrival_does_not_matter(heard: list[Heard]) -> None:
    """What was played longest decides."""
    assert cut(*heard, report("r2", "interrupted", "18:31")) == Cut("prefix", STORY[:9], "r2")


REPORTS = st.one_of(
    st.builds(heard_to, st.integers(0, len(STORY)), st.sampled_from(["18:28", "18:29", "18:30"])),
    st.builds(played, st.just("r2"), st.sampled_from(["", "Once", STORY]), st.sampled_from([STORY, "Once"])),
    st.builds(report, st.just("r2"), st.sampled_from(["interrupted", "spoken"]), st.just("18:29"), st.just("Once")),
)


@given(st.lists(REPORTS, max_size=5))
def test_nothing_is_ever_quoted_that_was_not_reported(heard: list[Heard]) -> None:
    """Whatever is reported in whatever order: a quoted part was reported as played, and begins the spoken text."""
    found = cut(*heard)
    if found is not None and found.prefix:
        assert found.heard == "prefix"
        assert found.prefix in [one.text for one in heard if one.kind == "played"]
        assert any(text.startswith(found.prefix) and text != found.prefix for text in (STORY, "Once"))
    elif found is not None:
        assert found.heard in ("nothing", "unknown")
