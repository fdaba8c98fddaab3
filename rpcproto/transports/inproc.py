"""Within one process: ``inproc://name``.

Both ends run in the same event loop and are joined by memory (:mod:`~rpcproto.transports.memory`): no descriptor, no
system call, one copy. Between loops, in threads of their own, use ``unix:`` or ``tcp:``.
"""

from __future__ import annotations

import asyncio
import contextvars
import os
import socket
from collections.abc import Callable

from ..errors import ConfigurationError, ConnectFailed
from .address import Address
from .base import BACKLOG, Listener, P, ProtocolFactory
from .memory import MemoryTransport

__all__ = ["InprocTransport"]

_listeners: dict[tuple[int, str], InprocListener] = {}
"""By process, since a fork copies this, and name."""


class InprocListener(Listener):
    """A name that is listened at."""

    def __init__(self, address: Address, protocol_factory: ProtocolFactory) -> None:
        self._address = address
        self._protocol_factory = protocol_factory
        self._context = contextvars.copy_context()
        self.loop = asyncio.get_running_loop()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self._address}>"

    @property
    def addresses(self) -> tuple[Address, ...]:
        return (self._address,)

    def close(self) -> None:
        if _listeners.get(_key(self._address)) is self:
            del _listeners[_key(self._address)]

    async def wait_closed(self) -> None:
        await asyncio.sleep(0)  # what connected before is accepted in this turn

    def accept(self, transport: MemoryTransport) -> None:
        """Give one end of a new connection to a protocol, in the next loop turn."""
        self.loop.call_soon(self._accept, transport, context=self._context.copy())

    def _accept(self, transport: MemoryTransport) -> None:
        try:
            protocol = self._protocol_factory()
        except BaseException:
            transport.abort()
            raise
        transport.start(protocol)


class InprocTransport:
    """The transport of ``inproc://``. See :class:`~rpcproto.transports.base.Transport`."""

    async def connect(
        self, address: Address, protocol_factory: Callable[[], P], *, timeout: float
    ) -> tuple[asyncio.Transport, P]:
        """Connect to a name. ``timeout`` has no use: nothing is waited for."""
        listener = _listeners.get(_key(address))
        loop = asyncio.get_running_loop()
        if listener is None or listener.loop.is_closed():
            text = f"cannot connect to {address}: nobody listens there in this process"
            raise ConnectFailed(text, address=str(address))
        if listener.loop is not loop:
            raise ConfigurationError(
                f"{address} belongs to another event loop, and inproc:// joins two ends within one;"
                " between loops use unix:// or tcp://"
            )
        protocol = protocol_factory()
        info = {"peername": str(address), "sockname": str(address), "peer_address": address}
        transport, accepted = MemoryTransport.pair(loop, info, info)
        listener.accept(accepted)
        transport.start(protocol)
        return transport, protocol

    async def listen(
        self,
        address: Address,
        protocol_factory: ProtocolFactory,
        *,
        backlog: int = BACKLOG,
        insecure: bool = False,
        sock: socket.socket | None = None,
    ) -> Listener:
        """Listen at a name. Nothing has to wait, and nobody else can connect: only ``sock`` must not be given."""
        if sock is not None:
            raise ConfigurationError(f"{address} has no use for a socket: leave sock= out")
        listener = InprocListener(address, protocol_factory)
        holder = _listeners.setdefault(_key(address), listener)
        if holder is not listener:
            if not holder.loop.is_closed():
                raise ConnectFailed(f"cannot listen on {address}: the name is in use", address=str(address))
            _listeners[_key(address)] = listener
        return listener


def _key(address: Address) -> tuple[int, str]:
    return os.getpid(), address.path
