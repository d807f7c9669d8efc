"""The fold: same events, same chain, whatever order they come in; and no event it cannot take."""

import random
from dataclasses import asdict, replace
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from contract.events import EVENT_TYPES
from ingest.journal import JournalEvent
from knowledge.chain_facts import ActivationFacts, CandidateFacts, RunChain
from knowledge.event_data import INT32_MAX
from knowledge.fold import fold_run
from tests.knowledge.streams import RECEIVED, arrive, recorded, recorded_names, run_of

FAILED = ("tool.failed", {"tool": "shell", "call_id": "c1", "data": {"error_class": "exit", "detail": "no repo"}})
HINT = {"activation_id": "r-1:a1", "hint_id": "r-1:a1:h1", "knowledge_id": "k-1"}
OFFER = (
    "hint.offered",
    {
        **HINT,
        "event_id": "r-1:a1:h1",
        "seq": None,
        "data": {
            "trigger": "tool.failed",
            "revision": 2,
            "rank": 1,
            "proposition": "Run `git init`",
            "algorithm_version": "v2",
        },
    },
)


def asked(**data: Any) -> tuple[str, dict[str, Any]]:
    fields = {"activation_id": "r-1:a1", "caused_by": "r-1:1", "data": {"trigger": "tool.failed", **data}}
    return "activation.requested", fields


def answered(**data: Any) -> tuple[str, dict[str, Any]]:
    base = {"trigger": "tool.failed", "result": "success"}
    return "activation.completed", {"activation_id": "r-1:a1", "caused_by": "r-1:2", "data": {**base, **data}}


def delivery(stage: str, **data: Any) -> tuple[str, dict[str, Any]]:
    return "hint.delivery", {**HINT, "data": {"stage": stage, **data}}


def only(chain: RunChain) -> tuple[ActivationFacts, CandidateFacts]:
    (activation,), (candidate,) = chain.activations, chain.candidates
    return activation, candidate


# ---- order ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", recorded_names())
@given(seed=st.integers(0, 2**32), share=st.floats(0, 1), doubled=st.integers(0, 10))
@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_arrival_order_and_duplicates_never_matter(name: str, seed: int, share: float, doubled: int) -> None:
    """Any part of a real run, in any order and with repeats, folds to the same chain."""
    chance = random.Random(seed)
    whole = recorded(name)
    part = chance.sample(whole, round(share * len(whole)))
    expected = fold_run(arrive(sorted(part, key=lambda event: event.event_id)))
    again = [*part, *chance.choices(part, k=doubled)] if part else []
    chance.shuffle(again)
    assert fold_run(arrive(again)) == expected


@pytest.mark.parametrize("name", recorded_names())
def test_reading_order_is_one_of_the_orders(name: str) -> None:
    """The journal's own order gives the same chain as the reverse."""
    events = recorded(name)
    assert fold_run(events) == fold_run(arrive(reversed(events)))


def test_first_copy_wins() -> None:
    """Of two different copies of an event the one that arrived first counts, wherever it stands in the list."""
    first, second = run_of(("run.started", {"data": {"task": "one"}}), ("run.started", {"data": {"task": "two"}}))
    second = replace(second, event_id=first.event_id)
    assert fold_run([first, second]).run.task == fold_run([second, first]).run.task == "one"


def test_no_events() -> None:
    """A run of which nothing is known is running and empty."""
    chain = fold_run([])
    assert (chain.run.status, chain.run.n_events, chain.activations) == ("running", 0, ())


# ---- hostile events --------------------------------------------------------------------------------------------

WORDS = st.sampled_from(["", "a1", "a2", "h1", "k1", "k2", "e1", "e2", "tool.failed", "shell", "dropped", "injected"])
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=5) | WORDS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=8,
)
KEYS = sorted({name for known in EVENT_TYPES.values() for name in known.fields})
DATA = st.dictionaries(st.sampled_from([*KEYS, "duplicate_of"]), JSON, max_size=6)
ENTRY = st.dictionaries(
    st.sampled_from(["knowledge_id", "rank", "proposition", "hold_reason", "scores", "tokens"]), JSON
)
MAYBE = st.none() | WORDS
INT64 = st.integers(-(2**63), 2**63 - 1)
EVENT = st.builds(
    JournalEvent,
    event_id=st.sampled_from([f"e{number}" for number in range(12)]),
    run_id=st.just("r-1"),
    type=st.sampled_from([*EVENT_TYPES, "weather.changed", ""]),
    caused_by=st.none() | st.sampled_from([f"e{number}" for number in range(12)]),
    task_id=MAYBE, actor_id=MAYBE, parent_run_id=MAYBE, team_root=MAYBE, call_id=MAYBE, operation_id=MAYBE,
    activation_id=MAYBE, hint_id=MAYBE, knowledge_id=MAYBE, tool=MAYBE, mcp_server=MAYBE,
    arrival=st.integers(1, 2**62),
    seq=st.none() | INT64,
    turn=st.none() | INT64,
    occurred_ns=INT64,
    ended_ns=st.none() | INT64,
    received_at=st.just(RECEIVED),
    repairs=st.just(()),
    data=st.builds(lambda data, found: {**data, "candidates": found}, DATA, JSON | st.lists(ENTRY | JSON, max_size=3)),
)  # fmt: skip


