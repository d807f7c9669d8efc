"""Settings come from the environment alone, and a bad value is refused by name."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from django.core.exceptions import ImproperlyConfigured

from debugger.settings import database_from_url, env_bool, env_int

SHOW = "from debugger import settings; print({})"


def settings_in(tmp_path: Path, expression: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Evaluate `expression` over freshly read settings whose environment is `environment` and a VAR_DIR."""
    env = {"PATH": os.environ["PATH"], "VAR_DIR": str(tmp_path), **environment}
    command = [sys.executable, "-c", SHOW.format(expression)]
    return subprocess.run(command, env=env, capture_output=True, text=True)


def test_a_local_secret_key_is_kept_in_var_dir(tmp_path: Path) -> None:
    """Without SECRET_KEY a local start makes one of its own and finds it again."""
    first = settings_in(tmp_path, "settings.SECRET_KEY").stdout
    assert len(first) > 50
    assert settings_in(tmp_path, "settings.SECRET_KEY").stdout == first
    assert (tmp_path / "secret_key").read_text() == first.strip()


def test_a_given_secret_key_is_used_and_none_is_kept(tmp_path: Path) -> None:
    """SECRET_KEY wins, and then nothing is written."""
    assert settings_in(tmp_path, "settings.SECRET_KEY", SECRET_KEY="given" * 10).stdout.strip() == "given" * 10
    assert list(tmp_path.iterdir()) == []


def test_elsewhere_than_local_a_secret_key_is_required(tmp_path: Path) -> None:
    """No production start on a key that it made up."""
    done = settings_in(tmp_path, "1", TEMPORALITY_ENV="production")
    assert done.returncode != 0
    assert "SECRET_KEY must be set" in done.stderr
    assert list(tmp_path.iterdir()) == []


def test_without_addresses_the_embedded_services_of_var_dir_are_meant(tmp_path: Path) -> None:
    """A command beside a running `up` finds its database and queue."""
    shown = settings_in(tmp_path, "settings.DATABASES['default']['HOST'], settings.CELERY_BROKER_URL").stdout
    assert f"{tmp_path}/run/postgres " in shown
    assert f"redis+socket://{tmp_path}/run/redis.sock" in shown


def test_a_database_address_with_every_part() -> None:
    """User, password, host, port, name and options are read, escapes undone."""
    entry = database_from_url("postgresql://me:p%40ss@db.example:6543/shop?sslmode=require")
    wanted = {"USER": "me", "PASSWORD": "p@ss", "HOST": "db.example", "PORT": "6543", "NAME": "shop"}
    assert {name: entry[name] for name in wanted} == wanted
    assert entry["OPTIONS"] == {"sslmode": "require"}


def test_a_database_address_of_a_socket() -> None:
    """The folder of a socket is the host."""
    entry = database_from_url("postgresql://postgres@/temporality?host=/tmp/run/postgres")
    assert (entry["HOST"], entry["PORT"], entry["NAME"]) == ("/tmp/run/postgres", "", "temporality")


def test_a_database_of_another_kind_is_refused() -> None:
    """Only PostgreSQL."""
    with pytest.raises(ImproperlyConfigured, match="DATABASE_URL must start with postgresql://"):
        database_from_url("sqlite:///x")


@pytest.mark.parametrize("raw", ["maybe", "", "2"])
def test_a_switch_that_is_neither_is_refused(monkeypatch: pytest.MonkeyPatch, raw: str) -> None:
    """A switch says true or false."""
    monkeypatch.setenv("SOME_SWITCH", raw)
    with pytest.raises(ImproperlyConfigured, match="SOME_SWITCH must be true or false"):
        env_bool("SOME_SWITCH", True)


@pytest.mark.parametrize(("raw", "said"), [("many", "whole number"), ("1.5", "whole number"), ("0", "at least 1")])
def test_a_limit_that_is_no_number_or_too_small_is_refused(
    monkeypatch: pytest.MonkeyPatch, raw: str, said: str
) -> None:
    """A limit is a whole number from its minimum."""
    monkeypatch.setenv("SOME_LIMIT", raw)
    with pytest.raises(ImproperlyConfigured, match=f"SOME_LIMIT must be .*{said}"):
        env_int("SOME_LIMIT", 5, 1)


@pytest.mark.parametrize(
    ("environment", "drivers"),
    [
        ({}, []),
        ({"OPENAI_BASE_URL": "http://127.0.0.1:1/v1"}, ["openai_chat"]),
        ({"OPENAI_API_KEY": "k", "KERNEL_DRIVERS": "mine=a.b:C, other=a.b:d"}, ["openai_chat", "mine", "other"]),
        ({"OPENAI_API_KEY": "k", "RUN_DRIVERS": "mine"}, ["mine"]),
        ({"OPENAI_API_KEY": "k", "RUN_DRIVERS": ""}, []),
    ],
)
def test_the_drivers_that_a_page_offers_are_told_by_the_workers_variables(
    tmp_path: Path, environment: dict[str, str], drivers: list[str]
) -> None:
    """Of a key only that it is there counts; RUN_DRIVERS wins, an empty one too."""
    assert settings_in(tmp_path, "settings.RUN_DRIVERS", **environment).stdout.strip() == str(drivers)
