"""Every task of the behavioural benchmark is what it says: it fails first, one command solves it, no other does."""

import re
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from bench.behaviour.agents import SPAN
from bench.behaviour.arms import corpus, note_id, placebo_corpus
from bench.behaviour.task import FITTING, KINDS, Task, file, sealed
from bench.behaviour.tasks import TASKS
from bench.behaviour.trying import missing_tools, problems
from contract.text import estimate_tokens
from knowledge.drafts import PROPOSITION_TOKENS

BY_NAME = {task.name: task for task in TASKS}
AT_ONCE = 4  # tasks that are tried side by side: they mostly wait for programs to start
LEAST = {"invented": 20, "known": 15, "priming": 5, "none": 6, "wrong": 6}
LONGEST_COMMAND = 1_000  # bytes; what a model that chooses takes


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[str]]:
    """What is wrong with each task, by its name."""
    root = tmp_path_factory.mktemp("tasks")
    with ThreadPoolExecutor(AT_ONCE) as pool:
        tried = pool.map(lambda task: problems(task, root / task.name), TASKS)
        return dict(zip(BY_NAME, tried, strict=True))


@pytest.mark.parametrize("name", BY_NAME)
def test_a_task_fails_first_and_only_the_right_command_solves_it(name: str, found: dict[str, list[str]]) -> None:
    """The check fails on the untouched folder, passes after the right command, and after no other."""
    assert found[name] == []


def test_a_task_that_is_not_what_it_says_is_told(tmp_path: Path) -> None:
    """Each way to be wrong is found: a check that always passes, a first command that works, a right one that fails."""
    done = Task("done", "none", "-", "touch a", "ls gone", "touch b", ("true",), "test -e a")
    works = Task("works", "none", "-", "touch a", "true", "touch b", ("true",), "test -e b")
    weak = Task("weak", "none", "-", "touch a", "ls gone", "touch b", ("touch c", "touch d"), "test -e c")
    assert "the check passes on the untouched folder" in problems(done, tmp_path / "1")
    assert "the first command does not fail" in problems(works, tmp_path / "2")
    told = problems(weak, tmp_path / "3")
    assert [one.split(" it:")[0] for one in told] == ["'touch b' does not solve", "'touch c' solves"]


def test_there_are_enough_tasks_of_each_kind_under_names_of_their_own() -> None:
    """Sixty and more, some of every kind, and only those without an item are of the kind none."""
    counts = Counter(task.kind for task in TASKS)
    assert len(BY_NAME) == len(TASKS) >= 60
    assert set(counts) == set(KINDS)
    assert {kind: counts[kind] for kind in LEAST if counts[kind] < LEAST[kind]} == {}
    assert all((task.item is None) == (task.kind == "none") for task in TASKS)


@pytest.mark.parametrize("name", [task.name for task in TASKS if task.item])
def test_an_item_names_the_one_command_it_is_about(name: str) -> None:
    """The right one, or for a wrong item one of the others; never the first, which has failed already."""
    task = BY_NAME[name]
    assert task.item is not None
    spans = SPAN.findall(task.item.rule)
    named = {command for command in task.candidates if any(span in command for span in spans)}
    assert len(named) == 1, named
    assert (task.right in named) == (task.kind != "wrong")
    assert task.first not in named
    assert estimate_tokens(task.item.rule) <= PROPOSITION_TOKENS


@pytest.mark.parametrize("name", [task.name for task in TASKS if task.kind in FITTING])
def test_the_statement_does_not_give_the_fix_away(name: str) -> None:
    """No action of the rule stands in the words of the task."""
    task = BY_NAME[name]
    assert task.item is not None
    assert not [span for span in SPAN.findall(task.item.rule) if span in task.statement]


def test_the_placebo_is_found_by_the_same_errors_and_says_something_of_like_length() -> None:
    """Ids, phrases and errors are the same, no rule of a failure is; nothing in it names a command of the task."""
    true, swapped = corpus(TASKS), placebo_corpus(TASKS)
    by_id = {note_id(task): task for task in TASKS if task.item}
    assert [(note.knowledge_id, note.errors, note.phrases) for note in true] == [
        (note.knowledge_id, note.errors, note.phrases) for note in swapped
    ]
    for one, other in zip(true, swapped, strict=True):
        task = by_id[one.knowledge_id]
        if task.kind == "priming":
            assert one == other
            continue
        assert one.rule != other.rule
        assert abs(len(one.rule) - len(other.rule)) <= 45
        assert not [span for span in SPAN.findall(other.rule) if any(span in each for each in task.candidates)]
    assert Counter(note.rule for note in true) == Counter(note.rule for note in swapped)


def test_only_items_about_failures_are_kept_from_the_start_of_a_run() -> None:
    """They say that they are about failures; with any moment none says it."""
    triggers = {note.knowledge_id: note.trigger for note in corpus(TASKS)}
    for task in TASKS:
        if task.item:
            assert triggers[note_id(task)] == ("" if task.kind == "priming" else "tool.failed")
    assert {note.trigger for note in corpus(TASKS, any_moment=True)} == {""}


def test_commands_are_of_a_size_a_model_can_choose_among() -> None:
    """Four to six commands a task, none of them long."""
    for task in TASKS:
        assert 4 <= len(task.candidates) <= 6
        assert max(len(command.encode()) for command in task.candidates) <= LONGEST_COMMAND


def test_a_tool_that_is_not_there_is_named_with_its_tasks() -> None:
    """A run says what it leaves out, and for want of what."""
    one = Task("one", "none", "-", "", "a", "b", (), "c", needs=("no-such-tool-of-ours", "sh"))
    assert missing_tools([one]) == {"no-such-tool-of-ours": ["one"]}


def test_a_file_that_would_end_early_is_refused() -> None:
    """A content that holds the end mark raises, with the path."""
    with pytest.raises(ValueError, match="a.txt: a line CONTENT"):
        file("a.txt", "x\nCONTENT\ny")


def test_made_up_facts_stand_in_no_file_of_their_task() -> None:
    """What a gate wants is there as a digest only: `FEED_WORD=juniper` is in the rule, `juniper` not in the setup."""
    n_sealed = 0
    for task in TASKS:
        spans = SPAN.findall(task.item.rule) if task.item else []
        words = {
            word for span in spans for form in (r"\w+", r"[\w.-]+", r"[\w.=-]+") for word in re.findall(form, span)
        }
        for word in words:
            if sealed(word) in task.setup:
                n_sealed += 1
                assert not re.search(rf"\b{re.escape(word)}\b", task.setup), task.name
    assert n_sealed >= 18
