"""What the envelope of a run must make of its calls, its asks and its limits, from what happened alone.

(Seeds 000 and 003.)
"""

import json
from collections import Counter
from collections.abc import Sequence
from typing import TYPE_CHECKING

from contract.text import estimate_tokens
from kernel.messages import (
    CancelRequested,
    DelegateFinished,
    Event,
    Finish,
    ModelFailed,
    ModelReplied,
    Observation,
    OperationFinished,
    QuestionAnswered,
    RunPrepared,
    RunSpec,
    ToolFinished,
)

if TYPE_CHECKING:
    from tests.kernel.machine_calls import View

EXECUTED = ("ok", "failed", "timed_out")
AT_LIMIT = {"tool_rounds": "step_limit_exceeded", "time": "time_limit_exceeded", "tokens": "token_limit_exceeded"}
ENDED = ("ask", "forged")
OWN_FAILURES = ("protocol_violation",)  # failures of a request that name their own code


class Envelope:
    """The budgets of one run as they were spent; `limit` is the one that leaves only the last request."""

    def __init__(self, spec: RunSpec, granted: bool, offered: Sequence[str], reached: Counter[str]) -> None:
        self.spec, self.granted, self.offered, self.reached = spec, granted, offered, reached
        self.n_calls = self.tokens = self.n_receipts = self.started_ns = 0
        self.limit = ""
        self.said: str | None = None  # the text of the last reply, None without one
        self.dropped = 0
        self.seen_at_thinking = 0

    def judge(self, views: Sequence["View"], turn: int) -> None:
        """Say of each call of a reply what must become of it: nothing stands against one without a verdict."""
        over = ""
        for view in views:
            view.verdict = over or self._verdict(view, views, turn)
            if view.verdict in ENDED:
                over = "escalation_pending" if view.verdict == "ask" else "unjudged"
            self.reached[f"judged: {view.verdict}"] += 1

    def _verdict(self, view: "View", views: Sequence["View"], turn: int) -> str:
        limits, name = self.spec.limits, view.call.name
        if view.shape.ask:
            return "ask" if self.granted else "forged"
        if any(other.digest == view.digest and other.seq < view.seq for other in views):
            return "copy"
        if (turn - 1 if view.step is None else view.step) >= limits.max_turns:
            return "step_limit_exceeded"
        if self.n_calls == (limits.max_tool_calls or limits.max_turns):
            return "tool_call_limit_exceeded"
        self.n_calls += 1
        if name not in self.offered:
            return "tool_unavailable"
        if view.shape.malformed:
            return "invalid_arguments"
        return "policy_blocked" if name in self.spec.blocked_tools else ""

    def take(self, observation: Observation) -> None:
        """Count what an observation spends and leaves."""
        match observation:
            case RunPrepared():
                self.started_ns = observation.at_ns
            case ModelReplied():
                self.tokens += (observation.input_tokens or observation.request_tokens) + (
                    observation.output_tokens or estimate_tokens(observation.text)
                )
                self.said, self.dropped = observation.text, observation.n_dropped
            case ModelFailed():
                self.said = None
            case ToolFinished():
                self.n_receipts += observation.status in EXECUTED
            case DelegateFinished():
                self.n_receipts += observation.started
            case QuestionAnswered():
                self.n_receipts += not observation.timed_out
            case OperationFinished():
                self.n_receipts += 1

    def spent(self, turn: int, at_ns: int) -> str:
        """Return which limit leaves no further round after `turn` rounds, empty for none."""
        limits = self.spec.limits
        if self.limit or turn >= limits.max_turns:
            return self.limit or "tool_rounds"
        if limits.run_ms and at_ns >= self.started_ns + limits.run_ms * 1_000_000:
            return "time"
        return "tokens" if limits.run_tokens and self.tokens >= limits.run_tokens else ""

    # ---- what must hold ----------------------------------------------------------------------------------

    def check_request_is_the_one_due(self, finale: bool, turn: int, at_ns: int) -> None:
        """The request after a limit is the last one and says so; no other does."""
        assert not self.limit, "a request after the last one"
        self.limit = self.spent(turn, at_ns)
        assert finale == bool(self.limit), f"the limit is {self.limit!r} and finale is {finale}"
        if finale:
            assert self.spec.limits.at_limit == "finale", "a run that is to fail at its limit asks once more"
            self.reached[f"finale: {self.limit}"] += 1
            self.seen_at_thinking = self.n_receipts

    def check_end(self, end: Finish, last: Observation, views: Sequence["View"], turn: int, sent: list[Event]) -> None:
        """A run ends as what happened says: its terminal event tells it, and one failure of a turn at most."""
        status, failure = self._expected_end(last, views, turn)
        assert end.status == status, f"the run is {end.status}, not {status}"
        told = [json.loads(event.data) for event in sent if event.type == "turn.failed"]
        assert [(one["code"], one["source"]) for one in told] == ([failure] if failure else []), f"{told}, {failure}"
        data = json.loads(sent[-1].data)
        assert ("limit" in data) == (status == "limit_reached"), "a limit is told, or is not"
        self.check_thinking(sent)
        if status == "limit_reached":
            assert data["limit"] == self.limit and data["answer"] == end.answer
            self.check_last_answer(end.answer)
        if status == "escalated":
            self.check_ask(data, views)

    def _expected_end(
        self, last: Observation, views: Sequence["View"], turn: int
    ) -> tuple[str, tuple[str, str] | None]:
        verdicts = [view.verdict for view in views]
        if isinstance(last, CancelRequested):
            return "cancelled", None
        if isinstance(last, RunPrepared) and last.error:
            return "failed", None
        if isinstance(last, ModelReplied | ModelFailed) and self.limit:
            return "limit_reached", None
        if isinstance(last, ModelFailed):
            code = last.error_class if last.error_class in OWN_FAILURES else "model_failed"
            return "failed", (code, last.source)
        if isinstance(last, ModelReplied) and last.failed:
            return "failed", ("declared_failure", "runtime")
        if isinstance(last, ModelReplied) and not last.calls:
            return "completed", None
        if "forged" in verdicts:
            return "failed", ("tool_unavailable", "envelope")
        if "ask" in verdicts:
            return "escalated", None
        limit = self.spent(turn, last.at_ns)
        assert limit and self.spec.limits.at_limit == "fail", f"the run ended after {last}, for no reason"
        self.reached[f"failed at a limit: {limit}"] += 1
        return "failed", (AT_LIMIT[limit], "runtime")

    def check_thinking(self, sent: Sequence[Event]) -> None:
        """The way into the finale is told exactly once, and only then, with how many results there are."""
        thinking = [json.loads(event.data) for event in sent if event.type == "thinking"]
        told = [(one["kind"], one["limit"], one["n_receipts"]) for one in thinking]
        last_one = bool(self.limit) and self.spec.limits.at_limit == "finale"
        assert told == ([("safe_completion", self.limit, self.seen_at_thinking)] if last_one else []), f"{told}"
        requests = [json.loads(event.data) for event in sent if event.type == "model.requested"]
        finales = [one.get("finale", False) for one in requests]
        assert True not in finales[:-1] and (last_one or True not in finales), "another request says it is the last"
        assert all(one["n_tools"] == 0 for one in requests if one.get("finale")), "the last request offers tools"

    def check_last_answer(self, answer: str) -> None:
        """The answer is the model's, or a text that tells of every result there is."""
        if self.said is not None and self.said.strip():
            rest = answer.removeprefix(self.said)
            assert answer.startswith(self.said) and bool(rest) == bool(self.dropped), f"the answer is {answer!r}"
            assert not self.dropped or str(self.dropped) in rest
            self.reached["finale: answered"] += 1
            return
        lines = [line for line in answer.splitlines() if line.startswith("- ")]
        earlier = [line for line in lines if line.endswith(" earlier results")]
        n_told = len(lines) - len(earlier) + sum(int(line.split()[1]) for line in earlier)
        n_results = self.n_receipts
        assert n_told == n_results, f"{n_told} results are told of {n_results}"
        assert ("No call was executed" in answer) == (not n_results)
        self.reached["finale: receipts"] += bool(n_results)
        self.reached["finale: no answer"] += 1

    def check_ask(self, data: dict[str, object], views: Sequence["View"]) -> None:
        """The first ask counts: its reason, its call, and the number of calls after it."""
        place = [view.verdict for view in views].index("ask")
        assert data["reason"] == views[place].shape.arg and data["call_id"] == views[place].call.call_id
        assert (data["reviewer"], data["n_denied"]) == (self.spec.reviewer, len(views) - place - 1)
        assert "error" not in data, "an ask has no error"
        where = (
            "alone" if len(views) == 1 else "first" if not place else "last" if place == len(views) - 1 else "middle"
        )
        self.reached[f"ask: {where}"] += 1
