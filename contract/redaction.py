"""Removes secrets from text and JSON values before they are written anywhere, leaving `[REDACTED:<kind>]`.

Pure and stateless, one home for both sides of the wire: the kernel redacts inside the tool activity, ingest
redacts again at the door. Work is linear in the text; a second pass changes nothing. What merely resembles a
secret (hashes, commit ids, UUIDs, base64 images, MAX_TOKENS=100) stays. The marker is never `***`, which an
agent takes for a bad read and tries again. (Seed 001 §16.1, §20.)
"""

import re
from collections.abc import Callable, Iterator
from typing import Any, Final

from contract.secret_formats import (
    FORMAT,
    FORMAT_KINDS,
    NAME_LIMIT,
    NAME_NEEDLES,
    PRIVATE_KEY,
    holds_format,
    holds_name,
    name_kind,
)
from contract.secret_values import (
    JUDGED,
    MARKED,
    has_digit_or_sign,
    is_call,
    is_placeholder,
    is_secret,
    looks_random,
)

MARKER: Final = "[REDACTED:{kind}]"
# A removal can uncover another secret beside it; each round reads the text once.
_ROUNDS: Final = 4

Span = tuple[int, int, str]  # start, end, kind

_USERINFO: Final = re.compile(
    r"(?<![A-Za-z0-9+.\-])[A-Za-z][A-Za-z0-9+.\-]{0,30}+://"
    r"(?P<user>[^\s/:@\"'`<>?#\\\[]{0,200}+)(?P<rest>:[^\s\"'`<>\\]{1,400}+|@)"
)
# A name, what closes it, what joins it to its value. Space alone joins only a --flag to its value.
_NAMED: Final = re.compile(
    r"(?<![\w.\-])(?<!\[REDACTED:)(?:"
    r"(?P<flag>--[\w.\-]{1,80}+)[ \t]{1,4}(?=[^\s\-])"
    r"|(?P<name>[\w.\-]++)(?P<join>>|\\{0,3}[\"']?\]?"
    r"(?::[ ]?(?:str|[Ss]tring)[ ]?=[ ]?|[ \t]{0,4}(?:=>|:=|=|:)[ \t]{0,4}|,[ ]?(?=\\{0,3}[\"'])))"
    r")"
)
# A name and a value with other words between them.
_SPOKEN: Final = re.compile(
    r"(?<![\w.\-])(?:(?i:login \S{1,80} password|(?:password|passphrase|passwd) (?:is|was)|identified by)[ ]{1,2}"
    r"|sshpass -p ?|curl (?:[^\n]{0,200}?[ ])?-u ?[\"']?[^\s:\"']{1,80}+:)"
)
_BEARER: Final = re.compile(r"(?<![A-Za-z0-9])(?i:bearer)[ ]{1,4}(?P<value>[A-Za-z0-9_~+/.=\-]{16,}+)")
_SCHEME: Final = re.compile(r"(?i:(?P<one>bearer|basic|token|negotiate|apikey)|digest|aws4-hmac-sha256)[ ]{1,4}")

# A quoted value, also behind the letters of a Python literal: f"...", b'...'.
_QUOTED: Final = re.compile(
    r"(?:[fFrRbBuU]{1,2}(?=[\"']))?(?P<slash>\\{0,3}+)(?P<quote>[\"'])(?P<value>[^\"'\\\n]{0,256}+)"
)
_BARE: Final = re.compile(
    r"(?:\[REDACTED:[a-z_]{1,40}\]|[^\s\"'`&,;)\]}<>]|[&,;](?!\s|\Z|[\w.\-]{1,40}=)|[)\]}](?=\w)){1,256}+"
)
_BARE_REST: Final = re.compile(r"[^\s\"'`&,;)\]}<>]*+")
# A header's value: its first part, which is judged, and the rest, which goes with it.
_WORD_HEAD, _WORD_REST = re.compile(r"[^\s\"'`,;]{0,256}+"), re.compile(r"[^\s\"'`,;]*+")
_LINE_HEAD, _LINE_REST = re.compile(r"[^\r\n]{0,256}+"), re.compile(r"[^\r\n]*+")
_WRAPPED: Final = ("value", "stringValue", "string_value")


def redact(text: str) -> tuple[str, int]:
    """Return `text` without its secrets and how many were removed. A clean text comes back as it is."""
    total = 0
    for _ in range(_ROUNDS):
        before, lowered = total, text.lower()
        for worth, find in _FINDERS:
            if worth(lowered):
                text, found = _replace(text, find(text))
                total += found
        if total == before:
            break
    return text, total


