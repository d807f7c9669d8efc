"""The rules the source tree is held to, as functions from one module's text to what is wrong in it."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGES = ("contract", "kernel", "ingest", "knowledge", "debugger")

# package -> own packages it may import
MAY_IMPORT = {
    "contract": ("contract",),
    "kernel": ("contract", "kernel"),
    "ingest": ("contract", "ingest"),
    "knowledge": ("contract", "ingest", "knowledge"),
    "debugger": ("contract", "ingest", "knowledge", "debugger"),
}
# kernel/core sees nothing of its own package but the words it exchanges with the edges.
CORE_MAY_IMPORT = ("contract", "kernel.core", "kernel.messages")
WEB_FRAMEWORKS = ("django", "rest_framework", "celery")
PURE_FOLDERS = ("contract", "kernel/core")
# The part of the standard library that reads no clock, no environment, no disk, no network and draws no lots, and one
# engine of regular expressions that does neither.
PURE_LIBRARY = (
    "abc", "base64", "binascii", "bisect", "collections", "collections.abc", "copy", "dataclasses", "enum", "functools",
    "hashlib", "hmac", "heapq", "itertools", "json", "math", "operator", "re", "string", "textwrap", "types", "typing",
    "unicodedata", "urllib.parse", "re2",
)  # fmt: skip
IMPURE_CALLS = (
    "open",
    "print",
    "input",
    "eval",
    "exec",
    "compile",
    "__import__",
    "breakpoint",
    "hash",
    "id",
    "globals",
    "vars",
)
SET_CALLS = ("set", "frozenset")
# What reads the members of its argument one by one, in the order it holds them.
ORDERED_READERS = ("list", "tuple", "enumerate", "iter", "next", "map", "filter", "zip", "reversed", "join", "dict")
VAGUE_NAMES = (
    "util",
    "utils",
    "helper",
    "helpers",
    "service",
    "services",
    "manager",
    "managers",
    "common",
    "misc",
    "base",
)
LINE_LIMIT = 400
# module -> why it is longer than the limit
LONG_MODULES = {
    "contract/events.py": "one table: every event type beside its fields and its example",
    "kernel/messages.py": "one vocabulary: the dataclasses that cross every boundary of the kernel",
}
# __init__.py files that hold something: a registry, or the models Django looks for
REGISTRIES = (
    "kernel/core/triggers/__init__.py",
    "kernel/drivers/__init__.py",
    "knowledge/find_hints/__init__.py",
    "knowledge/models/__init__.py",
)
EVASIONS = (
    "time.sleep", "pytest.skip", "pytest.xfail", "pytest.mark.skip", "pytest.mark.skipif", "pytest.mark.xfail",
)  # fmt: skip
# test file -> what a machine may lack that it cannot bring along
MAY_SKIP = {"tests/kernel/test_tools.py": "Landlock is a feature of the operating system's kernel"}
MOCKS = ("unittest.mock", "mock", "pytest_mock", "freezegun")


@dataclass(frozen=True, slots=True)
class Module:
    """One Python file: its path from the root, its text and its tree."""

    path: str
    text: str
    tree: ast.Module

    @property
    def package(self) -> str:
        return self.path.split("/", 1)[0]


def parse(path: str, text: str) -> Module:
    return Module(path, text, ast.parse(text, path))


def modules(*folders: str) -> list[Module]:
    """Every Python file under `folders` of this repository, in order."""
    paths = [path for folder in folders for path in sorted((ROOT / folder).rglob("*.py"))]
    return [parse(path.relative_to(ROOT).as_posix(), path.read_text(encoding="utf-8")) for path in paths]


def imported(tree: ast.AST) -> Iterator[tuple[int, str]]:
    """Yield (line, dotted name) of everything imported, `from a import b` as `a.b`."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Import):
            yield from ((node.lineno, alias.name) for alias in node.names)
        elif isinstance(node, ast.ImportFrom):
            base = "." * node.level + (node.module or "")
            yield from ((node.lineno, f"{base}.{alias.name}") for alias in node.names)


def _within(name: str, allowed: tuple[str, ...]) -> bool:
    return any(name == one or name.startswith(f"{one}.") for one in allowed)


def wrong_imports(module: Module) -> list[str]:
    """Imports against the one direction, and relative ones, which hide it."""
    core = module.path.startswith("kernel/core/")
    allowed = CORE_MAY_IMPORT if core else MAY_IMPORT[module.package]
    wrong = []
    for line, name in imported(module.tree):
        own = name.split(".", 1)[0] in PACKAGES
        against = name.startswith(".") or (own and not _within(name, allowed))
        if against or (module.package == "kernel" and _within(name, WEB_FRAMEWORKS)):
            wrong.append(f"{module.path}:{line} imports {name}")
    return wrong


def late_imports(module: Module) -> list[str]:
    """Imports inside functions and classes, which dodge a cycle instead of ending it."""
    return [
        f"{module.path}:{line} imports {name} inside {node.name}"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef)
        for line, name in imported(node)
    ]


