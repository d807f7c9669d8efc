"""Owns how the worker's log is written: a line holds no secret, whoever wrote it. (Seed 001 §16.1.)

Drivers and runtimes from outside log in this process as well, and asyncio logs what their tasks raise.
"""

import logging
from typing import Final

from contract.redaction import redact

FORM: Final = "%(asctime)s %(levelname)s %(name)s: %(message)s"


class CleanFormatter(logging.Formatter):
    """Writes a record, with its traceback, without secrets."""

    def format(self, record: logging.LogRecord) -> str:
        return redact(super().format(record))[0]


def log_cleanly() -> None:
    """Send what is logged to stderr, clean."""
    handler = logging.StreamHandler()
    handler.setFormatter(CleanFormatter(FORM))
    logging.basicConfig(level=logging.INFO, handlers=[handler])
