"""The quick look: says of a text in one pass of compiled code that no secret can be in it, or which finders must read.

It errs to one side only: what a finder would find is never hidden by it, and what it lets through is judged by the
finder. With google-re2 one automaton reads all the texts of an event at once. Without it the rules alone decide, with
the same result and more time: plain searches for the words that every secret holds one of.
"""

import re as builtin_re
from collections.abc import Callable
from typing import Any, Final

from contract.secret_formats import NAME_LIMIT, NAME_NEEDLES, QUALIFIERS, holds_format, holds_name

try:
    import re2  # type: ignore[import-untyped]
except ImportError:
    re2 = None

ENGINE: Final[Any] = re2  # None where the wheel is not installed

# The finders of contract.secret_finders, in the order they run.
_AUTOMATON_BYTES: Final = 16 << 20  # the most one automaton may remember of its states; clean texts need a tenth
FINDERS: Final = ("formats", "userinfo", "named", "spoken", "bearers")

# Where a form may begin. A body is only counted where its own letters cannot begin another one: counts that overlap
# would multiply the states of the automaton.
_FORMS: Final = "|".join(
    (
        r"(?:AKIA|ASIA|ABIA|ACCA)[A-Z0-9]{16}",
        r"gh[pousr]_[A-Za-z0-9]{30}|github_pat_|gl(?:pat|dt|rt|rtr|ptt|ft|cbt|imt|agent|soat|oas|ffct)-[A-Za-z0-9_-]",
        r"xox[a-z]-[A-Za-z0-9-]|xapp-[A-Za-z0-9-]|hooks\.slack\.com/|discord(?:app)?\.com/api/webhooks/",
        r"[0-9]{8,10}:AA[A-Za-z0-9_-]|(?:sk|rk)_(?:live|test)_|whsec_",
        r"sk-(?:ant-|[A-Za-z0-9_-]*[A-Za-z0-9]{16})|tk_[A-Za-z0-9_-]*[0-9]",
        r"AIza[A-Za-z0-9_-]|ya29\.[A-Za-z0-9_-]|GOCSPX-|npm_[A-Za-z0-9]{36}|pypi-AgE|hf_[A-Za-z0-9]{30}",
        r"do[opr]_v1_|SG\.[A-Za-z0-9_-]{16}|hv[sb]\.[A-Za-z0-9_-]{24}|dapi[a-f0-9]{32}|dckr_pat_|ATATT3|lin_api_",
        r"gsk_[A-Za-z0-9]{40}|xai-[A-Za-z0-9]{40}|r8_[A-Za-z0-9]{36}|shp(?:at|ca|pa|ss)_[a-fA-F0-9]{32}",
        r"sq0(?:atp|csp)-|PMAK-[a-f0-9]{24}|AGE-SECRET-KEY-1",
        r"lsv2_(?:pt|sk)_|pplx-[A-Za-z0-9]{40}|tvly-[A-Za-z0-9]|pcsk_|csk-[A-Za-z0-9]{40}|jina_[A-Za-z0-9_-]|e2b_[a-f0-9]{40}",
        r"glsa_[A-Za-z0-9]{32}|glc_[A-Za-z0-9+/]{32}|sntry[su]_|dp\.(?:pt|st|ct|sa|scim|audit)\.|pul-[a-f0-9]{40}|pscale_",
        r"figd_|ntn_[A-Za-z0-9]{40}|tskey-[a-z]|NRAK-[A-Z0-9]{27}|xkeysib-|bkua_[a-f0-9]{40}",
        r"CCIPAT_|rubygems_[a-f0-9]{48}|sbp_[a-f0-9]{40}|sb_secret_|napi_[a-z0-9]{60}|nfp_[A-Za-z0-9]{36}|ops_eyJ",
    )
)
_JWT: Final = r"eyJ[A-Za-z0-9_-]*\.[A-Za-z0-9_-]{8}"

