"""Streams and channels of a session: opening ours, and what arrives in those of both sides."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rpcproto.aio import _thread
from rpcproto.aio.items import Items
from rpcproto.aio.portal import check_thread
from rpcproto.aio.serving import Serving
from rpcproto.aio.stream import Channel, Stream
from rpcproto.errors import ConfigurationError, SerializationError
from rpcproto.serialization import registry
from rpcproto.serialization.metadata import encode_metadata
from rpcproto.wire import spec

if TYPE_CHECKING:
    from rpcproto.connection.calls import Flow
    from rpcproto.serialization.codec import Codec

_FOREVER = float("inf")


class Streaming(Serving):
    """The half of a session that streams. Made as a :class:`~rpcproto.aio.session.Session`, which sets the fields.

    Attributes:
        holding: waiters are held back until the read that is being handled ends.
        fresh: streams and channels to which this read has brought something.
        read_over: the read was handled; waiters and consumers run now.
        thread: id of the thread in which calls are made.
    """

    __slots__ = ("fresh", "holding", "read_over", "thread")

    fresh: list[Items]
    holding: bool
    read_over: bool
    thread: int

    def stream(self, method: str, *args: Any, timeout: Any = None, codec: Any = None, metadata: Any = None) -> Stream:
        """Call a method of the peer that sends many values.

        Args:
            method, args, codec, metadata: as for :meth:`request`.
            timeout: seconds until the whole call must have ended, else DeadlineExceeded; None for no limit.

        Returns:
            An asynchronous iterator. Giving it up gives the call up.

        Raises:
            SerializationError, RpcError: as for :meth:`request`.
        """
        return Stream(self._open_flow(spec.STREAM, method, args, timeout, codec, metadata))

    def channel(self, method: str, *args: Any, timeout: Any = None, codec: Any = None, metadata: Any = None) -> Channel:
        """Call a method of the peer with which both sides exchange many values.

        Args:
            method, args, timeout, codec, metadata: as for :meth:`stream`. The codec is also for what is sent in the
                channel.

        Returns:
            The channel, to iterate and to send to.

        Raises:
            SerializationError, RpcError: as for :meth:`request`.
        """
        return Channel(self._open_flow(spec.CHANNEL, method, args, timeout, codec, metadata))

    def _open_flow(
        self, kind: int, method: str, args: tuple[Any, ...], timeout: Any, codec: Any, metadata: Any
    ) -> Items:
        if _thread.ident() != self.thread:
            self.move()
        chosen: Codec = self.codec if codec is None else registry.get(codec)
        seconds = to_seconds(timeout)
        context = self.slot.context()
        if context is not None:
            seconds = context.seconds(seconds)
            metadata = context.passed_on(metadata)
        encoded = None if metadata is None else encode_metadata(metadata)
        buffers: list[Any] = []
        body = chosen.encode_args(args, buffers)
        size = len(body)
        for buffer in buffers:
            size += len(buffer)
        connection = self.connection
        assert connection is not None
        items = Items(self, self.wakes, connection, chosen)
        connection.open_flow(items, kind, method, chosen.id, body, buffers or None, size, seconds, encoded)
        return items

    def move(self) -> None:
        """A call is made in another thread than the last one: the loop runs there now, or that is an error."""
        connection = self.connection
        assert connection is not None
        self.thread = check_thread(self.loop, connection.peer)

    def on_item(
        self,
        flow: Flow,
        codec: int,
        metadata: bytes | None,
        body: Any,
        buffers: list[memoryview] | None,
        cost: int,
    ) -> int:
        items: Any = flow
        try:
            chosen = self.last_codec if codec == self.last_codec.id else self.codec_of(codec)
            items.add(chosen.decode_value(body, buffers), cost)
        except Exception as error:
            self._undecodable_item(items, error)
            return 0
        self._fresh(items)
        return 0

    def _undecodable_item(self, items: Items, error: Exception) -> None:
        wrong = SerializationError(f"{items.method}: an item cannot be decoded: {type(error).__name__}: {error}")
        wrong.__cause__ = error
        connection = self.connection
        assert connection is not None
        connection.fail_flow(items, wrong)

    def on_items_end(self, flow: Flow) -> int:
        self._fresh(flow)
        return 0

    def on_flow_over(self, flow: Flow) -> int:
        assert isinstance(flow, Items)
        self.finish_flow(flow, None)
        return 0

    def finish_flow(self, items: Items, error: BaseException | None) -> None:
        """A stream or channel is over: its consumer is told now, or when the read is handled that has ended it."""
        connection = self.connection
        assert connection is not None
        items.finish(error)
        if connection.outbox.reading and not self.read_over:
            self._fresh(items)
        else:
            items.deliver()

    def _fresh(self, items: Any) -> None:
        """Something has arrived in a stream or channel: hand it over when the read ends."""
        if not self.holding:
            self.holding = True
            self.wakes.hold()
        if not items.fresh:
            items.fresh = True
            self.fresh.append(items)

    def deliver_fresh(self) -> None:
        """Hand over what has arrived in this read."""
        while self.fresh:
            items = self.fresh.pop()
            if items.fresh:
                items.deliver()


def to_seconds(timeout: Any) -> float:
    """A timeout as it is kept: 0.0 for none.

    Raises:
        ConfigurationError: it is neither None nor 0 or more seconds.
    """
    if timeout is None:
        return 0.0
    try:
        seconds = float(timeout)
    except (TypeError, ValueError):
        raise ConfigurationError(f"timeout must be a number of seconds or None, not {timeout!r}") from None
    if not seconds >= 0.0:
        raise ConfigurationError(f"timeout must be 0 or more seconds, or None, not {timeout!r}")
    return 0.0 if seconds == _FOREVER else max(seconds, 1e-9)
