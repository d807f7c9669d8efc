"""The requirements are whole: what our code imports is named and pinned, and so is all that it brings along."""

import ast
import re
import sys
from collections.abc import Iterator, Mapping
from functools import cache
from importlib.metadata import files as files_of
from importlib.metadata import packages_distributions
from pathlib import Path

import pytest

from debugger.embedded.stack import SOURCE

OURS = ("contract", "ingest", "knowledge", "kernel", "debugger")
EXTRAS = {"llama_cpp": "requirements-behaviour.txt"}  # module -> file of an extra that the product does without
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
    """Yield the dotted names of the modules that the code under `folder` imports."""
    for path in folder.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                yield from (alias.name for alias in node.names)
            elif isinstance(node, ast.ImportFrom) and node.module and not node.level:
                yield from (f"{node.module}.{alias.name}" for alias in node.names)


@cache
def owners() -> Mapping[str, list[str]]:
    return packages_distributions()


def owner_of(module: str) -> str:
    """Return the distribution a module is of; of those that share its top name, the one with the most of its path."""
    parts = module.split(".")
    sharing = sorted(set(owners()[parts[0]]))
    return normal(max(sharing, key=lambda name: depth_in(name, parts))) if len(sharing) > 1 else normal(sharing[0])


def depth_in(distribution: str, parts: list[str]) -> int:
    """Return how many leading parts of a dotted name are folders or modules of the distribution."""
    held = held_by(distribution)
    return max((depth for depth in range(len(parts) + 1) if "/".join(parts[:depth]) in held), default=0)


@cache
def held_by(distribution: str) -> frozenset[str]:
    """Return the folders that hold a Python file of the distribution, and its modules, as paths without ending."""
    files = [file for file in files_of(distribution) or [] if file.suffix in (".py", ".so", ".pyi")]
    folders = {parent.as_posix() for file in files for parent in file.parents}
    return frozenset(folders | {file.with_suffix("").as_posix() for file in files})


def foreign(folders: list[str]) -> set[str]:
    """Return the normal names of the distributions that the code under `folders` imports."""
    ours = {*OURS, "tests", "bench", *sys.stdlib_module_names}
    apart = {*ours, *EXTRAS}
    modules = {name for folder in folders for name in imported(SOURCE / folder) if name.split(".")[0] not in apart}
    return {owner_of(module) for module in modules}


def test_what_the_product_imports_is_required() -> None:
    """A fresh install has every module that our code imports, by our own wish and not by accident."""
    assert foreign(list(OURS)) - set(pins("requirements.txt")) == set()


@pytest.mark.parametrize(("module", "file"), EXTRAS.items())
def test_an_extra_is_imported_by_one_module_alone(module: str, file: str) -> None:
    """What only an extra brings is pinned in a file of its own, and one module of ours reads it."""
    assert any(name.startswith(normal(module).removesuffix("-cpp")) for name in pins(file))
    folders = [SOURCE / folder for folder in OURS]
    readers = [path for folder in folders for path in folder.rglob("*.py") if f"import {module}" in path.read_text()]
    readers += [path for folder in folders for path in folder.rglob("*.py") if f"from {module}" in path.read_text()]
    assert len(set(readers)) == 1


def test_what_the_tests_import_is_required() -> None:
    """The same for the tests, with the development requirements."""
    assert foreign(["tests"]) - {*pins("requirements.txt"), *pins("requirements-dev.txt")} == set()


@pytest.mark.parametrize("file", ["requirements.txt", "requirements-dev.txt"])
def test_every_requirement_is_among_the_constraints(file: str) -> None:
    """The constraints, which pin what comes along, know what is asked for."""
    assert set(pins(file)) - set(pins("constraints.txt")) == set()


@pytest.mark.parametrize(
    ("module", "owner"),
    [
        ("opentelemetry.proto.trace.v1.trace_pb2", "opentelemetry-proto"),
        ("opentelemetry.sdk.trace.TracerProvider", "opentelemetry-sdk"),
        ("google.rpc.status_pb2.Status", "googleapis-common-protos"),
        ("google.protobuf.message.Message", "protobuf"),
        ("openinference.instrumentation.openai.OpenAIInstrumentor", "openinference-instrumentation-openai"),
        ("orjson", "orjson"),
    ],
)
def test_a_module_belongs_to_the_distribution_that_brings_it(module: str, owner: str) -> None:
    """Distributions that share a top name are told apart by the rest of it."""
    assert owner_of(module) == owner
