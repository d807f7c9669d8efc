"""All tasks, in the order of their modules. A task is added to the module of its tool, or to a new one named here."""

from bench.behaviour.task import Task
from bench.behaviour.tasks import (
    archives,
    git_history,
    git_rules,
    linting,
    making,
    programs,
    shells,
    sql_rows,
    sql_rules,
)

MODULES = (git_rules, git_history, sql_rules, sql_rows, linting, archives, shells, making, programs)
TASKS: tuple[Task, ...] = tuple(task for module in MODULES for task in module.TASKS)