def redact_value(value: Any) -> tuple[Any, int]:
    """Return a copy of a JSON value without its secrets and how many were removed.

    Names count: under `password`, `api_key`, `cookie` … the whole text goes, also inside lists, and so does the
    value of a `{"key": "password", "value": …}` pair. Depth is no limit: nothing here recurses.
    """
    holder: list[Any] = [value]
    total = 0
    todo: list[tuple[Any, Any, str | None]] = [(holder, 0, None)]
    while todo:
        container, place, kind = todo.pop()
        old = container[place]
        if isinstance(old, str):
            container[place], found = _redact_under(old, kind)
        elif isinstance(old, dict):
            container[place], found = _redact_names(old)
            todo.extend(_entries(container[place], kind))
        elif isinstance(old, list):
            container[place], found = list(old), 0
            todo.extend((container[place], i, kind) for i in range(len(old)))
        elif kind == "password" and isinstance(old, int) and not isinstance(old, bool) and abs(old) > 999:
            container[place], found = MARKER.format(kind=kind), 1
        else:
            found = 0
        total += found
    return holder[0], total


def _entries(pairs: dict[str, Any], kind: str | None) -> Iterator[tuple[dict[str, Any], str, str | None]]:
    """Yield each entry with the kind its name promises; a cookie jar and a wrapped value pass theirs on."""
    named = pairs.get("key") or pairs.get("name") if "value" in pairs else None
    named_kind = name_kind(named) if isinstance(named, str) else None
    for name in pairs:
        if name in _WRAPPED:
            yield pairs, name, named_kind or kind
        else:
            yield pairs, name, name_kind(name) or (kind if kind == "cookie" else None)


def _redact_under(text: str, kind: str | None) -> tuple[str, int]:
    """Redact a text that stands under a name of `kind`."""
    if kind is None or not is_secret(text, kind, prose=False):
        clean, found = redact(text)
        if kind is None or not is_secret(clean, kind, prose=False):
            return clean, found
    scheme = _SCHEME.match(text) if kind == "authorization" else None
    kept = scheme.group() if scheme else ""
    if MARKED.fullmatch(text, len(kept)):
        return text, 0
    return kept + MARKER.format(kind=kind), 1


def _redact_names(old: dict[Any, Any]) -> tuple[dict[str, Any], int]:
    """Return a shallow copy whose names hold no secret; two names that become equal both stay."""
    copy: dict[str, Any] = {}
    total = 0
    for name, value in old.items():
        clean, found = redact(str(name))
        total += found
        stem, n = clean, 2
        while found and (clean in copy or clean in old):
            clean, n = f"{stem} ({n})", n + 1
        copy[clean] = value
    return copy, total


def _replace(text: str, spans: Iterator[Span]) -> tuple[str, int]:
    """Put markers in place of `spans`, which come in order; one that overlaps an earlier one is passed over."""
    parts: list[str] = []
    done = 0
    for start, end, kind in spans:
        if start < done or start == end:
            continue
        parts += (text[done:start], MARKER.format(kind=kind))
        done = end
    if not parts:
        return text, 0
    return "".join(parts) + text[done:], len(parts) // 2


def _formats(text: str) -> Iterator[Span]:
    """Secrets known by their own shape."""
    blocks = [(found.start(), found.end(), "private_key") for found in PRIVATE_KEY.finditer(text)]
    tokens = [
        (found.start(), found.end(), FORMAT_KINDS.get(str(found.lastgroup), str(found.lastgroup)))
        for found in FORMAT.finditer(text)
    ]
    yield from sorted(blocks + tokens)


def _userinfo(text: str) -> Iterator[Span]:
    """Passwords and tokens in the user part of a URL. Scheme, user and host stay."""
    for found in _USERINFO.finditer(text):
        user, rest = found["user"], found["rest"]
        if rest == "@":
            if len(user) >= 20 and looks_random(user):
                yield found.start("user"), found.end("user"), "url_token"
            continue
        start, end = found.start("rest") + 1, found.start("rest") + _password_end(rest)
        if end > start and not MARKED.fullmatch(text, start, end) and not is_placeholder(text[start:end]):
            yield start, end, "url_password"


def _password_end(rest: str) -> int:
    """Return where the password in `:password@host…` ends, or 0 when there is none.

    A password may hold an unquoted "/" or "@": when what follows the first "@" is no host, the last "@" counts.
    """
    slash = min((at for at in map(rest.find, "/?#") if at >= 0), default=len(rest))
    end = rest.rfind("@", 0, slash)
    host = rest[end + 1 : slash]
    if slash <= 1 or rest[1:slash].isdigit() or (end > 0 and ("." in host or ":" in host or host == "localhost")):
        return max(end, 0)
    return max(rest.rfind("@"), 0)


def _named(text: str) -> Iterator[Span]:
    """Values beside secret-like names: headers, assignments, JSON, YAML, XML, command line flags."""
    done = 0
    for found in _NAMED.finditer(text):
        name, join = found["flag"] or found["name"], found["join"] or " "
        if found.start() < done or (join == ">" and text[found.start() - 1 : found.start()] != "<"):
            continue
        kind = name_kind(name)
        span = _value_span(text, found.end(), kind, join, text[found.start() - 1 : found.start()]) if kind else None
        if span is not None:
            done = span[1]
            yield span


