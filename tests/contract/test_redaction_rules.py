"""A project's own patterns: which are accepted, what they take out, and that they stay linear and idempotent."""

import json
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract import redaction_rules
from contract.redaction import redact, redact_value
from contract.redaction_rules import FOUND_LIMIT, LENGTH_LIMIT, PATTERN_LIMIT, compile_rules
from contract.secret_values import MARKED

EMPLOYEE = {"kind": "employee", "pattern": r"EMP-\d{6}"}
CARD = {"kind": "card", "pattern": r"\b\d{4}-\d{4}-\d{4}-\d{4}\b"}
RULES = compile_rules([EMPLOYEE, CARD])


@pytest.mark.parametrize(
    ("text", "clean", "n"),
    [
        ("EMP-123456 signed in", "[REDACTED:employee] signed in", 1),
        ("EMP-123456EMP-654321", "[REDACTED:employee][REDACTED:employee]", 2),
        ("card 1111-2222-3333-4444, EMP-000001", "card [REDACTED:card], [REDACTED:employee]", 2),
        ("сотрудник EMP-123456 ✓ вышел", "сотрудник [REDACTED:employee] ✓ вышел", 1),
        ("password=hunter2 of EMP-123456", "password=[REDACTED:password] of [REDACTED:employee]", 2),
        ("\ud800 EMP-123456 \x00", "\ud800 [REDACTED:employee] \x00", 1),
        ("EMP-12345 is too short", "EMP-12345 is too short", 0),
        ("", "", 0),
    ],
)
def test_own_patterns_are_taken_out(text: str, clean: str, n: int) -> None:
    """What a pattern finds goes under the pattern's kind, beside what goes anyway; offsets are those of characters."""
    assert redact(text, RULES) == (clean, n)
    assert redact(clean, RULES) == (clean, 0)


def test_own_patterns_reach_names_and_values() -> None:
    """They are looked for in every text and every name of a JSON value; without them the value is left alone."""
    value = {"EMP-123456": {"badge": ["EMP-654321", 7]}, "note": "ok"}
    clean, n = redact_value(value, RULES)
    assert clean == {"[REDACTED:employee]": {"badge": ["[REDACTED:employee]", 7]}, "note": "ok"}
    assert n == 2
    assert redact_value(value)[0] is value
    assert redact_value(clean, RULES)[0] is clean


def test_anchors_are_those_of_each_text() -> None:
    """`^` and `$` mean the start and end of one text, not of all texts of the value together."""
    rules = compile_rules([{"kind": "code", "pattern": "^[A-Z]{3}$"}])
    assert redact_value({"a": "ABC", "b": "x ABC", "c": ["DEF"]}, rules) == (
        {"a": "[REDACTED:code]", "b": "x ABC", "c": ["[REDACTED:code]"]},
        2,
    )


def test_overlapping_finds_are_one() -> None:
    """Where two patterns overlap, all that either finds goes, once."""
    rules = compile_rules([{"kind": "first", "pattern": "abcd"}, {"kind": "second", "pattern": "cdef"}])
    assert redact("xabcdefx", rules) == ("x[REDACTED:first]x", 1)


def test_no_rules_are_no_rules() -> None:
    """An empty list is accepted, is false, and changes nothing."""
    rules = compile_rules([])
    assert not rules
    assert RULES
    assert redact("EMP-123456", rules) == ("EMP-123456", 0)


@pytest.mark.parametrize(
    ("patterns", "said"),
    [
        ({}, "must be a list"),
        (None, "must be a list"),
        ([EMPLOYEE] * (PATTERN_LIMIT + 1), f"the limit is {PATTERN_LIMIT}"),
        (["EMP"], 'pattern 1 must be an object with "kind" and "pattern"'),
        ([{"kind": "a"}], 'must be an object with "kind" and "pattern"'),
        ([EMPLOYEE, {**EMPLOYEE, "flags": "i"}], "pattern 2 must be an object"),
        ([{"kind": "Employee", "pattern": "a"}], "kind must be 1 to 40 lower-case letters"),
        ([{"kind": "", "pattern": "a"}], "kind must be"),
        ([{"kind": "a" * 41, "pattern": "a"}], "kind must be"),
        ([{"kind": "a\n", "pattern": "a"}], "kind must be"),
        ([{"kind": "a", "pattern": ""}], f"1 to {LENGTH_LIMIT} characters"),
        ([{"kind": "a", "pattern": "a" * (LENGTH_LIMIT + 1)}], f"1 to {LENGTH_LIMIT} characters"),
        ([{"kind": "a", "pattern": 7}], "must be text"),
        ([{"kind": "a", "pattern": "(a"}], "not a pattern of RE2"),
        ([{"kind": "a", "pattern": "(?<=a)b"}], "not a pattern of RE2"),
        ([{"kind": "a", "pattern": r"(a)\1"}], "not a pattern of RE2"),
        ([{"kind": "a", "pattern": "a*"}], "matches the empty text"),
        ([{"kind": "a", "pattern": r"\b"}], "matches the empty text"),
        ([{"kind": "a", "pattern": "x|$"}], "matches the empty text"),
        ([{"kind": "a", "pattern": r"(?:[\pL\pN]{30}){30}"}], "too large"),
        ([{"kind": "a", "pattern": r"\Qa"}], "not accepted"),
        ([{"kind": "a", "pattern": "\ud800"}], "lone surrogate"),
    ],
)
def test_what_is_refused_and_why(patterns: Any, said: str) -> None:
    """A refusal is one sentence that names the pattern by its number and says what would do."""
    with pytest.raises(ValueError, match=".") as refused:
        compile_rules(patterns)
    assert said in str(refused.value)
    assert "\n" not in str(refused.value)


