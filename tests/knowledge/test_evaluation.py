"""The measuring code itself: figures of rankings made by hand, questions that are drawn, items that are taken away."""

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.db import DatabaseError, connection, transaction

from ingest.models import Project
from knowledge.drafts import ItemDraft
from knowledge.evaluation import baselines, data_sets, report, results
from knowledge.evaluation.figures import (
    FIGURES,
    Offer,
    Outcome,
    best_within,
    by_score,
    curve,
    interval,
    mean,
    percentile,
    place_of,
    values_of,
)
from knowledge.evaluation.measuring import Measured, measure, scratch_project, without_item
from knowledge.evaluation.pairs import CorpusError, Pair, read_pairs
from knowledge.evaluation.questions import (
    HELD_OUT_MOST,
    Questions,
    drawn,
    drawn_from_each,
    hint_query,
    questions_of,
)
from knowledge.evaluation.subjects import LEXICAL, Answer, Subject, all_subjects, embeddings_off, make_vectors
from knowledge.find_hints import VERSIONS, find_hints
from knowledge.find_hints.findings import HintQuery
from knowledge.items import create_item
from knowledge.models import KnowledgeChange, KnowledgeItem, KnowledgeRevision

RULE = "When the flux overheats run `cool --now`."


def outcome(ranked: str, offered: str = "", right: str = "", kind: str = "answerable") -> Outcome:
    """An outcome in letters: each is an item, ranked with falling confidence from 0.9 on."""
    offers = tuple(Offer(letter, round(0.9 - 0.1 * place, 1)) for place, letter in enumerate(ranked))
    return Outcome(kind, right, offers, tuple(offered))  # type: ignore[arg-type]


def figure(name: str, outcomes: Sequence[Outcome]) -> float | None:
    return mean(values_of(outcomes)[name])


RANKED = [
    outcome("abcd", "ab", right="a"),
    outcome("bcda", "b", right="a"),
    outcome("cba", "", right="a"),
    outcome("bcd", "bcd", right="a"),
    outcome("", "", right="a"),
]
SILENT = [
    outcome("ab", "a", kind="held_out"),
    outcome("b", "", kind="held_out"),
    outcome("c", "", kind="without_item"),
    outcome("", "", kind="foreign"),
    outcome("dc", "dc", kind="foreign"),
    outcome("d", "", kind="foreign"),
]
EXPECTED = {
    "r_at_1_ungated": 1 / 5,
    "r_at_1_all_pairs": 1 / 6,
    "r_at_3_ungated": 2 / 5,
    "mrr_at_10": (1 + 1 / 4 + 1 / 3) / 5,
    "right_passed": 1 / 5,
    "right_passed_of_found": 1 / 3,
    "right_first": 1 / 5,
    "wrong_first": 2 / 5,
    "false_injection": 1 / 3,
    "near_miss_injection": 1 / 3,
    "injection_all": 2 / 6,
    "abstention_precision": 4 / 6,
    "hints_per_answered": (2 + 1 + 3 + 1 + 2) / 5,
}


@pytest.mark.parametrize("name", FIGURES)
def test_each_figure_of_rankings_made_by_hand(name: str) -> None:
    """Every figure has the value that counting by hand gives."""
    assert figure(name, RANKED + SILENT) == pytest.approx(EXPECTED[name])


@pytest.mark.parametrize("name", FIGURES)
def test_a_figure_of_no_question_is_none(name: str) -> None:
    """A share of nothing is not 0: it is not known, and has no interval."""
    assert figure(name, []) is None
    assert interval(values_of([])[name]) is None


def test_nothing_measured_makes_a_report() -> None:
    """An empty set gives figures, JSON and both reports without a number in place of what is not known."""
    found = results.figures_of(Measured((), None))
    assert {found[name] for name in FIGURES} == {None}
    assert (found["p50_ms"], found["p95_ms"], found["curve"]) == (None, None, [])
    assert found["operating"] == {"false_injection": [], "near_miss_injection": []}
    result = results.CorpusResult("empty", results.counts_of(0, 0, Questions((), (), (), ())), [], {"x": found}, {})
    assert f"| x | {report.NONE} |" in report.markdown([result])
    assert "<td" in report.html([result])


