"""Figures of the reports: what stands in them, and that a sender's words are no markup there."""

import json

from debugger.charts import Bar, Interval, Line, bars, forest, lines

ROWS = [
    Interval("tool.failed", 0.125, 0.05, 0.2, "ok", "/demo/runs/?trigger=tool.failed"),
    Interval("<b>x</b> %{y} & co", -0.1, -0.3, 0.1, "bad"),
    Interval("w" * 60, 0.0, -0.1, 0.1, "soft"),
    Interval("w" * 70, 0.0, -0.1, 0.1, "soft"),
]


def test_a_forest_has_points_intervals_and_addresses() -> None:
    """Shares become percentage points; the interval is told as distances from the point, as Plotly wants it."""
    figure = forest(ROWS, title="Effect", small=0.03)
    (trace,) = figure["data"]
    assert trace["x"] == [12.5, -10.0, 0.0, 0.0]
    assert [round(value, 6) for value in trace["error_x"]["array"]] == [7.5, 20.0, 10.0, 10.0]
    assert [round(value, 6) for value in trace["error_x"]["arrayminus"]] == [7.5, 20.0, 10.0, 10.0]
    assert trace["customdata"][0] == "/demo/runs/?trigger=tool.failed"
    band = figure["layout"]["shapes"][0]
    assert (band["x0"], band["x1"]) == (-3.0, 3.0)


def test_labels_are_no_markup_and_no_two_are_alike() -> None:
    """Plotly reads tags, entities and templates in labels; two rows with one label would become one row."""
    labels = forest(ROWS, title="Effect", small=0.03)["data"][0]["y"]
    assert not any(sign in label for label in labels for sign in ("<", ">", "&", "%{"))
    assert len(set(labels)) == len(ROWS)
    assert all(len(label) <= 60 for label in labels)


def test_every_figure_is_plain_json_in_the_colours_of_the_page() -> None:
    """No figure holds a colour of its own: each is a variable of the style sheet."""
    figures = [
        forest(ROWS, title="Effect", small=0.03),
        bars([Bar("retrieved", 5, note="100%"), Bar("offered", 3)], title="Funnel", unit="hints"),
        lines(
            [Line("withheld", ["2026-01-01", "2026-01-02"], [0.5, None], "warn")], title="Days", unit="", is_share=True
        ),
    ]
    for figure in figures:
        text = json.dumps(figure)
        assert "#" not in text and "rgb" not in text
        assert "var(--" in text


def test_bars_say_their_number_and_lines_keep_their_gaps() -> None:
    """A number is readable without pointing at it; an unknown day is a gap and not a zero."""
    figure = bars([Bar("retrieved", 1234, note="100%")], title="Funnel", unit="hints")
    assert figure["data"][0]["text"] == ["1,234 · 100%"]
    figure = lines([Line("withheld", ["a", "b"], [0.5, None], "warn")], title="Days", unit="share", is_share=True)
    assert figure["data"][0]["y"] == [0.5, None]
    assert figure["layout"]["yaxis"]["range"] == [0, 1]
