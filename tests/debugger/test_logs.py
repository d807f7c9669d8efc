"""What the logs hold: no key, no password, no sign-in token, no payload, in a message or under it."""

import json
import logging
import re
import sys

import pytest
from django.conf import settings
from django.db import IntegrityError, connection
from django.urls import reverse
from gunicorn.config import Config
from gunicorn.glogging import Logger

from debugger import web_server
from debugger.logs import JsonFormatter, RedactingFormatter, request_id
from debugger.preparation import fresh_sign_in_path, prepare_demo


def written(message: str, *arguments: object, error: bool = False) -> str:
    record = logging.LogRecord("x", logging.ERROR, "x.py", 1, message, arguments, sys.exc_info() if error else None)
    return RedactingFormatter("%(levelname)s %(message)s").format(record)


def test_an_ordinary_line_stays_as_it_is() -> None:
    """Nothing is removed from a line without a secret."""
    assert written("run %s folded to arrival %d", "demo-1", 7) == "ERROR run demo-1 folded to arrival 7"


@pytest.mark.django_db
def test_real_keys_and_links_are_removed() -> None:
    """The secrets that a start makes, as they are made."""
    prepared = prepare_demo()
    line = written("Forbidden: %s for Bearer %s", prepared.sign_in_path, prepared.api_key)
    assert line == "ERROR Forbidden: /sign-in/[REDACTED:sign_in_token]/ for Bearer [REDACTED:temporality_key]"
    assert fresh_sign_in_path().split("/")[2] not in written(fresh_sign_in_path())


def test_the_sign_in_page_itself_is_named() -> None:
    """The page without a token is no secret."""
    assert reverse("sign-in") in written("Not Found: %s", reverse("sign-in"))


def test_an_exception_is_told_by_type_and_place() -> None:
    """Neither its text nor that of its cause: both may quote what was sent. The places are there."""
    try:
        try:
            int("PAYLOAD-1 postgresql://me:correct7horse@db.example/x")
        except ValueError as error:
            raise RuntimeError("PAYLOAD-2") from error
    except RuntimeError:
        text = written("failed", error=True)
    assert "PAYLOAD" not in text and "correct7horse" not in text
    assert re.search(r"RuntimeError\n  at tests/debugger/test_logs.py:\d+ in test_an_exception", text)
    assert "caused by ValueError" in text


def test_an_exception_in_a_message_is_told_by_its_type() -> None:
    """A line made of the exception itself, and of what Celery writes of a task's."""
    assert written("not done: %s", ValueError("PAYLOAD")) == "ERROR not done: ValueError"
    assert written("not read: %s", FileNotFoundError(2, "No such file", "PAYLOAD")).endswith("(No such file)")
    task = {"id": "7", "name": "knowledge.fold_run", "exc": "ValueError('PAYLOAD')", "traceback": "PAYLOAD"}
    record = logging.LogRecord("celery.app.trace", logging.ERROR, "x.py", 1, "Task %(name)s: %(exc)s", (task,), None)
    assert RedactingFormatter("%(message)s").format(record) == "Task knowledge.fold_run: left out"


@pytest.mark.django_db
def test_what_the_database_says_of_a_row_is_cut_off() -> None:
    """PostgreSQL quotes the row and the statement; the state's code is kept."""
    with connection.cursor() as cursor:
        cursor.execute("CREATE TEMPORARY TABLE narrow (a text CHECK (length(a) < 3))")
        with pytest.raises(IntegrityError) as caught:
            cursor.execute("INSERT INTO narrow VALUES (%s)", ["PAYLOAD"])
    assert "PAYLOAD" in str(caught.value)
    assert "PAYLOAD" not in written(f"not written: {caught.value}")
    assert "PAYLOAD" not in written("not written: " + " ".join(str(caught.value).split()))
    assert written("not written: %s", caught.value.__cause__) == "ERROR not written: CheckViolation (SQLSTATE 23514)"


def test_one_json_object_a_line() -> None:
    """Time, level, logger, message, the facts of a request and an exception, on one line whatever they hold."""
    record = logging.LogRecord("x", logging.WARNING, "x.py", 1, "two\nlines of %s", ("Bearer tk_0123456789ab",), None)
    record.facts = {"status": 200, "project_id": None}
    try:
        raise KeyError("PAYLOAD")
    except KeyError:
        record.exc_info = sys.exc_info()
    token = request_id.set("req-1")
    text = JsonFormatter().format(record)
    request_id.reset(token)
    line = json.loads(text)
    assert "\n" not in text and "PAYLOAD" not in text
    assert (line["level"], line["logger"], line["request_id"], line["status"]) == ("WARNING", "x", "req-1", 200)
    assert line["time"].endswith("Z") and line["message"].startswith("two\nlines")
    assert line["exception"].startswith("KeyError\n  at tests/debugger/test_logs.py:")
    assert "project_id" not in line


def test_every_process_logs_through_it() -> None:
    """The one handler of the settings uses a formatter of ours, and so does the web server, which logs no address."""
    formatters = settings.LOGGING["formatters"]
    assert formatters["line"]["()"] == "debugger.logs.RedactingFormatter"
    assert formatters["json"]["()"] == "debugger.logs.JsonFormatter"
    assert {handler["formatter"] for handler in settings.LOGGING["handlers"].values()} <= set(formatters)
    server_log = web_server.logger_class(Config())
    assert (server_log.error_log.handlers, server_log.error_log.propagate) == ([], True)
    assert web_server.OurLog.access is not Logger.access
