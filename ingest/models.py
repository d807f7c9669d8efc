"""Projects and their keys, the run registry, the append-only journal, the message store, the rejects.

The journal and its run registry are written only by `accept.py`. Every key carries the project first, so that
the tables can be sharded by it; the journal is range-partitioned by `run_day` (made by SQL in the migrations),
so forgetting a day is dropping its partition. (Seed 001 §13.)
"""

from datetime import date
from typing import Final

from django.conf import settings
from django.db import models
from django.utils import timezone

from ingest.fields import JsonTextField

# First segments of addresses that are no project's: a project of that slug could never be opened.
RESERVED_SLUGS: Final = (
    "admin", "api", "conformance", "docs", "healthz", "metrics", "operations", "projects", "readyz", "settings",
    "sign-in", "sign-out", "static", "v1", "v2",
)  # fmt: skip
UNCLAIMED: Final = date.min  # `last_run_day` of a message that a deleted run has left behind, until it is swept


class Project(models.Model):
    """One tenant: nothing of a project is visible from another."""

    slug = models.SlugField(max_length=60, unique=True)
    name = models.CharField(max_length=200)
    created_at = models.DateTimeField(auto_now_add=True)
    hints_paused = models.BooleanField(default=False, help_text="the hints API answers 503 while set")
    retention_days = models.PositiveIntegerField(null=True, blank=True, help_text="whole days kept; null keeps all")
    redaction_patterns = models.JSONField(default=list, blank=True, help_text="list of {kind, pattern} beside our own")
    deleted_at = models.DateTimeField(null=True, blank=True, help_text="refused and hidden since; rows go in batches")

    class Meta:
        constraints = [
            models.CheckConstraint(condition=~models.Q(slug__in=RESERVED_SLUGS), name="project_slug_not_reserved")
        ]

    def __str__(self) -> str:
        return self.slug


class Membership(models.Model):
    """A person who may open a project's pages."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="memberships")
    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="memberships")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "user"], name="membership_unique")]


class ApiKey(models.Model):
    """A machine's key: only its SHA-256 is kept; `prefix` is shown so that a person can tell keys apart."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, related_name="api_keys")
    name = models.CharField(max_length=100)
    prefix = models.CharField(max_length=16)
    digest = models.BinaryField(max_length=32, unique=True)
    scopes = models.JSONField(help_text="list of ingest, observe, read, curate")
    created_at = models.DateTimeField(auto_now_add=True)
    revoked_at = models.DateTimeField(null=True, blank=True)
    events_per_minute = models.PositiveIntegerField(null=True, blank=True, help_text="null: the setting's quota")

    def __str__(self) -> str:
        return f"{self.name} ({self.prefix}…)"


