"""What redaction removes, what it leaves, and that it changes nothing twice."""

import json
import random
import string
import subprocess
import sys
import uuid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from contract import redaction, secret_finders, secret_formats, secret_scan, secret_values
from contract.redaction import redact, redact_value
from contract.secret_finders import FINDERS
from contract.secret_formats import KINDS
from contract.secret_values import MARKED
from tests.contract.regex_steps import count_steps

LETTERS = string.ascii_letters + string.digits
HEX = "0123456789abcdef"
dice = random.Random(20261130)
SCANS = (secret_scan.SCAN, secret_scan.RULES)


def drawn(n: int, alphabet: str = LETTERS) -> str:
    """A random word of `n` characters with at least one digit where the alphabet has digits."""
    word = "".join(dice.choice(alphabet) for _ in range(n - 1))
    return word + ("7" if "7" in alphabet else dice.choice(alphabet))


def formats() -> list[tuple[str, str]]:
    """(kind, secret) of every form that is known by itself, drawn anew for the fixed seed."""
    url_safe = LETTERS + "-_"
    body = "\n".join(drawn(64, LETTERS + "+/") for _ in range(3))
    return [
        ("aws_key", "AKIA" + drawn(16, string.ascii_uppercase + "234567")),
        ("aws_key", "ASIA" + drawn(16, string.ascii_uppercase + "234567")),
        *[("github_token", f"gh{letter}_" + drawn(36)) for letter in "pousr"],
        ("github_token", f"github_pat_{drawn(22)}_{drawn(59)}"),
        ("gitlab_token", "glpat-" + drawn(20, url_safe)),
        ("gitlab_token", "gldt-" + drawn(20, url_safe)),
        ("slack_token", f"xoxb-{drawn(12, string.digits)}-{drawn(12, string.digits)}-{drawn(24)}"),
        ("slack_token", f"xapp-1-{drawn(11)}-{drawn(13, string.digits)}-{drawn(64, HEX)}"),
        ("slack_token", f"hooks.slack.com/services/T{drawn(8)}/B{drawn(8)}/{drawn(24)}"),
        ("chat_token", f"{drawn(10, '123456789')}:AA{drawn(33, url_safe)}"),
        ("chat_token", f"discord.com/api/webhooks/{drawn(18, '123456789')}/{drawn(68, url_safe)}"),
        ("stripe_key", "sk_live_" + drawn(24)),
        ("stripe_key", "rk_test_" + drawn(24)),
        ("stripe_key", "whsec_" + drawn(32)),
        ("openai_key", "sk-" + drawn(48)),
        ("openai_key", f"sk-proj-{drawn(60)}"),
        ("openai_key", f"sk-or-v1-{drawn(64, HEX)}"),
        ("anthropic_key", f"sk-ant-api03-{drawn(93, url_safe)}"),
        ("google_key", "AIza" + drawn(35, url_safe)),
        ("google_key", "ya29." + drawn(60, url_safe)),
        ("google_key", "GOCSPX-" + drawn(28, url_safe)),
        ("npm_token", "npm_" + drawn(36)),
        ("pypi_token", "pypi-AgEIcHlwaS5vcmc" + drawn(80, url_safe)),
        ("huggingface_token", "hf_" + drawn(34)),
        ("cloud_token", f"SG.{drawn(22, url_safe)}.{drawn(43, url_safe)}"),
        ("cloud_token", "dop_v1_" + drawn(64, HEX)),
        ("cloud_token", "hvs." + drawn(24, url_safe)),
        ("cloud_token", "dckr_pat_" + drawn(27, url_safe)),
        ("temporality_key", f"tk_{drawn(12, HEX)}_{drawn(43, url_safe)}"),
        ("jwt", f"eyJ{drawn(33)}.eyJ{drawn(60)}.{drawn(43, url_safe)}"),
        ("private_key", f"-----BEGIN RSA PRIVATE KEY-----\n{body}\n-----END RSA PRIVATE KEY-----"),
        ("private_key", f"-----BEGIN OPENSSH PRIVATE KEY-----\n{body}\n-----END OPENSSH PRIVATE KEY-----"),
        ("private_key", f"-----BEGIN PGP PRIVATE KEY BLOCK-----\n\n{body}\n-----END PGP PRIVATE KEY BLOCK-----"),
    ]


