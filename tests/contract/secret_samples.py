"""Secrets of every kind in the places they are seen in; `python -m tests.contract.secret_samples` prints the recall.

Drawn anew for a fixed seed: a form of the kind, a name where the kind needs one, and one place of many. Nothing here
is a real secret.
"""

import base64
import json
import random
import string
import uuid
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

from contract.redaction import redact_value
from contract.secret_formats import KINDS

SEED = 20261130
EACH = 180  # samples of a kind
ALNUM = string.ascii_letters + string.digits
URL_SAFE = ALNUM + "-_"
HEX = "0123456789abcdef"
WORDS = ("river", "Falcon", "maple", "Quartz", "summer", "tiger", "copper", "Monday", "harbor", "velvet", "coffee")

Maker = Callable[[random.Random], str]


@dataclass(frozen=True, slots=True)
class Sample:
    """A text or JSON value that holds `secret`; `place` names the frame it stands in."""

    kind: str
    place: str
    value: Any
    secret: str


def some(dice: random.Random, n: int, alphabet: str = ALNUM) -> str:
    """A word of `n` characters; where the alphabet has digits and letters, so has the word."""
    word = [dice.choice(alphabet) for _ in range(n)]
    if alphabet not in (HEX, string.digits) and n > 3:
        word[1], word[2] = "7", next((one for one in alphabet if one.isalpha()), "K")
    return "".join(word)


def _base64(dice: random.Random, n: int) -> str:
    return base64.b64encode(dice.randbytes(n)).decode()


def _private_key(dice: random.Random) -> str:
    name = dice.choice(
        ["RSA PRIVATE KEY", "EC PRIVATE KEY", "OPENSSH PRIVATE KEY", "PRIVATE KEY", "PGP PRIVATE KEY BLOCK"]
    )
    body = "\n".join(_base64(dice, 48) for _ in range(dice.randint(2, 12)))
    end = f"\n-----END {name}-----" if dice.random() < 0.8 else ""  # the rest was cut off
    return f"-----BEGIN {name}-----\n{body}{end}"


def _jwt(dice: random.Random) -> str:
    parts = ({"alg": "HS256", "typ": "JWT"}, {"sub": some(dice, 9), "iat": dice.randint(10**9, 2 * 10**9)})
    head = ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=") for part in parts)
    return f"{head}.{some(dice, 43, URL_SAFE)}"


