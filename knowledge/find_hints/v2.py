"""`lexical-entity-topic.v2`: entity, topic, phrase, shared terms, in that order. Pure, deterministic, frozen.

Frozen: answers given by this version must stay explainable, so a change is a new version (a test hashes this file).

What decides is what happened: the diagnostic of a failed tool, the server and tool of a first call, the task at
priming. A task was searched when its run began; at runtime it is searched again only when nothing else is given.
Tiers: 0 an entity of the item is named by the query or stands whole in what happened; 1 a topic is the query's;
2 a whole phrase of two tokens or more: an error example in what happened, or what happened in the rule; 3 two
terms shared with one line of it (one when there is only one). Order: tier, kind, state, id. (Seed 001 §9, §20.)
"""

import re
import unicodedata
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from knowledge.find_hints.findings import Finding, Findings, HintQuery, ItemView

VERSION = "lexical-entity-topic.v2"
MATCHER = "entity+topic+phrase+terms"
NEAR_DUPLICATE = 0.8  # Jaccard similarity of two rules' tokens
TOPIC_CAP = 2  # hints that may share a first topic
TERMS_SHOWN = 5  # shared terms named in a match reason
KINDS = {"claim": 0, "observation": 1}
STATES = {"confirmed": 0, "proposed": 1, "challenged": 2, "at_risk": 3}
RETIRED = ("invalidated", "superseded", "corrected")

WORD = re.compile(r"[\w-]+")
# Function words only. Negations stay (not, no, не, нет): they turn the meaning of an error round.
STOP_WORDS = """
    an the and or of to in on at by for from with as is are was were be been it its this that these those you your
    we our they their he she if then than so but do does did has have had can could will would should may might
    must there here what which who how when where why all any some
    и во на со ко об от до за из по под над при для без или но же ли бы то это этот эта эти как так что чтобы все
    всё он она оно они мы вы ты его её их ваш наш был была были есть быть если когда где кто
"""
STOP = frozenset(STOP_WORDS.split())
# Words that stand in every second diagnostic or rule: they make a phrase, but sharing them says nothing.
COMMON_WORDS = """
    not no не нет нельзя
    error errors failed failure failing fatal warning invalid line file files directory folder path command commands
    usage help see use used using run running exit_nonzero exit code status output input message traceback recent call
    last first next new old please try again name named found unable missing already exists such before after only
    into out up down over under more most other another also still yet same too many them following set make made get
    one two usr bin local home tmp tool executing list
    ошибка ошибки файл файла файлы команда команды строка строки каталог папка путь имя
"""
COMMON = frozenset(COMMON_WORDS.split())


def tokens(text: str) -> list[str]:
    """Return the tokens of `text` in order: lower-case runs of letters, digits, _ and -, longer than one."""
    runs = (run.strip("-") for run in WORD.findall(unicodedata.normalize("NFC", text).lower()))
    return [run for run in runs if len(run.strip("_")) > 1 and run not in STOP]


def terms(text: str) -> set[str]:
    """Return the tokens of `text` that say something when they are shared."""
    return {token for token in tokens(text) if token not in COMMON}


def name_of(entity: str) -> str:
    """Return an entity or topic in the form that is compared."""
    return " ".join(tokens(entity)) or entity.strip().lower()


def happened(query: HintQuery) -> str:
    """Return the text that decides: of the tool call at runtime triggers, else all that was asked."""
    texts: tuple[str, ...] = (query.tool_result, query.error_class)
    if query.trigger == "task.priming" or not any(texts):
        texts = (query.query, *texts)
    return "\n".join(texts)


def named(query: HintQuery) -> set[str]:
    """Return the entities a query names: its own, the tool, and at a first call the server."""
    first = query.mcp_server if query.trigger == "mcp.first_call" else ""
    return {name_of(name) for name in (*query.entities, query.tool, first) if name.strip()}


def entities_of(item: ItemView) -> tuple[str, ...]:
    """Return what an item is about by name: its entities, and the server whose first call it is for."""
    practice = item.trigger in ("", "mcp.first_call")
    return tuple(dict.fromkeys((*item.entities, item.mcp_server))) if practice and item.mcp_server else item.entities


def terms_of(item: ItemView) -> set[str]:
    """Return the terms an item can share: of its rule, entities and topics; error examples count whole."""
    return terms(" ".join((item.proposition, *item.entities, *item.topics)))


def lines_of(query: HintQuery) -> list[set[str]]:
    """Return the terms of each line that decides; words far apart in a long output say nothing together.

    The result of a successful first call is data and describes nothing: none of its lines decides.
    """
    if query.trigger == "mcp.first_call":
        return []
    return [found for line in happened(query).splitlines() if (found := terms(line))]


def terms_needed(lines: Sequence[set[str]]) -> int:
    """Return how many terms an item must share with a line: two, or the only one there is."""
    return min(2, len(set().union(*lines)))


def find(query: HintQuery, items: Iterable[ItemView], replacements: Mapping[str, ItemView]) -> Findings:
    """Judge `items` (any order) for `query`. `replacements`: id of a retired item -> the live one in its place."""
    asked = _Asked.of(query)
    matches = {item.knowledge_id: match for item in items if (match := _match(asked, item)) is not None}
    for match in list(matches.values()):
        other = replacements.get(match.item.knowledge_id)
        if match.item.state in RETIRED and other is not None:
            found = matches.get(other.knowledge_id)
            matches[other.knowledge_id] = _in_its_place(match, other, found)
    ranked = sorted(matches.values(), key=_order)
    return Findings(VERSION, MATCHER, _judge(query, ranked))


