"""Hints that were dropped: what followed them, as far as the record shows; and the numbers of the why panel."""

import re
from typing import Any

import pytest
from django.test import Client
from django.urls import reverse

from debugger.queries.candidates import describe_candidate
from debugger.queries.missed_hints import Missed, what_followed
from debugger.queries.pieces import plain_text
from debugger.queries.timeline import build_timeline
from debugger.queries.why import explain
from knowledge.models import Activation, Candidate
from tests.factories import make_person, make_project, send, typical_run
from tests.knowledge.streams import run_of

DROPPED = {"offered_ns": 1, "dropped_ns": 2, "drop_reason": "hint_limit"}


def followed(says: str, command: str, status: str = "ok", **fields: Any) -> Missed:
    """What followed a dropped hint that says `says`, where a later call was `command`."""
    events = run_of(
        ("tool.requested", {"tool": "shell", "call_id": "c1", "data": {"arguments": '{"command": "git commit"}'}}),
        ("tool.failed", {"tool": "shell", "call_id": "c1", "data": {"detail": "fatal"}}),
        ("tool.requested", {"tool": "shell", "call_id": "c2", "data": {"arguments": f'{{"command": "{command}"}}'}}),
        ("tool.completed", {"tool": "shell", "call_id": "c2", "data": {"result": "done"}}),
    )
    later = [{"requested_event_id": "r-1:3", "ended_event_id": "r-1:4", "status": status}]
    activation = Activation(activation_id="a1", tool="shell", call_id="c1", later_calls=later, **fields)
    timeline = build_timeline(events)
    rows = {event_id: row for row in timeline.rows for event_id in row.event_ids}
    hint = Candidate(knowledge_id="k-1", proposition=says, **DROPPED)
    missed = what_followed(activation, [hint], {event.event_id: event for event in events}, rows)
    assert missed is not None
    return missed


def test_a_call_that_does_what_the_hint_says_is_named() -> None:
    """The agent came to it by itself: which call, when, and how it ended."""
    missed = followed("Run `git init` first.", "git init .")
    shown = plain_text(missed.hints[0].shown)
    assert shown.startswith("The agent did what it says without having read it: git init at +0.00 s")
    assert shown.endswith("ok")
    assert next(piece for piece in missed.hints[0].shown if piece.href).href == "r-1:3"


def test_a_failed_call_is_not_called_good() -> None:
    """Doing what a hint says may fail as well, and is told in the tone of a failure."""
    piece = followed("Run `git init` first.", "git init", "failed").hints[0].shown[-1]
    assert (piece.text, piece.tone) == ("failed", "bad")


@pytest.mark.parametrize(
    ("says", "told"),
    [
        ("Set `user.name` first.", "No later call of the same tool holds what it says."),
        ("Be careful.", "It names nothing new to look for in the calls that followed."),
        ("Repeat `git commit`.", "It names nothing new to look for in the calls that followed."),
        ("Use `git`.", "It names nothing new to look for in the calls that followed."),
    ],
)
def test_what_shows_nothing_is_not_taken_for_something(says: str, told: str) -> None:
    """Another command, no command, and words that the failed call had already are no sign of anything."""
    assert plain_text(followed(says, "git init").hints[0].shown) == told


@pytest.mark.parametrize(
    ("fields", "verdict"),
    [
        ({"resolved": True}, "The situation was overcome without what was dropped."),
        ({"resolved": False}, "The situation came back: what was dropped may have been missed."),
        ({}, "The 1 later call of shell does not tell whether the situation was overcome."),
    ],
)
def test_the_verdict_says_no_more_than_the_fold_knows(fields: dict[str, Any], verdict: str) -> None:
    """Overcome, came back, or not known: each in its words."""
    assert followed("x", "git init", **fields).verdict == verdict


def test_without_a_later_call_nothing_is_concluded() -> None:
    """A tool that was not called again shows nothing; hints that went in are named, as they may be the cause."""
    activation = Activation(activation_id="a1", tool="shell", later_calls=[])
    hints = [Candidate(knowledge_id="k-1", **DROPPED), Candidate(knowledge_id="k-2", offered_ns=1, injected_ns=3)]
    missed = what_followed(activation, hints, {}, {})
    assert missed is not None
    assert missed.verdict == "shell was not called again in this run: nothing shows what it would have changed."
    assert missed.instead == ("k-2",)
    assert [one.knowledge_id for one in missed.hints] == ["k-1"]
    assert what_followed(activation, hints[1:], {}, {}) is None


def test_each_stage_has_its_time() -> None:
    """The stages a candidate reached are told with their offsets from the start, in the order of the chain."""
    stamps = {"offered_ns": 2 * 10**9, "selected_ns": 3 * 10**9, "injected_ns": 4 * 10**9, "used_ns": 5 * 10**9}
    line = describe_candidate(Candidate(knowledge_id="k-1", **stamps), {}, 10**9)
    assert line.times == ("offered +1.00 s", "selected +2.00 s", "injected +3.00 s", "used +4.00 s")
    assert describe_candidate(Candidate(knowledge_id="k-1", hold_reason="gate"), {}, 0).times == ()


@pytest.mark.parametrize(
    ("waited", "searched", "around"), [(18, 6.5, 11.5), (5, 6, None), (None, 6, None), (5, None, None)]
)
def test_a_duration_is_split_only_where_both_parts_are_known(
    waited: float | None, searched: float | None, around: float | None
) -> None:
    """The wait is the search and what is around it; clocks that contradict each other give no split."""
    activation = Activation(activation_id="a1", duration_ms=waited, search_ms=searched)
    assert explain(activation, [], build_timeline([]), {}).around_ms == around


@pytest.mark.django_db
def test_the_panel_leads_on() -> None:
    """Rank, fingerprint, key, times and split stand there; the block's message and what followed are links away."""
    project, client = make_project("alpha"), Client()
    client.force_login(make_person("alice", project))
    send(project, typical_run("r-42"))
    page = client.get(reverse("why", args=["alpha", "r-42", "r-42:a1"])).content.decode()
    text = " ".join(re.sub(r"<[^>]*>", " ", page).split())
    for told in (
        "Fingerprint fatal: not a git repository",
        "Situation key 5c1f5c1f",
        "18 ms waited = 6.5 ms in the search + 12 ms around it",
        "would it have helped? offered +1.43 s · dropped +1.45 s",
        "Would it have helped? what the record shows; nobody can know",
        "What followed may be owed to what did go in: k-17 .",
    ):
        assert told in text, told
    assert 'title="rank 4 of what was found"' in page
    sent = reverse("request-detail", args=["alpha", "r-42", "r-42:14"])
    assert f'href="{sent}?from=0#message-5"' in page
    whole = client.get(f"{sent}?from=0").content.decode()
    assert 'id="message-5" class="block' in whole
    assert 'id="would-help"' in page
    skipped = client.get(reverse("why", args=["alpha", "r-42", "r-42:a3"])).content.decode()
    assert "would-help" not in skipped
