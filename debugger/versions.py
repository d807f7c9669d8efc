"""Which versions of this project's parts are at work, read once from what is installed and from the sources."""

import hashlib
import platform
import tomllib
from functools import cache
from typing import Final

import django
from django.conf import settings
from django.db import connection

from knowledge.fold import FOLD_VERSION

REDACTION_SOURCES: Final = ("redaction*.py", "secret_*.py", "masks.py")


@cache
def project_version() -> str:
    """Return the version that the project says of itself."""
    text = (settings.BASE_DIR / "pyproject.toml").read_text(encoding="utf-8")
    return str(tomllib.loads(text)["project"]["version"])


@cache
def redaction_version() -> str:
    """Return a short hash of the rules: another one means that other things may be taken out."""
    folder = settings.BASE_DIR / "contract"
    files = sorted({path for pattern in REDACTION_SOURCES for path in folder.glob(pattern)})
    whole = hashlib.sha256(b"".join(path.read_bytes() for path in files))
    return whole.hexdigest()[:8]


def versions() -> dict[str, str]:
    """Return name -> version. Asks the connection that is open anyway."""
    major, minor = divmod(connection.pg_version, 10_000)  # type: ignore[attr-defined]
    return {
        "Temporality": project_version(),
        "fold": FOLD_VERSION,
        "FindHints": settings.HINTS_ALGORITHM,
        "redaction": redaction_version(),
        "PostgreSQL": f"{major}.{minor}",
        "Django": django.get_version(),
        "Python": platform.python_version(),
    }
