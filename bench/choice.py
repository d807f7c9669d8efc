"""`python -m bench.choice`: what the small language model chooses in invented situations, by method, and how fast.

Needs the environment of `make bench-behaviour-model`. Each situation of `bench/choice_cases.py` is put to the model as
a run puts it: with its hint, without one, with a hint on another matter and with a wrong one. The page that is
committed goes to `--doc`.
"""

import argparse
import json
import os
import platform
import statistics
import sys
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from statsmodels.stats.proportion import proportion_confint

from bench.choice_cases import CASES, ChoiceCase
from bench.choice_checks import checked
from contract.hint_block import render_hint_block
from kernel.core.settling import CHECK_FIRST
from kernel.drivers.choice_context import render, render_neutral
from kernel.drivers.choice_model import real_scorer
from kernel.drivers.choice_scoring import METHODS, Method, Piece, Scored, Scorer, highest, values
from kernel.messages import DEFAULT_RULES, Message, ToolCall
from kernel.testing import hint

CONDITIONS: Final = {
    "hint": "its hint",
    "none": "no hint",
    "placebo": "a hint on another matter",
    "decoy": "a wrong hint",
}


@dataclass(frozen=True, slots=True)
class Asked:
    """One situation in one condition: what the model says of its commands there and in the neutral story."""

    case: ChoiceCase
    condition: str
    conditional: Sequence[Scored]
    neutral: Sequence[Scored]
    milliseconds: float
    cpu_milliseconds: float

    def chosen(self, method: Method) -> int:
        return highest(values(method, self.conditional, self.neutral), [one.encode() for one in self.case.commands])


def main() -> int:
    """Ask everything and tell it. Returns the exit code: 1 for a missed check, 2 where the model is not installed."""
    parser = argparse.ArgumentParser(prog="python -m bench.choice", description=__doc__)
    parser.add_argument("--doc", type=Path, help="file of the page, markdown")
    options = parser.parse_args()
    try:
        scorer = real_scorer()
    except ImportError as error:
        print(error, file=sys.stderr)
        return 2
    checks = list(checked(scorer))
    asked = [one for case in CASES for one in ask(scorer, case)]
    page = markdown(asked, scorer.versions(), checks)
    print(page)
    if options.doc:
        options.doc.write_text(page, encoding="utf-8")
    return int(not all(met for _, met in checks))


def ask(scorer: Scorer, case: ChoiceCase) -> list[Asked]:
    """Put one situation to the model in every condition, as the first choice of a run after its first command failed.

    The neutral story is the same in all of them and is computed once; the time of a choice has it in it.
    """
    neutral, neutral_took = _timed(scorer, render_neutral(history(case, "")), case.commands)
    asked = []
    for condition in CONDITIONS:
        rule = {"hint": case.hint, "placebo": case.placebo, "decoy": case.decoy}.get(condition, "")
        conditional, took = _timed(scorer, render(history(case, rule)), case.commands)
        together = [1_000 * sum(both) for both in zip(neutral_took, took, strict=True)]
        asked.append(Asked(case, condition, conditional, neutral, together[0], together[1]))
    return asked


def _timed(
    scorer: Scorer, context: Sequence[Piece], commands: Sequence[str]
) -> tuple[Sequence[Scored], tuple[float, float]]:
    """Return the scores, and the seconds they took by the clock and of the processor."""
    started, used = time.perf_counter(), time.process_time()
    scores = scorer.score(context, commands)
    return scores, (time.perf_counter() - started, time.process_time() - used)


def history(case: ChoiceCase, rule: str) -> list[Message]:
    """Return the messages of a run whose first command failed and was answered with a hint, if there is a rule."""
    arguments = json.dumps({"command": case.failed}, ensure_ascii=False)
    failed = f"[failed: exit_nonzero: exit code 1]\n{case.output}\n[effect: uncertain] {CHECK_FIRST}"
    messages = [
        Message("system", DEFAULT_RULES, "rules"),
        Message("user", case.task, "task"),
        Message("assistant", "", "model", (ToolCall("c1", "shell", arguments),)),
        Message("tool", failed, "tool", call_id="c1", status="failed", code="exit_nonzero"),
    ]
    if not rule:
        return messages
    found_for = "a failed call of shell (exit_nonzero)"
    block = render_hint_block("tool.failed", found_for, "run-1:a1", [hint("note-1", rule)])
    return [*messages, Message("context", block, "hints")]


