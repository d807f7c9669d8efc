"""Makes one long run as a runtime reports it: model requests, calls, failures, searches for hints, operations."""

import random
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

from tests.factories import Recorder, _candidates, _deliver, _offers

LEXICON = (
    "archive branch cache commit compile connection daemon deploy digest encoder fixture gateway handler index journal "
    "kernel latency migration namespace operation parser queue registry replica schema session shard socket token "
    "transaction upload vector warning worker"
)
WORDS = LEXICON.split()
FAIL_EVERY = 12  # turns
OPERATION_EVERY = 30
START = datetime(2026, 11, 30, 2, tzinfo=UTC)


def long_run(run_id: str, n_events: int, low: int, high: int, seed: str = "timeline 1") -> Iterator[dict[str, Any]]:
    """Yield the `n_events` events of a run that ends; payloads have `low` to `high` characters."""
    draw = random.Random(f"{seed} {n_events}")
    pool = " ".join(draw.choice(WORDS) for _ in range(high))

    def payload() -> str:
        size = draw.randint(low, high)
        start = draw.randrange(len(pool) - size)
        return pool[start : start + size]

    to = Recorder(run_id, START)
    limits = {"tokens_per_run": 160_000, "tokens_per_activation": 400, "hints_per_activation": 2}
    to.add("run.started", {"task": "Move the archive to the new cluster", "agent": "bench", "limits": limits})
    turn, asked, n_told = 0, "", 0
    while n_told < n_events - 1:
        turn += 1
        asked = _turn(to, turn, asked, payload)
        told = to.events[: n_events - 1 - n_told]
        n_told += len(told)
        to.events.clear()
        yield from told
        to.number = max((event["seq"] for event in told if "seq" in event), default=to.number)
    to.add("run.completed", {"answer": "The archive was moved.", "n_turns": turn}, after_ms=300)
    yield to.events[0]


def _turn(to: Recorder, turn: int, follows: str, payload: Any) -> str:
    to.add("turn.started", turn=turn)
    new = [{"role": "tool", "text": payload(), "origin": "tool", "call_id": f"c{turn - 1}"}]
    data = {"n_messages": turn, "n_kept": turn - 1, "new_messages": new, "tokens": 900 + turn % 700}
    asked = to.add("model.requested", data | ({"follows": follows} if follows else {}), turn=turn)
    told = {"duration_ms": 1310, "n_calls": 1, "text": payload()}
    to.add("model.completed", told, after_ms=1310, turn=turn, caused_by=asked)
    ids = {"turn": turn, "call_id": f"c{turn}", "tool": ("shell", "read_file", "search")[turn % 3]}
    to.add("tool.requested", {"arguments": f'{{"text": "{payload()}"}}'}, after_ms=1, **ids)
    if turn % FAIL_EVERY == 0:
        error = f"{payload()}\nerror: the {WORDS[turn % len(WORDS)]} of step {turn} cannot be opened"
        data = {"status": "failed", "error_class": "exit_nonzero", "detail": error, "duration_ms": 41}
        _search(to, turn, to.add("tool.failed", data, after_ms=41, **ids), payload())
    else:
        to.add("tool.completed", {"duration_ms": 63, "result": payload()}, after_ms=63, **ids)
    if turn % OPERATION_EVERY == 0:
        to.add("operation.started", {"detail": payload()}, operation_id=f"o{turn}", **ids)
        to.add("operation.completed", {"duration_ms": 900}, after_ms=900, operation_id=f"o{turn}", **ids)
    to.add("turn.completed", {"n_calls": 1}, turn=turn)
    return asked


def _search(to: Recorder, turn: int, failed: str, block: str) -> None:
    activation = f"{to.run_id}:a{turn}"
    about = {"activation_id": activation, "tool": "shell", "turn": turn, "caused_by": failed, "call_id": f"c{turn}"}
    asked = {"trigger": "tool.failed", "query": block, "budget": {"activation_tokens": 400, "run_tokens": 160_000}}
    to.add("activation.requested", asked, **about)
    _offers(to, activation, failed)
    counts = {"n_retrieved": 4, "n_offered": 3, "n_selected": 1, "n_dropped": 2, "tokens": 96, "duration_ms": 18}
    done = {"trigger": "tool.failed", "result": "success", "block": block, **counts}
    to.add("activation.completed", done, after_ms=18, **about)
    for rank, candidate in enumerate(list(_candidates())[:3], 1):
        stage = {"stage": "selected", "tokens": 96} if rank == 1 else {"stage": "dropped", "drop_reason": "hint_limit"}
        _deliver(to, activation, rank, candidate["knowledge_id"], stage)
