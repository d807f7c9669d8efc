"""Judges a value that stands beside a secret-like name: a secret, or a word, a placeholder, code, a path, a count."""

import re
from typing import Final

from contract.secret_formats import name_kind

# A longer value is judged by its start; when it goes, it goes whole.
JUDGED: Final = 256
MARKER: Final = "[REDACTED:{kind}]"
MARKED: Final = re.compile(r"\[REDACTED:[a-z_]{1,40}\]")
# What stands before the credentials in an Authorization header.
SCHEME: Final = re.compile(r"(?i:(?P<one>bearer|basic|token|negotiate|apikey)|digest|aws4-hmac-sha256)[ ]{1,4}")

_NAME: Final = 40  # a longer value is no name, whatever it ends in
# What may be the name of another secret: no digit in it.
_SPELLED: Final = re.compile(r"[^\W\d]++(?:[.\-:>$][^\W\d]++)*+")
_NO_SECRET: Final = frozenset(
    (
        "none", "null", "nil", "true", "false", "undefined", "empty", "missing", "required", "optional", "invalid",
        "incorrect", "wrong", "expired", "hidden", "masked", "redacted", "denied", "failed", "str", "string", "bytes",
        "int", "number", "bool", "key", "value", "object",
        "any", "self", "yes", "no", "unset", "unknown", "enabled", "disabled",
        "and", "for", "from", "via", "when", "the", "with", "option", "options", "flag", "argument", "arguments",
        "parameter", "parameters", "instead", "async", "await", "new", "not", "typeof", "function", "lambda",
        "name", "file", "text", "prompt",
    )
)  # fmt: skip
_PLACEHOLDER: Final = re.compile(
    r"\$\{?[A-Za-z_]\w*\}?|\$\([^()]*+\)?|\{\{?[^{}]*+\}{0,2}|<[^<>]*+>?|%\(?\w+\)?s?|\[[^\[\]]*+\]?|\(\w++\)"
    r"|(?i:your)[-_][\w-]++|[*x.•#_{}:-]++|[\w-]{0,12}(?:…|\.{3})|\$[A-Za-z_]\w*+(?:::|->).*+"
    r"|(?:self|cls|this|os|args|config|settings|env|process|request|options|cfg|params|kwargs)(?:\.\w++)++"
)
_CALL: Final = re.compile(r"[A-Za-z_$][\w.$]*+(?:(?:::|->)[\w.$]*+)*+[(\[]|[(\[{]")
_MEMBER: Final = re.compile(r"[A-Za-z_]++(?:\.[A-Za-z_]++)++")
_COOKIE: Final = re.compile(r"[\w!#$%&'*+.^`|~\-]++=[^\s=]")
_PATH: Final = re.compile(r"(?:~|\.{1,2})?/|[A-Za-z]:\\")
_DIGIT, _LETTER, _SPACE = re.compile(r"\d"), re.compile(r"[^\W\d_]"), re.compile(r"\s")
_PIECES: Final = re.compile(r"[A-Za-z0-9]+")
_WORDY: Final = re.compile(r"[A-Za-z]+\d{0,3}|\d{1,4}[A-Za-z]{0,2}")


def is_secret(value: str, kind: str, *, prose: bool) -> bool:
    """Say whether `value` beside a name of `kind` is a secret. `prose` marks a word in a sentence, judged harder."""
    bare = value.strip()
    word = bare.rstrip(":.,;!?")
    if not word or word.lower() in _NO_SECRET or MARKED.fullmatch(word) or is_placeholder(bare) or is_placeholder(word):
        return False
    if kind == "token":
        return len(bare) >= (16 if prose else 8) and looks_random(bare)
    if prose and not has_digit_or_sign(bare):
        return False
    if kind not in ("authorization", "cookie") and (len(bare) < 3 or _PATH.match(bare)):
        return False
    return len(bare) > _NAME or not _SPELLED.fullmatch(bare) or name_kind(bare) is None


def is_placeholder(value: str) -> bool:
    """Say whether `value` only stands for a secret: a variable, a template, a mask."""
    return _PLACEHOLDER.fullmatch(value[:JUDGED]) is not None


def is_call(value: str) -> bool:
    """Say whether `value` is code that fetches a secret: a call or a look-up."""
    return _CALL.match(value) is not None


def is_member(value: str) -> bool:
    """Say whether `value` reads like code that names a member: words joined by dots, without a digit."""
    return _MEMBER.fullmatch(value) is not None


def is_cookie(value: str) -> bool:
    """Say whether `value` can be the content of a cookie header: `name=…` first, or one random word."""
    bare = value.strip()
    return _COOKIE.match(bare) is not None or (len(bare) >= 16 and looks_random(bare))


def looks_random(value: str) -> bool:
    """Say whether `value` mixes letters and digits in a way that names, versions and paths do not."""
    head = value[:JUDGED]
    if not _DIGIT.search(head) or not _LETTER.search(head) or _SPACE.search(head):
        return False
    return not all(_WORDY.fullmatch(piece) for piece in _PIECES.findall(head))


def has_digit_or_sign(value: str) -> bool:
    """Say whether `value` holds more than letters and the punctuation of a sentence."""
    return any(not c.isalpha() and c not in ".,:;!?'\"-_ " for c in value)