FORMS: dict[str, list[Maker]] = {
    "private_key": [_private_key],
    "aws_key": [lambda d: d.choice(["AKIA", "ASIA"]) + some(d, 16, string.ascii_uppercase + "234567")],
    "github_token": [
        lambda d: f"gh{d.choice('pousr')}_{some(d, 36)}",
        lambda d: f"github_pat_{some(d, 22)}_{some(d, 59)}",
    ],
    "gitlab_token": [lambda d: d.choice(["glpat-", "gldt-", "glrt-", "glcbt-"]) + some(d, 20, URL_SAFE)],
    "slack_token": [
        lambda d: f"xox{d.choice('bpa')}-{some(d, 12, string.digits)}-{some(d, 12, string.digits)}-{some(d, 24)}",
        lambda d: f"xapp-1-{some(d, 11)}-{some(d, 13, string.digits)}-{some(d, 64, HEX)}",
        lambda d: f"hooks.slack.com/services/T{some(d, 8)}/B{some(d, 8)}/{some(d, 24)}",
    ],
    "chat_token": [
        lambda d: f"{d.randint(10**9, 10**10 - 1)}:AA{some(d, 33, URL_SAFE)}",
        lambda d: f"discord.com/api/webhooks/{d.randint(10**17, 10**18)}/{some(d, 68, URL_SAFE)}",
    ],
    "stripe_key": [
        lambda d: f"{d.choice(['sk', 'rk'])}_{d.choice(['live', 'test'])}_{some(d, d.choice([24, 99]))}",
        lambda d: "whsec_" + some(d, 32),
    ],
    "anthropic_key": [lambda d: f"sk-ant-api03-{some(d, 93, URL_SAFE)}AA"],
    "openai_key": [
        lambda d: f"sk-{some(d, 20)}T3BlbkFJ{some(d, 20)}",
        lambda d: f"sk-proj-{some(d, 48)}",
        lambda d: f"sk-or-v1-{some(d, 64, HEX)}",
    ],
    "google_key": [
        lambda d: "AIza" + some(d, 35, URL_SAFE),
        lambda d: "ya29." + some(d, 120, URL_SAFE),
        lambda d: "GOCSPX-" + some(d, 28, URL_SAFE),
    ],
    "npm_token": [lambda d: "npm_" + some(d, 36)],
    "pypi_token": [lambda d: "pypi-AgEIcHlwaS5vcmc" + some(d, 120, URL_SAFE)],
    "huggingface_token": [lambda d: "hf_" + some(d, 34)],
    "cloud_token": [
        lambda d: f"SG.{some(d, 22, URL_SAFE)}.{some(d, 43, URL_SAFE)}",
        lambda d: "dop_v1_" + some(d, 64, HEX),
        lambda d: "hvs." + some(d, 24, URL_SAFE),
        lambda d: "dapi" + some(d, 32, HEX),
        lambda d: "dckr_pat_" + some(d, 27, URL_SAFE),
        lambda d: "gsk_" + some(d, 52),
        lambda d: "lin_api_" + some(d, 40),
        lambda d: "shpat_" + some(d, 32, HEX),
        lambda d: "xai-" + some(d, 80),
        lambda d: f"lsv2_{d.choice(['pt', 'sk'])}_{some(d, 32, HEX)}_{some(d, 10, HEX)}",
        lambda d: "pplx-" + some(d, 48),
        lambda d: "tvly-" + some(d, 32),
        lambda d: f"pcsk_{some(d, 6)}_{some(d, 60)}",
        lambda d: "csk-" + some(d, 48),
        lambda d: "jina_" + some(d, 60),
        lambda d: f"glsa_{some(d, 32)}_{some(d, 8, HEX)}",
        lambda d: "sntrys_" + _base64(d, 90),
        lambda d: "dp.pt." + some(d, 43),
        lambda d: "pul-" + some(d, 40, HEX),
        lambda d: "pscale_tkn_" + some(d, 43, URL_SAFE),
        lambda d: "figd_" + some(d, 40, URL_SAFE),
        lambda d: "ntn_" + some(d, 46),
        lambda d: f"tskey-auth-{some(d, 16)}-{some(d, 32)}",
        lambda d: "NRAK-" + some(d, 27, string.ascii_uppercase + string.digits),
        lambda d: f"{some(d, 14)}.atlasv1.{some(d, 67)}",
        lambda d: "rubygems_" + some(d, 48, HEX),
        lambda d: "sbp_" + some(d, 40, HEX),
        lambda d: "napi_" + some(d, 64, string.ascii_lowercase + string.digits),
        lambda d: "nfp_" + some(d, 40),
    ],
    "temporality_key": [lambda d: f"tk_{some(d, 12, HEX)}_{some(d, 43, URL_SAFE)}"],
    "jwt": [_jwt],
}
# Where a secret stands that is known by its own shape. {} is the secret.
FORM_PLACES = {
    "alone": "{}",
    "start": "{} was refused by the server",
    "end": "could not push with {}",
    "sentence": "I used the key {}, and it worked.",
    "env": "DEBUG=1\nSOME_VALUE={}\nPATH=/usr/bin",
    "export": 'export X="{}"',
    "json": '{{"n": 1, "x": "{}", "ok": true}}',
    "json in json": '{{"arguments": "{{\\"x\\": \\"{}\\"}}"}}',
    "yaml": "spec:\n  x: {}\n  replicas: 2\n",
    "curl": "curl -s -H 'X-Thing: {}' https://api.example.com/v1/x | jq .",
    "trace": 'Traceback (most recent call last):\n  File "/srv/a.py", line 3, in f\n    call("{}")\nValueError: {}',
    "log": "2026-11-30T03:00:07.123Z ERROR worker-3 call failed arg={} attempt=2",
    "url": "GET https://api.example.com/v1/x?limit=5&k={}&z=1 HTTP/1.1",
    "repr": "Client(base='https://h', k='{}', retries=3)",
    "markdown": "| name | value |\n|---|---|\n| k | `{}` |\n",
    "xml": "<entry><v>{}</v></entry>",
    "diff": "-x: old\n+x: {}\n",
    "tab": "id\tvalue\n1\t{}\n",
}

