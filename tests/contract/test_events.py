"""Event types: their examples, their published schemas, and what the door refuses."""

from typing import Any

import pytest
from jsonschema import Draft202012Validator
from jsonschema.exceptions import ValidationError

from contract import stages
from contract.event_fields import KINDS, Field
from contract.event_page import event_page
from contract.events import ENVELOPE_FIELDS, EVENT_TYPES, REQUIRED_FIELDS, TERMINAL_TYPES, check_data, json_schema
from contract.text import CLIP_MARKER, clip, estimate_tokens
from tests.source_rules import ROOT

# A value of each kind, and one that only looks like it.
RIGHT: dict[str, Any] = {"str": "x", "int": 7, "number": 1.5, "bool": True, "object": {}, "array": []}
WRONG: dict[str, list[Any]] = {
    "str": [7, True, ["x"], {}],
    "int": ["7", 1.5, True, [7]],
    "number": ["1.5", False, []],
    "bool": [1, "true", 0],
    "object": [[], "{}", 1],
    "array": [{}, "[]", 1],
}
FIELDS = [(name, key, field) for name, known in EVENT_TYPES.items() for key, field in known.fields.items()]


def right_value(field: Field) -> Any:
    if field.keys:
        return {key: right_value(inner) for key, inner in field.keys.items()}
    if field.is_trigger:
        return "entity.appeared"
    if field.highest is not None:
        return field.highest
    return next(iter(field.words)) if field.words else RIGHT[field.kind]


def complete(event_type: str) -> dict[str, Any]:
    """`data` with every field of the type set to a right value."""
    return {key: right_value(field) for key, field in EVENT_TYPES[event_type].fields.items()}


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_examples_are_valid(event_type: str) -> None:
    """The example of each type passes the door and its own schema, and so does data with every field set."""
    validator = Draft202012Validator(json_schema(event_type))
    for data in (dict(EVENT_TYPES[event_type].example), complete(event_type)):
        assert check_data(event_type, data) is None
        validator.validate(data)


@pytest.mark.parametrize("event_type", EVENT_TYPES)
def test_schemas_are_valid_and_say_everything(event_type: str) -> None:
    """A schema is valid draft 2020-12, describes each field and lists the closed words."""
    schema = json_schema(event_type)
    Draft202012Validator.check_schema(schema)
    fields = EVENT_TYPES[event_type].fields
    assert set(schema["properties"]) == set(fields)
    assert all(schema["properties"][key]["description"] == field.doc for key, field in fields.items())
    assert schema["required"] == [key for key, field in fields.items() if field.required]
    assert all(schema["properties"][key]["enum"] == list(field.words) for key, field in fields.items() if field.words)


@pytest.mark.parametrize(("event_type", "key", "field"), FIELDS, ids=[f"{name}.{key}" for name, key, _ in FIELDS])
def test_each_wrongness_is_refused_by_name(event_type: str, key: str, field: Field) -> None:
    """A wrong kind, a word outside a closed vocabulary, a missing required field: named, without the value."""
    validator = Draft202012Validator(json_schema(event_type))
    for value in WRONG[field.kind]:
        problem = check_data(event_type, complete(event_type) | {key: value})
        assert problem == f"data.{key} must be of type {field.kind}"
        with pytest.raises(ValidationError):
            validator.validate(complete(event_type) | {key: value})
    if field.words:
        problem = check_data(event_type, complete(event_type) | {key: "hunter2"})
        assert problem is not None and problem.startswith(f"data.{key} must be one of: ")
        assert "hunter2" not in problem
    without = {name: value for name, value in complete(event_type).items() if name != key}
    problem = check_data(event_type, without)
    assert (problem is not None) == field.required
    assert check_data(event_type, without | {key: None}) == problem
    if field.required:
        assert problem is not None and problem.startswith(f"data.{key} is required for {event_type}")


TRIGGERED = [name for name, known in EVENT_TYPES.items() if "trigger" in known.fields]


@pytest.mark.parametrize("trigger", ["entity.appeared", "a.b", "x1.y_2.z", f"a.{'b' * 62}", *stages.TRIGGERS])
def test_any_trigger_of_the_right_form_is_accepted(trigger: str) -> None:
    """A trigger nobody named before passes the door and the published schema, in every type that has one."""
    assert len(TRIGGERED) >= 6
    for event_type in TRIGGERED:
        data = complete(event_type) | {"trigger": trigger}
        assert check_data(event_type, data) is None
        Draft202012Validator(json_schema(event_type)).validate(data)


@pytest.mark.parametrize(
    "trigger",
    [
        "",
        "entity",
        "Entity.appeared",
        "entity..appeared",
        ".a",
        "a.",
        "a. b",
        "1.a",
        "a-b.c",
        "a.b\n",
        "é.a",
        f"a.{'b' * 63}",
    ],
)
def test_a_malformed_trigger_is_refused_with_field_limit_and_form(trigger: str) -> None:
    """The refusal names the field, the limit and the form, and not the value."""
    for event_type in TRIGGERED:
        problem = check_data(event_type, complete(event_type) | {"trigger": trigger})
        assert problem is not None
        assert problem.startswith("data.trigger must be the name of a trigger: at most 64 characters")
        assert "such as tool.failed" in problem
        assert len(trigger) < 5 or trigger not in problem


