"""The documents tell the truth: what they name exists, and what must be explained is."""

import ast
import re
from collections.abc import Iterator

import pytest
from django.urls import resolve
from django.urls.exceptions import Resolver404

from contract import stages
from contract.events import EVENT_TYPES
from tests.source_rules import ROOT

DOCUMENTS = [
    path.relative_to(ROOT).as_posix()
    for pattern in ("*.md", "docs/*.md", "kernel/*.md")
    for path in sorted(ROOT.glob(pattern))
]
MUST_EXIST = {"README.md", "CONTRIBUTING.md", "GLOSSARY.md", "docs/architecture.md", "docs/seeds.md"}
TEST_NAME = re.compile(r"(?P<file>[\w/]+\.py)::(?P<test>\w+)")
CODE = re.compile(r"`([^`\n]+)`")
# A path is written with a slash or a known ending; a pattern, a placeholder and a URL are no paths.
PATH = re.compile(r"[\w.\-]+(?:/[\w.\-]+)*/?")
ENDINGS = (".py", ".md", ".html", ".css", ".js", ".txt", ".toml", ".json", ".jsonl", ".png")
FOLDERS = ("contract/", "kernel/", "ingest/", "knowledge/", "debugger/", "templates/", "static/", "tests/", "docs/")
MADE_LATER = ("var/", "up.json")


def read(document: str) -> str:
    return (ROOT / document).read_text(encoding="utf-8")


def code(document: str) -> list[str]:
    return CODE.findall(re.sub(r"```.*?```", "", read(document), flags=re.DOTALL))


def named_paths(document: str) -> Iterator[str]:
    """Yield what stands in code marks and is written like a path of this repository."""
    for text in code(document):
        whole = PATH.fullmatch(text) is not None
        if whole and (text.startswith(FOLDERS) or text.endswith(ENDINGS)) and not text.startswith(MADE_LATER):
            yield text


def functions_of(file: str) -> set[str]:
    tree = ast.parse((ROOT / "tests" / file).read_text(encoding="utf-8"))
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)}


def table_rows(text: str) -> list[list[str]]:
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in text.splitlines() if line.startswith("|")]


def test_the_documents_are_there() -> None:
    """The documents a newcomer reads exist."""
    assert set(DOCUMENTS) >= MUST_EXIST


@pytest.mark.parametrize("document", DOCUMENTS)
def test_named_files_exist(document: str) -> None:
    """Every file or folder a document names exists, from the root, from tests/ or beside the document.

    A bare file name is enough where the text around it says the folder.
    """
    beside = (ROOT / document).parent
    bare = {path.name for folder in FOLDERS for path in (ROOT / folder).rglob("*") if path.is_file()}
    missing = [
        path
        for path in named_paths(document)
        if path not in bare and not any((base / path).exists() for base in (ROOT, ROOT / "tests", beside))
    ]
    assert missing == []


@pytest.mark.parametrize("document", DOCUMENTS)
def test_links_lead_somewhere(document: str) -> None:
    """Every relative link and picture of a document exists."""
    links = re.findall(r"\]\((?!https?:|#)([^)#\s]+)", read(document))
    assert [link for link in links if not ((ROOT / document).parent / link).exists()] == []


def test_every_proof_of_a_requirement_exists() -> None:
    """Every test that the requirements table names is there, by file and by name."""
    named = [found.groups() for found in TEST_NAME.finditer(read("docs/seeds.md"))]
    assert len(named) > 30
    missing = [
        f"{file}::{test}"
        for file, test in named
        if not (ROOT / "tests" / file).exists() or test not in functions_of(file)
    ]
    assert missing == []


def test_every_requirement_is_proven_or_open() -> None:
    """Each row of the requirements table names a test, or says that it is not yet there."""
    rows = [row for row in table_rows(read("docs/seeds.md")) if not set("".join(row)) <= set("-: ")]
    heads = [row for row in rows if row[-1] == "test"]
    open_rows = [row for row in rows if row not in heads and ".py" not in row[-1] and "not yet" not in " ".join(row)]
    assert heads
    assert open_rows == []


