"""Tables of the pages: one-time sign-in links, of which only the token's hash is kept, and decisions of escalations."""

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
