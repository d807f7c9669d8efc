"""The requirements are whole: what our code imports is named and pinned, and so is all that it brings along."""

import ast
import re
import sys
from collections.abc import Iterator
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from debugger.embedded.stack import SOURCE

OURS = ("contract", "ingest", "knowledge", "kernel", "debugger")
PIN = re.compile(r"(?P<name>[A-Za-z0-9._-]+)(\[[a-z,]+\])?==[^=\s]+( ; .+)?")


def pins(file: str) -> list[str]:
    """Return the normal names pinned in `file`; every line must be a pin, a comment or another file."""
    names = []
    for line in (SOURCE / file).read_text().splitlines():
        if line and not line.startswith(("#", "-r ")):
            match = PIN.fullmatch(line)
            assert match, f"{file}: {line} is no pin"
            names.append(normal(match["name"]))
    return names


def normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def imported(folder: Path) -> Iterator[str]:
    """Yield the top names of the modules that the code under `folder` imports."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name.split(".")[0] for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield node.module.split(".")[0]


def foreign(folders: list[str]) -> set[str]:
    """Return the normal names of the distributions that the code under `folders` imports."""
    modules = {name for folder in folders for name in imported(SOURCE / folder)}
    modules -= {*OURS, "tests", "bench", *sys.stdlib_module_names}
    owners = packages_distributions()
    return {normal(owners[module][0]) for module in modules}


def test_what_the_product_imports_is_required() -> None:
    """A fresh install has every module that our code imports, by our own wish and not by accident."""
    assert foreign(list(OURS)) - set(pins("requirements.txt")) == set()


def test_what_the_tests_import_is_required() -> None:
    """The same for the tests, with the development requirements."""
    assert foreign(["tests"]) - {*pins("requirements.txt"), *pins("requirements-dev.txt")} == set()


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-dev.txt"])
def test_every_requirement_is_among_the_constraints(file: str) -> None:
    """The constraints, which pin what comes along, know what is asked for."""
    assert set(pins(file)) - set(pins("constraints.txt")) == set()
