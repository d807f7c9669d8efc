"""A turn of a spoken conversation as the kernel reports it: a cut answer, a receipt, a refusal, a last request."""

from typing import Any

from contract.state_block import GAP, LABELS, date_line
from tests.factories import Recorder

EN = LABELS["en"]
BLOCK = "\n".join(
    (
        EN.header,
        f"{EN.time}2026-11-30 11:12 +08:00 Monday",
        f"{EN.cut}cut, the user heard only “The bu”",
        f"{EN.running}1",
    )
)
UTTERANCE = f"{BLOCK}{GAP}Go on, please"


def call(call_id: str, name: str = "shell", arguments: str = '{"command": "ls"}') -> dict[str, Any]:
    return {"call_id": call_id, "name": name, "arguments": arguments}


def said(role: str, text: str = "", origin: str = "", **more: Any) -> dict[str, Any]:
    """Return a message as a request reports it."""
    return {"role": role, "text": text, **({"origin": origin} if origin else {}), **more}


BEFORE = [
    said("system", "Speak plainly.", "rules", tokens=4),
    said("user", f"{date_line('en', 9, 24, 3)}\nBuild it", "record", tokens=10),
    said("assistant", "The build is done and all is well.", "record", tokens=9),
    said("user", UTTERANCE, "utterance", tokens=30),
]
CALLED = [
    said("assistant", "", "model", calls=[call("c1", "magic_brush"), call("c2")], tokens=8),
    said("tool", "2026-11-30T03:12:00Z", "tool", call_id="c1", tokens=5, status="ok"),
    said("tool", "no such tool", "refusal", call_id="c2", tokens=4, status="denied", code="tool_unavailable"),
]
LAST = said("context", "No tools are left: answer now.", "finale")
RECEIPT = {"utc": "2026-11-30T03:12:00Z", "zoned": "2026-11-30T11:12:00+08:00", "zone": "Asia/Shanghai"}


def requested(
    to: Recorder, new: list[dict[str, Any]], follows: str = "", kept: int = 0, n: int = 0, **data: Any
) -> str:
    """Report a request and its answer; return its event id."""
    told = {"n_kept": kept, "new_messages": new, "n_messages": n or kept + len(new), "tokens": 1, "n_tools": 2}
    event_id = to.add("model.requested", told | ({"follows": follows} if follows else {}) | data, turn=1)
    to.add("model.completed", {"duration_ms": 5, "n_calls": 0, "text": "All is built."}, turn=1, caused_by=event_id)
    return event_id


def spoken_run(run_id: str = "spoken") -> tuple[list[dict[str, Any]], str, str]:
    """Return the events of the turn, and the event ids of its two requests."""
    to = Recorder(run_id)
    to.add("run.started", {"task": "Go on, please", "tools": ["shell", "magic_brush"], "agent": "scripted"})
    to.add("answer.cut", {"prefix": "The bu", "heard": "prefix"})
    first = requested(to, BEFORE)
    brush = {"call_id": "c1", "tool": "magic_brush", "turn": 1}
    to.add("tool.requested", {"arguments": '{"operation": "get_current_time"}'}, **brush)
    to.add("time.receipt", RECEIPT, **brush)
    to.add("tool.completed", {"duration_ms": 2, "result": RECEIPT["utc"]}, **brush)
    refused = {"call_id": "c2", "tool": "shell", "turn": 1}
    to.add("tool.requested", {"arguments": '{"command": "ls"}'}, **refused)
    to.add("tool.blocked", {"status": "denied", "code": "tool_unavailable"}, **refused)
    to.add("thinking", {"kind": "safe_completion", "limit": "tool_rounds", "n_receipts": 1}, turn=1)
    second = requested(to, [*CALLED, LAST], first, 4, finale=True, n_tools=0)
    ended = {"limit": "tool_rounds", "reason": "The limit of 1 tool rounds is reached", "answer": "All is built."}
    to.add("run.limit_reached", ended)
    return to.events, first, second
