"""The front matter of an item's file: a mapping of texts and lists of texts, read as strict YAML and written as YAML.

Every value is the text that stands there: `1.10` and `no` are texts, never a number or a truth value. (Pure.)
"""

from collections.abc import Mapping
from typing import Any, Final

import yaml

from ingest.errors import shown_name
from knowledge.drafts import FLAG_FIELDS, LIST_FIELDS, LIST_LIMIT
from knowledge.exchange.places import ImportFault

FENCE: Final = "---"
FLAGS: Final = {"true": True, "false": False}
MOST_PARTS: Final = 2 * LIST_LIMIT * len(LIST_FIELDS)  # fields, values and entries; an item has fewer


class _TooMuchError(Exception):
    """There are more parts than an item has."""


class _Loader(yaml.BaseLoader):
    """Reads part by part, and gives up on what is more than an item."""

    n_parts = 0

    def compose_node(self, parent: yaml.Node | None, index: Any) -> yaml.Node | None:
        self.n_parts += 1
        if self.n_parts > MOST_PARTS:
            raise _TooMuchError
        node: yaml.Node | None = super().compose_node(parent, index)
        return node


def read_front(text: str, file: str) -> tuple[dict[str, Any], dict[str, int]]:
    """Return (field -> value, field -> line in the file) of the text between the fences, which begins in line 2."""
    try:
        root = yaml.compose(text, Loader=_Loader)
    except yaml.MarkedYAMLError as error:
        line = error.problem_mark.line + 2 if error.problem_mark else 2
        raise ImportFault(file, line, "the front matter is not valid YAML here") from None
    except yaml.reader.ReaderError as error:
        line = text.count("\n", 0, error.position) + 2
        raise ImportFault(file, line, "the front matter holds a character that YAML writes escaped") from None
    except RecursionError:
        raise ImportFault(file, 2, "the front matter is nested too deeply to be read") from None
    except _TooMuchError:
        raise ImportFault(file, 2, "the front matter holds more than an item has; keep to its fields") from None
    except (ValueError, OverflowError):
        raise ImportFault(file, 2, "the front matter escapes a character that does not exist") from None
    if not isinstance(root, yaml.MappingNode):
        raise ImportFault(file, 2, "the front matter must be lines of `field: value`")
    values: dict[str, Any] = {}
    lines: dict[str, int] = {}
    for key, value in root.value:
        line = key.start_mark.line + 2
        if not isinstance(key, yaml.ScalarNode):
            raise ImportFault(file, line, "a field's name must be a word")
        name = key.value
        if name in values:
            shown = shown_name(name)
            told = f"{shown} stands in line {lines[name]} already; leave one of them out"
            raise ImportFault(file, line, told, field=shown)
        values[name], lines[name] = _value(name, value, file, line), line
    return values, lines


def _value(name: str, node: yaml.Node, file: str, line: int) -> object:
    shown = shown_name(name)
    if isinstance(node, yaml.ScalarNode):
        if name in LIST_FIELDS:
            raise ImportFault(file, line, f"{shown} must be a list of texts", field=shown)
        if name in FLAG_FIELDS:
            if node.value not in FLAGS:
                raise ImportFault(file, line, f"{shown} must be true or false", field=shown)
            return FLAGS[node.value]
        return node.value
    if isinstance(node, yaml.SequenceNode) and all(isinstance(entry, yaml.ScalarNode) for entry in node.value):
        if name in LIST_FIELDS:
            return [entry.value for entry in node.value]
        raise ImportFault(file, line, f"{shown} must be one text", field=shown)
    raise ImportFault(file, line, f"{shown} must be a text or a list of texts", field=shown)


class _Dumper(yaml.SafeDumper):
    """Writes a text that holds more than one line, or anything unusual, in double quotes on one line."""

    def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
        super().increase_indent(flow, False)


def _text(dumper: yaml.SafeDumper, value: str) -> yaml.ScalarNode:
    return dumper.represent_scalar("tag:yaml.org,2002:str", value, style=None if value.isprintable() else '"')


_Dumper.add_representer(str, _text)


def write_front(values: Mapping[str, Any]) -> str:
    """Return the front matter with its fences."""
    text = yaml.dump(dict(values), Dumper=_Dumper, allow_unicode=True, sort_keys=False, width=10**9)
    return f"{FENCE}\n{text}{FENCE}\n"