def _spoken(text: str) -> Iterator[Span]:
    """Passwords said in words, in a .netrc line, or given to a command by a short flag."""
    for found in _SPOKEN.finditer(text):
        join = ": " if found[0].rstrip().endswith(("is", "was")) else "="
        span = _value_span(text, found.end(), "password", join, "")
        if span is not None:
            yield span


def _bearers(text: str) -> Iterator[Span]:
    """Bearer tokens that stand without their header name."""
    for found in _BEARER.finditer(text):
        if looks_random(found["value"]):
            yield found.start("value"), found.end("value"), "authorization"


def _value_span(text: str, at: int, kind: str, join: str, before: str) -> Span | None:
    """Return the span of the secret value at `at`, or None. `before` is the character in front of the name."""
    quoted = _QUOTED.match(text, at)
    if quoted is not None:
        return _quoted_span(text, quoted, kind, prose="," in join)
    if kind in ("authorization", "cookie") and join[0] not in "\"'\\":
        return _header_span(text, at, kind, before)
    return _bare_span(text, at, kind, join)


def _quoted_span(text: str, quoted: re.Match[str], kind: str, *, prose: bool) -> Span | None:
    """A quoted value. After a comma it may only be the next of a list of names, so it is judged as prose."""
    start, end = quoted.start("value"), _quote_end(text, quoted)
    value = text[start : min(end, start + JUDGED)]
    if not is_secret(value, kind, prose=prose):
        return None
    scheme = _SCHEME.match(text, start, end) if kind == "authorization" else None
    start = scheme.end() if scheme else start
    kept = MARKED.fullmatch(text, start, end) or is_placeholder(text[start : min(end, start + JUDGED)])
    return None if kept else (start, end, kind)


def _quote_end(text: str, quoted: re.Match[str]) -> int:
    """Return where the value ends: at its closing quote, which carries as many backslashes as the opening one."""
    close, at = quoted["slash"] + quoted["quote"], quoted.end()
    limit = min(len(text), quoted.start("value") + 4 * JUDGED)
    while at < limit and text[at] != "\n" and not text.startswith(close, at):
        at += 2 if text[at] == "\\" and not quoted["slash"] else 1
    return min(at, len(text))


def _header_span(text: str, at: int, kind: str, before: str) -> Span | None:
    """A header's value: one word after a scheme of one word, else the line, or up to the quote around the header."""
    scheme = _SCHEME.match(text, at) if kind == "authorization" else None
    start = scheme.end() if scheme else at
    one_word = kind == "authorization" and (scheme is None or scheme["one"])
    head, rest = (_WORD_HEAD, _WORD_REST) if one_word else (_LINE_HEAD, _LINE_REST)
    found = head.match(text, start)
    value = found.group() if found else ""
    prose = not scheme or (value.islower() and not has_digit_or_sign(value))
    if MARKED.match(value) or not is_secret(value, kind, prose=prose):
        return None
    whole = rest.match(text, start)
    value = whole.group() if whole else value
    if before in ('"', "'"):
        value = value.split(before, 1)[0]
    return start, start + len(value.rstrip()), kind


def _bare_span(text: str, at: int, kind: str, join: str) -> Span | None:
    found = _BARE.match(text, at)
    if found is None or is_call(found.group() + text[found.end() : found.end() + 1]):
        return None
    value, end = found.group(), found.end()
    rest_of_line = text[end : end + 80].split("\n", 1)[0].strip()
    prose = join.endswith(" ") and ":" in join and bool(rest_of_line)
    if MARKED.fullmatch(value) or not is_secret(value, kind, prose=prose):
        return None
    rest = _BARE_REST.match(text, end) if len(value) >= JUDGED else None
    return at, rest.end() if rest else end, kind


# A look at the text in lower case that says whether the finder is worth its cost. It may err to one side only: most
# texts hold no secret, and this is all that is done to them.
_NAME_AND_JOIN: Final = re.compile(
    rf"(?:{'|'.join(NAME_NEEDLES)})[\w.\-]{{0,{NAME_LIMIT}}}+"
    r"(?:>|\\{0,3}[\"']?\]?(?:[ \t]{0,4}[:=]|,[ ]?\\{0,3}[\"']))"
)


def _may_hold_userinfo(lowered: str) -> bool:
    return "://" in lowered and "@" in lowered


def _may_hold_named(lowered: str) -> bool:
    return holds_name(lowered) and ("--" in lowered or _NAME_AND_JOIN.search(lowered) is not None)


def _may_hold_spoken(lowered: str) -> bool:
    passed = "pass" in lowered and ("passw" in lowered or "passp" in lowered or "sshpass" in lowered)
    return passed or "identified" in lowered or "curl " in lowered


def _may_hold_bearer(lowered: str) -> bool:
    return "bearer" in lowered


_FINDERS: Final[tuple[tuple[Callable[[str], bool], Callable[[str], Iterator[Span]]], ...]] = (
    (holds_format, _formats),
    (_may_hold_userinfo, _userinfo),
    (_may_hold_named, _named),
    (_may_hold_spoken, _spoken),
    (_may_hold_bearer, _bearers),
)
