"""Which texts are secrets by their own shape, and which names promise that a secret stands beside them.

Every pattern starts at a literal or behind a look-behind and repeats without giving back, so that a text is
read a fixed number of times whatever it holds. The reference for a prefix is its issuer's documentation.
"""

import re
from typing import Final

# kind -> what it is. The marker left in a text is [REDACTED:<kind>].
KINDS: Final[dict[str, str]] = {
    "private_key": "a PEM or PGP private key block",
    "aws_key": "an AWS access key id",
    "github_token": "a GitHub token",
    "gitlab_token": "a GitLab token",
    "slack_token": "a Slack token or webhook",
    "chat_token": "a Discord or Telegram token or webhook",
    "stripe_key": "a Stripe secret key",
    "anthropic_key": "an Anthropic key",
    "openai_key": "an OpenAI key, or another provider's key of that form",
    "google_key": "a Google API key or OAuth token",
    "npm_token": "an npm token",
    "pypi_token": "a PyPI token",
    "huggingface_token": "a Hugging Face token",
    "cloud_token": "a token of another known service",
    "temporality_key": "a key of this project's own API",
    "jwt": "a JSON web token",
    "url_password": "the password inside a URL",
    "url_token": "a token in the user part of a URL",
    "authorization": "the credentials of an Authorization header",
    "cookie": "the content of a Cookie or Set-Cookie header",
    "password": "a value beside a password-like name",
    "secret": "a value beside a secret-like or key-like name",
    "token": "a random-looking value beside a token-like name",
}

