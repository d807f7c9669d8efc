"""Decides how an id stands in an address: as one segment, whatever its sender put into it.

Servers and proxies decode a path once before it is split, so an id is quoted twice: `a/b` is written `a%252Fb`. An id
without a slash or a percent sign may be quoted once, as any path is.
"""

from typing import Final
from urllib.parse import quote, unquote

from django.urls import register_converter

from contract.events import ID_LIMIT

DOTS: Final = (".", "..")  # segments that clients take out of a path


class IdConverter:
    """The `id` of a URL pattern: one segment."""

    regex = "[^/]+"

    def to_python(self, value: str) -> str:
        """Raises ValueError, which means that there is nothing here, for what no id can be."""
        decoded = unquote(value)
        if "\x00" in decoded or len(decoded) > ID_LIMIT:
            raise ValueError("not an id")
        return decoded

    def to_url(self, value: str) -> str:
        """Return the first quoting; Django adds the second."""
        quoted = value.replace("%", "%25").replace("/", "%2F")
        return quoted.replace(".", "%2E") if value in DOTS else quoted


def segment(value: str) -> str:
    """Return an id as it is written into an address, quoted twice."""
    return quote(IdConverter().to_url(value), safe="")


register_converter(IdConverter, "id")
