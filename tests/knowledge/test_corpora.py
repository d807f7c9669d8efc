"""The data by which retrieval is judged: items can be imported, queries have answers, counts hold."""

import json
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from contract.redaction import redact
from knowledge.drafts import parse_draft

CORPORA = Path(__file__).resolve().parents[2] / "knowledge" / "evaluation" / "corpora"
SAME_ITEMS = {"ruff-words": "ruff"}
ANSWERED = ("thefuck", "ruff", "ruff-words", "noisy", "russian", "tasks")
WITHOUT_ANSWER = ("unanswerable", "tasks_unanswerable")
OUTPUT_LIMIT = 8_192
SHORTEST_LOG = 6_000
# Rules of the recording that the README of the package does not name: no item can be made for them.
WITHOUT_ITEM = {"thefuck": {"git_clone_missing": 6, "terraform_no_command": 2}}
HOLDING_THE_MESSAGE = 10  # of the ruff items
WITHOUT_CODE = 4  # of the ruff rules that are asked about
PLACES_OF_A_MACHINE = re.compile(r"/root\b|/work/|/tmp/bt-|/home/(?!ada\b|ann\b)\w+")


def rows(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CORPORA / name).read_text(encoding="utf-8").splitlines()]


def file_names(ending: str) -> list[str]:
    return sorted(path.name for path in CORPORA.glob(f"*.{ending}.jsonl"))


def test_every_data_set_is_there():
    """Five data sets with items and two of queries that nothing answers; no file beside them."""
    assert file_names("items") == sorted(f"{name}.items.jsonl" for name in ANSWERED)
    assert file_names("pairs") == sorted(f"{name}.pairs.jsonl" for name in (*ANSWERED, *WITHOUT_ANSWER))


@pytest.mark.parametrize("name", file_names("items"))
def test_items_can_be_imported(name):
    """Each line is an item within all limits, and live."""
    drafts = [parse_draft(row) for row in rows(name)]
    assert {draft.state for draft in drafts} == {"confirmed"}


def test_an_id_names_one_item_of_all_data_sets():
    """All data sets can be imported into one project, but for the one that has another's items in another form."""
    names = [f"{name}.items.jsonl" for name in ANSWERED if name not in SAME_ITEMS]
    ids = Counter(row["knowledge_id"] for name in names for row in rows(name))
    assert [one for one, times in ids.items() if times > 1] == []


@pytest.mark.parametrize("name", ANSWERED)
def test_every_query_names_an_item_of_its_data_set(name):
    """Only the queries that the README names have no item."""
    ids = {row["knowledge_id"] for row in rows(f"{name}.items.jsonl")}
    strays = Counter(row["rule"] for row in rows(f"{name}.pairs.jsonl") if row["rule"] not in ids)
    assert strays == WITHOUT_ITEM.get(name, {})


def test_queries_without_an_answer_name_none_and_occur_once():
    """A query counted twice would weigh double in what silence is worth."""
    queries = [row for name in WITHOUT_ANSWER for row in rows(f"{name}.pairs.jsonl")]
    assert {row["rule"] for row in queries} == {None}
    assert len({(row["command"], row["output"]) for row in queries}) == len(queries)


@pytest.mark.parametrize("name", file_names("pairs"))
def test_queries_have_the_same_form_and_fit_a_request(name):
    """One reader serves all files, and no query is over the limits of a request."""
    for row in rows(name):
        assert {"rule", "command", "output", "fixes"} <= set(row)
        assert len(row["output"]) <= OUTPUT_LIMIT
        assert len(row["command"]) <= OUTPUT_LIMIT


def test_noisy_logs_are_long_and_their_errors_stand_in_different_places():
    """The error is to be found among much else, not always at the end."""
    queries = rows("noisy.pairs.jsonl")
    assert min(len(row["output"]) for row in queries) >= SHORTEST_LOG
    assert Counter(row["where"] for row in queries) == {"start": 6, "middle": 10, "end": 19}


@pytest.mark.parametrize("name", ["noisy.pairs.jsonl", "russian.pairs.jsonl", "unanswerable.pairs.jsonl"])
def test_recordings_hold_no_secret_and_no_place_of_the_machine(name):
    """Nothing of the machine that recorded them is published."""
    for row in rows(name):
        assert redact(row["output"])[1] == 0, row["command"]
        assert PLACES_OF_A_MACHINE.findall(row["output"]) == [], row["command"]


def test_most_answers_of_noisy_logs_are_no_exact_lookups():
    """Examples of errors are few, and none is a line of the log it answers."""
    answering = {row["rule"] for row in rows("noisy.pairs.jsonl")}
    items = [row for row in rows("noisy.items.jsonl") if row["knowledge_id"] in answering]
    assert sum("error_examples" not in row for row in items) >= 20
    outputs = [row["output"] for row in rows("noisy.pairs.jsonl")]
    examples = [example for row in items for example in row.get("error_examples", ())]
    assert len(examples) == 10
    assert not [example for example in examples for output in outputs if example in output]


