"""The shell tool in its folders: what it may touch, how long it may take, what its end means."""

import asyncio
import os
import signal
import time
from pathlib import Path

import pytest

from kernel.messages import McpServer, RunSpec
from kernel.tools.catalogue import Catalogue, ToolEntry, arguments_problem
from kernel.tools.jail import landlock_abi
from kernel.tools.registry import Toolbox, offered_name
from kernel.tools.shell import (
    CommandEnd,
    RunFolders,
    ShellLimits,
    answers_by_exit_code,
    confinement,
    judge,
    run_command,
    shell_entry,
)

LIMITS = ShellLimits(wall_seconds=20)
confined_only = pytest.mark.skipif(not landlock_abi(), reason="this machine's kernel offers no Landlock")


@pytest.fixture
def folders(tmp_path: Path) -> RunFolders:
    made = RunFolders(tmp_path / "run")
    made.make()
    return made


async def test_command_runs_in_the_work_folder(folders: RunFolders) -> None:
    """A command's current folder is the run's work folder and what it prints comes back."""
    end = await run_command("pwd; echo told >&2; echo x > made", folders, LIMITS)
    assert (end.exit_code, end.stdout.strip(), end.stderr.strip()) == (0, str(folders.work), "told")
    assert (folders.work / "made").read_text() == "x\n"


