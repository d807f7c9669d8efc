"""`hybrid.v3`: exact matches, terms by rarity, and meaning, behind a gate that is silent when nothing fits. Frozen.

Frozen: answers given by this version must stay explainable, so a change is a new version (a test hashes its files).
`words` and `index` say what an item is found by, `asked` what a query says, `legs` fetches candidates, `scores` puts
numbers to them, `verdicts` decides. (Seed 001 §9, §20.)
"""

from collections.abc import Mapping
from typing import Final

from knowledge.find_hints import candidates
from knowledge.find_hints.findings import Findings, HintQuery, ItemView, lift_suppressions
from knowledge.find_hints.v3 import legs
from knowledge.find_hints.v3.asked import ask
from knowledge.find_hints.v3.scores import GATE, Scored, scored
from knowledge.find_hints.v3.verdicts import RETIRED, Match, codes_held, in_its_place, judge, match

VERSION: Final = "hybrid.v3"
JUDGED: Final = 30  # candidates that are loaded and judged: so many found exactly, so many by score
PHRASED_JUDGED: Final = 10  # and so many by how a phrase of theirs starts


def search(project_id: int, query: HintQuery, *, gated: bool = True) -> Findings:
    """Search a project's knowledge. Without `gated` the gate lets everything pass."""
    asked = ask(query)
    found = legs.fetch(project_id, query, asked)
    numbers = {
        one.item_id: one
        for one in scored(
            found.terms,
            found.bags,
            found.cosines,
            by_meaning=found.by_meaning,
            known_script=found.known_script,
            is_task=asked.is_task,
        )
    }
    items = candidates.load_by_pk(_worth_judging(found, numbers))
    replacements = candidates.fetch_replacements(project_id, list(items.values()))
    query = lift_suppressions(query, (*items.values(), *replacements.values()))
    codes = codes_held(asked, [item for pk, item in items.items() if pk in found.exact])
    matches = {
        item.knowledge_id: match(asked, item, numbers[pk], codes, named=pk in found.named) for pk, item in items.items()
    }
    matches = _replaced({name: one for name, one in matches.items() if one.reasons}, replacements)
    legs_used = ("exact", "terms", "meaning") if found.by_meaning else ("exact", "terms")
    gate = GATE if gated else 0.0
    return Findings(VERSION, "+".join(legs_used), judge(query, list(matches.values()), gate), gate, found.notes)


def _worth_judging(found: legs.Found, numbers: Mapping[int, Scored]) -> list[int]:
    """Return the items to load: found exactly, best by score, and best of those of which a phrase may stand whole."""
    best = sorted(numbers, key=lambda pk: (-numbers[pk].score, pk))
    exact = [pk for pk in best if pk in found.exact]
    phrased = [pk for pk in best if pk in found.named]
    return list(dict.fromkeys((*exact[:JUDGED], *best[:JUDGED], *phrased[:PHRASED_JUDGED])))


def _replaced(matches: dict[str, Match], replacements: dict[str, ItemView]) -> dict[str, Match]:
    """Put the live item in the place of each retired one that has one; the retired one stays, to be explained."""
    for _, one in sorted(matches.items()):
        other = replacements.get(one.item.knowledge_id)
        if one.item.state in RETIRED and other is not None:
            matches[other.knowledge_id] = in_its_place(one, other, matches.get(other.knowledge_id))
    return matches
