"""The peer's calls: from the connection to handlers, and their answers back.

Plain handlers run right in :meth:`Serving.on_call`, within the read that brought the call, so that many answers leave
in one system call. What does not answer at once goes to ``tasks`` and comes back through
:meth:`Serving.finish`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rpcproto import _clock
from rpcproto._logs import log
from rpcproto.aio import _tuning as tuning
from rpcproto.aio import tasks
from rpcproto.aio.context import CallContext
from rpcproto.aio.items import Items
from rpcproto.connection.handler import CallHandler
from rpcproto.errors import ConfigurationError, NotPermitted
from rpcproto.serialization import registry
from rpcproto.wire import spec
from rpcproto.wire.spec import ErrorCode

if TYPE_CHECKING:
    import asyncio
    from collections.abc import Callable

    from rpcproto.aio.context import Current
    from rpcproto.aio.handler import Handler
    from rpcproto.aio.peer import Peer
    from rpcproto.aio.reply import WakeList
    from rpcproto.connection.calls import RunningCall
    from rpcproto.connection.connection import Connection
    from rpcproto.serialization.codec import Codec

_MODES = {"inline": tuning.INLINE, "task": tuning.TASK, "thread": tuning.THREAD, "covered": tuning.COVERED}
_PLAIN = tasks.PLAIN

SLOW = "handler %s held the loop for %.0f ms; make it `async def`, or @request(thread=True)"


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


class Serving(CallHandler):
    """The half of a session that serves. Made as a :class:`~rpcproto.aio.session.Session`, which sets the fields.

    Attributes:
        entries: handlers offered to the peer, by name.
        codec: for calls that name none.
        last_codec: of the last message that came.
        tracebacks: tell the peer the traceback of a handler that raised.
        slot: where plain handlers find their caller.
        prompt: seconds that a plain handler may take before its answer leaves at once, with those that wait.
        slow_after: seconds that a plain handler may hold the loop before it is logged.
        mark: when the last plain handler of this read ended, 0.0 outside of a read.
        spare: an empty list for the buffers of the next message. Most have none, so the same list serves again.
    """

    __slots__ = (
        "codec",
        "connection",
        "entries",
        "failed_handlers",
        "last_codec",
        "link",
        "loop",
        "mark",
        "peer",
        "prompt",
        "slot",
        "slow_after",
        "spare",
        "tracebacks",
        "wakes",
    )

    codec: Codec
    connection: Connection | None
    entries: dict[str, Entry]
    failed_handlers: int
    last_codec: Codec
    link: Any
    loop: asyncio.AbstractEventLoop
    mark: float
    peer: Peer | None
    prompt: float
    slot: Current
    slow_after: float
    spare: list[Any] | None
    tracebacks: bool
    wakes: WakeList

    def codec_of(self, number: int) -> Codec:
        """The codec that a message of the peer names.

        Raises:
            ConfigurationError: this side has none of this id.
        """
        found = self.codec if number == self.codec.id else registry.by_id(number)
        if found is None:
            raise ConfigurationError(f"this side has no codec with id {number}")
        self.last_codec = found
        return found

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
            chosen = self.last_codec if codec == self.last_codec.id else self.codec_of(codec)
            args = chosen.decode_args(body, buffers)
        except Exception as error:
            self._bad_message(kind, call_id, error)
            return 0
        if kind >= spec.STREAM or served.mode != tuning.INLINE:
            self._start(served, chosen, kind, call_id, size, deadline_ms, metadata, args)
            return 0
        if self.mark == 0.0:
            self.mark = _clock.monotonic()
        slot = self.slot
        slot.peer = self.peer
        slot.method = served.name
        slot.metadata = metadata
        slot.deadline = self.mark + deadline_ms * 0.001 if deadline_ms >= 0 else 0.0
        try:
            result = served.function(*args)
        except BaseException as error:
            self._raised(served, kind, call_id, args, error)
        else:
            self._answer(served, chosen, kind, call_id, size, deadline_ms, result)
        slot.peer = None
        if slot.call is not None:
            slot.leave()
        now = _clock.monotonic()
        if now - self.mark > self.prompt:
            self._was_slow(served, now - self.mark)
        self.mark = now
        return 0

    def _answer(
        self, entry: Entry, codec: Codec, kind: int, call_id: int, size: int, deadline_ms: int, result: Any
    ) -> None:
        """Send what an inline handler returned, or await it in a task."""
        if type(result) is not bytes and type(result) not in _PLAIN and tasks.is_awaitable(result):
            self._continue(entry, codec, kind, call_id, size, deadline_ms, result)
        elif kind == spec.REQUEST:
            self.send_result(entry.name, codec, call_id, result, self.slot.call)

    def _start(
        self,
        entry: Entry,
        codec: Codec,
        kind: int,
        call_id: int,
        size: int,
        deadline_ms: int,
        metadata: bytes | None,
        args: Any,
    ) -> None:
        """Begin to serve what is not answered at once."""
        connection = self.connection
        assert connection is not None
        assert self.peer is not None
        running = connection.begin(kind, call_id, codec.id, entry.name, size, deadline_ms, False)
        if running is None:
            return
        self.slot.nests = True
        running.context = CallContext(self.peer, entry.name, metadata, running.deadline)
        if kind >= spec.STREAM:
            items = Items(self, self.wakes, connection, codec)
            connection.accept_flow(items, running)
            tasks.start_flow(self, running, entry, codec, items, args)
        else:
            tasks.start(self, running, entry, codec, args)

    def _wrong_kind(self, entry: Entry, kind: int, call_id: int) -> None:
        connection = self.connection
        assert connection is not None
        connection.refuse(kind, call_id, ErrorCode.NO_SUCH_METHOD, f"{entry.name} is another kind of call")

    def _continue(
        self, entry: Entry, codec: Codec, kind: int, call_id: int, size: int, deadline_ms: int, result: Any
    ) -> None:
        connection = self.connection
        assert connection is not None
        running = connection.begin(kind, call_id, codec.id, entry.name, size, deadline_ms, True)
        if running is not None:
            slot = self.slot
            slot.nests = True
            running.context = slot.context()
            slot.call = None  # it is not over yet
            slot.peer = None  # a task that starts eagerly has a context of its own
            tasks.start_awaitable(self, running, entry, codec, result)
        elif hasattr(result, "close"):
            result.close()

    def finish(self, running: RunningCall, name: str, codec: Codec, result: Any) -> None:
        """A handler that did not answer at once has returned ``result``."""
        connection = self.connection
        assert connection is not None
        if connection.finished(running):
            self.send_result(name, codec, running.call_id, result, running.context)

    def send_result(self, name: str, codec: Codec, call_id: int, result: Any, context: Any) -> None:
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
            metadata = None if context is None else context.encode_reply_metadata()
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
            connection.reply(call_id, codec.id, body, buffers, size, metadata)
        else:
            self.spare = buffers
            connection.reply(call_id, codec.id, body, None, size, metadata)

    def send_error(self, call_id: int, error: BaseException) -> None:
        """Tell the caller what its handler raised."""
        connection = self.connection
        assert connection is not None
        if isinstance(error, NotPermitted):
            connection.fail(call_id, ErrorCode.NOT_PERMITTED, "", tasks.describe_error(error, False)[1], "")
            return
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

    def _was_slow(self, entry: Entry, seconds: float) -> None:
        self.on_output(True)
        if seconds > self.slow_after and not entry.slow_told:
            entry.slow_told = log.warning(SLOW, entry.name, seconds * 1000)

    def on_cancel(self, running: RunningCall, code: int) -> int:
        tasks.cancel(running)
        return 0
