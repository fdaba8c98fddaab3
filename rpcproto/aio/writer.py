"""From the outbound queue of a connection to its socket.

While the transport's own buffer is empty, everything queued goes to the socket in one ``sendmsg`` past the transport.
When the socket takes no more, at most 64 KiB are copied to the transport by ``write()``: it waits until the socket
takes them and calls ``resume_writing``, and the writer goes on. Without a plain socket (TLS, inproc) everything goes by
``write()``, small parts joined, since each write costs more than the copy.

The transport must have write limits of (0, 0), so that ``pause_writing`` comes as soon as it holds anything. What it
was given by ``write()`` it may keep by reference until then. Under TLS the limits are (64 KiB, 0), and nothing is kept
by reference: it is encrypted at once.
"""

from __future__ import annotations

import os
import weakref
from typing import TYPE_CHECKING

from rpcproto.aio import _tuning as tuning
from rpcproto.transports import _sendmsg

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from rpcproto.connection.calls import PendingCall
    from rpcproto.connection.connection import Connection

    Buffer = bytes | bytearray | memoryview


class Writer:
    """Writes what one connection has to send.

    Args:
        loop: the loop of the connection.
        transport: its transport.
        descriptor: of its plain socket, or -1.
        connection: asked for what to send.

    Attributes:
        sends: system calls (or writes to the transport) so far.
        bytes_sent: bytes handed over so far.
        failed: the error of the socket, until the transport finds it too.
        on_drained: called without arguments, once, when nothing is left to send; set it again to be called again.
    """

    __slots__ = (
        "__weakref__",
        "blocked",
        "bytes_sent",
        "connection",
        "descriptor",
        "failed",
        "flushing",
        "handles",
        "index",
        "loop",
        "offset",
        "on_drained",
        "parts",
        "scheduled",
        "sends",
        "transport",
        "unsent",
    )

    def __init__(
        self, loop: asyncio.AbstractEventLoop, transport: asyncio.Transport, descriptor: int, connection: Connection
    ) -> None:
        self.loop = loop
        self.transport: asyncio.Transport | None = transport
        self.descriptor = descriptor
        self.connection = connection
        self.parts: list[Buffer] | None = None
        self.index = 0
        self.offset = 0
        self.unsent = 0
        self.blocked = False
        self.scheduled = False
        self.flushing = False
        self.sends = 0
        self.bytes_sent = 0
        self.failed: Exception | None = None
        self.handles: list[PendingCall] | None = None
        self.on_drained: Callable[[], object] | None = None
        _live.add(self)

    def schedule(self) -> None:
        """Flush in the next turn of the loop, so that what is queued until then goes out together."""
        if not self.scheduled and not self.blocked:
            self.scheduled = True
            self.loop.call_soon(self.flush_scheduled)

    def flush_scheduled(self) -> None:
        """Flush, as :meth:`schedule` asked for."""
        self.scheduled = False
        self.flush()

    def flush(self) -> None:
        """Send what is queued, as much as the socket takes. Raises nothing: a failure ends the connection later."""
        if self.transport is None:
            return
        if self.flushing:
            # A buffer was given up, and its finaliser made a call.
            self.schedule()
            return
        self.flushing = True
        try:
            self._flush()
        except Exception as error:
            self._fail(error)
        finally:
            self.flushing = False

    def _flush(self) -> None:
        while not self.blocked:
            parts = self.parts
            if parts is None:
                parts = self.connection.take(tuning.FLUSH_LIMIT)
                if parts is None:
                    break
                self.parts = parts
                self.index = 0
                self.offset = 0
                self.unsent = self.connection.outbox.taken
                if self.connection.outbox.handles is not None:
                    self._hold_handles(self.connection.outbox.handles)
            if self.descriptor >= 0:
                self._send(parts)
            else:
                self._write(parts)
            if self.unsent == 0:
                self.parts = None
                if self.handles is not None and (self.descriptor >= 0 or not self.blocked):
                    self._release_handles()
        self.connection.on_sent(self.unsent)
        if self.on_drained is not None and self.drained():
            on_drained = self.on_drained
            self.on_drained = None
            on_drained()

    def resume(self) -> None:
        """The transport's buffer is empty again."""
        self.blocked = False
        if self.unsent == 0 and self.handles is not None:
            self._release_handles()
        self.flush()

    def pause(self) -> None:
        """The transport holds bytes: nothing may be sent past it."""
        self.blocked = True

    def drained(self) -> bool:
        """Whether all that was queued has been handed to the operating system."""
        return not self.blocked and self.connection.queued() == 0

    def detach(self) -> list[PendingCall]:
        """Never touch the socket again: its descriptor is about to be closed and given to somebody else.

        Returns:
            The handles of notifies of which it is not known whether they were sent whole.
        """
        self.descriptor = -1
        self.transport = None
        self.parts = None
        self.unsent = 0
        self.on_drained = None
        handles = self.handles
        self.handles = None
        return [] if handles is None else handles

    def _send(self, parts: list[Buffer]) -> None:
        """One system call."""
        sent = _sendmsg.send_parts(self.descriptor, parts, self.index, self.offset)
        self.sends += 1
        self.bytes_sent += sent
        self.unsent -= sent
        if self.unsent:
            self._advance(sent)
            if sent == 0:
                self._hand_over(parts)

    def _advance(self, sent: int) -> None:
        """Move on by ``sent`` bytes in the parts."""
        parts = self.parts
        if parts is None:
            return
        sent += self.offset
        while sent >= len(parts[self.index]):
            sent -= len(parts[self.index])
            parts[self.index] = b""
            self.index += 1
        self.offset = sent

    def _hand_over(self, parts: list[Buffer]) -> None:
        """Give the transport a copy of at most 64 KiB, so that it waits for the socket."""
        transport = self.transport
        if transport is None or transport.is_closing():
            self.blocked = True  # the end of the connection is on its way
            return
        size = min(self.unsent, tuning.HAND_OVER)
        copy = bytearray()
        index = self.index
        offset = self.offset
        while len(copy) < size:
            part = parts[index]
            copy += memoryview(part)[offset : offset + size - len(copy)]
            index += 1
            offset = 0
        self.unsent -= size
        self.bytes_sent += size
        if self.unsent:
            self._advance(size)
        transport.write(bytes(copy))

    def _write(self, parts: list[Buffer]) -> None:
        """Give everything to the transport, until it holds something: small parts joined, large ones by themselves."""
        transport = self.transport
        if transport is None or transport.is_closing():
            self.blocked = True  # the end of the connection is on its way
            return
        while transport is not None and self.unsent and not self.blocked:
            part = parts[self.index]
            size = len(part)
            if size >= tuning.HAND_OVER:
                parts[self.index] = b""
                self.index += 1
                self.offset = 0
                data: Buffer = part
            else:
                small = [part]
                self.index += 1
                while self.index < len(parts) and size + len(parts[self.index]) <= tuning.HAND_OVER:
                    small.append(parts[self.index])
                    size += len(parts[self.index])
                    self.index += 1
                data = b"".join(small)
            self.unsent -= size
            self.bytes_sent += size
            self.sends += 1
            transport.write(data)
            transport = self.transport

    def _hold_handles(self, handles: list[PendingCall]) -> None:
        if self.handles is None:
            self.handles = handles
        else:
            self.handles = self.handles + handles

    def _release_handles(self) -> None:
        handles = self.handles
        self.handles = None
        if handles is not None:
            for handle in handles:
                self.connection.on_written(handle)

    def _fail(self, error: Exception) -> None:
        """The socket is broken. Aborting lets the transport tell the protocol, in a later turn."""
        self.failed = error
        self.blocked = True
        if self.transport is not None:
            self.transport.abort()


_live: weakref.WeakSet[Writer] = weakref.WeakSet()


def _after_fork() -> None:
    """A forked child must not write to the sockets it shares with its parent."""
    for writer in list(_live):
        writer.detach()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
