"""One connection: frames to calls and back.

Life of a connection::

    WAITING ── peer's greeting ──> OPEN ── go_away(), or the peer's GOAWAY ──> DRAINING
       │                            │                                            │
       └────────────────────────────┴── breach, fatal GOAWAY, lost() ────────────┴──> CLOSED

Life of a call of ours: ``request`` puts it into ``calls``; whatever ends it takes it out again and tells the handler
once. A call of the peer is in ``running`` only while a handler that did not answer at once is at work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcproto.connection.bucket import TokenBucket
from rpcproto.connection.calls import OutMessage, PendingCall, RunningCall
from rpcproto.connection.failures import failure
from rpcproto.connection.outbox import Outbox
from rpcproto.connection.window import ReceiveWindow
from rpcproto.errors import (
    ConnectionClosed,
    ConnectionLost,
    DeadlineExceeded,
    GoingAway,
    LocalProtocolError,
    MessageTooLarge,
    Overloaded,
    RemoteProtocolError,
)
from rpcproto.wire import _tuning as tuning
from rpcproto.wire import spec
from rpcproto.wire.failure import decode_failure, encode_failure
from rpcproto.wire.sink import FrameSink
from rpcproto.wire.spec import CreditClass, ErrorCode, Role
from rpcproto.wire.spec import FrameType as Kind

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rpcproto.config import Limits, Timeouts
    from rpcproto.connection.budget import ReassemblyBudget, Reservation
    from rpcproto.connection.handler import CallHandler
    from rpcproto.wire.assembly import Assembly
    from rpcproto.wire.decoder import Decoder
    from rpcproto.wire.greeting import Greeting
    from rpcproto.wire.memory import LoopMemory

    Buffer = bytes | bytearray | memoryview

WAITING = 0
OPEN = 1
DRAINING = 2
CLOSED = 3

_FOREVER = float("inf")
_CONTROL_MAX = 32 * 1024
"""Control frames waiting for a peer that does not read: some 1,300 of them (Envoy allows 1,000)."""
_CREDIT_FRAMES_FREE = 1000
_UNBOUND = object()
_CODES = frozenset(code.value for code in ErrorCode)


class Connection(FrameSink):
    """The state of one connection.

    Args:
        handler: the shell.
        role: ours.
        memory: shared memory of the loop.
        limits, timeouts: of this side.
        max_message: largest message received, in bytes, for this kind of peer.
        budget: the reassembly budget of the process.
        peer: address of the peer, for error texts.
    """

    __slots__ = (
        "budget",
        "calls",
        "calls_opened",
        "calls_served",
        "calls_window",
        "cancels",
        "claims",
        "credit_frames",
        "decoder",
        "end",
        "greeting",
        "handler",
        "last_id",
        "late_replies",
        "limits",
        "max_message",
        "max_queued",
        "methods",
        "next_deadline",
        "next_id",
        "opening",
        "outbox",
        "parity",
        "paused",
        "peer",
        "peer_max_message",
        "ping_count",
        "pings",
        "reading",
        "refused",
        "replies_window",
        "running",
        "running_size",
        "started_away",
        "state",
        "timeouts",
        "unsent",
    )

    def __init__(
        self,
        handler: CallHandler,
        role: int,
        memory: LoopMemory,
        limits: Limits,
        timeouts: Timeouts,
        max_message: int,
        budget: ReassemblyBudget,
        peer: str,
    ) -> None:
        self.handler = handler
        self.limits = limits
        self.timeouts = timeouts
        self.max_message = max_message
        self.max_queued = limits.max_queued
        self.budget = budget
        self.peer = peer
        self.decoder: Decoder | None = None
        self.greeting: Greeting | None = None
        self.state = WAITING
        self.end: BaseException | None = None
        self.started_away = False
        self.outbox = Outbox(memory.scratches, handler)
        self.parity = 1 if role == Role.INITIATOR else 0
        self.next_id = 1 if role == Role.INITIATOR else 2
        self.last_id = 0
        self.calls: dict[int, PendingCall] = {}
        self.running: dict[int, RunningCall] = {}
        self.running_size = 0
        self.methods: list[object] = [_UNBOUND]
        self.opening: set[int] = set()
        self.claims: dict[int, Reservation] = {}
        self.pings: dict[bytes, object] = {}
        self.ping_count = 0
        self.reading = False
        self.paused = False
        self.unsent = 0
        self.credit_frames = 0
        self.peer_max_message = 0
        self.calls_window = ReceiveWindow("calls", limits.connection_window, limits.max_connection_window)
        self.replies_window = ReceiveWindow("replies", limits.connection_window, limits.max_connection_window)
        self.cancels = TokenBucket(limits.cancel_burst, limits.cancel_rate)
        self.next_deadline = _FOREVER
        self.calls_opened = 0
        self.calls_served = 0
        self.late_replies = 0
        self.refused = 0

    # -- Our calls ---------------------------------------------------------------------------------------------------

    def request(
        self,
        call: PendingCall,
        method: str,
        codec: int,
        body: Buffer,
        buffers: Sequence[Buffer] | None,
        size: int,
        timeout: float,
    ) -> None:
        """Open a request. It ends by ``on_reply`` or ``on_failure`` of the handler, unless :meth:`cancel_call` is first.

        Args:
            call: the record of the call; its ``call_id``, ``method``, ``deadline`` and ``sent`` are set here.
            method: its name.
            codec: id of the codec that encoded body and buffers.
            body, buffers: the message; each buffer contiguous and of unsigned bytes. What is larger than 4 KiB must not be
                changed until the call has ended.
            size: bytes of body and buffers together.
            timeout: seconds, or 0.0 for none.

        Raises:
            RpcError: the call cannot be made; it was not opened.
        """
        outbox = self.outbox
        method_id = outbox.method_ids.get(method, 0)
        self._check_open(method, method_id, buffers, size)
        call_id = self.next_id
        self.next_id = call_id + 2
        self.calls_opened += 1
        call.call_id = call_id
        call.method = method
        timeout_ms = -1
        if timeout > 0.0:
            deadline = self.handler.now() + timeout
            call.deadline = deadline
            if deadline < self.next_deadline:
                self.next_deadline = deadline
                self.handler.on_deadline(deadline)
            timeout_ms = int(timeout * 1000.0 + 0.999) if timeout < 4e6 else -1
        self.calls[call_id] = call
        cost = size if size > 64 else 64
        if (
            buffers is None
            and method_id
            and size <= spec.INLINE_MAX
            and cost <= outbox.credit_calls
            and not outbox.blocked_size
        ):
            outbox.credit_calls -= cost
            outbox.small.opening(spec.REQUEST, spec.END, codec, call_id, method_id, timeout_ms, body, size)
            call.sent = True
            if not self.reading:
                self.handler.on_output()
            return
        message = OutMessage(spec.REQUEST, spec.END, codec, call_id, body, buffers, size)
        message.call = call
        message.method = method
        message.deadline = call.deadline
        outbox.send(message)
        if not self.reading:
            self.handler.on_output()

    def notify(
        self, handle: object, method: str, codec: int, body: Buffer, buffers: Sequence[Buffer] | None, size: int
    ) -> None:
        """Send a notify. The handler is told by ``on_written(handle)`` once its last byte is handed over.

        Raises:
            RpcError: as :meth:`request`.
        """
        outbox = self.outbox
        method_id = outbox.method_ids.get(method, 0)
        self._check_open(method, method_id, buffers, size)
        call_id = self.next_id
        self.next_id = call_id + 2
        self.calls_opened += 1
        message = OutMessage(spec.NOTIFY, spec.END, codec, call_id, body, buffers, size)
        message.method = method
        message.handle = handle
        outbox.send(message)
        if not self.reading:
            self.handler.on_output()

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
        if self.state == WAITING or self.state == CLOSED:
            raise self._closed_error("ping")
        self._send_ping(waiter)

    # -- Answers to the peer's calls -----------------------------------------------------------------------------------

    def reply(self, call_id: int, codec: int, body: Buffer, buffers: Sequence[Buffer] | None, size: int) -> None:
        """Answer a request of the peer."""
        if self.state == CLOSED:
            return
        self.calls_served += 1
        cost = size if size > 64 else 64
        outbox = self.outbox
        if buffers is None and size <= spec.INLINE_MAX and cost <= outbox.credit_replies and not outbox.blocked_size:
            outbox.credit_replies -= cost
            outbox.small.reply(codec, call_id, body, size)
            if not self.reading:
                self.handler.on_output()
            return
        if size > self.peer_max_message or not self._head_fits(buffers):
            self.fail(
                call_id,
                ErrorCode.MESSAGE_TOO_LARGE,
                "",
                f"the result has {size} bytes, above the caller's max_message of {self.peer_max_message}",
                "",
            )
            return
        outbox.send(OutMessage(spec.REPLY, spec.END, codec, call_id, body, buffers, size))
        if not self.reading:
            self.handler.on_output()

    def fail(self, call_id: int, code: int, type_name: str, text: str, traceback: str) -> None:
        """Answer a request of the peer with an error."""
        if self.state == CLOSED:
            return
        self.outbox.small.frame(spec.ERROR, spec.END, code, call_id, encode_failure(type_name, text, traceback))
        if not self.reading:
            self.handler.on_output()

    def begin(self, kind: int, call_id: int, codec: int, method: str, size: int, deadline_ms: int) -> RunningCall | None:
        """Register a call of the peer whose handler does not answer at once. None if it is over the limits, and was refused."""
        limits = self.limits
        count = len(self.running)
        if count >= limits.max_running:
            self.refuse(kind, call_id, ErrorCode.OVERLOADED, f"{count} calls of this peer run here, its max_running")
            return None
        if count and self.running_size + size > limits.max_running_bytes:
            self.refuse(
                kind,
                call_id,
                ErrorCode.OVERLOADED,
                f"running calls of this peer hold {self.running_size} bytes, and max_running_bytes is {limits.max_running_bytes}",
            )
            return None
        deadline = 0.0
        if deadline_ms >= 0:
            deadline = self.handler.now() + deadline_ms * 0.001
            if deadline < self.next_deadline:
                self.next_deadline = deadline
                self.handler.on_deadline(deadline)
        call = RunningCall(kind, call_id, codec, method, size, deadline)
        self.running[call_id] = call
        self.running_size += size
        return call

    def finished(self, call: RunningCall) -> bool:
        """The handler of a running call has ended. Returns whether its answer is still wanted."""
        if self.running.get(call.call_id) is call:
            del self.running[call.call_id]
            self.running_size -= call.size
        return not call.over and call.kind != spec.NOTIFY and self.state != CLOSED

    def refuse(self, kind: int, call_id: int, code: int, text: str) -> None:
        """Do not start a call of the peer."""
        self.refused += 1
        if kind != spec.NOTIFY:
            self.fail(call_id, code, "", text, "")

    # -- The shell's side ----------------------------------------------------------------------------------------------

    def take(self, limit: int) -> list[Buffer] | None:
        """The parts to send next, about ``limit`` bytes of bulk at most; None if there is nothing to send now."""
        return self.outbox.take(limit)

    def queued(self) -> int:
        """Bytes waiting on this side, for the socket, for credit or for an admission."""
        return self.outbox.sendable() + self.outbox.blocked_size + self.unsent

    def on_sent(self, unsent: int) -> None:
        """The shell tells how many bytes of what it took the socket has not accepted yet."""
        self.unsent = unsent
        size = unsent + self.outbox.sendable()
        if self.paused:
            if size * 2 <= self.max_queued:
                self.paused = False
                self.handler.on_pause(False)
        elif size > self.max_queued and self.state != CLOSED:
            self.paused = True
            if self.decoder is not None:
                self.decoder.pause()
            self.handler.on_pause(True)

    def on_written(self, handle: object) -> None:
        """The shell tells that the last byte of a notify was handed over."""
        self.handler.on_written(handle)

    def go_away(self, last: bool) -> None:
        """Say that we are shutting down: first that new calls are refused, at the ``last`` which ones were processed."""
        if self.state == CLOSED or self.state == WAITING:
            return
        self.state = DRAINING
        self.started_away = True
        last_id = self.last_id if last else spec.CALL_ID_MAX
        self.outbox.control.frame(spec.GOAWAY, 0, ErrorCode.NO_ERROR, 0, last_id.to_bytes(8, "little"))
        self.handler.on_output()

    def abandon(self, code: int, text: str) -> None:
        """End the connection for a fault of the peer that the shell has found, such as silence."""
        self.on_breach(RemoteProtocolError(text, code=code))

    def lost(self, error: ConnectionLost) -> None:
        """The byte stream has ended, or this side closes it: every call ends now.

        Args:
            error: what to tell the callers; each gets its own, which says whether its call may have run.
        """
        if self.state != CLOSED:
            self._close(error)

    def on_time(self, now: float) -> float:
        """End what is over at ``now`` (monotonic seconds). Returns when to be called again, infinity for never."""
        nearest = _FOREVER
        late = []
        for call in self.calls.values():
            if call.deadline > 0.0:
                if call.deadline <= now:
                    late.append(call)
                elif call.deadline < nearest:
                    nearest = call.deadline
        for running in list(self.running.values()):
            if running.deadline > 0.0 and not running.over:
                if running.deadline <= now:
                    running.over = True
                    if running.kind != spec.NOTIFY:
                        self.fail(
                            running.call_id, ErrorCode.DEADLINE_EXCEEDED, "", "the time allowed for the call is over", ""
                        )
                    self.handler.on_cancel(running, ErrorCode.DEADLINE_EXCEEDED)
                elif running.deadline < nearest:
                    nearest = running.deadline
        self.next_deadline = nearest
        for call in late:
            if self.calls.pop(call.call_id, None) is call:
                self._give_up(call, ErrorCode.DEADLINE_EXCEEDED)
                self.handler.on_failure(
                    call,
                    DeadlineExceeded(
                        f"{call.method} at {self.peer}: no answer within its timeout", method=call.method, peer=self.peer
                    ),
                )
        return self.next_deadline

    def check_progress(self, now: float) -> None:
        """Called every few seconds: end the connection if a message that has begun makes no progress."""
        if self.decoder is None or self.state == CLOSED:
            return
        for message in list(self.decoder.assemblies.values()):
            if message.state != tuning.ADMITTED:
                continue
            if message.received != message.seen:
                message.seen = message.received
                message.progress = now
            elif now - message.progress > self.timeouts.message:
                self.abandon(
                    ErrorCode.PROTOCOL,
                    f"call {message.call_id}: {message.received} of {message.total} bytes of its message came, "
                    f"then none for {self.timeouts.message:g} s",
                )
                return

    # -- What arrives --------------------------------------------------------------------------------------------------

    def on_greeting(self, greeting: Greeting) -> int:
        self.greeting = greeting
        self.peer_max_message = greeting.max_message
        self.outbox.open(greeting.connection_window, greeting.call_window, greeting.max_frame)
        self.state = OPEN
        self.handler.on_open()
        return 0

    def on_open(
        self,
        kind: int,
        call_id: int,
        codec: int,
        method: int,
        name: str | None,
        deadline_ms: int,
        metadata: bytes | None,
        body: object,
        buffers: Sequence[memoryview] | None,
        size: int,
    ) -> int:
        self.reading = True
        cost = size if size > 64 else 64
        if call_id > self.last_id and (call_id & 1) != self.parity:
            self.last_id = call_id
            self.calls_window.take(cost)
        else:
            cost = self._assembled(call_id, size)
            if method and name is not None:
                name = None
        if name is not None:
            entry = self._bind(call_id, method, name)
        else:
            entry = self._method(call_id, method)
        if entry is None or self.started_away or deadline_ms == 0 or size > self.max_message or self.outbox.blocked_size > self.max_queued:
            self._turn_away(entry, kind, call_id, method, deadline_ms, size)
        else:
            self.handler.on_call(entry, kind, call_id, codec, deadline_ms, metadata, body, buffers, size)
        if self.state != CLOSED:
            amount = self.calls_window.give_back(cost)
            if amount:
                self._send_credit(CreditClass.CALLS, self.calls_window, amount)
        return 0

    def on_reply(
        self, call_id: int, codec: int, metadata: bytes | None, body: object, buffers: Sequence[memoryview] | None, size: int
    ) -> int:
        self.reading = True
        cost = size if size > 64 else 64
        if call_id in self.opening:
            self.opening.discard(call_id)
            self._release(call_id)
            cost = self._cost(size)
        else:
            self.replies_window.take(cost)
        call = self.calls.pop(call_id, None)
        if call is not None:
            self.handler.on_reply(call, codec, metadata, body, buffers)
        else:
            self._stray_reply(call_id, Kind.REPLY)
        if self.state != CLOSED:
            amount = self.replies_window.give_back(cost)
            if amount:
                self._send_credit(CreditClass.REPLIES, self.replies_window, amount)
        return 0

    def on_item(
        self,
        call_id: int,
        codec: int,
        flags: int,
        metadata: bytes | None,
        body: object,
        buffers: Sequence[memoryview] | None,
        size: int,
    ) -> int:
        raise self._breach(call_id, "an ITEM for a call that is neither stream nor channel")

    def on_error(self, call_id: int, code: int, payload: bytes) -> int:
        self.reading = True
        texts = decode_failure(payload)
        call = self.calls.pop(call_id, None)
        if call is None:
            self._stray_reply(call_id, Kind.ERROR)
            return 0
        self._drop_messages(call_id)
        self.handler.on_failure(call, failure(code, texts[0], texts[1], texts[2], call.method, self.peer))
        return 0

    def on_cancel(self, call_id: int, code: int) -> int:
        self.reading = True
        if not self.cancels.take(self.handler.now()):
            raise RemoteProtocolError(
                f"more cancels than cancel_burst ({self.limits.cancel_burst}) and cancel_rate "
                f"({self.limits.cancel_rate}/s) allow",
                code=ErrorCode.FLOOD,
            )
        if (call_id & 1) == self.parity:
            call = self.calls.pop(call_id, None)
            if call is not None:
                self._drop_messages(call_id)
                text = "the peer gave the call up"
                self.handler.on_failure(call, failure(code, "", text, "", call.method, self.peer))
            elif call_id >= self.next_id:
                raise self._breach(call_id, "a CANCEL for a call that was never opened")
            return 0
        if call_id > self.last_id:
            raise self._breach(call_id, "a CANCEL for a call that was never opened")
        self._drop_messages(call_id)
        running = self.running.get(call_id)
        if running is not None and not running.over:
            running.over = True
            self.handler.on_cancel(running, code)
        return 0

    def on_credit(self, call_id: int, aux: int, amount: int) -> int:
        self.reading = True
        self.credit_frames += 1
        if self.credit_frames > _CREDIT_FRAMES_FREE + 20 * (self.calls_opened + self.calls_served):
            raise RemoteProtocolError("more CREDIT frames than messages sent could explain", code=ErrorCode.FLOOD)
        if call_id:
            if self.outbox.admit(call_id, amount):
                return 0
            if call_id >= self.next_id if (call_id & 1) == self.parity else call_id > self.last_id:
                raise self._breach(call_id, "a CREDIT for a call that was never opened")
            if call_id in self.calls or call_id in self.running:
                raise RemoteProtocolError(
                    f"call {call_id}: a CREDIT of {amount} bytes where no message of that size waits to be admitted",
                    code=ErrorCode.FLOW_CONTROL,
                )
            return 0
        self.outbox.add_credit(aux, amount)
        return 0

    def on_ping(self, aux: int, payload: bytes) -> int:
        self.reading = True
        if aux == 0:
            if self.outbox.control.size > _CONTROL_MAX:
                raise RemoteProtocolError("PINGs come faster than their answers are read", code=ErrorCode.FLOOD)
            self.outbox.control.frame(spec.PING, 0, 1, 0, payload)
            return 0
        waiter = self.pings.pop(payload, None)
        if waiter is self.calls_window:
            self._enlarge(CreditClass.CALLS, self.calls_window)
        elif waiter is self.replies_window:
            self._enlarge(CreditClass.REPLIES, self.replies_window)
        elif waiter is not None:
            self.handler.on_pong(waiter)
        return 0

    def on_goaway(self, code: int, last_call_id: int, text: str) -> int:
        self.reading = True
        if code != ErrorCode.NO_ERROR:
            name = ErrorCode(code).name if code in _CODES else f"{code:#06x}"
            error = RemoteProtocolError(f"the peer {self.peer} ended the connection: {name}: {text}", code=code)
            self._close(error)
            self.handler.on_end(error)
            return 0
        first = self.state == OPEN
        self.state = DRAINING
        if last_call_id < spec.CALL_ID_MAX:
            for call in list(self.calls.values()):
                if call.call_id > last_call_id and self.calls.pop(call.call_id, None) is call:
                    self._drop_messages(call.call_id)
                    self.handler.on_failure(
                        call, GoingAway(f"{call.method} at {self.peer}: not started, the peer shut down", method=call.method, peer=self.peer)
                    )
        if first:
            self.handler.on_drain()
        return 0

    def on_auth(self, step: int, payload: bytes) -> int:
        raise RemoteProtocolError("an AUTH frame where no authentication was agreed", code=ErrorCode.AUTHENTICATION)

    def on_stray(self, kind: int, call_id: int) -> int:
        if (call_id & 1) == self.parity:
            known = call_id < self.next_id and kind >= spec.REPLY
            idle = call_id in self.calls
        else:
            known = call_id <= self.last_id and kind != spec.REPLY
            idle = False
        if not known or idle:
            raise self._breach(call_id, "a fragment of a message that has no beginning")
        return 0

    def on_large(self, message: Assembly) -> int:
        self.reading = True
        call_id = message.call_id
        size = message.total
        cost = self._cost(size)
        large = size > self.limits.call_window
        if large:
            message.expected = spec.PROBE_SIZE
        if message.kind <= spec.CHANNEL:
            if call_id <= self.last_id or (call_id & 1) == self.parity:
                raise self._wrong_id(call_id)
            self.last_id = call_id
            window = self.calls_window
            window.take(cost)
            if message.name is not None:
                entry = self._bind(call_id, message.method, message.name)
            else:
                entry = self._method(call_id, message.method)
            if entry is None or self.started_away or message.deadline_ms == 0 or size > self.max_message:
                self._turn_away(entry, message.kind, call_id, message.method, message.deadline_ms, size)
                message.discard()
        elif message.kind == spec.REPLY:
            window = self.replies_window
            window.take(cost)
            call = self.calls.get(call_id)
            if call is None:
                self._stray_reply(call_id, Kind.REPLY)
                message.discard()
            elif size > self.max_message:
                del self.calls[call_id]
                self._send_cancel(call_id, ErrorCode.MESSAGE_TOO_LARGE)
                message.discard()
                self.handler.on_failure(call, self._too_large("the reply to " + call.method, size, self.max_message, "this side's"))
        else:
            raise self._breach(call_id, "an ITEM for a call that is neither stream nor channel")
        if message.state == tuning.DISCARDED:
            message.expected = size
            self._give_back(CreditClass.REPLIES if window is self.replies_window else CreditClass.CALLS, window, cost)
            return 0
        self.opening.add(call_id)
        message.progress = self.handler.now()
        if large:
            self._ask_budget(message)
        else:
            message.admit()
        return 0

    def on_allocate(self, message: Assembly) -> int:
        try:
            message.use(list(self.handler.allocate(message.segment_sizes())))
        except Exception as error:
            self._forget(message)
            text = f"no memory for a message of {message.total} bytes: {type(error).__name__}: {error}"
            if message.kind == spec.REPLY:
                call = self.calls.pop(message.call_id, None)
                self._send_cancel(message.call_id, ErrorCode.CANCELLED)
                if call is not None:
                    local = Overloaded(f"{call.method} at {self.peer}: {text}", method=call.method, peer=self.peer)
                    local.__cause__ = error
                    self.handler.on_failure(call, local)
            else:
                self.refuse(message.kind, message.call_id, ErrorCode.OVERLOADED, text)
        return 0

    def on_read_done(self) -> int:
        self.reading = False
        return self.handler.on_read_done()

    def on_backlog(self) -> int:
        return self.handler.on_backlog()

    def on_breach(self, error: BaseException) -> int:
        if self.state == CLOSED:
            return 0
        code = error.code if isinstance(error, RemoteProtocolError) else int(ErrorCode.INTERNAL)
        text = str(error).encode("utf-8", "backslashreplace")[:1024].decode("utf-8", "ignore").encode()
        self._close(error)
        self.outbox.control.frame(spec.GOAWAY, 0, code, 0, self.last_id.to_bytes(8, "little") + text)
        self.handler.on_end(error)
        return 0

    # -- Inside --------------------------------------------------------------------------------------------------------

    def _check_open(self, method: str, method_id: int, buffers: Sequence[Buffer] | None, size: int) -> None:
        """Raise if a call cannot be opened now."""
        outbox = self.outbox
        if self.state != OPEN:
            raise self._closed_error(method)
        if size > self.peer_max_message or not (buffers is None or self._head_fits(buffers)):
            raise self._too_large(method, size, self.peer_max_message, "the peer's")
        if not method_id and not 0 < len(method.encode()) <= spec.MAX_METHOD_NAME:
            raise LocalProtocolError(f"a method name has 1 to {spec.MAX_METHOD_NAME} bytes of UTF-8, not {method!r}")
        if outbox.small.size + outbox.waiting + outbox.blocked_size + self.unsent > self.max_queued:
            raise Overloaded(
                f"{method} at {self.peer}: not sent, since {self.queued()} bytes wait to be sent already, above this "
                f"side's max_queued of {self.max_queued}",
                method=method,
                peer=self.peer,
            )

    def _head_fits(self, buffers: Sequence[Buffer] | None) -> bool:
        """Whether the sizes of the buffers fit into one frame, beside a method name."""
        return buffers is None or (len(buffers) <= 0xFFFF and 8 * len(buffers) + 1024 <= self.outbox.max_frame)

    def _too_large(self, what: str, size: int, limit: int, whose: str) -> MessageTooLarge:
        if size > limit:
            text = f"{what}: {size} bytes, above {whose} max_message of {limit}"
        else:
            text = f"{what}: its buffers are too many; at most 65,535, and their sizes must fit into the peer's max_frame"
        return MessageTooLarge(text, size=size, limit=limit)

    def _closed_error(self, what: str) -> Exception:
        if self.state == WAITING:
            return LocalProtocolError(f"{what}: the greeting of {self.peer} has not come yet")
        if self.state == DRAINING:
            return GoingAway(
                f"{what} at {self.peer}: not sent, the connection is shutting down", method=what, peer=self.peer
            )
        return self._lost_error(what, False)

    def _lost_error(self, what: str, sent: bool) -> ConnectionLost:
        kind = ConnectionClosed if isinstance(self.end, ConnectionClosed) else ConnectionLost
        may = "it may have run" if sent else "it was not sent"
        error = kind(f"{what} at {self.peer}: {self.end}; {may}", peer=self.peer, maybe_executed=sent)
        error.__cause__ = self.end
        return error

    def _close(self, error: BaseException) -> None:
        """Enter CLOSED: end every call, once, and let go of everything."""
        self.state = CLOSED
        self.end = error
        if self.decoder is not None:
            self.decoder.stop()
        claims = self.claims
        self.claims = {}
        for claim in claims.values():
            self.budget.release(claim)
        self.opening.clear()
        handles = self.outbox.clear()
        calls = self.calls
        self.calls = {}
        pings = self.pings
        self.pings = {}
        for call in calls.values():
            self.handler.on_failure(call, self._lost_error(call.method, call.sent))
        for handle in handles:
            if isinstance(handle, PendingCall):
                self.handler.on_failure(handle, self._lost_error(handle.method, True))
        for waiter in pings.values():
            if isinstance(waiter, PendingCall):
                self.handler.on_failure(waiter, self._lost_error("ping", True))
        for running in list(self.running.values()):
            if not running.over:
                running.over = True
                self.handler.on_cancel(running, ErrorCode.CANCELLED)

    def _bind(self, call_id: int, method: int, name: str) -> object:
        entry = self.handler.resolve(name)
        if method:
            methods = self.methods
            while len(methods) <= method:
                methods.append(_UNBOUND)
            if methods[method] is not _UNBOUND:
                raise RemoteProtocolError(
                    f"call {call_id}: its head binds method id {method} a second time", code=ErrorCode.HEAD
                )
            methods[method] = entry
        return entry

    def _method(self, call_id: int, method: int) -> object:
        if method < len(self.methods):
            entry = self.methods[method]
            if entry is not _UNBOUND:
                return entry
        raise RemoteProtocolError(f"call {call_id}: its head has method id {method}, which is not bound", code=ErrorCode.HEAD)

    def _turn_away(self, entry: object, kind: int, call_id: int, method: int, deadline_ms: int, size: int) -> None:
        """Answer a call that is not started."""
        if entry is None:
            self.refuse(kind, call_id, ErrorCode.NO_SUCH_METHOD, "no such method")
        elif self.started_away:
            self.refuse(kind, call_id, ErrorCode.GOING_AWAY, "shutting down")
        elif deadline_ms == 0:
            self.refuse(kind, call_id, ErrorCode.DEADLINE_EXCEEDED, "its deadline had passed when it arrived")
        elif size > self.max_message:
            text = f"the message has {size} bytes, above the server's max_message of {self.max_message}"
            self.refuse(kind, call_id, ErrorCode.MESSAGE_TOO_LARGE, text)
        else:
            text = f"{self.outbox.blocked_size} bytes of replies wait for this peer to take them"
            self.refuse(kind, call_id, ErrorCode.OVERLOADED, text)

    def _assembled(self, call_id: int, size: int) -> int:
        """A message announced by on_large is complete. Returns its cost."""
        if call_id not in self.opening:
            raise self._wrong_id(call_id)
        self.opening.discard(call_id)
        self._release(call_id)
        return self._cost(size)

    def _cost(self, size: int) -> int:
        """What a message of this size took from a window of ours."""
        if size > self.limits.call_window:
            return spec.PROBE_SIZE
        return size if size > 64 else 64

    def _ask_budget(self, message: Assembly) -> None:
        self.claims[message.call_id] = self.budget.reserve(message.total, self.on_admitted, message)

    def on_admitted(self, message: Assembly) -> None:
        """The budget has reserved a large message's memory: let its bytes come."""
        message.admit()
        message.expected = message.total
        message.progress = self.handler.now()
        self.outbox.control.number(spec.CREDIT, 0, message.call_id, message.total)
        if not self.reading:
            self.handler.on_output()

    def _release(self, call_id: int) -> None:
        claim = self.claims.pop(call_id, None)
        if claim is not None:
            self.budget.release(claim)

    def _forget(self, message: Assembly) -> None:
        """Drop a message under way to us and give its credit back."""
        message.discard()
        call_id = message.call_id
        if call_id in self.opening:
            self.opening.discard(call_id)
            self._release(call_id)
            if message.kind == spec.REPLY:
                self._give_back(CreditClass.REPLIES, self.replies_window, self._cost(message.total))
            else:
                self._give_back(CreditClass.CALLS, self.calls_window, self._cost(message.total))

    def _drop_messages(self, call_id: int) -> bool:
        """The call has ended: drop what is under way for it in both directions. Returns whether nothing of it was sent."""
        decoder = self.decoder
        if decoder is not None and call_id in self.opening:
            message = decoder.assemblies.get(call_id)
            if message is not None:
                self._forget(message)
                decoder.forget(call_id)
        return self.outbox.drop(call_id)

    def _give_up(self, call: PendingCall, code: int) -> None:
        """End a call of ours that is out of the table already, on the wire."""
        if self._drop_messages(call.call_id):
            call.sent = False
        elif self.state != CLOSED:
            self._send_cancel(call.call_id, code)

    def _send_cancel(self, call_id: int, code: int) -> None:
        self.outbox.small.frame(spec.CANCEL, spec.END, code, call_id, b"")
        if not self.reading:
            self.handler.on_output()

    def _give_back(self, aux: int, window: ReceiveWindow, cost: int) -> None:
        amount = window.give_back(cost)
        if amount:
            self._send_credit(aux, window, amount)

    def _send_credit(self, aux: int, window: ReceiveWindow, amount: int) -> None:
        self.outbox.control.number(spec.CREDIT, aux, 0, amount)
        if window.start_probe():
            self._send_ping(window)
        elif not self.reading:
            self.handler.on_output()

    def _send_ping(self, waiter: object) -> None:
        self.ping_count += 1
        payload = self.ping_count.to_bytes(8, "little")
        self.pings[payload] = waiter
        self.outbox.control.frame(spec.PING, 0, 0, 0, payload)
        if not self.reading:
            self.handler.on_output()

    def _enlarge(self, aux: int, window: ReceiveWindow) -> None:
        extra = window.end_probe()
        if extra:
            self.outbox.control.number(spec.CREDIT, aux, 0, extra)

    def _stray_reply(self, call_id: int, kind: Kind) -> None:
        """An answer for no open call: one that crossed its cancel, or a breach."""
        if (call_id & 1) != self.parity or call_id >= self.next_id:
            raise self._breach(call_id, f"a {kind.name} for a call that was never opened")
        self.late_replies += 1

    def _breach(self, call_id: int, text: str) -> RemoteProtocolError:
        return RemoteProtocolError(f"call {call_id}: {text}", code=ErrorCode.CALL_STATE)

    def _wrong_id(self, call_id: int) -> RemoteProtocolError:
        if (call_id & 1) == self.parity:
            return RemoteProtocolError(f"call {call_id} opened by the peer: its ids have the other parity", code=ErrorCode.CALL_ID)
        return RemoteProtocolError(
            f"call {call_id} opened after {self.last_id}: ids must rise, and are never used again", code=ErrorCode.CALL_ID
        )