@given(st.lists(EVENT, max_size=14, unique_by=lambda event: event.event_id), st.randoms(use_true_random=False))
@settings(max_examples=80, deadline=None)
def test_no_event_breaks_the_fold(events: list[JournalEvent], chance: random.Random) -> None:
    """Wrong types, missing parents, cycles of causes, ends before starts: always a chain that fits its tables."""
    chain = fold_run(arrive(events))
    shuffled = list(events)
    chance.shuffle(shuffled)
    assert fold_run(arrive(shuffled)) == chain
    for row in (chain.run, *chain.activations, *chain.candidates):
        for name, value in asdict(row).items():
            if isinstance(value, int) and not isinstance(value, bool):
                wide = name.endswith(("_ns", "tokens")) or name == "turn"
                assert abs(value) <= (2**63 if wide else INT32_MAX), name
            if name in ("activation_id", "knowledge_id", "hint_id"):
                assert value is None or len(value) <= 200
    run = chain.run
    assert run.n_activations + run.n_skipped <= len(chain.activations)
    assert run.n_injected == sum(one.injected_ns is not None for one in chain.candidates)
    assert run.n_offered == sum(one.offered_ns is not None for one in chain.candidates)


def test_large_numbers_and_long_ids_fit() -> None:
    """What does not fit a column is left out or cut, never an error."""
    long_id = "k" * 500
    candidates = [{"knowledge_id": long_id, "rank": 2**40, "tokens": -1, "scores": {"tier": 10**300}}, "no object"]
    query = {"activation_id": "r-1:a1", "data": {"trigger": "tool.failed", "candidates": candidates}}
    activation, candidate = only(fold_run(run_of(asked(), ("hint.query", query))))
    assert (candidate.knowledge_id, candidate.rank, candidate.tokens) == (long_id[:200], None, None)
    assert activation.n_retrieved == 1


# ---- stages: four facts from four sources ------------------------------------------------------------------------


def test_offered_is_not_injected() -> None:
    """An offer alone is an offer, whatever the runtime says of its own counts."""
    chain = fold_run(run_of(FAILED, asked(), OFFER, answered(n_selected=1, tokens=90)))
    activation, candidate = only(chain)
    assert (candidate.offered_ns is not None, candidate.selected_ns, candidate.injected_ns) == (True, None, None)
    assert (chain.run.n_offered, chain.run.n_injected, chain.run.hint_tokens, activation.tokens) == (1, 0, 0, 0)


def test_delivery_without_offer() -> None:
    """An injection whose offer never arrived is an injection and no offer."""
    chain = fold_run(run_of(FAILED, asked(), answered(tokens=90), delivery("injected", tokens=40)))
    assert (chain.run.n_offered, chain.run.n_injected, chain.run.hint_tokens) == (0, 1, 90)


def test_injected_is_not_used() -> None:
    """An injected hint in a run that goes on is neither used nor ignored, and has no outcome."""
    _, candidate = only(fold_run(run_of(FAILED, asked(), OFFER, answered(), delivery("injected"))))
    assert (candidate.used_ns, candidate.ignored_ns, candidate.outcome, candidate.usage_source) == (None, None, "", "")


def test_dropped_keeps_earlier_stages() -> None:
    """A hint chosen and dropped later keeps both stamps, and its reason with numbers."""
    numbers = {"needed": 212, "left": 188, "limit": 400}
    dropped = delivery("dropped", drop_reason="activation_tokens", **numbers)
    chain = fold_run(run_of(FAILED, asked(), OFFER, answered(), delivery("selected"), dropped))
    _, candidate = only(chain)
    assert candidate.selected_ns and candidate.dropped_ns
    assert (candidate.drop_reason, candidate.drop_detail) == ("activation_tokens", numbers)
    assert (chain.run.n_dropped, chain.run.n_injected) == (1, 0)


