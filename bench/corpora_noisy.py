"""Records `noisy.pairs.jsonl` anew: `python -m bench.corpora_noisy [--only CASE]`.

Each case makes a small project in a temporary folder and runs a real tool on it that says much and fails once. The log
is cut to a window of whole lines of 6,000 to 8,192 code points that has the error at its start, its middle or its end,
and what names this machine is rewritten. Times, process numbers and versions differ from one recording to the next.
"""

import argparse
import platform
import re
import shutil
import socket
import subprocess
import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path

from bench.corpora_rows import OUTPUT_CHARACTERS, pair, write_rows

SHORTEST = 6_000
WANTED = 7_600
SHARES = {"start": 0.06, "middle": 0.5, "end": 0.94}
HOME = "/home/ada/project"
ANSI = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]|\x1b\]8;;[^\x07\x1b]*(?:\x07|\x1b\\)|[\x00-\x08\x0b\x0c\x0e-\x1f]")
CASES = Path(__file__).resolve().parent / "noisy"
HEADS = ("command", "where", "error")


@dataclass(frozen=True, slots=True)
class Case:
    """One recording: what is shown as the command, where the error goes, the pattern of its line, the script to run."""

    rule: str
    command: str
    where: str
    error: str
    script: str


def cases() -> list[Case]:
    """The scripts of the folder `noisy`, by name; their first lines say command, where and error."""
    found = []
    for file in sorted(CASES.glob("*.sh")):
        text = file.read_text(encoding="utf-8")
        heads = dict(re.findall(r"^# (\w+): (.+)$", text, flags=re.MULTILINE)[: len(HEADS)])
        found.append(Case(file.stem, *(heads[head] for head in HEADS), text))
    return found


def recorded(case: Case) -> str:
    """Run one case in a new folder and return all it printed, rewritten."""
    with tempfile.TemporaryDirectory(prefix="case-") as folder:
        project = Path(folder) / "project"
        project.mkdir()
        home = Path(folder) / "home"
        home.mkdir()
        environment = {
            "PATH": f"{Path(sys.executable).parent}:/usr/local/bin:/usr/bin:/bin:/usr/sbin:/sbin",
            "HOME": str(home),
            "LC_ALL": "C.UTF-8",
            "USER": "ada",
            "GIT_CONFIG_GLOBAL": str(home / "gitconfig"),
            "PYTHONDONTWRITEBYTECODE": "1",
            "PARTS": str(CASES / "parts"),
        }
        (home / "gitconfig").write_text(
            "[user]\n name = Ada\n email = ada@example.org\n[init]\n defaultBranch = main\n", encoding="utf-8"
        )
        done = subprocess.run(
            ["bash", "-c", f"exec 2>&1\n{case.script}"],
            cwd=project,
            env=environment,
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=180,
            check=False,
        )
        return rewritten(done.stdout.decode("utf-8", "replace"), project)


def rewritten(text: str, project: Path) -> str:
    """Take out what names this machine: folders, host, account, control characters."""
    text = ANSI.sub("", text.replace("\r\n", "\n").replace("\r", "\n"))
    places = (
        (str(project.resolve()), HOME),
        (str(project.parent.resolve() / "home"), "/home/ada"),
        (str(project.parent.resolve()), "/home/ada"),
        (str(Path(sys.executable).parent.parent), f"{HOME}/.venv"),
        (str(Path(__file__).resolve().parent.parent), HOME),
        ("/root/", "/home/ada/"),
        (f" {socket.gethostname()} ", " build-01 "),
        (platform.release(), "6.1.0-18-amd64"),
    )
    for old, new in places:
        text = text.replace(old, new)
    return re.sub(r"/tmp/[\w./-]*", lambda found: re.sub(r"[a-z0-9_]{8}(?=/|$)", "k3x9q0ab", found[0]), text)


def window(text: str, marker: str, where: str) -> str:
    """Whole lines around the line with `marker`, WANTED code points at most, the marker at the share `where` names."""
    lines = text.rstrip("\n").split("\n")
    hits = [number for number, line in enumerate(lines) if re.search(marker, line)]
    if not hits:
        raise ValueError("the error is not in the log")
    first, last = hits[0], hits[0]
    size = len(lines[first])
    before = 0
    while True:
        room_before = first > 0 and size + len(lines[first - 1]) + 1 <= WANTED
        room_after = last < len(lines) - 1 and size + len(lines[last + 1]) + 1 <= WANTED
        if not room_before and not room_after:
            break
        if room_before and (before < SHARES[where] * size or not room_after):
            first -= 1
            before += len(lines[first]) + 1
            size += len(lines[first]) + 1
        else:
            last += 1
            size += len(lines[last]) + 1
    return "\n".join(lines[first : last + 1]) + "\n"


def query(case: Case) -> dict[str, object]:
    text = recorded(case)
    try:
        output = window(text, case.error, case.where)
    except ValueError as error:
        raise SystemExit(f"{case.rule}: {error}:\n{text[-3000:]}") from None
    if not SHORTEST <= len(output) <= OUTPUT_CHARACTERS:
        raise SystemExit(f"{case.rule}: {len(output)} code points of {len(text)}:\n{text[-1500:]}")
    return pair(case.rule, case.command, output, where=case.where)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", help="record this case and print it instead of writing the file")
    only = parser.parse_args().only
    missing = [
        tool for tool in ("gcc", "make", "cmake", "node", "npm", "git", "psql", "sqlite3") if not shutil.which(tool)
    ]
    if missing:
        raise SystemExit(f"not installed: {', '.join(missing)}")
    if only:
        print("\n".join(str(query(case)["output"]) for case in cases() if case.rule == only))
        return
    write_rows("noisy.pairs.jsonl", [query(case) for case in cases()])


if __name__ == "__main__":
    main()
