"""The vocabularies of the activation chain: the only home of stage, result, skip and drop words.

Every mapping is word -> what it means to a person. The kernel emits these words, the event schemas and the
API accept only these words, the pages and the glossary print these explanations. Triggers alone are open: any name
of the right form is accepted, and those listed here have an explanation. (Seed 001 §3, §5, §10.3, §13.)
"""

import re
from typing import Final

Words = dict[str, str]

TRIGGERS: Final[Words] = {
    "task.priming": "the run started: knowledge is looked up for the task itself",
    "tool.failed": "a tool was executed and ended in an error",
    "mcp.first_call": "an MCP server was used successfully for the first time in the run",
    "agent.search": "the application searched by itself; what set it off was not reported",
}

TRIGGER_LIMIT: Final = 64  # code points
TRIGGER_PATTERN: Final = r"[a-z][a-z0-9_]*(\.[a-z][a-z0-9_]*)+"
_TRIGGER: Final = re.compile(TRIGGER_PATTERN)


def trigger_problem(name: str) -> str | None:
    """Return what is wrong with the name of a trigger, as the end of a sentence about the field, or None."""
    if len(name) <= TRIGGER_LIMIT and _TRIGGER.fullmatch(name):
        return None
    return (
        f"must be the name of a trigger: at most {TRIGGER_LIMIT} characters, two or more lower-case words "
        "(letters, digits, _) joined by dots, such as tool.failed"
    )


# The order is the order of the chain: a hint never reaches a later stage without the earlier ones.
STAGES: Final[Words] = {
    "retrieved": "FindHints considered the item",
    "offered": "Observation offered it as a hint",
    "selected": "the kernel chose it within the budgets",
    "injected": "its text stood in a request sent to the model",
    "used": "there is evidence that the agent acted on it",
}

DELIVERY_STAGES: Final[Words] = {
    "selected": STAGES["selected"],
    "injected": STAGES["injected"],
    "dropped": "it went no further; the drop reason says why",
}

ACTIVATION_RESULTS: Final[Words] = {
    "success": "the search answered with at least one hint",
    "empty": "the search answered: nothing known fits",
    "timeout": "the search did not answer in time; the run went on",
    "error": "the search failed or answered nonsense; the run went on",
    "skipped": "no search was made; the skip reason says why",
}

SKIP_REASONS: Final[Words] = {
    "duplicate_situation": "the same situation was already searched for in this run",
    "turn_cap": "the limit of activations in one turn was reached, also at the boundary it was deferred to",
    "run_cap": "the limit of activations in this run was reached",
    "tool_cap": "this tool or server has used its share of this run's activations",
    "final_turn": "the next request is the last one and offers no tools",
    "activation_off": "runtime activation is switched off for this run",
    "trigger_off": "this trigger is switched off for this run",
    "no_diagnostic": "the failure left no text to search for",
    "budget_spent": "the token budget for runtime hints is spent",
    "run_ended": "the run ended before the search could be made",
}

# Why Observation held a candidate back: it was retrieved and never offered.
HOLD_REASONS: Final[Words] = {
    "already_issued": "its text already stands in this run's history",
    "offered_in_batch": "an earlier search of the same boundary was offered it",
    "suppressed": "it was dropped earlier in this run and nothing has changed since",
    "retired": "it was invalidated, superseded or corrected",
    "ineligible_state": "its lifecycle state does not allow offering",
    "duplicate_text": "a better ranked candidate has the same text",
    "near_duplicate": "a better ranked candidate says almost the same",
    "topic_cap": "two better ranked candidates share its first topic",
    "gate": "its match was too weak to be worth a hint",
    "limit": "the limit of hints in one answer was reached",
    "skill_active": "an active skill already covers it",
    "scope_mismatch": "it is about another tool, server, version or trigger",
    "suspended": "it is suspended from runtime offers",
}

# Why the kernel dropped a hint that Observation had offered.
DROP_REASONS: Final[Words] = {
    "hint_limit": "the limit of hints in one activation was reached",
    "activation_tokens": "it did not fit the tokens left for this activation",
    "run_tokens": "it did not fit the runtime tokens left for this run",
    "estimate_failed": "its size could not be estimated, so it was treated as too large",
    "already_issued": "its text already stands in this run's history",
    "holdout": "it was withheld on purpose to measure the effect of offering",
    "shadow": "the run is in shadow mode: hints are retrieved and reported, never injected",
    "run_ended": "the run ended before the next request was sent",
    "reranked_out": "a reranker of the application took it and did not give it back",
}