# Order matters where one form is the start of another (sk-ant- before sk-).
_FORMATS: Final[tuple[tuple[str, str], ...]] = (
    ("aws_key", r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}(?![A-Za-z0-9])"),
    ("github_token", r"gh[pousr]_[A-Za-z0-9]{30,255}+|github_pat_[A-Za-z0-9_]{22,255}+"),
    ("gitlab_token", r"gl(?:pat|dt|rt|rtr|ptt|ft|cbt|imt|agent|soat|oas|ffct)-[A-Za-z0-9_-]{20,255}+"),
    ("slack_token", r"xox[a-z]-[A-Za-z0-9-]{10,255}+|xapp-[A-Za-z0-9-]{20,255}+"),
    ("slack_webhook", r"hooks\.slack\.com/(?:services|workflows)/[A-Za-z0-9/_-]{20,255}+"),
    ("chat_webhook", r"discord(?:app)?\.com/api/webhooks/[0-9]{10,25}+/[A-Za-z0-9_-]{40,100}+"),
    ("chat_token", r"[0-9]{8,10}+:AA[A-Za-z0-9_-]{33}(?![A-Za-z0-9_-])"),
    ("stripe_key", r"(?:sk|rk)_(?:live|test)_[A-Za-z0-9]{16,255}+|whsec_[A-Za-z0-9+/=]{24,255}+"),
    ("anthropic_key", r"sk-ant-[A-Za-z0-9_-]{20,255}+"),
    ("openai_key", r"sk-(?=[A-Za-z0-9_-]{0,40}[A-Za-z0-9]{16})(?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{20,255}+"),
    ("google_key", r"AIza[A-Za-z0-9_-]{35}(?![A-Za-z0-9_-])|ya29\.[A-Za-z0-9_-]{20,512}+|GOCSPX-[A-Za-z0-9_-]{20,64}+"),
    ("npm_token", r"npm_[A-Za-z0-9]{36}(?![A-Za-z0-9])"),
    ("pypi_token", r"pypi-AgE[A-Za-z0-9_-]{40,512}+"),
    ("huggingface_token", r"hf_[A-Za-z0-9]{30,64}+(?![A-Za-z0-9_])"),
    (
        "cloud_token",
        r"do[opr]_v1_[a-f0-9]{64}(?![a-f0-9])|SG\.[A-Za-z0-9_-]{16,32}+\.[A-Za-z0-9_-]{30,64}+|hv[sb]\.[A-Za-z0-9_-]{24,255}+"
        r"|dapi[a-f0-9]{32}(?![a-f0-9])|dckr_pat_[A-Za-z0-9_-]{20,64}+|ATATT3[A-Za-z0-9_=-]{50,255}+"
        r"|lin_api_[A-Za-z0-9]{32,64}+|gsk_[A-Za-z0-9]{40,64}+|xai-[A-Za-z0-9]{40,100}+|r8_[A-Za-z0-9]{36,40}+"
        r"|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}(?![a-fA-F0-9])|sq0(?:atp|csp)-[A-Za-z0-9_-]{22,64}+"
        r"|PMAK-[a-f0-9]{24}-[a-f0-9]{34}|AGE-SECRET-KEY-1[A-Z0-9]{58}",
    ),
    (
        "service_token",
        r"lsv2_(?:pt|sk)_[a-f0-9]{32}_[a-f0-9]{10}|pplx-[A-Za-z0-9]{40,64}+|tvly-(?:dev-|prod-)?[A-Za-z0-9]{24,64}+"
        r"|pcsk_[A-Za-z0-9_]{40,128}+|csk-[A-Za-z0-9]{40,64}+|jina_[A-Za-z0-9_-]{50,80}+|e2b_[a-f0-9]{40}"
        r"|glsa_[A-Za-z0-9]{32}_[A-Fa-f0-9]{8}|glc_[A-Za-z0-9+/]{32,400}+={0,3}|sntry[su]_[A-Za-z0-9+/=_-]{40,400}+"
        r"|dp\.(?:pt|st|ct|sa|scim|audit)\.[A-Za-z0-9._-]{40,80}+|pul-[a-f0-9]{40}|pscale_(?:tkn|pw|oauth)_[A-Za-z0-9_.=-]{30,64}+"
        r"|figd_[A-Za-z0-9_-]{40,64}+|ntn_[A-Za-z0-9]{40,60}+|tskey-[a-z]{2,10}-[A-Za-z0-9-]{20,80}+|NRAK-[A-Z0-9]{27}"
        r"|xkeysib-[a-f0-9]{64}-[A-Za-z0-9]{16}|[A-Za-z0-9]{14}\.atlasv1\.[A-Za-z0-9_=-]{60,80}+|bkua_[a-f0-9]{40}"
        r"|CCIPAT_[A-Za-z0-9_]{40,80}+|rubygems_[a-f0-9]{48}|sbp_[a-f0-9]{40}|sb_secret_[A-Za-z0-9_-]{20,64}+"
        r"|napi_[a-z0-9]{60,72}+|nfp_[A-Za-z0-9]{36,40}+|ops_eyJ[A-Za-z0-9_=-]{100,1024}+",
    ),
    ("temporality_key", r"tk_(?=[A-Za-z_-]{0,60}[0-9])[A-Za-z0-9_-]{20,128}+"),
    ("jwt", r"(?<![_-])eyJ[A-Za-z0-9_-]{8,4096}+\.[A-Za-z0-9_-]{8,8192}+(?:\.[A-Za-z0-9_-]{0,8192}+){1,3}+"),
)
FORMAT: Final = re.compile("(?<![A-Za-z0-9])(?:" + "|".join(f"(?P<{kind}>{form})" for kind, form in _FORMATS) + ")")
# Each form holds one of these, in lower case, and with it the mark its group stands under.
FORMAT_NEEDLES: Final[tuple[tuple[str, tuple[str, ...]], ...]] = (
    (
        "-",
        (
            "-----begin", "sk-", "xox", "xapp-", "glpat-", "gldt-", "glrt-", "glrtr-", "glptt-", "glft-", "glcbt-",
            "glimt-", "glagent-", "glsoat-", "gloas-", "glffct-", "gocspx-", "pypi-", "xai-", "sq0atp-", "sq0csp-",
            "pmak-", "age-secret-key", "pplx-", "tvly-", "csk-", "pul-", "tskey-", "nrak-", "xkeysib-",
        ),
    ),
    (
        "_",
        (
            "ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_", "_live_", "_test_", "whsec_", "npm_", "hf_", "_v1_",
            "dckr_pat_", "lin_api_", "gsk_", "r8_", "shpat_", "shpca_", "shppa_", "shpss_", "tk_", "lsv2_", "pcsk_",
            "jina_", "e2b_", "glsa_", "glc_", "sntrys_", "sntryu_", "pscale_", "figd_", "ntn_", "bkua_", "ccipat_",
            "rubygems_", "sbp_", "sb_secret_", "napi_", "nfp_", "ops_eyj",
        ),
    ),
    (".", ("hooks.slack", "api/webhooks", "ya29.", "sg.", "hvs.", "hvb.", "eyj", ".atlasv1.", "dp.")),
    ("", ("akia", "asia", "abia", "acca", ":aa", "aiza", "dapi", "atatt3")),
)  # fmt: skip
FORMAT_KINDS: Final = {"slack_webhook": "slack_token", "chat_webhook": "chat_token", "service_token": "cloud_token"}

