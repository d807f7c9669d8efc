"""Which diagnostic texts are one situation, which are two, and which are two of one class."""

import dataclasses
import random
import sys
import unicodedata

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract import fingerprint as fingerprint_module
from contract import masks, numbers, signature
from contract.fingerprint import INPUT_LIMIT, SIGNATURE_LINES, VERSION, Fingerprint, fingerprint
from tests.contract.regex_steps import count_steps

STACK = """Traceback (most recent call last):
  File "{root}/app/jobs.py", line {line}, in run
    login(user)
  File "{root}/app/auth.py", line 12, in login
    raise AuthError({message!r})
app.auth.AuthError: {message}
"""
CALLED = """Traceback (most recent call last):
  File "/srv/app/run.py", line 9, in <module>
    subprocess.run(command, check=True)
subprocess.CalledProcessError: Command '['git', 'push']' returned non-zero exit status 128.
stderr: {stderr}
"""

SAME = [
    # one error of a framework, another trailing number
    ("Error: Hydration failed at node 18", "Error: Hydration failed at node 2201"),
    ("TimeoutError: operation 4,150,908 timed out", "TimeoutError: operation 12 timed out"),
    # two checkouts, other line numbers
    (STACK.format(root="/home/ann/work", line=4, message="wrong password"),
     STACK.format(root="/tmp/ci/build-77/src", line=61, message="wrong password")),
    ("/home/ann/proj/src/app.py:42:7: error: expected an indented block",
     "/builds/9/src/app.py:7:1: error: expected an indented block"),
    ("C:\\Users\\ann\\src\\app.py:3: SyntaxError: invalid syntax", "D:\\ci\\app.py:90: SyntaxError: invalid syntax"),
    ("app.c:3: error: bad", "app.c:42:7: error: bad"),
    ("make: /tmp/ci/Makefile: failed", "make: /home/ann/work/Makefile: failed"),
    ("cannot read file:///home/ann/app.js:12:5", "cannot read file:///srv/x/app.js:9"),
    ("error: bad" + " " * 600 + "flag", "error: bad flag"),
    # two shells
    ("zsh:1: command not found: timeout", "bash: line 1: timeout: command not found"),
    ("/bin/sh: 1: timeout: not found", "-bash: timeout: command not found"),
    ("run.sh: line 12: timeout: command not found",
     "'timeout' is not recognized as an internal or external command,\noperable program or batch file."),
    # clock, progress, colour
    ("2026-11-30T03:00:00Z ERROR disk full on /data", "2026-12-01 11:12:13,456 ERROR disk full on /data"),
    ("Nov 30 03:00:00 app: fatal: lost connection", "Dec  1 13:00:09 app: fatal: lost connection"),
    ("Downloading 10%\rDownloading 45%\rerror: checksum missing", "Downloading 3%\rerror: checksum missing"),
    ("[=====>     ] 45% 3.1 MB/s eta 0:00:12\nerror: checksum missing", "error: checksum missing"),
    ("\x1b[31merror\x1b[0m: bad flag", "error: bad flag"),
    ("\x1b]8;;http://x\x07error\x1b]8;;\x07: bad flag", "error: bad flag"),
    ("error:   too\tmany  spaces", "error: too many spaces"),
    ("error: bad\r\nflag denied\r\n", "error: bad\nflag denied\n"),
    # ids, hosts, sizes, durations
    ("error: run 6f9619ff-8b86-d011-b42d-00c04fc964ff not found",
     "error: run 0d0b4b6e-2f53-4f5e-9a44-1c35b1c3a3aa not found"),
    ("connect to 10.0.0.7:5432 refused", "connect to 192.168.1.20:6000 refused"),
    ("connect to [fe80::1]:5432 refused", "connect to [2001:db8::7]:80 refused"),
    ("cannot reach db1.example.com:5432", "cannot reach db1.example.com:6543"),
    ("request failed after 1.5s", "request failed after 231 ms"),
    ("request failed after 2m 3s", "request failed after 45 seconds"),
    ("cannot allocate 10 MB", "cannot allocate 1.5GiB"),
    ("segmentation fault at 0x7fdb76a25b38", "segmentation fault at 0x1"),
    ("fatal: bad object in commit 1a2b3c4", "fatal: bad object in commit 9f8e7d6c5b4a39281706f5e4d3c2b1a09f8e7d6c"),
    ("conflict: unable to delete cd809b04b6ff (cannot be forced)",
     "conflict: unable to delete e5e2591040d1 (cannot be forced)"),
    ("worker-7 failed: out of memory", "worker-12 failed: out of memory"),
    ("failed: pid 4242 was killed", "failed: pid 17 was killed"),
    ("failed: request_id=abc-123", "failed: request_id=zz9-8"),
    ('failed {"traceId": "4bf92f3577b34da6"}', 'failed {"traceId": "00f067aa0ba902b7"}'),
    ("failed 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01",
     "failed 00-aaaa2f3577b34da6a3ce929d0e0e4736-bbbb67aa0ba902b7-00"),
    ("GET https://api.a.example/v1/users/42?x=1 failed", "GET https://api.b.example:8443/v2/users/77 failed"),
    ("mail to ann@a.example rejected", "mail to bob@b.example rejected"),
    ("cannot open /tmp/tmpab12cd", "cannot open /tmp/tmpzz98xy"),
    ("bad token=[REDACTED:token] rejected", "bad token=[REDACTED:password] rejected"),
    ("invalid blob aGVsbG8gd29ybGQgMTIzNDU2Nzg5MCBhYmNk", "invalid blob Zm9vYmFyQmF6UXV4MTIzNDU2Nzg5MEFCQ0Q="),
    # wrappers
    ("ActivityError: ToolError: fatal: not a git repository", "fatal: not a git repository"),
    ("Error executing tool git_log: fatal: bad revision 'x'", "fatal: bad revision 'x'"),
    ("Command 'git push' exited with code 128: fatal: no remote", "fatal: no remote"),
    ("Error: Command failed: git push\nfatal: no remote", "fatal: no remote"),
    ("RuntimeError: ValueError: bad input", "ValueError: bad input"),
    # streams: stderr decides, wherever it is printed
    ("stdout:\nerror counter: fine\nstderr:\nfatal: boom\n",
     "--- stderr ---\nfatal: boom\n--- stdout ---\nerror counter: fine\n"),
    # generic headers say nothing
    ("fatal: bad flag\nSee 'git --help'.", "fatal: bad flag"),
    ("npm ERR! missing script: x\nnpm ERR! A complete log of this run can be found in: /root/.npm/_logs/1.log",
     "npm ERR! missing script: x"),
    # one form of one letter
    (unicodedata.normalize("NFD", "café not found"), unicodedata.normalize("NFC", "café not found")),
    ("E   AssertionError: assert 1 == 2", "AssertionError: assert 1 == 2"),
]  # fmt: skip

