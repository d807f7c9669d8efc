"""The quick look: with the automaton and with the rules alone redaction does the same, never raises and is linear."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from bench.redaction import SPAN, hostile_units
from contract import redaction, secret_finders, secret_formats, secret_scan, secret_values
from contract.redaction import redact, redact_value
from contract.secret_scan import CompiledScan, RulesScan
from contract.secret_values import MARKED
from tests.contract.regex_steps import count_steps
from tests.contract.secret_samples import samples
from tests.contract.test_redaction import BESIDE_NAMES, SURVIVORS, formats

CORPORA = sorted((Path(__file__).parent / "corpora").glob("*.*"))
WHOLE = [secret for _, secret in formats()] + [text for text, _, _ in BESIDE_NAMES] + SURVIVORS
ANYTHING = st.text(st.characters(codec=None), max_size=200) | st.lists(
    st.sampled_from(
        [*WHOLE, "\x00", "\ud800", "\udfff", "\x0b", "\x0c", "\u00a0", "\u2028", "İ", "K", "ſ", "²", "٣", " ", "\n"]
    ),
    max_size=6,
).map("".join)
VALUES = st.recursive(
    ANYTHING | st.none() | st.booleans() | st.integers() | st.floats(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(ANYTHING, inner, max_size=3),
    max_leaves=8,
)


def with_scan(scan: RulesScan | CompiledScan, value: Any) -> tuple[Any, int]:
    """Redact with one of the two looks."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(redaction, "SCAN", scan)
        return redact_value(value)


def test_the_automaton_is_what_runs() -> None:
    """The wheel is installed where these tests run, so that the comparisons below compare two things."""
    assert (secret_scan.SCAN.name, secret_scan.RULES.name) == ("re2", "rules")


def test_both_looks_give_the_same_on_all_that_is_known() -> None:
    """Every form, every place, every survivor, every sample and every corpus comes out the same."""
    values = [*WHOLE, *(sample.value for sample in samples()), *(path.read_text(encoding="utf-8") for path in CORPORA)]
    assert len(values) > 3_000
    for value in values:
        assert with_scan(secret_scan.RULES, value) == with_scan(secret_scan.SCAN, value), value


@given(ANYTHING)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_both_looks_give_the_same_on_anything(text: str) -> None:
    """Half characters, NUL and letters that change their length in lower case make no difference."""
    assert with_scan(secret_scan.RULES, text) == with_scan(secret_scan.SCAN, text)


@given(VALUES)
@settings(max_examples=120, deadline=None, derandomize=True)
def test_any_value_keeps_its_structure(value: Any) -> None:
    """Nothing raises; lists and objects keep their lengths, a clean value is itself, and a second pass rests."""
    before = repr(value)
    clean, n = redact_value(value)
    assert repr(value) == before
    assert _shape(clean) == _shape(value)
    assert (clean is value) == (n == 0)
    assert repr(redact_value(clean)) == repr((clean, 0))


def _shape(value: Any) -> Any:
    if isinstance(value, dict):
        return [_shape(inner) for inner in value.values()]
    return [_shape(inner) for inner in value] if isinstance(value, list) else None


@given(ANYTHING)
@settings(max_examples=400, deadline=None, derandomize=True)
def test_markers_are_never_nested(text: str) -> None:
    """A marker is whole and holds no other: what is left without the whole ones has none of it."""
    assert "REDACTED" not in MARKED.sub("", redact(text.replace("[REDACTED", ""))[0])


def test_without_the_wheel_the_rules_decide() -> None:
    """In a process that cannot import it, secrets go as before; own patterns are refused with the reason."""
    program = """
import json, sys
sys.modules["re2"] = None
from contract.redaction import redact, redact_value
from contract.redaction_rules import compile_rules
from contract.secret_scan import SCAN
try:
    said = compile_rules([{"kind": "a", "pattern": "a"}])
except ValueError as error:
    said = str(error)
print(json.dumps([SCAN.name, redact("password=hunter2 x"), redact_value({"a": ["ok"]}), bool(compile_rules([])), said]))
"""
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert json.loads(done.stdout) == [
        "rules",
        ["password=[REDACTED:password] x", 1],
        [{"a": ["ok"]}, 0],
        False,
        "redaction patterns need the package google-re2, which is not installed here",
    ]


def test_no_secret_and_no_long_name_is_remembered() -> None:
    """Only clean names are known again, only so many of them, and none that is long."""
    secret = "ghp_" + "Z9y8X7w6V5u4T3s2R1q0P9o8N7m6L5k4J3i2"
    redact_value({secret: 1, "password": "hunter2", "x" * 1_000: 1})
    for number in range(redaction._PLAIN_NAMES + 10):
        redact_value({f"name {number}": number})
    assert secret not in redaction._plain
    assert "password" not in redaction._plain
    assert 0 < len(redaction._plain) <= redaction._PLAIN_NAMES
    assert max(map(len, redaction._plain)) <= redaction.PLAIN_LENGTH


def test_a_clean_event_is_looked_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """A span of twenty texts costs one search of the automaton and no step of any other expression."""
    for _ in range(2):  # the names it has are remembered now, also where the first time the memory was full
        redact_value(SPAN)
    counter = count_steps(monkeypatch, secret_finders, secret_formats, secret_values)
    looks = []
    scan = secret_scan.CompiledScan(secret_scan.ENGINE)
    search = scan._any
    scan._any = lambda encoded: looks.append(len(encoded)) or search(encoded)
    monkeypatch.setattr(redaction, "SCAN", scan)
    assert redact_value(SPAN)[0] is SPAN
    assert len(looks) == 1
    assert looks[0] < len(json.dumps(SPAN))
    assert counter.steps == 0


@pytest.mark.parametrize("unit", hostile_units(mixes=12))
def test_steps_double_with_the_text(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Twice the hostile text costs about twice the steps: needles, almost-matches, quotes and blocks without an end."""
    counter = count_steps(monkeypatch, secret_finders, secret_formats, secret_values)
    steps = []
    for size in (2_400, 4_800):
        counter.steps = 0
        redact(unit * (size // len(unit)))
        steps.append(counter.steps)
    assert steps[1] <= 2.2 * steps[0] + 2_000
