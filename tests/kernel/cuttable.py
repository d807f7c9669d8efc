"""A way to a server that can be cut: nothing passes any more in either direction, and nobody is told."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress


class Cuttable:
    """Passes bytes on to `address` until it is cut."""

    def __init__(self, address: str) -> None:
        self._host, _, self._port = address.rpartition(":")
        self._whole = asyncio.Event()
        self._whole.set()
        self._pumps: set[asyncio.Task[None]] = set()
        self._writers: set[asyncio.StreamWriter] = set()
        self.address = ""

    def cut(self) -> None:
        self._whole.clear()

    async def serve(self) -> asyncio.Server:
        server = await asyncio.start_server(self._connected, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return server

    async def _connected(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        far_reader, far_writer = await asyncio.open_connection(self._host, int(self._port))
        self._writers |= {writer, far_writer}
        for source, target in ((reader, far_writer), (far_reader, writer)):
            self._pumps.add(asyncio.create_task(self._pump(source, target)))

    async def _pump(self, source: asyncio.StreamReader, target: asyncio.StreamWriter) -> None:
        with suppress(OSError):
            while data := await source.read(65_536):
                await self._whole.wait()
                target.write(data)
                await target.drain()
            target.close()

    def close(self) -> None:
        """Close every connection, so that both ends see it; new ones are passed on."""
        for pump in self._pumps:
            pump.cancel()
        for writer in self._writers:
            writer.transport.abort()
        self._pumps.clear()
        self._writers.clear()


@asynccontextmanager
async def cuttable(address: str) -> AsyncIterator[Cuttable]:
    """A way to `address` while the block runs."""
    way = Cuttable(address)
    server = await way.serve()
    try:
        yield way
    finally:
        way.close()
        server.close()