@pytest.mark.parametrize(("kind", "secret"), formats())
@pytest.mark.parametrize("frame", ["{}", "push failed: {} was refused", "'{}',", "x={}\nnext", "https://h/p?q={}&z=1"])
def test_known_forms_are_removed(kind: str, secret: str, frame: str) -> None:
    """A known token form leaves its kind behind and nothing of itself, wherever it stands."""
    clean, n = redact(frame.format(secret))
    assert clean == frame.format(f"[REDACTED:{kind}]")
    assert n == 1


def test_every_kind_of_the_vocabulary_is_reached() -> None:
    """No kind is documented that nothing produces, and none is produced that is not documented."""
    texts = [secret for _, secret in formats()] + [text for text, _, _ in BESIDE_NAMES]
    seen = {marker[10:-1] for text in texts for marker in MARKED.findall(redact(text)[0])}
    assert seen == set(KINDS)


BESIDE_NAMES = [
    # (text, what must go, what must stay)
    ("postgres://app:s3cr3t@db.example.com:5432/x", "s3cr3t", "postgres://app:[REDACTED:url_password]@db.example.com:5432/x"),
    ("amqp://guest:guest@10.0.0.5//", "guest:guest", "amqp://guest:[REDACTED:url_password]@10.0.0.5//"),
    ("redis://:hunter2@cache:6379/0", "hunter2", "redis://:[REDACTED:url_password]@cache:6379/0"),
    ("mongodb+srv://u:p@ss/w0rd@c.x.net/db", "p@ss/w0rd", "mongodb+srv://u:[REDACTED:url_password]@c.x.net/db"),
    ("git clone https://bob:pa55@github.com/a/b", "pa55", "@github.com/a/b"),
    ("https://x7f9k2m4q8w1z5c3v6b0@host.example/simple", "x7f9k2m4", "https://[REDACTED:url_token]@host.example/simple"),
    ("Authorization: Bearer abcdef123456", "abcdef123456", "Authorization: Bearer [REDACTED:authorization]"),
    ("authorization: Basic dXNlcjpwYXNz", "dXNl", "authorization: Basic [REDACTED:authorization]"),
    ("Proxy-Authorization: Digest username=\"a\", response=\"6629\"", "6629", "Proxy-Authorization: Digest "),
    ("curl -H 'Authorization: token 0a1b2c3d4e5f' https://h", "0a1b2c3d4e5f", "' https://h"),
    ("{'Authorization': 'Bearer abc123def456'}", "abc123def456", "{'Authorization': 'Bearer [REDACTED:"),
    ("('authorization', 'Bearer abc123def456')", "abc123def456", "('authorization', '"),
    ("sent header Bearer A1b2C3d4E5f6G7h8 twice", "A1b2C3d4", "sent header Bearer [REDACTED:authorization] twice"),
    ("Cookie: sid=abc123; theme=dark\nHost: h", "sid=abc123; theme=dark", "Cookie: [REDACTED:cookie]\nHost: h"),
    ("Set-Cookie: session=xyz123; Path=/", "xyz123", "Set-Cookie: [REDACTED:cookie]"),
    ("curl -b x -H \"Cookie: a=1; b=2\" http://h/p", "a=1; b=2", "\"Cookie: [REDACTED:cookie]\" http://h/p"),
    ("password=hunter2", "hunter2", "password=[REDACTED:password]"),
    ("PASSWORD: correcthorse", "correcthorse", "PASSWORD: [REDACTED:password]"),
    ("db.password = tr0ub4dor&3 # note", "tr0ub4dor&3", "db.password = [REDACTED:password] # note"),
    ('{"password": "hun ter2", "user": "bob"}', "hun ter2", '{"password": "[REDACTED:password]", "user": "bob"}'),
    ('{"password": "a\\"b c", "user": "bob"}', 'a\\"b c', '"user": "bob"}'),
    ('"{\\"password\\": \\"hunter2\\", \\"n\\": 1}"', "hunter2", '\\", \\"n\\": 1}"'),
    ("MYSQL_ROOT_PASSWORD=x9!kk docker run", "x9!kk", "docker run"),
    ("DB_PASS=hunter", "hunter", "DB_PASS=[REDACTED:password]"),
    ("mysqldump --password hunter2 shop", "hunter2", "mysqldump --password [REDACTED:password] shop"),
    ("sshpass -p 'hun ter2' ssh h", "hun ter2", "ssh h"),
    ("curl -s -u bob:hunter2 http://h/x", "hunter2", "curl -s -u bob:[REDACTED:password] http://h/x"),
    ("machine h login bob password hunter2", "hunter2", "machine h login bob password "),
    ("The password is hunter2, please", "hunter2", "please"),
    ("CREATE USER app IDENTIFIED BY 'pw 1'", "pw 1", "CREATE USER app IDENTIFIED BY "),
    ("<password>hunter2</password>", "hunter2", "<password>[REDACTED:password]</password>"),
    ("Server=s;User Id=u;Password=p@ss;Database=d", "p@ss", ";Database=d"),
    ("GET /login?user=a&password=b1b2&x=1", "b1b2", "&x=1"),
    ("config['password'] = 'hunter2'", "hunter2", "config['password'] = '[REDACTED:password]'"),
    ("password = b'hunter2'", "hunter2", "password = b'[REDACTED:password]'"),
    ('headers["Authorization"] = f"Bearer abc123def456"', "abc123", '= f"Bearer [REDACTED:authorization]"'),
    ("password: str = 'hunter2'", "hunter2", "password: str = '"),
    ("пароль: ключ42", "ключ42", "пароль: [REDACTED:password]"),
    ("aws_secret_access_key = wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY", "wJalr", "aws_secret_access_key = "),
    ("DJANGO_SECRET_KEY=django-insecure-$abc(def", "insecure", "DJANGO_SECRET_KEY="),
    ("api_key='k-123', retries=3", "k-123", "retries=3"),
    ("x-api-key: 9f8e7d6c5b4a", "9f8e7d6c5b4a", "x-api-key: "),
    ("AccountName=a;AccountKey=c2VjcmV0a2V5MTIzNA==;Suffix=core", "c2VjcmV0", ";Suffix=core"),
    ("client_secret: 'abc def'", "abc def", "client_secret: "),
    ("auth_token: 5f3a9c1b2d5f3a9c1b2d", "5f3a9c", "auth_token: [REDACTED:token]"),
    ("//registry.npmjs.org/:_authToken=0a1b2c3d-4e5f", "0a1b2c3d", "_authToken="),
    ("https://a.blob/x?sv=1&sig=Ab1%2Fcd2EF3gh%3D&se=2", "Ab1%2F", "&se=2"),
    ("Basic key-----BEGIN PRIVATE KEY-----\\nMIIEvQIBADANBgkqhkiG9w0BAQEF\\n", "MIIEvQ", "Basic key"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "secret", "stays"), BESIDE_NAMES)
