"""Finds secrets in one text: by their own shape, in URLs, beside secret-like names, and said in words.

Each finder yields spans in order and reads the text a fixed number of times, whatever it holds. What is judged a secret
beside a name is decided in contract.secret_values.
"""

import re
from collections.abc import Callable, Iterator
from typing import Final

from contract.secret_formats import FORMAT, FORMAT_KINDS, NAME_NEEDLES, PRIVATE_KEY, is_signature, name_kind
from contract.secret_values import (
    JUDGED,
    MARKED,
    SCHEME,
    has_digit_or_sign,
    is_call,
    is_cookie,
    is_member,
    is_placeholder,
    is_secret,
    looks_random,
)

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
    r"(?<![\w.\-])(?:(?i:login \S{1,80} password|(?:password|passphrase|passwd) (?:is|was)|identified by"
    r"|with (?:encrypted )?password)[ ]{1,2}"
    r"|sshpass -p ?|curl (?:[^\n]{0,200}?[ ])?-u ?[\"']?[^\s:\"']{1,80}+:)"
)
_BEARER: Final = re.compile(r"(?<![A-Za-z0-9])(?i:bearer)[ ]{1,4}(?P<value>[A-Za-z0-9_~+/.=\-]{16,}+)")

# A quoted value, also behind the letters of a Python literal: f"...", b'...'.
_QUOTED: Final = re.compile(
    r"(?:[fFrRbBuU]{1,2}(?=[\"']))?(?P<slash>\\{0,3}+)(?P<quote>[\"'])(?P<value>[^\"'\\\n]{0,256}+)"
)
_TAGGED: Final = re.compile(r"(?P<value>[^<>\n]{1,400}+)</")  # between an XML tag and its end
_BARE: Final = re.compile(
    r"(?:\[REDACTED:[a-z_]{1,40}\]|[^\s\"'`&,;)\]}<>]|[&,;](?!\s|\Z|[\w.\-]{1,40}=)|[)\]}](?=\w)){1,256}+"
)
_BARE_REST: Final = re.compile(r"[^\s\"'`&,;)\]}<>]*+")
# A header's value: its first part, which is judged, and the rest, which goes with it.
_WORD_HEAD, _WORD_REST = re.compile(r"[^\s\"'`,;]{0,256}+"), re.compile(r"[^\s\"'`,;]*+")
_LINE_HEAD, _LINE_REST = re.compile(r"[^\r\n]{0,256}+"), re.compile(r"[^\r\n]*+")
_OPENED: Final = "\"'$<>_/%&#@!*+-=~^|\\`"  # what a quoted value may begin with beside letters and digits
_CHECKSUM: Final = "checksum/"  # checksum/secret: the hash of a mounted secret
_SAID: Final = " is "  # what joins a name to a value that is said in words
_CODED: Final = ("secret", "authorization")  # under these names a bare word behind a space is code
_CODE_GOES_ON: Final = ("= ", "or ", "if ", "and ")
_KEY_BODY: Final = re.compile(r"[A-Za-z0-9+/=]{16}")  # a block without it only names the form
_IN_NAME: Final = re.compile(r"[\w.\-]")
_NAME_RUN: Final = re.compile(r"[\w.\-]++")


def _formats(text: str) -> Iterator[Span]:
    """Secrets known by their own shape."""
    blocks = [
        (found.start(), found.end(), "private_key")
        for found in PRIVATE_KEY.finditer(text)
        if _KEY_BODY.search(found.group()) is not None
    ]
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
    kinds: dict[str, str | None] = {}
    for start in _name_starts(text):
        found = _NAMED.match(text, start)
        if found is None:
            continue
        name, join = found["flag"] or found["name"], found["join"] or " "
        if start < done or (join == ">" and text[found.start() - 1 : found.start()] != "<"):
            continue
        if text.endswith(_CHECKSUM, 0, start):
            continue
        if name not in kinds:
            kinds[name] = name_kind(name)
        kind = kinds[name] or ("token" if join == "=" and is_signature(name) else None)
        span = _value_span(text, found.end(), kind, join, text[found.start() - 1 : found.start()]) if kind else None
        if span is not None:
            done = span[1]
            yield span


