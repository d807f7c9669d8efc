"""What holds for the request of any conversation."""

import re
from dataclasses import replace

from hypothesis import given, settings
from hypothesis import strategies as st

from contract.state_block import LABELS
from kernel.conversation.records import Heard, Record, Summary
from kernel.conversation.request import Situation, compose
from kernel.core.history import check_history
from kernel.messages import Locale
from tests.kernel.conversation.talks import NOW, OWNER, at, played, soon

SOURCES = st.sampled_from([OWNER, OWNER, "jarvis", "jarvis_live"])
TEXTS = st.sampled_from(
    ["yes", "two\nlines", "", " ", "<voice></voice>", "[2026-09-24T18:02:00+08:00] jarvis: hm", "[2026-09-24T18:02Z] "]
)
TIMES = st.builds(at, st.sampled_from(["00:01", "12:00", "23:59"]), st.sampled_from(["2026-09-23", "2026-09-24"]))
LOCALES: tuple[Locale, ...] = ("en", "zh", "ru")
BRACKETED_TIME = re.compile(r"\s*\[\d{4}-\d\d-\d\d")


@st.composite
def situations(draw: st.DrawFn) -> Situation:
    """A conversation of up to ten rows, with or without a summary, a start, reports and a profile."""
    said = draw(st.lists(st.tuples(SOURCES, TEXTS, TIMES), max_size=10))
    records = tuple(Record(f"r{number}", when, source, text) for number, (source, text, when) in enumerate(said))
    anchors = [record.record_id for record in records]
    summary = Summary(draw(st.sampled_from(anchors)), draw(TEXTS)) if anchors and draw(st.booleans()) else None
    heard: tuple[Heard, ...] = tuple(played(record.record_id, record.text[:2], record.text) for record in records[-2:])
    return Situation(
        rules="Be brief.",
        utterance="go on",
        now=NOW,
        records=records,
        summary=summary,
        heard=draw(st.sampled_from([(), heard])),
        history_since=draw(st.sampled_from(["", at("12:00"), at("12:00", "2026-09-23")])),
        owner=OWNER,
        profile=draw(st.sampled_from([(), ("likes tea",)])),
        mode=draw(st.sampled_from(["", "voice"])),
        locale=draw(st.sampled_from(LOCALES)),
    )


@settings(max_examples=150)
@given(situations())
def test_any_request_is_one_that_every_provider_takes(given_: Situation) -> None:
    """System first, no two user messages in a row, none empty, the turn's own last, the block in it once."""
    messages = compose(given_).messages
    check_history(messages)
    roles = [message.role for message in messages]
    assert (roles[0], roles[-1]) == ("system", "user")
    assert all(
        pair != ("user", "user") and pair != ("assistant", "assistant") for pair in zip(roles, roles[1:], strict=False)
    )
    assert all(message.text.strip() for message in messages)
    header = LABELS[given_.locale].header
    assert [message.text.count(header) for message in messages] == [0] * (len(messages) - 1) + [1]


@settings(max_examples=150)
@given(situations())
def test_nothing_of_the_program_stands_in_an_assistant_message(given_: Situation) -> None:
    """Its text is made of words that were said; no time, date or state stands at its head."""
    for message in compose(given_).messages:
        if message.role == "assistant":
            assert not BRACKETED_TIME.match(message.text)
            assert set(message.text.split("\n")) <= {"yes", "two", "lines", "hm"}


@settings(max_examples=150)
@given(situations(), st.sampled_from([1, 45, 3_000]))
def test_only_the_time_line_knows_the_clock(given_: Situation, minutes: int) -> None:
    """The same state at another moment: one line differs."""
    first, second = compose(given_), compose(replace(given_, now=soon(NOW, minutes)))
    assert first.messages[:-1] == second.messages[:-1]
    pairs = zip(first.messages[-1].text.split("\n"), second.messages[-1].text.split("\n"), strict=True)
    differing = [pair for pair in pairs if pair[0] != pair[1]]
    assert len(differing) == 1
    assert all(line.startswith(LABELS[given_.locale].time) for line in differing[0])


@settings(max_examples=150)
@given(situations(), st.sampled_from(["fine", "", "[2026-09-25T09:00:00+08:00] jarvis: fine"]))
def test_a_turn_only_adds_to_the_history_before_it(given_: Situation, answer: str) -> None:
    """System and history of a turn are where the next request begins, to the byte: a provider can keep them."""
    said = Record("said", at("09:00", "2026-09-25"), OWNER, given_.utterance)
    answered = (Record("answer", at("09:01", "2026-09-25"), "jarvis", answer),) if answer else ()
    after = replace(given_, records=(*given_.records, said, *answered), heard=(), utterance="more", now=soon(NOW, 5))
    before = compose(given_).messages[:-1]
    assert compose(after).messages[: len(before)] == before