def impure(module: Module) -> list[str]:
    """What a pure module may not do: import impure libraries, call impure functions, read the order of a set."""
    wrong = [
        f"{module.path}:{line} imports {name}"
        for line, name in imported(module.tree)
        if name.split(".", 1)[0] not in PACKAGES and not _within(name, PURE_LIBRARY)
    ]
    sets = _set_names(module.tree)
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in IMPURE_CALLS:
            wrong.append(f"{module.path}:{node.lineno} calls {node.func.id}")
        wrong += [
            f"{module.path}:{read.lineno} reads the order of a set"
            for read in _read_in_order(node)
            if _is_set(read, sets)
        ]
        if isinstance(node, ast.Global):
            wrong.append(f"{module.path}:{node.lineno} keeps state in a global")
    return wrong


def _read_in_order(node: ast.AST) -> list[ast.expr]:
    """Return the expressions whose members `node` reads one by one."""
    if isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        return [node.iter]
    if isinstance(node, ast.Starred):
        return [node.value]
    if isinstance(node, ast.Call):
        called = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if called in ORDERED_READERS:
            return list(node.args)
        if called == "pop" and isinstance(node.func, ast.Attribute) and not node.args:
            return [node.func.value]
    return []


def _is_set(node: ast.expr, names: set[str]) -> bool:
    if isinstance(node, ast.Name):
        return node.id in names
    if isinstance(node, ast.BinOp) and isinstance(node.op, ast.BitOr | ast.BitAnd | ast.Sub | ast.BitXor):
        return _is_set(node.left, names) or _is_set(node.right, names)
    called = isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in SET_CALLS
    return called or isinstance(node, ast.Set | ast.SetComp)


def _set_names(tree: ast.AST) -> set[str]:
    """Return the names that are given a set, or annotated as one, anywhere in the module."""
    names: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.Assign) and _is_set(node.value, set()):
            names |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        annotation = getattr(node, "annotation", None)
        if annotation is not None and ast.unparse(annotation).split("[", 1)[0] in (*SET_CALLS, "Set", "AbstractSet"):
            names.add(node.arg if isinstance(node, ast.arg) else ast.unparse(node.target))
        elif isinstance(node, ast.AnnAssign) and node.value is not None and _is_set(node.value, set()):
            names.add(ast.unparse(node.target))
    return names


def too_long(module: Module) -> list[str]:
    """A module over the limit that gives no reason."""
    lines = module.text.count("\n")
    if lines <= LINE_LIMIT or module.path in LONG_MODULES:
        return []
    return [
        f"{module.path} has {lines} lines, more than {LINE_LIMIT}: split it by noun or give the reason in LONG_MODULES"
    ]


def undocumented(module: Module) -> list[str]:
    """A module without a docstring; an empty __init__.py has nothing to say."""
    if ast.get_docstring(module.tree) or not module.text.strip():
        return []
    return [f"{module.path} has no docstring"]


def full_init(module: Module) -> list[str]:
    """An __init__.py with something in it that is no registry."""
    is_init = module.path.endswith("__init__.py")
    return [f"{module.path} must be empty"] if is_init and module.text.strip() and module.path not in REGISTRIES else []


def vague_name(module: Module) -> list[str]:
    """A module or folder named after no subject."""
    parts = module.path.removesuffix(".py").split("/")
    return [f"{module.path} is named {part}: name the subject" for part in parts if part in VAGUE_NAMES]


def app_code_in_migration(module: Module) -> list[str]:
    """A migration that imports the code of today: it must run the same in a year."""
    return [
        f"{module.path}:{line} imports {name}"
        for line, name in imported(module.tree)
        if name.split(".", 1)[0] in PACKAGES or name.startswith(".")
    ]


def untrue_tests(module: Module) -> list[str]:
    """A test file that skips, sleeps, mocks, or a test without a sentence on the behaviour it proves.

    A sleep is allowed between two looks of a loop that gives up at a deadline.
    """
    evasions = [name for name in EVASIONS if not (name == "pytest.mark.skipif" and module.path in MAY_SKIP)]
    waits = {part for node in ast.walk(module.tree) if _gives_up(node) for part in ast.walk(node)}
    wrong = [f"{module.path}:{line} imports {name}" for line, name in imported(module.tree) if _within(name, MOCKS)]
    for node in ast.walk(module.tree):
        if isinstance(node, ast.Attribute) and ast.unparse(node) in evasions and node not in waits:
            wrong.append(f"{module.path}:{node.lineno} uses {ast.unparse(node)}")
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.name.startswith("test_"):
            if not ast.get_docstring(node):
                wrong.append(f"{module.path}:{node.lineno} {node.name} has no docstring")
            if not any(isinstance(part, ast.Assert | ast.With | ast.AsyncWith | ast.Call) for part in ast.walk(node)):
                wrong.append(f"{module.path}:{node.lineno} {node.name} cannot fail")
    return wrong


def _gives_up(node: ast.AST) -> bool:
    """Say whether `node` is a loop that fails when what it waits for does not come."""
    return isinstance(node, ast.While) and any(isinstance(part, ast.Assert | ast.Raise) for part in ast.walk(node))