async def test_environment_is_clean(folders: RunFolders, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the worker's environment reaches a command."""
    monkeypatch.setenv("TEMPORALITY_API_KEY", "tk_worker_key")
    end = await run_command("env", folders, LIMITS)
    names = {line.partition("=")[0] for line in end.stdout.splitlines()}
    assert names - {"PWD", "OLDPWD", "SHLVL", "_"} == set(folders.environment())
    assert "tk_worker_key" not in end.stdout


async def test_git_does_not_find_a_repository_around(tmp_path: Path) -> None:
    """A run inside somebody's repository is not in that repository."""
    assert os.system(f"git init -q {tmp_path}") == 0
    folders = RunFolders(tmp_path / "run")
    folders.make()
    end = await run_command("git status", folders, LIMITS)
    assert end.exit_code == 128
    assert "not a git repository" in end.stderr


async def test_git_takes_no_identity_from_the_host(folders: RunFolders) -> None:
    """A commit needs an identity the agent has set itself, on every machine alike."""
    command = "git init -q && echo a > a && git add a && git commit -m first"
    end = await run_command(command, folders, LIMITS)
    assert end.exit_code == 128
    assert "Please tell me who you are" in end.stderr


@confined_only
async def test_nothing_is_written_outside(folders: RunFolders, tmp_path: Path) -> None:
    """Writing outside of the run's folders is refused, by path, by link and by program."""
    outside = tmp_path / "outside"
    outside.mkdir()
    (folders.work / "link").symlink_to(outside)
    for command in (f"echo x > {outside}/a", "echo x > link/a", f"python3 -c \"open('{outside}/a', 'w')\""):
        end = await run_command(command, folders, LIMITS)
        assert end.exit_code != 0, command
        assert "ermission denied" in end.stderr
    assert list(outside.iterdir()) == []


@confined_only
async def test_secrets_of_the_worker_cannot_be_read(folders: RunFolders, tmp_path: Path) -> None:
    """A command reads neither files beside its folder nor the environment of the process that started it."""
    (tmp_path / "secret").write_text("the-secret")
    end = await run_command(f"cat {tmp_path}/secret", folders, LIMITS)
    assert end.exit_code == 1
    assert "the-secret" not in end.stdout
    end = await run_command(f"cat /proc/{os.getpid()}/environ", folders, LIMITS)
    assert end.exit_code == 1
    assert end.stdout == ""


@confined_only
async def test_the_worker_cannot_be_killed(folders: RunFolders) -> None:
    """A command cannot signal a process outside of its confinement."""
    end = await run_command(f"kill -0 {os.getpid()}", folders, LIMITS)
    assert end.exit_code != 0


def test_confinement_is_said_plainly() -> None:
    """The catalogue tells the model, and the log the owner, whether commands are confined."""
    assert confinement() in shell_entry(LIMITS).description
    assert ("NOT confined" in confinement()) == (landlock_abi() == 0)


async def test_time_limit_kills_the_whole_group(folders: RunFolders) -> None:
    """A command past its time is stopped with its children; what it printed is kept."""
    command = "echo started; (sleep 300; echo late) & echo $! > child; sleep 300"
    started = time.monotonic()
    end = await run_command(command, folders, ShellLimits(wall_seconds=1))
    assert time.monotonic() - started < 100
    assert (end.exit_code, end.stdout) == (None, "started\n")
    assert _gone(int((folders.work / "child").read_text()))


async def test_what_a_command_leaves_running_is_killed(folders: RunFolders) -> None:
    """A process left in the background neither outlives the command nor keeps it waiting."""
    started = time.monotonic()
    end = await run_command("sleep 300 & echo $!", folders, LIMITS)
    assert end.exit_code == 0
    assert time.monotonic() - started < 100
    assert _gone(int(end.stdout))


async def test_cancelling_kills_the_command(folders: RunFolders) -> None:
    """A cancelled call leaves no process behind."""
    task = asyncio.create_task(run_command("echo $$ > pid; sleep 300", folders, LIMITS))
    pid_file = folders.work / "pid"
    while not (pid_file.exists() and pid_file.read_text().strip()):
        await asyncio.sleep(0.01)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert _gone(int(pid_file.read_text()))


def _gone(pid: int) -> bool:
    """Whether the process ended (a zombie counts) within a second."""
    deadline = time.monotonic() + 1
    while time.monotonic() < deadline:
        try:
            if Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z":
                return True
        except OSError:
            return True
    return False


async def test_output_is_bounded_at_both_ends(folders: RunFolders) -> None:
    """Of a long output the first and the last lines are kept, with a note of how much is missing."""
    limits = ShellLimits(output_bytes=1_000)
    end = await run_command("seq 1 100000", folders, limits)
    lines = end.stdout.splitlines()
    assert (lines[0], lines[-1]) == ("1", "100000")
    assert len(end.stdout) < 2_100
    assert any("more bytes" in line for line in lines)


async def test_memory_is_bounded(folders: RunFolders) -> None:
    """A command that asks for more memory than allowed fails; the worker does not."""
    limits = ShellLimits(memory_bytes=512 * 1024 * 1024)
    end = await run_command("python3 -c 'x = bytearray(10**9)'", folders, limits)
    assert end.exit_code == 1
    assert "MemoryError" in end.stderr


async def test_binary_output_is_text(folders: RunFolders) -> None:
    """Bytes that are no text, NUL included, become replacement characters."""
    end = await run_command(r"printf 'a\000b\377c'", folders, LIMITS)
    assert end.stdout == "a\ufffdb\ufffdc"


ENTRY = shell_entry(LIMITS)


@pytest.mark.parametrize(
    ("command", "end", "expected"),
    [
        ("make", CommandEnd(0, "done\n", ""), ("ok", "applied", "", "")),
        ("make", CommandEnd(2, "out\n", "err\n"), ("failed", "uncertain", "exit_nonzero", "err\nout")),
        ("false", CommandEnd(1, "", ""), ("failed", "uncertain", "exit_nonzero", "")),
        ("sleep 9", CommandEnd(None, "", ""), ("timed_out", "uncertain", "timeout", "")),
        ("crash", CommandEnd(-int(signal.SIGSEGV), "", "core"), ("failed", "uncertain", "signal", "core")),
        ("grep x file", CommandEnd(1, "", ""), ("ok", "applied", "", "")),
        ("grep x file", CommandEnd(2, "", "no file"), ("failed", "uncertain", "exit_nonzero", "no file")),
        ("echo error: failed", CommandEnd(0, "error: failed", ""), ("ok", "applied", "", "")),
    ],
)
def test_only_the_exit_code_decides(command: str, end: CommandEnd, expected: tuple[str, str, str, str]) -> None:
    """The word "error" in a text decides nothing; stderr comes first in the diagnostic."""
    result = judge(command, end, ENTRY, LIMITS)
    assert (result.status, result.effect, result.error_class, result.diagnostic) == expected


@pytest.mark.parametrize(
    ("command", "answers"),
    [
        ("grep -q x f", True),
        ("cat f | grep x", True),
        ("/usr/bin/diff a b", True),
        ("grep x f; make", False),
        ("make && grep x f", False),
        ("grep x f | wc -l", False),
        ("make", False),
        ("", False),
        ("grep 'unclosed", False),
    ],
)
def test_exit_code_one_is_an_answer_of_some_programs(command: str, answers: bool) -> None:
    """grep finding nothing is no failure, as long as nothing else can have ended the command."""
    assert answers_by_exit_code(command) is answers


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ('{"command": "ls"}', ""),
        ("{command: ls}", "not valid JSON"),
        ("[]", "must be a JSON object"),
        ("{}", "'command' is missing"),
        ('{"command": 3}', "must be of type string"),
        ('{"command": true}', "must be of type string"),
        ("[" * 100_000, "not valid JSON"),
    ],
)
def test_malformed_arguments_are_named(arguments: str, problem: str) -> None:
    """What is wrong with arguments is said in words the model can act on."""
    found = arguments_problem(arguments, ENTRY.schema)
    assert problem in found
    assert bool(found) is bool(problem)


