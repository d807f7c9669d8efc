"""`docs/otlp.md` tells the truth: its tests exist, its limits and attributes are those of the code."""

import re

from ingest.otlp import attributes, documents, messages, semconv
from tests.test_docs import TEST_NAME, functions_of, read

TEXT = read("docs/otlp.md")


def test_every_test_it_names_exists() -> None:
    """No duty is proved by a test that is not there."""
    named = [found.groups() for found in TEST_NAME.finditer(TEXT)]
    assert len(named) > 20
    assert [(file, test) for file, test in named if test not in functions_of(file)] == []


def test_its_limits_are_the_codes() -> None:
    """A limit that is changed in the code is changed in the document."""
    numbers = {int(found.replace(",", "")) for found in re.findall(r"\d[\d,]+\b", TEXT)}
    assert {
        attributes.MAX_LEVELS,
        attributes.MAX_ATTRIBUTES,
        10**messages.MAX_INDEX_DIGITS - 1,
        documents.TEXT_LIMIT,
    } <= numbers


def test_kinds_and_their_order_are_the_codes() -> None:
    """All kinds are in the table, and the attributes that tell them are in the order of asking."""
    rows = re.findall(r"^\| ([a-z, ]+) \| .* \| .* \| .* \|$", TEXT, flags=re.MULTILINE)
    named = {kind for row in rows for kind in row.split(", ")}
    assert named >= set(semconv.KINDS)
    signs = re.findall(r"holds: (.*?)\.\n", TEXT, flags=re.DOTALL)[0]
    assert re.findall(r"`([^`]+)`", signs) == [key for key, _ in semconv.SIGNS]
