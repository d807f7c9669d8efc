"""Makes a long run whose requests grow as an agent's do: each adds the reply before it, its call and the result."""

from collections.abc import Iterator
from typing import Any

from bench.timeline_rows import long_run

ANSWERED = "The archive was moved as far as step {turn}; what is left is checked next."


def talking_run(run_id: str, n_events: int, low: int, high: int, seed: str = "requests 1") -> Iterator[dict[str, Any]]:
    """Yield the events of `bench.timeline_rows.long_run` with requests of rules, task, replies and results."""
    for event in long_run(run_id, n_events, low, high, seed):
        if event["type"] == "model.requested":
            event = {**event, "data": _grown(event["data"], event["turn"])}
        yield event


def _grown(data: dict[str, Any], turn: int) -> dict[str, Any]:
    (result,) = data["new_messages"]
    if turn == 1:
        task = {"role": "user", "text": "Move the archive to the new cluster", "origin": "task", "tokens": 9}
        new = [{"role": "system", "text": result["text"], "origin": "rules", "tokens": 2_500}, task]
        return {**data, "n_messages": len(new), "n_kept": 0, "new_messages": new}
    arguments = f'{{"text": "{result["text"][:900]}"}}'
    calls = [{"call_id": result["call_id"], "name": "shell", "arguments": arguments}]
    reply = {"role": "assistant", "text": ANSWERED.format(turn=turn), "origin": "model", "tokens": 240, "calls": calls}
    new = [reply, {**result, "tokens": 2_700}]
    return {**data, "n_messages": 2 * turn, "n_kept": 2 * (turn - 1), "new_messages": new}
