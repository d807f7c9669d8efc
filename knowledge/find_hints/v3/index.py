"""What an item is found by: its terms with weights, the keys of the index, and the text that is embedded. Pure.

Keys: `t:` a term; `n:` a name (entity, topic, tool) as a sender may give it; `p:` the first two terms of a phrase
that may stand whole in what happened; `f:` the fingerprint of an error example; `c:` an error code; `m:` the MCP
server the item is about. Each is preceded by the project, so that an index meets no other project's items.
"""

import hashlib
import re
from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Final

from contract.fingerprint import fingerprint
from knowledge.find_hints.findings import ItemView
from knowledge.find_hints.v2 import COMMON
from knowledge.find_hints.v3.words import sequence, terms

WHY_WEIGHT: Final = 0.5  # of a term in the reasons given for a rule, beside 1 in the rule itself
KEY_LIMIT: Final = 200  # code points of a key; an index entry must stay short
CODES_LIMIT: Final = 20  # error codes read of one text
_MASK: Final = re.compile(r"<\w{1,20}>")  # what a fingerprint has in the place of ids, times and numbers
_UNSTORABLE: Final = re.compile(r"[\x00\ud800-\udfff]")  # what PostgreSQL takes for no text
# Letters, then at least three digits: E501, TS2304, ORA-00942; or the name of an errno.
_CODE: Final = re.compile(r"(?<![\w\-/.])(?:[A-Z]{1,6}-?\d{3,6}|E(?:[A-Z]{4,14}))(?![\w\-])")
# Hashes, ciphers, standards, encodings and time zones look like codes, and stand in outputs of all kinds.
_NO_CODE: Final = re.compile(r"(?:SHA|AES|DES|RSA|ED|RFC|ISO|IEC|IEEE|CP|GB|X|H|UTC|GMT)-?\d+")
# Names of errno and of npm; EXISTS, EXPLAIN and the like are words.
_ERRNOS: Final = frozenset(
    """
    EACCES EADDRINUSE EADDRNOTAVAIL EAFNOSUPPORT EAGAIN EALREADY EBADF EBADMSG EBUSY ECANCELED ECANCELLED ECHILD
    ECONNABORTED ECONNREFUSED ECONNRESET EDEADLK EDEADLOCK EDESTADDRREQ EDQUOT EEXIST EFAULT EFBIG EHOSTDOWN
    EHOSTUNREACH EILSEQ EINPROGRESS EINTR EINVAL EISCONN EISDIR EKEYEXPIRED EKEYREJECTED EKEYREVOKED ELOOP EMFILE EMLINK
    EMSGSIZE ENAMETOOLONG ENETDOWN ENETRESET ENETUNREACH ENFILE ENOBUFS ENODATA ENODEV ENOENT ENOEXEC ENOKEY ENOLCK
    ENOMEDIUM ENOMEM ENONET ENOPKG ENOPROTOOPT ENOSPC ENOSYS ENOTBLK ENOTCONN ENOTDIR ENOTEMPTY ENOTFOUND ENOTSOCK
    ENOTSUP ENOTTY ENXIO EOPNOTSUPP EOVERFLOW EOWNERDEAD EPERM EPFNOSUPPORT EPIPE EPROTO EPROTONOSUPPORT EPROTOTYPE
    ERANGE EREMOTEIO ERESTART EROFS ESHUTDOWN ESOCKETTIMEDOUT ESPIPE ESRCH ESTALE ETIMEDOUT ETXTBSY EUCLEAN EUSERS
    EWOULDBLOCK EXDEV EBADENGINE EBADPLATFORM EINTEGRITY EINVALIDTAGNAME EJSONPARSE ELIFECYCLE EMISSINGARG ENEEDAUTH
    ENOAUDIT ENOLOCK ENOSELF ENOVERSIONS ENOWORKSPACES EPUBLISHCONFLICT ERESOLVE ETARGET EUNSUPPORTEDPROTOCOL EUSAGE
    EWORKSPACESCONFIG
    """.split()  # noqa: SIM905 - a column of a hundred quoted names would be read by nobody
)


