"""One connection as the loop sees it: calls between user code, codecs and the connection's state.

A session is the :class:`~rpcproto.connection.handler.CallHandler` of its connection. A request of ours goes through
:meth:`Session.request` to the codec and the connection; a call of the peer comes back through
:meth:`Session.on_call` to
the handler. Plain handlers run right there, within the read that brought the call, so that the answers of a whole
read leave in one system call.
"""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from rpcproto import _clock
from rpcproto.aio import _tuning as tuning
from rpcproto.aio import tasks
from rpcproto.aio.context import current
from rpcproto.aio.reply import Reply, new_reply
from rpcproto.connection.connection import Connection
from rpcproto.connection.handler import CallHandler
from rpcproto.errors import ConfigurationError, RpcError, SerializationError
from rpcproto.serialization import registry
from rpcproto.wire import spec
from rpcproto.wire.decoder import Decoder
from rpcproto.wire.spec import ErrorCode

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable, Sequence

    from rpcproto.aio.handler import Handler
    from rpcproto.aio.peer import Peer
    from rpcproto.aio.runtime import Runtime
    from rpcproto.aio.writer import Writer
    from rpcproto.config import Limits, Timeouts
    from rpcproto.connection.budget import ReassemblyBudget
    from rpcproto.connection.calls import PendingCall, RunningCall
    from rpcproto.serialization.codec import Codec

log = logging.getLogger("rpcproto")

_MODES = {"inline": tuning.INLINE, "task": tuning.TASK, "thread": tuning.THREAD}
_DEFAULT: Any = object()
_PLAIN = tasks.PLAIN


class Entry:
    """A handler, with what a call needs of it in C fields."""

    __slots__ = ("function", "handler", "kind", "mode", "name", "slow_told")

    def __init__(self, handler: Handler) -> None:
        self.handler = handler
        self.name = handler.name
        self.kind = int(handler.kind)
        self.mode = _MODES[handler.mode]
        self.function: Callable[..., Any] = handler.function
        self.slow_told = False