def test_main_sections_of_the_main_requirement_are_answered() -> None:
    """The requirements table goes through seed 001: its scenarios and its acceptance list have their own rows."""
    rows = [row for row in table_rows(read("docs/seeds.md")) if len(row) == 4]
    sections = {number.split(".")[0] for row in rows for number in re.findall(r"\d+(?:\.\d+)?", row[0])}
    assert {"5", "6", "7", "8", "9", "10", "11", "12", "13", "14", "15", "16", "18", "20"} <= sections


VOCABULARIES = {name: words for name, words in vars(stages).items() if name.isupper() and isinstance(words, dict)}


@pytest.mark.parametrize("name", VOCABULARIES)
def test_the_glossary_explains_every_word(name: str) -> None:
    """Every word of every closed vocabulary stands in the glossary, with the explanation the pages show."""
    rows = {(row[0].strip("`"), row[1]) for row in table_rows(read("GLOSSARY.md")) if len(row) == 2}
    assert set(VOCABULARIES[name].items()) - rows == set()


def test_the_glossary_has_each_word_once_and_in_order() -> None:
    """One word, one meaning: the words of the first table stand there once, where one looks for them."""
    words = [row[0].lower() for row in table_rows(read("GLOSSARY.md").split("\n## ")[0])[2:]]
    assert len(words) > 50
    assert words == sorted(set(words))


def test_commands_of_the_readme_exist() -> None:
    """Every make target the README and CONTRIBUTING name is a target."""
    targets = set(re.findall(r"^([\w-]+):", read("Makefile"), flags=re.MULTILINE))
    texts = read("README.md") + read("CONTRIBUTING.md")
    named = set(re.findall(r"(?:^|`)make ([a-z-]+)", texts, flags=re.MULTILINE))
    assert named >= {"up", "test"}
    assert named - targets == set()


def test_addresses_of_the_readme_answer() -> None:
    """Every API address the README names has a view."""
    addresses = set(re.findall(r"/v1/[\w\-/{}]+", read("README.md")))
    assert {"/v1/events", "/v1/observations/hints"} <= addresses
    missing = []
    for address in sorted(addresses):
        try:
            resolve(re.sub(r"{\w+}", "r-1", address))
        except Resolver404:
            missing.append(address)
    assert missing == []


def test_events_the_readme_sends_are_known() -> None:
    """The telemetry example of the README uses types of the contract."""
    types = set(re.findall(r'"type": "([^"]+)"', read("README.md")))
    assert types
    assert types <= set(EVENT_TYPES)


def test_environment_variables_are_read() -> None:
    """Every variable of the README's table is read somewhere in the product."""
    table = read("README.md").split("## Environment", 1)[1]
    names = {name for row in table_rows(table) for name in re.findall(r"`([A-Z][A-Z_]{3,})`", row[0])}
    source = "\n".join(
        path.read_text(encoding="utf-8") for folder in ("debugger", "kernel") for path in (ROOT / folder).rglob("*.py")
    )
    assert {"DATABASE_URL", "TEMPORAL_ADDRESS", "OPENAI_API_KEY"} <= names
    assert {name for name in names if f'"{name}"' not in source} == set()


def test_every_dependency_has_its_reason() -> None:
    """Every pinned requirement stands in CONTRIBUTING with the reason why it is not thirty lines of our own."""
    table = read("CONTRIBUTING.md").split("## Dependencies", 1)[1]
    explained = {name.strip() for row in table_rows(table) if len(row) == 2 and row[1] for name in row[0].split(",")}
    required = {
        re.split(r"[\[=]", line)[0].strip()
        for file in ("requirements.txt", "requirements-dev.txt")
        for line in read(file).splitlines()
        if "==" in line
    }
    assert {name.lower() for name in required} - {name.lower() for name in explained} == set()
