"""Times redaction: `python -m bench.redaction` prints what clean, dirty and hostile texts cost, and growth.

Beside each figure stand the look of the automaton alone and the same text with the rules alone, as where google-re2 is
not installed. Hostile texts are 64 KB made of needles, of almost-matches and of quotes that never close; a ratio of
64 KB to 32 KB near 2 is linear work.
"""

import json
import random
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from typing import Any

from contract.redaction import redact, redact_value
from contract.redaction_rules import ExtraRules, compile_rules
from contract.secret_scan import SCAN

MESSAGE = (
    "The tests fail since yesterday. Find out why, fix the cause, run them again and tell which file you changed. "
)
SPAN: dict[str, Any] = {
    "span": {
        "name": "chat gpt-4o",
        "trace_id": "5f3a9c1b2d5f3a9c1b2d5f3a9c1b2d5f",
        "status": "ok",
        "scope": {"name": "openinference.instrumentation.openai", "version": "0.1.18"},
        "attributes": {
            "llm.token_count.prompt": 1234,
            "llm.token_count.completion": 88,
            "gen_ai.usage.input_tokens": 1234,
            "gen_ai.request.model": "gpt-4o-mini-2024-07-18",
            "gen_ai.system": "openai",
            "llm.input_messages.0.message.role": "system",
            "llm.input_messages.0.message.content": "You are a careful agent that mends builds. Never guess.",
            "llm.input_messages.1.message.role": "user",
            "llm.input_messages.1.message.content": MESSAGE * 4,
            "llm.output_messages.0.message.content": "The module cannot be imported: it was not installed. " * 3,
            "llm.invocation_parameters": '{"temperature": 0.2, "max_tokens": 512}',
            "session.id": "550e8400-e29b-41d4-a716-446655440000",
            "service.name": "billing-agent",
            "http.url": "https://api.example.com/v1/chat/completions",
            "input.mime_type": "application/json",
            "telemetry.sdk.language": "python",
        },
    },
    "model": "gpt-4o-mini",
    "provider": "openai",
    "finish_reason": "stop",
}
LINE = "2026-11-30T03:00:07.123Z INFO worker-3 handled 6f9619ff-8b86-d011-b42d-00c04fc964ff in 12 ms, 512 tokens, ok\n"
CODE = 'def login(user: str, password: str) -> Token:\n    return client.post("/login", data={"password": password})\n'
LARGE = 65_536
KEY = "ghp_" + "Z9y8X7w6V5u4T3s2R1q0P9o8N7m6L5k4J3i2"


