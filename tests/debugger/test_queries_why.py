"""The why panel: every word of the chain is explained from the one vocabulary, every number is there."""

from typing import Any

import pytest

from contract import stages
from debugger.queries.candidates import describe_candidate
from debugger.queries.event_detail import describe, shown_text
from debugger.queries.pieces import PREVIEW, arguments_gist, diagnostic_gist, one_line, plain_text
from debugger.queries.requests import place_block
from debugger.queries.timeline import build_timeline
from debugger.queries.why import explain
from debugger.templatetags.inspector import code, duration, offset
from ingest.messages import RebuiltRequest
from knowledge.models import Activation, Candidate
from tests.knowledge.streams import run_of

STATES = {name: index for index, name in enumerate(stages.STAGES)}


def candidate(**fields: Any) -> Candidate:
    return Candidate(knowledge_id="k-1", **fields)


def happened(**fields: Any) -> str:
    return plain_text(describe_candidate(candidate(**fields), {}, 0).happened)


def bar(**fields: Any) -> list[str]:
    return [stage.state for stage in describe_candidate(candidate(**fields), {}, 0).stages]


def why(**fields: Any) -> str:
    activation = Activation(activation_id="a1", **fields)
    return plain_text(explain(activation, [], build_timeline([]), {}).sentence)


@pytest.mark.parametrize("reason", stages.DROP_REASONS)
def test_every_drop_reason_is_explained(reason: str) -> None:
    """The word of the vocabulary is told in its words, with the numbers that decided."""
    told = happened(
        offered_ns=1, dropped_ns=2, drop_reason=reason, drop_detail={"needed": 212, "left": 188, "limit": 400}
    )
    assert stages.DROP_REASONS[reason] in told
    assert "188 left of 400" in told


@pytest.mark.parametrize("reason", stages.HOLD_REASONS)
def test_every_hold_reason_is_explained(reason: str) -> None:
    """What Observation held back says why, and its bar stops before offered."""
    assert stages.HOLD_REASONS[reason] in happened(hold_reason=reason)
    assert bar(hold_reason=reason) == ["reached", "stopped", "", "", ""]


@pytest.mark.parametrize("reason", stages.SKIP_REASONS)
def test_every_skip_reason_is_explained(reason: str) -> None:
    """A search that was not made says why."""
    assert stages.SKIP_REASONS[reason] in why(trigger="tool.failed", result="skipped", skip_reason=reason)


@pytest.mark.parametrize("result", stages.ACTIVATION_RESULTS)
@pytest.mark.parametrize("trigger", [*stages.TRIGGERS, "", "vendor.trigger"])
def test_every_result_has_a_sentence(trigger: str, result: str) -> None:
    """Whatever set a search off and however it ended, the panel begins with a sentence."""
    assert why(trigger=trigger, result=result).endswith((".", "injected"))


WITHHELD = {"arm": "withheld", "experiment": "spring", "share": 0.2, "holdout_tokens": 212}


def explained(**fields: Any) -> Any:
    return explain(Activation(activation_id="a1", **fields), [], build_timeline([]), {})


def test_a_withheld_search_says_so_in_words() -> None:
    """What was kept back on purpose, for which experiment, how often, and what it would have taken."""
    words = "withheld on purpose (experiment spring, 1 in 5 situations): it would have taken 212 tokens"
    counts = {"n_retrieved": 5, "n_offered": 3, "n_dropped": 3}
    told = explained(trigger="tool.failed", tool="shell", result="success", **counts, **WITHHELD)
    assert told.draw == words
    assert plain_text(told.sentence).endswith(f"0 injected · 3 dropped · {words}.")
    assert "it would have taken 200 tokens" in happened(
        offered_ns=1, dropped_ns=2, drop_reason="holdout", drop_detail={"needed": 200, "probability": 0.2}
    )


def test_the_offered_arm_shows_its_draw_and_an_undrawn_search_none() -> None:
    """The other arm is told apart from a search for which nothing was drawn; its sentence says nothing of it."""
    told = explained(trigger="tool.failed", result="success", n_injected=1, **{**WITHHELD, "arm": "offered"})
    assert told.draw == "the draw let the hints go in (experiment spring, 1 in 5 situations is withheld)"
    assert "draw" not in plain_text(told.sentence)
    assert explained(trigger="tool.failed", result="success").draw == ""


