"""What must hold of any diagnostic text: noise never separates situations, substance always does."""

import unicodedata
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from contract.fingerprint import Fingerprint, fingerprint
from contract.masks import mask_line

PROPERTY = settings(max_examples=200, deadline=None, derandomize=True)

NUMBERS = st.integers(0, 10**7)
HEX = st.text("0123456789abcdef", min_size=24, max_size=40).filter(lambda one: not one.isdigit() and not one.isalpha())
CLOCKS = st.integers(9 * 10**8, 2 * 10**9).map(lambda seconds: datetime.fromtimestamp(seconds, UTC))
FORMATS = (
    "%Y-%m-%dT%H:%M:%SZ",
    "%Y-%m-%d %H:%M:%S,123",
    "%Y-%m-%dT%H:%M:%S.%f+00:00",
    "%d/%b/%Y:%H:%M:%S +0000",
    "%b %d %H:%M:%S",
    "%H:%M:%S",
    "%Y%m%dT%H%M%SZ",
    "%a %b %d %H:%M:%S %Y",
    "%a, %d %b %Y %H:%M:%S GMT",
    "%Y-%m-%dT%H_%M_%S",
    "%I:%M %p",
    "%Y%m%d_%H%M%S",
)
FOLDERS = st.lists(
    st.sampled_from(["home", "ann", "builds", "77", "tmp", "ci", "work", "src-2", "a.b", "x_1", "Projects", "été"]),
    min_size=1,
    max_size=6,
).map(lambda parts: "/" + "/".join(parts))

# kind of noise -> what may stand there
NOISE: dict[str, st.SearchStrategy[str]] = {
    "uuid": st.uuids().map(str),
    "port": st.integers(1, 65_535).map(lambda port: f"db.example.com:{port}"),
    "address": st.tuples(st.ip_addresses(v=4), st.integers(1, 65_535)).map(lambda one: f"{one[0]}:{one[1]}"),
    "memory": st.integers(0, 2**48).map(hex),
    "hash": HEX,
    "counter": NUMBERS.map(str),
    "grouped counter": NUMBERS.map(lambda n: f"{n:,}"),
    "of many": st.tuples(NUMBERS, NUMBERS).map(lambda pair: f"{pair[0]}/{pair[1]}"),
    "percent": st.integers(0, 100).map(lambda n: f"{n}%"),
    "duration": st.sampled_from(["3s", "231 ms", "1.5 seconds", "2m 3s", "1h2m", "45 minutes", "1m30.5s", "0.004s"]),
    "size": st.sampled_from(["3 MB", "1.5GiB", "77 bytes", "12kB", "1 B", "9.1 MB/s", "3.6it/s"]),
    "pid": st.integers(1, 4_000_000).map(lambda n: f"pid={n}"),
    "request": st.text("abcdef0123456789", min_size=16, max_size=24).map(lambda one: f"request_id=7{one}"),
    "worker": st.integers(0, 9_999).map(lambda n: f"worker-{n}"),
    "folder": FOLDERS.map(lambda folder: f"{folder}/config.toml"),
    "checkout": FOLDERS.map(lambda folder: f"{folder}/Makefile"),
    "temporary": st.text("abcdefghijklmnopqrstuvwxyz0123456789_", min_size=8, max_size=8).map("/tmp/tmp{}".format),
    "url": st.tuples(st.integers(1, 99), st.uuids()).map(
        lambda one: f"https://h{one[0]}.example/v1/users/{one[1]}?x=1"
    ),
    "mail": st.sampled_from(["ann@a.example", "bob.b+c@mail.b.example"]),
    "redacted": st.sampled_from(["[REDACTED:token]", "[REDACTED:password]"]),
    "bar": st.integers(0, 20).map(lambda n: f"[{'=' * n}>{' ' * (20 - n)}]"),
    "blocks": st.integers(1, 20).map(lambda n: f"{n * 5}%|{'█' * n}{' ' * (20 - n)}| {n}/20"),
} | {f"time {form}": CLOCKS.map(lambda one, form=form: one.strftime(form)) for form in FORMATS}
NOISE["time of mail"] = CLOCKS.map(format_datetime)

