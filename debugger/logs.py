"""Decides what reaches the logs: every line without the secrets that it, or a traceback under it, may hold."""

import logging
import re

from contract.redaction import redact

SIGN_IN_TOKEN = re.compile(r"(/sign-in/)[A-Za-z0-9_\-]{16,}")


class RedactingFormatter(logging.Formatter):
    """Formats a record, tracebacks included, and removes secrets from the whole. (Seed 001 §20.)"""

    def format(self, record: logging.LogRecord) -> str:
        text, _ = redact(super().format(record))
        return SIGN_IN_TOKEN.sub(r"\1[REDACTED:sign_in_token]", text)
