"""The seat of a harness that calls tools over MCP: a client of the official SDK on a real bridge plays the rounds, one
call after the other."""

import ssl
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any, Final

import httpx2
from mcp import Client
from mcp.client.streamable_http import streamable_http_client

from kernel.conformance.moves import Reaching, ordinary, stand_in
from kernel.conformance.playing import AFTER_END, PLAY_SECONDS, Seat
from kernel.conformance.record import Aside
from kernel.conformance.worlds import World
from kernel.drivers.escalation import ESCALATE
from kernel.drivers.mcp_harness import HarnessError, McpHarnessRuntime
from kernel.drivers.plugin import RuntimeDriver, Turn

STOPPED: Final = ("escalation_pending", "turn_draining")  # codes with which a bridge answers by itself
PLAIN: Final = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)  # a bridge speaks HTTP: no certificates are read for it
UNREACHABLE: Final = "unreachable"


class PlayingHarness:
    """Plays the rounds of a world over MCP. `aside` holds the calls that the bridge answered by itself."""

    def __init__(self, world: World) -> None:
        self.world = world
        self.aside: list[Aside] = []
        self._bridge = ("", "")
        self._n_calls = 0

    async def __call__(self, url: str, token: str, turn: Turn) -> str:
        """Play to the first round that only says something. Raises HarnessError where the harness is to fail."""
        self._bridge = (url, token)
        async with _client(url, token) as client:
            for number in range(len(self.world.rounds) + 1):
                tried = self.world.round_at(number)
                if tried.fails:
                    raise HarnessError("the harness broke")
                for move in ordinary(tried):
                    name, arguments = stand_in(move, texts=False, bridged=True)
                    await self._call(client, turn, name, arguments)
                if not ordinary(tried):
                    return tried.say
        raise AssertionError("a world ends with a word")

    async def late(self) -> None:
        """Call once more when the run is over."""
        if self.world.attack != AFTER_END:
            return
        try:
            async with _client(*self._bridge) as client:
                await client.call_tool("write", {"text": "late"})
        except (OSError, RuntimeError, httpx2.HTTPError, ExceptionGroup):
            self.aside.append(Aside("mcp-late", "write", UNREACHABLE))

    async def _call(self, client: Client, turn: Turn, name: str, arguments: Mapping[str, Any]) -> None:
        self._n_calls += 1
        finale = turn.finale
        answer = await client.call_tool(name, dict(arguments))
        code = str((answer.meta or {}).get("temporality/code") or "")
        asked = name == ESCALATE and not answer.is_error
        if asked or finale or code in STOPPED:
            self.aside.append(Aside(f"mcp-{self._n_calls}", name, code))


@asynccontextmanager
async def _client(url: str, token: str) -> AsyncIterator[Client]:
    """Speak to the bridge as one who has the turn's token."""
    headers = {"Authorization": f"Bearer {token}"}
    async with (
        httpx2.AsyncClient(headers=headers, timeout=PLAY_SECONDS, verify=PLAIN) as http,
        Client(streamable_http_client(url, http_client=http), read_timeout_seconds=PLAY_SECONDS) as client,
    ):
        yield client


def mcp_seat(world: World) -> Seat:
    """Return a seat whose occupant is a harness on an MCP bridge."""
    harness = PlayingHarness(world)
    reaching = Reaching(RuntimeDriver(McpHarnessRuntime(harness)), world, bridged=True)
    return Seat(reaching, reaching, harness.aside, outside=True, late=harness.late)