HOLDOUT_ARMS: Final[Words] = {
    "offered": "the draw let the hints go in",
    "withheld": "the draw kept the hints back, to compare with situations where they go in",
}

EFFECTS: Final[Words] = {
    "none": "nothing was changed",
    "applied": "the change was made",
    "uncertain": "it is not known whether something was changed; check before repeating it",
}

TOOL_STATUSES: Final[Words] = {
    "ok": "it did what was asked",
    "failed": "it was executed and ended in an error",
    "timed_out": "it was stopped at its time limit",
    "blocked": "policy did not let it run",
    "denied": "the envelope or a person refused it",
    "cancelled": "the run ended while it was pending",
}

RUN_STATUSES: Final[Words] = {
    "running": "no terminal event has arrived",
    "completed": "the agent gave its answer",
    "failed": "the run ended in an error",
    "cancelled": "a person or caller stopped it",
    "escalated": "the agent asked for a person to decide",
    "limit_reached": "a budget of the run was spent before the agent finished",
}

RUN_LIMITS: Final[Words] = {
    "tool_rounds": "the tool rounds are used up",
    "time": "the time is used up",
    "tokens": "the tokens are used up",
}

TURN_FAILURES: Final[Words] = {
    "invalid_driver_decision": "the driver gave no decision that can be read",
    "invalid_runtime_outcome": "the runtime gave no outcome that can be read",
    "tool_unavailable": "it ended in an ask that was not offered to this agent",
    "step_limit_exceeded": "all tool rounds were used and no last request was wanted",
    "time_limit_exceeded": "the time of the run was over and no last request was wanted",
    "token_limit_exceeded": "the tokens of the run were spent and no last request was wanted",
    "declared_failure": "the agent said that it cannot do it",
    "driver_failed": "the driver broke",
    "runtime_failed": "the runtime broke",
    "runtime_silent": "the runtime neither called a tool nor ended",
    "runtime_lost": "the process that held the runtime was lost",
    "model_failed": "the model gave no answer",
    "protocol_violation": "the request would have broken the protocol, and was not sent",
}

MESSAGE_ORIGINS: Final[Words] = {
    "rules": "the rules of the agent",
    "task": "the task as given",
    "priming": "knowledge found when the run started",
    "model": "a reply of the model",
    "tool": "what a call returned",
    "refusal": "why a call was not executed",
    "hints": "knowledge found while the run was going",
    "operation": "news of a background operation",
    "finale": "the note that this request is the last and has no tools",
    "summary": "what stands for older records of the conversation",
    "record": "an earlier record of the conversation",
    "utterance": "what the user said in this turn, after the state block",
}

OUTCOMES: Final[Words] = {
    "helpful": "the situation was resolved after the hint",
    "harmful": "things went the same way or worse after the hint",
    "neutral": "no difference was seen",
}

# What can be said of the effect of offering, and what is compared for it.
VERDICTS: Final[Words] = {
    "collecting": "too few situations or runs to say anything of an effect yet",
    "inconclusive": "enough was counted, and the effect may still be for the better, for the worse, or none",
    "helps": "situations went better where hints went in than where they were withheld",
    "harms": "situations went worse where hints went in than where they were withheld",
    "no_practical_effect": "whatever the effect is, it is smaller than what matters",
    "invalid": "the draws do not have the share they were made with, so the arms cannot be compared",
}

OUTCOME_MEASURES: Final[Words] = {
    "near": "the situation was resolved within the next calls",
    "far": "the run succeeded",
    "calls": "a later call of the same tool or server did not fail",
}

ITEM_STATES: Final[Words] = {
    "proposed": "written down, not yet confirmed",
    "confirmed": "confirmed by evidence or a curator",
    "challenged": "evidence against it exists",
    "at_risk": "something it rests on has changed",
    "invalidated": "no longer true; retired",
    "superseded": "replaced by a newer item; retired",
    "corrected": "replaced by a corrected item; retired",
}

RETIRED_STATES: Final = ("invalidated", "superseded", "corrected")

# What a delivery may not say: a hint never changes these. Kept here so that pages and docs state one rule.
HINT_TYPE: Final = "temporality.memory"