def test_shadow_mode_says_what_it_kept_out() -> None:
    """Shadow is no draw: its own words, with the size of the block."""
    told = explained(trigger="tool.failed", result="success", n_offered=1, n_dropped=1, shadow_tokens=1)
    assert told.draw == "shadow mode, nothing is injected: it would have taken 1 token"
    assert plain_text(told.sentence).endswith(f"{told.draw}.")


@pytest.mark.parametrize(
    ("fields", "deferral", "sentence"),
    [
        ({}, "", "A tool failed. The search has not been answered yet."),
        (
            {"deferred_ns": 1_500_000_000, "deferred_limit": 2},
            "at +1.50 s to the next boundary, because a turn has at most 2 activations",
            "A tool failed. The search was put off to the next boundary.",
        ),
        (
            {"deferred_ns": 1_500_000_000, "requested_ns": 4_000_000_000},
            "at +1.50 s to the next boundary; searched 2.50 s later",
            "A tool failed. The search has not been answered yet.",
        ),
        (
            {"deferred_ns": 10**9, "deferred_limit": 1, "completed_ns": 3 * 10**9, "skip_reason": "turn_cap"},
            "at +1.00 s to the next boundary, because a turn has at most 1 activation; skipped 2.00 s later",
            f"A tool failed. No search was made: {stages.SKIP_REASONS['turn_cap']}.",
        ),
        ({"deferred_ns": 5 * 10**9, "requested_ns": 10**9}, "at +5.00 s to the next boundary", None),
    ],
)
def test_a_deferral_is_told(fields: dict[str, Any], deferral: str, sentence: str | None) -> None:
    """When it was put off, by which limit, and how long it waited; a clock that went back gives no wait."""
    told = explained(trigger="tool.failed", **fields)
    assert told.deferral == deferral
    assert sentence is None or plain_text(told.sentence) == sentence


def test_a_trigger_nobody_explained_is_named() -> None:
    """Its name stands where the explanation of a known one begins, with the tool it was seen in."""
    told = explained(trigger="entity.appeared", tool="read_file", result="empty")
    assert plain_text(told.sentence).startswith("entity.appeared was seen in read_file · Temporality searched")
    assert told.trigger_meaning.startswith("a trigger that is not explained here")
    assert explained(trigger="tool.failed", result="empty").trigger_meaning == stages.TRIGGERS["tool.failed"]
    assert explained(result="empty").trigger_meaning == ""


def test_words_outside_the_vocabulary_are_shown_as_they_are() -> None:
    """An unknown word is not hidden and not guessed at."""
    assert "vendor_reason" in happened(offered_ns=1, dropped_ns=2, drop_reason="vendor_reason")
    assert "vendor_skip" in why(trigger="tool.failed", skip_reason="vendor_skip")


def test_a_stage_bar_shows_how_far_it_came() -> None:
    """Reached, stopped where the chain broke, ignored at the end; one stage never implies another."""
    assert bar(offered_ns=1) == ["reached", "reached", "", "", ""]
    assert bar(offered_ns=1, dropped_ns=2) == ["reached", "reached", "stopped", "", ""]
    assert bar(offered_ns=1, selected_ns=2, dropped_ns=3) == ["reached", "reached", "reached", "stopped", ""]
    assert bar(offered_ns=1, selected_ns=2, injected_ns=3, used_ns=4) == ["reached"] * 4 + ["used"]
    assert bar(offered_ns=1, selected_ns=2, injected_ns=3, ignored_ns=4) == ["reached"] * 4 + ["ignored"]
    assert bar(offered_ns=1, injected_ns=3) == ["reached", "reached", "", "reached", ""]


def test_use_and_outcome_name_their_source() -> None:
    """Used is told with what shows it and who says so; a reported verdict names the person."""
    evidence = {"usage": {"event_id": "e", "words": ["git", "init"]}, "outcome": {"by": "owner"}}
    told = happened(
        offered_ns=1, injected_ns=2, used_ns=3, usage_source="usage.v2", outcome="helpful", evidence=evidence
    )
    assert told == "injected · used git init · helpful says owner (usage.v2)"
    assert "not acted on" in happened(offered_ns=1, injected_ns=2, ignored_ns=3)


