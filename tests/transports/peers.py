"""Protocols that the tests of the transports put at the two ends of a connection."""

from __future__ import annotations

import asyncio
from typing import Any

from rpcproto import transports
from rpcproto.transports import Listener
from rpcproto.transports.memory import MemoryTransport
from tests._certificates import mutual


async def listen(address: Any, factory: Any, **options: Any) -> Listener:
    """:func:`rpcproto.transports.listen`, with a certificate where one is needed."""
    return await transports.listen(address, factory, **_security(address, server=True), **options)


async def connect(address: Any, factory: Any, **options: Any) -> tuple[Any, Any]:
    """:func:`rpcproto.transports.connect`, with a certificate where one is needed."""
    return await transports.connect(address, factory, **_security(address, server=False), **options)


def _security(address: Any, *, server: bool) -> dict[str, Any]:
    if not str(address).startswith("tls:"):
        return {}
    return {"security": transports.secure(mutual(), [str(address)], server=server, timeout=10.0, limit=128)}


class _Records:
    """Remembers what its transport told it, and lets a test wait for it."""

    def __init__(self, *, keep_open: bool = False, echo: bool = False) -> None:
        self.keep_open = keep_open
        self.echo = echo
        self.transport: Any = None
        self.data = bytearray()
        self.calls: list[str] = []
        self.eof = False
        self.error: BaseException | None = None
        self.is_lost = False
        self.writing_paused = False
        self._change = asyncio.Event()

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.transport = transport
        self._changed("made")

    def connection_lost(self, exc: BaseException | None) -> None:
        self.error = exc
        self.is_lost = True
        self._changed("lost")

    def eof_received(self) -> bool:
        self.eof = True
        self._changed("eof")
        return self.keep_open

    def pause_writing(self) -> None:
        self.writing_paused = True
        self._changed("pause")

    def resume_writing(self) -> None:
        self.writing_paused = False
        self._changed("resume")

    def take(self, data: bytes) -> None:
        self.data += data
        if self.echo:
            self.transport.write(data)
        self._change.set()

    def _changed(self, call: str) -> None:
        self.calls.append(call)
        self._change.set()

    async def until(self, condition: Any) -> None:
        """Wait until ``condition()`` is true; it is asked after every call of the transport."""
        while not condition():
            self._change.clear()
            await self._change.wait()

    async def made(self) -> None:
        await self.until(lambda: self.transport is not None)

    async def lost(self) -> BaseException | None:
        await self.until(lambda: self.is_lost)
        return self.error

    async def receive(self, size: int) -> bytes:
        """Wait for ``size`` bytes and take them out."""
        await self.until(lambda: len(self.data) >= size)
        data = bytes(self.data[:size])
        del self.data[:size]
        return data


class PlainPeer(_Records, asyncio.Protocol):
    def data_received(self, data: bytes) -> None:
        assert type(data) is bytes
        self.take(data)


class BufferedPeer(_Records, asyncio.BufferedProtocol):
    """Its buffer is of an odd size, so that nothing sent fits into it evenly."""

    def __init__(self, *, size: int = 999, **options: bool) -> None:
        super().__init__(**options)
        self.buffer = memoryview(bytearray(size))  # asyncio's TLS takes slices of it

    def get_buffer(self, sizehint: int) -> memoryview:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        assert 0 < nbytes <= len(self.buffer)
        self.take(bytes(self.buffer[:nbytes]))


class Accepting:
    """A protocol factory that keeps what it made.

    Args:
        kind: PlainPeer or BufferedPeer.
        options: for each.
    """

    def __init__(self, kind: type[Any] = PlainPeer, **options: Any) -> None:
        self._kind = kind
        self._options = options
        self.peers: list[Any] = []
        self._more = asyncio.Event()

    def __call__(self) -> Any:
        self.peers.append(self._kind(**self._options))
        self._more.set()
        return self.peers[-1]

    async def peer(self, index: int = 0) -> Any:
        """Wait for the connection of this number, counted from 0."""
        while len(self.peers) <= index:
            self._more.clear()
            await self._more.wait()
        await self.peers[index].made()
        return self.peers[index]


def same(data, expected):
    """Compare without pytest's explanation, which takes minutes for megabytes."""
    return data == expected


async def close(*items):
    """Close transports, wait until their protocols know, and close listeners."""
    for item in items:
        item.close()
    for item in items:
        if isinstance(item, Listener):
            await item.wait_closed()
        elif (protocol := item.get_protocol()) is not None:
            await protocol.lost()


def joined(one, other):
    """Two protocols joined; returns their transports."""
    first, second = MemoryTransport.pair(asyncio.get_running_loop(), {"peername": "other"}, {"peername": "one"})
    first.start(one)
    second.start(other)
    return first, second


async def turns(count=3):
    for _ in range(count):
        await asyncio.sleep(0)


def ended(coroutine):
    """Run the test body, then close what it returned."""

    async def main():
        for transport in await coroutine:
            transport.abort()
        await turns()

    return main()
