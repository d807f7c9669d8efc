"""The rules of the house over the whole tree; each rule is also shown to see a breach."""

from collections.abc import Callable

import pytest
from django.core.management import call_command

from tests import source_rules as rules
from tests.source_rules import PACKAGES, PURE_FOLDERS, Module, modules, parse

Rule = Callable[[Module], list[str]]

PRODUCT = modules(*PACKAGES)
CODE = [module for module in PRODUCT if "/migrations/" not in module.path]
MIGRATIONS = [module for module in PRODUCT if "/migrations/" in module.path and not module.path.endswith("__init__.py")]
PURE = [module for module in CODE if module.path.startswith(tuple(f"{folder}/" for folder in PURE_FOLDERS))]
TESTS = modules("tests")

# rule, the modules it holds for
HELD = [
    (rules.wrong_imports, CODE),
    (rules.late_imports, CODE),
    (rules.impure, PURE),
    (rules.too_long, CODE),
    (rules.undocumented, CODE + TESTS),
    (rules.full_init, PRODUCT + TESTS),
    (rules.vague_name, PRODUCT + TESTS),
    (rules.app_code_in_migration, MIGRATIONS),
    (rules.untrue_tests, TESTS),
]


@pytest.mark.parametrize(("rule", "held"), HELD, ids=[rule.__name__ for rule, _ in HELD])
def test_the_tree_keeps_the_rule(rule: Rule, held: list[Module]) -> None:
    """No module of the tree breaks the rule, and the rule is held over something."""
    assert held
    assert [breach for module in held for breach in rule(module)] == []


BREACHES: list[tuple[Rule, str, str]] = [
    (rules.wrong_imports, "contract/x.py", "from kernel.messages import Hint"),
    (rules.wrong_imports, "kernel/edge/x.py", "import ingest.models"),
    (rules.wrong_imports, "kernel/edge/x.py", "from django.conf import settings"),
    (rules.wrong_imports, "kernel/core/x.py", "from kernel.edge.transcript import Transcript"),
    (rules.wrong_imports, "kernel/core/x.py", "from kernel import edge"),
    (rules.wrong_imports, "ingest/x.py", "from knowledge import fold"),
    (rules.wrong_imports, "knowledge/x.py", "if True:\n    import debugger.access"),
    (rules.wrong_imports, "debugger/x.py", "from kernel.core.decide import decide"),
    (rules.wrong_imports, "ingest/x.py", "from . import models"),
    (rules.late_imports, "ingest/x.py", "def f():\n    import json"),
    (rules.late_imports, "ingest/x.py", "class A:\n    async def f(self):\n        from ingest import wire"),
    (rules.impure, "kernel/core/x.py", "import time"),
    (rules.impure, "kernel/core/x.py", "from os import environ"),
    (rules.impure, "kernel/core/x.py", "import random as r"),
    (rules.impure, "kernel/core/x.py", "from datetime import datetime"),
    (rules.impure, "contract/x.py", "import httpx"),
    (rules.impure, "contract/x.py", "def f(p):\n    return open(p)"),
    (rules.impure, "contract/x.py", "print('x')"),
    (rules.impure, "contract/x.py", "key = hash('a')"),
    (rules.impure, "contract/x.py", "for x in {1, 2}:\n    pass"),
    (rules.impure, "contract/x.py", "y = [x for x in set('ab')]"),
    (rules.impure, "contract/x.py", "names = frozenset('ab')\ny = ','.join(names)"),
    (rules.impure, "contract/x.py", "names: set[str] = g()\ny = list(names)"),
    (rules.impure, "contract/x.py", "def f(names: frozenset[str]):\n    return tuple(names)"),
    (rules.impure, "contract/x.py", "a = set('ab')\ny = (*a, 1)"),
    (rules.impure, "contract/x.py", "a = set('ab')\nb = set('c')\ny = list(a | b)"),
    (rules.impure, "contract/x.py", "a = set('ab')\ny = a.pop()"),
    (rules.impure, "contract/x.py", "n = 0\ndef f():\n    global n"),
    (rules.too_long, "ingest/x.py", "x = 1\n" * 401),
    (rules.undocumented, "ingest/x.py", "x = 1"),
    (rules.full_init, "kernel/core/__init__.py", '"""Words."""'),
    (rules.vague_name, "ingest/helpers.py", ""),
    (rules.vague_name, "ingest/utils/wire.py", ""),
    (rules.app_code_in_migration, "ingest/migrations/0002_x.py", "from ingest.models import Run"),
    (rules.app_code_in_migration, "ingest/migrations/0002_x.py", "from ..models import Run"),
    (
        rules.untrue_tests,
        "tests/test_x.py",
        "import pytest\n@pytest.mark.skip\ndef test_a():\n    '''A.'''\n    assert f()",
    ),
    (rules.untrue_tests, "tests/test_x.py", "import time\ndef test_a():\n    '''A.'''\n    time.sleep(1)"),
    (rules.untrue_tests, "tests/test_x.py", "import pytest\nneeds = pytest.mark.skipif(True, reason='x')"),
    (rules.untrue_tests, "tests/test_x.py", "from unittest.mock import patch"),
    (rules.untrue_tests, "tests/test_x.py", "def test_a():\n    assert f()"),
    (rules.untrue_tests, "tests/test_x.py", "def test_a():\n    '''A.'''\n    x = 1"),
]


