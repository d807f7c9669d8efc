"""Repair: whatever a value is, the result is storable, bounded and flagged, and a clean value is left alone."""

import json
from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.repair import REPAIRS, BigInteger, Repairs, clean_text, clean_value, cut_to_size

any_text = st.text(st.characters(codec=None, categories=("L", "N", "P", "Z", "Cs", "Cc")), max_size=40)
any_scalar = st.one_of(st.none(), st.booleans(), st.integers(), st.floats(), any_text)
any_json = st.recursive(
    any_scalar,
    lambda inner: st.one_of(st.lists(inner, max_size=5), st.dictionaries(any_text, inner, max_size=5)),
    max_leaves=30,
)


def cleaned(value: object, *, max_nesting: int = 64, max_key_bytes: int = 512) -> tuple[Any, list[str]]:
    repairs = Repairs()
    return clean_value(value, repairs, max_nesting=max_nesting, max_key_bytes=max_key_bytes), repairs.words


@given(any_json)
def test_any_value_becomes_strict_json_without_nul(value: Any) -> None:
    """A strict writer takes the result, it holds no NUL, and every word is in the published list."""
    result, words = cleaned(value, max_nesting=4, max_key_bytes=64)
    text = orjson.dumps(result).decode()
    assert "\\u0000" not in text.replace("\\\\", "")
    assert set(words) <= set(REPAIRS)
    assert cleaned(result, max_nesting=4, max_key_bytes=64) == (result, [])


@given(st.recursive(st.one_of(st.none(), st.booleans(), st.integers(-(2**63), 2**63 - 1), st.text("aé€😀\n\"\\")),
                    lambda inner: st.lists(inner) | st.dictionaries(st.text("aé.", max_size=9), inner)))  # fmt: skip
def test_clean_value_is_left_alone(value: Any) -> None:
    """What can be stored comes back equal and unflagged."""
    assert cleaned(value, max_nesting=99) == (value, [])


def test_halves_of_one_character_are_joined_and_lone_halves_replaced() -> None:
    """Case 7: two surrogates that belong together are one character."""
    repairs = Repairs()
    assert clean_text("a\ud83d\ude00b\ud83d", repairs) == "a😀b\ufffd"
    assert repairs.words == ["surrogate"]


def test_integers_beyond_64_bits_stay_readable() -> None:
    """The digits are kept as text, however many there are."""
    assert cleaned([2**63 - 1, -(2**63), 2**63]) == ([2**63 - 1, -(2**63), str(2**63)], ["big_integer"])
    assert cleaned(BigInteger("9" * 5_000)) == ("9" * 5_000, ["big_integer"])
    assert cleaned(1 << 100_000) == ("[integer of 100001 bits]", ["big_integer"])


def test_keys_that_become_equal_all_stay() -> None:
    """Case 15: no value is lost to another's key, and the result does not depend on anything but the input."""
    result, words = cleaned({"a\0": 1, "a\ufffd": 2, "k" * 600: 3, "k" * 601: 4})
    assert sorted(result.values()) == [1, 2, 3, 4]
    assert result["a\ufffd"] == 1
    assert all(len(key.encode()) <= 512 for key in result)
    assert words == ["nul", "key_collision", "long_key"]
    assert cleaned({"a\0": 1, "a\ufffd": 2, "k" * 600: 3, "k" * 601: 4})[0] == result


@pytest.mark.parametrize("levels", [12, 20, 200, 5_000])
def test_nesting_is_cut_at_the_limit(levels: int) -> None:
    """Case 18: within the limit nothing changes; past it stands a marker, at any depth without recursion trouble."""
    deep: Any = "bottom"
    for _ in range(levels):
        deep = [deep]
    result, words = cleaned(deep)
    assert words == ([] if levels <= 64 else ["nesting"])
    text = json.dumps(result)
    assert text.count("[") - text.count("[nested") == min(levels, 64)


def test_longest_texts_are_cut_first_and_just_enough() -> None:
    """Small texts stay whole, the cut ones share what is left, and each names its full length."""
    repairs = Repairs()
    value = {"big": "x" * 50_000, "wide": "€\n" * 20_000, "small": "kept", "n": list(range(50))}
    result = cut_to_size(value, 20_000, repairs)
    assert 19_000 < len(orjson.dumps(result)) <= 20_000
    assert (result["small"], result["n"]) == ("kept", list(range(50)))
    assert result["big"].endswith("… [cut: 50000 characters in all]")
    assert result["wide"].endswith("… [cut: 40000 characters in all]")
    assert repairs.words == ["cut"]


@given(st.dictionaries(st.text(max_size=5), st.lists(any_text, max_size=4), max_size=4), st.integers(2_000, 9_000))
def test_cut_value_fits_or_is_refused(value: Any, limit: int) -> None:
    """The result is within the limit, or the refusal is a ValueError."""
    padded = cleaned({**value, "pad": "é\t" * 4_000})[0]
    result = cut_to_size(padded, limit, Repairs())
    assert len(orjson.dumps(result)) <= limit


def test_many_small_parts_cannot_be_cut() -> None:
    """A value that is large without long texts is refused."""
    repairs = Repairs()
    with pytest.raises(ValueError, match="too large"):
        cut_to_size({"n": list(range(50_000)), "t": ["short"] * 9_000}, 20_000, repairs)
    assert repairs.words == []
