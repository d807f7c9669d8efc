"""A query made ready: which of its text decides, its terms with weights, its keys, and the texts to embed. Pure.

What decides is what happened. At runtime the command, or what else the tool was called with, stands beside its
output; where a sender does not say it, a short `query` counts as the command. A long one is the task, which was
searched when the run began. In a long output the lines that say what went wrong count more than the others.
"""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import Final

from contract.signature import plain, signature
from knowledge.find_hints.findings import HintQuery
from knowledge.find_hints.v3.called import command_of
from knowledge.find_hints.v3.index import codes_of, name_of, prints_of
from knowledge.find_hints.v3.words import sequence, spelled, terms

ASKED_IN_WORDS: Final = ("task.priming", "agent.search")  # triggers whose query is the question
COMMAND_WORDS: Final = 12  # a runtime query of more words is a task
COMMAND_TAKEN: Final = 3  # words of a command that say what it is: program, subcommand, object
LONG: Final = 600  # code points; of a longer output lines are chosen
TELLING_LINES: Final = 6
LINES_PRINTED: Final = 40  # lines whose fingerprint is compared
REST_WEIGHT: Final = 0.25  # of a term that stands in other lines of a long output only
REST_READ: Final = 2_000  # code points of those
END_READ: Final = 2_000  # code points at each end

# TimeoutError, 42P01: a name of the error. exit_nonzero, timeout: a word of the sender's for many of them.
_NAMES_ERROR: Final = re.compile("[A-Z0-9]")
# What stands before the command proper: a shell that runs it, a change of folder, settings.
_PREPARING: Final = re.compile(
    r"^\s{0,20}(?:(?:/\S{1,40}/)?(?:ba|z|da|k)?sh\s{1,4}-l?c\s{1,4})?['\"]?"
    r"(?:\s{0,4}(?:cd|export|source|set|\w{1,60}=\S{0,200})\b[^&;|\n]{0,400}(?:&&|;)){0,8}\s{0,4}"
)
_BARE: Final = re.compile(r"[\w./\-]+")
_GENERAL_TOOLS: Final = frozenset(("shell", "bash", "sh", "terminal", "exec", "run", "command", "cmd", "powershell"))


@dataclass(frozen=True, slots=True)
class Asked:
    """What a query says.

    `weights`: term -> weight; `words`: term -> the word as it was written; `row`: the terms of what happened in order,
    `places`: term -> where in the row; `texts`: what to embed, whose sum says it;
    `is_task`: no output is given, what is asked is to be done.
    """

    weights: Mapping[str, float]
    words: Mapping[str, str]
    row: tuple[str, ...]
    places: Mapping[str, Sequence[int]]
    names: frozenset[str]
    topics: frozenset[str]
    prints: frozenset[str]
    codes: tuple[str, ...]
    server: str
    texts: tuple[str, ...]
    is_task: bool = False

    def holds(self, phrase: Sequence[str]) -> bool:
        """Return whether the terms of a phrase stand in what happened, in a row."""
        count = len(phrase)
        starts = self.places.get(phrase[0], ()) if phrase else ()
        return any(self.row[place : place + count] == tuple(phrase) for place in starts)


def ask(query: HintQuery) -> Asked:
    """Make a query ready. The result of a successful first call is data: its server decides, none of its text."""
    names = {name_of(name) for name in query.entities if name.strip()}
    topics = frozenset(name_of(name) for name in query.topics if name.strip())
    if query.trigger == "mcp.first_call":
        names |= {name_of(name) for name in (query.tool,) if name.strip()}
        server = name_of(query.mcp_server) if query.mcp_server.strip() else ""
        return Asked({}, {}, (), {}, frozenset(names), topics, frozenset(), (), server, ())
    said, beside = _said(query)
    telling = _telling(said)
    around = " ".join((beside, *(() if query.tool.lower() in _GENERAL_TOOLS else (query.tool,))))
    weights = _weights(said, telling, around)
    lines = [line for line in (*telling.splitlines(), *said.splitlines()) if line.strip()][:LINES_PRINTED]
    row = tuple(sequence(_phrased(said, telling)))
    return Asked(
        weights=weights,
        words=spelled(f"{said}\n{around}"),
        row=row,
        places=_places(row),
        names=frozenset(names),
        topics=topics,
        prints=frozenset((*prints_of(said), *(one for line in lines for one in prints_of(line, is_all=False)))),
        codes=tuple(codes_of(said)),
        server="",
        texts=_texts(telling, beside),
        is_task=not query.tool_result.strip(),
    )


def _said(query: HintQuery) -> tuple[str, str]:
    """Return what happened, and what stands beside it. Without an output the query alone says it."""
    named = query.error_class if _NAMES_ERROR.search(query.error_class) else ""
    if not query.tool_result.strip():
        return "\n".join(text for text in (query.query, named) if text.strip()), ""
    said = "\n".join(text for text in (plain(query.tool_result), named) if text.strip())
    return said, query.query if query.trigger in ASKED_IN_WORDS else _beside(query)


def _beside(query: HintQuery) -> str:
    """Return the words of a command that say what it is, without paths, flags and values; nothing of a task.

    What the tool was called with is the command, whatever the query is.
    """
    told = query.tool_arguments.strip()
    given = _PREPARING.sub("", command_of(told) if told else query.query).split(maxsplit=COMMAND_WORDS)
    if len(given) > COMMAND_WORDS and not told:
        return ""
    taken: list[str] = []
    for word in given[:COMMAND_WORDS]:
        if word == "sudo" or word.startswith("-") or not _BARE.fullmatch(word):
            continue
        if not taken:
            taken.append(word.rsplit("/", 1)[-1])
        elif not re.search(r"[./]", word[1:]):
            taken.append(word)
        if len(taken) == COMMAND_TAKEN:
            break
    return " ".join(taken)


def _telling(said: str) -> str:
    """Return a short text as it is, of a long one the lines that say what went wrong."""
    if len(said) <= LONG:
        return said
    return "\n".join(islice(signature(said), TELLING_LINES)) or said[-LONG:]


def _phrased(said: str, telling: str) -> str:
    """Return the text in which names and phrases are looked for whole: of a long one its ends, and what tells."""
    if len(said) <= 2 * END_READ:
        return said
    return "\n".join((telling, said[:END_READ], said[-END_READ:]))


def _places(row: Sequence[str]) -> dict[str, list[int]]:
    places: dict[str, list[int]] = {}
    for place, term in enumerate(row):
        places.setdefault(term, []).append(place)
    return places


def _weights(said: str, telling: str, around: str) -> dict[str, float]:
    weights = dict.fromkeys(terms(telling), 1.0)
    if telling is not said:
        for term in terms(said[-REST_READ:]):
            weights.setdefault(term, REST_WEIGHT)
    for term in dict.fromkeys(terms(around)):
        weights[term] = weights.get(term, 0.0) + 1.0
    return weights


def _texts(telling: str, beside: str) -> tuple[str, ...]:
    """Return the texts to embed: what was said, alone and behind the command; their sum says both."""
    if not telling.strip():
        return ()
    adds = set(terms(beside)) - set(terms(telling))
    return (telling, f"{beside}\n{telling}") if adds else (telling,)