NAMES = {
    "password": ["password", "DB_PASSWORD", "passwd", "pwd", "userPassword", "admin-password", "smtp.pass",
                 "PGPASSWORD", "MYSQL_PWD", "db_pass", "passphrase", "spring.datasource.password", "password_old"],
    "secret": ["api_key", "apiKey", "API_KEY", "client_secret", "AWS_SECRET_ACCESS_KEY", "secretKey", "X-Api-Key",
               "SECRET_KEY_BASE", "signing_key", "encryption-key", "accountKey", "private_key", "webhookSecret"],
    "token": ["token", "access_token", "refreshToken", "AUTH_TOKEN", "id_token", "bot-token", "csrf_token", "authToken",
              "CI_JOB_TOKEN", "credentials", "security.token", "token_value"],
}  # fmt: skip


def _password(dice: random.Random) -> str:
    word = "".join(dice.sample(WORDS, 2))
    return dice.choice(
        [
            f"{word}{dice.randint(1, 9999)}",
            f"{word.lower()}!{dice.randint(10, 99)}",
            some(dice, dice.randint(8, 32)),
            some(dice, 12, ALNUM + "!#%*+-_.~^"),
            _base64(dice, 18),
            f"P@{word}#{dice.randint(1, 99)}",
            word.lower(),
        ]
    )


def _random_value(dice: random.Random) -> str:
    return dice.choice(
        [
            some(dice, dice.randint(20, 64)),
            some(dice, 40, URL_SAFE),
            some(dice, 32, HEX),
            str(uuid.UUID(int=dice.getrandbits(128))),
            _base64(dice, 30),
        ]
    )