def test_an_empty_right_id_is_never_found() -> None:
    """A question without an answer has no place, whatever was ranked."""
    assert place_of("", [Offer("")]) == 0
    assert place_of("b", [Offer("a"), Offer("b")]) == 2


def test_equal_scores_are_ordered_by_id() -> None:
    """Ties give the same ranking in whatever order they come, so a figure does not depend on luck."""
    tied = [("c", 1.0), ("a", 1.0), ("d", 2.0), ("b", 1.0)]
    assert by_score(tied) == by_score(tied[::-1]) == [("d", 2.0), ("a", 1.0), ("b", 1.0), ("c", 1.0)]


def test_the_interval_is_the_same_each_time_and_holds_the_mean() -> None:
    """The bootstrap has a fixed seed, lies around the mean, and narrows with more questions and with agreement."""
    values = [1.0] * 30 + [0.0] * 70
    first, again, wide = interval(values), interval(values), interval(values[20:40])
    assert first is not None
    assert wide is not None
    assert first == again
    assert first[0] < 0.3 < first[1]
    # Of 100 draws at 0.3 the standard error is 0.046: 1.96 of them to each side.
    assert first == pytest.approx((0.21, 0.39), abs=0.02)
    assert wide[1] - wide[0] > first[1] - first[0]
    assert interval([1.0, 1.0]) == (1.0, 1.0)


def test_percentiles_are_values_that_were_measured() -> None:
    """p95 of 20 values is the 19th, of one value that value, of none unknown."""
    values = [float(value) for value in range(20, 0, -1)]
    assert percentile(values, 0.95) == 19.0
    assert percentile([7.0], 0.95) == 7.0
    assert percentile([], 0.5) is None


def test_the_curve_goes_from_silence_to_everything() -> None:
    """As the gate sinks both shares only grow; each point is what counting at its threshold gives."""
    points = curve(RANKED + SILENT)
    assert (points[0].false_injection, points[0].right_passed) == (0.0, 0.0)
    assert [point.threshold for point in points[1:]] == [0.9, 0.7, 0.6]
    assert [point.right_passed for point in points[1:]] == pytest.approx([0.2, 0.4, 0.6])
    assert (points[1].false_injection, points[1].near_miss_injection) == pytest.approx((2 / 3, 1.0))


def test_the_best_point_holds_the_goal() -> None:
    """What is chosen stays within the false injection that is allowed and passes the most right items there."""
    asked = [outcome("a", right="a"), Outcome("answerable", "b", (Offer("b", 0.5),), ())]
    strangers = [Outcome("foreign", "", (Offer("x", 0.7),), ()), Outcome("foreign", "", (Offer("x", 0.2),), ())]
    points = curve(asked + strangers)
    within = {most: best_within(points, most) for most in (0.0, 0.5, 1.0)}
    assert [(point.threshold, point.right_passed) for point in within.values() if point] == [
        (0.9, 0.5), (0.5, 1.0), (0.5, 1.0),
    ]  # fmt: skip
    assert best_within([], 1.0) is None


def test_both_kinds_of_questions_without_an_answer_have_a_curve_of_their_own() -> None:
    """Near misses do not move the curve of false injection, nor the other way; a kind not asked holds no goal."""
    asked = [outcome("a", right="a"), Outcome("answerable", "b", (Offer("b", 0.5),), ())]
    stranger, near = (Outcome(kind, "", (Offer("x", 0.7),), ()) for kind in ("foreign", "held_out"))
    points = curve([*asked, near, Outcome("foreign", "", (Offer("x", 0.1),), ())])
    within = [best_within(points, 0.0, name) for name in ("false_injection", "near_miss_injection")]
    assert [point and (point.threshold, point.right_passed) for point in within] == [(0.5, 1.0), (0.9, 0.5)]
    assert best_within(curve([*asked, stranger]), 1.0, "near_miss_injection") is None
    found = results.figures_of(Measured((*asked, stranger), 0.6))
    assert found["near_miss_injection"] is None
    result = results.CorpusResult("x", results.counts_of(2, 2, Questions((), (), (), ())), [], {"v": found}, {})
    assert "near-miss injection at most" not in report.markdown([result])
    assert report.html([result]).count("<polyline") == 1


