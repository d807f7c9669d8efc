"""Prepares a database for use: schema, the demo project with its person, knowledge and this start's API key."""

from dataclasses import dataclass

from django.apps import apps
from django.contrib.auth import get_user_model
from django.core.management import CommandError, call_command
from django.db import connection, transaction

from debugger.access import make_sign_in_link
from debugger.embedded.stack import KERNEL_PROJECT
from ingest.authentication import create_key, revoke_key
from ingest.models import ApiKey, Membership, Project
from ingest.projects import create_project
from ingest.tasks import make_partitions
from knowledge.exchange.starter import starter_drafts
from knowledge.items import import_items
from knowledge.models import KnowledgeItem

DEMO_SLUG = KERNEL_PROJECT
DEMO_USER = "demo"
KEY_NAME = "up"
OUR_APPS = ("ingest", "knowledge", "debugger")
ALL_SCOPES = ("ingest", "observe", "read", "curate")


@dataclass(frozen=True, slots=True)
class Prepared:
    """What a start hands out. `sign_in_path` works once."""

    project: str
    api_key: str
    sign_in_path: str


def prepare_schema() -> None:
    """Bring the schema up to date, with the journal's partitions of the next days. Safe to repeat.

    Raises CommandError for a database of an earlier state of the project: until the first release migrations are made
    anew, and one that was applied before is not applied again.
    """
    call_command("migrate", interactive=False, verbosity=0)
    missing = _missing_column()
    if missing:
        raise CommandError(
            f"the database was made by an earlier state of this project ({missing} is not there): remove the folder "
            "that holds it (VAR_DIR, var/ when unset), or name another database or folder"
        )
    make_partitions()


def _missing_column() -> str:
    """Return the first table, or table.column, of our models that the database does not have, or an empty string."""
    with connection.cursor() as cursor:
        tables = connection.introspection.table_names(cursor)
        for model in (model for label in OUR_APPS for model in apps.get_app_config(label).get_models()):
            table = model._meta.db_table
            if table not in tables:
                return table
            found = {column.name for column in connection.introspection.get_table_description(cursor, table)}
            for field in model._meta.local_concrete_fields:
                if field.column not in found:
                    return f"{table}.{field.column}"
    return ""


def prepare_demo() -> Prepared:
    """Make the demo project when absent, import its starter knowledge once, and replace the key of earlier starts.

    The raw key is kept nowhere, so each start makes its own and revokes the ones before it. Knowledge is imported
    only into an empty project: a curator's changes to the starter items stay.
    """
    with transaction.atomic():
        project = Project.objects.filter(slug=DEMO_SLUG).first() or create_project(DEMO_SLUG, "Demo")
        user, _ = get_user_model().objects.get_or_create(username=DEMO_USER, defaults={"is_staff": True})
        Membership.objects.get_or_create(project=project, user=user)
        if not KnowledgeItem.objects.filter(project=project).exists():
            import_items(project, starter_drafts(), by="import", reason="the starter set")
        for old in ApiKey.objects.filter(project=project, name=KEY_NAME, revoked_at=None):
            revoke_key(old)
        _, raw_key = create_key(project, KEY_NAME, list(ALL_SCOPES))
    return Prepared(project.slug, raw_key, make_sign_in_link(user))


def fresh_sign_in_path() -> str:
    """Return the path of a new one-time sign-in link of the demo person."""
    return make_sign_in_link(get_user_model().objects.get(username=DEMO_USER))
