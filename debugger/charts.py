"""From rows of a report to Plotly figures, as plain data. Pure: no database, no words of its own beside axis titles.

A colour is a variable of `static/app.css` (`var(--hint)`); `static/charts.js` puts in what the viewer's light or dark
look makes of it. `customdata` of a point is the address its number leads to. Each chart stands beside a table with
the same numbers. (Seed 001 §16.4, §18.)
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import plotly.graph_objects as go

ROW_PX: Final = 34  # height of one line of a chart whose lines are words
FRAME_PX: Final = 72  # axis and margins
LABEL_SHOWN: Final = 48  # code points of a label on an axis; the table beside it has the whole


@dataclass(frozen=True, slots=True)
class Interval:
    """An estimate and its interval, as shares (0.1 is ten points); `href` is where its number leads."""

    label: str
    value: float
    low: float
    high: float
    tone: str  # a colour of app.css without its dashes: ok, bad, warn, soft
    href: str = ""


@dataclass(frozen=True, slots=True)
class Bar:
    """How many of something there are; `note` stands beside the number."""

    label: str
    number: float
    tone: str = "hint"
    note: str = ""
    href: str = ""


@dataclass(frozen=True, slots=True)
class Line:
    """A line over days (ISO dates) or other ordered places; an unknown value is None, and the line has a gap there."""

    label: str
    xs: Sequence[str | float]
    ys: Sequence[float | None]
    tone: str
    dash: str = "solid"


def forest(rows: Sequence[Interval], *, title: str, small: float) -> dict[str, Any]:
    """Return the figure of effects with their intervals, first row on top, the band of no practical effect shaded.

    `small` is half the width of that band, as a share.
    """
    figure = _figure(title, "percentage points", len(rows))
    figure.add_vrect(x0=-small * 100, x1=small * 100, fillcolor="var(--faint)", line_width=0, layer="below")
    figure.add_vline(x=0, line={"color": "var(--soft)", "width": 1})
    _add_intervals(figure, rows, "+")
    return _data(figure)


def shares(rows: Sequence[Interval], *, title: str) -> dict[str, Any]:
    """Return the figure of shares with their intervals, as percent from 0 to 100, first row on top."""
    figure = _figure(title, "percent", len(rows))
    _add_intervals(figure, rows, "")
    figure.update_xaxes(range=[0, 100])
    return _data(figure)


def _add_intervals(figure: go.Figure, rows: Sequence[Interval], sign: str) -> None:
    figure.add_scatter(
        x=[100 * row.value for row in rows],
        y=_labels([row.label for row in rows]),
        mode="markers",
        marker={"color": [f"var(--{row.tone})" for row in rows], "size": 9},
        error_x={
            "type": "data",
            "symmetric": False,
            "array": [100 * (row.high - row.value) for row in rows],
            "arrayminus": [100 * (row.value - row.low) for row in rows],
            "color": "var(--soft)",
            "thickness": 1.5,
            "width": 4,
        },
        customdata=[row.href for row in rows],
        text=[f"{100 * row.value:{sign}.1f} ({100 * row.low:{sign}.1f} to {100 * row.high:{sign}.1f})" for row in rows],
        hovertemplate="%{y}: %{text}<extra></extra>",
    )


def bars(rows: Sequence[Bar], *, title: str, unit: str) -> dict[str, Any]:
    """Return the figure of lying bars, first row on top, each with its number written beside it."""
    figure = _figure(title, unit, len(rows))
    figure.add_bar(
        x=[row.number for row in rows],
        y=_labels([row.label for row in rows]),
        orientation="h",
        marker={"color": [f"var(--{row.tone})" for row in rows]},
        text=[f"{row.number:,.0f}{f' · {row.note}' if row.note else ''}" for row in rows],
        textposition="outside",
        cliponaxis=False,
        customdata=[row.href for row in rows],
        hovertemplate="%{y}: %{text}<extra></extra>",
    )
    figure.update_xaxes(rangemode="tozero", automargin=True)
    return _data(figure)


def lines(rows: Sequence[Line], *, title: str, unit: str, is_share: bool = False) -> dict[str, Any]:
    """Return the figure of lines over time or another ordered axis; shares are drawn as percent from 0 to 100."""
    figure = _figure(title, "", 6)
    for row in rows:
        figure.add_scatter(
            x=list(row.xs),
            y=list(row.ys),
            name=row.label,
            mode="lines+markers",
            line={"color": f"var(--{row.tone})", "dash": row.dash, "width": 1.5},
            marker={"size": 5},
            hovertemplate=f"%{{x}}: %{{y{':.0%' if is_share else ''}}}<extra>{_plain(row.label)}</extra>",
        )
    figure.update_yaxes(title={"text": unit}, rangemode="tozero", autorange=True, type="linear")
    if is_share:
        figure.update_yaxes(range=[0, 1], tickformat=".0%", autorange=False)
    figure.update_layout(showlegend=True, legend={"orientation": "h", "y": 1.16, "x": 0})
    return _data(figure)


def _figure(title: str, unit: str, n_rows: int) -> go.Figure:
    figure = go.Figure()
    axis = {
        "gridcolor": "var(--line)",
        "linecolor": "var(--line)",
        "zeroline": False,
        "automargin": True,
        "fixedrange": True,
    }
    figure.update_layout(
        template=None,
        title=None,
        meta={"title": title},
        height=FRAME_PX + ROW_PX * max(n_rows, 1),
        margin={"l": 8, "r": 24, "t": 12, "b": 40},
        paper_bgcolor="var(--panel)",
        plot_bgcolor="var(--panel)",
        font={"color": "var(--ink)", "size": 12},
        hoverlabel={"bgcolor": "var(--panel)", "bordercolor": "var(--line)", "font": {"color": "var(--ink)"}},
        showlegend=False,
        bargap=0.4,
        xaxis={**axis, "title": {"text": unit}},
        yaxis={**axis, "autorange": "reversed", "type": "category"},
    )
    return figure


def _labels(labels: Sequence[str]) -> list[str]:
    """Return labels short enough for an axis, no two of them alike, without what Plotly would read as markup."""
    seen: dict[str, int] = {}
    found = []
    for label in labels:
        short = _plain(label if len(label) <= LABEL_SHOWN else label[: LABEL_SHOWN - 1] + "…")
        seen[short] = seen.get(short, 0) + 1
        found.append(short if seen[short] == 1 else f"{short} ({seen[short]})")
    return found


def _plain(text: str) -> str:
    """Return the text with the characters replaced that start markup or a template in Plotly."""
    return text.replace("&", "＆").replace("<", "‹").replace(">", "›").replace("%{", "% {")


def _data(figure: go.Figure) -> dict[str, Any]:
    return dict(figure.to_plotly_json())