OTHER_CLASS = [
    (CALLED.format(stderr="fatal: could not read from remote"),
     CALLED.format(stderr="error: failed to push some refs")),
    (STACK.format(root="/a", line=1, message="wrong password"),
     STACK.format(root="/a", line=1, message="attempt limit exceeded")),
    ("VM started", "VM paused"),
    ("HTTP 404", "HTTP 500"),
    ("requests.exceptions.HTTPError: 404 Client Error: Not Found for url: https://a.example/x",
     "requests.exceptions.HTTPError: 429 Client Error: Too Many Requests for url: https://a.example/x"),
    ("curl: (22) The requested URL returned error: 403", "curl: (22) The requested URL returned error: 502"),
    ("process ended, exit code 137", "process ended, exit code 1"),
    ("killed by signal 9", "killed by signal 11"),
    ("[Errno 13] denied", "[Errno 2] denied"),
    ("SQLSTATE[42S02]: failed", "SQLSTATE[23000]: failed"),
    ("error[E0308]: mismatched types", "error[E0382]: mismatched types"),
    ("x.ts: error TS2345: no", "x.ts: error TS2322: no"),
    ("ORA-00942: failed", "ORA-01017: failed"),
    ("ERROR: No matching distribution found for foo==1.2.3", "ERROR: No matching distribution found for foo==2.0.0"),
    ("codec utf-8 failed", "codec utf-16 failed"),
    ("python3 not found here", "python2 not found here"),
    ("no build for x86_64, failed", "no build for arm64, failed"),
    ("error: no method Fee::add()", "error: no method Fee::bad()"),
    ("sha256 mismatch, failed", "sha512 mismatch, failed"),
    ("KeyError: x\n", "ValueError: x\n"),
    ("invalid Decimal 10", "invalid Marker 10"),
    ("/usr/bin/md5sum: failed", "/usr/bin/sha256sum: failed"),
    ("no match for foo==1.2.3.4", "no match for foo==1.2.3.5"),
    ("invalid: a1b", "invalid: c2d"),
    ("usage: git bisect [help|start]", "usage: git stash list"),
]  # fmt: skip