WORDS = (
    "disk",
    "quota",
    "schema",
    "Marker",
    "Decimal",
    "Separator",
    "login",
    "branch",
    "table",
    "utf-8",
    "sha256",
    "x86_64",
    "python3",
    "socket",
    "Fee::add()",
    "novel",
    "valid",
    "paid",
    "certificate",
    "lock",
    "nothing",
    "rows",
    "ORA-00942",
    "E0308",
    "TS2345",
    "'parser'",
    "--flag",
    "`make`",
    "base64",
    "us-east-1",
)
PHRASES = st.lists(st.sampled_from(WORDS), min_size=1, max_size=4).map(" ".join)


def _traceback(root: str, line: int, message: str) -> str:
    return (
        f'Traceback (most recent call last):\n  File "{root}/app/main.py", line {line}, in run\n    step({line})\n'
        f"app.errors.StepError: {message}\n"
    )


# how a message reaches us: root of the checkout, a line number, the message
FRAMES: dict[str, Callable[[str, int, str], str]] = {
    "plain": lambda root, line, message: f"error: {message}",
    "traceback": _traceback,
    "compiler": lambda root, line, message: f"{root}/src/app.c:{line}:7: error: {message}\n  {line} | x\n    | ^\n",
    "pytest": lambda root, line, message: f"{root}/test_a.py:{line}: in test\nE   ValueError: {message}\n",
    "node": lambda root, line, message: f"TypeError: {message}\n    at run (file://{root}/src/app.js:{line}:5)\n",
    "java": lambda root, line, message: f"java.io.IOException: {message}\n\tat a.B.c(B.java:{line})\n",
    "rust": lambda root, line, message: (
        f"error[E0382]: {message}\n --> {root}/src/main.rs:{line}:9\n  |\n{line} | x;\n"
    ),
    "log": lambda root, line, message: f"2026-11-30 03:00:{line % 60:02} [{line}] ERROR {message}",
    "behind progress": lambda root, line, message: f"Fetching {line % 100}%\rFetching 100%\rfatal: {message}",
    "below progress": lambda root, line, message: f"[{'#' * (line % 9 + 1)}  ] {line} MB\nfatal: {message}",
    "stderr": lambda root, line, message: f"stdout:\n{line} files done\nstderr:\nfatal: {message}\n",
    "wrapped": lambda root, line, message: f"ToolError: Command 'make' exited with code 2: fatal: {message}",
}


@pytest.mark.parametrize("kind", NOISE)
@given(data=st.data(), before=PHRASES, after=PHRASES)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_t48_noise_never_changes_the_key(kind: str, data: st.DataObject, before: str, after: str) -> None:
    """T48: whatever stands at the place of an id, a time, a port, a path, a counter, the situation is the same one."""
    one, other = data.draw(NOISE[kind]), data.draw(NOISE[kind])
    text = "cannot load {} {} {} at all"
    found = fingerprint(text.format(before, one, after))
    assert found == fingerprint(text.format(before, other, after))
    assert before.split()[0] in found.exact


@pytest.mark.parametrize("frame", FRAMES)
@given(roots=st.tuples(FOLDERS, FOLDERS), lines=st.tuples(st.integers(1, 9_999), st.integers(1, 9_999)), said=PHRASES)
@settings(max_examples=40, deadline=None, derandomize=True)
def test_two_checkouts_and_line_numbers_are_one_situation(
    frame: str, roots: tuple[str, str], lines: tuple[int, int], said: str
) -> None:
    """The same error under another checkout, at another line, at another moment of progress has the same key."""
    one, other = (FRAMES[frame](root, line, said) for root, line in zip(roots, lines, strict=True))
    assert fingerprint(one) == fingerprint(other)
    assert said in fingerprint(one).exact


@pytest.mark.parametrize("frame", FRAMES)
@given(one=PHRASES, other=PHRASES, root=FOLDERS, line=st.integers(1, 9_999))
@settings(max_examples=40, deadline=None, derandomize=True)
def test_another_message_is_another_situation(frame: str, one: str, other: str, root: str, line: int) -> None:
    """What is said decides, whichever way it reaches us: another word, another order, another code."""
    assume(one != other)
    assert fingerprint(FRAMES[frame](root, line, one)).exact != fingerprint(FRAMES[frame](root, line, other)).exact


MEANING = (
    "HTTP {}",
    "status code {}",
    "server answered with status={}",
    "process ended, exit code {}",
    "exit status {}",
    "killed by signal {}",
    "[Errno {}] denied",
    "returned error: {}",
    "(rc={})",
    "failed: version {}.2 of foo=={}.2",
    "SQLSTATE[{}]: failed",
    "error[E0{}]: failed",
    "error TS2{}: failed",
    "curl: ({}) failed",
    "ERROR {} (HY000): failed",
)


