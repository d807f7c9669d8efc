"""The places the state machine must have come to, by the names it counts them under: without them it proves little."""

from tests.kernel.machine_draws import PHASES

VERDICTS = (
    "", "copy", "ask", "forged", "escalation_pending", "step_limit_exceeded", "tool_call_limit_exceeded",
    "tool_unavailable", "invalid_arguments", "policy_blocked",
)  # fmt: skip
NEEDED = (
    "deferred", "deferred and searched", "skipped: run_cap", "skipped: tool_cap", "skipped: turn_cap",
    "skipped: duplicate_situation", "skipped: budget_spent", "skipped: final_turn", "skipped: no_diagnostic",
    "skipped: activation_off", "skipped: trigger_off", "skipped: run_ended", "suppressed in a request",
    "suppression lifted", "holdout: offered, share 0.5", "holdout: withheld, share 0.5", "holdout: withheld, share 1.0",
    "dropped: shadow", "dropped: hint_limit", "dropped: run_tokens", "dropped: activation_tokens",
    "dropped: already_issued", "hint injected", "hint dropped", "search: timeout", "search: error", "search: empty",
    "searches of two or more", "operation told by a message", "operation told by a reply", "continue-as-new",
    "ended: completed", "ended: failed", "ended: cancelled", "ended: limit_reached", "StopOperation",
    "second deliveries refused", "strays refused", "approval: nobody", "delegate failed", "model fails: never begun",
    "ended: escalated", "cancelled in the finale", "finale: tool_rounds", "finale: time", "finale: tokens",
    "finale: answered", "finale: no answer", "finale: receipts", "finale: calls dropped", "finale: model fails",
    "failed at a limit: tool_rounds", "failed at a limit: time", "model fails: declared",
    "ask: alone", "ask: first", "ask: middle", "ask: last", "ask: while something waited", "ask: passed on",
    *(f"judged: {verdict}" for verdict in VERDICTS),
    *(f"cancelled while {phase}" for phase in PHASES),
    *(f"operation ended while {phase}" for phase in PHASES if phase != "preparing"),
)  # fmt: skip
