"""What the logs hold: no key, no password, no sign-in token, in a message or in a traceback."""

import logging
import sys

import pytest
from django.conf import settings
from django.urls import reverse

from debugger.logs import RedactingFormatter
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


def test_a_traceback_loses_its_password() -> None:
    """An exception text with a database address."""
    try:
        raise ValueError("cannot connect to postgresql://me:correct7horse@db.example/x")
    except ValueError:
        text = written("failed", error=True)
    assert "correct7horse" not in text
    assert "db.example" in text


def test_every_process_logs_through_it() -> None:
    """The one handler of the settings uses this formatter."""
    assert settings.LOGGING["formatters"]["line"]["()"] == "debugger.logs.RedactingFormatter"
    assert {handler["formatter"] for handler in settings.LOGGING["handlers"].values()} == {"line"}
