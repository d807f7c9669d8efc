"""Writes the result of a measurement for people: Markdown for a terminal and the documents, a fragment for pages."""

from collections.abc import Mapping, Sequence
from typing import Any, Final

from django.template.loader import render_to_string

from knowledge.evaluation.figures import FALSE, FIGURES, NEAR_MISS
from knowledge.evaluation.results import GOAL, OPERATING, TARGETS, WITH_INTERVAL, CorpusResult

# figure -> head of its column
HEADS: Final[Mapping[str, str]] = {
    "r_at_1_ungated": "R@1",
    "r_at_1_all_pairs": "R@1 of all pairs",
    "r_at_3_ungated": "R@3",
    "mrr_at_10": "MRR@10",
    "right_passed": "right passed",
    "right_passed_of_found": "of those found",
    "right_first": "right first",
    "wrong_first": "wrong first",
    "false_injection": "false injection",
    "near_miss_injection": "near-miss injection",
    "injection_all": "both",
    "abstention_precision": "abstention precision",
    "hints_per_answered": "hints an answer",
    "p50_ms": "p50 ms",
    "p95_ms": "p95 ms",
}
RANKING: Final = ("r_at_1_ungated", "r_at_1_all_pairs", "r_at_3_ungated", "mrr_at_10")
GATED: Final = (
    "right_passed", "right_passed_of_found", "right_first", "wrong_first", "false_injection",
    "near_miss_injection", "injection_all", "abstention_precision", "hints_per_answered", "p50_ms", "p95_ms",
)  # fmt: skip
NONE: Final = "–"
DOCUMENT_HEAD: Final = """# How well knowledge is found

Written by `make bench-retrieval`; not edited by hand. Recorded failures are asked as the kernel asks about a failed
call of its shell tool: the command line as the task, what it printed as the result; tasks as it asks when a run begins.
Each corpus is loaded alone. Versions of FindHints stand beside plain searches of the same rules by the same text. What
the corpora are: `knowledge/evaluation/corpora/README.md`.
"""
NOTES: Final = """Near misses are answerable questions asked once more while their own item is not there, and
questions whose rule has no item. They are the harder question of the two, and no false injection: what stood beside the
right item stays, often a sibling rule about the same tool or even the same failure, which a person might take for help.
What limits the figure: words and vectors are compared, no model here reads a rule and an output together. It stands
beside false injection and counts none of its questions; `both` counts all. A version whose false injection is low and
whose near-miss injection is high is silent about what its rules are not about, and offers the nearest rule where the
right one is missing.

`ruff` is asked with the line ruff prints, with its code, which its items hold: it is found by the exact path.
`ruff-words` is the same without the codes, by words and meaning alone. Of both, and of every corpus, at most 400
pairs are asked, and as many held out; which ones is decided by a hash of their text, and `--full` asks all.

`rrf` adds the reciprocal ranks (k = 60) of `fts.or` and `vector.only`; `hybrid.v3` adds their numbers instead."""
TEMPLATE: Final = "_retrieval_report.html"
SIDE: Final = 300  # units of the drawn curve
DASHES: Final = {FALSE: "none", NEAR_MISS: "6 3"}  # how the two curves of a version are told apart


def markdown(results: Sequence[CorpusResult], heading: str = "##") -> str:
    """Return the report of all corpora, with what each figure means."""
    parts = [_corpus(result, heading) for result in results]
    meanings = "\n".join(f"- {HEADS[name]}: {meaning}." for name, meaning in FIGURES.items())
    notes = f"In brackets: 95% bootstrap interval over the questions.\n\n{meanings}\n\n{NOTES}"
    return "\n\n".join([*parts, f"{heading} What the figures mean\n\n{notes}"]) + "\n"


def _corpus(result: CorpusResult, heading: str) -> str:
    names = list(result.versions)
    ranking = [[HEADS[one] for one in RANKING], *_cells(result, RANKING)]
    gated = [[HEADS[one] for one in GATED], *_cells(result, GATED)]
    parts = [f"{heading} {result.corpus}", sentence(result)]
    parts += [f"Gate off:\n\n{_table(['version', *names], ranking)}"]
    parts += [f"Gate on, as a kernel asks:\n\n{_table(['version', *names], gated)}"]
    if any(version["operating"][FALSE] for version in result.versions.values()):
        parts.append(
            "Right items that pass (and the threshold), when at most so many of the questions without an answer may "
            f"get a hint. The goal is {GOAL:.0%} of those nothing here is about."
        )
        parts += [_operating(result, name) for name in OPERATING]
    parts += [f"Not measured: {name}, {reason}." for name, reason in result.not_measured.items()]
    return "\n\n".join(parts)


