"""The same run gives the same commands, byte for byte, in every process."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
GOLDEN = Path(__file__).with_name("golden") / "commands.jsonl"


@pytest.mark.parametrize("seed", ["0", "1", "4242"])
def test_commands_do_not_depend_on_the_hash_seed(seed: str) -> None:
    """What every activity is given equals the committed record under three hash seeds."""
    process = subprocess.run(
        [sys.executable, "-m", "tests.kernel.command_log"],
        cwd=ROOT,
        env={**os.environ, "PYTHONHASHSEED": seed},
        capture_output=True,
        text=True,
        check=True,
        timeout=120,
    )
    given, recorded = process.stdout.splitlines(), GOLDEN.read_text().splitlines()
    for number, (line, expected) in enumerate(zip(given, recorded, strict=False), 1):
        assert line == expected, f"command {number} differs; see tests/kernel/command_log.py"
    assert len(given) == len(recorded)