@pytest.mark.parametrize(("rule", "path", "text"), BREACHES)
def test_a_breach_is_seen(rule: Rule, path: str, text: str) -> None:
    """Each rule finds a small module that breaks it."""
    assert rule(parse(path, text))


KEPT: list[tuple[Rule, str, str]] = [
    (rules.wrong_imports, "debugger/x.py", "from ingest.models import Run\nfrom contract import stages\nimport json"),
    (rules.wrong_imports, "kernel/core/x.py", "from kernel.messages import Hint\nfrom kernel.core import state"),
    (rules.wrong_imports, "kernel/edge/x.py", "import temporalio.workflow"),
    (rules.impure, "contract/x.py", "names = frozenset('ab')\ny = 'a' in names\nz = sorted(names)\nn = len(names)"),
    (rules.impure, "contract/x.py", "import re\nfrom collections.abc import Mapping\nfor x in (1, 2):\n    pass"),
    (rules.late_imports, "ingest/x.py", "with a():\n    import json"),
    (rules.too_long, "ingest/x.py", "x = 1\n" * 400),
    (rules.full_init, "kernel/core/__init__.py", ""),
    (rules.untrue_tests, "tests/test_x.py", "def test_a():\n    '''A.'''\n    assert f()"),
    (rules.untrue_tests, "tests/x.py", "import time\nwhile not f():\n    assert soon()\n    time.sleep(0.1)"),
]


@pytest.mark.parametrize(("rule", "path", "text"), KEPT)
def test_what_is_allowed_is_not_a_breach(rule: Rule, path: str, text: str) -> None:
    """A rule does not see a breach where there is none."""
    assert rule(parse(path, text)) == []


def test_exceptions_are_needed() -> None:
    """Every module excused from a rule exists and needs the excuse."""
    lengths = {module.path: module.text.count("\n") for module in CODE}
    assert {path for path in rules.LONG_MODULES if lengths.get(path, 0) <= rules.LINE_LIMIT} == set()
    filled = {module.path for module in CODE if module.path.endswith("__init__.py") and module.text.strip()}
    assert set(rules.REGISTRIES) == filled
    skipping = {
        module.path
        for module in TESTS
        if "= pytest.mark.skipif(" in module.text and module.path != "tests/test_boundaries.py"
    }
    assert set(rules.MAY_SKIP) == skipping


def test_the_core_is_written_down_as_pure() -> None:
    """The pure folders hold the modules they are meant to: the rule is not held over an empty place."""
    paths = {module.path for module in PURE}
    assert {
        "contract/stages.py",
        "contract/redaction.py",
        "kernel/core/decide.py",
        "kernel/core/situations.py",
    } <= paths


@pytest.mark.django_db
def test_no_migration_is_missing() -> None:
    """The models and the migrations say the same."""
    call_command("makemigrations", check=True, dry_run=True, verbosity=0)
