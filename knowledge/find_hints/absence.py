"""Says in one sentence or two why a named item is no candidate of a query, for people who expected it."""

from knowledge import embeddings
from knowledge.find_hints.candidates import load
from knowledge.find_hints.findings import HintQuery, ItemView
from knowledge.find_hints.v3 import engine as v3
from knowledge.find_hints.v3.asked import Asked, ask
from knowledge.find_hints.v3.index import index_item, name_of
from knowledge.find_hints.v3.legs import query_vector
from knowledge.find_hints.v3.verdicts import MEANING_SHOWN
from knowledge.models import ItemEmbedding

SHOWN = 5  # shared words that are named


def explain_absence(project_id: int, query: HintQuery, version: str, knowledge_id: str) -> str:
    """Return why the item was not considered at all; of a candidate its reason stands with it."""
    found = load(project_id, [knowledge_id])
    if not found:
        return "This project has no item of that id."
    if query.trigger == "mcp.first_call":
        return _at_first_call(query, found[0])
    asked = ask(query)
    if not asked.weights:
        return "Nothing was asked that has words to compare."
    terms = sorted(asked.weights.keys() & index_item(project_id, found[0]).bag.keys())
    shared = ", ".join(asked.words.get(term, term) for term in terms[:SHOWN])
    if version != v3.VERSION:
        told = f"It shares only {shared} with what happened." if shared else _NOTHING
        return f"{told} This version compares words alone."
    told = f"It shares {shared} with what happened, and many items match better." if shared else _NOTHING
    return f"{told} {_meaning(project_id, query, asked, found[0])}"


_NOTHING = "It shares no word with what happened."


def _at_first_call(query: HintQuery, item: ItemView) -> str:
    if not query.mcp_server.strip():
        return "At the first call of a server only the server's name decides, and none was given."
    if item.mcp_server and name_of(item.mcp_server) == name_of(query.mcp_server):
        return f"It is about this server, but for the trigger {item.trigger}: at a first call it is not considered."
    return "At the first call of a server only the server's name decides, and the item does not name it."


def _meaning(project_id: int, query: HintQuery, asked: Asked, item: ItemView) -> str:
    if not embeddings.enabled():
        return "Meaning is not compared here: embeddings are switched off."
    row = ItemEmbedding.objects.filter(project_id=project_id, item__knowledge_id=item.knowledge_id).first()
    if row is None or not row.model:
        return "Its meaning could not be compared: its vector is still to be made."
    if row.vector is None:
        return "Its meaning could not be compared: the embedding model does not know its language."
    known_script = not asked.texts or embeddings.readable(asked.texts[0])
    vector, _ = query_vector(query, asked, known_script)
    if vector is None and not known_script:
        return "Meaning was not compared: the embedding model does not know the language of what happened."
    if vector is None:
        return "Meaning could not be compared: the embedding model could not be used."
    cosine = sum(one * other for one, other in zip(row.vector, vector.tolist(), strict=True))
    if cosine < MEANING_SHOWN:
        return f"By meaning it is too far: {cosine:.2f}, where {MEANING_SHOWN} is the least that counts."
    return f"By meaning ({cosine:.2f}), other items are nearer."
