"""Times `fp_v1`: `python -m bench.fingerprint` prints what typical texts cost, the worst hostile texts, and growth.

Hostile texts are 8,192 code points made of one unit, of two units alternating, or of lines of them: what a pattern
could try in vain from every start. A ratio of 8,192 to 4,096 code points near 2 is linear work.
"""

import itertools
import time
from collections.abc import Iterator

from contract.fingerprint import INPUT_LIMIT, fingerprint

TYPICAL = {
    "one line": "fatal: not a git repository (or any of the parent directories): .git",
    "shell": "zsh:1: command not found: timeout",
    "compiler": "/home/ann/proj/src/app.c:42:7: error: expected ';' before '}' token\n"
    "   42 |   return 0\n      |           ^\n",
    "traceback": "Traceback (most recent call last):\n"
    + "".join(f'  File "/srv/app/part{n}.py", line {n}, in run\n    step({n})\n' for n in range(8))
    + 'psycopg.errors.UndefinedColumn: column "a" does not exist\nLINE 1: select a from t\n',
    "npm": "npm ERR! code E404\nnpm ERR! 404 Not Found - GET https://registry.npmjs.org/lefft-pad - Not found\n"
    "npm ERR! A complete log of this run can be found in: /root/.npm/_logs/2026-11-30T03_00_00_000Z-debug-0.log\n",
    "8 KB of log": "".join(
        f"2026-11-30T03:{n % 60:02}:07.123Z INFO worker-{n} handled 6f9619ff-8b86-d011-b42d-{n:012x} in {n} ms\n"
        for n in range(90)
    )[: INPUT_LIMIT - 60]
    + "\nERROR connect to 10.0.0.7:5432 refused",
}
UNITS = (
    "a", "Z", "0", "_", "/", "\\", ".", ":", "-", "@", "=", "<", "[", "(", "%", "é", "\u0301", "\u0327\u0301", "'", '"',
    "`", "\r", "\x1b", "\x1b[", "\x1b]", "\x00", "a/", "/a", "a.", "1.", "1:", "a:", "a@", "@a", "f:", "::", "1,", "1 ",
    "0x", "A1b", "a1", "a-", "1-", "--a ", "id=", "id=1 ", "_id", "token=", "1 ms ", "1 B ", "Jan 1 ", "1 Jan ", "sha ",
    "commit a", "rev-", "http://a/", "a://", "a@a.a", "a@b:c", "deadbeef", "1.2.3.4 ", "::1 ", "12:30:00 ", "[=", "█",
    "<n>", "Error: ", "error: a ", "command ", "Command failed: ", "exited ", "subcommand a", "not found", "see ",
    "run ", "usage: ", "try a--hel", "stderr", "stderr: ", "E   ", "a.Error", "a::b", "AError: BError: ", "ToolError: ",
    "Traceback (most recent call last):", "No module named ", "unknown option ", "pathspec ", "a: b: ", "a.py ", "A_1-",
    "worker-1 ", "run-", "chatcmpl-a1", "E0308 ", "ORA-1 ", "[REDACTED:a", "C:\\a", "~/a", "../a", "{", "$", "^", "|",
)  # fmt: skip
STARTS = ("", "error ", "Traceback (most recent call last):\n")


def hostile(size: int) -> Iterator[tuple[str, str]]:
    """Yield (name, text of `size` code points)."""
    pairs = [one + UNITS[(n + shift) % len(UNITS)] for shift in (1, 7, 23) for n, one in enumerate(UNITS)]
    for start, unit in itertools.product(STARTS, [*UNITS, *pairs]):
        for width in (0, 2, 40, 240, 1_000):
            line = (unit * (width // len(unit) + 1) + "\n") if width else unit
            yield f"{start!r} {unit!r} lines of {width or size}", (start + line * (size // len(line) + 1))[:size]


def cost(text: str, rounds: int = 3) -> float:
    """Return the milliseconds of processor time of one fingerprint: the best of `rounds`."""
    best = float("inf")
    for _ in range(rounds):
        begin = time.thread_time()
        fingerprint(text)
        best = min(best, time.thread_time() - begin)
    return best * 1_000


def main() -> None:
    """Print the three tables."""
    fingerprint("error: warm up 1")
    for name, text in TYPICAL.items():
        print(f"typical  {cost(text, 200):7.3f} ms  {name} ({len(text)} code points)")
    costs = sorted(((cost(text), name, text) for name, text in hostile(INPUT_LIMIT)), reverse=True)
    middle = costs[len(costs) // 2][0]
    # The dearest are measured again: a single figure may be the machine's and not the text's.
    again = sorted(((cost(text, 20), name, text) for _, name, text in costs[:200]), reverse=True)
    over = sum(one > 1 for one, _, _ in again)
    print(f"hostile  {len(costs)} texts of {INPUT_LIMIT} code points, median {middle:.3f} ms, over 1 ms: {over}")
    for whole, name, text in again[:12]:
        print(f"hostile  {whole:7.3f} ms  8 KB / 4 KB = {whole / cost(text[: INPUT_LIMIT // 2], 20):4.1f}  {name}")


if __name__ == "__main__":
    main()
