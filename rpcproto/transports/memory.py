"""Two asyncio transports joined in memory, within one event loop.

Each end keeps the bytes that wait for *its* protocol in an inbox; ``write`` puts them into the other end's inbox. The
rules:

1. A protocol is called from the loop, never from inside ``write`` or another call of the other end's protocol. One
   ``call_soon`` serves everything written before it runs, and hands over at most :data:`TURN` bytes.
2. Bytes are not copied by ``write``: they wait by reference until they are copied into the receiver's buffer, or go
   to ``data_received``. Until then they count as the writer's write buffer, so limits of ``(0, 0)`` mean that
   ``pause_writing`` is called for every write, and ``resume_writing`` tells that the bytes may be used again.
3. The ends of a connection look as they do on TCP. Closing delivers what was written, then the other end sees the end
   of input; closing with unread input, or aborting, resets the other end; writing to an end that is gone breaks the
   pipe.
4. A protocol's callbacks run in a copy of the context in which its end was started.
"""

from __future__ import annotations

import asyncio
import contextvars
import errno
import os
from collections import deque
from collections.abc import Iterable
from typing import Any

__all__ = ["TURN", "MemoryTransport"]

TURN = 256 * 1024
"""Bytes handed to one protocol in one loop turn, before others get theirs."""

_HIGH_WATER = 64 * 1024