def test_items_of_ruff_do_not_give_the_answer_away():
    """Neither code nor example of the error stands in an item without codes; its message only where ruff says it so."""
    messages = {row["rule"]: row for row in rows("ruff-words.pairs.jsonl")}
    holding = 0  # items whose documentation happens to hold the whole message in a sentence
    for row in rows("ruff-words.items.jsonl"):
        query = messages.get(row["knowledge_id"])
        text = f"{row['proposition']} {row.get('why', '')}"
        assert not {"error_examples", "entities"} & set(row)
        holding += query is not None and query["output"] in text
        assert query is None or not query["code"] or not re.search(rf"\b{query['code']}\b", text)
    assert holding == HOLDING_THE_MESSAGE


def test_ruff_is_as_printed_and_its_other_form_is_without_codes():
    """Items differ by the code alone, queries by place and code before the same message; few rules have no code."""
    items, bare = rows("ruff.items.jsonl"), rows("ruff-words.items.jsonl")
    assert [{name: value for name, value in row.items() if name != "entities"} for row in items] == bare
    codes = {row["knowledge_id"]: row.get("entities", []) for row in items}
    lines, messages = rows("ruff.pairs.jsonl"), rows("ruff-words.pairs.jsonl")
    for line, message in zip(lines, messages, strict=True):
        assert {**line, "output": ""} == {**message, "output": ""}
        code = line["code"]
        assert codes[line["rule"]] == ([code] if code else [])
        start = re.escape(line["command"].split()[-1]) + r":\d+:\d+: " + (code or f"{line['rule']}:")
        assert re.fullmatch(rf"{start} (\[\*\] )?{re.escape(message['output'])}", line["output"]), line["output"]
    assert sum(not row["code"] for row in lines) == WITHOUT_CODE


@pytest.mark.parametrize("name", ["tasks", "tasks_unanswerable"])
def test_tasks_are_texts_of_a_size_people_give(name):
    """A task is what is asked before anything was done; it holds no secret and no line break."""
    queries = rows(f"{name}.pairs.jsonl")
    assert {(row["output"], row["group"]) for row in queries} == {("", "task")}
    assert all(5 <= len(row["command"].split()) <= 60 for row in queries)
    assert [row["command"] for row in queries if redact(row["command"])[1] or "\n" in row["command"]] == []


def test_each_task_has_a_rule_of_its_own_and_is_no_copy_of_it():
    """No rule answers two tasks, and no four words in a row stand in both."""
    rules = {row["knowledge_id"]: row for row in rows("tasks.items.jsonl")}
    queries = rows("tasks.pairs.jsonl")
    assert len({row["rule"] for row in queries}) == len(queries)
    for row in queries:
        rule = rules[row["rule"]]
        assert runs_of_words(row["command"]) & runs_of_words(f"{rule['proposition']} {rule.get('why', '')}") == set()


def runs_of_words(text: str, length: int = 4) -> set[tuple[str, ...]]:
    words = re.findall(r"\w+", text.lower())
    return {tuple(words[at : at + length]) for at in range(len(words) - length + 1)}


def test_rules_that_answer_tasks_do_not_differ_in_form_from_the_others():
    """Neither reasons, topics nor triggers give away which rules are asked for."""
    answering = {row["rule"] for row in rows("tasks.pairs.jsonl")}
    items = rows("tasks.items.jsonl")
    for kind in (True, False):
        of_kind = [row for row in items if (row["knowledge_id"] in answering) is kind]
        assert {row.get("trigger", "") for row in of_kind} == {"", "task.priming"}
        assert 0.45 < sum("why" in row for row in of_kind) / len(of_kind) < 0.55
        assert 0.45 < sum("trigger" in row for row in of_kind) / len(of_kind) < 0.55
        assert 0.3 < sum("topics" in row or "entities" in row for row in of_kind) / len(of_kind) < 0.37


def test_a_third_of_the_tasks_without_an_answer_is_near_the_rules():
    """Silence is judged where it is hard, too."""
    assert Counter(row["near"] for row in rows("tasks_unanswerable.pairs.jsonl")) == {True: 20, False: 40}


def test_counts_are_as_the_readme_states():
    """The table of the README is true."""
    readme = (CORPORA / "README.md").read_text(encoding="utf-8")
    stated = re.findall(r"^\| ([\w-]+) \| (\d+|none) \| (\d+) \|", readme, flags=re.MULTILINE)
    assert [name for name, _, _ in stated] == [*ANSWERED, *WITHOUT_ANSWER]
    for name, items, pairs in stated:
        assert len(rows(f"{name}.pairs.jsonl")) == int(pairs)
        if items != "none":
            assert len(rows(f"{name}.items.jsonl")) == int(items)
