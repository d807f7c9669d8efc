"""The Django application of ingest: what each database connection is told."""

from django.apps import AppConfig
from django.db.backends.signals import connection_created

from ingest.fields import read_as_text


class IngestConfig(AppConfig):
    name = "ingest"

    def ready(self) -> None:
        connection_created.connect(read_as_text, dispatch_uid="ingest.read_as_text")
