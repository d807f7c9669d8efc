"""Says in one sentence why a named item is no candidate of a query, for people who expected it."""

from knowledge import embeddings
from knowledge.find_hints.candidates import load
from knowledge.find_hints.findings import HintQuery, ItemView
from knowledge.find_hints.v3 import engine as v3
from knowledge.find_hints.v3.asked import ask
from knowledge.find_hints.v3.index import index_item
from knowledge.models import ItemEmbedding


def explain_absence(project_id: int, query: HintQuery, version: str, knowledge_id: str) -> str:
    """Return why the item was not considered at all; of a candidate its reason stands with it."""
    found = load(project_id, [knowledge_id])
    if not found:
        return "This project has no item of that id."
    if query.trigger == "mcp.first_call":
        return "At the first call of a server only the server's name decides, and the item does not name it."
    shared = sorted(set(ask(query).words) & index_item(project_id, found[0]).bag.keys())
    if version != v3.VERSION:
        told = f"It shares only {', '.join(shared[:5])} with what happened." if shared else _NOTHING
        return f"{told} This version compares words alone."
    if not shared:
        return f"{_NOTHING} {_meaning(project_id, found[0])}"
    return (
        f"It shares {', '.join(shared[:5])} with what happened, and many items match better. "
        f"{_meaning(project_id, found[0])}"
    )


_NOTHING = "It shares no word with what happened."


def _meaning(project_id: int, item: ItemView) -> str:
    if not embeddings.enabled():
        return "Meaning is not compared here: embeddings are switched off."
    row = ItemEmbedding.objects.filter(project_id=project_id, item__knowledge_id=item.knowledge_id).first()
    if row is None or not row.model:
        return "Its meaning could not be compared: its vector is still to be made."
    if row.vector is None:
        return "Its meaning could not be compared: the embedding model does not know its language."
    return "By meaning, other items are nearer."