def test_values_beside_secret_names_are_removed(text: str, secret: str, stays: str) -> None:
    """Headers, assignments, JSON, YAML, flags and connection strings lose the value and keep what is around it."""
    clean, n = redact(text)
    assert secret not in clean
    assert stays in clean
    assert n == 1


SURVIVORS = [
    "MAX_TOKENS=100", "max_tokens: 4096", "num_tokens=12345678", "PASSWORD_MIN_LENGTH=8", "token_type: bearer",
    "commit 5f3a9c1b2d5f3a9c1b2d5f3a9c1b2d5f3a9c1b2d", "550e8400-e29b-41d4-a716-446655440000",
    "sha256:" + "ab12" * 16, "md5 = d41d8cd98f00b204e9800998ecf8427e", "integrity sha512-z0" + "Ab9/" * 20 + "==",
    "data:image/png;base64,iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk",
    "model.embed_tokens.weight torch.Size([32000, 4096])", "token: model.layers.0.mlp.gate_proj.weight",
    "tokenizer: gpt2-medium-345M", "pad_token='<pad>'", "error: expected expression before '}' token",
    "SyntaxError: Unexpected token: `+`", "wrong password: attempt limit exceeded", "Password: ", "password=None",
    "password=$PASSWORD", "password=${DB_PASSWORD}", "password={{ vault.password }}", "connect(password=self.password)",
    "password = getpass.getpass()", "password = os.environ['PASSWORD']", "password: string", "password=***",
    'headers["Authorization"] = f"Bearer {self._token}"', '{"Authorization": "Bearer $TOKEN"}', "password=f'{pw}'",
    "password=password", "api_key=api_key", "api_key='your-api-key-here'", "PASSWORD=your_password_2",
    "input('Enter password: ') or sys.exit(1)", "def ask(prompt='Password: ', stream=None):",
    "cookie = Cookie(**kwargs)", "checksum/secret: 118813830d71939b53182e4e349d98729e7c6be9", "private_key: str",
    "Set-Cookie was missing", "the object identified by hexsha", "password = settings.DB_PASSWORD",
    "hostname = userid = password = ssl = None", ":param passphrase: (optional) the passphrase",
    '{"type": "thinking", "signature": "EqQBCkYIBxgCKkDa8f3b1c2d4e5f6a7b8c9d0e1f"}', "call(password, 'utf8')",
    'KEY_START = "-----BEGIN OPENSSH PRIVATE KEY-----"', "api_key = await self._api_key_provider()",
    "('authorization', 'x-amz-content-sha256')", "readPasswords = async () => {",
    "token=<token>", "KeyError: 'password'",
    'column "password" does not exist', "next_page_token=abc123def456", "PWD=/root/project", "OLDPWD=/tmp/x1",
    "primary_key=id12345", "cache key: abc123def456ghi", "pass: 3 fail: 1", "first_pass=2 second_pass=3",
    "http://host:8080/@scope/pkg", "ssh://git@github.com/x", "git@github.com:acme/repo.git",
    "pip install pkg@1.2.3", "http://h/y?next=a@b", "https://bob@github.com", "secretKeyRef: name",
    "docker login: unauthorized: authentication required", "Basic authentication failed", "Bearer token is missing",
    "sk-estimator-doc-link-container-fluid", "task-abcdefghijklmnopqrstuvwxyz0123",
    "tk_root_window_configure_something",
    "session_id=550e8400-e29b-41d4-a716-446655440000", "secret: true", "cookies: enabled", "auth: failed",
    "authorization: denied", "npm ERR! code E401", "Author: A <a@b.c>", "os.environ['API_KEY']",
    "fatal: could not read Password for 'https://bob@github.com': terminal prompts disabled",
    "-----BEGIN CERTIFICATE-----\nMIIB\n-----END CERTIFICATE-----", "-----BEGIN PUBLIC KEY-----",
    "[REDACTED:password]", "('authorization', 'cookie')", '{"password", "username"}',
    "2026-11-30T03:00:00.123456789Z", "libssl.so.1.1: cannot open shared object file", "AKIAIOSFODNN7 is too short",
    "tests/test_auth.py::test_token PASSED", "ghp_short", "npm_config_cache=/root/.npm", "eyJust a word.eyJ and more",
]  # fmt: skip


