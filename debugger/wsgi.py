"""WSGI entry point for gunicorn."""

import os

from django.core.wsgi import get_wsgi_application
from django.db.backends.signals import connection_created

from debugger.connection_bounds import bound_statements

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "debugger.settings")
connection_created.connect(bound_statements)
application = get_wsgi_application()
