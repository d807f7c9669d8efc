"""Knowledge items, their revisions and the history of their changes, and answers kept for idempotent retries.

Written only by `knowledge/items.py` (items) and `knowledge/offering.py` (answers). Revisions and history are only
added to: a trigger of the database refuses to change a row, and to delete one while its project is kept.
(Seed 001 §7, §13.)
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
    facets = ArrayField(models.TextField(), default=list, help_text="what lists find the current revision by")
    created_at = models.DateTimeField(db_default=Now())
    updated_at = models.DateTimeField(db_default=Now())

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "knowledge_id"], name="knowledge_item_unique")]
        indexes = [
            GinIndex(fields=["keys"], name="knowledge_item_keys"),
            GinIndex(fields=["facets"], name="knowledge_item_facets"),
            models.Index(fields=["project", "state", "knowledge_id"], name="knowledge_item_by_state"),
            models.Index(
                fields=["project", "replaced_by"],
                condition=models.Q(replaced_by__isnull=False),
                name="knowledge_item_replaced",
            ),
            models.Index(
                fields=["project", "knowledge_id"],
                condition=models.Q(suspended_dynamic=True),
                name="knowledge_item_suspended",
            ),
        ]

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
    """One change of an item: what it was, by whom and why, from where to where, at which revision."""

    item = models.ForeignKey(KnowledgeItem, on_delete=models.CASCADE, related_name="changes")
    what = models.CharField(max_length=20, help_text="a word of knowledge.lifecycle.CHANGES")
    from_state = models.CharField(max_length=20, null=True)
    to_state = models.CharField(max_length=20, choices=STATES)
    revision = models.PositiveIntegerField(help_text="the item's current one after the change")
    replaced_by = models.CharField(max_length=200, null=True, help_text="where the change named a replacement")
    evidence_run = models.CharField(
        max_length=200, null=True, help_text="id of the run that shows it, as a person named it"
    )
    supports = models.BooleanField(null=True, help_text="of evidence: whether the run speaks for the item")
    by = models.CharField(max_length=200)
    reason = models.TextField()
    at = models.DateTimeField(db_default=Now())


class HintAnswer(models.Model):
    """An answer given to an activation, kept so that a retry gets the same one and writes nothing twice."""

    pk = models.CompositePrimaryKey("project_id", "run_id", "activation_id")
    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="+")
    run_id = models.TextField()
    activation_id = models.TextField()
    answer = models.TextField(help_text="the JSON that was answered; as text, so that it is given again byte for byte")
    asked = models.BinaryField(max_length=32, default=bytes, help_text="digest of the request")
    created_at = models.DateTimeField(db_default=Now())