@pytest.mark.parametrize("text", SURVIVORS)
def test_what_only_resembles_a_secret_survives(text: str) -> None:
    """Counts, hashes, ids, code, placeholders and prose come back untouched."""
    assert redact(text) == (text, 0)


def test_real_tool_output_survives(tmp_path: Path) -> None:
    """Output that tools really print holds no secret and comes back untouched."""
    environment = {"HOME": str(tmp_path), "PATH": "/usr/bin:/bin:/usr/local/bin", "GIT_CONFIG_NOSYSTEM": "1"}
    identity = ("-c", "user.name=A", "-c", "user.email=a@b.example")
    commands: list[list[str]] = [
        ["git", "init", "-q", "."],
        ["git", *identity, "commit", "--allow-empty", "-m", "first"],
        ["git", "log", "--format=fuller"],
        ["git", "push", "nowhere", "main"],
        ["git", "frobnicate"],
        ["ls", "-la", "/usr/bin"],
        ["ls", "/no/such/place"],
        [sys.executable, "-c", "import hashlib; [print(hashlib.sha256(bytes([i])).hexdigest()) for i in range(50)]"],
        [sys.executable, "-c", "import uuid; [print(uuid.uuid4()) for i in range(50)]"],
        [sys.executable, "-c", "import base64, os; print(base64.b64encode(os.urandom(3000)).decode())"],
        [sys.executable, "-c", "import no_such_module"],
        [sys.executable, "-c", "connect = lambda password: 1/0\nconnect(password='x' * 3)"],
        [sys.executable, "-m", "pip", "--version"],
        [sys.executable, "--help"],
    ]
    for command in commands:
        done = subprocess.run(command, cwd=tmp_path, env=environment, capture_output=True, text=True)
        printed = done.stdout + done.stderr
        assert redact(printed) == (printed, 0), command