def filled(unit: str, size: int) -> str:
    """A text of `size` code points made of one unit."""
    return (unit * (size // len(unit) + 1))[:size]


TEXTS: dict[str, Any] = {
    f"clean span, {len(json.dumps(SPAN))} bytes of JSON": SPAN,
    "clean log, 8 KB": filled(LINE, 8_192),
    "clean log in Russian, 8 KB": filled("Запуск завершён, всё хорошо: 12 файлов изменено\n", 8_192),
    "code about passwords, 8 KB": filled(CODE, 8_192),
    "dirty span: a key in a message": {**SPAN, "text": f"pushed with {KEY} and it worked"},
    "dirty span: a password by its name": {**SPAN, "db": {"password": "hunter2"}},
    "dirty log, 8 KB: one key": f"{filled(LINE, 8_000)} {KEY}",
    "dirty log, 8 KB: a password a line": filled("connect host=h password=hunter2 retries=3\n", 8_192),
}
UNITS = (
    "password=", "password='", 'password="a ', "token: ", "Cookie: ", "Cookie: a=", "Authorization: ", "bearer ",
    "Bearer a1b2c3d4e5f6g7h8 ", "sk-", "sk-a-", "tk_", "eyJ", "eyJ-", "eyJa1b2c3d4.", "a://", "a://b:", "://:@", "sig=",
    "-----BEGIN PRIVATE KEY-----", "-----BEGIN PRIVATE KEY-----\nAAAAAAAAAAAAAAAA\n", "--password ", "--", "<password>",
    "curl ", "curl -u", "login a password ", "password is ", "identified by ", "[REDACTED:", "\\\"", "'", '"',
    "A1b2C3-", "key", "api_key", "api", "auth.", "pass_", "AKIA", "ghp_", "0123456789:AA", "SG.", "hvs.", "пароль",
    "<password", "a://b:c@", "İpassword=", "_", ".", "-", "A", "a1",
)  # fmt: skip


def cost(work: Callable[[], object], least: float = 0.05, rounds: int = 5) -> float:
    """Return the microseconds of processor time of one call: the best of `rounds`."""
    begin = time.thread_time()
    work()
    times = max(1, int(least / rounds / max(time.thread_time() - begin, 1e-6)))
    best = float("inf")
    for _ in range(rounds):
        begin = time.thread_time()
        for _ in range(times):
            work()
        best = min(best, (time.thread_time() - begin) / times)
    return best * 1e6


def texts_of(value: Any) -> list[str]:
    """All texts inside a JSON value, without its names."""
    if isinstance(value, str):
        return [value]
    return [text for one in (value.values() if isinstance(value, dict) else ()) for text in texts_of(one)]


def cost_of_value(value: Any, rules: ExtraRules | None = None) -> float:
    """Microseconds to redact a JSON value."""
    return cost(lambda: redact_value(value, rules))


def cost_of_hostile(unit: str, size: int, rounds: int) -> float:
    """Microseconds to redact a text of about `size` code points made of whole units."""
    text = unit * (size // len(unit))
    return cost(lambda: redact(text), 0, rounds)


def cost_of_look(value: Any) -> float:
    """Microseconds of the look alone over all texts of a JSON value."""
    joined = "\n".join(texts_of(value))
    return cost(lambda: SCAN.may_hold(joined))


def print_texts() -> None:
    """Print microseconds of each text: all of it, the look alone and how many looks the whole is worth."""
    rules = compile_rules([{"kind": "employee", "pattern": r"EMP-\d{6}"}, {"kind": "card", "pattern": r"\b\d{16}\b"}])
    print(f"{'scan: ' + SCAN.name:40} {'us':>9} {'scan us':>9} {'ratio':>6} {'+2 own patterns':>16}")
    for name, value in TEXTS.items():
        whole, look = cost_of_value(value), cost_of_look(value)
        print(f"{name:40} {whole:9.1f} {look:9.1f} {whole / look:6.1f} {cost_of_value(value, rules):16.1f}")


def hostile_units(mixes: int = 60) -> list[str]:
    """Single units, and mixes of up to six drawn for a fixed seed."""
    dice = random.Random(1)
    return [*UNITS, *("".join(dice.sample(UNITS, dice.randint(2, 6))) for _ in range(mixes))]


def print_hostile() -> None:
    """Print the dearest hostile texts, and the worst growth."""
    found = sorted(
        (cost_of_hostile(unit, LARGE, 2), cost_of_hostile(unit, LARGE // 2, 2), unit) for unit in hostile_units()
    )
    print(f"hostile: {len(found)} texts of 64 KB, median {found[len(found) // 2][0] / 1e3:.2f} ms")
    for _, _, unit in found[:-9:-1]:
        large, half = cost_of_hostile(unit, LARGE, 5), cost_of_hostile(unit, LARGE // 2, 5)
        print(f"hostile {large / 1e3:8.2f} ms  64 KB / 32 KB = {large / half:4.2f}  {unit[:60]!r}")
    # What seemed to grow faster is measured again: a single figure may be the machine's and not the text's.
    suspects = [unit for large, half, unit in found if large > 2.1 * half]
    again = [(cost_of_hostile(unit, LARGE, 9) / cost_of_hostile(unit, LARGE // 2, 9), unit) for unit in suspects]
    worst = f"{max(again)[0]:.2f} of {max(again)[1]!r}" if again else "under 2.1"
    print(f"worst growth from 32 KB to 64 KB: {worst} ({len(suspects)} measured again)")


def print_rules_only() -> None:
    """Print microseconds of each text in a process without the automaton."""
    for name, value in TEXTS.items():
        print(f"{name + ', ' + SCAN.name:50} {cost_of_value(value):9.1f}")


RULES_ONLY = "import sys; sys.modules['re2'] = None; import bench.redaction; bench.redaction.print_rules_only()"


def main() -> None:
    """Print the tables."""
    redact_value(SPAN)
    print_texts()
    print(subprocess.run([sys.executable, "-c", RULES_ONLY], capture_output=True, text=True, check=True).stdout, end="")
    print_hostile()
    print(f"memory of this process at its largest: {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024:.0f} MiB")


if __name__ == "__main__":
    main()
