"""Two runs side by side: what is paired, what differs, and that the sides are only sides."""

import itertools
import random
from typing import Any

import pytest

from debugger.queries.compare import CELLS, SAME, Pair, TurnPairs, align, counts_of, first_difference
from debugger.queries.compare_facts import Fact, settings_of
from debugger.queries.compare_hints import hint_lines, situation_lines
from debugger.queries.compare_rows import Told, own_pattern, settle, tell_rows
from debugger.queries.compare_words import where_first
from debugger.queries.timeline import build_timeline
from ingest.journal import JournalEvent
from knowledge.fold import fold_run
from knowledge.models import Activation, Candidate
from tests.debugger.test_queries_timeline import journal
from tests.factories import Recorder, typical_run
from tests.knowledge.streams import arrive, recorded, recorded_names

MIRRORED = {"same": "same", "changed": "changed", "only_a": "only_b", "only_b": "only_a"}


def told(events: list[JournalEvent]) -> tuple[Told, ...]:
    run_id = events[0].run_id if events else "none"
    return tell_rows(build_timeline(events).rows, {event.event_id: event for event in events}, run_id)


def lines(turns: tuple[TurnPairs, ...]) -> list[tuple[str, Pair]]:
    return [(turn.title, pair) for turn in turns for pair in turn.pairs]


def mirrored(turns: tuple[TurnPairs, ...]) -> list[tuple[str, list[tuple[Any, ...]]]]:
    """The comparison as its mirror shows it; the order of what stands alone on either side is left open."""
    return [
        (turn.title, sorted((pair.b.key if pair.b else "", pair.a.key if pair.a else "", MIRRORED[pair.verdict],
                             pair.differs) for pair in turn.pairs))
        for turn in turns
    ]  # fmt: skip


def plainly(turns: tuple[TurnPairs, ...]) -> list[tuple[str, list[tuple[Any, ...]]]]:
    return [
        (turn.title, sorted((pair.a.key if pair.a else "", pair.b.key if pair.b else "", pair.verdict,
                             pair.differs) for pair in turn.pairs))
        for turn in turns
    ]  # fmt: skip


def disturbed(events: list[JournalEvent], seed: int) -> list[JournalEvent]:
    """The same run with some events lost and some copied, in another order of arrival."""
    chance = random.Random(seed)
    kept = [event for event in events if chance.random() > 0.15]
    chance.shuffle(kept)
    kept += chance.sample(kept, min(3, len(kept)))
    return arrive(sorted(kept, key=lambda event: (event.seq is None, event.seq or 0, event.occurred_ns)))


RUNS = {name: recorded(name) for name in recorded_names()} | {"typical": journal(typical_run())}


@pytest.mark.parametrize("name", RUNS)
def test_a_run_beside_itself_has_no_difference(name: str) -> None:
    """Whatever a run holds, beside itself every row stands with its own, and there is no first difference."""
    for events in (RUNS[name], *(disturbed(RUNS[name], seed) for seed in range(4))):
        rows = told(events)
        turns = align(rows, rows)
        assert [pair.verdict for _, pair in lines(turns)] == [SAME] * len(rows)
        assert all(pair.a is pair.b for _, pair in lines(turns))
        assert first_difference(turns) is None and where_first(turns) is None
        assert settings_of(events, events).different == ()


@pytest.mark.parametrize(("one", "other"), list(itertools.combinations(RUNS, 2)))
def test_a_comparison_is_its_own_mirror(one: str, other: str) -> None:
    """A beside B is B beside A with the sides changed; every row of both stands in it once, in its order."""
    for events in (RUNS[other], disturbed(RUNS[other], 1), disturbed(RUNS[one], 2)):
        a, b = told(RUNS[one]), told(events)
        turns = align(a, b)
        assert plainly(align(b, a)) == mirrored(turns)
        for side, rows in (("a", a), ("b", b)):
            shown = [row.key for _, pair in lines(turns) if (row := getattr(pair, side)) is not None]
            assert sorted(shown) == sorted(told.row.key for told in rows)
        for turn in turns:
            both = [pair for pair in turn.pairs if pair.a and pair.b]
            order_b = [told.row.key for told in b]
            places = [order_b.index(pair.b.key) for pair in both if pair.b]
            assert places == sorted(places)
        n = counts_of(turns)
        assert n["same"] + n["changed"] + n["only_a"] == len(a)
        assert n["same"] + n["changed"] + n["only_b"] == len(b)


