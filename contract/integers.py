"""The whole numbers that JSON's readers and PostgreSQL's bigint both hold."""

from typing import Final

INT64_MIN: Final = -(2**63)
INT64_MAX: Final = 2**63 - 1
