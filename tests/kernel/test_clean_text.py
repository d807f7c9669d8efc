"""Redaction at the edges: what is remembered never changes what leaves."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from contract.redaction import redact, redact_value
from kernel.edge import clean_text
from kernel.edge.clean_text import clean, clean_fields

SECRET = "ghp_" + "Z9y8X7w6V5u4T3s2R1q0P9o8N7m6L5k4J3i2"
NAMES = st.sampled_from(
    ["n_messages", "tokens", "detail", "password", "api_key", "key", "name", "value", "stringValue", "cookie", SECRET]
)
TEXTS = st.text(max_size=40) | st.sampled_from(["password", "api_key", "hunter2hunter2", SECRET, f"token={SECRET}"])
VALUES: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | TEXTS,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(NAMES, inner, max_size=3),
    max_leaves=6,
)


@given(TEXTS)
def test_a_text_is_redacted_as_the_contract_says(text: str) -> None:
    """The first and the second look at a text give what the contract's redaction gives."""
    assert clean(text) == clean(text) == redact(text)[0]


@given(st.dictionaries(NAMES, VALUES, max_size=5))
def test_fields_are_redacted_as_the_contract_says(fields: dict[str, Any]) -> None:
    """Names count as they do for a whole JSON value, and the fields given stay as they were."""
    given_fields = repr(fields)
    assert clean_fields(fields) == clean_fields(fields) == redact_value(fields)[0]
    assert repr(fields) == given_fields


@pytest.mark.parametrize("before", [10, 1_000])
def test_no_secret_is_remembered(before: int) -> None:
    """What is remembered is the clean text, never the one with the secret in it."""
    text = "x " * before + SECRET
    cleaned = clean(text)
    remembered = [*clean_text._short, *clean_text._long]
    assert cleaned in remembered
    assert not any(SECRET in one for one in remembered)


def test_memory_is_bounded() -> None:
    """Only so many texts are remembered, and none that is very long."""
    for number in range(clean_text.SHORT_TEXTS + 10):
        clean(f"text {number}")
    for number in range(clean_text.LONG_TEXTS + 10):
        clean(f"text {number} " * 100)
    clean("very long " * clean_text.LONG)
    assert len(clean_text._short) == clean_text.SHORT_TEXTS
    assert len(clean_text._long) == clean_text.LONG_TEXTS
    assert max(map(len, clean_text._long)) <= clean_text.LONG