def test_held_candidate_is_listed() -> None:
    """What Observation held back is a candidate with its reason and was never offered."""
    held = {"knowledge_id": "k-2", "rank": 2, "proposition": "x", "hold_reason": "near_duplicate"}
    query = {"activation_id": "r-1:a1", "seq": None, "data": {"n_retrieved": 7, "duration_ms": 4, "candidates": [held]}}
    chain = fold_run(run_of(FAILED, asked(), OFFER, ("hint.query", query), answered(n_retrieved=5)))
    assert [(one.knowledge_id, one.hold_reason, one.offered_ns is None) for one in chain.candidates] == [
        ("k-1", "", False),
        ("k-2", "near_duplicate", True),
    ]
    assert (chain.activations[0].n_retrieved, chain.activations[0].search_ms) == (7, 4.0)


def test_delivery_finds_its_activation_by_hint() -> None:
    """A delivery that names only the hint belongs where the offer stands; without the offer it is listed apart."""
    bare = ("hint.delivery", {"hint_id": "r-1:a1:h1", "data": {"stage": "injected"}})
    _, candidate = only(fold_run(run_of(asked(), OFFER, bare)))
    assert (candidate.activation_id, candidate.knowledge_id) == ("r-1:a1", "k-1")
    chain = fold_run(run_of(bare))
    activation, orphan = only(chain)
    assert (activation.activation_id, orphan.knowledge_id) == ("", "? r-1:a1:h1")
    assert (chain.run.n_activations, chain.run.n_injected) == (0, 1)


# ---- activations ---------------------------------------------------------------------------------------------------


def test_links_and_place_of_the_block() -> None:
    """The chain leads from the failed call over the search to the request that carried the block."""
    request = ("model.requested", {"turn": 2, "data": {"n_messages": 6}})
    injected = delivery("injected", position=5, request_event_id="r-1:4", message_hash="abc")
    chain = fold_run(
        run_of(FAILED, asked(query="q", budget={"run_tokens": 9}), answered(block="<b>"), request, injected)
    )
    activation, candidate = only(chain)
    assert (activation.source_event_id, activation.tool, activation.call_id) == ("r-1:1", "shell", "c1")
    assert (activation.request_event_id, activation.position, activation.block) == ("r-1:4", 5, "<b>")
    assert (candidate.request_event_id, candidate.position, candidate.message_hash) == ("r-1:4", 5, "abc")
    assert (activation.query, activation.budget) == ("q", {"run_tokens": 9})


def test_source_is_looked_up_behind_the_request() -> None:
    """An answer names what asked; the trigger is what that was caused by, once it has arrived."""
    late = fold_run(run_of(FAILED, asked(), answered()))
    early = fold_run([event for event in run_of(FAILED, asked(), answered()) if event.type != "activation.requested"])
    assert late.activations[0].source_event_id == "r-1:1"
    assert early.activations[0].source_event_id is None


def test_skipped_is_counted_apart() -> None:
    """A skipped activation is no search; one that was deferred and then made is one."""
    skipped = {"trigger": "tool.failed", "skip_reason": "duplicate_situation", "same_as": "r-1:a0"}
    deferred = {"activation_id": "r-1:a1", "data": {"trigger": "tool.failed", "limit": 2}}
    chain = fold_run(
        run_of(
            ("activation.deferred", deferred),
            ("activation.skipped", {"activation_id": "r-1:a2", "data": skipped}),
            asked(),
            answered(result="empty"),
        )
    )
    made, left_out = chain.activations
    assert (made.result, made.deferred_ns, made.requested_ns) == ("empty", 1_000_000, 3_000_000)
    assert (left_out.result, left_out.skip_reason, left_out.skip_detail) == (
        "skipped", "duplicate_situation", {"same_as": "r-1:a0"},
    )  # fmt: skip
    assert (chain.run.n_activations, chain.run.n_skipped) == (1, 1)


