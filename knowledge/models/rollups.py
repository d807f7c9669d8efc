"""Sums that reports rest on: what each run adds, and the sums of that by day, place, version and arm.

Written only by `knowledge/rolling.py`; made of `knowledge/contributions.py`, which says what each number counts. A run
that retention takes moves from the sums of kept runs to those of forgotten ones, which no rebuild touches.
(Seed 001 §13.)
"""

from django.db import models

from ingest.models import Project


class RunContribution(models.Model):
    """What one run adds. While it is dirty, `body` is not in the sums yet and `rolled` is what is in them."""

    pk = models.CompositePrimaryKey("project_id", "run_id")
    project = models.ForeignKey(Project, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    run_id = models.TextField()
    day = models.DateField(help_text="the one the run belongs to in the journal")
    body = models.BinaryField(help_text="packed cells")
    rolled = models.BinaryField(default=bytes, help_text="packed cells; empty: nothing, or, when not dirty, `body`")
    dirty = models.BooleanField(default=True)

    class Meta:
        indexes = [
            models.Index(fields=["project", "run_id"], condition=models.Q(dirty=True), name="run_contribution_dirty"),
        ]


class _Rollup(models.Model):
    """Sums of one cell of one day, or of one week so that long times are read from fewer rows.

    `cell` is a digest of the key that follows it.
    """

    project = models.ForeignKey(Project, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    span = models.SmallIntegerField(help_text="days that are summed up: 1, or 7 from a Monday on")
    day = models.DateField(help_text="the first of them")
    forgotten = models.BooleanField(help_text="of runs that retention took away")
    cell = models.BinaryField(max_length=16)
    trigger = models.TextField()
    tool = models.TextField()
    mcp_server = models.TextField()
    attempt = models.IntegerField(
        help_text="0: no draw; 1: the first point of a run for its tool; 3: the third or later"
    )
    algorithm_version = models.TextField()
    experiment = models.TextField()
    arm = models.TextField(help_text="a word of HOLDOUT_ARMS, empty when no draw was made")
    share_ppm = models.IntegerField(null=True, help_text="share of situations withheld, in millionths")
    n_activations = models.BigIntegerField(default=0, help_text="searches made; of an item: that found it")
    n_skipped = models.BigIntegerField(default=0)
    n_offering = models.BigIntegerField(default=0, help_text="searches that offered something")
    n_injecting = models.BigIntegerField(default=0, help_text="searches of which something was injected")
    n_acting = models.BigIntegerField(default=0, help_text="searches of which something was used")
    n_resolved = models.BigIntegerField(default=0)
    n_unresolved = models.BigIntegerField(default=0)
    n_retrieved = models.BigIntegerField(default=0)
    n_offered = models.BigIntegerField(default=0)
    n_selected = models.BigIntegerField(default=0)
    n_injected = models.BigIntegerField(default=0)
    n_dropped = models.BigIntegerField(default=0)
    n_used = models.BigIntegerField(default=0)
    n_ignored = models.BigIntegerField(default=0)
    n_helpful = models.BigIntegerField(default=0)
    n_harmful = models.BigIntegerField(default=0)
    n_neutral = models.BigIntegerField(default=0)
    tokens = models.BigIntegerField(default=0)
    n_timed = models.BigIntegerField(default=0, help_text="searches whose time is known")
    waited_us = models.BigIntegerField(default=0, help_text="sum of their times")
    n_draws = models.BigIntegerField(default=0)
    n_points = models.BigIntegerField(default=0, help_text="as all that follow: columns of knowledge.effects.counts")
    near_success = models.BigIntegerField(default=0)
    near_failure = models.BigIntegerField(default=0)
    far_success = models.BigIntegerField(default=0)
    far_failure = models.BigIntegerField(default=0)
    calls_after = models.BigIntegerField(default=0)
    failed_after = models.BigIntegerField(default=0)
    hint_tokens = models.BigIntegerField(default=0)
    search_ms = models.BigIntegerField(default=0)
    turns_after = models.BigIntegerField(default=0)
    model_tokens_after = models.BigIntegerField(default=0)
    replicates = models.BinaryField(default=bytes, help_text="deflated; empty where no point was decided")
    words = models.JSONField(default=dict, help_text="kind:word -> number; kinds of contributions.WORD_KINDS")

    class Meta:
        abstract = True


class Rollup(_Rollup):
    """Sums of searches."""

    pk = models.CompositePrimaryKey("project_id", "span", "day", "forgotten", "cell")


class ItemRollup(_Rollup):
    """The same of single items."""

    pk = models.CompositePrimaryKey("project_id", "span", "day", "forgotten", "cell")
    knowledge_id = models.TextField()

    class Meta:
        indexes = [models.Index(fields=["project", "knowledge_id", "span", "day"], name="item_rollup_by_item")]


class HintVerdict(models.Model):
    """What a person said of one hint of one run. Only added to; the last one of a hint counts, unless it takes back."""

    project = models.ForeignKey(Project, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    run_id = models.TextField()
    activation_id = models.TextField()
    knowledge_id = models.TextField()
    outcome = models.TextField(help_text="a word of OUTCOMES; empty: what was said before is taken back")
    reason = models.TextField(default="")
    by = models.TextField(help_text="user name")
    said_at = models.DateTimeField()

    class Meta:
        indexes = [models.Index(fields=["project", "run_id", "id"], name="hint_verdict_of_run")]