def test_a_number_is_not_a_bool() -> None:
    """true is no integer, an integer is a number."""
    schema = {"properties": {"n": {"type": "integer"}, "x": {"type": "number"}}}
    assert arguments_problem('{"n": true}', schema)
    assert not arguments_problem('{"n": 1, "x": 1}', schema)


def test_catalogue_survives_json() -> None:
    """A catalogue written to the transcript store reads back as it was."""
    entry = ToolEntry("git__log", "d", {"type": "object"}, "git", "log", False, (0, 1))
    catalogue = Catalogue((ENTRY, entry), (McpServer("git", "mcp-server-git", ("--repository", "{work}")),))
    assert Catalogue.from_json(catalogue.to_json()) == catalogue


def test_offered_names_fit_every_provider() -> None:
    """Odd or long names are made fit, and stay different from each other."""
    assert offered_name("git", "git_log") == "git__git_log"
    odd = {offered_name("my server", "x"), offered_name("my.server", "x"), offered_name("k" * 80, "x")}
    assert len(odd) == 3
    assert all(len(name) <= 64 and name.replace("_", "").replace("-", "").isalnum() for name in odd)


async def test_prepare_starts_from_an_empty_folder(tmp_path: Path) -> None:
    """Setup runs once in an empty folder; what an unfinished preparation left is gone."""
    toolbox = Toolbox(tmp_path, limits=LIMITS)
    spec = RunSpec("odd/../run id\u2028", "t", setup="ls -A > listing; echo a > a")
    for _ in range(2):
        prepared = await toolbox.prepare(spec)
        assert prepared.error == ""
        work = toolbox.folders(spec.run_id).work
        assert (work / "listing").read_text() == "listing\n"
    assert [path.parent for path in tmp_path.iterdir()] == [tmp_path]
    assert [tool.name for tool in prepared.catalogue.tools] == ["shell"]


async def test_a_failing_setup_is_told(tmp_path: Path) -> None:
    """A setup command that fails says how and with what text."""
    prepared = await Toolbox(tmp_path, limits=LIMITS).prepare(RunSpec("r", "t", setup="echo broken >&2; exit 3"))
    assert prepared.error == "the setup command ended with code 3: broken\n"


def test_runs_have_folders_of_their_own(tmp_path: Path) -> None:
    """Two run ids never share a folder, and none leaves the root."""
    toolbox = Toolbox(tmp_path)
    roots = {toolbox.folders(run_id).root for run_id in ("a/b", "a_b", "..", ".", "x" * 500)}
    assert len(roots) == 5
    assert {root.parent for root in roots} == {tmp_path}


async def test_root_gives_up_its_privileges(folders: RunFolders) -> None:
    """A command has no capability, whoever the worker runs as."""
    end = await run_command("grep -E 'Cap(Prm|Eff|Inh|Amb)|NoNewPrivs' /proc/self/status", folders, LIMITS)
    values = {line.split()[1] for line in end.stdout.splitlines()}
    assert values == {"0000000000000000", "1"}


@pytest.mark.parametrize("command", ["echo \0", "echo \ud800", "echo " + "x" * 3_000_000], ids=["nul", "half", "long"])
async def test_what_no_shell_can_be_given_is_not_started(tmp_path: Path, command: str) -> None:
    """A command that cannot be passed on fails as a call, with no effect: nothing was executed."""
    toolbox = Toolbox(tmp_path, limits=LIMITS)
    prepared = await toolbox.prepare(RunSpec("r-1", "x"))
    (entry,) = prepared.catalogue.tools
    result = await toolbox.run("r-1", prepared.catalogue, entry, {"command": command})
    assert (result.status, result.effect, result.error_class) == ("failed", "none", "not_started")
    assert "cannot be given to a shell" in result.diagnostic
