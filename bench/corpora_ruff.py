"""Remakes `ruff.*.jsonl` and `ruff-words.*.jsonl` with the installed ruff: `python -m bench.corpora_ruff`.

Items: what each rule's own documentation says, shortened to an item. Queries: what ruff prints for the bad example of
that documentation, taken only where the rule really fires on it: of `ruff` the line with place and code, and the item
has the code as an entity; of `ruff-words` the message alone, and no item has a code. Neither message nor example
stands in an item.
"""

import json
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping
from itertools import product
from pathlib import Path
from typing import Any

from bench.corpora_rows import PROPOSITION_CHARACTERS, item, pair, write_rows
from knowledge.drafts import TEXT_LIMIT

RUFF = (sys.executable, "-m", "ruff")
FILE_NAMES = ("example.py", "example.pyi", "__init__.py", "test_example.py", "tests/example.py", "manage.py")
TARGETS = ("py310", "py314", "py38")
BLOCK = re.compile(r"^```(?:python|py|pyi|pycon)[^\n]*\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE)
ADVICE = re.compile(r"\b(instead|prefer\w*|consider|recommend\w*|should|avoid\w*|use|replace\w*)\b", re.IGNORECASE)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\[(])")


def sections(explanation: str) -> dict[str, str]:
    """The text under each heading, by the heading in lower case."""
    parts = re.split(r"^## +(.+?)\s*$", explanation, flags=re.MULTILINE)
    return dict(zip((head.lower() for head in parts[1::2]), parts[2::2], strict=True))


def prose(text: str, *, lists: bool = False) -> list[str]:
    """The sentences of a section without code blocks and link markup, and without lists unless they are wanted."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^\[[^\]]+\]:.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]+)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", text)
    text = re.sub(r"(?<![\w)\]`])\[([\w.` -]+)\]", r"\1", text)
    paragraphs = [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text)]
    return [
        sentence
        for paragraph in paragraphs
        if paragraph and (lists or not paragraph.startswith(("-", "*", "1.", ">", "|")))
        for sentence in SENTENCE_END.split(paragraph)
    ]


def fitting(sentences: list[str], limit: int) -> str:
    """As many of the first sentences as fit; the first is cut at a word when it alone is too long."""
    text = ""
    for sentence in sentences:
        if len(longer := f"{text} {sentence}".strip()) > limit:
            break
        text = longer
    return text or (sentences[0][:limit].rsplit(" ", 1)[0] if sentences else "")


def rule_item(rule: Mapping[str, Any]) -> dict[str, object] | None:
    """The item of one rule: what it looks for and the first advice of the prose on why, which is the reason, whole."""
    parts = sections(rule["explanation"])
    what = prose(parts.get("what it does", ""))
    if not what:
        return None
    reasons = parts.get("why is this bad?", "")
    why = prose(reasons)
    advice = next((sentence for sentence in why if ADVICE.search(sentence)), "")
    proposition = fitting(what, PROPOSITION_CHARACTERS)
    if len(proposition) + len(advice) + 1 > PROPOSITION_CHARACTERS:
        proposition = fitting(what[:1], PROPOSITION_CHARACTERS)
    if advice and len(proposition) + len(advice) + 1 <= PROPOSITION_CHARACTERS:
        proposition = f"{proposition} {advice}"
    return item(
        rule["name"],
        proposition,
        why=fitting(prose(reasons, lists=True), TEXT_LIMIT),
        topics=[rule["linter"] or "ruff"],
        entities=[rule["code"]] if rule["code"] else [],
    )


def examples(explanation: str) -> list[str]:
    """The code blocks that show the bad form: those not introduced by `Use instead`."""
    parts = sections(explanation)
    found = []
    for head, text in parts.items():
        if not head.startswith("example"):
            continue
        for match in BLOCK.finditer(text):
            before = text[: match.start()].rstrip().rsplit("\n", 1)[-1].lower()
            if "instead" not in before:
                found.append(match["code"])
    return found


def fired(rule: Mapping[str, Any], example: str, name: str, target: str, folder: Path) -> tuple[str, str] | None:
    """The message of a rule for `example` under the file name `name`, and its line; None when it stays silent."""
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(example, encoding="utf-8")
    flags = ("--isolated", "--no-cache", "--preview", "--target-version", target, "--output-format", "json")
    command = [*RUFF, "check", *flags, "--select", rule["name"], name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    file.unlink()
    try:
        diagnostics = json.loads(done.stdout)
    except ValueError:  # ruff refused the file or the selection
        return None
    found = next((each for each in diagnostics if each["name"] == rule["name"]), None)
    return None if found is None else (found["message"], concise(found, name))


def concise(found: Mapping[str, Any], name: str) -> str:
    """The line that `--output-format concise` prints of a diagnostic, with the code; preview puts the name there."""
    place = found["location"]
    called = found["code"] if found["code"] and found["code"] != found["name"] else f"{found['name']}:"
    safe = (found["fix"] or {}).get("applicability") == "safe"
    return f"{name}:{place['row']}:{place['column']}: {called} {'[*] ' if safe else ''}{found['message']}"


def queries(rule: Mapping[str, Any], folder: Path) -> tuple[dict[str, object], dict[str, object]] | None:
    """The pairs of one rule, by line and by message: the first example, file name and Python version it fires on."""
    for example, target, name in product(examples(rule["explanation"]), TARGETS, FILE_NAMES):
        printed = fired(rule, example, name, target, folder)
        if printed is not None:
            message, line = printed
            asked = (pair(rule["name"], f"ruff check {name}", one, code=rule["code"] or "") for one in (line, message))
            by_line, by_message = asked
            return by_line, by_message
    return None


def live_rules() -> Iterator[dict[str, Any]]:
    """Every rule of the installed ruff that is not removed, by name."""
    done = subprocess.run([*RUFF, "rule", "--all", "--output-format", "json"], capture_output=True, check=True)
    for rule in sorted(json.loads(done.stdout), key=lambda each: str(each["name"])):
        if "Removed" not in rule["status"]:
            yield rule


def without_code(made: Mapping[str, object]) -> dict[str, object]:
    return {name: value for name, value in made.items() if name != "entities"}


def main() -> None:
    rules = list(live_rules())
    items = {rule["name"]: made for rule in rules if (made := rule_item(rule)) is not None}
    write_rows("ruff.items.jsonl", items.values())
    write_rows("ruff-words.items.jsonl", map(without_code, items.values()))
    with tempfile.TemporaryDirectory() as folder:
        made = [asked for rule in rules if rule["name"] in items and (asked := queries(rule, Path(folder))) is not None]
    write_rows("ruff.pairs.jsonl", (by_line for by_line, _ in made))
    write_rows("ruff-words.pairs.jsonl", (by_message for _, by_message in made))


if __name__ == "__main__":
    main()
