"""Streams and channels for threads that wait: iterators.

Values come in batches, everything that has arrived at once, so that a thread is not woken for each of them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rpcproto.aio.portal import Done, Portal

if TYPE_CHECKING:
    from rpcproto.aio.items import Items
    from rpcproto.aio.stream import Channel, Stream

__all__ = ["BlockingChannel", "BlockingStream"]


async def _next_batch(items: Items) -> list[Any]:
    """The values that have arrived, in order; waits for one. Empty after the last one."""
    while (batch := items.take()) is not None:
        if batch:
            values = batch[::-1]
            batch.clear()
            return values
        await items.wait()
    return []


class _BlockingCall:
    """What both have in common. Used by one thread at a time, whichever that is."""

    __slots__ = ("__weakref__", "_call", "_portal", "_values")

    def __init__(self, call: Stream | Channel, portal: Portal) -> None:
        self._call = call  # given up when nobody refers to it any more
        self._portal = portal
        self._values: deque[Any] = deque()

    @property
    def method(self) -> str:
        """Name of the method called."""
        return self._call.method

    @property
    def over(self) -> bool:
        """Whether the call has ended, in both directions. What has arrived can still be taken."""
        return self._call.over

    def cancel(self) -> None:
        """Give the call up: tell the peer, and forget what has arrived. Does not wait."""
        self._values.clear()
        self._portal.give_up(self._call.cancel)

    def close(self) -> None:
        """Give the call up, unless it is over. As :meth:`cancel`, for ``contextlib.closing``."""
        self.cancel()

    def __iter__(self) -> Iterator[Any]:
        return self

    def __next__(self) -> Any:
        if not self._values:
            self._values.extend(self._portal.run(_next_batch, self._call._items))
            if not self._values:
                raise StopIteration
        return self._values.popleft()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.cancel()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.method}{' over' if self.over else ''}>"


class BlockingStream(_BlockingCall):
    """The values that a method sends, one after the other: ``for value in client.stream("Service.method")``.

    A stream that is left before its end gives the call up, as soon as nobody refers to it; to be sure of the moment,
    use ``with client.stream(...) as stream``.

    Raises:
        RpcError: by iterating: the call has failed. What arrived before that comes first.
    """

    __slots__ = ()

    def __enter__(self) -> BlockingStream:
        return self


class BlockingChannel(_BlockingCall):
    """Both ends send values, in both directions. Iterate it to receive; the iterator ends when the other end has sent
    its last value. One thread may receive while another one sends.

    A channel that nobody refers to, or whose ``with`` block is left, is given up unless both ends have ended.
    """

    __slots__ = ()

    _call: Channel

    def send(self, value: Any) -> None:
        """Send a value. Waits while the other end is behind.

        Args:
            value: as for ``request``.

        Raises:
            SerializationError: it cannot be encoded, or is larger than the peer receives.
            LocalProtocolError: after :meth:`end`.
            RpcError: the call is over.
        """
        self._portal.call(self._send, value)

    def _send(self, value: Any) -> Any:
        handle = self._call._items.send(value)
        return Done(None) if handle is None else handle

    def end(self) -> None:
        """Send nothing more. The other end's iterator ends after the last value; this one goes on receiving."""
        self._portal.call(self._end)

    def _end(self) -> Done:
        return Done(self._call.end())  # type: ignore[func-returns-value]

    def flush(self) -> None:
        """Wait until everything sent so far has been handed to the operating system.

        Raises:
            RpcError: the call has failed.
        """
        self._portal.run(self._call.flush)

    def receive(self) -> Any:
        """The next value.

        Raises:
            EOFError: the other end has sent its last one.
            RpcError: the call has failed.
        """
        for value in self:
            return value
        raise EOFError(f"{self.method}: the other end has sent its last value")

    def __enter__(self) -> BlockingChannel:
        return self
