"""A spec that cannot make a run is refused with the field, the limit and the fix, before it enters any history."""

from dataclasses import replace
from typing import Any

import pytest

from kernel.edge.spec import spec_problem
from kernel.messages import Holdout, Limits, McpServer, Member, RunSpec, Switches
from kernel.runtime.local import LocalRun
from kernel.runtime.start import StartError, checked, demo_spec, with_settings
from kernel.testing import MemoryEdges, ScriptedModel

SPEC = RunSpec("r-1", "Build it")
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"run_id": ""}, "run_id must be a printable text"),
    ({"run_id": "r\n1"}, "run_id must be a printable text"),
    ({"run_id": "r" * 151}, "run_id has 151 characters; the limit is 150"),
    ({"task": " "}, "task is empty"),
    ({"task": "t" * 1_000_001}, "task has 1000001 characters; the limit is 1000000"),
    ({"rules": "r" * 100_001}, "rules has 100001 characters; the limit is 100000"),
    ({"tools": ("shell", "shell")}, "tools names 'shell' twice"),
    ({"skills": ("s",) * 101}, "skills has 101 entries; the limit is 100"),
    ({"skills": ("a", " ")}, "skills[1] must be a printable text of 1 to 200 characters"),
    ({"blocked_tools": ("t" * 201,)}, "blocked_tools[0] must be"),
    ({"mcp_servers": (McpServer("k" * 101, "git"),)}, "`key` must have 1 to 100 printable characters"),
    ({"skills": ("s" * 190,) * 30}, "bytes together; the limit is 4096"),
    ({"members": tuple(Member(f"m{n}") for n in range(17))}, "members has 17 entries; the limit is 16"),
    ({"members": (Member("m"), Member("m"))}, "members names 'm' twice"),
    ({"members": (Member("m", rules="r" * 9_000),)}, "the limit is 6144"),
    ({"members": (Member(" "),)}, "members[0].name must have 1 to 200 characters"),
    ({"members": (Member("m", limits=Limits(max_turns=0)),)}, "members[0].limits.max_turns is 0; it must be from 1"),
    ({"limits": Limits(activations_per_turn=21)}, "limits.activations_per_turn is 21; it must be from 0 to 20"),
    ({"limits": Limits(tokens_per_run=-1)}, "limits.tokens_per_run is -1; it must be from 0"),
    ({"mcp_servers": (McpServer("git", "a"), McpServer("git", "b"))}, "mcp_servers names 'git' twice"),
    ({"mcp_servers": (McpServer("git", url="http://ada:hunter2@h/"),)}, "MCP server 'git': `url` holds credentials"),
    ({"holdout": Holdout(1.5, "s")}, "holdout.share is 1.5; it must be from 0 to 1"),
    ({"holdout": Holdout(float("nan"), "s")}, "holdout.share is nan"),
    ({"holdout": Holdout(0.5)}, "holdout.salt is empty"),
    ({"switches": Switches(off=("Tool Failed",))}, "switches.off[0] must be the name of a trigger"),
]


@pytest.mark.parametrize(("changes", "text"), WRONG, ids=lambda value: value if isinstance(value, str) else "")
async def test_what_is_wrong_is_named(changes: dict[str, Any], text: str) -> None:
    """The text names the field and the limit, no secret in it, and such a run fails before anything is done."""
    spec = replace(SPEC, **changes)
    problem = spec_problem(spec)
    assert text in problem and "hunter2" not in problem
    edges = MemoryEdges(ScriptedModel("done"), {"shell": lambda: "fine"})
    result = await LocalRun(edges, clock_ns=edges.clock).run(spec)
    assert (result.status, edges.model.requests) == ("failed", [])
    assert text in edges.data_of("run.failed")[0]["error"]


def test_an_ordinary_spec_is_right() -> None:
    """The defaults, and every part used as meant, are no problem."""
    team = (Member("reviewer", mcp_servers=(McpServer("git", "mcp-server-git"),)),)
    full = replace(SPEC, members=team, holdout=Holdout(0.2, "salt", "e-1"), switches=Switches(off=("tool.failed",)))
    assert (spec_problem(SPEC), spec_problem(full)) == ("", "")


@pytest.mark.parametrize(
    ("spec", "text"),
    [
        ({"run_id": "r-1", "task": "x", "colour": "red"}, "unknown field colour"),
        ({"run_id": "r-1", "task": 7}, "RunSpec.task: expected str"),
        ({"task": "x"}, "missing field run_id"),
        ({"run_id": "r-1", "task": "x", "limits": {"max_turns": True}}, "limits.max_turns: expected int"),
        ({"run_id": "r-1", "task": "x", "holdout": {"share": 2, "salt": "s"}}, "holdout.share is 2.0"),
    ],
)
def test_a_spec_that_is_none_is_not_started(spec: dict[str, Any], text: str) -> None:
    """What was read from a file is checked as a whole before Temporal sees it."""
    with pytest.raises(StartError, match=text.replace(".", r"\.")):
        checked(spec)


def test_settings_change_a_demo_and_leave_its_file_alone() -> None:
    """A dotted path reaches fields that the spec does not name yet and entries of lists; what is no JSON is text."""
    spec = demo_spec("review-history")
    settings = ("switches.shadow=true", "limits.turns_per_workflow=1", "task=a=b", "mcp_servers.0.key=repo")
    changed = with_settings(spec, settings)
    read = checked({**changed, "run_id": "r-1"})
    assert (read.switches.shadow, read.limits.turns_per_workflow, read.task) == (True, 1, "a=b")
    assert (read.mcp_servers[0].key, read.mcp_servers[0].command) == ("repo", "mcp-server-git")
    assert spec == demo_spec("review-history"), "what was given is not changed"


@pytest.mark.parametrize(
    ("setting", "text"),
    [
        ("switches.shadow", "--set switches.shadow: write it as PATH=VALUE"),
        ("=1", "--set =1: write it as PATH=VALUE"),
        ("limits..max_turns=1", "write it as PATH=VALUE"),
        ("task.length=1", "--set task.length: there is no 'length' to set, as what would hold it is \"Say"),
        ("mcp_servers.1.key=git", "--set mcp_servers.1.key: '1' is no entry of a list of 1"),
        ("mcp_servers.first=1", "'first' is no entry of a list of 1"),
        ("switches.shade=true", "unknown field shade"),
        ("limits.max_turns=many", "max_turns: expected int"),
        ("holdout.share=0.5", "holdout.salt is empty"),
    ],
)
def test_a_setting_that_fits_nowhere_is_named(setting: str, text: str) -> None:
    """The error has the path, or the field that the kernel does not know."""
    with pytest.raises(StartError) as caught:
        checked({**with_settings(demo_spec("review-history"), [setting]), "run_id": "r-1"})
    assert text in str(caught.value)
