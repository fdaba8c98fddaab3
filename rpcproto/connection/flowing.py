"""Streams and channels: opening, items in both directions, and their ends.

A call of these kinds is a :class:`~rpcproto.connection.calls.Flow` in ``flows``, on both sides. Each direction ends by
itself; when both have, the call is over::

    stream    opener  ──────────────────────────────>  (its opening message is all)
              opener  <── items ── END ──────────────  handler
    channel   opener  ── items ── END ──────────────>  handler
              opener  <── items ── END ──────────────  handler

Whatever else ends it (ERROR, CANCEL, a deadline, the connection) ends both directions at once.

An item takes credit from two windows: the connection's, given back when the item has arrived here, and that of its
call, given back when its consumer takes it. So a consumer that stops holds as much as its own window, and nobody else.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rpcproto.connection import _states as states
from rpcproto.connection.answering import Answering
from rpcproto.connection.calls import OutMessage
from rpcproto.connection.failures import failure, too_large
from rpcproto.connection.window import ItemWindow
from rpcproto.errors import CallCancelled, LocalProtocolError, Overloaded, RemoteProtocolError
from rpcproto.wire import _tuning as tuning
from rpcproto.wire import spec
from rpcproto.wire.spec import ErrorCode
from rpcproto.wire.spec import FrameType as Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rpcproto.connection.calls import Flow, PendingCall, RunningCall
    from rpcproto.wire.assembly import Assembly

    Buffer = bytes | bytearray | memoryview


class Flowing(Answering):
    """The half of a connection that streams, for both sides."""

    __slots__ = ()

    # -- Beginning -----------------------------------------------------------------------------------------------------

    def open_flow(
        self,
        flow: Flow,
        kind: int,
        method: str,
        codec: int,
        body: Buffer,
        buffers: Sequence[Buffer] | None,
        size: int,
        timeout: float,
        metadata: bytes | None,
    ) -> None:
        """Open a stream or channel. It ends by ``on_flow_over`` or ``on_failure`` of the handler, unless
        :meth:`give_up_flow` is first.

        Args:
            flow: the record of the call, new; it is opened here.
            kind: STREAM or CHANNEL.
            method, codec, body, buffers, size, timeout, metadata: as for ``request``.

        Raises:
            RpcError: the call cannot be made; it was not opened.
        """
        outbox = self.outbox
        call_id = self._new_call_id(method, outbox.method_ids.get(method, 0), buffers, size)
        flow.open(kind, call_id, method, outbox.call_window, self._item_window(call_id), True)
        if timeout > 0.0:
            flow.timeout = timeout
            flow.deadline = self.handler.now() + timeout
            if flow.deadline < self.next_deadline:
                self._expect(flow.deadline)
        self.flows[call_id] = flow
        flags = spec.END if kind == spec.STREAM else 0
        message = OutMessage(kind, flags, codec, call_id, body, buffers, size, metadata)
        message.call = flow
        message.method = method
        message.deadline = flow.deadline
        message.flow = flow
        flow.busy = True
        outbox.send(message)
        outbox.signal()

    def accept_flow(self, flow: Flow, running: RunningCall) -> None:
        """Take a stream or channel of the peer, which ``begin`` has registered: its handler may send from now on."""
        call_id = running.call_id
        method: str = running.method
        flow.open(running.kind, call_id, method, self.outbox.call_window, self._item_window(call_id), False)
        flow.sent = True
        self.flows[call_id] = flow

    def _item_window(self, call_id: int) -> ItemWindow:
        limits = self.limits
        return ItemWindow("items", limits.call_window, limits.max_connection_window, 0, spec.ITEMS, call_id)

    # -- Sending -------------------------------------------------------------------------------------------------------

    def send_item(
        self,
        flow: Flow,
        codec: int,
        body: Buffer,
        buffers: Sequence[Buffer] | None,
        size: int,
        handle: PendingCall | None,
    ) -> bool:
        """Send an item, at once or when there is credit, after those before it.

        Args:
            flow: the call.
            codec, body, buffers, size: the item, as for ``request``.
            handle: told by ``on_written`` once the last byte is handed over, unless True is returned; or None.

        Returns:
            True if it is on its way, and its buffers may be used again.

        Raises:
            LocalProtocolError: this side has ended, or never sends.
            CallCancelled: the call is over.
            MessageTooLarge: the peer does not receive so much.
            Overloaded: ``max_queued`` bytes wait to be sent in this call already.
        """
        if flow.over or flow.ending or flow.sent_all or size > self.peer_max_message:
            raise self._unsendable(flow, size)
        outbox = self.outbox
        cost = size if size > spec.MIN_COST else spec.MIN_COST
        if (
            buffers is None
            and size <= spec.INLINE_MAX
            and flow.credit > 0
            and not flow.busy
            and not flow.queue
            and cost <= outbox.credit_calls
            and not outbox.blocked
        ):
            flow.credit -= cost
            outbox.credit_calls -= cost
            self.items_sent += 1
            outbox.small.whole(spec.ITEM, 0, codec, flow.call_id, body, size)
            outbox.signal_item()
            if size <= tuning.PACK_MAX or type(body) is bytes:
                return True
            if handle is not None:
                outbox.note(handle)
            return False
        if not self._head_fits(buffers):
            raise too_large(f"an item of {flow.method}", size, self.peer_max_message, "the peer's")
        message = OutMessage(spec.ITEM, 0, codec, flow.call_id, body, buffers, size)
        message.flow = flow
        message.handle = handle
        if flow.queue is None:
            flow.queue = deque()
        elif flow.queue and flow.queued + size > self.max_queued:
            raise self._too_much(flow)
        self.items_sent += 1
        flow.queue.append(message)
        flow.queued += size
        self._pump(flow)
        outbox.signal()
        return False

    def may_send(self, flow: Flow) -> bool:
        """Whether a small item sent now would be on its way at once."""
        outbox = self.outbox
        return (
            flow.credit > 0
            and not flow.busy
            and not flow.queue
            and outbox.credit_calls >= tuning.PACK_MAX
            and not outbox.blocked
        )

    def note_flushed(self, handle: PendingCall) -> bool:
        """Tell ``handle`` when everything small that was sent so far is handed over. False if it has been."""
        outbox = self.outbox
        if outbox.small.size == 0:
            if self.unsent == 0:
                return False
            outbox.small.frame(spec.PAD, 0, 0, 0, b"")  # it leaves after what the socket has not taken yet
        outbox.note(handle)
        outbox.signal()
        return True

    def end_items(self, flow: Flow, leave: bool) -> None:
        """Send no item after those that wait.

        Args:
            flow: the call.
            leave: nor is anything wanted any more, since the handler has returned: the peer is told to stop.
        """
        if not flow.over:
            flow.ending = True
            flow.leaving = flow.leaving or leave
            self._pump(flow)

    def _unsendable(self, flow: Flow, size: int) -> Exception:
        if flow.over:
            text = f"{flow.method} at {self.peer}: an item was not sent, the call is over"
            return CallCancelled(text, method=flow.method, peer=self.peer)
        if flow.ending or flow.sent_all:
            return LocalProtocolError(f"{flow.method} at {self.peer}: an item was sent after the end of this side")
        return too_large(f"an item of {flow.method}", size, self.peer_max_message, "the peer's")

    def _too_much(self, flow: Flow) -> Overloaded:
        text = (
            f"{flow.method} at {self.peer}: an item was not sent, since {flow.queued} bytes of items wait already, and "
            f"this side's max_queued is {self.max_queued}; await each send"
        )
        return Overloaded(text, method=flow.method, peer=self.peer)

    def _pump(self, flow: Flow) -> None:
        """Queue the items that wait, as far as credit goes, and the end behind them."""
        outbox = self.outbox
        queue = flow.queue
        while queue and not flow.busy and flow.credit > 0:
            message = queue.popleft()
            flow.queued -= message.size
            flow.credit -= message.cost(outbox.call_window)
            flow.busy = True
            outbox.send(message)
        if flow.ending and not flow.sent_all and not flow.busy and not queue:
            flow.sent_all = True
            outbox.small.whole(spec.ITEM, spec.END, 0, flow.call_id, b"", 0)
            outbox.signal()
            self._check_over(flow)

    def take(self, limit: int) -> list[Buffer] | None:
        """The parts to send next, about ``limit`` bytes of bulk at most; None if there is nothing to send now."""
        parts = self.outbox.take(limit)
        if self.outbox.freed:
            self._pump_freed()
        return parts

    def _pump_freed(self) -> None:
        freed = self.outbox.freed
        while freed:
            flow = freed.pop()
            if not flow.over:
                self._pump(flow)

    # -- Receiving -----------------------------------------------------------------------------------------------------

    def on_item(
        self,
        call_id: int,
        codec: int,
        flags: int,
        metadata: bytes | None,
        body: object,
        buffers: list[memoryview] | None,
        size: int,
    ) -> int:
        self.outbox.reading = True
        inbox = self.inbox
        flow = self.flows.get(call_id)
        cost = size if size > spec.MIN_COST else spec.MIN_COST
        credit = 0
        kept = False
        if size == 0 and flags & spec.END and buffers is None:
            cost = 0  # only the end
        else:
            if buffers is not None or metadata is not None or size > spec.INLINE_MAX:
                cost = inbox.cost_of(size, metadata, buffers)
            kept = len(inbox.kept) > 0 and inbox.complete(call_id)
            credit = inbox.calls.give_back(cost) if kept else inbox.calls.pass_through(cost)
        if flow is None or flow.received_all:
            self._stray_item(flow, call_id)
        else:
            if cost:
                if not kept:
                    flow.window.take(cost)
                flow.held += cost
                self.handler.on_item(flow, codec, metadata, body, buffers, cost)
            if flags & spec.END and not flow.over:
                flow.received_all = True
                self.handler.on_items_end(flow)
                self._check_over(flow)
        if credit and self.state != states.CLOSED:
            inbox.grant(inbox.calls, credit)
        return 0

    def taken(self, flow: Flow, cost: int) -> None:
        """The consumer has taken items that cost ``cost`` bytes."""
        if flow.over:
            return
        flow.held -= cost
        amount = flow.window.give_back(cost)
        if amount:
            self.inbox.grant(flow.window, amount)
        if flow.large is not None and flow.held == 0:
            message = flow.large
            flow.large = None
            self.inbox.reserve(message)

    def on_large_item(self, message: Assembly, cost: int) -> None:
        """An item begins that comes in several reads. Its connection credit was taken."""
        flow = self.flows.get(message.call_id)
        if flow is None or flow.received_all:
            self._stray_item(flow, message.call_id)
            self.inbox.drop(message)
        elif message.total > self.max_message:
            self.inbox.drop(message)
            what = f"an item of {flow.method}"
            self.fail_flow(flow, too_large(what, message.total, self.max_message, "this side's"))
        else:
            flow.window.take(cost)
            if message.total <= self.limits.call_window or flow.held == 0:
                self.inbox.keep(message)
            else:
                self.inbox.kept[message.call_id] = None
                flow.large = message

    def add_item_credit(self, call_id: int, amount: int) -> None:
        """The peer's consumer has taken items of ``amount`` bytes."""
        flow = self.flows.get(call_id)
        if flow is None:
            if self._is_closed(call_id):
                return
            raise RemoteProtocolError(
                f"call {call_id}: a CREDIT for items, which it has not", code=ErrorCode.FLOW_CONTROL
            )
        if amount == 0 or amount > spec.CREDIT_MAX - flow.credit:
            raise RemoteProtocolError(
                f"call {call_id}: a CREDIT of {amount} bytes for items, where {flow.credit} may be sent already",
                code=ErrorCode.FLOW_CONTROL,
            )
        flow.credit += amount
        if flow.queue:
            self._pump(flow)
            self.outbox.signal()

    def _stray_item(self, flow: Flow | None, call_id: int) -> None:
        if flow is None:
            self._stray_reply(call_id, Kind.ITEM)
        else:
            raise self._breach(call_id, "an ITEM from the side that never sends, or has ended")

    # -- Ending --------------------------------------------------------------------------------------------------------

    def give_up_flow(self, flow: Flow, code: int) -> None:
        """End a stream or channel of ours. Nothing more is told of it; the peer is, if it may know of the call."""
        if self._end_flow(flow.call_id) is not None and flow.sent and self.state != states.CLOSED:
            self._send_cancel(flow.call_id, code)

    def fail_flow(self, flow: Flow, error: BaseException) -> None:
        """End a stream or channel of either side, for what the peer sent in it."""
        self.give_up_flow(flow, ErrorCode.CANCELLED)
        self.handler.on_failure(flow, error)
        running = self.running.get(flow.call_id)
        if running is not None and not running.over:
            running.over = True
            self.handler.on_cancel(running, ErrorCode.CANCELLED)

    def on_flow_cancel(self, flow: Flow, code: int) -> None:
        """The peer has given up a stream or channel."""
        self._end_flow(flow.call_id)
        if flow.received_all and (flow.call_id & 1) == self.parity:
            self.handler.on_flow_over(flow)  # its handler returned: all was said
        else:
            text = "the peer gave the call up"
            self.handler.on_failure(flow, failure(code, "", text, "", flow.method, self.peer))

    def _check_over(self, flow: Flow) -> None:
        """After the end of one direction."""
        if flow.sent_all and (flow.received_all or flow.leaving):
            if not flow.received_all:
                self._send_cancel(flow.call_id, ErrorCode.CANCELLED)
            self._end_flow(flow.call_id)
            self.handler.on_flow_over(flow)
