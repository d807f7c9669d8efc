"""What is left of a day that was forgotten beside the rollups: its runs by status, and what was reported of items.

Written only by `knowledge/totals.py`, in the transaction that takes the runs away. A day is the one its runs belong to
in the journal. Counts of a run are added once, when the run is forgotten. (Seed 001 §13.)
"""

from django.db import models

from ingest.models import Project


class DayTotals(models.Model):
    """The forgotten runs of one day that had one status in the end."""

    pk = models.CompositePrimaryKey("project_id", "day", "status")
    project = models.ForeignKey(Project, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    day = models.DateField()
    status = models.TextField(help_text="a word of contract.stages.RUN_STATUSES; running when no end was reported")
    n_runs = models.BigIntegerField(default=0)
    n_solved = models.BigIntegerField(default=0, help_text="run.outcome reported success")
    n_unsolved = models.BigIntegerField(default=0, help_text="run.outcome reported no success")
    n_events = models.BigIntegerField(default=0)
    n_turns = models.BigIntegerField(default=0)
    n_tool_calls = models.BigIntegerField(default=0)
    n_tools_failed = models.BigIntegerField(default=0)
    hint_tokens = models.BigIntegerField(default=0)
    priming_tokens = models.BigIntegerField(default=0)
    model_tokens = models.BigIntegerField(default=0)


class ItemTotals(models.Model):
    """How far one item came in all the runs that were forgotten."""

    pk = models.CompositePrimaryKey("project_id", "knowledge_id")
    project = models.ForeignKey(Project, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    knowledge_id = models.TextField()
    n_retrieved = models.BigIntegerField(default=0)
    n_offered = models.BigIntegerField(default=0)
    n_injected = models.BigIntegerField(default=0)
    n_used = models.BigIntegerField(default=0, help_text="as reported, as all that follow")
    n_ignored = models.BigIntegerField(default=0)
    n_helpful = models.BigIntegerField(default=0)
    n_harmful = models.BigIntegerField(default=0)
    n_neutral = models.BigIntegerField(default=0)
