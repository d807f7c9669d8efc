"""Makes a one-time sign-in link for a person."""

import json
from argparse import ArgumentParser

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management.base import BaseCommand, CommandError

from debugger.access import make_sign_in_link
from debugger.embedded.var_dir import PLACES_NAME
from debugger.preparation import DEMO_USER


class Command(BaseCommand):
    help = "Print a sign-in link that works once."

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("--user", default=DEMO_USER, help="user name, %(default)s by default")
        parser.add_argument("--base-url", default="", help="address of the pages; that of a running `up` by default")

    def handle(self, *args: object, **options: object) -> None:
        users = get_user_model().objects.filter(username=options["user"])
        user = users.first()
        if user is None:
            raise CommandError(f"there is no user {options['user']!r}")
        base_url = str(options["base_url"]) or running_base_url()
        self.stdout.write(f"{base_url.rstrip('/')}{make_sign_in_link(user)}")


def running_base_url() -> str:
    """Return the address of the `up` that runs on VAR_DIR, or an empty string when none does."""
    try:
        places = json.loads((settings.VAR_DIR / PLACES_NAME).read_text())
    except FileNotFoundError:
        return ""
    return str(places["base_url"])