def test_a_low_gate_can_crowd_out_what_is_right() -> None:
    """What stands before the right item fills the offer once the gate lets it pass: eight hints are all there are."""
    before = tuple(Offer(f"x{place}", 0.3) for place in range(8))
    asked = Outcome("answerable", "a", (*before, Offer("a", 0.6)), ())
    points = curve(
        [asked, Outcome("foreign", "", (Offer("y", 0.6),), ()), Outcome("foreign", "", (Offer("y", 0.3),), ())]
    )
    assert [(point.threshold, point.right_passed) for point in points[1:]] == [(0.6, 1.0), (0.3, 0.0)]


def test_no_confidence_makes_no_curve() -> None:
    """A version that gives no confidence has no operating curve, and nothing is made up in its place."""
    plain = [Outcome("answerable", "a", (Offer("a"),), ("a",)), Outcome("foreign", "", (Offer("a"),), ("a",))]
    assert curve(plain) == []
    assert curve([]) == []


PAIRS = [Pair(f"r{number % 7}", f"command {number}", f"output {number}") for number in range(40)]
STRANGERS = [Pair(None, f"stranger {number}", "no such thing") for number in range(50)]


def test_as_many_foreign_questions_as_answerable_ones_and_all_of_these_held_out() -> None:
    """Each answerable question comes once more with its item taken away; drawing again draws the same."""
    ids = {f"r{number}" for number in range(7)}
    asked = questions_of(PAIRS, ids, [STRANGERS])
    assert [question.pair for question in asked.answerable] == PAIRS
    assert [question.pair for question in asked.held_out] == PAIRS
    assert (len(asked.foreign), asked.without_item) == (40, ())
    assert {question.taken_away for question in asked.held_out} == ids
    assert {question.right for question in (*asked.held_out, *asked.foreign)} == {""}
    assert questions_of(PAIRS, ids, [STRANGERS]) == asked
    assert drawn(PAIRS, 5) != drawn(PAIRS, 5, "another salt")
    assert len(questions_of(PAIRS, ids, [STRANGERS[:3]]).foreign) == 3
    assert len(questions_of(PAIRS, ids, [STRANGERS], 10, foreign_least=30).foreign) == 30
    few = questions_of(PAIRS, ids, [STRANGERS], sample=10)
    assert [question.pair for question in few.answerable] == [question.pair for question in few.held_out]
    assert [question.pair for question in few.answerable] == drawn(PAIRS, 10)


def test_held_out_questions_are_bounded() -> None:
    """Taking an item away is dear: so many are asked at most, drawn from all."""
    pairs = [Pair("r", f"command {number}", "failed") for number in range(HELD_OUT_MOST + 50)]
    asked = questions_of(pairs, {"r"}, [])
    assert (len(asked.answerable), len(asked.held_out)) == (HELD_OUT_MOST + 50, HELD_OUT_MOST)
    assert [question.pair for question in asked.held_out] != pairs[:HELD_OUT_MOST]


def test_foreign_questions_come_from_each_list_alike() -> None:
    """No list crowds out another by its length; what a short one lacks the longer ones give."""
    sizes = {"a": 50, "b": 3, "c": 9}
    lists = [[Pair(None, f"{name} {number}", "") for number in range(size)] for name, size in sizes.items()]
    found = [pair.command[0] for pair in drawn_from_each(lists, 20)]
    assert {name: found.count(name) for name in "abc"} == {"a": 9, "b": 3, "c": 8}
    assert len(drawn_from_each(lists, 100)) == 62
    assert drawn_from_each([], 5) == []


def test_a_rule_without_an_item_is_counted_and_asked() -> None:
    """Such a pair is no answerable question: it is asked as one without an answer and named."""
    asked = questions_of(PAIRS, {"r0", "r1"}, [STRANGERS])
    assert asked.rules_without_item == ["r2", "r3", "r4", "r5", "r6"]
    assert len(asked.answerable) + len(asked.without_item) == len(PAIRS)
    assert {question.right for question in asked.without_item} == {""}
    result = results.CorpusResult("x", results.counts_of(2, len(PAIRS), asked), asked.rules_without_item, {}, {})
    assert f"{len(asked.without_item)} whose rule has no item" in report.sentence(result)
    assert "`r2`, `r3`" in report.sentence(result)


