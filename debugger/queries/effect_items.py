"""Lays the report of single items out: how far each came, its effect beside the others', what to suspend. Pure but for
the one read. (Seed 001 §17.)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Final
from urllib.parse import urlencode

from debugger import charts
from debugger.queries.effect_words import TONES, percent, tally_words
from debugger.queries.effects import runs_address
from debugger.queries.pieces import one_line
from knowledge.effect_report import Asked
from knowledge.effects.verdicts import PRACTICAL, in_points
from knowledge.item_effects import ItemLine, ItemReport, make_item_report

DRAWN_MOST: Final = 30  # items of the figure


@dataclass(frozen=True, slots=True)
class ItemRow:
    """One item with its numbers as texts; `proposal` says why it should be suspended, "" when it should not."""

    line: ItemLine
    proposition: str
    runs: str
    report: str
    used: str
    helpful: str
    offered: str
    withheld: str
    effect: str
    shrunk: str
    verdict: str
    words: str
    tone: str
    proposal: str


@dataclass(frozen=True, slots=True)
class ItemsPage:
    asked: Asked
    report: ItemReport
    rows: tuple[ItemRow, ...]
    figure: Mapping[str, Any] | None
    n_proposed: int


def items_page(project_id: int, slug: str, asked: Asked) -> ItemsPage:
    """Return the page of the items for what an address asks."""
    return lay_out(make_item_report(project_id, asked.since, asked.until, asked.where), slug, asked)


def lay_out(report: ItemReport, slug: str, asked: Asked) -> ItemsPage:
    """Return the page. Pure."""
    rows = tuple(_row(line, slug, asked) for line in report.lines)
    drawn = [found for row in rows for found in _interval(row)][:DRAWN_MOST]
    figure = charts.forest(drawn, title="Effect of single items", small=PRACTICAL) if drawn else None
    return ItemsPage(asked, report, rows, figure, sum(bool(row.proposal) for row in rows))


def _row(line: ItemLine, slug: str, asked: Asked) -> ItemRow:
    counts, effect = line.counts, line.effect
    verdict = effect.verdict if effect else None
    found = verdict.effect if verdict else None
    days = {"since": asked.since.isoformat(), "until": asked.until.isoformat()}
    shrunk = effect.shrunk_span if effect else None
    return ItemRow(
        line=line,
        proposition=one_line(line.proposition, 160),
        runs=runs_address(slug, asked, {"knowledge_id": line.knowledge_id}),
        report=f"/{slug}/effects/?{urlencode({**days, 'knowledge_id': line.knowledge_id})}",
        used=_share(counts["n_used"], counts["n_injected"]),
        helpful=f"{counts['n_helpful']:,} · {counts['n_harmful']:,}",
        offered=tally_words(line.arms.offered.near),
        withheld=tally_words(line.arms.withheld.near),
        effect=in_points(found.value) if found else "–",
        shrunk=_shrunk(effect.shrunk if effect else None, shrunk),
        verdict=verdict.word if verdict else "",
        words=f"{verdict.words} {verdict.warning}".rstrip()
        if verdict
        else "It was in no holdout, so nothing can be said of its effect.",
        tone=TONES.get(verdict.word, "soft") if verdict else "soft",
        proposal=effect.words if effect and effect.suspend and not line.is_suspended and line.state else "",
    )


def _share(n: int, whole: int) -> str:
    return f"{percent(n / whole)} of {whole:,}" if whole else "–"


def _shrunk(value: float | None, span: tuple[float, float] | None) -> str:
    if value is None or span is None:
        return "–"
    return f"{in_points(value)} ({in_points(span[0])} to {in_points(span[1])})"


def _interval(row: ItemRow) -> list[charts.Interval]:
    verdict = row.line.effect.verdict if row.line.effect else None
    if verdict is None or verdict.effect is None or verdict.sequence is None:
        return []
    span = verdict.sequence
    return [charts.Interval(row.line.knowledge_id, verdict.effect.value, span.low, span.high, row.tone, row.report)]