@dataclass(frozen=True, slots=True)
class _Asked:
    """A query made ready: what happened as tokens with their places and as lines of terms, and what it names."""

    text: tuple[str, ...]
    places: Mapping[str, Sequence[int]]
    lines: Sequence[set[str]]
    names: frozenset[str]
    topics: frozenset[str]

    @classmethod
    def of(cls, query: HintQuery) -> "_Asked":
        words = tuple(tokens(happened(query)))
        places: dict[str, list[int]] = {}
        for place, word in enumerate(words):
            places.setdefault(word, []).append(place)
        topics = frozenset(map(name_of, query.topics))
        return cls(words, places, lines_of(query), frozenset(named(query)), topics)

    def holds(self, phrase: Sequence[str]) -> bool:
        """Return whether the tokens of `phrase` stand in what happened, in a row."""
        count = len(phrase)
        starts = self.places.get(phrase[0], ()) if phrase else ()
        return any(self.text[place : place + count] == tuple(phrase) for place in starts)


@dataclass(frozen=True, slots=True)
class _Match:
    item: ItemView
    tier: int
    reasons: tuple[str, ...]
    n_shared: int


def _match(asked: _Asked, item: ItemView) -> _Match | None:
    reasons: list[tuple[int, str]] = []
    for entity in entities_of(item):
        if name_of(entity) in asked.names or asked.holds(tokens(entity)):
            reasons.append((0, f"entity:{entity}"))
    reasons += [(1, f"topic:{topic}") for topic in item.topics if name_of(topic) in asked.topics]
    phrase = _phrase_reason(asked, item)
    if phrase:
        reasons.append((2, phrase))
    own = terms_of(item)
    shared = max((own & line for line in asked.lines), key=len, default=set())
    if shared and len(shared) >= terms_needed(asked.lines):
        shown = sorted(shared)[:TERMS_SHOWN]
        reasons.append((3, f"terms:{', '.join(shown)}"))
    if not reasons:
        return None
    return _Match(item, min(tier for tier, _ in reasons), tuple(reason for _, reason in reasons), len(shared))


def _phrase_reason(asked: _Asked, item: ItemView) -> str:
    examples = (tokens(example) for example in item.error_examples)
    if any(len(example) >= 2 and asked.holds(example) for example in examples):
        return "phrase:error example"
    words = tokens(item.proposition)
    count = len(asked.text)
    rows = (tuple(words[place : place + count]) for place in range(len(words) - count + 1))
    return "phrase:query" if asked.lines and count >= 2 and asked.text in rows else ""


def _in_its_place(retired: _Match, other: ItemView, found: _Match | None) -> _Match:
    """Return the match of the live item that replaces a retired one; it keeps a better match of its own."""
    reason = f"replaces:{retired.item.knowledge_id}"
    if found is None:
        return _Match(other, retired.tier, (reason, *retired.reasons), retired.n_shared)
    return _Match(other, min(found.tier, retired.tier), (reason, *found.reasons), found.n_shared)


def _order(match: _Match) -> tuple[int, int, int, str]:
    item = match.item
    return match.tier, KINDS.get(item.kind, len(KINDS)), STATES.get(item.state, len(STATES)), item.knowledge_id


def _judge(query: HintQuery, ranked: Sequence[_Match]) -> tuple[Finding, ...]:
    """Walk down the ranking, say of each candidate whether it is offered or why not; the offered come first."""
    offered: list[_Match] = []
    held: list[tuple[_Match, str]] = []
    for match in ranked:
        reason = _own_reason(query, match.item) or _relative_reason(match.item, [other.item for other in offered])
        if not reason and len(offered) >= query.limit:
            reason = "limit"
        if reason:
            held.append((match, reason))
        else:
            offered.append(match)
    verdicts = [*((match, "") for match in offered), *held]
    return tuple(
        Finding(match.item, rank, match.reasons, {"tier": match.tier, "shared_terms": match.n_shared}, reason)
        for rank, (match, reason) in enumerate(verdicts, 1)
    )


def _own_reason(query: HintQuery, item: ItemView) -> str:
    """Return why an item cannot be offered whatever else was found, or an empty string."""
    skills = {name_of(skill) for skill in query.active_skills}
    checks = (
        (item.knowledge_id in query.issued, "already_issued"),
        (item.knowledge_id in query.offered_before, "offered_in_batch"),
        (item.state in RETIRED, "retired"),
        (item.state == "at_risk", "ineligible_state"),
        (item.suspended and query.trigger != "task.priming", "suspended"),
        (_out_of_scope(query, item), "scope_mismatch"),
        (item.knowledge_id in query.suppressed, "suppressed"),
        (not skills.isdisjoint(map(name_of, (*item.topics, *item.entities))), "skill_active"),
    )
    return next((reason for applies, reason in checks if applies), "")


def _out_of_scope(query: HintQuery, item: ItemView) -> bool:
    pairs = ((item.trigger, query.trigger), (item.tool, query.tool), (item.mcp_server, query.mcp_server))
    return any(scope and scope.lower() != asked.lower() for scope, asked in pairs)


def _relative_reason(item: ItemView, offered: Sequence[ItemView]) -> str:
    """Return why an item adds nothing to those offered before it, or an empty string."""
    text = _plain(item.proposition)
    if any(_plain(other.proposition) == text for other in offered):
        return "duplicate_text"
    words = set(tokens(item.proposition))
    if any(_similarity(words, set(tokens(other.proposition))) >= NEAR_DUPLICATE for other in offered):
        return "near_duplicate"
    first = [name_of(other.topics[0]) for other in offered if other.topics]
    if item.topics and Counter(first)[name_of(item.topics[0])] >= TOPIC_CAP:
        return "topic_cap"
    return ""


def _plain(text: str) -> str:
    return " ".join(text.split()).lower()


def _similarity(one: set[str], other: set[str]) -> float:
    return len(one & other) / len(one | other) if one or other else 0.0