def test_what_an_item_here_answers_is_not_foreign() -> None:
    """Foreign pairs are left out when their rule has an item or the same failure is asked; own rows come first."""
    own = Pair(None, "own", "nothing known")
    pool = [Pair("r1", "a", "b"), Pair("elsewhere", PAIRS[0].command, PAIRS[0].output), Pair("elsewhere", "c", "d")]
    asked = questions_of([*PAIRS, own], {f"r{number}" for number in range(7)}, [pool])
    assert [question.pair for question in asked.foreign] == [own, pool[2]]


def test_a_question_is_asked_as_the_kernel_asks() -> None:
    """A failed call of the shell: the command as the task, the output as the result, cut to the API's limits."""
    query = hint_query(Pair("r", "git brnch", "x" * 9_000), 3, 8)
    assert (query.trigger, query.tool, query.query, query.limit) == ("tool.failed", "shell", "git brnch", 8)
    assert (len(query.tool_result), query.error_class) == (8_192, "exit_nonzero")
    assert query.tool_arguments == ""
    told = hint_query(Pair("r", "git brnch", "x"), 3, 8, "Tidy up")
    assert (told.query, told.tool_arguments) == ("Tidy up", "git brnch")


def test_a_task_is_asked_as_when_a_run_begins() -> None:
    """Without an output the text is a task: nothing failed and no tool was called; a command that was silent is not."""
    task = hint_query(Pair("r", "Add a gift note to the order.", ""), 3, 8, "Tidy up")
    assert (task.trigger, task.query) == ("task.priming", "Add a gift note to the order.")
    assert {task.tool, task.tool_result, task.tool_arguments, task.error_class} == {""}
    assert task.limit == 8
    silent = hint_query(Pair(None, "sync", "", group="empty"), 3, 8)
    assert (silent.trigger, silent.tool, silent.query) == ("tool.failed", "shell", "sync")


BAD_ROWS = [
    ("{", "the line is not JSON"),
    ("[]", "a row must be a JSON object"),
    ('{"command": "a", "output": "b"}', "rule is missing"),
    ('{"rule": 3, "command": "a", "output": "b"}', "rule must be"),
    ('{"rule": "r", "output": "b"}', "command is missing"),
    ('{"rule": "r", "command": "a", "output": null}', "output must be a string"),
    ('{"rule": "r", "command": "a", "output": "b", "fixes": "c"}', "fixes must be a list of strings"),
    ('{"rule": "r", "command": "a", "output": "b", "group": 3}', "group must be a string"),
]


@pytest.mark.parametrize(("row", "problem"), BAD_ROWS, ids=[problem for _, problem in BAD_ROWS])
def test_a_bad_row_is_refused_by_line_and_field(tmp_path: Path, row: str, problem: str) -> None:
    """A pairs file that is not in order is refused with file, line and field, and nothing of its text."""
    file = tmp_path / "pairs.jsonl"
    file.write_text('{"rule": "r", "command": "a", "output": "b"}\n\n' + row + "\n")
    with pytest.raises(CorpusError) as refused:
        read_pairs(file)
    assert str(refused.value).startswith(f"{file}:3: {problem}")


def test_a_file_without_pairs_is_refused(tmp_path: Path) -> None:
    """An empty file and one that is not there measure nothing, and say so."""
    (tmp_path / "empty.jsonl").write_text("\n")
    with pytest.raises(CorpusError, match="holds no pairs"):
        read_pairs(tmp_path / "empty.jsonl")
    with pytest.raises(CorpusError, match="cannot be read: No such file"):
        read_pairs(tmp_path / "absent.jsonl")


def test_every_corpus_is_in_order() -> None:
    """The files that ship can be read; nearly every rule that a pair names has its item."""
    assert set(data_sets.FOREIGN_TO) == {"thefuck", "ruff", "ruff-words", "noisy", "russian", "tasks"}
    for name in data_sets.FOREIGN_TO:
        loaded = data_sets.load(name)
        asked = questions_of(loaded.pairs, loaded.item_ids, loaded.foreign, data_sets.ASKED_MOST)
        assert len(asked.without_item) <= len(asked.answerable) // 20, name
        assert len(asked.foreign) == len(asked.held_out) == len(asked.answerable), name
        assert len(asked.answerable + asked.without_item) == min(loaded.n_with_rule, data_sets.ASKED_MOST), name