SAME_CLASS = [
    ("zsh:1: command not found: timeout", "bash: line 1: jq: command not found"),
    ("ModuleNotFoundError: No module named 'yaml'", "ModuleNotFoundError: No module named 'numpy'"),
    (
        'psycopg.errors.UndefinedColumn: column "a" does not exist',
        'psycopg.errors.UndefinedColumn: column "b" does not exist',
    ),
    ("fatal: bad flag '-p' used after filename", "fatal: bad flag '--name-only' used after filename"),
    ("git: 'brnch' is not a git command.", "git: 'stauts' is not a git command."),
    ("cat: foo: Is a directory", "cat: bar/baz: Is a directory"),
    ("error: unknown option --foo", "error: unknown option --bar=1"),
    ("sed: unterminated `s' command", "sed: unterminated `y' command"),
    ("app.py: error: bad", "main.py: error: bad"),
]


@pytest.mark.parametrize(("one", "other"), SAME)
def test_the_same_situation(one: str, other: str) -> None:
    """Texts that differ only in what varies have one exact fingerprint, and so one masked."""
    assert fingerprint(one) == fingerprint(other)
    assert fingerprint(one).exact


@pytest.mark.parametrize(("one", "other"), OTHER_CLASS)
def test_situations_of_different_substance(one: str, other: str) -> None:
    """Texts that differ in substance differ in both forms."""
    assert fingerprint(one).exact != fingerprint(other).exact
    assert fingerprint(one).masked != fingerprint(other).masked


@pytest.mark.parametrize(("one", "other"), SAME_CLASS)
def test_two_situations_of_one_class(one: str, other: str) -> None:
    """A quoted or named thing separates situations and not their class."""
    assert fingerprint(one).exact != fingerprint(other).exact
    assert fingerprint(one).masked == fingerprint(other).masked


@pytest.mark.parametrize(
    ("text", "exact"),
    [
        ("bash: line 3: jq: command not found", "command not found: jq"),
        (STACK.format(root="/a", line=1, message="wrong password"), "app.auth.AuthError: wrong password"),
        ("fatal: not a git repository (or any of the parent directories): .git",
         "fatal: not a git repository (or any of the parent directories): .git"),
        ("GET https://api.example.com:8443/v1/users/42?x=1 failed", "GET <url>/users failed"),
        ("connect to 10.0.0.7:5432 refused at 2026-11-30T03:00:00Z", "connect to <ip> refused at <time>"),
        ("AssertionError\n", "AssertionError"),
        ("Traceback (most recent call last):\n"
         "  File \"/a/t.py\", line 3, in t\n    assert total == 3\nAssertionError\n",
         "AssertionError\nassert total == <n>"),
        ("java.lang.IllegalStateException: outer\n\tat a.B.c(B.java:7)\n"
         "Caused by: java.net.ConnectException: Connection refused\n",
         "java.net.ConnectException: Connection refused"),
        ("Uncaught TypeError: x is not a function\n    at /srv/a.js:2:5\n", "TypeError: x is not a function"),
        ("", ""),
        ("\n \t\n", ""),
    ],
)  # fmt: skip
def test_what_a_person_reads(text: str, exact: str) -> None:
    """The exact form is a readable sentence: the pages show it."""
    assert fingerprint(text).exact == exact