class Session(CallHandler):
    """The calls of one connection.

    Args:
        runtime: shared parts of the loop.
        registry: handlers offered to the peer, by name.
        codec: for calls that name none.
        limits, timeouts: of this side.
        tracebacks: tell the peer the traceback of a handler that raised.
        allocate: hook for the memory of large messages, or None.

    Attributes:
        spare: an empty list for the buffers of the next message. Most have none, so the same list serves again.
    """

    __slots__ = (
        "allocator",
        "codec",
        "connection",
        "decoder",
        "entries",
        "failed_handlers",
        "holding",
        "limits",
        "link",
        "loop",
        "mark",
        "peer",
        "request_timeout",
        "runtime",
        "slow_after",
        "spare",
        "timeouts",
        "tracebacks",
        "wakes",
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
        self.wakes = runtime.wakes
        self.entries = entries
        self.codec = codec
        self.limits = limits
        self.timeouts = timeouts
        self.tracebacks = tracebacks
        self.allocator = allocate if allocate is not None else runtime.memory.allocate
        self.request_timeout = 0.0 if timeouts.request is None else timeouts.request
        self.slow_after = timeouts.slow_handler
        self.mark = 0.0
        self.failed_handlers = 0
        self.holding = False
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
            limits.max_metadata,
            limits.max_buffers,
            limits.frames_per_turn,
        )
        connection.decoder = decoder
        self.connection = connection
        self.decoder = decoder

    # -- Our calls ---------------------------------------------------------------------------------------------------

    def request(self, method: str, *args: Any, timeout: Any = _DEFAULT, codec: Any = None) -> Reply:
        """Call a method of the peer and await its answer.

        Args:
            method: its name.
            args: positional arguments. Buffers larger than 4 KiB must not be changed until the call has ended.
            timeout: seconds until DeadlineExceeded, None for no limit; by default ``Timeouts.request``.
            codec: name of the codec of this call; by default the connection's.

        Returns:
            An awaitable, future-like reply. Cancelling it gives the call up.

        Raises:
            SerializationError: the arguments cannot be encoded, or are larger than the peer receives.
            RpcError: the call cannot be made.
        """
        chosen = self.codec if codec is None else registry.get(codec)
        seconds = self.request_timeout if timeout is _DEFAULT else _seconds(timeout)
        return self._request(method, args, seconds, chosen)

    def _request(self, method: str, args: tuple[Any, ...], seconds: float, codec: Codec) -> Reply:
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
            connection.request(reply, method, codec.id, body, buffers, size, seconds)
        else:
            self.spare = buffers
            connection.request(reply, method, codec.id, body, None, size, seconds)
        return reply

    def notify(self, method: str, *args: Any, codec: Any = None) -> Reply:
        """Call a method of the peer that does not answer.

        Args:
            method, args, codec: as for :meth:`request`.

        Returns:
            An awaitable handle, done once the message was handed to the operating system. It need not be awaited.
            Buffers larger
            than 4 KiB must not be changed until it is done.

        Raises:
            Overloaded: ``max_queued`` bytes wait to be sent already. Awaiting the handles of earlier notifies
            prevents it.
            SerializationError, RpcError: as for :meth:`request`.
        """
        chosen = self.codec if codec is None else registry.get(codec)
        buffers: list[Any] = []
        body = chosen.encode_args(args, buffers)
        size = len(body)
        for buffer in buffers:
            size += len(buffer)
        connection = self.connection
        assert connection is not None
        handle = new_reply(self.wakes, None, 0)
        handle.method = method
        connection.notify(handle, method, chosen.id, body, buffers or None, size)
        return handle

    def ping(self) -> Reply:
        """Send a PING. The reply's result is None, once the answer has come."""
        connection = self.connection
        assert connection is not None
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
            "calls_running": len(connection.running),
            "calls_refused": connection.refused,
            "handlers_failed": self.failed_handlers,
            "late_replies": connection.late_replies,
            "messages_sent": connection.calls_opened + connection.calls_served,
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
        try:
            chosen = self.codec if codec == self.codec.id else _codec(codec)
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

    # -- The peer's calls ----------------------------------------------------------------------------------------------

    def resolve(self, name: str) -> object:
        return self.entries.get(name)

    def on_call(
        self,
        entry: object,
        kind: int,
        call_id: int,
        codec: int,
        deadline_ms: int,
        metadata: bytes | None,
        body: Any,
        buffers: list[memoryview] | None,
        size: int,
    ) -> int:
        served: Any = entry
        connection = self.connection
        assert connection is not None
        if served.kind != kind:
            self._wrong_kind(served, kind, call_id)
            return 0
        try:
            chosen = self.codec if codec == self.codec.id else _codec(codec)
            args = chosen.decode_args(body, buffers)
        except Exception as error:
            self._bad_message(kind, call_id, error)
            return 0
        if served.mode != tuning.INLINE:
            running = connection.begin(kind, call_id, codec, served.name, size, deadline_ms)
            if running is not None:
                tasks.start(self, running, served, chosen, args)
            return 0
        if self.mark == 0.0:
            self.mark = _clock.monotonic()
        current.peer = self.peer
        try:
            result = served.function(*args)
        except BaseException as error:
            self._raised(served, kind, call_id, args, error)
        else:
            self._answer(served, chosen, kind, call_id, size, deadline_ms, result)
        current.peer = None
        now = _clock.monotonic()
        if now - self.mark > self.slow_after:
            self._tell_slow(served, now - self.mark)
        self.mark = now
        return 0

    def _answer(
        self, entry: Entry, codec: Codec, kind: int, call_id: int, size: int, deadline_ms: int, result: Any
    ) -> None:
        """Send what an inline handler returned, or await it in a task."""
        if type(result) is not bytes and type(result) not in _PLAIN and tasks.is_awaitable(result):
            self._continue(entry, codec, kind, call_id, size, deadline_ms, result)
        elif kind == spec.REQUEST:
            self.send_result(entry.name, codec, call_id, result)

    def _wrong_kind(self, entry: Entry, kind: int, call_id: int) -> None:
        connection = self.connection
        assert connection is not None
        connection.refuse(kind, call_id, ErrorCode.NO_SUCH_METHOD, f"{entry.name} is another kind of call")

    def _continue(
        self, entry: Entry, codec: Codec, kind: int, call_id: int, size: int, deadline_ms: int, result: Any
    ) -> None:
        connection = self.connection
        assert connection is not None
        running = connection.begin(kind, call_id, codec.id, entry.name, size, deadline_ms)
        if running is not None:
            tasks.start_awaitable(self, running, entry, codec, result)
        elif hasattr(result, "close"):
            result.close()

    def finish(self, running: RunningCall, name: str, codec: Codec, result: Any) -> None:
        """A handler that did not answer at once has returned ``result``."""
        connection = self.connection
        assert connection is not None
        if connection.finished(running):
            self.send_result(name, codec, running.call_id, result)

    def send_result(self, name: str, codec: Codec, call_id: int, result: Any) -> None:
        """Encode a result and send it; if it cannot be encoded, the caller is told."""
        connection = self.connection
        assert connection is not None
        buffers = self.spare
        if buffers is None:
            buffers = []
        else:
            self.spare = None
        try:
            body = codec.encode_value(result, buffers)
        except Exception as error:
            self.failed_handlers += 1
            connection.fail(
                call_id, ErrorCode.UNENCODABLE_RESULT, type(error).__name__, f"the result of {name}: {error}", ""
            )
            return
        size = len(body)
        if buffers:
            for buffer in buffers:
                size += len(buffer)
            connection.reply(call_id, codec.id, body, buffers, size)
        else:
            self.spare = buffers
            connection.reply(call_id, codec.id, body, None, size)

    def send_error(self, call_id: int, error: BaseException) -> None:
        """Tell the caller what its handler raised."""
        connection = self.connection
        assert connection is not None
        self.failed_handlers += 1
        name, text, traceback = tasks.describe_error(error, self.tracebacks)
        connection.fail(call_id, ErrorCode.HANDLER_RAISED, name, text, traceback)

    def _raised(self, entry: Entry, kind: int, call_id: int, args: Any, error: BaseException) -> None:
        connection = self.connection
        assert connection is not None
        if kind == spec.NOTIFY:
            self.failed_handlers += 1
            log.error("notify %s of %s raised", entry.name, connection.peer, exc_info=error)
            return
        if isinstance(error, TypeError):
            blame = entry.handler.blame_arguments(error, args)
            if blame is not None:
                connection.refuse(kind, call_id, ErrorCode.BAD_MESSAGE, blame)
                return
        self.send_error(call_id, error)

    def _bad_message(self, kind: int, call_id: int, error: BaseException) -> None:
        connection = self.connection
        assert connection is not None
        code = ErrorCode.UNSUPPORTED_CODEC if isinstance(error, ConfigurationError) else ErrorCode.BAD_MESSAGE
        connection.refuse(kind, call_id, code, str(error))

    def _tell_slow(self, entry: Entry, seconds: float) -> None:
        if not entry.slow_told:
            entry.slow_told = True
            log.warning(
                "handler %s held the loop for %.0f ms; make it `async def`, or @request(thread=True)",
                entry.name,
                seconds * 1000,
            )

    def on_cancel(self, running: RunningCall, code: int) -> int:
        tasks.cancel(running)
        return 0

    # -- The loop ------------------------------------------------------------------------------------------------------

    def now(self) -> float:
        # Between the plain handlers of a read, the time when the last one ended will do.
        if self.mark == 0.0:
            return _clock.monotonic()
        return self.mark

    def allocate(self, sizes: list[int]) -> Sequence[memoryview]:
        return self.allocator(sizes)

    def on_output(self) -> int:
        writer = self.writer
        if writer is not None:
            writer.schedule()
        return 0

    def on_read_done(self) -> int:
        self.mark = 0.0
        if self.holding:
            self.holding = False
            self.wakes.release()
        writer = self.writer
        if writer is not None:
            writer.flush()
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


def _codec(number: int) -> Codec:
    found = registry.by_id(number)
    if found is None:
        raise ConfigurationError(f"this side has no codec with id {number}")
    return found


def _seconds(timeout: Any) -> float:
    if timeout is None:
        return 0.0
    try:
        seconds = float(timeout)
    except (TypeError, ValueError):
        raise ConfigurationError(f"timeout must be a number of seconds or None, not {timeout!r}") from None
    if not seconds >= 0.0:
        raise ConfigurationError(f"timeout must be 0 or more seconds, or None, not {timeout!r}")
    return max(seconds, 1e-9)
