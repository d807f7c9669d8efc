"""Knowledge items, their immutable revisions and lifecycle changes, and answers kept for idempotent retries.

Written only by `knowledge/items.py` (items) and `knowledge/offering.py` (answers). (Seed 001 §7, §13.)
"""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models
from django.db.models.functions import Now

from contract import stages
from ingest.models import Project

STATES = list(stages.ITEM_STATES.items())


class KnowledgeItem(models.Model):
    """One unit of experience. Its text lives in revisions; `revision` is the number of the current one."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="knowledge_items")
    knowledge_id = models.CharField(max_length=200)
    kind = models.CharField(
        max_length=20, choices=[("claim", "claim"), ("observation", "observation")], default="claim"
    )
    state = models.CharField(max_length=20, choices=STATES, default="proposed")
    revision = models.PositiveIntegerField(default=1)
    suspended_dynamic = models.BooleanField(default=False, help_text="kept, not offered at runtime triggers")
    replaced_by = models.CharField(max_length=200, null=True, help_text="knowledge_id of the live replacement")
    language = models.CharField(max_length=10, default="en")
    keys = ArrayField(models.TextField(), default=list, help_text="what FindHints finds the current revision by")
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "knowledge_id"], name="knowledge_item_unique")]
        indexes = [GinIndex(fields=["keys"], name="knowledge_item_keys")]

    def __str__(self) -> str:
        return self.knowledge_id


class KnowledgeRevision(models.Model):
    """The text of an item at one revision; never changed after it is written. A hint points at a revision."""

    item = models.ForeignKey(KnowledgeItem, on_delete=models.CASCADE, related_name="revisions")
    number = models.PositiveIntegerField()
    proposition = models.TextField(help_text="the rule; contains the action itself; at most 120 tokens")
    why = models.TextField(default="")
    verify = models.TextField(default="")
    caution = models.TextField(default="")
    trigger = models.CharField(
        max_length=stages.TRIGGER_LIMIT, default="", help_text="trigger it is meant for; empty = any"
    )
    tool = models.CharField(max_length=200, default="")
    mcp_server = models.CharField(max_length=200, default="")
    version_scope = models.CharField(max_length=200, default="")
    entities = models.JSONField(default=list)
    topics = models.JSONField(default=list)
    error_examples = models.JSONField(default=list)
    evidence = models.JSONField(default=list, help_text="run ids")
    author = models.CharField(max_length=200)
    reason = models.TextField(default="")
    created_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["item", "number"], name="knowledge_revision_unique")]


class KnowledgeChange(models.Model):
    """One lifecycle change of an item: from which state to which, by whom and why."""

    item = models.ForeignKey(KnowledgeItem, on_delete=models.CASCADE, related_name="changes")
    from_state = models.CharField(max_length=20, null=True)
    to_state = models.CharField(max_length=20, choices=STATES)
    by = models.CharField(max_length=200)
    reason = models.TextField()
    at = models.DateTimeField(db_default=Now())


class HintAnswer(models.Model):
    """An answer given to an activation, kept so that a retry gets the same one and writes nothing twice."""

    pk = models.CompositePrimaryKey("project_id", "run_id", "activation_id")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    run_id = models.TextField()
    activation_id = models.TextField()
    answer = models.JSONField()
    created_at = models.DateTimeField(db_default=Now())