HOLDOUT = {"experiment": "spring", "arm": "withheld", "share": 0.2, "tokens": 212}


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"arm": None}, "data.holdout.arm is required for data.holdout (what was drawn)"),
        ({"arm": "left"}, "data.holdout.arm must be one of: offered, withheld"),
        ({"share": None}, "data.holdout.share is required for data.holdout (share of situations that are withheld)"),
        ({"share": 1.01}, "data.holdout.share must be from 0 to 1"),
        ({"share": -0.1}, "data.holdout.share must be from 0 to 1"),
        ({"share": float("nan")}, "data.holdout.share must be from 0 to 1"),
        ({"share": "0.2"}, "data.holdout.share must be of type number"),
        ({"tokens": -1}, "data.holdout.tokens must be 0 or more"),
        ({"tokens": 1.5}, "data.holdout.tokens must be of type int"),
        ({"experiment": 7}, "data.holdout.experiment must be of type str"),
    ],
)
def test_a_draw_that_is_none_is_refused(change: dict[str, Any], problem: str) -> None:
    """Each part of a holdout draw is checked by name; the draw as a whole passes, and so do keys of other names."""
    base = {"trigger": "tool.failed", "result": "success"}
    assert check_data("activation.completed", {**base, "holdout": {**HOLDOUT, "seed": "own"}}) is None
    assert check_data("activation.completed", {**base, "holdout": {**HOLDOUT, **change}}) == problem
    assert check_data("activation.completed", {**base, "shadow_tokens": -1}) == "data.shadow_tokens must be 0 or more"


def test_unknown_types_and_keys_are_fine() -> None:
    """What is not known is kept, not refused; a schema for it does not exist."""
    assert check_data("vendor.special", {"x": object()}) is None
    assert check_data("turn.started", {"own": [1]}) is None
    with pytest.raises(KeyError):
        json_schema("vendor.special")


def test_every_field_has_a_known_kind_and_a_sentence() -> None:
    """No field is of a kind nothing checks, and none goes without words for a person."""
    assert {field.kind for _, _, field in FIELDS} <= set(KINDS)
    assert all(field.doc for _, _, field in FIELDS)
    assert all(known.doc.endswith(".") for known in EVENT_TYPES.values())


def test_terminal_types_are_the_terminal_statuses() -> None:
    """Each run status but running is the end that exactly one type records."""
    assert sorted(TERMINAL_TYPES.values()) == sorted(set(stages.RUN_STATUSES) - {"running"})
    assert all(name == f"run.{status}" for name, status in TERMINAL_TYPES.items())


def test_the_envelope_names_each_field_once() -> None:
    """Required fields are envelope fields and no name is there twice."""
    assert set(REQUIRED_FIELDS) <= set(ENVELOPE_FIELDS)
    assert len(ENVELOPE_FIELDS) == len(set(ENVELOPE_FIELDS))


REMAKE = (
    '.venv/bin/python -c "from contract.event_page import event_page; print(event_page(), end=str())" > docs/events.md'
)


def test_the_page_of_event_types_is_of_today() -> None:
    """docs/events.md is what the table of types says; when this fails, run the command shown."""
    assert (ROOT / "docs/events.md").read_text(encoding="utf-8") == event_page(), REMAKE
    assert all(f"## {name}\n" in event_page() for name in EVENT_TYPES)


VOCABULARIES = {
    name: words for name, words in vars(stages).items() if name.isupper() and isinstance(words, dict)
}  # fmt: skip


@pytest.mark.parametrize("name", VOCABULARIES)
def test_every_word_is_explained(name: str) -> None:
    """Each vocabulary word has an explanation of its own that is more than the word."""
    words = VOCABULARIES[name]
    assert all(len(meaning.split()) >= 2 for meaning in words.values())
    assert len(set(words.values())) == len(words)


def test_stages_keep_their_order() -> None:
    """The chain's stages stand in the order a hint goes through them; retired states are item states."""
    assert list(stages.STAGES) == ["retrieved", "offered", "selected", "injected", "used"]
    assert set(stages.RETIRED_STATES) <= set(stages.ITEM_STATES)


@pytest.mark.parametrize(("text", "tokens"), [("", 0), ("a", 1), ("abcd", 1), ("abcde", 2), ("ключ", 1), ("𝄞" * 5, 2)])
def test_tokens_are_estimated_by_code_points(text: str, tokens: int) -> None:
    """Four code points make a token, a started token counts, bytes do not matter."""
    assert estimate_tokens(text) == tokens


@pytest.mark.parametrize("limit", [64, 100, 300, 399, 990])
def test_a_clipped_text_says_how_much_is_missing(limit: int) -> None:
    """A cut text fills the limit and its marker counts exactly what was left out, for any number of digits."""
    for length in range(limit + 1, limit + 1_200):
        cut = clip("é" * length, limit)
        kept = cut.count("é")
        assert limit - 1 <= len(cut) <= limit
        assert cut == "é" * kept + CLIP_MARKER.format(n=length - kept)


def test_a_short_text_is_not_clipped() -> None:
    """A text within the limit comes back as it is; without room for a marker the cut is hard."""
    assert clip("abc", 3) == "abc"
    assert clip("abcdef", 3) == "abc"