def test_another_name_and_another_time_are_no_difference() -> None:
    """The same happened under another id, hours later: every row tells the same."""
    later = Recorder().now.replace(hour=19)
    turns = align(told(journal(typical_run("r-42"))), told(journal(typical_run("elsewhere", later))))
    assert first_difference(turns) is None


def scripted(run_id: str, *calls: tuple[str, str, str], ended: str = "run.completed") -> list[JournalEvent]:
    """A run of one turn that makes `calls` of (tool, arguments, result; what begins with "!" is a failure)."""
    to = Recorder(run_id)
    to.add("run.started", {"task": "Build"})
    asked = to.add("model.requested", {"n_messages": 2}, turn=1)
    to.add("model.completed", {"text": "Working"}, turn=1, caused_by=asked)
    for number, (tool, arguments, result) in enumerate(calls):
        ids = {"turn": 1, "call_id": f"{run_id}-c{number}", "tool": tool}
        to.add("tool.requested", {"arguments": arguments}, **ids)
        if result.startswith("!"):
            to.add("tool.failed", {"status": "failed", "error_class": "exit", "detail": result[1:]}, **ids)
        else:
            to.add("tool.completed", {"result": result}, **ids)
    to.add(ended, {"answer": "Done"})
    return journal(to.events)


def compared(a: list[JournalEvent], b: list[JournalEvent]) -> list[tuple[str, str, tuple[str, ...]]]:
    return [
        ((pair.a or pair.b).kind, pair.verdict, pair.differs)  # type: ignore[union-attr]
        for _, pair in lines(align(told(a), told(b)))
        if pair.verdict != SAME
    ]


def test_what_a_changed_row_differs_in_is_named() -> None:
    """A result that the row does not show, a failure, other arguments: each in its words."""
    before = scripted("one-run", ("shell", "make", "3 passed"))
    assert compared(before, scripted("two-run", ("shell", "make", "2 passed"))) == [("tool", "changed", ("result",))]
    [(_, _, differs)] = compared(before, scripted("two-run", ("shell", "make", "!no rule")))
    assert "how it ended" in differs and "error text" in differs
    assert compared(before, scripted("two-run", ("shell", "make all", "3 passed"))) == [
        ("tool", "changed", ("arguments",))
    ]
    assert compared(before, scripted("two-run", ("shell", "make", "3 passed"), ended="run.failed")) == [
        ("run.completed", "only_a", ()),
        ("run.failed", "only_b", ()),
    ]


def test_a_difference_that_no_row_shows_is_shown() -> None:
    """The first line of a result that is another stands with both rows; of another question there is nothing to say."""
    one, other = "1 failed\n2 passed at 03:12:08", "1 failed\n3 passed at 09:00:00"
    turns = align(
        told(scripted("one-run", ("shell", "make", one))), told(scripted("two-run", ("shell", "make", other)))
    )
    [pair] = [pair for _, pair in lines(turns) if pair.verdict != SAME]
    assert pair.unseen == ("2 passed at <time>", "3 passed at <time>")
    asked = align(told(scripted("one-run", ("shell", "a", one))), told(scripted("two-run", ("shell", "b", other))))
    assert [pair.unseen for _, pair in lines(asked) if pair.verdict != SAME] == [("", "")]