@pytest.mark.parametrize("phrase", MEANING)
@given(codes=st.lists(st.integers(100, 599), min_size=2, max_size=2, unique=True))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_numbers_that_mean_something_separate(phrase: str, codes: list[int]) -> None:
    """HTTP status, exit code, signal, errno, SQLSTATE, error codes and compared versions are kept in both keys."""
    one, other = (fingerprint("error: it broke, " + phrase.replace("{}", str(code))) for code in codes)
    assert one.exact != other.exact
    assert one.masked != other.masked


@pytest.mark.parametrize(
    "phrase",
    [
        "error: {} files failed",
        "IndexError: {}",
        "returned {} rows, failed",
        "failed at line {}",
        "retry {} of 9 failed",
        "failed: {} > 9",
        "failed [{}/77]",
        "attempt #{} failed",
        "TimeoutError: operation {} timed out",
        "port {} in use, failed",
    ],
)
@given(numbers=st.tuples(st.integers(10, 99_999), st.integers(10, 99_999)))
@settings(max_examples=20, deadline=None, derandomize=True)
def test_numbers_that_only_count_do_not_separate(phrase: str, numbers: tuple[int, int]) -> None:
    """Every other integer is a counter: another trailing number is the same situation."""
    one, other = (fingerprint(phrase.format(number)) for number in numbers)
    assert one == other
    assert "<n>" in one.exact


@given(st.lists(st.sampled_from(["disk", "quota", "table", "lock"]), min_size=2, max_size=2, unique=True), PHRASES)
@PROPERTY
def test_a_quoted_name_separates_situations_and_not_classes(names: list[str], said: str) -> None:
    """The exact key keeps a module, a column, a command; the class key masks it."""
    one, other = (fingerprint(f"error: no module named '{name}' {said}") for name in names)
    assert one.exact != other.exact
    assert one.masked == other.masked


@pytest.mark.parametrize(
    "shell",
    [
        "bash: line {n}: {c}: command not found",
        "zsh:{n}: command not found: {c}",
        "zsh: command not found: {c}",
        "/bin/sh: {n}: {c}: not found",
        "-bash: {c}: command not found",
        "run.sh: line {n}: {c}: command not found",
        "sudo: {c}: command not found",
        "fish: Unknown command: {c}",
        "tcsh: {c}: Command not found.",
    ],
)
def test_a_missing_command_is_one_situation_in_every_shell(shell: str) -> None:
    """The shell and its line number say nothing; the command does, in the exact key only."""
    found = [fingerprint(shell.format(n=n, c=command)) for n, command in ((1, "timeout"), (7, "timeout"), (1, "jq"))]
    assert [one.exact for one in found] == [f"command not found: {name}" for name in ("timeout", "timeout", "jq")]
    assert {one.masked for one in found} == {"command not found: <name>"}


@pytest.mark.parametrize("word", ["package", "404", "libfoo.so"])
def test_what_is_not_found_without_a_shell_is_no_missing_command(word: str) -> None:
    """Only a shell's "not found" speaks of a command."""
    assert fingerprint(f"{word}: not found").exact == mask_line(f"{word}: not found")


@given(
    st.sampled_from(
        [
            "ActivityError: ",
            "ToolError: ",
            "Error executing tool git: ",
            "RuntimeError: ValueError: ",
            "Command 'make all' exited with code 2: ",
            "app.errors.ToolException: ",
            "Caused by: ",
        ]
    ),
    st.integers(0, 3),
    PHRASES,
)
@PROPERTY
def test_wrappers_say_nothing(wrapper: str, depth: int, said: str) -> None:
    """However deep it is wrapped, the inner text is the situation."""
    inner = "ValueError: " if wrapper.startswith("RuntimeError") else "fatal: "
    wrapped = wrapper.removesuffix(inner) * depth + inner + said
    if not wrapper.startswith("RuntimeError") or depth < 2:
        assert fingerprint(wrapped) == fingerprint(inner + said)


