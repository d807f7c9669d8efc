"""The terms of hybrid.v3: identifiers whole and in parts, two languages, signs in pairs; nothing hostile costs more."""

import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from knowledge.find_hints.v3 import index, words
from knowledge.find_hints.v3.bags import parse_bag, write_bag
from knowledge.find_hints.v3.index import KEY_LIMIT, index_item, name_of
from knowledge.find_hints.v3.words import TERM_LIMIT, spelled, terms
from tests.contract.regex_steps import count_steps
from tests.knowledge.test_find_hints import make_item


@pytest.mark.parametrize(
    ("word", "found"),
    [
        ("git_push", ["git_push", "git", "push"]),
        ("GitPush", ["gitpush", "git", "push"]),
        ("gitPush", ["gitpush", "git", "push"]),
        ("git-push", ["git-push", "git", "push"]),
        ("git.push", ["git.push", "git", "push"]),
        ("GIT_PUSH", ["git_push", "git", "push"]),
        ("git push", ["git", "push"]),
        ("HTTPServer2", ["httpserver2", "http", "server"]),
        ("ORA-00942", ["ora-00942", "ora", "00942"]),
        ("v1.2.3", ["v1.2.3"]),
        ("имяФайла", ["имяфайла", "им", "файл"]),
        ("--force.", ["forc"]),
        ("ﬁle ＧＩＴ", ["file", "git"]),
        ("the of и не", ["не"]),
        ("x", []),
    ],
)
def test_an_identifier_is_itself_and_its_parts(word: str, found: list[str]) -> None:
    """Whole and in parts, whatever joins them, compatibility forms as the plain ones; words of one sign say nothing."""
    assert terms(word) == found


@pytest.mark.parametrize("one", ["git_push", "GitPush", "git-push", "git.push", "git push"])
@pytest.mark.parametrize("other", ["git_push", "GitPush", "git-push", "git.push", "git push"])
def test_identifiers_share_their_parts_both_ways(one: str, other: str) -> None:
    """However either side joins them."""
    assert {"git", "push"} <= set(terms(one)) & set(terms(other))


@pytest.mark.parametrize(
    "forms",
    [
        ("файл", "файла", "файлы", "файлов", "Файлами"),
        ("модуль", "модуля", "модулей"),
        ("repository", "repositories"),
        ("fail", "failed", "failing", "fails"),
    ],
)
def test_inflections_are_one_term(forms: tuple[str, ...]) -> None:
    """Russian and English ones."""
    assert len({tuple(terms(form)) for form in forms}) == 1


def test_runs_of_signs_are_taken_in_pairs() -> None:
    """A part of a Chinese or Japanese text is found in the whole; a sign alone stays one."""
    assert terms("文件不存在") == ["文件", "件不", "不存", "存在"]
    assert set(terms("不存在")) < set(terms("文件不存在"))
    assert terms("ファイル") == ["ファ", "ァイ", "イル"]
    assert terms("漢") == ["漢"]


def test_what_is_told_of_a_part_is_the_part() -> None:
    """A shared part of an identifier is shown as that part, not as the word it was taken from."""
    assert spelled("Hunter2-Secret failing") == {
        "hunter2-secret": "hunter2-secret", "hunter": "hunter", "secret": "secret", "fail": "failing",
    }  # fmt: skip
    assert list(spelled("漢字変換").values()) == ["漢字", "字変", "変換"]


SIZE = 8_192
HOSTILE = {
    "marks in falling order": "a" + "\u0301\u0316" * 4_095,
    "half-width marks": "ﾞ\u0334" * 4_096,
    "explosions": "\ufdfa" * SIZE,
    "one sign": "漢" * SIZE,
    "one word": "x" * SIZE,
    "capitals": "X" * (SIZE - 1) + "y",
    "humps": "aB" * 4_096,
    "dots": "a" + "." * 4_000 + "b",
    "dotted": "ab." * 2_730,
    "nul": "\x00" * SIZE,
    "surrogates": "\ud800a " * 2_730,
    "digits": "1a" * 4_096,
    "emoji": "🙂" * SIZE,
    "lines": "\n" * SIZE,
}


@pytest.mark.parametrize("name", HOSTILE)
def test_hostile_text_has_few_and_short_terms(name: str) -> None:
    """What comes of 8 KB is no more than twice as long, however it is written; each word is told in short."""
    text = HOSTILE[name]
    found, told = terms(text), spelled(text)
    assert set(told) == set(found)
    assert sum(map(len, found)) <= 2 * 2 * len(text)
    assert max(map(len, [*found, *told.values()]), default=0) <= TERM_LIMIT
    assert terms(f"{text} flux capacitor")[-2:] == ["flux", "capacitor"] or name == "explosions"


@pytest.mark.parametrize("unit", ["a", "aB", "X", "a.", ".", "-a", "E1", "EAB", "漢", "é", "1a", " a"])
def test_work_grows_with_the_text_and_no_faster(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the hostile text costs about four times the steps, where quadratic work would cost sixteen."""
    counter = count_steps(monkeypatch, words, index)
    steps = []
    for size in (1_000, 4_000):
        counter.steps = 0
        text = "error " + (unit * size)[:size]
        terms(text)
        index.codes_of(text)
        steps.append(counter.steps)
    assert steps[1] <= 7 * steps[0]


def test_runs_of_marks_are_not_composed() -> None:
    """Up to 32 marks on a letter are a letter with marks; more are a hole in the text."""
    assert terms("re\u0301sume\u0301") == terms("résumé")
    assert terms("cafe" + "\u0301\u0316" * 16) == terms("café")
    assert terms("cafe" + "\u0301\u0316" * 17) == terms("cafe") != terms("café")


@given(text=st.text(max_size=300))
def test_terms_of_any_text_can_be_stored(text: str) -> None:
    """No blank, NUL or half surrogate is in a term, so that a bag is read as it was written, and keys are short."""
    found = terms(text)
    assert not any(set(term) & {" ", "\x00"} or not term for term in found)
    "".join(found).encode("utf-8")
    indexed = index_item(7, make_item("k", text, entities=(text,), error_examples=(text,), mcp_server=text))
    assert parse_bag(write_bag(indexed.bag)) == indexed.bag
    assert all(key.startswith("7:") and len(key) <= KEY_LIMIT + 2 for key in indexed.keys)
    "".join(indexed.keys).encode("utf-8")
    assert "\x00" not in "".join(indexed.keys)


@pytest.mark.parametrize(
    ("name", "compared"), [("\x00", "\ufffd"), ("\ud800", "\ufffd"), (" +++ ", "+++"), ("A.B", "a.b")]
)
def test_a_name_without_terms_is_compared_as_it_is(name: str, compared: str) -> None:
    """What PostgreSQL takes for no text is replaced, so that a name of any kind can be looked for."""
    assert name_of(name) == compared


def test_threads_have_stemmers_of_their_own() -> None:
    """The same words in several threads at once give what they give alone."""
    text = "connections refused by repositories файлами модулей " * 200
    expected, found = terms(text), []

    def stem() -> None:
        found.append(terms(text) == expected)

    threads = [threading.Thread(target=stem) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [True] * 4


@pytest.mark.parametrize("word", ["café", "größe", "mañana", "їжак", "ґрунт"])
def test_letters_with_marks_and_of_other_alphabets_stay_in_their_words(word: str) -> None:
    """A word is one term, not what stands between its accented letters."""
    assert len(terms(word)) == 1
