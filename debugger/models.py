"""Tables of the pages: sign-in links, of which only the hash is kept, decisions of escalations, stored timelines."""

from django.conf import settings
from django.contrib.postgres.fields import ArrayField
from django.db import models

from ingest.models import Project


class SignInLink(models.Model):
    """A link that signs `user` in once. Written only by `access.py`."""

    user = models.ForeignKey(settings.AUTH_USER_MODEL, on_delete=models.CASCADE, related_name="+")
    digest = models.BinaryField(max_length=32, unique=True, help_text="SHA-256 of the token")
    created_at = models.DateTimeField(auto_now_add=True)
    used_at = models.DateTimeField(null=True, blank=True)


class EscalationDecision(models.Model):
    """What a person decided of a run that ended in an escalation; one a run, for good. Written only by `grants.py`.

    It goes with its run: a grant that answers a run nobody can read any more is none.
    """

    project = models.ForeignKey(Project, on_delete=models.CASCADE, db_index=False, related_name="+")
    run_id = models.TextField()
    event_id = models.TextField(help_text="the run.escalated that was decided")
    decided_by = models.TextField(help_text="username")
    decided_at = models.DateTimeField(auto_now_add=True)
    verdict = models.CharField(max_length=10, help_text="granted or dismissed")
    tools = ArrayField(models.TextField(), default=list, help_text="names of the granted tools, none when dismissed")
    note = models.TextField(default="", help_text="redacted")
    task_id = models.TextField(default="", help_text="the grant holds for runs of this task, empty: of the actor")
    actor_id = models.TextField(default="", help_text="of the run; what a grant without a task holds for")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["project", "run_id"], name="escalation_decided_once")]
        indexes = [
            models.Index(
                fields=["project", "task_id", "actor_id"],
                condition=models.Q(verdict="granted"),
                name="escalation_granted",
            )
        ]


class StoredTimeline(models.Model):
    """The order of a long run's rows and what its page says of all of them. Written only by `timeline_store.py`.

    It stands for the run while `arrival` and `folded_at` are those of the registry and the chain, and `version` is that
    of the code. `places` has, for each arrival, the row that tells of it, -1 for none; the arrays named as filters
    have the rows that pass.
    """

    pk = models.CompositePrimaryKey("project_id", "run_id")
    project = models.ForeignKey(
        Project, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    run_id = models.TextField()
    version = models.CharField(max_length=40, default="", help_text="empty: wanted, not made yet")
    arrival = models.BigIntegerField(default=0)
    folded_at = models.DateTimeField(null=True, help_text="that of the chain it was made with")
    n_rows = models.IntegerField(default=0)
    head = models.TextField(default="", help_text="JSON of queries/stored_form.py")
    places = ArrayField(models.IntegerField(), default=list)
    failed = ArrayField(models.IntegerField(), default=list)
    activations = ArrayField(models.IntegerField(), default=list)
    model = ArrayField(models.IntegerField(), default=list)
    tools = ArrayField(models.IntegerField(), default=list)


class TimelineRow(models.Model):
    """One row of a stored timeline, in its place. Written only by `timeline_store.py`."""

    pk = models.CompositePrimaryKey("project_id", "run_id", "ordinal")
    project = models.ForeignKey(
        Project, on_delete=models.DO_NOTHING, db_constraint=False, db_index=False, related_name="+"
    )
    run_id = models.TextField()
    ordinal = models.IntegerField(help_text="0-based")
    activation_id = models.TextField(default="")
    row = models.TextField(help_text="JSON of queries/stored_form.py")
    search = models.TextField(help_text="what the filter by text looks at, case folded")

    class Meta:
        indexes = [
            models.Index(
                fields=["project", "run_id", "activation_id"],
                condition=~models.Q(activation_id=""),
                name="timelinerow_activation",
            )
        ]
