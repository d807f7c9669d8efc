"""Takes from the search itself the numbers of the candidates of each question of a corpus, by meaning and by words."""

import math
from collections.abc import Mapping, Sequence

from django.conf import settings
from django.db import connections

from bench.gate_fit import OFFERED
from debugger.embedded.scratch import scratch_postgres
from debugger.preparation import prepare_schema
from debugger.settings import database_from_url
from knowledge.evaluation import data_sets
from knowledge.evaluation.measuring import scratch_project, tell_planner, without_item
from knowledge.evaluation.questions import OFFER_LIMIT, Question, hint_query, questions_of
from knowledge.evaluation.subjects import embeddings_off, make_vectors
from knowledge.find_hints.v3 import legs
from knowledge.find_hints.v3.asked import ask
from knowledge.find_hints.v3.scores import scored
from knowledge.models import KnowledgeItem

Numbers = dict[str, float]
Dumped = dict[str, list[list[Numbers]]]  # kind of question -> question -> candidates, the best first
BOTH = ("meaning", "words")
FOREIGN_LEAST = 300  # questions; of a small corpus as many as are answerable would say little


def gather(names: Sequence[str], sample: int) -> dict[str, dict[str, Dumped]]:
    """The numbers of all corpora: way of searching -> corpus -> kind -> question. In a database of its own."""
    found: dict[str, dict[str, Dumped]] = {way: {} for way in BOTH}
    before = dict(settings.DATABASES["default"])
    with scratch_postgres() as url:
        settings.DATABASES["default"].update(database_from_url(url))
        try:
            prepare_schema()
            for name in names:
                print(f"asking {name}", flush=True)
                for way, dumped in numbers_of(data_sets.load(name), sample).items():
                    found[way][name] = dumped
        finally:
            connections.close_all()
            settings.DATABASES["default"].update(before)
    return found


def numbers_of(data_set: data_sets.DataSet, sample: int) -> dict[str, Dumped]:
    """The numbers of one corpus, whose items are there only for this."""
    asked = questions_of(data_set.pairs, data_set.item_ids, data_set.foreign, sample, foreign_least=FOREIGN_LEAST)
    found: dict[str, Dumped] = {way: {"answerable": [], "held_out": [], "foreign": []} for way in BOTH}
    with scratch_project(data_set.drafts) as project_id:
        make_vectors(project_id)
        tell_planner()
        names = dict(KnowledgeItem.objects.filter(project_id=project_id).values_list("pk", "knowledge_id"))
        for question in asked.answerable + asked.held_out + asked.foreign:
            with without_item(project_id, question.taken_away):
                found["meaning"][question.kind].append(candidates(project_id, question, names))
                with embeddings_off():
                    found["words"][question.kind].append(candidates(project_id, question, names))
    return found


def candidates(project_id: int, question: Question, names: Mapping[int, str]) -> list[Numbers]:
    """The numbers of the best candidates by score, before anything else of them is judged."""
    query = hint_query(question.pair, 0, OFFER_LIMIT)
    asked = ask(query)
    found = legs.fetch(project_id, query, asked)
    rows = scored(found.terms, found.bags, found.cosines, by_meaning=found.by_meaning, known_script=found.known_script)
    rows.sort(key=lambda row: (-row.score, row.item_id))
    numbers = []
    for row in rows[:OFFERED]:
        known = {"overlap": row.overlap, "log_lexical": math.log1p(row.lexical), "share": row.share}
        if row.cosine is not None:
            known["cosine"] = row.cosine
        numbers.append({**known, "right": float(names[row.item_id] == question.right)})
    return numbers
