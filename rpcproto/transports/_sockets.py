"""What the transports on sockets share: handing sockets to the loop, and accepting.

asyncio and uvloop differ in most of what they do around sockets (names, happy eyeballs, unlinking, what happens to a
connection that is accepted while the server closes), and agree on readers and on ``connect_accepted_socket``. So
sockets are made, connected, bound and accepted here, and reach the loop connected.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Callable, Sequence

from .._logs import log
from ..errors import ConfigurationError
from .address import Address
from .base import Listener, P, ProtocolFactory

__all__ = ["SocketListener", "adopt", "check_given", "reason"]

_BURST = 128
"""Connections accepted from one socket in one loop turn, before others get theirs."""

_RETRY = 0.1
"""Seconds without accepting after the system had no descriptor or memory for a connection; it waits meanwhile."""


class SocketListener(Listener):
    """Accepts connections from listening sockets, which belong to it from now on.

    Args:
        socks: listening and non-blocking.
        addresses: what they are bound to.
        protocol_factory: makes a protocol for each connection.
        release: called first in ``close``, while the sockets still hold their addresses.
    """

    def __init__(
        self,
        socks: Sequence[socket.socket],
        addresses: Sequence[Address],
        protocol_factory: ProtocolFactory,
        release: Callable[[], None] | None = None,
    ) -> None:
        self._loop = asyncio.get_running_loop()
        self._addresses = tuple(addresses)
        self._protocol_factory = protocol_factory
        self._release = release
        self._socks = list(socks)
        self._retries: dict[socket.socket, asyncio.TimerHandle] = {}
        self._accepting: set[asyncio.Task[None]] = set()
        self._starved = False
        for sock in self._socks:
            self._loop.add_reader(sock, self._accept, sock)

    def __repr__(self) -> str:
        state = "" if self._socks else "closed "
        return f"<{type(self).__name__} {state}{', '.join(map(str, self._addresses))}>"

    @property
    def addresses(self) -> tuple[Address, ...]:
        return self._addresses

    def close(self) -> None:
        if self._socks and self._release is not None:
            self._release()
        for sock in self._socks:
            self._loop.remove_reader(sock)
            sock.close()
        for retry in self._retries.values():
            retry.cancel()
        self._socks.clear()
        self._retries.clear()

    async def wait_closed(self) -> None:
        if self._accepting:
            await asyncio.wait(self._accepting)

    def _accept(self, sock: socket.socket) -> None:
        for _ in range(_BURST):
            try:
                accepted, _ = sock.accept()
            except (BlockingIOError, InterruptedError, ConnectionAbortedError):
                return
            except OSError as exc:
                # Out of descriptors or memory, mostly. The socket stays readable, so without a pause this would spin.
                if not self._starved:
                    self._starved = log.warning(
                        "cannot accept on %s: %s; trying again every %g s", self, reason(exc), _RETRY
                    )
                self._loop.remove_reader(sock)
                self._retries[sock] = self._loop.call_later(_RETRY, self._accept_again, sock)
                return
            self._starved = False
            accepted.setblocking(False)
            task = self._loop.create_task(self._hand_over(accepted))
            self._accepting.add(task)
            task.add_done_callback(self._accepting.discard)

    def _accept_again(self, sock: socket.socket) -> None:
        del self._retries[sock]
        self._loop.add_reader(sock, self._accept, sock)

    async def _hand_over(self, sock: socket.socket) -> None:
        try:
            await self._take(sock)
        except OSError:
            pass  # it is gone again; no protocol has heard of it
        except Exception as exc:
            context = {"message": f"no protocol for a connection accepted by {self}", "exception": exc}
            self._loop.call_exception_handler(context)

    async def _take(self, sock: socket.socket) -> None:
        """Make a connection of an accepted socket, which belongs to this call."""
        await _to_loop(sock, self._protocol_factory)


async def adopt(sock: socket.socket, protocol_factory: Callable[[], P]) -> tuple[asyncio.Transport, P]:
    """Give a connected socket to the loop. It is closed if that fails or is cancelled; the caller must not close it."""
    # A task of its own, so that a cancel does not reach into the loop: uvloop, cancelled between connection_made and
    # its return, would close the connection without ever calling connection_lost. It waits for nobody but the loop.
    adoption = asyncio.get_running_loop().create_task(_to_loop(sock, protocol_factory))
    try:
        return await asyncio.shield(adoption)
    except asyncio.CancelledError:
        adoption.add_done_callback(_abandon)
        raise


def _abandon(adoption: asyncio.Task[tuple[asyncio.Transport, P]]) -> None:
    """End a connection that nobody waits for any more."""
    if not adoption.cancelled() and adoption.exception() is None:
        adoption.result()[0].abort()


async def _to_loop(sock: socket.socket, protocol_factory: Callable[[], P]) -> tuple[asyncio.Transport, P]:
    """Make a transport of a connected socket, from whichever side: this call takes all families on both loops."""
    try:
        return await asyncio.get_running_loop().connect_accepted_socket(protocol_factory, sock)
    except BaseException:
        # If the loop had taken it, this is harmless: asyncio closes the same object, uvloop has detached it.
        sock.close()
        raise


def check_given(sock: socket.socket, scheme: str, families: Sequence[int]) -> None:
    """Check a socket that the caller wants listened on: its family, its type, and that it is bound.

    Raises:
        ConfigurationError: it is of another kind, or not bound.
    """
    if sock.family not in families or sock.type != socket.SOCK_STREAM:
        raise ConfigurationError(f"{scheme}:// cannot listen on {sock!r}: a stream socket of its own family is needed")
    name = sock.getsockname()
    if not name or (isinstance(name, tuple) and name[1] == 0):
        raise ConfigurationError(f"{sock!r} is not bound: bind it before it is given as sock=")


def reason(error: OSError) -> str:
    """What the system said, in its words."""
    return error.strerror or str(error) or type(error).__name__
