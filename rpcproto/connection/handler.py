"""What a connection tells the shell around it, and asks of it."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rpcproto.connection.calls import Flow, PendingCall, RunningCall


class CallHandler:
    """Receives the calls of a :class:`~rpcproto.connection.connection.Connection`.

    The base methods do nothing, so a test or a tool overrides only what it needs. Those that return an int return 0.
    No method may raise; one that does is a bug, and ends the connection.
    """

    __slots__ = ()

    def now(self) -> float:
        """Monotonic time in seconds."""
        return 0.0

    def resolve(self, name: str) -> object:
        """What serves the method of this name, or None. Asked once for each name that the peer binds to an id."""
        return None

    def on_open(self) -> int:
        """The peer's greeting has come: calls may be opened."""
        return 0

    def on_call(
        self,
        entry: object,
        kind: int,
        call_id: int,
        codec: int,
        deadline_ms: int,
        metadata: bytes | None,
        body: object,
        buffers: list[memoryview] | None,
        size: int,
    ) -> int:
        """A call of the peer for what :meth:`resolve` returned. To be answered by ``reply`` or ``fail``, now or
        later."""
        return 0

    def on_cancel(self, running: RunningCall, code: int) -> int:
        """A running call is over: its work shall stop, and tell ``finished`` when it has."""
        return 0

    def on_reply(
        self, call: PendingCall, codec: int, metadata: bytes | None, body: object, buffers: list[memoryview] | None
    ) -> int:
        """The answer to a call of ours. The call is out of the table already."""
        return 0

    def on_failure(self, call: PendingCall, error: BaseException) -> int:
        """A call of ours failed. It is out of the table already."""
        return 0

    def on_item(
        self,
        flow: Flow,
        codec: int,
        metadata: bytes | None,
        body: object,
        buffers: list[memoryview] | None,
        cost: int,
    ) -> int:
        """An item. When its consumer has taken it, ``taken(flow, cost)`` of the connection is to be called."""
        return 0

    def on_items_end(self, flow: Flow) -> int:
        """The peer sends no further items in this call."""
        return 0

    def on_flow_over(self, flow: Flow) -> int:
        """A stream or channel has ended in good order, or was failed by this side, and is out of the table. (Else:
        ``on_failure``.)"""
        return 0

    def on_written(self, handle: object) -> int:
        """A notify was handed over whole."""
        return 0

    def on_pong(self, waiter: object) -> int:
        """The answer to a ping."""
        return 0

    def allocate(self, sizes: list[int]) -> Sequence[memoryview]:
        """Writable buffers for a large message, one of each size. May raise: then only that call fails."""
        return [memoryview(bytearray(size)) for size in sizes]

    def on_output(self, at_once: bool) -> int:
        """There is something to send: ``take`` it now, or (outside of a read only) soon."""
        return 0

    def on_read_done(self) -> int:
        """A read was handled: ``take`` what it caused, now."""
        return 0

    def on_backlog(self) -> int:
        """Bytes are left to be parsed: stop reading, and resume the decoder in a later turn."""
        return 0

    def on_pause(self, paused: bool) -> int:
        """Stop reading, or go on: the peer does not take our replies."""
        return 0

    def on_deadline(self, when: float) -> int:
        """``on_time`` should be called at ``when`` (monotonic seconds), sooner than was asked for so far."""
        return 0

    def on_drain(self) -> int:
        """The peer opens no more calls to us and accepts none: it is shutting down."""
        return 0

    def on_end(self, error: BaseException) -> int:
        """The connection must end. What is to be sent holds the reason; after that, discard input for a moment and
        close."""
        return 0