_HUMPS: Final = re.compile(r"(?:\w+\.)*[A-Z][a-z0-9]+[A-Z][A-Za-z0-9]*")


@dataclass(frozen=True, slots=True)
class Indexed:
    """An item made ready for the search."""

    bag: Mapping[str, float]
    keys: tuple[str, ...]
    text: str


def index_item(project_id: int, item: ItemView) -> Indexed:
    """Return what the current revision of an item is found by."""
    said = (item.knowledge_id, item.proposition, *item.entities, *item.topics, *item.error_examples)
    bag: Counter[str] = Counter()
    for term in terms("\n".join(said)):
        bag[term] += 1
    for term in terms(item.why):
        bag[term] += WHY_WEIGHT  # type: ignore[assignment] # a counter adds what numbers there are
    named = (*item.entities, *item.topics)
    keys = {
        *(f"t:{term}" for term in bag),
        *(f"n:{name_of(name)}" for name in named),
        *(f"p:{start}" for phrase in phrases_of(item) if (start := start_of(phrase))),
        *(f"f:{print_}" for example in item.error_examples for print_ in prints_of(example)),
        *(f"c:{code}" for code in codes_of("\n".join((*item.entities, *item.error_examples)))),
        *(f"m:{name_of(server)}" for server in servers_of(item)),
    }
    return Indexed(dict(bag), keyed(project_id, keys), text_of(item))


def text_of(item: ItemView) -> str:
    """Return the text of an item that is embedded: what it is called, its rule, the reasons for it."""
    called = re.sub(r"[_\-]+", " ", item.knowledge_id)
    return f"{called}: {item.proposition} {item.why}".strip()


def phrases_of(item: ItemView) -> Iterable[tuple[str, ...]]:
    """Return the terms of each text of an item that says something when it stands whole in what happened."""
    for text in (*item.entities, *item.error_examples):
        found = phrase_of(text)
        if found:
            yield found


def phrase_of(text: str) -> tuple[str, ...]:
    """Return the terms of a text that says something when it stands whole; none of `exit code` or `node_modules`.

    That is three words or more, or two of which one does not stand in every second diagnostic; of single words the
    names of errors, which are written in humps (`UndefinedTable`).
    """
    found, words = tuple(sequence(text)), text.lower().split()
    several = len(words) > 2 or (len(words) == 2 and not COMMON.issuperset(words))
    return found if len(found) >= 2 and (several or _HUMPS.fullmatch(text.strip())) else ()


def start_of(phrase: tuple[str, ...]) -> str:
    return " ".join(phrase[:2])


def servers_of(item: ItemView) -> Iterable[str]:
    """Return the MCP server whose first call an item is for."""
    return (item.mcp_server,) if item.mcp_server and item.trigger in ("", "mcp.first_call") else ()


def name_of(name: str) -> str:
    """Return an entity, a topic or a server in the form that is compared."""
    return " ".join(terms(name)) or _UNSTORABLE.sub("\ufffd", name.strip().lower())


def prints_of(text: str, *, is_all: bool = True) -> Iterable[str]:
    """Return the fingerprint of a text as a short digest; none where it says nothing that could be recognised.

    One word says something where it is all that was printed (`Killed`), not as a line among others; masks never do.
    """
    exact = fingerprint(text).exact
    n_terms = len(set(terms(_MASK.sub(" ", exact))))
    if n_terms >= (1 if is_all and "\n" not in text.strip() else 2):
        yield hashlib.sha256(exact.encode("utf-8", "replace")).hexdigest()[:24]


def codes_of(text: str) -> list[str]:
    """Return the error codes of a text, each once."""
    found = dict.fromkeys(match[0] for match in _CODE.finditer(text))
    return [code for code in found if _is_code(code)][:CODES_LIMIT]


def _is_code(found: str) -> bool:
    return found in _ERRNOS if found.isalpha() else not _NO_CODE.fullmatch(found)


def keyed(project_id: int, keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({f"{project_id}:{key[:KEY_LIMIT]}" for key in keys}))
