"""`python -m knowledge.client.mcp_server`: Observation as an MCP server, over stdio or Streamable HTTP.

Address and key come from the environment: TEMPORALITY_URL, TEMPORALITY_KEY.
"""

import argparse
import os
import sys
from collections.abc import Mapping, Sequence

from knowledge.client.exchange import checked_key, checked_url
from knowledge.client.mcp_http import Unsafe, key_of_request, parse_place, serve_http
from knowledge.client.mcp_tools import make_server


def main(arguments: Sequence[str], environment: Mapping[str, str]) -> int:
    """Serve until the client goes, or until told to end; 2 when it cannot be started this way."""
    parser = argparse.ArgumentParser(prog="python -m knowledge.client.mcp_server", description=__doc__)
    parser.add_argument("--http", metavar="HOST:PORT", help="serve Streamable HTTP at /mcp instead of stdio")
    parser.add_argument("--allow-host", metavar="NAME:PORT", action="append", default=[], help="another Host to let in")
    options = parser.parse_args(arguments)
    try:
        serve(environment, options.http or "", options.allow_host)
    except ValueError as error:
        print(f"temporality: {error}", file=sys.stderr)
        return 2
    return 0


def serve(environment: Mapping[str, str], place: str, named: Sequence[str]) -> None:
    """Serve over HTTP at a place, or else over stdio. Raises ValueError, Unsafe among it, without naming a key."""
    url, key = environment.get("TEMPORALITY_URL", ""), environment.get("TEMPORALITY_KEY", "")
    if not url:
        raise Unsafe("set TEMPORALITY_URL to the address of Temporality, such as http://127.0.0.1:8000")
    if not key and not place:
        raise Unsafe("set TEMPORALITY_KEY to an API key of the project with the scopes observe and ingest")
    checked_url(url)
    if key:
        checked_key(key)
    if not place:
        make_server(url, lambda _: key).run("stdio")
        return
    host, port = parse_place(place)
    serve_http(make_server(url, key_of_request), key, host, port, named)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:], os.environ))
