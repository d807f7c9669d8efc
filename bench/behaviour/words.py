"""Tells a report's document in markdown, for `docs/`. Pure."""

from collections.abc import Mapping
from typing import Any, Final

from bench.behaviour import tables
from bench.behaviour.task import FITTING, KINDS

TITLE: Final = "# What runtime hints change: the behavioural benchmark"

Doc = Mapping[str, Any]


def markdown(doc: Doc, beside: Doc | None = None) -> str:
    """Return the whole page. `beside` is a report in which items about failures might be found at a run's start."""
    parts = (
        _head(doc),
        _claim(doc),
        _tasks(doc),
        tables.success(doc),
        tables.differences(doc),
        tables.conduct(doc),
        tables.cost(doc),
    )
    parts += (tables.items(doc), tables.sweep(doc), _open(beside), _how(doc), tables.raw(doc))
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


def _open(beside: Doc | None) -> str:
    if beside is None:
        return ""
    primed = {run["task"] for run in beside["runs"] if run["primed"] and run["kind"] in FITTING}
    tasks = {run["task"] for run in beside["runs"] if run["kind"] in FITTING}
    text = f"""## When the start may find them as well

Above, items about failures say that they are (`trigger`), as those of the starter set do, and are not offered when a
run begins. Without that, by `{beside["command"]}`,
the task's own words brought its item at the start in {len(primed)} of {len(tasks)} tasks with a fitting one:
"""
    return f"{text}\n{tables.shares(beside)}"


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
`OPENAI_BASE_URL=… python -m bench.behaviour --agent openai_chat --model NAME`. `--sweep` tries other budgets; the arm
`trial` draws for each situation whether its hints are placed, which the effect reports then estimate from.

`make bench-behaviour` installs what it needs and runs; `BENCH='--tasks shell-crlf,sql-region-code'` hands options on.
`--into var/up.json` makes the runs in the stack that `make up` runs, where their timelines stay, in the projects
`behaviour` and `behaviour-placebo`; the page *Experiments* lists the report and links each run from it."""
