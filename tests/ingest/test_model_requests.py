"""Requests told as what each adds: splitting and joining are inverse, and gaps are named."""

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.model_requests import MessageBody, follow_requests, split_messages
from ingest.repair import Repairs


def split(data: dict[str, Any]) -> tuple[dict[str, Any], tuple[MessageBody, ...]]:
    return split_messages(data, 1_000, Repairs())


@given(st.lists(st.tuples(st.integers(0, 6), st.lists(st.text(max_size=3), max_size=4)), min_size=1, max_size=6))
def test_any_chain_is_rebuilt(steps: list[tuple[int, list[str]]]) -> None:
    """Whatever is kept from the start of the request before, the rebuilt one is what was sent."""
    requests: dict[str, dict[str, Any]] = {}
    bodies: dict[str, str] = {}
    sent: list[str] = []
    for number, (keep, new) in enumerate(steps):
        keep = min(keep, len(sent))
        sent = sent[:keep] + new
        told = {"n_kept": keep, "new_messages": [{"role": "user", "text": text} for text in new]}
        if number:
            told["follows"] = str(number - 1)
        requests[str(number)], messages = split(told)
        bodies |= {message.hash: orjson.loads(message.body or "")["text"] for message in messages}
    references, missing = follow_requests(requests, str(len(steps) - 1))
    assert [bodies[reference["hash"]] for reference in references] == sent
    assert missing == ()


def test_reference_keeps_what_the_page_needs() -> None:
    """The text leaves the journal; hash, role, origin, tokens and the sender's own hash stay."""
    entry = {
        "role": "tool",
        "text": "out",
        "origin": "tool",
        "call_id": "c",
        "tokens": 3,
        "hash": "theirs",
        "calls": None,
    }
    told, (body,) = split({"n_messages": 1, "new_messages": [entry]})
    assert orjson.loads(body.body or "") == {"role": "tool", "text": "out", "origin": "tool", "call_id": "c"}
    expected = {"hash": body.hash, "role": "tool", "origin": "tool", "tokens": 3, "call_id": "c", "sent_hash": "theirs"}
    assert told == {"n_messages": 1, "new_messages": [expected]}
    named = {"new_messages": [{"hash": body.hash}]}
    assert split(named) == (named, (MessageBody(body.hash, None),))


def test_cycle_and_gap_are_named() -> None:
    """A chain that bites its tail or lacks a link ends there."""
    cycle = {"a": {"follows": "b", "n_kept": 1}, "b": {"follows": "a", "n_kept": 1}}
    assert follow_requests(cycle, "a") == ([], ("a",))
    new = [{"hash": "h"}]
    assert follow_requests({"a": {"follows": "lost", "n_kept": 2, "new_messages": new}}, "a") == (
        [{"hash": "h", "is_new": True}],
        ("lost",),
    )


@pytest.mark.parametrize(
    "odd", [{"n_kept": "2"}, {"n_kept": [1]}, {"new_messages": "text"}, {"new_messages": [1, None, {"hash": 5}]}]
)
def test_data_of_another_shape_is_no_message(odd: dict[str, Any]) -> None:
    """Types whose schema does not know these fields may hold anything under their names."""
    data = {"n_kept": 0, "new_messages": [{"hash": "h"}], **odd}
    assert all(entry["hash"] == "h" for entry in follow_requests({"a": data}, "a")[0])