VALUES: dict[str, Maker] = {"password": _password, "secret": _random_value, "token": _random_value}
# Where a secret stands beside its name: {n} the name, {v} the value.
NAMED_PLACES = {
    "env": "DEBUG=1\n{n}={v}\nPATH=/usr/bin",
    "export": "export {n}='{v}'",
    "dotenv": '{n}="{v}"',
    "start": "{n}={v}",
    "end": "connect with {n}={v}",
    "json": '{{"user": "ann", "{n}": "{v}", "ok": true}}',
    "json in json": '{{"arguments": "{{\\"{n}\\": \\"{v}\\"}}"}}',
    "yaml": "app:\n  {n}: {v}\n  replicas: 2\n",
    "yaml quoted": 'app:\n  {n}: "{v}"\n',
    "ini": "[db]\n{n} = {v}\nhost = h\n",
    "toml": '{n} = "{v}"\n',
    "flag": "tool login --{n} {v} --verbose",
    "flag =": "tool login --{n}={v}",
    "url": "GET https://api.example.com/v1/x?limit=5&{n}={v}&z=1 HTTP/1.1",
    "form": "curl -d 'user=ann&{n}={v}' https://h/login",
    "repr": "Client(host='h', {n}='{v}', retries=3)",
    "dict repr": "{{'user': 'ann', '{n}': '{v}', 'n': 1}}",
    "call": 'config["{n}"] = "{v}"',
    "log": "2026-11-30T03:00:07Z INFO starting with {n}={v} host=h",
    "trace": 'File "/srv/a.py", line 3, in f\n    connect({n}="{v}")\nConnectionError: refused',
    "markdown": "Set `{n}={v}` before the start.",
    "xml": "<config><{n}>{v}</{n}></config>",
    "header": "POST / HTTP/1.1\nHost: h\n{n}: {v}\n\n",
    "js": "const cfg = {{ {n}: '{v}', port: 1 }}",
    "docker": "docker run -e {n}={v} -p 80:80 image:1",
    "diff": "-{n}=\n+{n}={v}\n",
    "java": 'String x = props.put("{n}", "{v}");',
}
# (place, text, name in front); {v} is the secret.
OWN_PLACES: dict[str, dict[str, str]] = {
    "url_password": {
        "env": "DATABASE_URL=postgres://app:{v}@db.example.com:5432/app",
        "json": '{{"broker": "amqp://guest:{v}@mq:5672//"}}',
        "yaml": "redis: redis://:{v}@cache:6379/0",
        "git": "fatal: unable to access 'https://ann:{v}@github.com/a/b/': 403",
        "log": "connecting to mysql+pymysql://root:{v}@127.0.0.1/shop?charset=utf8",
        "curl": "curl -x http://user:{v}@proxy.example.com:3128 https://h",
        "repr": "create_engine('postgresql://app:{v}@h/x', echo=True)",
        "trace": "OperationalError: mongodb+srv://u:{v}@c0.x.mongodb.net/db timed out",
        "markdown": "[repo](https://bob:{v}@git.example.com/r.git)",
        "start": "ftp://ann:{v}@ftp.example.com/pub is down",
    },
    "url_token": {
        "pip": "pip install --index-url https://{v}@pypi.example.com/simple x",
        "git": "git clone https://{v}@github.com/acme/private.git",
        "sentry": "SENTRY_DSN=https://{v}@o1.ingest.example.com/42",
        "json": '{{"remote": "https://{v}@git.example.com/a"}}',
        "log": "cloning https://{v}@git.example.com/a into /tmp/x",
    },
    "authorization": {
        "header": "GET / HTTP/1.1\nAuthorization: Bearer {v}\nHost: h",
        "basic": "authorization: Basic {v}",
        "proxy": "Proxy-Authorization: Basic {v}",
        "curl": "curl -H 'Authorization: Bearer {v}' https://h/x",
        "curl double": 'curl -H "Authorization: token {v}" https://h/x',
        "json": '{{"headers": {{"Authorization": "Bearer {v}", "Accept": "*/*"}}}}',
        "repr": "{{'authorization': 'Bearer {v}', 'accept': '*/*'}}",
        "tuples": "[('authorization', 'Bearer {v}'), ('accept', '*/*')]",
        "code": 'headers["Authorization"] = "Bearer {v}"',
        "yaml": "headers:\n  Authorization: Bearer {v}\n",
        "log": 'request sent authorization="Bearer {v}" status=401',
        "alone": "the call was made with Bearer {v} and failed",
        "plain": "Authorization: {v}",
        "js": "fetch(u, {{headers: {{Authorization: `Bearer x`, authorization: 'Bearer {v}'}}}})",
    },
    "cookie": {
        "header": "GET / HTTP/1.1\nCookie: sid={v}; theme=dark\nHost: h",
        "set": "HTTP/1.1 200 OK\nSet-Cookie: sid={v}; Path=/; HttpOnly\n",
        "curl": "curl -H 'Cookie: sid={v}' https://h",
        "json": '{{"cookie": "sid={v}; a=b", "accept": "*/*"}}',
        "repr": "{{'Cookie': 'sid={v}'}}",
        "log": "sent cookie: sid={v}",
        "verbose": "> Cookie: csrftoken=abc; sid={v}\n> Accept: */*",
        "tuples": "[('set-cookie', 'sid={v}; Path=/')]",
    },
    "password": {
        "said": "The password is {v}",
        "sql": "CREATE USER app IDENTIFIED BY '{v}';",
        "sql password": "ALTER ROLE app WITH PASSWORD '{v}';",
        "netrc": "machine h login ann password {v}",
        "sshpass": "sshpass -p '{v}' ssh ann@h",
        "curl -u": "curl -u ann:{v} https://h/x",
        "odbc": "Server=s;Database=d;User Id=u;Password={v};Encrypt=yes",
    },
}


