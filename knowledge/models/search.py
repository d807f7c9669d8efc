"""What `hybrid.v3` finds items by: one row an item, and in how many items of a project each term stands.

Written only by `knowledge/search_rows.py`, with the item itself; the vectors follow in the background.
"""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models import Q
from pgvector.django import HalfVectorField

from ingest.models import Project
from knowledge.models.items import KnowledgeItem


class SearchRow(models.Model):
    """The current revision of an item as the search sees it. Keys name the project: an index meets no other's items."""

    item = models.OneToOneField(KnowledgeItem, on_delete=models.CASCADE, primary_key=True, related_name="search")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    revision = models.PositiveIntegerField(help_text="the number of the revision that was read")
    keys = ArrayField(models.TextField(), default=list, help_text="terms, names, fingerprints and codes it is found by")
    bag = models.TextField(default="", help_text="its terms, each followed by its weight")

    class Meta:
        indexes = [GinIndex(fields=["keys"], name="search_row_keys", fastupdate=False)]


class ItemEmbedding(models.Model):
    """The vector of an item's current text; apart from the search row, so that a scan of vectors reads nothing else."""

    item = models.OneToOneField(KnowledgeItem, on_delete=models.CASCADE, primary_key=True, related_name="embedding")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    model = models.CharField(max_length=100, default="", help_text="that made the vector; empty: it is still to come")
    vector = HalfVectorField(null=True, help_text="of length 1; null until it is made, or if the model cannot read it")

    class Meta:
        indexes = [models.Index(fields=["project"], name="item_embedding_pending", condition=Q(model=""))]


class TermCount(models.Model):
    """In how many items of a project a term stands; the empty term counts the items."""

    pk = models.CompositePrimaryKey("project_id", "term")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    term = models.TextField()
    n_items = models.BigIntegerField()
