"""What the fold derives from the journal: one summary a run, its activations, their candidates.

Written only by `knowledge/chains.py`; every row names the fold version that derived it and can be rebuilt.
A stage is a timestamp in the sender's Unix nanoseconds; a dropped hint keeps its earlier stamps. (Seed 001 §10.3, §13.)
"""

from django.contrib.postgres.fields import ArrayField
from django.contrib.postgres.indexes import GinIndex
from django.db import models

from ingest.models import Project, Run


class RunSummary(models.Model):
    """One row a run, for lists and headers."""

    pk = models.CompositePrimaryKey("project_id", "run_id")
    project = models.ForeignKey(Project, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    run_id = models.TextField()
    journal = models.ForeignObject(
        Run,
        on_delete=models.DO_NOTHING,
        from_fields=("project", "run_id"),
        to_fields=("project", "run_id"),
        related_name="summary",
        help_text="no column: lets lists start from the run registry, which knows a run from its first event",
    )
    status = models.TextField(default="running", help_text="a word of contract.stages.RUN_STATUSES")
    status_reason = models.TextField(default="")
    task = models.TextField(default="")
    agent = models.TextField(default="")
    model = models.TextField(default="")
    parent_run_id = models.TextField(null=True)
    team_root = models.TextField(null=True)
    conversation_id = models.TextField(null=True, help_text="the conversation of which the run is one turn")
    waiting_for = models.TextField(default="", help_text="approval or question, empty while nobody is asked")
    started_ns = models.BigIntegerField(null=True)
    ended_ns = models.BigIntegerField(null=True)
    limits = models.JSONField(default=dict)
    switches = models.JSONField(default=dict)
    answer = models.TextField(default="")
    success = models.BooleanField(null=True, help_text="from run.outcome")
    tools = ArrayField(models.TextField(), default=list, help_text="names of the tools that were called")
    mcp_servers = ArrayField(models.TextField(), default=list, help_text="keys of the servers that were called")
    n_events = models.BigIntegerField(default=0)
    n_turns = models.IntegerField(default=0)
    n_tool_calls = models.IntegerField(default=0)
    n_tools_failed = models.IntegerField(default=0)
    n_activations = models.IntegerField(
        default=0, help_text="searches made, priming included; skipped ones not counted"
    )
    n_skipped = models.IntegerField(default=0)
    n_retrieved = models.IntegerField(default=0)
    n_offered = models.IntegerField(default=0)
    n_injected = models.IntegerField(default=0)
    n_dropped = models.IntegerField(default=0)
    hint_tokens = models.BigIntegerField(default=0, help_text="runtime tokens used, priming not counted")
    priming_tokens = models.BigIntegerField(default=0)
    model_tokens = models.BigIntegerField(default=0, help_text="input + output as reported, else the request estimate")
    facets = ArrayField(models.TextField(), default=list, help_text="what lists find the run by")
    task_grams = ArrayField(models.IntegerField(), default=list, help_text="what a part of the task is found by")
    first_received_at = models.DateTimeField(help_text="that of the run registry: the order of lists")
    fold_version = models.TextField()
    folded_arrival = models.BigIntegerField()
    folded_at = models.DateTimeField()

    class Meta:
        indexes = [
            models.Index(fields=["project", "-started_ns"], name="run_summary_recent"),
            models.Index(fields=["fold_version"], name="run_summary_version"),
            models.Index(fields=["project", "status"], name="run_summary_status"),
            models.Index(fields=["project", "-first_received_at", "-run_id"], name="run_summary_listed"),
            models.Index(
                fields=["project", "conversation_id", "started_ns"],
                condition=models.Q(conversation_id__isnull=False),
                name="run_summary_conversation",
            ),
            # Lists ask these once for each day, and each time what waits to be entered is read: none, or few KiB.
            GinIndex(fields=["facets"], name="run_summary_facets", fastupdate=False),
            GinIndex(fields=["task_grams"], name="run_summary_task", gin_pending_list_limit=256),
        ]


class Activation(models.Model):
    """One search for knowledge, or one that was due and not made."""

    pk = models.CompositePrimaryKey("project_id", "run_id", "activation_id")
    project = models.ForeignKey(Project, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    run_id = models.TextField()
    activation_id = models.TextField(help_text="empty for deliveries whose activation is not known")
    ordinal = models.IntegerField(help_text="0-based place among the run's activations")
    trigger = models.TextField(default="", help_text="an open vocabulary, see TRIGGERS; empty while it is not known")
    turn = models.BigIntegerField(null=True)
    source_event_id = models.TextField(null=True)
    inferred_trigger = models.TextField(default="", help_text="guessed, never reported; counted nowhere with triggers")
    inferred_event_id = models.TextField(null=True, help_text="the event the guess rests on")
    tool = models.TextField(null=True)
    mcp_server = models.TextField(null=True)
    call_id = models.TextField(null=True)
    situation_key = models.TextField(default="")
    situation_class = models.TextField(default="")
    fingerprint = models.TextField(default="")
    query = models.TextField(default="")
    requested_ns = models.BigIntegerField(null=True)
    completed_ns = models.BigIntegerField(null=True)
    deferred_ns = models.BigIntegerField(null=True, help_text="put off to the next boundary; it stays one activation")
    deferred_limit = models.IntegerField(null=True, help_text="activations a turn may have, which put it off")
    duration_ms = models.FloatField(null=True, help_text="as the kernel waited")
    search_ms = models.FloatField(null=True, help_text="inside Observation")
    result = models.TextField(default="", help_text="a word of ACTIVATION_RESULTS, empty while it is open")
    skip_reason = models.TextField(default="")
    skip_detail = models.JSONField(default=dict, help_text="same_as, limit")
    error = models.TextField(default="")
    algorithm_version = models.TextField(default="")
    matcher = models.TextField(default="")
    n_retrieved = models.IntegerField(default=0)
    n_offered = models.IntegerField(default=0)
    n_selected = models.IntegerField(default=0)
    n_injected = models.IntegerField(default=0)
    n_dropped = models.IntegerField(default=0)
    tokens = models.IntegerField(default=0)
    tokens_left = models.IntegerField(null=True)
    budget = models.JSONField(default=dict)
    block = models.TextField(default="")
    experiment = models.TextField(default="", help_text="of the holdout draw, may be empty although one was made")
    arm = models.TextField(default="", help_text="a word of HOLDOUT_ARMS, empty when no draw was made")
    share = models.FloatField(null=True, help_text="share of situations that are withheld, 0 to 1")
    holdout_tokens = models.IntegerField(null=True, help_text="size of the block that the draw was about")
    shadow_tokens = models.IntegerField(null=True, help_text="size of the block that shadow mode kept out")
    request_event_id = models.TextField(null=True, help_text="model.requested that carried the block")
    position = models.IntegerField(null=True, help_text="0-based place of the block in that request")
    query_diagnostics = models.JSONField(default=dict)
    later_calls = models.JSONField(default=list, help_text="the next calls of the same tool or server")
    resolved = models.BooleanField(null=True, help_text="what followed a failure: null when it cannot be told")
    resolved_event_id = models.TextField(null=True, help_text="end of the call that shows it")
    near = models.BooleanField(null=True, help_text="what followed at once went well; null while it cannot be told")
    calls_after = models.IntegerField(default=0, help_text="calls of the same tool or server within what is judged")
    failed_after = models.IntegerField(default=0)
    turns_after = models.IntegerField(default=0, help_text="turns until it was resolved or what is judged ended")
    model_tokens_after = models.BigIntegerField(default=0)
    fold_version = models.TextField()

    class Meta:
        indexes = [models.Index(fields=["project", "trigger"], name="activation_by_trigger")]


class Candidate(models.Model):
    """A knowledge item in one activation: how far it came and why it went no further."""

    pk = models.CompositePrimaryKey("project_id", "run_id", "activation_id", "knowledge_id")
    project = models.ForeignKey(Project, on_delete=models.DO_NOTHING, db_constraint=False, related_name="+")
    run_id = models.TextField()
    activation_id = models.TextField()
    knowledge_id = models.TextField(help_text="'? ' and the hint id when only the hint is known")
    revision = models.IntegerField(null=True)
    rank = models.IntegerField(null=True)
    proposition = models.TextField(default="")
    state = models.TextField(default="")
    matched_by = models.JSONField(default=list)
    scores = models.JSONField(default=dict)
    tokens = models.IntegerField(null=True)
    hold_reason = models.TextField(default="", help_text="a word of HOLD_REASONS: retrieved, never offered")
    hint_id = models.TextField(null=True)
    offered_ns = models.BigIntegerField(null=True)
    selected_ns = models.BigIntegerField(null=True)
    injected_ns = models.BigIntegerField(null=True)
    dropped_ns = models.BigIntegerField(null=True)
    drop_reason = models.TextField(default="", help_text="a word of DROP_REASONS")
    drop_detail = models.JSONField(default=dict, help_text="needed, left, limit")
    position = models.IntegerField(null=True)
    request_event_id = models.TextField(null=True)
    message_hash = models.TextField(default="")
    used_ns = models.BigIntegerField(null=True)
    ignored_ns = models.BigIntegerField(null=True)
    usage_source = models.TextField(default="", help_text="reported or the heuristic's version")
    evidence = models.JSONField(default=dict, help_text="usage and outcome: each an event_id and what it shows")
    outcome = models.TextField(default="", help_text="a word of OUTCOMES")
    outcome_source = models.TextField(default="", help_text="reported or the heuristic's version")
    fold_version = models.TextField()

    class Meta:
        indexes = [
            models.Index(fields=["project", "knowledge_id"], name="candidate_by_item"),
            models.Index(
                fields=["project", "drop_reason"], condition=~models.Q(drop_reason=""), name="candidate_by_drop"
            ),
        ]
