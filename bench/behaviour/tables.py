"""The tables of a report's page, each from the report's document. Pure; a number that is not there is a dash."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

SHOWN_ON: Final = ("fitting", "invented", "known", "priming", "none", "wrong")

Doc = Mapping[str, Any]


def shares(doc: Doc) -> str:
    """Return the table of the shares solved, arm by kind of task."""
    titles = {arm["id"]: arm["title"] for arm in doc["arms"]}
    arms = list(titles)
    figures = {(one["id"], one["on"]): one for one in doc["figures"]}
    lines = [f"| tasks | {' | '.join(titles[arm] for arm in arms)} |", f"|---{'|---' * len(arms)}|"]
    for subset in (*SHOWN_ON, "all"):
        cells = [_rate(figures[arm, subset]["success"]) if (arm, subset) in figures else "–" for arm in arms]
        lines.append(f"| {subset} | {' | '.join(cells)} |")
    return "\n".join(lines)


def success(doc: Doc) -> str:
    """Return the shares solved, and what the arms are."""
    lines = ["## Success", "", "Share of runs whose folder is as wanted, with Wilson's interval of 95%.", ""]
    lines += [shares(doc), "", "*fitting* is invented and known together.", ""]
    return "\n".join([*lines, *(f"- **{arm['title']}** {arm['about']}." for arm in doc["arms"])])


def differences(doc: Doc) -> str:
    """Return each arm against another."""
    if not doc["comparisons"]:
        return ""
    lines = [
        "## Arm against arm",
        "",
        "Paired by task and seed. *won*: only the first arm succeeded, *lost*: only the second. p is McNemar's "
        "exact test,",
        "the interval (95%) a bootstrap that draws whole tasks.",
        "",
        "| arm | against | tasks | pairs | difference | interval | won | lost | p |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    lines += [
        f"| {one['arm']} | {one['against']} | {one['on']} | {one['n']} | {100 * one['difference']:+.1f} pp "
        f"| {100 * one['low']:+.1f} … {100 * one['high']:+.1f} | {one['won']} | {one['lost']} | {_p(one['p'])} |"
        for one in doc["comparisons"]
    ]
    return "\n".join(lines)


def conduct(doc: Doc) -> str:
    """Return what the agent did with failures and hints."""
    titles = {arm["id"]: arm["title"] for arm in doc["arms"]}
    rows = [
        (
            titles[arm["id"]],
            arm["on"],
            f"{arm['failed_repeats']:.2f}",
            f"{arm['useless_repeats']:.2f}",
            _rate(arm["injected_share"]),
            _rate(arm["used_share"]),
            f"{arm['helpful']} / {arm['harmful']} / {arm['neutral']}",
            _rate(arm["foreign"]),
        )
        for arm in doc["figures"]
        if arm["on"] in ("fitting", "none", "wrong")
    ]
    head = (
        "arm",
        "tasks",
        "failed again",
        "same again",
        "runs with a hint",
        "hints used",
        "helpful/harmful/neutral",
        "not its own",
    )
    return "\n".join(
        [
            "## What the agent did",
            "",
            "*failed again*: calls a run that failed as one before them; *same again*: those with the very same "
            "command.",
            "*helpful/harmful/neutral* is what the fold says of hints; *not its own*: runs in which a hint was "
            "injected that is",
            "not the task's item, which on tasks without an item is a false injection. The placebo's items "
            "carry a wrong text by",
            "design. A hint that was used is no success by that.",
            "",
            *_table(head, rows),
        ]
    )


def cost(doc: Doc) -> str:
    """Return tokens, waiting and use of the budget."""
    titles = {arm["id"]: arm["title"] for arm in doc["arms"]}
    rows = [
        (
            titles[arm["id"]],
            f"{arm['tokens']:.0f}",
            _number(arm["tokens_per_resolved"]),
            _number(arm["tokens_per_success"]),
            f"{_number(arm['latency_p50'])} / {_number(arm['latency_p95'])}",
            f"{_number(arm['wait_p50'])} / {_number(arm['wait_p95'])}",
            _rate(arm["active_share"]),
            _percent(arm["budget_use"]),
            str(arm["unanswered"]),
        )
        for arm in doc["figures"]
        if arm["on"] == "all"
    ]
    head = (
        "arm",
        "tokens a run",
        "tokens a resolved situation",
        "tokens a success",
        "search ms p50 / p95",
        "added a turn ms p50 / p95",
        "runs that searched",
        "budget used",
        "searches without an answer",
    )
    return "\n".join(
        ["## What it costs", "", "Of all tasks. Tokens are those of runtime hints.", "", *_table(head, rows)]
    )


def items(doc: Doc) -> str:
    """Return the items that did not simply do good."""
    flagged = [item for item in doc["items"] if item["flag"] != "helpful"]
    n_helpful = len(doc["items"]) - len(flagged)
    rows = [
        (
            item["task"],
            item["kind"],
            item["used"],
            item["helpful"],
            item["harmful"],
            item["acted_failed"],
            item["flag"] or "–",
        )
        for item in flagged
    ]
    head = ("item of", "kind", "used", "helpful", "harmful", "acted on, not solved", "flag")
    return "\n".join(
        [
            "## Items",
            "",
            f"{n_helpful} items were injected at runtime, acted on, and did good each time. A dash among the others is",
            "one of which the fold saw no use: its action's words had stood in a call before, or nobody acted on it.",
            "",
            *_table(head, rows),
        ]
    )


def sweep(doc: Doc) -> str:
    """Return what other budgets came to, nothing where none were tried."""
    if not doc["sweep"]:
        return ""
    none = sorted({line["tokens"] for line in doc["sweep"] if not line["with_hint"]})
    rows = [
        (
            line["tokens"],
            line["hints"],
            line["n"],
            _percent(line["success"]),
            _percent(line["with_hint"]),
            line["dropped"],
            _number(line["tokens_per_resolved"]),
            f"{_number(line['wait_ms']['p50'])} / {_number(line['wait_ms']['p95'])}",
            _percent(line["budget_use"]),
        )
        for line in doc["sweep"]
    ]
    head = (
        "tokens an activation",
        "hints",
        "runs",
        "success",
        "runs with a hint",
        "hints over budget",
        "tokens a resolved situation",
        "added a turn ms p50 / p95",
        "budget used",
    )
    return "\n".join(
        [
            "## Budgets",
            "",
            "The runtime arm with other budgets, on every fourth of the tasks with a fitting item. A run has "
            "four times the tokens.",
            *(f"With {tokens} tokens no hint fits: its block alone is larger." for tokens in none),
            "",
        ]
        + _table(head, rows)
    )


def raw(doc: Doc) -> str:
    """Return a line for every run."""
    head = (
        "task",
        "kind",
        "arm",
        "seed",
        "success",
        "calls",
        "failed again",
        "hints",
        "own",
        "tokens",
        "used",
        "helpful",
        "harmful",
    )
    rows = [
        (
            run["task"],
            run["kind"],
            run["arm"],
            run["seed"],
            "yes" if run["success"] else "no",
            run["n_calls"],
            run["failed_repeats"],
            run["n_injected"],
            "yes" if run["own_injected"] or run["primed"] else "",
            run["tokens"],
            run["used"],
            run["helpful"],
            run["harmful"],
        )
        for run in sorted(doc["runs"], key=lambda run: (run["task"], run["seed"], run["arm"]))
    ]
    return "\n".join(["## Every run", "", *_table(head, rows)])


def _table(head: Sequence[str], rows: Iterable[Sequence[object]]) -> list[str]:
    lines = [f"| {' | '.join(head)} |", f"|{'---|' * len(head)}"]
    return lines + [f"| {' | '.join(map(str, row))} |" for row in rows]


def _rate(one: Mapping[str, Any]) -> str:
    if one["rate"] is None:
        return "–"
    return f"{one['count']}/{one['of']} = {100 * one['rate']:.0f}% ({100 * one['low']:.0f}–{100 * one['high']:.0f})"


def _number(value: float | None) -> str:
    return "–" if value is None else f"{value:.0f}"


def _percent(value: float | None) -> str:
    return "–" if value is None else f"{100 * value:.1f}%"


def _p(value: float) -> str:
    return "< 0.0001" if value < 0.0001 else f"{value:.4f}"
