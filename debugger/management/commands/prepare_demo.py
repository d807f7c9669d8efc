"""Prepares a database without starting anything, for a stack started by other means than `up`."""

import json
from dataclasses import asdict

from django.core.management.base import BaseCommand

from debugger.preparation import prepare_demo, prepare_schema


class Command(BaseCommand):
    help = "Migrate, make the demo project and a fresh key for it; print project, api_key, sign_in_path as JSON."
    requires_system_checks = []

    def handle(self, *args: object, **options: object) -> None:
        prepare_schema()
        self.stdout.write(json.dumps(asdict(prepare_demo())))