def test_source_code_of_this_project_survives() -> None:
    """Reading our own product code back through a tool changes none of it but the lines that show a secret's form."""
    shown = {f"contract/secret_{part}.py" for part in ("finders", "formats", "scan")} | {"debugger/settings.py"}
    root = Path(redaction.__file__).resolve().parent.parent
    for folder in ("contract", "kernel", "ingest", "knowledge", "debugger"):
        for path in sorted((root / folder).rglob("*.py")):
            name = path.relative_to(root).as_posix()
            text = path.read_text(encoding="utf-8")
            clean, _ = redact(text)
            changed = [line for line, was in zip(clean.splitlines(), text.splitlines(), strict=False) if line != was]
            assert not changed or name in shown, (name, changed)


HOSTILE = st.one_of(
    st.text(max_size=300),
    st.lists(
        st.sampled_from(
            [secret for _, secret in formats()][:24]
            + [text for text, _, _ in BESIDE_NAMES]
            + [
                "password",
                "token",
                "Cookie:",
                "[REDACTED:",
                "[REDACTED:token]",
                "]",
                "=",
                ": ",
                '"',
                "\\",
                "'",
                "@",
                "://",
                "\n",
            ]
            + [
                "-----BEGIN PRIVATE KEY-----",
                "-----END PRIVATE KEY-----",
                "eyJ",
                "sk-",
                "--",
                " ",
                "a1",
                "/",
                "(",
                "is ",
            ]
        ),
        max_size=14,
    ).map("".join),
)


@given(HOSTILE)
@settings(max_examples=600, deadline=None, derandomize=True)
def test_second_pass_changes_nothing(text: str) -> None:
    """Redaction is idempotent on any text, also one glued together from secrets, names and markers."""
    clean, _ = redact(text)
    assert redact(clean) == (clean, 0)


JSON = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(), HOSTILE),
    lambda inner: st.one_of(
        st.lists(inner, max_size=4),
        st.dictionaries(
            st.sampled_from(["password", "cookies", "key", "name", "value", "token", "n", "a b"]), inner, max_size=4
        ),
    ),
    max_leaves=12,
)


@given(JSON)
@settings(max_examples=300, deadline=None, derandomize=True)
def test_second_pass_over_a_value_changes_nothing(value: Any) -> None:
    """A redacted JSON value stays as it is, and is JSON still."""
    clean, _ = redact_value(value)
    assert redact_value(clean) == (clean, 0)
    json.dumps(clean)