def samples(seed: int = SEED, each: int = EACH) -> Iterator[Sample]:
    """Yield `each` samples of every kind, for one seed always the same."""
    for kind in KINDS:
        dice = random.Random(f"{seed} {kind}")
        for number in range(each):
            text_place, secret, text = _drawn(kind, number, dice)
            yield _nested(Sample(kind, text_place, text, secret), number, dice)


def _drawn(kind: str, number: int, dice: random.Random) -> tuple[str, str, str]:
    if kind in FORMS:
        secret = dice.choice(FORMS[kind])(dice)
        places = list(FORM_PLACES.items())
        place, frame = places[number % len(places)]
        shown = secret.replace("\n", "\\n") if place.startswith("json") else secret
        return place, secret, frame.replace("{}", shown).replace("{{", "{").replace("}}", "}")
    own = list(OWN_PLACES.get(kind, {}).items())
    named = list(NAMED_PLACES.items()) if kind in NAMES else []
    place, frame = (own + named)[number % len(own + named)]
    value = _value(kind, place, dice)
    name = dice.choice(NAMES.get(kind, [""]))
    return place, value, frame.format(v=value, n=name)


def _value(kind: str, place: str, dice: random.Random) -> str:
    if kind in VALUES:
        value = VALUES[kind](dice)
        if place == "said" and value.isalpha():
            value += "9"  # a word without a digit is not told from prose
        return value
    if kind == "url_password":
        return dice.choice(
            [some(dice, 12), f"{dice.choice(WORDS)}{dice.randint(1, 99)}", some(dice, 9) + "%21", "tiger"]
        )
    if place in ("basic", "proxy"):
        return _base64(dice, 15)
    return some(dice, dice.randint(24, 48))


def is_left(secret: str, text: str) -> bool:
    """Say whether any line of a secret is left in a text; the first and last line of a key block are no secret."""
    return any(line in text for line in secret.split("\n") if line and not line.startswith("-----"))


def _nested(sample: Sample, number: int, dice: random.Random) -> Sample:
    """Put every third text into a JSON value, and now and then the bare value under its name or as a key."""
    if number % 3:
        return sample
    inside: Any = sample.value
    if sample.kind in NAMES and number % 9 == 0:
        inside = {dice.choice(NAMES[sample.kind]): sample.secret}
    elif sample.kind in FORMS and number % 9 == 0 and sample.kind != "private_key":
        inside = {sample.secret: 1}
    elif dice.random() < 0.5:
        inside = [inside, "ok"]
    value = {"span": {"name": "chat", "attributes": {"n": 1, "input": inside}}}
    return Sample(sample.kind, f"{sample.place} in a value", value, sample.secret)


@dataclass(frozen=True, slots=True)
class Recall:
    """How many samples of a kind lost their secret, and how many of those under the kind's own marker."""

    n: int
    removed: int
    named_right: int
    missed: tuple[Sample, ...]


def measure(redacted: Callable[[Any], tuple[Any, int]] = redact_value) -> dict[str, Recall]:
    """Return the recall of each kind."""
    drawn = list(samples())
    n, removed, right = Counter[str](), Counter[str](), Counter[str]()
    missed: dict[str, list[Sample]] = {kind: [] for kind in KINDS}
    for sample in drawn:
        n[sample.kind] += 1
        clean, _ = redacted(sample.value)
        left = clean if isinstance(clean, str) else json.dumps(clean, ensure_ascii=False)
        if is_left(sample.secret, left):
            missed[sample.kind].append(sample)
            continue
        removed[sample.kind] += 1
        right[sample.kind] += f"[REDACTED:{sample.kind}]" in left
    return {kind: Recall(n[kind], removed[kind], right[kind], tuple(missed[kind])) for kind in KINDS}


def main() -> None:
    """Print the table."""
    print(f"{'kind':20} {'samples':>7} {'removed':>8} {'own kind':>8}  missed in")
    for kind, found in measure().items():
        places = ", ".join(f"{place} x{n}" for place, n in Counter(one.place for one in found.missed).most_common(6))
        print(f"{kind:20} {found.n:7} {found.removed / found.n:8.1%} {found.named_right / found.n:8.1%}  {places}")


if __name__ == "__main__":
    main()