@pytest.mark.parametrize("pattern", [r"(a+)+$b", r"(a|aa)+c", r"(.*a){12}b", r"(x+x+)+y", r"a.*z|a"])
def test_patterns_that_explode_elsewhere_do_not_here(pattern: str) -> None:
    """On 100 KB of what a backtracking engine would never end with, an answer comes; a test's time-out would tell."""
    rules = compile_rules([{"kind": "x", "pattern": pattern}])
    clean, n = redact("a" * 100_000, rules)
    assert n <= FOUND_LIMIT
    assert len(clean) <= 100_000 + 20 * n


def test_looks_at_one_text_are_bounded() -> None:
    """A pattern found everywhere is looked for a fixed number of times, and then what is left goes whole."""
    rules = compile_rules([{"kind": "x", "pattern": "a.*z|a"}])
    clean, n = redact("a" * (FOUND_LIMIT + 500), rules)
    assert n == FOUND_LIMIT
    assert "a" not in clean.replace("[REDACTED:x]", "")


def test_patterns_that_cannot_be_joined_work_all_the_same() -> None:
    """Two groups of one name cannot stand in one pattern; both are looked for."""
    rules = compile_rules([{"kind": "a", "pattern": "(?P<x>foo1)"}, {"kind": "b", "pattern": "(?i)(?P<x>bar2)"}])
    assert redact("foo1 BAR2 FOO1", rules) == ("[REDACTED:a] [REDACTED:b] FOO1", 2)


def test_markers_are_never_cut() -> None:
    """A pattern that finds the inside of a marker leaves it; one that reaches over it takes it whole."""
    words = compile_rules([{"kind": "word", "pattern": "[A-Za-z]+"}])
    assert redact("[REDACTED:token]", words) == ("[REDACTED:token]", 0)
    line = compile_rules([{"kind": "line", "pattern": "EMP: .{12}"}])
    assert redact("EMP: x [REDACTED:password] y", line) == ("[REDACTED:line] y", 1)


PIECES = st.lists(
    st.sampled_from(
        ["EMP-123456", "EMP-", "1111-2222-3333-4444", "password=", "hunter2", "[REDACTED:employee]", "[REDACTED:", "]",
         " ", "\n", "é", "\ud800", "\x00", "a", "7", "-", "ghp_" + "a1" * 18]
    ),
    max_size=12,
).map("".join)  # fmt: skip
SENSIBLE = compile_rules(
    [EMPLOYEE, CARD, {"kind": "host", "pattern": r"(?i)[a-z0-9-]+\.corp\.example"}, {"kind": "name", "pattern": "é+"}]
)


@given(PIECES)
@settings(max_examples=500, deadline=None, derandomize=True)
def test_a_second_pass_changes_nothing(text: str) -> None:
    """Own patterns and ours together are idempotent."""
    clean, _ = redact(text, SENSIBLE)
    assert redact(clean, SENSIBLE) == (clean, 0)


@given(PIECES)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_markers_stay_whole(text: str) -> None:
    """No marker is put into another or cut: without the whole ones, nothing of a marker is left."""
    clean, _ = redact(text.replace("[REDACTED:", ""), SENSIBLE)
    assert "REDACTED" not in MARKED.sub("", clean)


@given(st.dictionaries(PIECES, st.lists(PIECES, max_size=3), max_size=4))
@settings(max_examples=300, deadline=None, derandomize=True)
def test_a_value_loses_what_its_texts_lose(value: dict[str, list[str]]) -> None:
    """The look over all texts joined never hides what one of them holds; no entry is lost."""
    clean, n = redact_value(value, SENSIBLE)
    assert len(clean) == len(value)
    assert (n == 0) == (clean == value)
    assert not any(SENSIBLE.may_hold([text]) for texts in clean.values() for text in texts if "[REDACTED" not in text)
    json.dumps(clean)


def test_limits_are_what_the_settings_page_says() -> None:
    """The sentences name the numbers that hold."""
    assert (PATTERN_LIMIT, LENGTH_LIMIT) == (20, 500)
    assert redaction_rules.compile_rules([EMPLOYEE] * PATTERN_LIMIT)
