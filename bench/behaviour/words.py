"""Tells a report's document in markdown, for `docs/`. Pure; a number that is not there is a dash."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from bench.behaviour.task import KINDS

TITLE: Final = "# What runtime hints change: the behavioural benchmark"
SHOWN_ON: Final = ("fitting", "invented", "known", "priming", "none", "wrong")

Doc = Mapping[str, Any]


def markdown(doc: Doc) -> str:
    """Return the whole page."""
    parts = (_head(doc), _claim(doc), _tasks(doc), _success(doc), _differences(doc), _conduct(doc), _cost(doc))
    parts += (_items(doc), _sweep(doc), _how(doc), _raw(doc))
    return "\n\n".join(part.strip("\n") for part in parts if part) + "\n"


def _head(doc: Doc) -> str:
    versions = "; ".join(f"{name} {value}" for name, value in doc["versions"].items())
    seeds = ", ".join(map(str, doc["seeds"]))
    took = (
        f"{doc['seconds']:.0f} s by the clock, {doc['cpu_seconds']:.0f} s of processors, load average {doc['load']:.1f}"
    )
    return f"""{TITLE}

Made by the command below; nothing in it is written by hand. The same tasks, seeds and agent in each arm; real tools
that really fail; a run counts as a success by the state of its folder, never by an exit code. Every run went through
the kernel, the hints API, ingest and the fold, and outcomes are read from the rows the fold derived.

    {doc["command"]}

| | |
|---|---|
| agent | {doc["agent"]} |
| seeds | {seeds} |
| versions | {versions} |
| made | {doc["made_at"]} |
| it took | {took} |"""


def _claim(doc: Doc) -> str:
    lines = [f"**What this can show.** {doc['agent_note']}"]
    if doc["any_moment"]:
        lines.append("Items about failures may be brought by the task's own words in this report, when a run begins.")
    if doc["checks"]:
        lines += ["", "| the mechanism | found | wanted | |", "|---|---|---|---|"]
        lines += [
            f"| {one['says']} | {one['value']:.3f} | {one['wanted']} | {'met' if one['met'] else '**missed**'} |"
            for one in doc["checks"]
        ]
    return "\n".join(lines)


def _tasks(doc: Doc) -> str:
    counted: dict[str, set[str]] = {}
    for run in doc["runs"]:
        counted.setdefault(run["kind"], set()).add(run["task"])
    rows = [f"| {kind} | {len(counted[kind])} | {about} |" for kind, about in KINDS.items() if kind in counted]
    total = sum(map(len, counted.values()))
    return "\n".join([f"## {total} tasks", "", "| kind | tasks | what is known for it |", "|---|---|---|", *rows])


def _success(doc: Doc) -> str:
    titles = {arm["id"]: arm["title"] for arm in doc["arms"]}
    arms = list(titles)
    figures = {(one["id"], one["on"]): one for one in doc["figures"]}
    lines = ["## Success", "", "Share of runs whose folder is as wanted, with Wilson's interval of 95%.", ""]
    lines += [f"| tasks | {' | '.join(titles[arm] for arm in arms)} |", f"|---{'|---' * len(arms)}|"]
    for subset in (*SHOWN_ON, "all"):
        cells = [_rate(figures[arm, subset]["success"]) if (arm, subset) in figures else "–" for arm in arms]
        lines.append(f"| {subset} | {' | '.join(cells)} |")
    about = {arm["id"]: f"- **{arm['title']}** {arm['about']}." for arm in doc["arms"]}
    return "\n".join([*lines, "", "*fitting* is invented and known together.", "", *about.values()])


def _differences(doc: Doc) -> str:
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


def _conduct(doc: Doc) -> str:
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


def _cost(doc: Doc) -> str:
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


def _items(doc: Doc) -> str:
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
            f"{n_helpful} items were injected at runtime, acted on, and did good each time. The others stand below; a dash",
            "is an item of which the fold saw no use: the words of its action had stood in a call before, or nobody acted.",
            "",
            *_table(head, rows),
        ]
    )


def _sweep(doc: Doc) -> str:
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


def _how(doc: Doc) -> str:
    if doc["agent"] != "scripted":
        return "How tasks, agents and arms are added: [behaviour.md](behaviour.md)."
    return """## How a task is added

1. An entry in the module of its tool in `bench/behaviour/tasks/`, or a new module named in `__init__.py` there.
2. `setup` makes the folder; `first` fails in it and says why; `right` reaches what `check` looks for; each of `wrong`
   is something one might try, and none reaches it. `check` looks at files, history or rows. The statement says all
   that `check` wants, and not how.
3. `kind` says what is known. A made-up fact goes through `sealed` or `gate`, so that no file of the task gives it
   away; the rule has its action in backticks, and no other candidate holds that text. `errors` and `phrases` are what
   the tool says.
4. `pytest tests/bench/test_behaviour_tasks.py` tries all of it: the setup, the first failure, every command.
5. `needs` names programs beyond Python and a POSIX system; without them the task is left out, and the run says so.

An agent of another kind is a `Chooser` (`bench/behaviour/agents.py`), or a model behind any OpenAI-compatible endpoint:
`OPENAI_BASE_URL=… python -m bench.behaviour --agent openai_chat --model NAME`. `--into var/up.json` makes the runs in
the stack that `make up` runs, where their timelines stay; `--sweep` tries other budgets; the arm `trial` draws for each
situation whether its hints are placed, which the effect reports then estimate from."""


def _raw(doc: Doc) -> str:
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
