"""One connection as the loop sees it: calls between user code, codecs and the connection's state.

A session is the :class:`~rpcproto.connection.handler.CallHandler` of its connection. A request of ours goes through
:meth:`Session.request` to the codec and the connection; the peer's calls are served by the base class.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rpcproto import _clock
from rpcproto.aio import _thread
from rpcproto.aio.context import slot_of
from rpcproto.aio.items import Items
from rpcproto.aio.reply import Reply, new_reply
from rpcproto.aio.serving import Entry
from rpcproto.aio.streaming import Streaming, to_seconds
from rpcproto.connection.connection import Connection
from rpcproto.errors import RpcError, SerializationError
from rpcproto.serialization import registry
from rpcproto.serialization.metadata import encode_metadata
from rpcproto.wire.decoder import Decoder

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from rpcproto.aio.peer import Peer
    from rpcproto.aio.runtime import Runtime
    from rpcproto.aio.writer import Writer
    from rpcproto.config import Limits, Timeouts
    from rpcproto.connection.budget import ReassemblyBudget
    from rpcproto.connection.calls import PendingCall
    from rpcproto.serialization.codec import Codec

_PROMPT = 0.0005
"""Seconds: some hundred times what a system call for a single answer costs."""
_DEFAULT: Any = object()


class Session(Streaming):
    """The calls of one connection.

    Args:
        runtime: shared parts of the loop.
        registry: handlers offered to the peer, by name.
        codec: for calls that name none.
        limits, timeouts: of this side.
        tracebacks: tell the peer the traceback of a handler that raised.
        allocate: hook for the memory of large messages, or None.
    """

    __slots__ = (
        "allocator",
        "decoder",
        "limits",
        "request_timeout",
        "runtime",
        "timeouts",
        "writer",
    )

    def __init__(
        self,
        runtime: Runtime,
        entries: dict[str, Entry],
        codec: Codec,
        limits: Limits,
        timeouts: Timeouts,
        tracebacks: bool,
        allocate: Callable[[list[int]], Sequence[memoryview]] | None,
    ) -> None:
        self.runtime = runtime
        self.loop: asyncio.AbstractEventLoop = runtime.loop
        self.thread = _thread.ident()
        self.slot = slot_of(runtime.loop)
        self.wakes = runtime.wakes
        self.entries = entries
        self.codec = codec
        self.last_codec = codec
        self.limits = limits
        self.timeouts = timeouts
        self.tracebacks = tracebacks
        self.allocator = allocate if allocate is not None else runtime.memory.allocate
        self.request_timeout = 0.0 if timeouts.request is None else timeouts.request
        self.slow_after = timeouts.slow_handler
        self.prompt = min(_PROMPT, timeouts.slow_handler)
        self.mark = 0.0
        self.failed_handlers = 0
        self.holding = False
        self.read_over = False
        self.fresh: list[Items] = []
        self.spare: list[Any] | None = None
        self.connection: Connection | None = None
        self.decoder: Decoder | None = None
        self.writer: Writer | None = None
        self.peer: Peer | None = None
        self.link: Any = None

    def attach(self, role: int, budget: ReassemblyBudget) -> None:
        """Make the connection's state. Not in ``__init__``, since the state refers to a whole session."""
        limits = self.limits
        memory = self.runtime.memory
        connection = Connection(self, role, memory, limits, self.timeouts, limits.max_message_remote, budget, "")
        decoder = Decoder(
            connection,
            memory,
            role,
            limits.max_frame,
            limits.frames_per_turn,
        )
        connection.decoder = decoder
        self.connection = connection
        self.decoder = decoder

    # -- Our calls ---------------------------------------------------------------------------------------------------

    def request(
        self, method: str, *args: Any, timeout: Any = _DEFAULT, codec: Any = None, metadata: Any = None
    ) -> Reply:
        """Call a method of the peer and await its answer.

        Args:
            method: its name.
            args: positional arguments. Buffers larger than 4 KiB must not be changed until the call has ended.
            timeout: seconds until DeadlineExceeded, None for no limit; by default ``Timeouts.request``.
            codec: name of the codec of this call; by default the connection's.
            metadata: a small dict for the handler: text as keys; text, bytes, numbers, booleans or None as values; at
                most 16 KiB.

        Called by a handler, the call has no more time than what is left of the handler's own, and takes over its trace
        (the metadata ``traceparent``, ``tracestate`` and ``baggage``).

        Returns:
            An awaitable, future-like reply. Cancelling it gives the call up.

        Raises:
            SerializationError: the arguments or metadata cannot be encoded, or are larger than the peer receives.
            RpcError: the call cannot be made.
        """
        chosen = self.codec if codec is None else registry.get(codec)
        seconds = self.request_timeout if timeout is _DEFAULT else to_seconds(timeout)
        return self._request(method, args, seconds, chosen, metadata)

    def _request(self, method: str, args: tuple[Any, ...], seconds: float, codec: Codec, metadata: Any) -> Reply:
        if _thread.ident() != self.thread:
            self.move()
        slot = self.slot
        if slot.peer is not None or slot.nests:
            context = slot.context()
            if context is not None:
                seconds = context.seconds(seconds)
                metadata = context.passed_on(metadata)
        encoded = None if metadata is None else encode_metadata(metadata)
        connection = self.connection
        assert connection is not None
        buffers = self.spare
        if buffers is None:
            buffers = []
        else:
            self.spare = None
        body = codec.encode_args(args, buffers)
        size = len(body)
        reply = new_reply(self.wakes, connection, 0)
        if buffers:
            for buffer in buffers:
                size += len(buffer)
            connection.request(reply, method, codec.id, body, buffers, size, seconds, encoded)
        else:
            self.spare = buffers
            connection.request(reply, method, codec.id, body, None, size, seconds, encoded)
        return reply

    def notify(self, method: str, *args: Any, codec: Any = None, metadata: Any = None) -> Reply:
        """Call a method of the peer that does not answer.

        Args:
            method, args, codec, metadata: as for :meth:`request`.

        Returns:
            An awaitable handle, done once the message was handed to the operating system. It need not be awaited.
            Buffers larger than 4 KiB must not be changed until it is done.

        Raises:
            Overloaded: ``max_queued`` bytes wait to be sent already. Awaiting the handles of earlier notifies
            prevents it.
            SerializationError, RpcError: as for :meth:`request`.
        """
        if _thread.ident() != self.thread:
            self.move()
        chosen = self.codec if codec is None else registry.get(codec)
        context = self.slot.context()
        if context is not None:
            metadata = context.passed_on(metadata)
        encoded = None if metadata is None else encode_metadata(metadata)
        buffers: list[Any] = []
        body = chosen.encode_args(args, buffers)
        size = len(body)
        for buffer in buffers:
            size += len(buffer)
        connection = self.connection
        assert connection is not None
        handle = new_reply(self.wakes, None, 0)
        handle.method = method
        connection.notify(handle, method, chosen.id, body, buffers or None, size, encoded)
        return handle

    def ping(self) -> Reply:
        """Send a PING. The reply's result is None, once the answer has come."""
        connection = self.connection
        assert connection is not None
        if _thread.ident() != self.thread:
            self.move()
        reply = new_reply(self.wakes, None, 0)
        reply.method = "ping"
        connection.ping(reply)
        return reply

    def ping_quietly(self) -> None:
        """Send a PING only to show that this side is alive."""
        connection = self.connection
        assert connection is not None
        if connection.end is None:
            connection.ping(None)

    def stats(self) -> dict[str, int]:
        """Counters since the connection was made."""
        connection = self.connection
        decoder = self.decoder
        writer = self.writer
        assert connection is not None
        assert decoder is not None
        return {
            "calls_opened": connection.calls_opened,
            "calls_served": connection.calls_served,
            "calls_pending": len(connection.calls),
            "flows_open": len(connection.flows),
            "calls_running": len(connection.running),
            "calls_refused": connection.refused,
            "handlers_failed": self.failed_handlers,
            "late_replies": connection.late_replies,
            "messages_sent": connection.calls_opened + connection.calls_served + connection.items_sent,
            "messages_received": decoder.messages,
            "frames_received": decoder.frames,
            "bytes_sent": 0 if writer is None else writer.bytes_sent,
            "bytes_received": decoder.bytes_received,
            "bytes_queued": connection.queued(),
            "sends": 0 if writer is None else writer.sends,
            "reads": decoder.reads,
        }

    def on_reply(
        self, call: PendingCall, codec: int, metadata: bytes | None, body: Any, buffers: list[memoryview] | None
    ) -> int:
        if not self.holding:
            self.holding = True
            self.wakes.hold()
        reply: Any = call
        if metadata is not None:
            reply.given_metadata = metadata
        try:
            chosen = self.last_codec if codec == self.last_codec.id else self.codec_of(codec)
            reply.settle(chosen.decode_value(body, buffers))
        except Exception as error:
            self._undecodable(reply, error)
        return 0

    def _undecodable(self, reply: Reply, error: Exception) -> None:
        if isinstance(error, RpcError):
            reply.settle_error(error)
        else:
            wrong = SerializationError(f"{reply.method}: the reply cannot be decoded: {type(error).__name__}: {error}")
            wrong.__cause__ = error
            reply.settle_error(wrong)

    def on_failure(self, call: PendingCall, error: BaseException) -> int:
        if isinstance(call, Items):
            self.finish_flow(call, error)
        else:
            assert isinstance(call, Reply)
            call.settle_error(error)
        return 0

    def on_written(self, handle: object) -> int:
        assert isinstance(handle, Reply)
        handle.settle(None)
        return 0

    def on_pong(self, waiter: object) -> int:
        assert isinstance(waiter, Reply)
        waiter.settle(None)
        return 0

    # -- The loop ------------------------------------------------------------------------------------------------------

    def now(self) -> float:
        # Between the plain handlers of a read, the time when the last one ended will do.
        if self.mark == 0.0:
            return _clock.monotonic()
        return self.mark

    def allocate(self, sizes: list[int]) -> Sequence[memoryview]:
        return self.allocator(sizes)

    def on_output(self, at_once: bool) -> int:
        writer = self.writer
        if writer is None:
            return 0
        if at_once:
            writer.flush()
        else:
            writer.schedule()
        return 0

    def on_read_done(self) -> int:
        self.mark = 0.0
        self.read_over = True
        if self.holding:
            self.holding = False
            try:
                try:
                    if self.fresh:
                        self.deliver_fresh()
                finally:
                    self.wakes.release()
            except (KeyboardInterrupt, SystemExit) as error:
                # A caller ends the program. Out of a read uvloop would take that for a fault of the connection.
                self.loop.call_soon(_raise, error)
        writer = self.writer
        if writer is not None:
            writer.flush()
        self.read_over = False
        return 0

    def on_deadline(self, when: float) -> int:
        self.runtime.ticker.wake_at(self, when)
        return 0

    def on_time(self, now: float) -> float:
        """The ticker calls; returns when it shall call again."""
        connection = self.connection
        assert connection is not None
        return float(min(connection.on_time(now), self.link.on_time(now)))

    def on_open(self) -> int:
        self.link.on_open()
        return 0

    def on_backlog(self) -> int:
        self.link.on_backlog()
        return 0

    def on_pause(self, paused: bool) -> int:
        self.link.on_pause(paused)
        return 0

    def on_drain(self) -> int:
        self.link.on_drain()
        return 0

    def on_end(self, error: BaseException) -> int:
        self.link.on_end(error)
        return 0


def _raise(error: BaseException) -> None:
    raise error