def make_drafts(*ids: str) -> list[ItemDraft]:
    return [ItemDraft(one, f"{RULE} Then look at {one}.", state="confirmed") for one in ids]


def stored() -> dict[str, int]:
    models = (Project, KnowledgeItem, KnowledgeRevision, KnowledgeChange)
    return {model.__name__: model.objects.count() for model in models}


@pytest.mark.django_db
def test_nothing_of_a_scratch_project_stays() -> None:
    """Its items are there while it lasts and gone after, also when the work inside fails; others are not touched."""
    alpha = Project.objects.create(slug="alpha", name="Alpha")
    create_item(alpha, make_drafts("one")[0], by="ada", reason="seen twice")
    before = stored()
    with scratch_project(make_drafts("one", "two")) as project_id:
        assert KnowledgeItem.objects.filter(project_id=project_id).count() == 2
        assert project_id != alpha.pk
    assert stored() == before
    with pytest.raises(ZeroDivisionError), scratch_project(make_drafts("one")):
        _ = 1 / 0
    assert stored() == before


@pytest.mark.django_db
def test_an_item_taken_away_is_not_there_and_comes_back() -> None:
    """Its rows are really gone for that time, with its history; the same id of another project stays."""
    with scratch_project(make_drafts("one", "two")) as project_id:
        alpha = Project.objects.create(slug="alpha", name="Alpha")
        create_item(alpha, make_drafts("one")[0], by="ada", reason="seen twice")
        with without_item(project_id, "one"):
            ids = KnowledgeItem.objects.filter(project_id=project_id).values_list("knowledge_id", flat=True)
            assert list(ids) == ["two"]
            assert KnowledgeRevision.objects.filter(item__project_id=project_id).count() == 1
            assert KnowledgeItem.objects.filter(project=alpha).count() == 1
        assert KnowledgeItem.objects.filter(project_id=project_id).count() == 2
        assert Project.objects.get(pk=project_id).deleted_at is None


@pytest.mark.django_db
def test_a_taken_away_item_is_as_if_it_had_never_been() -> None:
    """Every version gives the same candidates, scores and reasons as in a project that never had the item."""
    query = hint_query(Pair(None, "flux --look two", "the flux overheats"), 1, 8)

    def candidates(project_id: int, version: str) -> list[tuple[str, dict[str, float], str]]:
        found = find_hints(project_id, query, version, gated=False).candidates
        return [(one.item.knowledge_id, dict(one.scores), one.hold_reason) for one in found]

    for version in VERSIONS:
        with scratch_project(make_drafts("one", "two", "three")) as project_id:
            make_vectors(project_id)
            whole = candidates(project_id, version)
            with without_item(project_id, "two"):
                without = candidates(project_id, version)
            assert candidates(project_id, version) == whole
        with scratch_project(make_drafts("one", "three")) as project_id:
            make_vectors(project_id)
            assert candidates(project_id, version) == without != whole


@pytest.mark.django_db
def test_without_vectors_a_version_goes_by_words_and_the_switch_is_put_back() -> None:
    """The lexical subject finds without the model what the whole one finds with it, and changes no setting."""
    subjects, query = all_subjects(), hint_query(Pair(None, "flux", "the flux overheats"), 1, 8)
    before = settings.HINTS_EMBEDDINGS
    with scratch_project(make_drafts("one")) as project_id:
        make_vectors(project_id)
        whole, lexical = (subjects[name].ask(project_id, query, False) for name in ("hybrid.v3", LEXICAL))
        with embeddings_off():
            assert find_hints(project_id, query, "hybrid.v3", gated=False).matcher.count("meaning") == 0
    assert before == settings.HINTS_EMBEDDINGS
    assert [one.knowledge_id for one in whole.offers] == [one.knowledge_id for one in lexical.offers] == ["one"]
    assert whole.offers[0].confidence != lexical.offers[0].confidence


