"""What a task of the behavioural benchmark is: a folder to begin with, commands to choose from, what counts as done.

A task is data. How to add one stands in `docs/behaviour.md`; `tests/bench/test_behaviour_tasks.py` tries each of them.
"""

import hashlib
import re
from dataclasses import dataclass
from typing import Final, Literal

Kind = Literal["invented", "known", "priming", "none", "wrong"]

# kind -> what is known that bears on the task
KINDS: Final[dict[str, str]] = {
    "invented": "an item with a made-up fact of the project, found by the error",
    "known": "an item with general experience, found by the error",
    "priming": "an item that the task itself brings up when the run begins",
    "none": "no item",
    "wrong": "an item that fits the error and whose advice does not help",
}
FITTING: Final = ("invented", "known")  # kinds whose item helps and is to be found by the error


@dataclass(frozen=True, slots=True)
class Item:
    """What is known for a task: the rule with its action in backticks, and the texts of errors it is found by."""

    rule: str
    errors: tuple[str, ...] = ()
    phrases: tuple[str, ...] = ()
    topics: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Task:
    """One task. `setup` and `check` are scripts for /bin/sh in the task's folder, the others command lines.

    `first` is what every agent tries first, and it fails. `right` reaches what `check` looks for, none of `wrong` does.
    `check` ends with 0 when the folder is as the statement wants it; how the commands ended does not matter.
    """

    name: str
    kind: Kind
    statement: str
    setup: str
    first: str
    right: str
    wrong: tuple[str, ...]
    check: str
    item: Item | None = None
    needs: tuple[str, ...] = ()

    @property
    def candidates(self) -> tuple[str, ...]:
        """Every command the agent may choose after the first one failed; that one is among them."""
        return (self.first, self.right, *self.wrong)


def sealed(value: str) -> str:
    """Return a digest of a made-up value: a script that compares it does not give the value away."""
    return hashlib.sha256(value.encode()).hexdigest()[:16]


def gate(variable: str, value: str, says: str, code: int = 3) -> str:
    """Return lines for /bin/sh that end with `code` and `says` on stderr unless the variable has the made-up value."""
    given = f'"$(printf %s "${{{variable}-}}" | sha256sum | cut -c1-16)"'
    return f'if [ {given} != {sealed(value)} ]; then echo "{says}" >&2; exit {code}; fi'


def file(path: str, content: str) -> str:
    """Return a line for /bin/sh that writes a file. Raises ValueError for a content that would end it early."""
    if re.search("^CONTENT$", content, re.MULTILINE):
        raise ValueError(f"{path}: a line CONTENT ends the file")
    return f"cat > {path} <<'CONTENT'\n{content.strip(chr(10))}\nCONTENT\n"


# A repository with one commit, and a bare one beside it as `origin`.
REPOSITORY: Final = """
git config --global user.name Mover && git config --global user.email mover@example.org
git config --global init.defaultBranch main && git config --global advice.detachedHead false
git init -q . && echo one > notes.txt && git add . && git commit -qm Begin
"""
REMOTE: Final = (
    REPOSITORY + 'git init -q --bare "$HOME/origin.git" && git remote add origin "$HOME/origin.git"\n'
    "git push -q -u origin main\n"
)

# `python3 sql.py FILE STATEMENT...`: foreign keys are on, each statement is one argument, all of them or none.
SQL: Final = file(
    "sql.py",
    """
import sqlite3
import sys

connection = sqlite3.connect(sys.argv[1])
connection.execute("PRAGMA foreign_keys = ON")
try:
    with connection:
        for statement in sys.argv[2:]:
            for row in connection.execute(statement):
                print(*row, sep="|")
except sqlite3.Error as error:
    sys.exit(f"sqlite3.{type(error).__name__}: {error}")
""",
)