def _name_starts(text: str) -> Iterator[int]:
    """Yield where each run of a name's letters begins that holds the needle of a secret-like name, in order."""
    lowered = text.lower()
    if len(lowered) != len(text):  # one capital, İ, is two code points in lower case
        lowered = text.replace("İ", "i").lower()
    places: list[int] = []
    for needle in NAME_NEEDLES:
        at = lowered.find(needle)
        while at >= 0:
            places.append(at)
            at = lowered.find(needle, at + len(needle))
    end = 0
    for at in sorted(places):
        if at < end:
            continue
        start = at
        while start > end and _IN_NAME.match(text, start - 1):
            start -= 1
        run = _NAME_RUN.match(text, at)
        end = run.end() if run else at + 1
        yield start


def _spoken(text: str) -> Iterator[Span]:
    """Passwords said in words, in a .netrc line, or given to a command by a short flag."""
    for found in _SPOKEN.finditer(text):
        join = "=" if found[0].lower().startswith(("login", "sshpass", "curl")) else _SAID
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
    if join == ">":
        tagged = _TAGGED.match(text, at)
        return (at, tagged.end("value"), kind) if tagged and _is_secret(tagged["value"], kind, prose=False) else None
    quoted = _QUOTED.match(text, at)
    if join[0] == "," or (quoted is not None and _closes(text, quoted, join)):
        return None  # an argument behind another, a quote that ends what the name stands in
    if quoted is not None:
        return _quoted_span(text, quoted, kind, prose="," in join)
    if kind in ("authorization", "cookie") and join[0] not in "\"'\\":
        return _header_span(text, at, kind, before)
    return _bare_span(text, at, kind, join)


def _is_secret(value: str, kind: str, *, prose: bool) -> bool:
    """Judge a value in a text; in a JSON value the name alone says that it is a cookie."""
    return is_secret(value, kind, prose=prose) and (kind != "cookie" or is_cookie(value))


def _closes(text: str, quoted: re.Match[str], join: str) -> bool:
    """Say whether the quote behind a name ends the text the name stands in, as in `input("Password: ")`."""
    quote, behind = quoted["quote"], text[quoted.start("value") : quoted.start("value") + 1]
    if quote in join or (behind.isalnum() or behind in _OPENED):
        return False
    start = max(quoted.start() - JUDGED, 0)
    start = max(text.rfind("\n", start, quoted.start()) + 1, start)
    return text.count(quote, start, quoted.start()) % 2 == 1


def _quoted_span(text: str, quoted: re.Match[str], kind: str, *, prose: bool) -> Span | None:
    """A quoted value. After a comma it may only be the next of a list of names, so it is judged as prose."""
    start, end = quoted.start("value"), _quote_end(text, quoted)
    value = text[start : min(end, start + JUDGED)]
    scheme = SCHEME.match(text, start, end) if kind == "authorization" else None
    if not _is_secret(value, kind, prose=prose):
        return None
    if prose and kind == "authorization" and not scheme and not looks_random(value):
        return None
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
    scheme = SCHEME.match(text, at) if kind == "authorization" else None
    start = scheme.end() if scheme else at
    one_word = kind == "authorization" and (scheme is None or scheme["one"])
    head, rest = (_WORD_HEAD, _WORD_REST) if one_word else (_LINE_HEAD, _LINE_REST)
    found = head.match(text, start)
    value = found.group() if found else ""
    prose = not scheme or (value.islower() and not has_digit_or_sign(value))
    if MARKED.match(value) or not _is_secret(value, kind, prose=prose):
        return None
    if not scheme and is_call(text[start : start + JUDGED]):
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
    spaced = join.endswith(" ")
    prose = join == _SAID or (spaced and (kind in _CODED or (":" in join and bool(rest_of_line))))
    if MARKED.fullmatch(value) or not _is_secret(value, kind, prose=prose):
        return None
    if spaced and (is_member(value) or rest_of_line.startswith(_CODE_GOES_ON)):
        return None
    rest = _BARE_REST.match(text, end) if len(value) >= JUDGED else None
    return at, rest.end() if rest else end, kind


# In the order of contract.secret_scan.FINDERS.
FINDERS: Final[tuple[Callable[[str], Iterator[Span]], ...]] = (_formats, _userinfo, _named, _spoken, _bearers)