def markdown(asked: Sequence[Asked], versions: Mapping[str, str], checks: Sequence[tuple[str, bool]]) -> str:
    """Return the page."""
    n = len(CASES)
    chance = sum(1 / len(case.commands) for case in CASES) / n
    lines = [
        "# What the choice model chooses",
        "",
        "Made by `python -m bench.choice --doc docs/choice-model.md`; nothing in it is written by hand. "
        f"{n} invented situations: a command failed, and the model chooses among it and others. Only the hint says "
        f"which one is right; drawn blindly {100 * chance:.0f}% are. What is found holds for this model and these "
        "situations. Which neutral story to compare with was chosen on these very ones, so expect less of others.",
        "",
        _advice(asked),
        "",
        "## Right choices",
        "",
        f"| method | {' | '.join(CONDITIONS.values())} | the wrong hint followed |",
        f"|---|{'---|' * len(CONDITIONS)}---|",
    ]
    lines += [_row(asked, method) for method in METHODS]
    lines += [
        "",
        "The interval is Wilson's of 95%. `pmi` is what the driver chooses by; `loglik`, `mean` (a token) and `greedy` "
        "(decoding along the candidates) are measured beside it.",
        "",
        "## The failed command again",
        "",
        f"| method | {' | '.join(CONDITIONS.values())} |",
        f"|---|{'---|' * len(CONDITIONS)}",
        *(_repeats(asked, method) for method in METHODS),
        "",
        "## By situation",
        "",
        "What `pmi` chose: the right command, the failed one again, or another.",
        "",
        f"| situation | {' | '.join(CONDITIONS.values())} |",
        f"|---|{'---|' * len(CONDITIONS)}",
        *(f"| {case.name} | {' | '.join(_word(asked, case, one) for one in CONDITIONS)} |" for case in CASES),
        "",
        "## What holds of its numbers",
        "",
        "| | |",
        "|---|---|",
        *(f"| {says} | {'yes' if met else '**no**'} |" for says, met in checks),
        "",
        "## Cost",
        "",
        _cost(asked),
        "",
        "| | |",
        "|---|---|",
        *(f"| {name} | {value} |" for name, value in versions.items()),
        f"| python | {platform.python_version()} |",
    ]
    return "\n".join(lines) + "\n"


def _advice(asked: Sequence[Asked]) -> str:
    right = sum(one.chosen("pmi") == one.case.right for one in _of(asked, "hint"))
    wrong = sum(_decoyed(one, "pmi") for one in _of(asked, "decoy"))
    return (
        f"By `pmi` a right hint was followed in {right} of {len(CASES)} and a wrong one in {wrong}: how far the model "
        "tells one from the other, these two numbers say."
    )


def _of(asked: Sequence[Asked], condition: str) -> list[Asked]:
    return [one for one in asked if one.condition == condition]


def _row(asked: Sequence[Asked], method: Method) -> str:
    cells = [_share([one.chosen(method) == one.case.right for one in _of(asked, name)]) for name in CONDITIONS]
    followed = _share([_decoyed(one, method) for one in _of(asked, "decoy")])
    return f"| {method} | {' | '.join(cells)} | {followed} |"


def _repeats(asked: Sequence[Asked], method: Method) -> str:
    cells = [_share([one.chosen(method) == 0 for one in _of(asked, name)]) for name in CONDITIONS]
    return f"| {method} | {' | '.join(cells)} |"


def _decoyed(one: Asked, method: Method) -> bool:
    """Return whether the chosen command is neither the right nor the failed one but has what the wrong hint names."""
    return one.chosen(method) == one.case.decoyed


def _word(asked: Sequence[Asked], case: ChoiceCase, condition: str) -> str:
    [one] = [one for one in _of(asked, condition) if one.case is case]
    return {case.right: "right", 0: "again"}.get(one.chosen("pmi"), "other")


def _share(hits: Sequence[bool]) -> str:
    low, high = proportion_confint(sum(hits), len(hits), method="wilson")
    return f"{sum(hits)} of {len(hits)} ({100 * low:.0f}–{100 * high:.0f}%)"


def _cost(asked: Sequence[Asked]) -> str:
    took = [one.milliseconds for one in asked]
    cpu = [one.cpu_milliseconds for one in asked]
    return (
        f"A choice among five commands took {statistics.median(took):.0f} ms by the clock in the median "
        f"({max(took):.0f} at most) and {statistics.median(cpu):.0f} ms of one processor, on one thread, with a load "
        f"average of {os.getloadavg()[0]:.1f}."
    )


if __name__ == "__main__":
    sys.exit(main())