@pytest.mark.parametrize(
    ("value", "clean", "n"),
    [
        ({"password": "hunter2"}, {"password": "[REDACTED:password]"}, 1),
        ({"password": 123456}, {"password": "[REDACTED:password]"}, 1),
        ({"password": None, "secret": True}, {"password": None, "secret": True}, 0),
        ({"apiKey": "k 1"}, {"apiKey": "[REDACTED:secret]"}, 1),
        ({"passwords": ["a1b2", "c3d4"]}, {"passwords": ["[REDACTED:password]", "[REDACTED:password]"]}, 2),
        ({"cookies": {"sid": "x1", "theme": "dark"}},
         {"cookies": {"sid": "[REDACTED:cookie]", "theme": "[REDACTED:cookie]"}}, 2),
        ({"Authorization": "Bearer x1"}, {"Authorization": "Bearer [REDACTED:authorization]"}, 1),
        ([{"key": "http.request.header.authorization", "value": {"stringValue": "Basic eA=="}}],
         [{"key": "http.request.header.authorization", "value": {"stringValue": "Basic [REDACTED:authorization]"}}], 1),
        ([{"name": "DB_PASSWORD", "value": "x y"}], [{"name": "DB_PASSWORD", "value": "[REDACTED:password]"}], 1),
        ({"max_tokens": 100, "token": "eos", "tokens": ["the", "cat"]},
         {"max_tokens": 100, "token": "eos", "tokens": ["the", "cat"]}, 0),
        ({"arguments": '{"password": "hunter2"}'}, {"arguments": '{"password": "[REDACTED:password]"}'}, 1),
        ({"type": "thinking", "signature": "EqQBCkYIBxgCKkDa8f3b1c2d4e5f"},
         {"type": "thinking", "signature": "EqQBCkYIBxgCKkDa8f3b1c2d4e5f"}, 0),
        ({"a": [1, 2.5, None, "ok"]}, {"a": [1, 2.5, None, "ok"]}, 0),
        ("password=hunter2", "password=[REDACTED:password]", 1),
        (7, 7, 0),
    ],
)  # fmt: skip
def test_names_count_in_json_values(value: Any, clean: Any, n: int) -> None:
    """A value is judged with its name, through lists, wrappers, pairs and JSON inside JSON."""
    before = json.dumps(value)
    assert redact_value(value) == (clean, n)
    assert json.dumps(value) == before


def test_secrets_used_as_names_are_removed_and_no_entry_is_lost() -> None:
    """Two names that become equal both stay, told apart by a number."""
    first, second = "ghp_" + drawn(36), "ghp_" + drawn(36)
    clean, n = redact_value({first: 1, second: 2})
    assert clean == {"[REDACTED:github_token]": 1, "[REDACTED:github_token] (2)": 2}
    assert n == 2


def test_depth_is_no_limit() -> None:
    """A value nested 100,000 levels deep is redacted to its bottom."""
    deep: Any = "password=hunter2"
    for i in range(100_000):
        deep = [deep] if i % 2 else {"a": deep}
    clean, n = redact_value(deep)
    for i in reversed(range(100_000)):
        clean = clean[0] if i % 2 else clean["a"]
    assert (clean, n) == ("password=[REDACTED:password]", 1)


PATTERNS_OF_WORK = [
    "a" * 60 + " ", "password=", "password='", "token=token:", "-----BEGIN PRIVATE KEY-----",
    "-----BEGIN PRIVATE KEY-----AAAA",
    "eyJ-", "eyJ" + "a" * 60 + ".", "sk-", "sk-a-", "a://", "a://b:c", "://:@", "curl -u", "curl ", "xoxb-",
    "--password ",
    "Cookie:", "Authorization: ", "bearer ", "\\", '\\"', "[REDACTED:", "<password>", "login x password ", ".", "-",
    "A1_",
]  # fmt: skip


