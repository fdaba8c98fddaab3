"""The outbound queue of a connection, by priority.

1. *Control*: PING, CREDIT, GOAWAY. They jump the queue.
2. *Small*: whole messages up to 64 KiB, ERROR and CANCEL, in the order they were issued.
3. *Bulk*: larger messages, round-robin by fragments of 64 KiB, so that none starves another; the last one left goes in
   frames as large as the peer takes. A small message waits behind what was taken for one system call at most.

Before that, a message waits for credit: calls and replies apart, each in order. Its whole cost is taken when it is
queued, so what has begun can always be finished.
"""

from __future__ import annotations

from collections import deque
from typing import TYPE_CHECKING

from rpcproto.connection.framer import Framer
from rpcproto.errors import RemoteProtocolError
from rpcproto.wire import _tuning as tuning
from rpcproto.wire import spec
from rpcproto.wire.encoder import Encoder
from rpcproto.wire.spec import CreditClass, ErrorCode

if TYPE_CHECKING:
    from rpcproto.connection.calls import Flow, OutMessage, PendingCall
    from rpcproto.connection.handler import CallHandler
    from rpcproto.wire.memory import ScratchStack

    Buffer = bytes | bytearray | memoryview


class Outbox(Framer):
    """What one connection has to send.

    Args:
        scratches: scratch memory of the loop.
        handler: asked for the time when a deadline is written.

    Attributes:
        reading: what is queued now goes out when the read that is being handled ends, at the latest; nobody needs to be
            told.
        gathered: how often something was queued since the last :meth:`take`.
        pings: what waits for the answer to a PING, by payload.
        credit_calls, credit_replies: bytes that may be sent of each class.
        blocked_calls, blocked_replies: messages that wait for credit.
        blocked: the same by call id.
        blocked_size: their bytes.
        waiting: bytes of bulk messages that wait for nothing but the socket.
        probing: large messages that wait to be admitted.
        probing_size: their bytes.
        handles: of notifies and items whose last byte the last :meth:`take` returned, or None.
        freed: streams and channels whose message has left, so that their next item may come.
    """

    __slots__ = (
        "blocked",
        "blocked_calls",
        "blocked_replies",
        "blocked_size",
        "bulk",
        "call_window",
        "control",
        "credit_calls",
        "credit_replies",
        "freed",
        "gathered",
        "handles",
        "ping_count",
        "pings",
        "probing",
        "probing_size",
        "reading",
        "small_handles",
        "waiting",
    )

    def __init__(self, scratches: ScratchStack, handler: CallHandler) -> None:
        super().__init__(scratches, handler)
        self.control = Encoder(scratches)
        self.bulk: deque[OutMessage] | None = None  # an empty deque has 600 bytes, and most connections need none
        self.probing: dict[int, OutMessage] = {}
        self.call_window = spec.INLINE_MAX
        self.credit_calls = 0
        self.credit_replies = 0
        self.blocked_calls: deque[OutMessage] | None = None
        self.blocked_replies: deque[OutMessage] | None = None
        self.blocked: dict[int, OutMessage] = {}
        self.blocked_size = 0
        self.pings: dict[bytes, object] = {}
        self.ping_count = 0
        self.reading = False
        self.gathered = 0
        self.waiting = 0
        self.probing_size = 0
        self.small_handles: list[PendingCall] | None = None
        self.handles: list[PendingCall] | None = None
        self.freed: list[Flow] = []

    def open(self, credit: int, call_window: int, max_frame: int) -> None:
        """Take the peer's limits from its greeting."""
        self.credit_calls = credit
        self.credit_replies = credit
        self.call_window = call_window
        self.max_frame = max_frame

    def signal(self) -> None:
        """Something was queued: have it sent, at once if it completes a batch."""
        self.gathered += 1
        if self.gathered >= tuning.BATCH:
            self.handler.on_output(True)
        elif not self.reading:
            self.handler.on_output(False)

    def signal_call(self, pending: int, size: int) -> None:
        """A call of ``size`` bytes was queued and ``pending`` are under way: have it sent, with about half of them."""
        self.gathered = gathered = self.gathered + 1
        if (
            pending == 1  # the peer has nothing else to do: let it begin
            or (gathered >= tuning.BATCH_MIN and gathered >= pending >> 1 and size <= tuning.PACK_MAX)
            or gathered >= tuning.BATCH_MAX
        ):
            self.handler.on_output(True)
        elif not self.reading:
            self.handler.on_output(False)

    def signal_item(self) -> None:
        """An item was queued: have it sent with those that follow in this turn, but not more than some 64 KiB."""
        self.gathered += 1
        if self.small.size >= tuning.ITEM_BATCH:
            self.handler.on_output(True)
        elif not self.reading:
            self.handler.on_output(False)

    def ping(self, waiter: object) -> None:
        """Send a PING. ``waiter`` is what the answer is for."""
        self.ping_count += 1
        payload = self.ping_count.to_bytes(8, "little")
        self.pings[payload] = waiter
        self.control.frame(spec.PING, 0, 0, 0, payload)
        self.signal()

    def give_credit(self, aux: int, call_id: int, amount: int) -> None:
        """Send a CREDIT: for a window (call 0, the class in ``aux``), or to admit a message of a call."""
        self.control.number(spec.CREDIT, aux, call_id, amount)
        self.signal()

    def sendable(self) -> int:
        """Bytes that wait for nothing but the socket."""
        return self.control.size + self.small.size + self.waiting

    def send(self, message: OutMessage) -> None:
        """Queue a message, or let it wait for credit."""
        reply = message.kind == spec.REPLY
        queue = self.blocked_replies if reply else self.blocked_calls
        cost = message.cost(self.call_window)
        if queue or cost > (self.credit_replies if reply else self.credit_calls):
            if queue is None:
                queue = deque()
                if reply:
                    self.blocked_replies = queue
                else:
                    self.blocked_calls = queue
            queue.append(message)
            self.blocked[message.call_id] = message
            self.blocked_size += message.size
        else:
            self._put(message, cost)

    def add_credit(self, aux: int, amount: int) -> None:
        """The peer gives ``amount`` bytes of credit for calls (``aux`` 0) or replies (1).

        Raises:
            RemoteProtocolError: the amount is 0, or makes the credit larger than 2^31-1 (``FLOW_CONTROL``).
        """
        if amount == 0 or aux > 1:
            raise RemoteProtocolError(f"a CREDIT of {amount} bytes for class {aux}", code=ErrorCode.FLOW_CONTROL)
        have = self.credit_replies if aux else self.credit_calls
        if amount > spec.CREDIT_MAX - have:
            raise RemoteProtocolError(
                f"a CREDIT of {amount} bytes makes a window larger than {spec.CREDIT_MAX}", code=ErrorCode.FLOW_CONTROL
            )
        if aux:
            self.credit_replies += amount
        else:
            self.credit_calls += amount
        self._unblock(aux)

    def _unblock(self, aux: int) -> None:
        """Queue what the credit suffices for."""
        queue = self.blocked_replies if aux else self.blocked_calls
        while queue:
            message = queue[0]
            if self.blocked.get(message.call_id) is message:
                cost = message.cost(self.call_window)
                if cost > (self.credit_replies if aux else self.credit_calls):
                    return
                del self.blocked[message.call_id]
                self.blocked_size -= message.size
                self._put(message, cost)
                if message.flow is not None and not message.flow.busy:
                    self.freed.append(message.flow)
            queue.popleft()

    def _put(self, message: OutMessage, cost: int) -> None:
        if message.kind == spec.REPLY:
            self.credit_replies -= cost
        else:
            self.credit_calls -= cost
        size = message.size
        message.admitted = size <= self.call_window
        if size <= spec.INLINE_MAX and size + message.head_size <= self.max_frame:
            self.write_frame(message, size)
            if message.handle is not None:
                self.note(message.handle)
            if message.flow is not None:
                message.flow.busy = False
            return
        if message.kind <= spec.CHANNEL or not message.admitted:
            # Announced at once and in order, since ids must rise on the wire. Its bytes may be overtaken.
            self.write_frame(message, 0)
        if message.admitted:
            self._add_bulk(message)
        else:
            self.probing[message.call_id] = message
            self.probing_size += size

    def note(self, handle: PendingCall) -> None:
        """``handle`` waits for what was just put among the small messages."""
        if self.small_handles is None:
            self.small_handles = []
        self.small_handles.append(handle)

    def admit(self, call_id: int, size: int) -> bool:
        """The peer admits a large message. False if none of that call and size waits for it."""
        message = self.probing.get(call_id)
        if message is None or message.size != size:
            return False
        del self.probing[call_id]
        self.probing_size -= message.size
        message.admitted = True
        self._add_bulk(message)
        return True

    def _skip_dropped(self) -> None:
        """Dropped messages at the head of a queue must not hold up what comes after them."""
        for queue in (self.blocked_calls, self.blocked_replies):
            while queue and self.blocked.get(queue[0].call_id) is not queue[0]:
                queue.popleft()

    def _add_bulk(self, message: OutMessage) -> None:
        if self.bulk is None:
            self.bulk = deque()
        self.bulk.append(message)
        self.waiting += message.left

    def drop(self, call_id: int) -> bool:
        """Send nothing more of the message of this call. Returns whether there was one of which nothing was sent."""
        message = self.blocked.pop(call_id, None)
        if message is not None:
            self.blocked_size -= message.size
            message.pieces.clear()
            self._skip_dropped()
            return True
        message = self.probing.pop(call_id, None)
        if message is not None:
            self.probing_size -= message.size
            return False
        bulk = self.bulk or deque()
        for queued in bulk:
            if queued.call_id == call_id:
                bulk.remove(queued)
                self.waiting -= queued.left
                if queued.begun:
                    return False
                # Only a reply or an item is queued before its first frame.
                cost = queued.cost(self.call_window)
                if queued.kind == spec.REPLY:
                    self.credit_replies += cost
                    self._unblock(CreditClass.REPLIES)
                else:
                    self.credit_calls += cost
                    self._unblock(CreditClass.CALLS)
                return True
        return False

    def waiting_notifies(self) -> list[OutMessage]:
        """The notifies, and items with a handle, of which not every byte was taken."""
        messages = [*(self.bulk or ()), *self.probing.values(), *self.blocked.values()]
        return [message for message in messages if message.handle is not None]

    def drop_notify(self, call_id: int) -> PendingCall | None:
        """Send nothing more of a notify. Returns its handle; None if no notify of this id waits."""
        for message in self.waiting_notifies():
            if message.call_id == call_id:
                self.drop(call_id)
                return message.handle
        return None

    def clear(self) -> list[PendingCall]:
        """Forget everything, so that a last frame can be sent. Returns the handles that still waited."""
        handles = self.small_handles or []
        for message in self.waiting_notifies():
            if message.handle is not None:
                handles.append(message.handle)
        self.control.take()
        self.small.take()
        self.bulk = None
        self.probing.clear()
        self.pings = {}
        self.blocked_calls = None
        self.blocked_replies = None
        self.blocked.clear()
        self.blocked_size = 0
        self.probing_size = 0
        self.waiting = 0
        self.small_handles = None
        self.freed.clear()
        return handles

    def take(self, limit: int) -> list[Buffer] | None:
        """The parts to send next, about ``limit`` bytes of bulk at the most; None if there is nothing."""
        control = self.control
        small = self.small
        self.taken = control.size + small.size
        self.gathered = 0
        parts: list[Buffer] | None = None
        if control.size:
            parts = control.take()
        if small.size:
            taken = small.take()
            parts = taken if parts is None or taken is None else parts + taken
        self.handles = self.small_handles
        self.small_handles = None
        if self.bulk:
            parts = self._take_bulk(parts, limit)
        return parts

    def _take_bulk(self, parts: list[Buffer] | None, limit: int) -> list[Buffer] | None:
        small = self.small
        bulk = self.bulk
        while bulk and self.taken < limit:
            message = bulk.popleft()
            before = message.left
            most = spec.INLINE_MAX if bulk else max(spec.INLINE_MAX, min(self.max_frame, limit - self.taken))
            self.write_frame(message, most)
            self.waiting -= before - message.left
            self.taken += small.size
            taken = small.take()
            parts = taken if parts is None or taken is None else parts + taken
            if message.left:
                bulk.append(message)
                continue
            if message.handle is not None:
                if self.handles is None:
                    self.handles = []
                self.handles.append(message.handle)
            if message.flow is not None:
                message.flow.busy = False
                self.freed.append(message.flow)
        return parts