def request(*texts: str, missing: tuple[str, ...] = ()) -> RebuiltRequest:
    return RebuiltRequest(tuple({"role": "user", "text": text, "is_new": text == "new"} for text in texts), missing)


def test_a_block_stands_between_its_neighbours() -> None:
    """Two messages on either side are shown, the others are counted, the block is marked."""
    placement = place_block(request("a", "b", "c", "d", "the block", "new", "f", "g"), 4, "block")
    assert [line.text for line in placement.lines] == [
        "2 earlier messages, unchanged", "c", "d", "the block", "new", "f", "1 later message",
    ]  # fmt: skip
    assert [line.tone for line in placement.lines] == ["kept", "kept", "kept", "block", "new", "kept", "kept"]
    assert placement.warning == ""


def test_a_block_that_was_not_sent_as_reported_is_said() -> None:
    """A message without the block, a place outside the request, lost parts: each is told."""
    assert "does not hold the block" in place_block(request("a", "other"), 1, "block").warning
    assert "outside the request" in place_block(request("a"), 7, "block").warning
    assert "did not arrive" in place_block(request("a", "block", missing=("h",)), 1, "block").warning


@pytest.mark.parametrize(
    ("raw", "gist"),
    [
        ('{"command": "git init"}', "git init"),
        ('{"path": "a", "n": 2}', "path=a n=2"),
        ("{}", ""),
        ("[1]", "[1]"),
        ("not json", "not json"),
        ("", ""),
    ],
)
def test_arguments_read_as_they_would_be_typed(raw: str, gist: str) -> None:
    """A lone text bare, several as pairs, anything else as it came."""
    assert arguments_gist(raw) == gist


def test_a_diagnostic_is_told_by_its_telling_line() -> None:
    """The last line that names an error, else the last line; cut to one line."""
    assert diagnostic_gist("Traceback\n  File x\nValueError: no\n\nbye") == "ValueError: no"
    assert diagnostic_gist("one\ntwo\n") == "two"
    assert diagnostic_gist("") == ""
    assert len(one_line("x" * 9_999)) == 200


def test_a_preview_is_cut_and_pictures_are_chips() -> None:
    """No more than PREVIEW code points of text, a data URI as one chip wherever it stands."""
    uri = "data:image/png;base64," + "A" * 5_000
    parts = shown_text("result", "before " + uri + " after").parts
    assert [part.is_chip for part in parts] == [False, True, False]
    assert parts[1].text == "image/png · 5,022 characters"
    cut = shown_text("result", "x" * 9_999)
    assert (len(cut.parts), len(cut.parts[0].text), cut.n_left) == (1, PREVIEW, 9_999 - PREVIEW)
    assert [part.text for part in shown_text("result", "data:text/plain,short").parts] == ["data:text/plain,short"]


def test_marks_that_reorder_a_line_are_escaped() -> None:
    """Right-to-left overrides inside data cannot make it read as something else."""
    (event,) = run_of(("thinking", {"data": {"name": "\u202egnp.exe"}}))
    assert "\\u202egnp.exe" in describe(event).texts[0].parts[0].text


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [(None, ""), (0, "0.0 ms"), (9.96, "10.0 ms"), (41.4, "41 ms"), (1_310, "1.31 s"), (14_200, "14.2 s"),
     (59_990, "60.0 s"), (125_000, "2 m 05 s"), (11_400_000, "3 h 10 m")],
)  # fmt: skip
def test_durations_have_units(milliseconds: float | None, text: str) -> None:
    """Each size of duration in the unit it is read in."""
    assert duration(milliseconds) == text


def test_offsets_and_code() -> None:
    """Offsets have a sign and two digits; backticks become code and are escaped, a lone one stays."""
    assert offset(1_340_000_000) == "+1.34"
    assert offset(-20_000_000) == "-0.02"
    assert code("run `git <init>` now") == "run <code>git &lt;init&gt;</code> now"
    assert code("a ` lone") == "a ` lone"