# What a name that promises a secret ends in: see name_kind, which reads the name word by word.
_ENDINGS: Final = (
    r"(?i:(?:password|passwd|pwd|passphrase|passcode|passwort|пароль|密码|口令|secret|apikey)s?|token|authorization"
    r"|(?:api|access|secret|private|account|auth|encryption|signing|shared|service|license|master|storage"
    r"|subscription)[_.\-\pN]*keys?)"
)
_WORDS: Final = ("auth", "credential", "credentials", "jwt", "bearer", "signature", "sig", "cookie", "cookies", "pass")
_WHOLE: Final = "|".join(
    (
        f"(?:^|[^A-Za-z])(?:{'|'.join(form for word in _WORDS for form in (word, word.upper()))})",
        f"(?:{'|'.join(word.capitalize() for word in _WORDS)})",
        f"[a-z](?:{'|'.join(word.upper() for word in _WORDS)})",
    )
)
_NAME: Final = rf"(?:{_ENDINGS}|{_WHOLE})(?:[_.\-\pN]*(?i:{'|'.join(QUALIFIERS)}))*[_.\-\pN]*"

COMPILED_LOOKS: Final[dict[str, str]] = {
    "formats": rf"(?:^|[^A-Za-z0-9])(?:{_FORMS})|(?:^|[^A-Za-z0-9_\-]){_JWT}|-----BEGIN [A-Z0-9 ]*PRIVATE KEY"
    r"|\.atlasv1\.",
    "userinfo": r"""://[^\s/:@"'`<>?#\\\[]*(?::[^\s"'`<>\\]+@|@)""",
    "named": rf"""{_NAME}(?:\\*["']?\]?(?:[ \t]*[:=][ \t]*[^\r\n \t]|, ?\\*["']))"""
    rf"|<[^\s<>]*{_NAME}>|--\S*{_NAME}[ \t]+[^\s\-]",
    "spoken": r"(?i:login \S+ password|(?:password|passphrase|passwd) (?:is|was)|identified by"
    r"|with (?:encrypted )?password) |sshpass -p|curl (?:[^\n]* )?-u",
    "bearers": r"(?:^|[^A-Za-z0-9])(?i:bearer) +[A-Za-z0-9_~+/.=\-]{16}",
}

# The look of the rules alone: a name that holds a needle, with something that joins it to a value.
_NAME_AND_JOIN: Final = builtin_re.compile(
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


_RULES: Final = (holds_format, _may_hold_userinfo, _may_hold_named, _may_hold_spoken, _may_hold_bearer)


class RulesScan:
    """The look of the rules alone."""

    name = "rules"

    def may_hold(self, text: str) -> bool:
        """Say whether any finder must read `text`."""
        lowered = text.lower()
        return any(look(lowered) for look in _RULES)

    def finders(self, text: str) -> tuple[bool, ...]:
        """Say of each of FINDERS whether it must read `text`."""
        lowered = text.lower()
        return tuple(look(lowered) for look in _RULES)


class CompiledScan:
    """The look of one automaton."""

    name = "re2"

    def __init__(self, engine: Any) -> None:
        options = engine.Options()
        options.max_mem, options.log_errors = _AUTOMATON_BYTES, False
        self._one: tuple[Callable[[bytes], object], ...] = tuple(
            engine.compile(COMPILED_LOOKS[finder].encode(), options).search for finder in FINDERS
        )
        whole = "|".join(f"(?:{COMPILED_LOOKS[finder]})" for finder in FINDERS)
        self._any: Callable[[bytes], object] = engine.compile(whole.encode(), options).search

    def may_hold(self, text: str) -> bool:
        """Say whether any finder must read `text`."""
        return self._any(text.encode("utf-8", "replace")) is not None

    def finders(self, text: str) -> tuple[bool, ...]:
        """Say of each of FINDERS whether it must read `text`."""
        encoded = text.encode("utf-8", "replace")
        return tuple([search(encoded) is not None for search in self._one])


RULES: Final = RulesScan()
SCAN: Final[RulesScan | CompiledScan] = RULES if ENGINE is None else CompiledScan(ENGINE)
