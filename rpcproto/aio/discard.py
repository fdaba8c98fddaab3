"""The protocol of a connection that has nothing more to say, but whose peer may still be sending."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from rpcproto.aio import _tuning as tuning

if TYPE_CHECKING:
    from rpcproto.aio.link import Link

__all__ = ["Discard"]


class Discard(asyncio.BufferedProtocol):
    """Throws input away, up to a limit, and passes the end of the connection on.

    Args:
        link: the protocol that it takes over from.
        transport: of the connection.
    """

    def __init__(self, link: Link, transport: asyncio.Transport) -> None:
        self.link = link
        self.transport = transport
        self.buffer = bytearray(64 * 1024)
        self.left = tuning.DISCARD_MAX

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.buffer

    def buffer_updated(self, nbytes: int) -> None:
        self.left -= nbytes
        if self.left < 0:
            self.transport.abort()

    def eof_received(self) -> bool:
        return False

    def connection_lost(self, exc: Exception | None) -> None:
        self.link.connection_lost(exc)
