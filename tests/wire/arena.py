"""A live server with a well-behaved client, for raw sockets to do their worst beside it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import rpcproto
from rpcproto.connection.budget import ReassemblyBudget
from rpcproto.wire.spec import FrameType
from tests.wire import frames
from tests.wire.frames import Frame

PATIENCE = 2.0
"""Seconds for one exchange with the server."""

MIB = 1 << 20
GREETING = frames.greeting(frames.INITIATOR)
CALL = frames.opening(1, b"alive", name="echo")


def rss() -> int:
    """Bytes of memory that this process occupies."""
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * 4096


class Peer:
    """A raw connection to the server."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self.reader = reader
        self.writer = writer

    def send(self, *pieces: bytes) -> None:
        self.writer.write(b"".join(pieces))

    async def rest(self) -> bytes:
        """Everything until the server closes."""
        return await asyncio.wait_for(self.reader.read(-1), PATIENCE)

    async def frames(self) -> list[Frame]:
        """All frames until the server closes, behind its greeting."""
        data = await self.rest()
        assert data[:8] == frames.MAGIC
        return frames.split(data[64:])

    async def next_frame(self) -> Frame:
        header = await asyncio.wait_for(self.reader.readexactly(16), PATIENCE)
        length = frames.HEADER.unpack(header)[0]
        return frames.split(header + await self.reader.readexactly(length))[0]

    async def close(self) -> None:
        self.writer.close()
        try:
            await self.writer.wait_closed()
        except ConnectionError:
            pass


class Arena:
    """A server with a well-behaved client, and raw peers."""

    def __init__(self, server: rpcproto.Server, client: rpcproto.Client) -> None:
        self.server = server
        self.client = client
        self.peers: list[Peer] = []
        self.budget: ReassemblyBudget

    async def peer(self) -> Peer:
        host, _, port = self.server.address.removeprefix("tcp://").rpartition(":")
        peer = Peer(*await asyncio.open_connection(host, int(port)))
        self.peers.append(peer)
        return peer

    async def others_are_fine(self) -> None:
        assert await asyncio.wait_for(self.client.request("echo", "fine"), PATIENCE) == "fine"


@asynccontextmanager
async def arena(*services: Any, **settings: Any) -> AsyncIterator[Arena]:
    echo: dict[str, Callable[..., Any]] = {"echo": lambda value: value}
    budget = ReassemblyBudget(64 * MIB)
    async with rpcproto.serve([echo, *services], "tcp://127.0.0.1:0", budget=budget, **settings) as server:
        async with rpcproto.connect(server.address) as client:
            place = Arena(server, client)
            place.budget = budget
            await place.others_are_fine()
            try:
                yield place
                await place.others_are_fine()
            finally:
                for peer in place.peers:
                    await peer.close()
            async with asyncio.timeout(PATIENCE):
                while len(server.peers) > 1:
                    await asyncio.sleep(0.01)
            await place.others_are_fine()
            assert budget.reserved == 0


def goaway(found: Sequence[Frame]) -> tuple[int, str]:
    """Code and text of the GOAWAY that ends the frames."""
    assert [frame.kind for frame in found].count(FrameType.GOAWAY) == 1
    assert found[-1].kind == FrameType.GOAWAY, found
    return found[-1].aux, found[-1].payload[8:].decode()
