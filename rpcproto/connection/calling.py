"""The calls that this side makes: opening, answering, giving up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcproto.connection import _states as states
from rpcproto.connection.calls import OutMessage
from rpcproto.connection.failures import failure, too_large
from rpcproto.connection.state import ConnectionState
from rpcproto.errors import GoingAway, LocalProtocolError, Overloaded
from rpcproto.wire import spec
from rpcproto.wire.failure import decode_failure
from rpcproto.wire.spec import ErrorCode
from rpcproto.wire.spec import FrameType as Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rpcproto.connection.calls import PendingCall

    Buffer = bytes | bytearray | memoryview

_ARTICLES = {Kind.REPLY: "a", Kind.ITEM: "an", Kind.ERROR: "an"}


class Calling(ConnectionState):
    """The half of a connection that opens calls."""

    __slots__ = ()

    def request(
        self,
        call: PendingCall,
        method: str,
        codec: int,
        body: Buffer,
        buffers: Sequence[Buffer] | None,
        size: int,
        timeout: float,
        metadata: bytes | None,
    ) -> None:
        """Open a request. It ends by ``on_reply`` or ``on_failure`` of the handler, unless :meth:`cancel_call` is
        first.

        Args:
            call: the record of the call; its ``call_id``, ``method``, ``deadline`` and ``sent`` are set here.
            method: its name.
            codec: id of the codec that encoded body and buffers.
            body, buffers: the message; each buffer contiguous and of unsigned bytes. What is larger than 4 KiB must
                not be changed until the call has ended.
            size: bytes of body and buffers together.
            timeout: seconds, or 0.0 for none.
            metadata: encoded, or None.

        Raises:
            RpcError: the call cannot be made; it was not opened.
        """
        outbox = self.outbox
        method_id = outbox.method_ids.get(method, 0)
        call_id = self._new_call_id(method, method_id, buffers, size)
        call.call_id = call_id
        call.method = method
        timeout_ms = -1
        if timeout > 0.0:
            deadline = self.handler.now() + timeout
            call.timeout = timeout
            call.deadline = deadline
            if deadline < self.next_deadline:
                self._expect(deadline)
            timeout_ms = int(timeout * 1000.0 + 0.999) if timeout < 4e6 else -1
        self.calls[call_id] = call
        cost = size if size > spec.MIN_COST else spec.MIN_COST
        if (
            buffers is None
            and metadata is None
            and method_id
            and size <= spec.INLINE_MAX
            and cost <= outbox.credit_calls
            and not outbox.blocked
        ):
            outbox.credit_calls -= cost
            outbox.small.opening(spec.REQUEST, spec.END, codec, call_id, method_id, timeout_ms, body, size)
            call.sent = True
            outbox.signal_call(len(self.calls), size)
            return
        message = OutMessage(spec.REQUEST, spec.END, codec, call_id, body, buffers, size, metadata)
        message.call = call
        message.method = method
        message.deadline = call.deadline
        outbox.send(message)
        outbox.signal_call(len(self.calls), size)

    def notify(
        self,
        handle: PendingCall,
        method: str,
        codec: int,
        body: Buffer,
        buffers: Sequence[Buffer] | None,
        size: int,
        metadata: bytes | None,
    ) -> None:
        """Send a notify. The handler is told by ``on_written(handle)`` once its last byte is handed over.

        Raises:
            RpcError: as :meth:`request`.
        """
        outbox = self.outbox
        method_id = outbox.method_ids.get(method, 0)
        call_id = self._new_call_id(method, method_id, buffers, size)
        cost = size if size > spec.MIN_COST else spec.MIN_COST
        if (
            buffers is None
            and metadata is None
            and method_id
            and size <= spec.INLINE_MAX
            and cost <= outbox.credit_calls
            and not outbox.blocked
        ):
            outbox.credit_calls -= cost
            outbox.small.opening(spec.NOTIFY, spec.END, codec, call_id, method_id, -1, body, size)
            handle.sent = True
            outbox.note(handle)
            outbox.signal()
            return
        message = OutMessage(spec.NOTIFY, spec.END, codec, call_id, body, buffers, size, metadata)
        message.method = method
        message.handle = handle
        outbox.send(message)
        outbox.signal()

    def cancel_call(self, call_id: int) -> None:
        """Give a call of ours up. Nothing more is told of it; the peer is, if it may know of the call."""
        call = self.calls.pop(call_id, None)
        if call is not None:
            self._give_up(call, ErrorCode.CANCELLED)

    def ping(self, waiter: object) -> None:
        """Send a PING; the handler is told by ``on_pong(waiter)``.

        Raises:
            RpcError: the connection is not open.
        """
        if self.state in (states.WAITING, states.CLOSED):
            raise self._closed_error("ping")
        self.outbox.ping(waiter)

    def on_written(self, handle: PendingCall) -> None:
        """The shell tells that the last byte of a notify was handed over."""
        self.handler.on_written(handle)

    def on_reply(
        self,
        call_id: int,
        codec: int,
        metadata: bytes | None,
        body: object,
        buffers: list[memoryview] | None,
        size: int,
    ) -> int:
        self.outbox.reading = True
        inbox = self.inbox
        if size <= spec.INLINE_MAX and buffers is None and metadata is None:
            cost = size if size > spec.MIN_COST else spec.MIN_COST
        else:
            cost = inbox.cost_of(size, metadata, buffers)
        if inbox.kept and inbox.complete(call_id):
            credit = inbox.replies.give_back(cost)
        else:
            credit = inbox.replies.pass_through(cost)
        call = self.calls.pop(call_id, None)
        if call is not None and size > self.max_message:
            self._reply_too_large(call, size)
        elif call is not None:
            self.handler.on_reply(call, codec, metadata, body, buffers)
        else:
            self._stray_reply(call_id, Kind.REPLY)
        if credit and self.state != states.CLOSED:
            inbox.grant(inbox.replies, credit)
        return 0

    def _reply_too_large(self, call: PendingCall, size: int) -> None:
        what = f"the reply to {call.method}"
        self.handler.on_failure(call, too_large(what, size, self.max_message, "this side's"))

    def on_error(self, call_id: int, code: int, payload: bytes) -> int:
        self.outbox.reading = True
        texts = decode_failure(payload)
        call: PendingCall | None = self.calls.pop(call_id, None)
        if call is None and (call_id & 1) == self.parity:
            call = self._end_flow(call_id) or self.outbox.drop_notify(call_id)
        if call is None:
            self._stray_reply(call_id, Kind.ERROR)
            return 0
        self._drop_messages(call_id)
        self.handler.on_failure(call, failure(code, texts[0], texts[1], texts[2], call.method, self.peer))
        return 0

    def _new_call_id(self, method: str, method_id: int, buffers: Sequence[Buffer] | None, size: int) -> int:
        """The id of a new call; raises if none can be opened now."""
        outbox = self.outbox
        if self.state != states.OPEN:
            raise self._closed_error(method)
        if self.next_id > spec.CALL_ID_MAX:
            raise GoingAway(
                f"{method} at {self.peer}: not sent, the call ids of this connection are used up; connect again",
                method=method,
                peer=self.peer,
            )
        if size > self.peer_max_message or not (buffers is None or self._head_fits(buffers)):
            raise too_large(method, size, self.peer_max_message, "the peer's")
        if not method_id:
            _check_name(method)
        if (
            outbox.small.size + outbox.waiting + outbox.blocked_size + outbox.probing_size + self.unsent
            > self.max_queued
        ):
            raise Overloaded(
                f"{method} at {self.peer}: not sent, since {self.queued()} bytes wait to be sent already, above this "
                f"side's max_queued of {self.max_queued}",
                method=method,
                peer=self.peer,
            )
        call_id = self.next_id
        self.next_id = call_id + 2
        self.calls_opened += 1
        return call_id

    def _head_fits(self, buffers: Sequence[Buffer] | None) -> bool:
        """Whether the sizes of the buffers fit into one frame, beside a method name."""
        return buffers is None or (
            len(buffers) <= spec.MAX_BUFFERS and 8 * len(buffers) + 1024 <= self.outbox.max_frame
        )

    def _give_up(self, call: PendingCall, code: int) -> None:
        """End a call of ours that is out of the table already, on the wire."""
        if self._drop_messages(call.call_id):
            call.sent = False
        elif self.state != states.CLOSED:
            self._send_cancel(call.call_id, code)

    def _stray_reply(self, call_id: int, kind: Kind) -> None:
        """An answer for no open call of ours: one that crossed the end of its call, or a breach."""
        if not self._is_closed(call_id):
            raise self._breach(call_id, f"{_ARTICLES[kind]} {kind.name} for a call that is not open or not ours")
        self.late_replies += 1


def _check_name(method: object) -> None:
    """Raise if this is no method name."""
    try:
        size = len(method.encode()) if isinstance(method, str) else 0
    except UnicodeEncodeError:
        size = 0
    if not 0 < size <= spec.MAX_METHOD_NAME:
        raise LocalProtocolError(
            f"a method name is text of 1 to {spec.MAX_METHOD_NAME} bytes in UTF-8, not {method!r:.300}"
        )