def test_a_call_more_moves_nothing_else() -> None:
    """A call that only one run made stands alone; the calls around it stay beside their own."""
    a = scripted("one-run", ("shell", "ls", "x"), ("shell", "make", "ok"))
    b = scripted("two-run", ("shell", "ls", "x"), ("notes", "look", "n"), ("shell", "make", "ok"))
    assert compared(a, b) == [("tool", "only_b", ())]
    found = where_first(align(told(a), told(b)))
    assert found is not None
    assert (found.title, found.said) == ("Turn 1", "B has a call here that A has not")
    found = where_first(align(told(b), told(a)))
    assert found is not None and found.said == "A has a call here that B has not"


def test_rows_of_other_tools_are_never_one_line() -> None:
    """A call of another tool is no change of a call: both stand alone."""
    a, b = scripted("one-run", ("shell", "x", "y")), scripted("two-run", ("notes", "x", "y"))
    assert compared(a, b) == [("tool", "only_a", ()), ("tool", "only_b", ())]


def test_the_same_call_is_preferred_to_one_of_the_same_tool() -> None:
    """Of two calls that a row could stand beside, the one that was asked the same is taken."""
    a = scripted("one-run", ("shell", "make", "ok"))
    b = scripted("two-run", ("shell", "ls", "ok"), ("shell", "make", "!broken"))
    verdicts = {(pair.a.text if pair.a else "", pair.verdict) for _, pair in lines(align(told(a), told(b)))}
    assert ("shell make", "changed") in verdicts
    assert compared(a, b)[0][:2] == ("tool", "only_b")


def test_a_row_that_is_the_same_is_not_given_up_for_many_that_look_alike() -> None:
    """Three calls of the same tool could stand beside each other; the one that is the same in both decides."""
    a = scripted("one-run", ("shell", "make", "ok"), *(("shell", f"a{number}", "x") for number in range(3)))
    b = scripted("two-run", *(("shell", f"b{number}", "x") for number in range(3)), ("shell", "make", "ok"))
    turns = align(told(a), told(b))
    assert [pair.verdict for title, pair in lines(turns) if title == "Turn 1" and pair.a and "make" in pair.a.text] == [
        SAME
    ]
    assert counts_of(turns)["only_a"] == counts_of(turns)["only_b"] == 3


def test_more_rows_than_are_weighed_are_paired_in_their_order() -> None:
    """Beyond the bound nothing is weighed, the turn says so, and no row is lost."""
    n = int(CELLS**0.5) + 10
    a = scripted("one-run", *(("shell", f"a{number}", "x") for number in range(n)))
    b = scripted("two-run", *(("shell", f"b{number}", "x") for number in range(n)))
    turns = align(told(a), told(b))
    assert [turn.title for turn in turns if turn.in_order] == ["Turn 1"]
    assert counts_of(turns)["changed"] == n


@pytest.mark.parametrize(
    ("text", "settled"),
    [
        ("wrote runs/run-77/out", "wrote runs/<run>/out"),
        ("run-77:a1 and run-778", "<run>:a1 and run-778"),
        ("commit 3f2a9c1 at 2026-11-30T03:12:08.5Z", "commit <id> at <time>"),
        ("passed in 0.02s, seen at +1.42", "passed in <long>, seen at <time>"),
        ("id 5c1f77aa-0000-4000-8000-0123456789ab", "id <id>"),
        ("-rw-r--r-- 1 me 8192 Nov 30 18:26 shop.db", "-rw-r--r-- 1 me 8192 <time> shop.db"),
        ("exit 128, 3 passed, version 1.2", "exit 128, 3 passed, version 1.2"),
    ],
)
def test_only_what_differs_between_any_two_runs_is_taken_out(text: str, settled: str) -> None:
    """Ids and times go; numbers that say something stay."""
    assert settle(text, own_pattern("run-77")) == settled


def of_chain(name: str) -> tuple[list[Activation], list[Candidate]]:
    chain = fold_run(recorded(name))
    return (
        [Activation(**{field: getattr(one, field) for field in one.__slots__}) for one in chain.activations],
        [Candidate(**{field: getattr(one, field) for field in one.__slots__}) for one in chain.candidates],
    )


