"""Decides what made-up knowledge a hints measurement searches: items varied from the corpora. Pure.

Words of a corpus item are replaced by words drawn from a vocabulary by rank as Zipf has it, so that some terms stand
in a large part of all items and most in a few. A slug ends with two words that count the items, so ids are unique.
The same seed gives the same items.
"""

import json
import re
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

from knowledge.drafts import ItemDraft, parse_draft

CORPORA = Path(__file__).resolve().parent.parent / "knowledge" / "evaluation" / "corpora"
VARIED = ("noisy", "ruff", "russian", "thefuck")
VOCABULARY = 150_000  # words; the tail is identifiers made of two
COUNTING = 1_100  # words that end a slug: two of them count this many squared
REPLACED = 0.4  # share of an item's words drawn anew
NAMES_FROM = 200  # rank of the most common word that an entity is named by; before it are everybody's words
TOKENS_LEFT = 420  # code points kept of a rule, so that it stays under its limit
STATES = ("confirmed",) * 16 + ("proposed",) * 3 + ("challenged",)
SERVERS = ("github", "postgres", "browser", "filesystem", "sentry", "jira", "kubernetes", "slack")
SECRET_LIKE = re.compile(r"secret|token|passw|key|auth|bearer|credential|://|=", re.IGNORECASE)  # refused in an item
JOINS = ("_", "-", ".", "::")


@dataclass(frozen=True, slots=True)
class Source:
    """What items are made from: the corpora's items, texts of failures, programs, and words by rank."""

    bases: tuple[ItemDraft, ...]
    failures: tuple[str, ...]
    programs: tuple[str, ...]
    words: tuple[str, ...]


def corpus_rows(kind: str, *names: str) -> list[dict[str, Any]]:
    """Return the rows of some corpora; `kind` is items or pairs."""
    paths = [CORPORA / f"{name}.{kind}.jsonl" for name in names]
    return [json.loads(line) for path in paths for line in path.read_text().splitlines()]


def source() -> Source:
    bases = tuple(parse_draft(row) for row in corpus_rows("items", *VARIED))
    pairs = corpus_rows("pairs", "ruff", "thefuck", "russian")
    failures = tuple(row["output"][:300].strip() for row in pairs if row["output"].strip())
    programs = [" ".join(row["command"].split()[:2]) for row in corpus_rows("pairs", "thefuck")]
    seen = Counter(word for base in bases for word in f"{base.proposition} {base.why}".split())
    seen.update(word for text in failures for word in text.split())
    frequent = [word for word, _ in seen.most_common() if not SECRET_LIKE.search(word)]
    return Source(bases, failures, tuple(dict.fromkeys(one for one in programs if one)), _with_tail(frequent))


def _with_tail(frequent: Sequence[str]) -> tuple[str, ...]:
    chance = Random("vocabulary")
    plain = [word for word in frequent if word.isalpha() and word.isascii() and len(word) > 2]
    words = dict.fromkeys(frequent)
    while len(words) < VOCABULARY:
        one, other = chance.choice(plain), chance.choice(plain)
        way = chance.randrange(len(JOINS) + 2)
        made = one.capitalize() + other.capitalize() if way == len(JOINS) else f"{one}{chance.randrange(1_000)}"
        words[f"{one.lower()}{JOINS[way]}{other.lower()}" if way < len(JOINS) else made] = None
    return tuple(words)


class Maker:
    """Makes the items of one project by their numbers."""

    def __init__(self, made_from: Source, seed: str) -> None:
        self._from = made_from
        self._seed = seed
        plain = dict.fromkeys(word.lower() for word in made_from.words if word.isalpha() and word.isascii())
        self._counting = [word for word in plain if 2 < len(word) < 9][:COUNTING]

    def item(self, number: int, base_number: int | None = None) -> tuple[ItemDraft, int]:
        """Return item `number` and the number of the corpus item it was varied from."""
        chance = Random(f"{self._seed}/{number}")
        place = chance.randrange(len(self._from.bases)) if base_number is None else base_number
        base = self._from.bases[place]
        server = chance.choice(SERVERS) if chance.random() < 0.02 else ""
        draft = replace(
            base,
            knowledge_id=self._slug(base.knowledge_id, number),
            proposition=self._varied(base.proposition, chance)[:TOKENS_LEFT],
            why=self._varied(base.why, chance)[:1_500],
            state=chance.choice(STATES),
            trigger="mcp.first_call" if server else "tool.failed" if chance.random() < 0.2 else "",
            tool=chance.choice(("bash", "python", "http")) if chance.random() < 0.1 else "",
            mcp_server=server,
            entities=tuple(self._entity(chance) for _ in range(chance.choice((0, 0, 0, 1, 1, 2)))),
            topics=base.topics or (self._topic(chance),),
            error_examples=(self._failure(chance),) if chance.random() < 0.2 else (),
        )
        return draft, place

    def _slug(self, base: str, number: int) -> str:
        words = self._counting
        return f"{base[:60]}-{words[number // len(words)]}-{words[number % len(words)]}"

    def _varied(self, text: str, chance: Random) -> str:
        return " ".join(self.word(chance) if chance.random() < REPLACED else word for word in text.split(" "))

    def word(self, chance: Random, first_rank: int = 1) -> str:
        """Return a word of that rank or a rarer one; that of rank r comes 1/r as often as the first."""
        words = self._from.words
        return words[int(first_rank * (len(words) / first_rank) ** chance.random()) - 1]

    def _entity(self, chance: Random) -> str:
        if chance.random() < 0.3:
            return self._from.programs[int(len(self._from.programs) ** chance.random()) - 1]
        words = [self.word(chance, NAMES_FROM) for _ in range(chance.choice((1, 2)))]
        return " ".join(words)[:200]

    def _topic(self, chance: Random) -> str:
        return self._counting[int(200 ** chance.random()) - 1]

    def _failure(self, chance: Random) -> str:
        return self._varied(chance.choice(self._from.failures), chance)
