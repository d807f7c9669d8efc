"""The figures of the behavioural benchmark on rows made up here, and the documents made of them."""

import json
from dataclasses import replace

import pytest

from bench.behaviour.figures import arm_figures, difference, item_figures, rate
from bench.behaviour.report import About, checks, document, is_same
from bench.behaviour.rows import Row
from bench.behaviour.words import markdown
from debugger.queries.behaviour_reports import lay_out

ABOUT = About(
    "scripted", "It proves that.", "python -m bench.behaviour", (1,), {"python": "3"}, "2026", "", 1.0, 2.0, 0.5
)


def row(task: str, arm: str, success: bool, **fields: object) -> Row:
    """A run of a task with a fitting item."""
    given = {"kind": "invented", "seed": 1, "project": "p", "run_id": f"{task}-{arm}", "status": "completed"} | fields
    return Row(task=task, arm=arm, success=success, **given)  # type: ignore[arg-type]


def pairs(outcomes: dict[tuple[bool, bool], int]) -> list[Row]:
    """Rows of runtime and control by how both ended."""
    rows = []
    for (one, other), count in outcomes.items():
        for number in range(count):
            task = f"t-{one}-{other}-{number}"
            rows += [row(task, "runtime", one), row(task, "priming", other)]
    return rows


def test_a_difference_is_paired_and_tested_exactly() -> None:
    """McNemar looks at the pairs that differ: 9 against 1 is p = 22/1024, whatever the others did."""
    rows = pairs({(True, False): 9, (False, True): 1, (True, True): 5, (False, False): 5})
    found = difference(rows, "runtime", "priming", "all")
    assert found is not None
    assert (found.n, found.won, found.lost) == (20, 9, 1)
    assert found.difference == pytest.approx(0.4)
    assert found.p == pytest.approx(22 / 1024)
    assert 0 < found.low < 0.4 < found.high < 1
    assert found == difference(list(reversed(rows)), "runtime", "priming", "all")


def test_a_run_without_its_pair_does_not_count() -> None:
    """A task that only one of the two arms ran is left out, and no pair is no difference."""
    rows = [row("a", "runtime", True), row("a", "priming", False), row("b", "runtime", True)]
    found = difference(rows, "runtime", "priming", "all")
    assert found is not None
    assert found.n == 1
    assert difference(rows, "runtime", "placebo", "all") is None


def test_arms_that_never_differ_are_not_told_apart() -> None:
    """No pair that differs: p is 1 and the interval is a point."""
    found = difference(pairs({(True, True): 3, (False, False): 3}), "runtime", "priming", "all")
    assert found is not None
    assert (found.p, found.difference, found.low, found.high) == (1.0, 0.0, 0.0, 0.0)


def test_seeds_of_one_task_are_drawn_together() -> None:
    """Ten seeds of two tasks are two draws, not twenty: the interval reaches as far as the tasks differ."""
    rows = [
        row(task, arm, arm == "runtime" and task == "good", seed=seed)
        for task in ("good", "bad")
        for arm in ("runtime", "priming")
        for seed in range(10)
    ]
    found = difference(rows, "runtime", "priming", "all")
    assert found is not None
    assert (found.n, found.difference, found.low, found.high) == (20, 0.5, 0.0, 1.0)


def test_a_share_of_nothing_has_no_interval() -> None:
    """Of nothing there is no rate; of ten it is as Wilson has it."""
    assert (rate(0, 0).rate, rate(0, 0).low) == (None, None)
    wilson = rate(1, 10)
    assert wilson.rate == 0.1
    assert (wilson.low, wilson.high) == (pytest.approx(0.0179, abs=1e-4), pytest.approx(0.4042, abs=1e-4))


def test_an_arm_is_counted_from_its_runs() -> None:
    """Means a run, shares of hints, percentiles over all searches and turns, tokens over what was reached."""
    rows = [
        row("a", "runtime", True, tokens=100, token_limit=400, resolved=1, n_injected=1, used=1, helpful=1,
            latencies_ms=(10.0, 20.0), waits_ms=(0.0, 30.0), n_activations=2),
        row("b", "runtime", False, tokens=60, token_limit=400, failed_repeats=2, useless_repeats=1, n_injected=1,
            foreign=1, harmful=1, waits_ms=(0.0,)),
    ]  # fmt: skip
    found = arm_figures("runtime", rows)
    assert (found.success.count, found.n) == (1, 2)
    assert (found.failed_repeats, found.useless_repeats, found.tokens) == (1.0, 0.5, 80.0)
    assert (found.used_share.rate, found.foreign.rate, found.active_share.rate) == (0.5, 0.5, 0.5)
    assert (found.helpful, found.harmful) == (1, 1)
    assert (found.latency_p50, found.wait_p50, found.wait_p95) == (15.0, 0.0, pytest.approx(27.0))
    assert (found.tokens_per_success, found.tokens_per_resolved, found.budget_use) == (160.0, 160.0, 0.2)