def test_a_deferred_activation_is_one_with_its_deferral() -> None:
    """Put off at one boundary and searched, or skipped, at the next: one activation that says both."""
    put_off = ("activation.deferred", {"activation_id": "r-1:a1", "caused_by": "r-1:1", "turn": 1})
    put_off[1]["data"] = {"trigger": "tool.failed", "limit": 2}
    asked_then = ("activation.requested", {**asked()[1], "turn": 2})
    chain = fold_run(run_of(FAILED, put_off, asked_then, answered(result="empty", duration_ms=3)))
    (made,) = chain.activations
    assert (made.deferred_ns, made.deferred_limit, made.requested_ns, made.turn) == (2_000_000, 2, 3_000_000, 2)
    assert (made.result, made.duration_ms, made.source_event_id) == ("empty", 3.0, "r-1:1")
    assert (chain.run.n_activations, chain.run.n_skipped) == (1, 0)
    skip = {"activation_id": "r-1:a1", "data": {"trigger": "tool.failed", "skip_reason": "turn_cap", "limit": 2}}
    left_out = fold_run(run_of(FAILED, put_off, ("activation.skipped", skip)))
    (waited,) = left_out.activations
    assert (waited.deferred_ns, waited.result, waited.skip_reason) == (2_000_000, "skipped", "turn_cap")
    assert (left_out.run.n_activations, left_out.run.n_skipped) == (0, 1)
    (open_,) = fold_run(run_of(FAILED, put_off)).activations
    assert (open_.result, open_.deferred_limit, open_.requested_ns) == ("", 2, None)


# ---- holdout and shadow --------------------------------------------------------------------------------------------


def test_withheld_is_offered_and_dropped_never_selected_nor_injected() -> None:
    """The draw after selection keeps a hint back: the activation says which draw, and what it would have taken."""
    draw = {"experiment": "spring", "arm": "withheld", "share": 0.2, "tokens": 212}
    drop = delivery("dropped", drop_reason="holdout", needed=200, probability=0.2)
    end = ("run.completed", {"data": {"answer": "done"}})
    chain = fold_run(run_of(FAILED, asked(), OFFER, answered(holdout=draw, n_offered=1, n_selected=0), drop, end))
    activation, candidate = only(chain)
    assert (activation.experiment, activation.arm, activation.share) == ("spring", "withheld", 0.2)
    assert (activation.holdout_tokens, activation.tokens, activation.shadow_tokens) == (212, 0, None)
    counts = (activation.n_offered, activation.n_selected, activation.n_injected, activation.n_dropped)
    assert counts == (1, 0, 0, 1)
    assert (candidate.drop_reason, candidate.drop_detail) == ("holdout", {"needed": 200, "probability": 0.2})
    assert (candidate.injected_ns, candidate.used_ns, candidate.ignored_ns, candidate.outcome) == (None, None, None, "")
    assert (chain.run.n_offered, chain.run.n_injected, chain.run.hint_tokens) == (1, 0, 0)


def test_the_offered_arm_shows_its_draw_too() -> None:
    """Both arms can be told from an activation for which nothing was drawn."""
    draw = {"arm": "offered", "share": 0.5, "tokens": 90}
    told = answered(holdout=draw, tokens=90)
    chain = fold_run(run_of(FAILED, asked(), OFFER, told, delivery("selected"), delivery("injected", tokens=90)))
    activation, _ = only(chain)
    assert (activation.arm, activation.experiment, activation.share, activation.holdout_tokens) == (
        "offered", "", 0.5, 90,
    )  # fmt: skip
    counts = (activation.n_offered, activation.n_selected, activation.n_injected, activation.n_dropped)
    assert (counts, activation.tokens) == ((1, 1, 1, 0), 90)
    (undrawn,) = fold_run(run_of(FAILED, asked(), answered())).activations
    assert (undrawn.arm, undrawn.share, undrawn.holdout_tokens) == ("", None, None)


def test_shadow_says_what_would_have_gone_in() -> None:
    """In shadow mode nothing is injected and the size of the block that was kept out is known."""
    drop = delivery("dropped", drop_reason="shadow", needed=88)
    activation, candidate = only(fold_run(run_of(FAILED, asked(), OFFER, answered(shadow_tokens=96), drop)))
    assert (activation.shadow_tokens, activation.tokens, activation.n_injected) == (96, 0, 0)
    assert (candidate.drop_reason, activation.n_selected, activation.n_dropped) == ("shadow", 0, 1)


def test_the_version_is_known_without_observations_report() -> None:
    """What the runtime was answered by stands in when Observation's own report was lost, and never over it."""
    (alone,) = fold_run(run_of(FAILED, asked(), answered(algorithm_version="v9"))).activations
    assert alone.algorithm_version == "v9"


