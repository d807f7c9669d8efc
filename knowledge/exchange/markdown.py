"""An item as one Markdown file: front matter with the short fields, the rule, then sections of text.

    ---
    knowledge_id: git-init
    state: confirmed
    topics:
      - git
    ---
    Outside of a repository git commands fail: run `git init` first.

    ## Why
    ...
    ## Verify
    ## Caution
    ## Error examples        (each one in a fence of its own)

A line of text that begins with # is written \\#, and one that begins with \\# or \\\\ gets one more backslash. What a
body cannot hold exactly (a text that begins or ends with an empty line, a carriage return) stands in the front matter
under the field's name; a field in both places is refused. Pure.
"""

import re
from collections.abc import Iterator, Sequence
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote

from knowledge.drafts import ItemDraft, KnowledgeError, as_object, parse_draft
from knowledge.exchange.front_matter import FENCE, read_front, write_front
from knowledge.exchange.places import ImportFault, Placed, decode, fault_of

MEDIA_TYPE: Final = "text/markdown"
SUFFIX: Final = ".md"
RULE: Final = "proposition"
EXAMPLES: Final = "error_examples"
SECTIONS: Final = {"Why": "why", "Verify": "verify", "Caution": "caution", "Error examples": EXAMPLES}
TEXTS: Final = (RULE, "why", "verify", "caution")
PLAIN_NAME: Final = re.compile(r"[a-z0-9_-][a-z0-9._-]{0,99}")
NAME_LENGTH: Final = 100  # characters of an encoded id that a file's name begins with
_HEADING: Final = re.compile(r"## (.+?)\s*")
_FENCE: Final = re.compile(r"(`{3,})\s*\w*\s*")
_ESCAPED: Final = ("\\#", "\\\\")


def write_markdown(draft: ItemDraft) -> str:
    """Return the file of an item. Reading it gives the same draft."""
    texts = {name: str(getattr(draft, name)) for name in TEXTS}
    body = {name: text for name, text in texts.items() if _fits(text)}
    examples = draft.error_examples if all("\r" not in example for example in draft.error_examples) else ()
    front = {name: value for name, value in as_object(draft).items() if name not in body}
    if examples:
        front.pop(EXAMPLES, None)
    parts = [write_front(front)]
    parts += [f"{_escape(body[RULE])}\n"] if RULE in body else []
    for heading, name in SECTIONS.items():
        if name in body:
            parts.append(f"\n## {heading}\n\n{_escape(body[name])}\n")
    if examples:
        parts.append("\n## Error examples\n" + "".join(f"\n{_fenced(example)}\n" for example in examples))
    return "".join(parts)


def read_markdown(data: bytes, file: str) -> Placed:
    """Return the item of a file. Raises ImportFault naming file, line and field."""
    lines = decode(data, file).split("\n")
    if lines[0].rstrip() != FENCE:
        raise ImportFault(file, 1, "the file must begin with front matter: a line of three dashes")
    end = next((place for place, line in enumerate(lines[1:], 1) if line.rstrip() == FENCE), None)
    if end is None:
        raise ImportFault(file, 1, "the front matter has no end: a second line of three dashes")
    values, places = read_front("\n".join(lines[1:end]) + "\n", file)
    for name, line, value in _sections(lines, end + 1, file):
        if name in values:
            raise ImportFault(file, line, f"{name} stands in line {places[name]} already", field=name)
        values[name], places[name] = value, line
    try:
        return Placed(parse_draft(values), file, places.get("knowledge_id", 1))
    except KnowledgeError as error:
        raise fault_of(error, file, places.get(error.field, 1)) from None


def file_name(knowledge_id: str) -> str:
    """Return the name of an item's file: its id where that is a safe name on any system, else the id encoded.

    An encoded name ends with a hash of the id: no two ids share one, also where letters have no case or names are cut.
    """
    if PLAIN_NAME.fullmatch(knowledge_id) and not knowledge_id.endswith("."):
        return knowledge_id + SUFFIX
    digest = sha256(knowledge_id.encode()).hexdigest()[:12]
    encoded = quote(knowledge_id, safe="").replace(".", "%2E")
    return f"{encoded[:NAME_LENGTH]}~{digest}{SUFFIX}"


def _fits(text: str) -> bool:
    """Say whether a body can hold a text exactly."""
    lines = text.split("\n")
    return "\r" not in text and bool(lines[0].strip()) and bool(lines[-1].strip())


def _escape(text: str) -> str:
    return "\n".join(f"\\{line}" if line.startswith(("#", *_ESCAPED)) else line for line in text.split("\n"))


def _fenced(example: str) -> str:
    runs = [len(run) for run in re.findall(r"`+", example)]
    fence = "`" * max([3, *(length + 1 for length in runs)])
    return f"{fence}\n{example}\n{fence}"


def _sections(lines: Sequence[str], start: int, file: str) -> Iterator[tuple[str, int, Any]]:
    """Yield (field, its first line in the file, value) of what the body holds; a section without text is none."""
    name, begun = RULE, start
    found: set[str] = set()
    place = start
    while place <= len(lines):
        line = lines[place] if place < len(lines) else None
        if line is not None and name == EXAMPLES and (fence := _FENCE.fullmatch(line)):
            place = _end_of(lines, place, fence[1], file)
        elif line is None or line.startswith("#"):
            if value := _read_section(name, lines, begun, place, file):
                yield name, begun + 1, value
            found.add(name)
            if line is not None:
                name, begun = _section_of(line, place, found, file), place + 1
        place += 1


def _section_of(line: str, place: int, found: set[str], file: str) -> str:
    heading = _HEADING.fullmatch(line)
    name = SECTIONS.get(heading[1]) if heading else None
    if name is None:
        known = ", ".join(f"## {one}" for one in SECTIONS)
        raise ImportFault(
            file, place + 1, f"a line with # begins a section, and known are {known}; text is written \\#"
        )
    if name in found:
        raise ImportFault(file, place + 1, "this section stands above already; leave one of them out", field=name)
    return name


def _read_section(name: str, lines: Sequence[str], start: int, end: int, file: str) -> Any:
    if name == EXAMPLES:
        return list(_examples(lines, start, end, file))
    texts = [line[1:] if line.startswith(_ESCAPED) else line for line in lines[start:end]]
    while texts and not texts[0].strip():
        texts.pop(0)
    while texts and not texts[-1].strip():
        texts.pop()
    return "\n".join(texts)


def _examples(lines: Sequence[str], start: int, end: int, file: str) -> Iterator[str]:
    place = start
    while place < end:
        fence = _FENCE.fullmatch(lines[place])
        if fence:
            last = _end_of(lines, place, fence[1], file)
            yield "\n".join(lines[place + 1 : last])
            place = last
        elif lines[place].strip():
            told = "each error example stands in a fence of its own: a line of three backticks before and after it"
            raise ImportFault(file, place + 1, told, field=EXAMPLES)
        place += 1


def _end_of(lines: Sequence[str], start: int, fence: str, file: str) -> int:
    """Return the place of the line that ends the fence begun at `start`: at least as many backticks, nothing else."""
    for place in range(start + 1, len(lines)):
        line = lines[place].rstrip()
        if len(line) >= len(fence) and not line.strip("`"):
            return place
    raise ImportFault(file, start + 1, "this fence has no end: a line of as many backticks", field=EXAMPLES)