class Run(models.Model):
    """What the journal knows of a run: its partition day and how many events arrived and were folded."""

    pk = models.CompositePrimaryKey("project_id", "run_id")
    project = models.ForeignKey(Project, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    run_id = models.TextField()
    run_day = models.DateField()
    first_received_at = models.DateTimeField()
    last_received_at = models.DateTimeField()
    last_arrival = models.BigIntegerField(default=0)
    folded_arrival = models.BigIntegerField(default=0)
    n_conflicts = models.BigIntegerField(default=0)

    class Meta:
        indexes = [
            models.Index(
                fields=["last_received_at"],
                condition=models.Q(folded_arrival__lt=models.F("last_arrival")),
                name="ingest_run_unfolded",
            ),
            models.Index(fields=["project", "-first_received_at"], name="ingest_run_recent"),
        ]


class GoneRun(models.Model):
    """A mark that a run of this id was taken away: what comes of it later is a rest, and its page says so.

    Holds the SHA-256 of the id and not the id; pruned after `forgetting.MARK_DAYS`.
    """

    pk = models.CompositePrimaryKey("project_id", "digest")
    project = models.ForeignKey(Project, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    digest = models.BinaryField(max_length=32)
    gone_at = models.DateTimeField()
    reason = models.CharField(max_length=20, help_text="retention or deleted")


class Event(models.Model):
    """One journal row. `arrival` numbers a run's events from 1 without gaps, in order of acceptance.

    Clocks: `occurred_ns`/`ended_ns` are the sender's (Unix nanoseconds, shown and never trusted), `received_at`
    is ours. `repairs` lists what was changed before writing or looks wrong, in words of `ingest.repair.REPAIRS`.
    """

    pk = models.CompositePrimaryKey("project_id", "run_day", "run_id", "event_id")
    project = models.ForeignKey(Project, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    run_day = models.DateField()
    run_id = models.TextField()
    event_id = models.TextField()
    arrival = models.BigIntegerField()
    seq = models.BigIntegerField(null=True)
    type = models.TextField()
    occurred_ns = models.BigIntegerField()
    ended_ns = models.BigIntegerField(null=True)
    received_at = models.DateTimeField()
    turn = models.BigIntegerField(null=True)
    caused_by = models.TextField(null=True)
    task_id = models.TextField(null=True)
    actor_id = models.TextField(null=True)
    parent_run_id = models.TextField(null=True)
    team_root = models.TextField(null=True)
    call_id = models.TextField(null=True)
    operation_id = models.TextField(null=True)
    activation_id = models.TextField(null=True)
    hint_id = models.TextField(null=True)
    knowledge_id = models.TextField(null=True)
    tool = models.TextField(null=True)
    mcp_server = models.TextField(null=True)
    digest = models.BinaryField(
        max_length=16, help_text="hash of the event as sent, to tell a duplicate from a conflict"
    )
    repairs = models.JSONField(null=True, help_text="list of repair words, null when nothing was changed")
    data = JsonTextField()

    class Meta:
        constraints = [
            models.UniqueConstraint(fields=["project", "run_day", "run_id", "arrival"], name="ingest_event_arrival")
        ]


class Message(models.Model):
    """A model message, kept once per project by the SHA-256 of its canonical JSON after redaction."""

    pk = models.CompositePrimaryKey("project_id", "hash")
    project = models.ForeignKey(Project, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    hash = models.TextField()
    body = JsonTextField(help_text="role, text, origin, calls, call_id: the bytes that were hashed")
    last_run_day = models.DateField()

    class Meta:
        indexes = [
            models.Index(
                fields=["project"], condition=models.Q(last_run_day=UNCLAIMED), name="ingest_message_unclaimed"
            )
        ]


class Reject(models.Model):
    """An event that was not stored, or a later different copy of one that was. Never carries payload text."""

    project = models.ForeignKey(Project, on_delete=models.CASCADE, db_index=False, related_name="+")
    api_key = models.ForeignKey(ApiKey, on_delete=models.SET_NULL, null=True, db_index=False, related_name="+")
    received_at = models.DateTimeField(default=timezone.now)
    code = models.CharField(max_length=40)
    detail = models.CharField(max_length=500)
    run_id = models.CharField(max_length=200, null=True)
    event_id = models.CharField(max_length=200, null=True)

    class Meta:
        indexes = [
            models.Index(fields=["project", "-received_at", "-id"], name="ingest_reject_recent"),
            models.Index(fields=["api_key", "-received_at", "-id"], name="ingest_reject_of_key"),
        ]


class Batch(models.Model):
    """One request that was answered with a 2xx: what became of its events, and which repairs they needed.

    Appended in the transaction of its events, so that the counts are those of the journal.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, db_index=False, related_name="+")
    api_key = models.ForeignKey(ApiKey, on_delete=models.SET_NULL, null=True, db_index=False, related_name="+")
    received_at = models.DateTimeField()
    source = models.CharField(max_length=20, help_text="events, otlp_traces, otlp_logs or observation")
    n_accepted = models.PositiveIntegerField()
    n_duplicates = models.PositiveIntegerField()
    n_conflicts = models.PositiveIntegerField()
    n_rejected = models.PositiveIntegerField()
    repairs = models.JSONField(default=dict, help_text="repair word -> {n, run_id, event_id}: how many, and the first")

    class Meta:
        indexes = [
            models.Index(fields=["project", "-received_at", "-id"], name="ingest_batch_recent"),
            models.Index(fields=["api_key", "-received_at", "-id"], name="ingest_batch_of_key"),
        ]
