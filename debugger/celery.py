"""The Celery application: queue for folds, sums, vectors and stored timelines, and the beat schedule of the sweeps."""

import os

from celery import Celery
from django.conf import settings

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "debugger.settings")

TASK_PACKAGES = ["ingest", "knowledge", "debugger"]

app = Celery("temporality")
app.config_from_object("django.conf:settings", namespace="CELERY")
app.autodiscover_tasks(TASK_PACKAGES)
app.conf.task_ignore_result = True
app.conf.task_acks_late = True
app.conf.worker_prefetch_multiplier = 1
app.conf.broker_connection_retry_on_startup = True
app.conf.worker_hijack_root_logger = False  # the settings' handler removes secrets
app.conf.beat_schedule = {
    "sweep-unfolded": {"task": "knowledge.sweep_unfolded", "schedule": settings.FOLD_SWEEP_SECONDS},
    "roll-up": {"task": "knowledge.roll_up", "schedule": settings.ROLLUP_SECONDS},
    "make-vectors": {"task": "knowledge.embed_items", "schedule": settings.EMBED_SWEEP_SECONDS},
    "store-timelines": {"task": "debugger.sweep_timelines", "schedule": settings.TIMELINE_SWEEP_SECONDS},
    "make-partitions": {"task": "ingest.make_partitions", "schedule": 3600.0},
    "apply-retention": {"task": "ingest.apply_retention", "schedule": settings.RETENTION_SECONDS},
    "finish-deletions": {"task": "ingest.finish_deletions", "schedule": settings.DELETION_SECONDS},
}