def test_hints_that_only_one_run_had_are_listed_with_what_became_of_them() -> None:
    """Beside a run whose hint was withheld on purpose, the other's was injected; one that nobody offered is no line."""
    helped, withheld = of_chain("hint_helped"), of_chain("holdout_withheld")
    found, _ = hint_lines(helped[1], withheld[1])
    assert found
    for line in found:
        assert line.word in ("both", "only in A", "only in B")
        assert any(fate is not None and fate.is_offered for fate in (line.a, line.b))
    assert {line.a.word for line in found if line.a} & {"injected", "injected and used"}
    assert {line.b.word for line in found if line.b} >= {"dropped"}
    mirror, _ = hint_lines(withheld[1], helped[1])
    assert [(line.b, line.a) for line in mirror] == [(line.a, line.b) for line in found]
    assert hint_lines(helped[1], helped[1])[0] == []


def test_a_situation_that_both_met_tells_what_came_of_it_in_each() -> None:
    """Runs that failed alike share the key; what came of it is told for each, and a run beside itself is the same."""
    helped, withheld = of_chain("hint_helped"), of_chain("holdout_withheld")
    both = [line for line in situation_lines(helped, withheld) if line.a and line.b]
    [line] = [line for line in both if line.trigger == "tool.failed"][:1]
    assert line.word == "other outcome"
    assert line.b is not None and line.b.searched == "withheld on purpose"
    assert {line.word for line in situation_lines(helped, helped)} == {"same outcome"}
    words = {"only in A": "only in B", "only in B": "only in A"}
    mirror = sorted(words.get(line.word, line.word) for line in situation_lines(withheld, helped))
    assert mirror == sorted(line.word for line in situation_lines(helped, withheld))


def test_another_number_of_candidates_is_no_other_outcome() -> None:
    """Knowledge grows between two runs: a search that offered nothing in either came out the same."""
    about: dict[str, Any] = {"activation_id": "x:a1", "ordinal": 0, "trigger": "task.priming", "result": "empty"}
    a, b = Activation(**about, n_retrieved=16), Activation(**about, n_retrieved=15)
    [line] = situation_lines(([a], []), ([b], []))
    assert line.word == "same outcome"
    assert line.a is not None and line.a.searched == "16 candidates found, none offered"
    failed = Activation(**{**about, "result": "timeout"})
    [line] = situation_lines(([a], []), ([failed], []))
    assert line.word == "other outcome"


def test_settings_that_differ_are_named_to_the_last_level() -> None:
    """Limits, switches, lists whatever their order; a run that did not report its start is said to have not."""
    a, b = Recorder("one-run"), Recorder("two-run")
    a.add("run.started", {"task": "x", "limits": {"max_turns": 8}, "switches": {"shadow": False}, "tools": ["b", "a"]})
    b.add("run.started", {"task": "y", "limits": {"max_turns": 9}, "switches": {"shadow": True}, "tools": ["a", "b"]})
    found = settings_of(journal(a.events), journal(b.events))
    assert [(fact.name, fact.a, fact.b) for fact in found.different] == [
        ("limits · max turns", "8", "9"),
        ("switches · shadow", "off", "on"),
    ]
    assert found.n_settings == 3 and found.unreported == ()
    lacking = settings_of(journal(a.events), [])
    assert lacking.unreported == ("B",)
    assert {fact.b for fact in lacking.different} == {"not reported"}


@pytest.mark.parametrize(
    ("a", "b", "more"),
    [(3, 5, "+2"), (5_000, 3, "−4,997"), (1_000.0, 1_250.0, "+0.25 s"), (None, 4, ""), (4, 4, ""), ("x", "y", "")],
)
def test_how_much_more_is_told_with_its_sign(a: Any, b: Any, more: str) -> None:
    """A change of a number that is known on both sides has its sign and unit; anything else has none."""
    fact = Fact("Turns", a, b)
    assert fact.more == more
    assert fact.differs == (a != b)