# A block without its end (a cut text) loses only its base64 lines.
PRIVATE_KEY: Final = re.compile(
    r"-----BEGIN (?:[A-Z0-9]{1,20} ){0,3}PRIVATE KEY(?: BLOCK)?-----"
    r"(?:[^-]*+(?:-(?!----)[^-]*+)*+-----END [A-Z0-9 ]{1,60}+-----|(?:(?:\s|\\[nr])*+[A-Za-z0-9+/=]{16,})*+)"
)

WORD: Final = re.compile(r"[A-Z]+(?![a-z])|[A-Z]?[a-z]+|[0-9]+|[^\W\d_a-zA-Z]+")

_PASSWORDS: Final = ("password", "passwd", "pwd", "passphrase", "passcode", "passwort", "пароль", "密码", "口令")
_SECRETS: Final = ("secret", "apikey", "secretkey", "accesskey", "privatekey", "accountkey")
_TOKENS: Final = ("token", "auth", "credential", "credentials", "jwt", "bearer")
_SIGNATURES: Final = ("signature", "sig")
# `<word>_key` is a secret only after one of these; primary_key or public_key is not.
_KEY_OWNERS: Final = (
    "api", "access", "secret", "private", "account", "auth", "encryption", "signing", "shared", "service",
    "license", "master", "storage", "subscription",
)  # fmt: skip
# DB_PASS is a password, first_pass is not.
_LOGINS: Final = (
    "db",
    "database",
    "user",
    "admin",
    "root",
    "login",
    "smtp",
    "mail",
    "ftp",
    "mysql",
    "pg",
    "redis",
    "proxy",
)
# Tokens that are positions in a list or pieces of text, not credentials.
_PLAIN_TOKENS: Final = (
    "page",
    "next",
    "continuation",
    "sync",
    "pad",
    "eos",
    "bos",
    "unk",
    "mask",
    "sep",
    "cls",
    "special",
)
QUALIFIERS: Final = ("value", "base", "raw", "plain", "plaintext", "prod", "dev", "staging", "old", "new", "current")

NAME_LIMIT: Final = 80  # code points of a name that are judged: its last ones
# A name of any kind holds one of these, in lower case.
NAME_NEEDLES: Final = (
    "pass", "pwd", "secret", "key", "token", "auth", "credential", "cookie", "jwt", "bearer", "sig", *_PASSWORDS[-3:],
)  # fmt: skip


def holds_format(lowered: str) -> bool:
    """Say whether a text in lower case may hold a form: False is certain."""
    for mark, needles in FORMAT_NEEDLES:
        if mark in lowered:
            for needle in needles:
                if needle in lowered:
                    return True
    return False


def holds_name(lowered: str) -> bool:
    """Say whether a text in lower case may hold a name that promises a secret: False is certain."""
    for needle in NAME_NEEDLES:  # noqa: SIM110 - any() costs four times as much here
        if needle in lowered:
            return True
    return False


def name_kind(name: str) -> str | None:
    """Return the kind of secret that stands beside `name` (authorization, cookie, password, secret, token), or None.

    `token` is the weak kind: its value must look random. Snake, kebab, dotted and camel case are read alike.
    """
    if not holds_name(name.lower()):
        return None
    words = [word.lower() for word in WORD.findall(name[-NAME_LIMIT:])]
    while len(words) > 1 and (words[-1] in QUALIFIERS or words[-1].isdigit()):
        words.pop()
    if not words:
        return None
    last, before = words[-1], words[-2] if len(words) > 1 else ""
    if last == "authorization":
        return "authorization"
    if last.removesuffix("s").endswith(_PASSWORDS) or (last == "pass" and before in _LOGINS):
        return "password"
    if last.removesuffix("s").endswith(_SECRETS) or (last == "key" and before in _KEY_OWNERS):
        return "secret"
    if last in ("cookie", "cookies"):
        return "cookie"
    if last == "token" and before in _PLAIN_TOKENS:
        return None
    if last in _TOKENS or last.endswith("token") or (last == "pass" and before):
        return "token"
    return None


def is_signature(name: str) -> bool:
    """Say whether `name` is that of a URL's signature, as in `sig=…`. Elsewhere no secret stands under it."""
    return name.rpartition("-")[2].rpartition("_")[2].lower() in _SIGNATURES
