"""Lays a report of effects out for its page: rows in words, figures, and the address behind each number. Pure but for
the one read of the report. (Seed 001 §13, §17.)
"""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date, timedelta
from typing import Any, Final
from urllib.parse import urlencode

from contract import stages
from debugger.queries.effect_figures import figures_of
from debugger.queries.effect_words import (
    TONES,
    duration_words,
    group_label,
    number_words,
    percent,
    rate_words,
    tally_words,
)
from ingest.parameters import parse_day
from knowledge.effect_report import DAYS_MOST, FILTERS, GROUPS, Asked, Day, EffectReport, Group, make_report
from knowledge.effects.costs import CostReport, costs_of
from knowledge.effects.counts import ATTEMPT_LIMIT, Stratum
from knowledge.effects.estimates import Difference
from knowledge.effects.rates import Step
from knowledge.effects.verdicts import in_points

PERIODS: Final = {"7": "last 7 days", "30": "last 30 days", "90": "last 90 days", "365": "last year"}
PERIOD: Final = "30"
TEXT_MOST: Final = 200  # code points of a filter
GROUP_WORDS: Final = {
    "trigger": "by trigger",
    "tool": "by tool",
    "mcp_server": "by MCP server",
    "algorithm_version": "by version of the search",
    "experiment": "by experiment",
}
PARAMETERS: Final = ("days", "since", "until", "group", *FILTERS)
# Name of a dimension -> what the run list calls it. Numbers of others lead to the runs of the rest of the filters.
OF_RUNS: Final = {
    "trigger": "trigger",
    "tool": "search_tool",
    "mcp_server": "search_server",
    "knowledge_id": "knowledge_id",
    "experiment": "experiment",
    "drop_reason": "drop_reason",
    "algorithm_version": "version",
}
LOSSES: Final = {
    "skip": ("Search not made", stages.SKIP_REASONS),
    "hold": ("Found, not offered", stages.HOLD_REASONS),
    "drop": ("Offered, not injected", stages.DROP_REASONS),
}
STRATA_SHOWN: Final = 50
COSTS: Final = {
    "failed_after": ("failed calls after it", "of the same tool or server, within the next calls", number_words),
    "error_rate": ("of the calls after it, failed", "a share of those calls", percent),
    "turns_after": ("turns until it was over", "or until the window of the next calls ended", number_words),
    "model_tokens_after": ("model tokens in these turns", "of requests and replies", number_words),
    "hint_tokens": ("hint tokens", "of what was injected", number_words),
    "search_ms": ("wait for the search", "until the run went on", duration_words),
}


class AskedWrongly(Exception):
    """A parameter of the address cannot be; the message says which, and what would do."""


@dataclass(frozen=True, slots=True)
class Row:
    """One group with its numbers as texts and its verdict. `narrowed` is the report of that group alone.

    `runs` is where its numbers lead, "" for a group of what was not reported: the run list cannot ask for that.
    """

    label: str
    narrowed: str
    runs: str
    group: Group
    offered: str
    withheld: str
    effect: str
    span: str
    verdict: str
    tone: str
    words: str
    warning: str
    resolved: str
    resolved_span: str
    tokens_per_resolved: str
    wait: str


@dataclass(frozen=True, slots=True)
class CostRow:
    """What a situation cost on average, by arm, as texts."""

    label: str
    meaning: str
    offered: str
    withheld: str


@dataclass(frozen=True, slots=True)
class StepRow:
    """A stage of the funnel; the rates with their intervals."""

    name: str
    count: int
    of_previous: str
    of_first: str


@dataclass(frozen=True, slots=True)
class DayRow:
    day: str
    n_activations: int
    n_injecting: int
    tokens: int
    offered: str
    withheld: str


@dataclass(frozen=True, slots=True)
class Loss:
    """A reason why knowledge went no further, and how often."""

    kind: str
    reason: str
    meaning: str
    n: int
    runs: str


