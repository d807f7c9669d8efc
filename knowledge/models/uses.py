"""What is known of the use of items: reported counts by item, and a number that says whether knowledge has changed.

Written only by `knowledge/projection.py`. (Seed 001 §13.)
"""

from django.db import models

from ingest.models import Project


class ItemCounts(models.Model):
    """How often runs reported the use and the outcome of an item: of kept runs and of those retention took away."""

    pk = models.CompositePrimaryKey("project_id", "knowledge_id")
    project = models.ForeignKey(Project, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    knowledge_id = models.TextField()
    n_used = models.BigIntegerField(default=0)
    n_ignored = models.BigIntegerField(default=0)
    n_helpful = models.BigIntegerField(default=0)
    n_harmful = models.BigIntegerField(default=0)
    n_neutral = models.BigIntegerField(default=0)


class KnowledgeVersion(models.Model):
    """A number that only grows, by one with each transaction that changed what is known in the project."""

    project = models.OneToOneField(
        Project, on_delete=models.DO_NOTHING, db_constraint=False, primary_key=True, related_name="+"
    )
    version = models.BigIntegerField(default=0)