def test_a_trigger_nobody_knew_folds_like_any_other() -> None:
    """Its search, its offer and its injection are there, and no failure is judged where none was."""
    named = {"trigger": "entity.appeared"}
    found = ("tool.completed", {"tool": "read", "call_id": "c1", "data": {"result": "class Order"}})
    activation, candidate = only(
        fold_run(run_of(found, asked(**named), OFFER, answered(**named), delivery("selected"), delivery("injected")))
    )
    assert (activation.trigger, activation.result, activation.tool) == ("entity.appeared", "success", "read")
    assert (activation.n_offered, activation.n_selected, activation.n_injected) == (1, 1, 1)
    assert (activation.resolved, candidate.outcome) == (None, "")


def test_priming_tokens_stand_apart() -> None:
    """Priming counts as a search and spends a budget of its own."""
    data = {"trigger": "task.priming", "result": "success", "tokens": 70}
    chain = fold_run(
        run_of(("activation.completed", {"activation_id": "r-1:a1", "data": data}), delivery("injected", tokens=60))
    )
    assert (chain.run.n_activations, chain.run.priming_tokens, chain.run.hint_tokens) == (1, 70, 0)


def test_answer_before_request_has_no_duration() -> None:
    """An end before its start gives no negative time."""
    events = run_of(answered(), asked())
    assert fold_run(events).activations[0].duration_ms is None


# ---- the run ---------------------------------------------------------------------------------------------------------


def test_end_before_start() -> None:
    """The end may arrive alone: the run has ended, and began no later than the earliest thing known of it."""
    end = ("run.failed", {"data": {"error": "model: 401", "n_turns": 3}})
    chain = fold_run(run_of(("turn.started", {"turn": 1}), end))
    assert (chain.run.status, chain.run.status_reason) == ("failed", "model: 401")
    assert (chain.run.started_ns, chain.run.ended_ns) == (1_000_000, 2_000_000)


def test_calls_are_counted_once() -> None:
    """Request and end are one call; an id used again is another; a copied reply is a call and no failure of its own."""
    call = {"tool": "shell", "call_id": "c1"}
    copied = {"tool": "shell", "call_id": "c2", "data": {"duplicate_of": "c1"}}
    chain = fold_run(
        run_of(
            ("tool.requested", call),
            ("tool.failed", call),
            ("tool.requested", {**copied, "data": {}}),
            ("tool.failed", copied),
            ("tool.requested", call),
            ("tool.completed", {**call, "mcp_server": "git"}),
            ("tool.completed", {"tool": "foreign"}),
        )
    )
    assert (chain.run.n_tool_calls, chain.run.n_tools_failed) == (4, 1)
    assert (chain.run.tools, chain.run.mcp_servers) == (("foreign", "shell"), ("git",))


def test_operation_is_the_real_outcome() -> None:
    """A call that answered with an operation id has failed when its operation has."""
    call = {"tool": "build", "call_id": "c1", "operation_id": "op-1"}
    assert fold_run(run_of(("tool.completed", call))).run.n_tools_failed == 0
    assert fold_run(run_of(("tool.completed", call), ("operation.failed", call))).run.n_tools_failed == 1


def test_an_operation_stopped_with_the_run_is_no_failed_call() -> None:
    """Cancelled because the run ended says nothing about the call; a time limit does."""
    call = {"tool": "build", "call_id": "c1", "operation_id": "op-1"}
    for status, n_failed in (("cancelled", 0), ("timed_out", 1), ("failed", 1)):
        ended = ("operation.failed", {**call, "data": {"status": status}})
        chain = fold_run(run_of(("tool.requested", call), ("tool.completed", call), ended))
        assert (chain.run.n_tool_calls, chain.run.n_tools_failed) == (1, n_failed)


def test_tokens_are_counted_on_model_events_only() -> None:
    """Reported tokens count once; without any the requests' estimates stand in."""
    request = ("model.requested", {"turn": 1, "data": {"n_messages": 2, "tokens": 50}})
    reply = ("model.completed", {"turn": 1, "data": {"input_tokens": 40, "output_tokens": 2}})
    span = ("span", {"data": {"name": "agent", "input_tokens": 40, "output_tokens": 2}})
    assert fold_run(run_of(request, reply, span)).run.model_tokens == 42
    assert fold_run(run_of(request)).run.model_tokens == 50
    assert fold_run(run_of(request, reply)).run.n_turns == 1
