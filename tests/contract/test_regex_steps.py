"""The step counter agrees with `re` and sees a bad pattern."""

import re

import pytest

from tests.contract.regex_steps import CountedPattern, Counter

TEXTS = ("", "aaa", "foo=bar, x: 1", "a-b--c\n\nd", "AbC aBc", "-----BEGIN X-----\nabc", "é ñ 数字 42", "aaaaaaaaab")
PATTERNS = (
    r"a+b", r"(?:a|ab)*c?", r"(?<!a)a(?=a)", r"[^\W\d]+", r"(?i:abc)\b", r"a{1,2}?a", r"(?:ab?){0,3}+", r"(?>a+)b",
    r"\d+|[a-c-]++", r"^.", r"\Z", r"(?<=o)=", r".$", r"\s*", r"(?i)[A-C]{2}", r"\B\w",
)  # fmt: skip


@pytest.mark.parametrize("pattern", PATTERNS)
def test_counter_finds_what_re_finds(pattern: str) -> None:
    """Every search is compared inside the counter, so walking the texts is the assertion; work is counted."""
    counter = Counter()
    counted = CountedPattern(re.compile(pattern), counter)
    for text in TEXTS:
        assert [found.span() for found in counted.finditer(text)] == [m.span() for m in re.finditer(pattern, text)]
        counted.match(text)
        counted.fullmatch(text)
        counted.search(text)
    assert counter.steps > len(TEXTS)


def test_counter_sees_quadratic_work() -> None:
    """A pattern that scans to the end from every start costs four times as much on twice the text."""
    counter = Counter()
    counted = CountedPattern(re.compile(r"a+b"), counter)
    counted.search("a" * 200)
    once, counter.steps = counter.steps, 0
    counted.search("a" * 400)
    assert counter.steps > 3.5 * once
