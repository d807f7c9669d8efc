"""Remakes `thefuck.*.jsonl`: `python -m bench.corpora_thefuck --recorded PAIRS.jsonl [--wheel FILE]`.

The items are the lines of the rule list in the README of the package `thefuck` 3.32 (MIT), one rule a line, as they
stand there; pip fetches the wheel when none is given. The pairs are a recording of the package's own rule tests, kept
as recorded.
"""

import argparse
import re
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

from bench.corpora_rows import CORPORA, item, write_rows

PACKAGE = "thefuck==3.32"
RULE_LINE = re.compile(r"^-  ``(?P<name>[\w.]+)`` [–‐-] (?P<text>.+?)[;.]?$", re.DOTALL)
README_PARTS = ("How it works\n", "Creating your own rules\n")


def fetched(folder: Path) -> Path:
    """Download the wheel into `folder` and return its path."""
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", PACKAGE, "-d", str(folder)]
    subprocess.run(command, check=True)
    return next(folder.glob("thefuck-*.whl"))


def rules(wheel: Path) -> Iterator[tuple[str, str]]:
    """Yield (name, description) of each rule line in the README inside the wheel."""
    with zipfile.ZipFile(wheel) as archive:
        names = archive.namelist()
        readme = archive.read(next(name for name in names if name.endswith("/METADATA"))).decode("utf-8")
    start, end = (readme.index(part) for part in README_PARTS)
    unwrapped = re.sub(r"\n   (?=\S)", " ", readme[start:end])
    for line in unwrapped.splitlines():
        match = RULE_LINE.match(line)
        if match is None:
            continue
        name = match["name"]
        if f"thefuck/rules/{name}.py" not in names:  # the README names two rules with their file's ending
            name = name.removesuffix(".py")
        yield name, plain(match["text"])


def plain(text: str) -> str:
    """Take the reStructuredText markup out: code stays in single backticks, emphasis and joints go."""
    text = text.replace("``", "`").replace("\\ ", "")
    text = re.sub(r"`_{1,2}(?!\w)", "`", text)
    return re.sub(r"\*([^*]+)\*", r"\1", text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--recorded", type=Path, help="the recorded pairs, copied as they are")
    parser.add_argument("--wheel", type=Path, help="a downloaded wheel; fetched by pip when left out")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        found = list(rules(options.wheel or fetched(Path(folder))))
    write_rows("thefuck.items.jsonl", (item(name, text) for name, text in found))
    if options.recorded:
        (CORPORA / "thefuck.pairs.jsonl").write_bytes(options.recorded.read_bytes())


if __name__ == "__main__":
    main()