def test_words_that_hold_digits_stay() -> None:
    """No digit inside a word is masked."""
    words = "utf-8 python3 sha256 x86_64 Fee::add() iso-8859-1 E0308 ORA-00942 base64 i18n v1.2.3 us-east-1 h2o"
    assert fingerprint(f"error: {words}").exact == f"error: {words}"


def test_the_order_errors_arrive_in_changes_nothing() -> None:
    """A fingerprint depends on its text alone: any order, any repetition, the same answers."""
    texts = [text for pair in SAME + OTHER_CLASS for text in pair]
    first = {text: fingerprint(text) for text in texts}
    shuffled = texts * 2
    random.Random(7).shuffle(shuffled)
    assert all(fingerprint(text) == first[text] for text in shuffled)


def test_at_most_three_lines_and_eight_thousand_code_points_count() -> None:
    """What stands past the read limit changes nothing; many errors give three lines."""
    text = "".join(f"error: kind {letter}\n" for letter in "abcdefgh")
    assert len(fingerprint(text).exact.split("\n")) == SIGNATURE_LINES
    padded = text.ljust(INPUT_LIMIT, "é")
    assert fingerprint(padded) == fingerprint(padded + "error: unseen")


def test_fingerprints_are_frozen_values_of_a_named_version() -> None:
    """A fingerprint cannot be changed and its version has a name."""
    found = fingerprint("error: x")
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.exact = "y"  # type: ignore[misc]
    assert VERSION == "fp_v1"
    assert sys.intern(found.exact) == "error: x"


@given(st.one_of(st.text(max_size=400), st.text(alphabet="aA0 :/\\.'\"`-_=[]()<>\n\r\x1b@,%", max_size=400)))
@settings(max_examples=400, deadline=None, derandomize=True)
def test_any_text_has_a_fingerprint(text: str) -> None:
    """Nothing raises, lines are bounded, and a text with something in it is not taken for an empty one twice."""
    found = fingerprint(text)
    assert isinstance(found, Fingerprint)
    assert found == fingerprint(text)
    assert len(found.exact.split("\n")) <= SIGNATURE_LINES
    assert all(len(line) <= 240 for line in found.exact.split("\n"))


@pytest.mark.parametrize(
    "unit",
    ["a", "0", "/", "a/", "1.", "1:", "a.", "a@", "f:", "::", "é", "error ", "'", '"', "`", "-", "\x1b[", "\x1b]",
     "http://a/",
     "command ", "Error: ", "exited ", "A1b", "<", "=", "\r", "id=", "1 ms ",
     "Traceback (most recent call last):\n", "[=", "\\"],
)  # fmt: skip
def test_work_grows_with_the_text_and_no_faster(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the hostile text costs about four times the steps, where quadratic work would cost sixteen."""
    counter = count_steps(monkeypatch, fingerprint_module, masks, numbers, signature)
    steps = []
    for size in (1_000, 4_000):
        counter.steps = 0
        fingerprint("error " + (unit * size)[:size])
        steps.append(counter.steps)
    assert steps[1] <= 7 * steps[0]


def test_work_is_bounded_for_any_length(monkeypatch: pytest.MonkeyPatch) -> None:
    """A megabyte costs what its first 8,192 code points cost."""
    counter = count_steps(monkeypatch, fingerprint_module, masks, numbers, signature)
    text = "error: cannot open /a/b-1:2 in 'x' after 3 ms\n" * 200
    fingerprint(text)
    once, counter.steps = counter.steps, 0
    fingerprint(text * 100)
    assert counter.steps == once