class MemoryTransport(asyncio.Transport):
    """One end. Made in pairs by :meth:`pair`, and of use once :meth:`start` has given it a protocol."""

    __slots__ = (
        "__weakref__",
        "_closing",
        "_context",
        "_eof_seen",
        "_eof_written",
        "_head",
        "_high",
        "_inbox",
        "_inbox_size",
        "_input_ended",
        "_input_error",
        "_loop",
        "_lost",
        "_low",
        "_other",
        "_protocol",
        "_protocol_paused",
        "_reading",
        "_scheduled",
        "_unread",
    )

    _other: MemoryTransport

    def __init__(self, loop: asyncio.AbstractEventLoop, extra: dict[str, Any]) -> None:
        super().__init__(extra)
        self._loop = loop
        self._context: contextvars.Context | None = None
        self._protocol: Any = None
        self._inbox: deque[memoryview] = deque()
        self._inbox_size = 0
        self._head = 0  # bytes of the first part in the inbox that were handed over
        self._input_ended = False  # the other end writes no more
        self._input_error: OSError | None = None  # ... because of this
        self._eof_seen = False  # ... and the protocol knows
        self._eof_written = False
        self._unread = False  # input was thrown away
        self._reading = True
        self._closing = False  # no more callbacks but connection_lost
        self._lost = False  # connection_lost is called or about to be
        self._scheduled = False
        self._high = _HIGH_WATER
        self._low = _HIGH_WATER // 4
        self._protocol_paused = False

    @classmethod
    def pair(
        cls, loop: asyncio.AbstractEventLoop, extra: dict[str, Any], other_extra: dict[str, Any]
    ) -> tuple[MemoryTransport, MemoryTransport]:
        """Make two joined ends. The mappings are what ``get_extra_info`` knows at each."""
        one, other = cls(loop, extra), cls(loop, other_extra)
        one._other, other._other = other, one
        return one, other

    def start(self, protocol: asyncio.BaseProtocol) -> None:
        """Call ``connection_made``, then deliver what has been written meanwhile."""
        self._context = contextvars.copy_context()
        self._protocol = protocol
        try:
            protocol.connection_made(self)
        except BaseException as exc:
            self._lose(exc, _reset())
            raise
        self._schedule()

    def __repr__(self) -> str:
        state = "closed" if self._lost else "closing" if self._closing else "open"
        return f"<{type(self).__name__} {state} to {self.get_extra_info('peer_address')}>"

    # What asyncio.Transport promises: reading

    def is_reading(self) -> bool:
        return self._reading and not self._closing

    def pause_reading(self) -> None:
        self._reading = False

    def resume_reading(self) -> None:
        self._reading = True
        self._schedule()

    # ... writing

    def write(self, data: bytes | bytearray | memoryview) -> None:
        self._put(data)
        self._pause_protocol()

    def writelines(self, list_of_data: Iterable[bytes | bytearray | memoryview]) -> None:
        for data in list_of_data:
            self._put(data)
        self._pause_protocol()

    def can_write_eof(self) -> bool:
        return True

    def write_eof(self) -> None:
        if not self._eof_written and not self._closing:
            self._eof_written = True
            self._other._end_input(None)

    def get_write_buffer_size(self) -> int:
        return self._other._inbox_size

    def get_write_buffer_limits(self) -> tuple[int, int]:
        return self._low, self._high

    def set_write_buffer_limits(self, high: int | None = None, low: int | None = None) -> None:
        if high is None:
            high = _HIGH_WATER if low is None else 4 * low
        if low is None:
            low = high // 4
        if not high >= low >= 0:
            raise ValueError(f"high ({high}) must be at least low ({low}), and low at least 0")
        self._high, self._low = high, low
        self._pause_protocol()

    # ... the protocol, closing

    def get_protocol(self) -> asyncio.BaseProtocol:
        return self._protocol  # type: ignore[no-any-return]

    def set_protocol(self, protocol: asyncio.BaseProtocol) -> None:
        self._protocol = protocol

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        if self._closing:
            return
        self._closing = True
        self._discard()
        if not self._other._inbox:
            self._lose(None, None)

    def abort(self) -> None:
        self._lose(None, _reset())

    # Writing

    def _put(self, data: bytes | bytearray | memoryview) -> None:
        """Put bytes into the other end's inbox."""
        if not isinstance(data, (bytes, bytearray, memoryview)):
            raise TypeError(f"data must be bytes, a bytearray or a memoryview, not {type(data).__name__}")
        if self._eof_written:
            raise RuntimeError("cannot write after write_eof()")
        part = memoryview(data)
        if self._closing or not part.nbytes:
            return
        other = self._other
        if other._lost:
            self._end_input(BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE)))
        elif other._closing:
            other._unread = True
        else:
            other._inbox.append(part.cast("B"))
            other._inbox_size += part.nbytes
            other._schedule()

    def _pause_protocol(self) -> None:
        if self._other._inbox_size > self._high and not self._protocol_paused:
            self._protocol_paused = True
            self._tell_protocol("pause_writing")

    def _resume_protocol(self) -> None:
        if self._protocol_paused and not self._lost and self._other._inbox_size <= self._low:
            self._protocol_paused = False
            self._tell_protocol("resume_writing")

    def _tell_protocol(self, method: str) -> None:
        try:
            getattr(self._protocol, method)()
        except Exception as exc:
            self._report(exc, f"protocol.{method}() failed")

    # Reading

    def _schedule(self) -> None:
        if not self._scheduled and self._context is not None and not self._lost:
            self._scheduled = True
            self._loop.call_soon(self._deliver, context=self._context)

    def _deliver(self) -> None:
        """Hand over what waits, up to a turn's worth; then the end of the input."""
        self._scheduled = False
        room = TURN
        try:
            while self._inbox and room > 0 and self._reading and not self._closing:
                room -= self._hand_over(room)
            if self._input_ended and not self._inbox:
                self._hand_over_end()
        except Exception as exc:
            self._report(exc, "a callback of the protocol failed")
            self._lose(exc, _reset())
            return
        if self._inbox and self._reading:
            self._schedule()
        writer = self._other
        writer._resume_protocol()
        if writer._closing and not self._inbox:
            writer._lose(None, None)

    def _hand_over(self, room: int) -> int:
        """Hand over bytes once, at most ``room`` into a buffer; returns how many."""
        protocol = self._protocol
        if not isinstance(protocol, asyncio.BufferedProtocol):
            part = self._inbox.popleft()[self._head :]
            self._head = 0
            self._inbox_size -= len(part)
            whole = part.obj
            protocol.data_received(whole if type(whole) is bytes and len(whole) == len(part) else bytes(part))
            return len(part)
        with memoryview(protocol.get_buffer(-1)).cast("B") as buffer:
            if not len(buffer):
                raise RuntimeError("get_buffer() returned an empty buffer")
            size = self._fill(buffer[:room])
        protocol.buffer_updated(size)
        return size

    def _fill(self, buffer: memoryview) -> int:
        """Copy from the inbox into ``buffer``; returns how many bytes."""
        inbox = self._inbox
        filled = 0
        while inbox and filled < len(buffer):
            part = inbox[0]
            size = min(len(part) - self._head, len(buffer) - filled)
            buffer[filled : filled + size] = part[self._head : self._head + size]
            filled += size
            self._head += size
            if self._head == len(part):
                inbox.popleft()
                self._head = 0
        self._inbox_size -= filled
        return filled

    def _hand_over_end(self) -> None:
        if self._input_error is not None:
            self._lose(self._input_error, None)
        elif self._reading and not self._closing and not self._eof_seen:
            self._eof_seen = True
            if not self._protocol.eof_received():
                self.close()

    def _end_input(self, error: OSError | None) -> None:
        """The other end writes no more, because of ``error`` or in good order."""
        self._input_ended = True
        self._input_error = self._input_error or error
        self._schedule()

    def _discard(self) -> None:
        """Throw away what waits for this end."""
        if self._inbox:
            self._unread = True
            self._inbox.clear()
            self._inbox_size = self._head = 0

    # The end

    def _lose(self, error: BaseException | None, told: OSError | None) -> None:
        """End this end's connection with ``error``; ``told`` is what the other end learns, None for the end of input.

        What this end wrote and nobody has read is dropped if the other end is told of an error.
        """
        if self._lost:
            return
        self._closing = self._lost = True
        self._discard()
        other = self._other
        if told is not None:
            other._discard()
        elif self._unread:
            told = _reset()
        other._end_input(told)
        self._loop.call_soon(self._connection_lost, error, context=self._context)

    def _connection_lost(self, error: BaseException | None) -> None:
        protocol, self._protocol = self._protocol, None
        if protocol is not None:
            protocol.connection_lost(error)

    def _report(self, error: Exception, message: str) -> None:
        context = {"message": message, "exception": error, "transport": self, "protocol": self._protocol}
        self._loop.call_exception_handler(context)


def _reset() -> ConnectionResetError:
    return ConnectionResetError(errno.ECONNRESET, os.strerror(errno.ECONNRESET))
