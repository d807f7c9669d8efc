"""What is taken off a row: retired tags, and labels that an answer copied; nothing else."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kernel.conversation.labels import answer_text, without_tags

KNOWN = ("allen", "jarvis", "jarvis_live")
LABEL = "[2026-09-25T11:42:05-07:00] jarvis: "


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"{LABEL}好，我继续。", "好，我继续。"),
        (f"{LABEL}{LABEL}yes", "yes"),
        (f"[2026-09-25T11:42:05Z] \n{LABEL}yes", "yes"),
        ("[2026-09-25T11:42:05Z] yes", "yes"),
        ("[2026-09-25 11:42] jarvis:yes", "yes"),
        ("[2026-09-25T11:42:05.123456+08:00] allen: yes", "yes"),
        ("[2026-09-25T11:42:05Z] someone_else: yes", "yes"),
        ("[2026-09-25T11:42:05Z] Note: yes", "Note: yes"),
        ("[time to go] home", "[time to go] home"),
        ("[2026-13-45T99:99:99Z] jarvis: odd", "[2026-13-45T99:99:99Z] jarvis: odd"),
        ("[2026-09-25] release", "[2026-09-25] release"),
        ("[9月24日 周四] lunch", "[9月24日 周四] lunch"),
        ("at [2026-09-25T11:42:05Z] jarvis: it began", "at [2026-09-25T11:42:05Z] jarvis: it began"),
    ],
)
def test_t31_a_copied_label_goes_from_the_start_and_what_only_looks_alike_stays(text: str, left: str) -> None:
    """As often as it stands there; a time later in the text, or brackets that hold none, are the answer's own."""
    assert answer_text(text, KNOWN) == left


@pytest.mark.parametrize(
    ("text", "left"),
    [
        (f"one\n{LABEL}two", "one\ntwo"),
        (f"one\n  {LABEL}{LABEL}two", "one\ntwo"),
        ("one\n[2026-09-25T11:42:05Z] bob: two", "one\n[2026-09-25T11:42:05Z] bob: two"),
        ("one\n[2026-09-25T11:42:05Z] two", "one\n[2026-09-25T11:42:05Z] two"),
        ("one\n[2026-99-25T11:42:05Z] jarvis: two", "one\n[2026-99-25T11:42:05Z] jarvis: two"),
        (f"one {LABEL}two", f"one {LABEL}two"),
    ],
)
def test_t32_inside_an_answer_only_a_whole_label_at_the_start_of_a_line_goes(text: str, left: str) -> None:
    """There the time must be one and the source must be known: a log the answer quotes stays."""
    assert answer_text(text, KNOWN) == left


@pytest.mark.parametrize(
    "text",
    ['done. {"ts": "2026-09-25T11:42:05Z"', "done. [2026-09-25T11:42:05Z]", "done.\n[2026-09-25T11:42:05Z] jarvis"],
)
def test_t35_a_fragment_at_the_end_is_not_touched(text: str) -> None:
    """What is taken off is taken off the start of a line; the end of an answer is its own."""
    assert answer_text(text, KNOWN) == text


def test_retired_tags_go_and_what_they_enclosed_stays() -> None:
    """Tags of the envelope answers once had; others are text."""
    assert without_tags("<voice>hello</voice>\n<document>\n# Plan\n</document>") == "hello\n\n# Plan"
    assert without_tags("a <b>bold</b> <voices> word") == "a <b>bold</b> <voices> word"
    assert answer_text(f"<voice>{LABEL}hello</voice>", KNOWN) == "hello"


PIECES = st.sampled_from(
    [
        LABEL,
        "[2026-09-25T11:42:05Z] ",
        "[2026-09-25T11:42:05Z] bob: ",
        "[time to go] ",
        "\n",
        " ",
        "Home!",
        "<b>",
        "jarvis: ",
    ]
)


@given(st.lists(PIECES, max_size=12).map("".join))
def test_an_answer_that_is_read_again_is_clean(text: str) -> None:
    """Taking labels off a second time changes nothing, and no word of the answer is lost."""
    once = answer_text(text, KNOWN)
    assert answer_text(once, KNOWN) == once
    assert once.count("Home!") == text.count("Home!")
    assert once.count("[time to go]") == text.count("[time to go]")
