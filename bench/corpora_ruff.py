"""Remakes `ruff.*.jsonl` with the installed ruff: `python -m bench.corpora_ruff`.

Items: what each rule's own documentation says, shortened to an item. Queries: the message ruff prints for the bad
example of that documentation, taken only where the rule really fires on it. Neither message nor rule code nor example
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

RUFF = (sys.executable, "-m", "ruff")
FILE_NAMES = ("example.py", "example.pyi", "__init__.py", "test_example.py", "tests/example.py", "manage.py")
TARGETS = ("py310", "py314", "py38")
WHY_CHARACTERS = 400
BLOCK = re.compile(r"^```(?:python|py|pyi|pycon)[^\n]*\n(?P<code>.*?)^```", re.DOTALL | re.MULTILINE)
ADVICE = re.compile(r"\b(instead|prefer\w*|consider|recommend\w*|should|avoid\w*|use|replace\w*)\b", re.IGNORECASE)
SENTENCE_END = re.compile(r"(?<=[.!?])\s+(?=[A-Z`\[(])")


def sections(explanation: str) -> dict[str, str]:
    """The text under each heading, by the heading in lower case."""
    parts = re.split(r"^## +(.+?)\s*$", explanation, flags=re.MULTILINE)
    return dict(zip((head.lower() for head in parts[1::2]), parts[2::2], strict=True))


def prose(text: str) -> list[str]:
    """The sentences of a section without code blocks, lists and link markup."""
    text = re.sub(r"^```.*?^```", "", text, flags=re.DOTALL | re.MULTILINE)
    text = re.sub(r"^\[[^\]]+\]:.*$", "", text, flags=re.MULTILINE)
    text = re.sub(r"\[([^\]]+)\](?:\([^)]*\)|\[[^\]]*\])", r"\1", text)
    text = re.sub(r"(?<![\w)\]`])\[([\w.` -]+)\]", r"\1", text)
    paragraphs = [" ".join(paragraph.split()) for paragraph in re.split(r"\n\s*\n", text)]
    return [
        sentence
        for paragraph in paragraphs
        if paragraph and not paragraph.startswith(("-", "*", "1.", ">", "|"))
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
    """The item of one rule: what it looks for and, from the prose on why, the first sentence that gives advice."""
    parts = sections(rule["explanation"])
    what = prose(parts.get("what it does", ""))
    if not what:
        return None
    why = prose(parts.get("why is this bad?", ""))
    advice = next((sentence for sentence in why if ADVICE.search(sentence)), "")
    proposition = fitting(what, PROPOSITION_CHARACTERS)
    if len(proposition) + len(advice) + 1 > PROPOSITION_CHARACTERS:
        proposition = fitting(what[:1], PROPOSITION_CHARACTERS)
    if advice and len(proposition) + len(advice) + 1 <= PROPOSITION_CHARACTERS:
        proposition = f"{proposition} {advice}"
    return item(
        rule["name"],
        proposition,
        why=fitting([sentence for sentence in why if sentence != advice], WHY_CHARACTERS),
        topics=[rule["linter"] or "ruff"],
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


def fired(rule: str, example: str, name: str, target: str, folder: Path) -> str | None:
    """The message of `rule` for `example` under the file name `name`; None when it stays silent."""
    file = folder / name
    file.parent.mkdir(exist_ok=True)
    file.write_text(example, encoding="utf-8")
    flags = ("--isolated", "--no-cache", "--preview", "--target-version", target, "--output-format", "json")
    command = [*RUFF, "check", *flags, "--select", rule, name]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False)
    file.unlink()
    try:
        diagnostics = json.loads(done.stdout)
    except ValueError:  # ruff refused the file or the selection
        return None
    return next((each["message"] for each in diagnostics if each["name"] == rule), None)


def query(rule: Mapping[str, Any], folder: Path) -> dict[str, object] | None:
    """The pair of one rule: the first example, file name and Python version it fires on."""
    for example, target, name in product(examples(rule["explanation"]), TARGETS, FILE_NAMES):
        message = fired(rule["name"], example, name, target, folder)
        if message is not None:
            return pair(rule["name"], f"ruff check {name}", message, code=rule["code"] or "")
    return None


def live_rules() -> Iterator[dict[str, Any]]:
    """Every rule of the installed ruff that is not removed, by name."""
    done = subprocess.run([*RUFF, "rule", "--all", "--output-format", "json"], capture_output=True, check=True)
    for rule in sorted(json.loads(done.stdout), key=lambda each: str(each["name"])):
        if "Removed" not in rule["status"]:
            yield rule


def main() -> None:
    rules = list(live_rules())
    items = {rule["name"]: made for rule in rules if (made := rule_item(rule)) is not None}
    write_rows("ruff.items.jsonl", items.values())
    with tempfile.TemporaryDirectory() as folder:
        queries = [made for rule in rules if (made := query(rule, Path(folder))) is not None]
    write_rows("ruff.pairs.jsonl", (each for each in queries if each["rule"] in items))


if __name__ == "__main__":
    main()