@dataclass(frozen=True, slots=True)
class StratumRow:
    stratum: Stratum
    label: str
    offered: str
    withheld: str
    effect: str


@dataclass(frozen=True, slots=True)
class EffectPage:
    """The whole page. `figures` are those of debugger.charts by name, those that would be empty left out."""

    asked: Asked
    report: EffectReport
    total: Row
    rows: tuple[Row, ...]
    steps: tuple[StepRow, ...]
    days: tuple[DayRow, ...]
    losses: tuple[Loss, ...]
    costs: tuple[CostRow, ...]
    tokens_per_gained: str
    strata: tuple[StratumRow, ...]
    n_strata_left_out: int
    figures: Mapping[str, Any]
    is_empty: bool
    has_draws: bool
    warnings: tuple[str, ...]
    export_query: str


def read_asked(params: Mapping[str, str], today: date) -> Asked:
    """Return what an address asks for. Raises AskedWrongly naming the parameter, its limit and what would do."""
    for name in params:
        if name not in PARAMETERS:
            raise AskedWrongly(f"unknown parameter {name[:50]!r}; known are {', '.join(PARAMETERS)}")
    group = params.get("group") or "trigger"
    if group not in GROUPS:
        raise AskedWrongly(f"group must be one of: {', '.join(GROUPS)}")
    where = {name: params[name] for name in FILTERS if params.get(name)}
    for name, value in where.items():
        if len(value) > TEXT_MOST or "\x00" in value:
            raise AskedWrongly(f"{name} must be a text of at most {TEXT_MOST} characters")
    since, until = _days_of(params, today)
    return Asked(since, until, group, where)


def _days_of(params: Mapping[str, str], today: date) -> tuple[date, date]:
    days = params.get("days") or PERIOD
    if days not in PERIODS:
        raise AskedWrongly(f"days must be one of: {', '.join(PERIODS)}")
    until = _day(params, "until") or today
    since = _day(params, "since") or until - timedelta(days=int(days) - 1)
    if since > until:
        raise AskedWrongly("since must not be later than until")
    if (until - since).days >= DAYS_MOST:
        raise AskedWrongly(f"since and until must be at most {DAYS_MOST} days apart")
    return since, until


def _day(params: Mapping[str, str], name: str) -> date | None:
    raw = params.get(name, "")
    day = parse_day(raw)
    if raw and day is None:
        raise AskedWrongly(f"{name} must be a day such as 2026-01-31")
    return day


def effect_page(project_id: int, slug: str, asked: Asked) -> EffectPage:
    """Return the page of a report."""
    return lay_out(make_report(project_id, asked), slug)


def lay_out(report: EffectReport, slug: str) -> EffectPage:
    """Return the page: rows, figures, addresses. Pure."""
    asked, total = report.asked, report.total
    rows = tuple(_row(group, asked, slug) for group in report.groups)
    runs = {row.group.value: row.runs for row in rows}
    strata = list(report.strata.items())
    losses = _losses(total, asked, slug)
    costs = costs_of(total.arms, total.near)
    return EffectPage(
        asked=asked,
        report=report,
        total=_row(total, asked, slug, is_total=True),
        rows=rows,
        steps=tuple(_step(step) for step in total.steps),
        days=tuple(_day_row(day) for day in report.days),
        losses=losses,
        costs=_costs(costs),
        tokens_per_gained="" if costs.tokens_per_gained is None else f"{costs.tokens_per_gained:,.0f}",
        strata=tuple(_stratum(stratum, found) for stratum, found in strata[:STRATA_SHOWN]),
        n_strata_left_out=max(len(strata) - STRATA_SHOWN, 0),
        figures=figures_of(report, runs),
        is_empty=not total.counts["n_activations"] and not total.counts["n_skipped"],
        has_draws=total.arms.n_points > 0,
        warnings=tuple(dict.fromkeys(verdict.warning for verdict in (total.near, total.far) if verdict.warning)),
        export_query=query_of(asked, {}),
    )


