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
from knowledge.find_hints.v3.words import terms

WHY_WEIGHT: Final = 0.5  # of a term in the reasons given for a rule, beside 1 in the rule itself
KEY_LIMIT: Final = 200  # code points of a key; an index entry must stay short
CODES_LIMIT: Final = 20  # error codes read of one text
_UNSTORABLE: Final = re.compile(r"[\x00\ud800-\udfff]")  # what PostgreSQL takes for no text
# Letters, then at least three digits: E501, TS2304, ORA-00942; or the name of an errno.
_CODE: Final = re.compile(r"(?<![\w\-/.])(?:[A-Z]{1,6}-?\d{3,6}|E(?:[A-Z]{4,14}))(?![\w\-])")
_NO_CODES: Final = frozenset(("ERROR", "ERRORS", "EVERY", "EMPTY", "EXIT", "EITHER", "ENTER", "EVENT", "EXAMPLE"))


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
        found = tuple(terms(text))
        if len(found) >= 2:
            yield found


def start_of(phrase: tuple[str, ...]) -> str:
    return " ".join(phrase[:2])


def servers_of(item: ItemView) -> Iterable[str]:
    """Return the MCP server whose first call an item is for."""
    return (item.mcp_server,) if item.mcp_server and item.trigger in ("", "mcp.first_call") else ()


def name_of(name: str) -> str:
    """Return an entity, a topic or a server in the form that is compared."""
    return " ".join(terms(name)) or _UNSTORABLE.sub("\ufffd", name.strip().lower())


def prints_of(text: str) -> Iterable[str]:
    """Return the fingerprint of a text as a short digest; of an empty one none."""
    exact = fingerprint(text).exact
    if exact:
        yield hashlib.sha256(exact.encode("utf-8", "replace")).hexdigest()[:24]


def codes_of(text: str) -> list[str]:
    """Return the error codes of a text, each once."""
    found = dict.fromkeys(match[0] for match in _CODE.finditer(text))
    return [code for code in found if code not in _NO_CODES][:CODES_LIMIT]


def keyed(project_id: int, keys: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({f"{project_id}:{key[:KEY_LIMIT]}" for key in keys}))