@pytest.mark.django_db
def test_a_subject_that_keeps_items_elsewhere_is_found_out() -> None:
    """Whoever still finds an item that was taken away would be measured wrongly: the measurement stops and names it."""

    def remember(project_id: int, query: HintQuery, gated: bool) -> Answer:
        return Answer((Offer("one"),))

    pairs = [Pair("one", "flux", "overheats"), Pair("one", "flux", "overheats again")]
    asked = questions_of(pairs, {"one"}, [])
    with pytest.raises(RuntimeError, match="forgetful finds one, which is not there"):
        measure(make_drafts("one"), asked, [Subject("forgetful", remember)], lambda line: None)
    assert stored() == {"Project": 0, "KnowledgeItem": 0, "KnowledgeRevision": 0, "KnowledgeChange": 0}


@pytest.mark.django_db
def test_plain_text_searches_differ_as_they_should() -> None:
    """`websearch` needs every word and reads -b as "not b"; any word finds; neither meets another project."""
    alpha = Project.objects.create(slug="alpha", name="Alpha")
    create_item(alpha, make_drafts("other")[0], by="ada", reason="seen twice")
    with scratch_project(make_drafts("one", "two")) as project_id:
        baselines.prepare_words(project_id)
        failed = hint_query(Pair(None, "run two", "the flux was lost"), 1, 8)
        assert baselines.websearch(project_id, failed) == []
        found = baselines.any_word(project_id, failed)
        assert [one for one, _ in found] == ["two", "one"]
        assert found[0][1] > found[1][1] > 0
        assert baselines.websearch(project_id, hint_query(Pair(None, "flux -two", ""), 1, 8))[0][0] == "one"
        with without_item(project_id, "two"):
            assert [one for one, _ in baselines.any_word(project_id, failed)] == ["one"]
        hostile = hint_query(Pair(None, "a'b \x00 & | ! \\ :*", "') OR 1=1 --"), 1, 8)
        assert baselines.any_word(project_id, hostile) == []
        assert baselines.any_word(project_id, hint_query(Pair(None, "", "the of"), 1, 8)) == []


@pytest.mark.django_db
def test_a_text_that_postgresql_refuses_finds_nothing() -> None:
    """`websearch_to_tsquery` fails on a ruled line, which is many times "not"; the measurement goes on after it."""
    ruled = hint_query(Pair(None, "flux", f"{'-' * 40}flux"), 1, 8)
    with scratch_project(make_drafts("one")) as project_id:
        baselines.prepare_words(project_id)
        with pytest.raises(DatabaseError, match="tsquery"), transaction.atomic(), connection.cursor() as cursor:
            cursor.execute("SELECT websearch_to_tsquery('english', %s)", [baselines.text_of(ruled)])
        assert baselines.websearch(project_id, ruled) == []
        assert [one for one, _ in baselines.any_word(project_id, ruled)] == ["one"]


@pytest.mark.django_db
def test_vectors_rank_by_cosine() -> None:
    """The vector search ranks by the angle alone, forgets an item taken away, and takes a text without any vector."""

    def embed(texts: Sequence[str]) -> list[list[float]]:
        return [[10.0 * text.count("one"), 1.0 * text.count("two")] for text in texts]

    vectors = baselines.Vectors(embed)
    with scratch_project(make_drafts("one", "two")) as project_id:
        vectors.prepare(project_id)
        query = hint_query(Pair(None, "one", "one"), 1, 8)
        assert [(one, round(score, 6)) for one, score in vectors.search(project_id, query)] == [
            ("one", 1.0),
            ("two", 0.0),
        ]
        with without_item(project_id, "one"):
            assert [one for one, _ in vectors.search(project_id, query)] == ["two"]
        assert [score for _, score in vectors.search(project_id, hint_query(Pair(None, "x", "y"), 1, 8))] == [0.0, 0.0]


def test_fused_rankings_count_places_and_not_scores() -> None:
    """Reciprocal rank fusion: second in both beats first in one, whatever the scores; equal places go by id."""

    def ranks(*names: str) -> baselines.Search:
        return lambda project_id, query: [(name, 1000.0 - place) for place, name in enumerate(names)]

    query = hint_query(Pair(None, "x", "y"), 1, 8)
    found = baselines.fused(ranks("a", "c"), ranks("b", "c"))(1, query)
    assert [name for name, _ in found] == ["c", "a", "b"]
    assert [score for _, score in found] == pytest.approx([2 / 62, 1 / 61, 1 / 61])
    assert baselines.fused(ranks(), ranks())(1, query) == []