@pytest.mark.parametrize("unit", PATTERNS_OF_WORK)
def test_work_grows_with_the_text_and_no_faster(unit: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Four times the hostile text costs about four times the steps, where quadratic work would cost sixteen."""
    counter = count_steps(monkeypatch, secret_finders, secret_formats, secret_scan, secret_values)
    steps = []
    for size in (1_000, 4_000):
        counter.steps = 0
        redact((unit * size)[:size])
        steps.append(counter.steps)
    assert steps[1] <= 7 * steps[0]


def test_sixty_four_kilobytes_are_read_a_bounded_number_of_times(monkeypatch: pytest.MonkeyPatch) -> None:
    """64 KB of names, URLs and random words stay under a fixed number of steps for each code point."""
    counter = count_steps(monkeypatch, secret_finders, secret_formats, secret_scan, secret_values)
    redact((("A1b2c3-" * 9 + " password: a://x:8 ") * 1_000)[:65_536])
    assert 0 < counter.steps < 65_536 * 400


def test_uuids_beside_secret_names_go_and_elsewhere_stay() -> None:
    """The same value is a secret under one name and an id under another."""
    value = str(uuid.UUID(int=dice.getrandbits(128)))
    assert redact(f"run_id={value}")[1] == 0
    assert redact(f"api_key={value}") == ("api_key=[REDACTED:secret]", 1)


def test_needles_find_every_form() -> None:
    """The quick look for a form's start never hides a form: each alternative starts with, or holds, a needle."""
    for _, secret in formats():
        assert secret_formats.holds_format(secret.lower()), secret


PIECES = (
    [secret for _, secret in formats()]
    + [text for text, _, _ in BESIDE_NAMES]
    + [
        "password",
        "apiKey",
        "auth",
        " is ",
        "--",
        "-",
        "_",
        ".",
        ":",
        "=",
        " => ",
        ": str = ",
        ">",
        "<",
        ", ",
        "\\",
        '"',
    ]
    + ["'", "]", " ", "\t", "\n", "://", "@", "/", "a", "7", "hunter2", "A1b2C3d4", "sk-", "[REDACTED:", "İ", "x" * 81]
)


@given(st.lists(st.sampled_from(PIECES), max_size=9).map("".join))
@settings(max_examples=1_500, deadline=None, derandomize=True)
def test_no_quick_look_hides_a_secret(text: str) -> None:
    """Where the quick look says there is nothing to find, the finder finds nothing."""
    for scan in SCANS:
        for name, worth, find in zip(secret_scan.FINDERS, scan.finders(text), FINDERS, strict=True):
            assert worth or list(find(text)) == [], (scan.name, name)
        assert scan.may_hold(text) >= any(scan.finders(text))


PARTS = ["api", "Key", "PASS", "word", "password", "Secret", "token", "auth", "cookie", "sig", "db", "x", "1", "_", "-"]
NAMES = st.lists(
    st.sampled_from(PARTS),
    max_size=6,
).map("".join)


@given(NAMES)
@settings(max_examples=400, deadline=None, derandomize=True)
def test_needles_find_every_name(name: str) -> None:
    """A name that promises a secret always holds one of the needles."""
    kind = secret_formats.name_kind(name)
    assert kind is None or secret_formats.holds_name(name.lower())


@pytest.mark.parametrize("value", ["hunter2secret99", "mySecretPass1", "Secret123!", "token2key", "secret!pass"])
def test_a_password_that_holds_the_word_for_one_goes(value: str) -> None:
    """A value with a digit or a sign in it is no name of a variable, whatever words it holds."""
    for text in (f"password={value}", f'DB_PASSWORD="{value}"', f"passwd: {value}"):
        assert value not in redact(text)[0]


def test_a_name_of_a_secret_in_its_place_stays() -> None:
    """Code that hands a secret on by name is left alone."""
    for text in ("password=db_password", "login(password=user.password)", 'api_key = "api_key"'):
        assert redact(text) == (text, 0)


def test_many_names_that_become_equal_all_stay() -> None:
    """Each secret name of an object gets a number of its own, without a search from the first one on."""
    clean, found = redact_value({f"ghp_{number:036d}": number for number in range(5_000)})
    assert found == len(clean) == 5_000
    assert sorted(clean.values()) == list(range(5_000))
    assert not any("ghp_" in name for name in clean)
