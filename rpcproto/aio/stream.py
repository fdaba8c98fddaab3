"""Streams and channels as users have them: asynchronous iterators, and what can be sent to.

Not compiled: asynchronous generators are the quickest way to hand out one value after another, and compiled ones are
not what ``inspect`` and debuggers expect. What has no Python frame a value is in ``items``.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Generator
from types import TracebackType
from typing import Any

from rpcproto.aio.items import Items

__all__ = ["Channel", "Stream"]


class _Done:
    """An awaitable that is done."""

    __slots__ = ()

    def __await__(self) -> Generator[Any, None, None]:
        return iter(())  # type: ignore[return-value]


_DONE = _Done()


async def _stream(items: Items) -> AsyncIterator[Any]:
    """The values of a stream. Left before its end, it gives the call up."""
    try:
        while (batch := items.take()) is not None:
            if not batch:
                await items.wait()
            while batch:
                yield batch.pop()
    finally:
        items.abandon()


async def _values(items: Items, channel: Channel) -> AsyncIterator[Any]:
    """Values of a channel, which stays open: another iterator goes on where this one was left."""
    while (batch := items.take()) is not None:
        if not batch:
            await items.wait()
        while batch:
            yield batch.pop()
    del channel  # kept so far: a channel that nobody has is given up


class _Call:
    """What streams and channels have in common."""

    __slots__ = ("__weakref__", "_items")

    def __init__(self, items: Items) -> None:
        self._items = items

    @property
    def method(self) -> str:
        """Name of the method called."""
        name: str = self._items.method
        return name

    @property
    def over(self) -> bool:
        """Whether the call has ended, in both directions. What has arrived can still be taken."""
        return self._items.over

    def on_items(
        self,
        consumer: Callable[[list[Any]], object],
        *,
        on_end: Callable[[BaseException | None], object] | None = None,
    ) -> None:
        """Have a plain function called with everything that each read brings, instead of iterating.

        Args:
            consumer: called as ``consumer(values)`` with a list of one value or more, in order. It must not block. What
                it sends goes out together, after it has returned. If it raises, the call ends.
            on_end: called once when nothing more will come: with None, or with the error.

        Raises:
            ConfigurationError: the items have a consumer already.
        """
        self._items.consume(consumer, on_end)

    def cancel(self) -> None:
        """Give the call up: tell the peer, and forget what has arrived. Another task that waits for its values gets
        CallCancelled."""
        self._items.cancel()

    async def aclose(self) -> None:
        """Give the call up, unless it is over. As :meth:`cancel`, for ``contextlib.aclosing`` and its like."""
        self._items.cancel()

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.method}{' over' if self.over else ''}>"


class Stream(_Call):
    """The values that a method sends, one after the other: ``async for value in client.stream("Service.method")``.

    Iterate it once, by one task. An iterator that is left before its end gives the call up, as soon as nobody refers to
    it; to be sure of the moment, use ``async with client.stream(...) as stream``.

    Raises:
        RpcError: by iterating: the call has failed. What arrived before that comes first.
    """

    __slots__ = ("_iterator",)

    def __init__(self, items: Items) -> None:
        super().__init__(items)
        self._iterator: AsyncIterator[Any] | None = None

    def __aiter__(self) -> AsyncIterator[Any]:
        if self._iterator is None:
            self._iterator = _stream(self._items)
        return self._iterator

    def __anext__(self) -> Awaitable[Any]:
        return self.__aiter__().__anext__()

    async def __aenter__(self) -> Stream:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._items.cancel()

    def __del__(self) -> None:
        if getattr(self, "_iterator", self) is None and not self._items.consumed():
            _forget(self._items)


class Channel(_Call):
    """Both ends send values, in both directions at once and independently.

    Made by ``client.channel("Service.method")``, and given to the handler as its first argument. Iterate it to receive;
    one task at a time. An iterator can be left and another one goes on. A channel that nobody refers to, or whose
    ``async with`` block is left, is given up unless both ends have ended.
    """

    __slots__ = ()

    def send(self, value: Any) -> Awaitable[None]:
        """Send a value: ``await channel.send(value)``.

        It is sent at once if its turn has come and the other end takes it; awaiting waits for that. Without awaiting,
        what a slow peer does not take is kept here, up to ``Limits.max_queued``.

        Args:
            value: as for ``request``. Buffers larger than 4 KiB must not be changed until this is done.

        Raises:
            SerializationError: it cannot be encoded, or is larger than the peer receives.
            LocalProtocolError: after :meth:`end`.
            CallCancelled: the call is over.
            Overloaded: more waits already than ``max_queued``. Awaiting each send prevents it.
        """
        handle = self._items.send(value)
        return _DONE if handle is None else handle

    def ready(self) -> bool:
        """Whether a small value sent now would leave at once. For plain functions, which cannot wait."""
        return self._items.connection.may_send(self._items)

    def end(self) -> None:
        """Send nothing more. The other end's iterator ends after the last value; this one goes on receiving."""
        self._items.end(False)

    async def flush(self) -> None:
        """Wait until everything sent so far has been handed to the operating system.

        Raises:
            RpcError: the call has failed.
        """
        handle = self._items.flushed()
        if handle is not None:
            await handle

    def __aiter__(self) -> AsyncIterator[Any]:
        return _values(self._items, self)

    async def receive(self) -> Any:
        """The next value.

        Raises:
            EOFError: the other end has sent its last one.
            RpcError: the call has failed.
        """
        items = self._items
        while (batch := items.take()) is not None:
            if batch:
                return batch.pop()
            await items.wait()
        raise EOFError(f"{self.method}: the other end has sent its last value")

    async def __aenter__(self) -> Channel:
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._items.cancel()

    def __del__(self) -> None:
        items = getattr(self, "_items", None)
        if items is not None and not items.consumed():
            _forget(items)


def _forget(items: Items) -> None:
    """Nobody refers to a call any more. The garbage collector may say so in any thread."""
    if items.over or items.leaving:
        return
    loop = items.loop()
    if loop is asyncio._get_running_loop():
        items.abandon()
    elif not loop.is_closed():
        loop.call_soon_threadsafe(items.abandon)