@pytest.fixture
def small(db: None) -> dict[str, Any]:
    """Figures of every subject for 24 recorded failures, on their items and a quarter of the others."""
    loaded = data_sets.load("thefuck")
    sample = drawn([pair for pair in loaded.pairs if pair.rule in loaded.item_ids], 24)
    named = {pair.rule for pair in sample}
    drafts = [draft for place, draft in enumerate(loaded.drafts) if draft.knowledge_id in named or place % 4 == 0]
    asked = questions_of(sample, loaded.item_ids, loaded.foreign)
    answers = measure(drafts, asked, list(all_subjects().values()), lambda line: None)
    assert {len(answer.outcomes) for answer in answers.values()} == {len(asked.all)}
    return {name: results.figures_of(answer) for name, answer in answers.items()}


def test_a_small_measurement_tells_versions_apart(small: dict[str, Any]) -> None:
    """On real failures, any word finds what all words miss; every figure is a share, and both reports show each."""
    assert small["fts.or"]["r_at_1_ungated"] > small["fts.websearch"]["r_at_1_ungated"] + 0.2
    assert small["hybrid.v3"]["r_at_1_ungated"] > small["lexical-entity-topic.v2"]["r_at_1_ungated"] + 0.2
    assert small["hybrid.v3"]["false_injection"] < small["fts.or"]["false_injection"] - 0.2
    assert small["hybrid.v3"]["gate"] > 0
    # The curve at the gate says what was measured with it on, but for duplicates of what is held back.
    at_gate = next(one for one in small["hybrid.v3"]["curve"][::-1] if one["threshold"] >= small["hybrid.v3"]["gate"])
    for name in ("false_injection", "near_miss_injection"):
        assert at_gate[name] == pytest.approx(small["hybrid.v3"][name], abs=0.1)
    # What is missing leaves its neighbours; what nothing is about leaves nothing.
    assert small["hybrid.v3"]["near_miss_injection"] > small["hybrid.v3"]["false_injection"]
    assert small["rrf"]["r_at_3_ungated"] > small["fts.websearch"]["r_at_3_ungated"] + 0.2
    assert list(small)[:2] == ["hybrid.v3", LEXICAL]
    shares = [version[name] for version in small.values() for name in FIGURES if name != "hints_per_answered"]
    assert all(share is None or 0 <= share <= 1 for share in shares)
    result = results.CorpusResult("thefuck", results.counts_of(1, 24, Questions((), (), (), ())), [], small, {})
    text, fragment = report.markdown([result]), report.html([result])
    for name in small:
        assert f"| {name} |" in text
        assert f">{name}</td>" in fragment
    printed = json.loads(json.dumps(results.as_json([result], "2026-11-30")))
    assert printed["versions"] == printed["corpora"]["thefuck"]["versions"]
    assert printed["versions"]["fts.or"]["operating_point"] is None


def test_a_gate_is_drawn_where_it_stands() -> None:
    """A version with a gate has a curve in the fragment, its place marked, and its operating point in the JSON."""
    found = results.figures_of(Measured(tuple(RANKED + SILENT), 0.75))
    result = results.CorpusResult("x", results.counts_of(4, 5, Questions((), (), (), ())), [], {"v": found}, {})
    fragment = report.html([result])
    # One of the three foreign questions and one of the three near misses got a hint: the dots stand in one place.
    assert fragment.count('<circle cx="100.0" cy="240.0" r="4"') == 2
    assert fragment.count("0.200 at 33.3% (≥ 0.750)") == 2
    assert 'stroke-dasharray="none"' in fragment
    assert 'stroke-dasharray="6 3"' in fragment
    assert "style=" not in fragment
    point = result.as_json("2026-11-30")["versions"]["v"]["operating_point"]
    assert (point["gate"], point["right_passed"]) == (0.75, 0.2)
    assert (point["wrong_passed"], point["near_miss_passed"]) == (0.3333, 0.3333)
    text = report.markdown([result])
    assert "| false injection at most |" in text
    assert "| near-miss injection at most |" in text
    assert "no false injection" in text
