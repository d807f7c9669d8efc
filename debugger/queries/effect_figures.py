"""The figures of a report of effects, each with the numbers of a table that stands beside it. Pure."""

from collections.abc import Mapping, Sequence
from typing import Any

from debugger import charts
from debugger.queries.effect_words import TONES, group_label, percent
from knowledge.effect_report import Day, EffectReport, Group
from knowledge.effects.rates import Step
from knowledge.effects.verdicts import PRACTICAL


def figures_of(report: EffectReport, runs: Mapping[str, str]) -> dict[str, Any]:
    """Return the figures by name, those that would be empty left out; `runs` is the address behind each group."""
    figures: dict[str, Any] = {}
    intervals = [found for group in report.groups for found in _interval(group, report.asked.group, runs)]
    if intervals:
        figures["forest"] = charts.forest(intervals, title="Effect of offering, with its interval", small=PRACTICAL)
    if report.total.counts["n_retrieved"]:
        bars = [_bar(step) for step in report.total.steps]
        figures["funnel"] = charts.bars(bars, title="How far knowledge came", unit="candidates")
    if len(report.days) > 1:
        figures["activity"] = charts.lines(_activity(report.days), title="Searches a day", unit="searches")
        if any(day.offered is not None and day.withheld is not None for day in report.days):
            lines = _outcomes(report.days)
            figures["outcomes"] = charts.lines(lines, title="Good outcomes a day, by arm", unit="", is_share=True)
    return figures


def _interval(group: Group, by: str, runs: Mapping[str, str]) -> list[charts.Interval]:
    effect, span = group.near.effect, group.near.sequence
    if effect is None or span is None:
        return []
    tone, label = TONES.get(group.near.word, "soft"), group_label(by, group.value)
    return [charts.Interval(label, effect.value, span.low, span.high, tone, runs[group.value])]


def _bar(step: Step) -> charts.Bar:
    tone = "ok" if step.name == "helpful" else "hint"
    return charts.Bar(step.name, step.of_first.count, tone, percent(step.of_first.value))


def _activity(days: Sequence[Day]) -> list[charts.Line]:
    xs = [day.day.isoformat() for day in days]
    return [
        charts.Line("searches", xs, [day.n_activations for day in days], "accent"),
        charts.Line("of them with injected hints", xs, [day.n_injecting for day in days], "hint"),
    ]


def _outcomes(days: Sequence[Day]) -> list[charts.Line]:
    xs = [day.day.isoformat() for day in days]
    return [
        charts.Line("with hints", xs, [day.offered for day in days], "hint"),
        charts.Line("withheld", xs, [day.withheld for day in days], "soft", "dash"),
    ]