def sentence(result: CorpusResult) -> str:
    """Return what was asked of what, in one sentence or two."""
    counts = result.counts
    text = (
        f"{counts['items']} items; {counts['answerable']} questions with an answer, {counts['foreign']} that nothing "
        f"here is about, {counts['held_out'] + counts['without_item']} near misses: {counts['held_out']} with their "
        f"item taken away, {counts['without_item']} whose rule has no item."
    )
    asked = counts["answerable"] + counts["without_item"]
    if asked < counts["pairs"]:
        text += f" A sample: {asked} of {counts['pairs']} pairs are asked."
    if result.rules_without_item:
        text += f" Rules without an item: {', '.join(f'`{rule}`' for rule in result.rules_without_item)}."
    if result.task:
        text += " Every failure is asked with the same task, beside its command line."
    return text


def _cells(result: CorpusResult, figures: Sequence[str]) -> list[list[str]]:
    return [[cell(version, figure) for figure in figures] for version in result.versions.values()]


def cell(version: Mapping[str, Any], figure: str) -> str:
    """Return one figure as it is written, with its interval where it has one; a dash when there is none."""
    value = version.get(figure)
    if value is None:
        return NONE
    if figure.endswith("_ms") or figure == "hints_per_answered":
        return f"{value:.1f}"
    spread = version["intervals"].get(figure) if figure in WITH_INTERVAL else None
    return f"{value:.3f} ({spread[0]:.2f}–{spread[1]:.2f})" if spread else f"{value:.3f}"


def _table(names: Sequence[str], rows: Sequence[Sequence[str]]) -> str:
    """Return a Markdown table: `names` are the first column from its head down, `rows` the others beside it."""
    lines = [f"| {' | '.join([name, *row])} |" for name, row in zip(names, rows, strict=True)]
    lines.insert(1, f"|---|{'---:|' * len(rows[0])}")
    return "\n".join(lines)


def _operating(result: CorpusResult, name: str) -> str:
    shown = {version: figures for version, figures in result.versions.items() if figures["operating"][name]}
    if not shown:
        return ""
    rows = [list(shown)]
    rows += [[_operating_cell(figures["operating"][name], target) for figures in shown.values()] for target in TARGETS]
    rows.append([_chosen(figures, name) for figures in shown.values()])
    return _table([f"{HEADS[name]} at most", *(f"{target:.0%}" for target in TARGETS), "gate as it is"], rows)


def _operating_cell(points: Sequence[Mapping[str, Any]], target: float) -> str:
    found = next((one for one in points if one["at_most"] == target), None)
    return f"{found['right_passed']:.3f} (≥ {found['threshold']:.3f})" if found else NONE


def _chosen(version: Mapping[str, Any], name: str) -> str:
    if version["gate"] is None:
        return "no gate"
    share = version[name]
    at = NONE if share is None else f"{share:.1%}"
    return f"{version['right_passed']:.3f} at {at} (≥ {version['gate']:.3f})"


def html(results: Sequence[CorpusResult]) -> str:
    """Return the report as a fragment for a page of the app."""
    return render_to_string(TEMPLATE, {"corpora": [_for_page(result) for result in results], "goal": f"{GOAL:.0%}"})


def _for_page(result: CorpusResult) -> dict[str, Any]:
    return {
        "name": result.corpus,
        "sentence": sentence(result).replace("`", ""),
        "tables": [
            _table_for_page("Gate off", result, RANKING),
            _table_for_page("Gate on, as a kernel asks", result, GATED),
        ],
        "curves": [_drawn(name, version) for name, version in result.versions.items() if version["gate"] is not None],
        "not_measured": result.not_measured,
    }


def _table_for_page(title: str, result: CorpusResult, figures: Sequence[str]) -> dict[str, Any]:
    return {
        "title": title,
        "heads": [(HEADS[figure], FIGURES.get(figure, "")) for figure in figures],
        "rows": list(zip(result.versions, _cells(result, figures), strict=True)),
    }


def _drawn(version_name: str, version: Mapping[str, Any]) -> dict[str, Any]:
    return {
        "name": version_name,
        "lines": [_line(version, name) for name in OPERATING if version[name] is not None],
        "goal_x": f"{GOAL * SIDE:.1f}",
        "side": SIDE,
    }


def _line(version: Mapping[str, Any], name: str) -> dict[str, str]:
    """Return the operating curve over one kind of questions without an answer, and where on it the gate stands."""
    points = [(point[name], point["right_passed"]) for point in version["curve"]]
    return {
        "head": HEADS[name],
        "points": " ".join(f"{wrong * SIDE:.1f},{(1 - right) * SIDE:.1f}" for wrong, right in points),
        "dashes": DASHES[name],
        "chosen": _chosen(version, name),
        "x": f"{version[name] * SIDE:.1f}",
        "y": f"{(1 - version['right_passed']) * SIDE:.1f}",
    }