def _row(group: Group, asked: Asked, slug: str, *, is_total: bool = False) -> Row:
    value = {} if is_total else {asked.group: group.value}
    effect = group.near.effect
    span = group.near.sequence
    return Row(
        label="all" if is_total else group_label(asked.group, group.value),
        narrowed="" if is_total or not group.value else "?" + query_of(asked, value),
        runs=runs_address(slug, asked, value) if is_total or group.value else "",
        group=group,
        offered=tally_words(group.arms.offered.near),
        withheld=tally_words(group.arms.withheld.near),
        effect=in_points(effect.value) if effect else "",
        span=f"{in_points(span.low)} to {in_points(span.high)}" if span else "",
        verdict=group.near.word,
        tone=TONES.get(group.near.word, "soft"),
        words=group.near.words,
        warning=group.near.warning,
        resolved=f"{percent(group.resolved.value)} of {group.resolved.n:,}" if group.resolved.n else "–",
        resolved_span=rate_words(group.resolved),
        tokens_per_resolved="–" if group.tokens_per_resolved is None else f"{group.tokens_per_resolved:,.0f}",
        wait=f"{duration_words(group.waited_p50)} · {duration_words(group.waited_p95)}",
    )


def _step(step: Step) -> StepRow:
    return StepRow(step.name, step.of_first.count, rate_words(step.of_previous), rate_words(step.of_first))


def _day_row(day: Day) -> DayRow:
    rates = (percent(day.offered), percent(day.withheld))
    return DayRow(day.day.isoformat(), day.n_activations, day.n_injecting, day.tokens, *rates)


def query_of(asked: Asked, changed: Mapping[str, str]) -> str:
    """Return the parameters of this report with some filters changed; empty values take a filter away."""
    values = {"since": asked.since.isoformat(), "until": asked.until.isoformat(), "group": asked.group}
    return urlencode({**values, **{name: value for name, value in {**asked.where, **changed}.items() if value}})


def runs_address(slug: str, asked: Asked, more: Mapping[str, str]) -> str:
    """Return the address of the runs behind a number, as far as the run list can tell them apart."""
    wanted = {OF_RUNS[name]: value for name, value in {**asked.where, **more}.items() if value and name in OF_RUNS}
    since, until = asked.since.isoformat(), (asked.until + timedelta(days=1)).isoformat()
    days = {"since": f"{since}T00:00:00Z", "until": f"{until}T00:00:00Z"}
    return f"/{slug}/runs/?{urlencode({**wanted, **days})}"


def _costs(costs: CostReport) -> tuple[CostRow, ...]:
    offered, withheld = costs.offered, costs.withheld
    return tuple(
        CostRow(label, meaning, written(getattr(offered, name)), written(getattr(withheld, name)))
        for name, (label, meaning, written) in COSTS.items()
    )


def _losses(total: Group, asked: Asked, slug: str) -> tuple[Loss, ...]:
    found = []
    for kind, (label, meanings) in LOSSES.items():
        for reason, n in sorted(total.words.get(kind, {}).items(), key=lambda item: (-item[1], item[0])):
            runs = runs_address(slug, asked, {"drop_reason": reason}) if kind == "drop" else ""
            found.append(Loss(label, reason, meanings.get(reason, ""), n, runs))
    return tuple(found)


def _stratum(stratum: Stratum, found: Difference) -> StratumRow:
    attempt = f"attempt {stratum.attempt}{' or later' if stratum.attempt >= ATTEMPT_LIMIT else ''}"
    share = "share not reported" if stratum.share is None else f"{percent(stratum.share)} withheld"
    label = " · ".join(part for part in (stratum.trigger, stratum.tool_class, attempt, share) if part)
    known = found.value is not None and found.low is not None and found.high is not None
    effect = f"{in_points(found.value)} ({in_points(found.low)} to {in_points(found.high)})" if known else "–"  # type: ignore[arg-type]
    return StratumRow(stratum, label, tally_words(found.offered), tally_words(found.withheld), effect)