def test_an_item_that_is_acted_on_in_vain_is_flagged() -> None:
    """Being used flags nothing as good: what counts is how the folder was in the end."""
    rows = [
        row("bad", "runtime", False, own_injected=True, used=1, helpful=1),
        row("good", "runtime", True, own_injected=True, used=1, helpful=1),
        row("idle", "runtime", False, own_injected=True, neutral=1),
        row("mixed", "runtime", False, own_injected=True, used=1, harmful=1),
        row("mixed", "runtime", True, own_injected=True, used=1, helpful=1, seed=2),
        row("luck", "runtime", True, own_injected=True, used=1, harmful=1),
        row("other", "runtime", False, foreign=1, used=1, harmful=1),
    ]
    assert {item.task: item.flag for item in item_figures(rows)} == {
        "bad": "harmful",
        "luck": "harmful",
        "good": "helpful",
        "idle": "",
        "mixed": "",
    }


def test_the_checks_of_the_mechanism_can_fail() -> None:
    """Each mark is met by rows that are good and missed by rows that are not."""
    good = pairs({(True, False): 19, (False, False): 1})
    assert {one["id"]: one["met"] for one in checks(good)} == {"runtime": True, "control": True}
    bad = pairs({(True, True): 3, (False, False): 7})
    bad += [row(f"t-True-True-{number}", "placebo", False) for number in range(3)]
    bad += [replace(row("w", "runtime", True, own_injected=True, used=1), kind="wrong")]
    assert {one["id"]: one["met"] for one in checks(bad)} == {
        "runtime": False,
        "control": False,
        "placebo": True,
        "wrong": False,
    }


def test_a_document_has_every_row_and_its_page_can_be_read() -> None:
    """The JSON survives the way to disk and back; a sweep stands apart; no number of the page is None."""
    rows = pairs({(True, False): 2, (False, False): 1})
    swept = [replace(rows[0], part="sweep", budget=budget, arm="runtime") for budget in ("800x1", "100x1", "100x2")]
    told = document(ABOUT, [*rows, *swept])
    assert json.loads(json.dumps(told)) == told
    assert [run["run_id"] for run in told["runs"]] == [one.run_id for one in rows]
    assert [(line["tokens"], line["hints"]) for line in told["sweep"]] == [(100, 1), (100, 2), (800, 1)]
    page = markdown(told)
    assert "It proves that." in page
    assert "None" not in page
    assert page.count("| t-True-False-0 |") == 2
    assert all(line.count("|") == 10 for line in page.splitlines() if line.startswith("| runtime | priming |"))


def test_a_report_of_an_open_corpus_is_told_beside() -> None:
    """How many items the start brought, by which command, and what the arms came to with it."""
    rows = pairs({(True, False): 2, (True, True): 1})
    opened = [replace(one, primed=one.success and one.arm == "priming") for one in rows]
    page = markdown(document(ABOUT, rows), document(replace(ABOUT, command="other --any-moment"), opened))
    assert "by `other --any-moment`" in page
    assert "in 1 of 3 tasks" in page
    assert "other --any-moment" not in markdown(document(ABOUT, rows))


def test_other_agents_are_held_to_no_mark() -> None:
    """Only the scripted agent proves a mechanism."""
    told = document(replace(ABOUT, agent="choice_model"), pairs({(False, False): 2}))
    assert told["checks"] == []
    assert "MISSED" not in markdown(told)


def test_the_same_results_are_the_same_whatever_they_took() -> None:
    """Times and ids may differ, nothing else."""
    one = row("a", "runtime", True, latencies_ms=(1.0,))
    assert is_same([one], [replace(one, latencies_ms=(2.0,), waits_ms=(3.0,), run_id="other")])
    assert not is_same([one], [replace(one, tokens=1)])


def test_the_page_of_experiments_can_read_the_document() -> None:
    """What the debugger lists of an arm, a comparison, a budget and a run is there and of its form."""
    rows = [*pairs({(True, False): 2, (False, True): 1}), row("n", "runtime", False, kind="none", foreign=1)]
    swept = [replace(rows[0], part="sweep", budget="100x2", n_activations=1)]
    report = lay_out(
        "behaviour-scripted-1", document(replace(ABOUT, made_at="2026-11-30T03:00:00+00:00"), rows + swept)
    )
    control, runtime = report.arms
    assert (control.id, control.success.n_solved, control.success.n) == ("priming", 1, 3)
    assert (runtime.success.n_solved, runtime.numbers["false_injections"]) == (2, 1)
    assert (report.comparisons[0].n_won, report.comparisons[0].n_lost) == (2, 1)
    assert [(point.tokens, point.hints, point.numbers["with_activation"]) for point in report.sweep] == [(100, 2, 1)]
    assert len(report.runs) == len(rows)