@given(
    PHRASES,
    PHRASES,
    st.sampled_from(
        [
            "stdout:\n{o}\nstderr:\n{e}",
            "--- stderr ---\n{e}\n--- stdout ---\n{o}",
            "STDERR: {e}\nSTDOUT: {o}",
            "stdout: {o}\nstderr: {e}",
        ]
    ),
)
@PROPERTY
def test_stderr_stands_before_stdout(out: str, err: str, form: str) -> None:
    """Whichever is printed first, the first line of the signature is of the error stream."""
    found = fingerprint(form.format(o=f"error counter {out}", e=f"fatal: {err}"))
    assert found.exact.split("\n")[0] == f"fatal: {err}"


@given(PHRASES, PHRASES)
@PROPERTY
def test_an_exception_on_the_error_stream_stands_before_one_on_the_other(out: str, err: str) -> None:
    """The last exception is looked for in stderr first."""
    assert fingerprint(f"stderr:\nKeyError: {err}\nstdout:\nValueError: {out}").exact == f"KeyError: {err}"


GENERIC = [
    "Traceback (most recent call last):",
    "See 'git --help'.",
    "usage: git [-v]",
    "Try 'ls --help' for more information.",
    "npm ERR! A complete log of this run can be found in: /root/.npm/_logs/1.log",
    "full log file at /var/log/x",
    "",
    "   ",
    "^~~~",
    "=" * 40,
    "Did you mean this?",
]


@given(st.lists(st.sampled_from(GENERIC), max_size=4), st.lists(st.sampled_from(GENERIC), max_size=4), PHRASES)
@PROPERTY
def test_generic_lines_say_nothing(above: list[str], below: list[str], said: str) -> None:
    """Headings, log pointers and help hints around an error change nothing."""
    assert fingerprint("\n".join([*above, f"fatal: {said}", *below])) == fingerprint(f"fatal: {said}")


@given(
    PHRASES, st.sampled_from(["\x1b[31m", "\x1b[0;1m", "\x1b]8;;http://x\x07", "\x1b[2K", "\x00", "\x07"]), st.data()
)
@PROPERTY
def test_colours_links_and_control_characters_say_nothing(said: str, escape: str, data: st.DataObject) -> None:
    """Escapes vanish wherever they stand."""
    text = f"fatal: {said}"
    at = data.draw(st.integers(0, len(text)))
    assert fingerprint(text[:at] + escape + text[at:]) == fingerprint(text)


@given(st.text("aeiou ñéüç한각ữ", max_size=60), PHRASES)
@PROPERTY
def test_one_form_of_one_letter(letters: str, said: str) -> None:
    """A letter and its mark are one code point or two: the same text."""
    text = f"fatal: {letters} {said}"
    assert fingerprint(unicodedata.normalize("NFD", text)) == fingerprint(unicodedata.normalize("NFC", text))


@given(st.sampled_from([*FRAMES]), PHRASES, st.sampled_from([*NOISE]), st.data())
@PROPERTY
def test_a_fingerprint_of_one_line_is_its_own_fingerprint(
    frame: str, said: str, kind: str, data: st.DataObject
) -> None:
    """What has been masked has nothing left to mask, so a fingerprint read again is the same."""
    found = fingerprint(FRAMES[frame](data.draw(FOLDERS), 7, f"{said} {data.draw(NOISE[kind])} {said}"))
    assume("\n" not in found.exact)
    assert fingerprint(found.exact) == found


@given(
    st.lists(st.tuples(st.sampled_from([*FRAMES]), PHRASES), min_size=1, max_size=6), st.randoms(use_true_random=False)
)
@PROPERTY
def test_the_order_errors_arrive_in_changes_nothing(errors: list[tuple[str, str]], dice) -> None:  # type: ignore[no-untyped-def]
    """T49: nothing is remembered: another order, a success between them, a repetition, and each key stays."""
    texts = [FRAMES[frame]("/a", 1, said) for frame, said in errors]
    first: dict[str, Fingerprint] = {text: fingerprint(text) for text in texts}
    dice.shuffle(texts)
    for text in texts:
        fingerprint("3 tests passed")
        assert fingerprint(text) == first[text]


@given(st.integers(0, 23), st.integers(0, 59), PHRASES)
@PROPERTY
def test_only_the_clock_differs(hour: int, minute: int, said: str) -> None:
    """A log line at two moments is one situation."""
    one = datetime(2026, 11, 30, tzinfo=UTC)
    other = one + timedelta(hours=hour, minutes=minute, days=minute)
    for form in FORMATS:
        assert fingerprint(f"{one.strftime(form)} fatal: {said}") == fingerprint(
            f"{other.strftime(form)} fatal: {said}"
        )
