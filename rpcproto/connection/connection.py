"""One connection: frames to calls and back.

Life of a connection::

    WAITING ─ greeting, proofs ──> OPEN ── go_away(), or the peer's GOAWAY ──> DRAINING
       │                            │                                            │
       └────────────────────────────┴── breach, fatal GOAWAY, lost() ────────────┴──> CLOSED

Life of a call of ours: ``request`` puts it into ``calls``; whatever ends it takes it out again and tells the handler
once. A call of the peer is in ``running`` only while a handler that did not answer at once is at work.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcproto.connection import _states as states
from rpcproto.connection.authentication import check_mechanism
from rpcproto.connection.failures import failure
from rpcproto.connection.flowing import Flowing
from rpcproto.connection.window import ReceiveWindow
from rpcproto.errors import ConnectionLost, DeadlineExceeded, GoingAway, Overloaded, RemoteProtocolError
from rpcproto.wire import _tuning as tuning
from rpcproto.wire import spec
from rpcproto.wire.spec import ErrorCode
from rpcproto.wire.spec import FrameType as Kind

if TYPE_CHECKING:
    from rpcproto.connection.calls import PendingCall
    from rpcproto.wire.assembly import Assembly
    from rpcproto.wire.greeting import Greeting

_FOREVER = float("inf")
_CONTROL_MAX = 32 * 1024
"""Control frames waiting for a peer that does not read: some 1,300 of them (Envoy allows 1,000)."""
_CREDIT_FRAMES_FREE = 1000
_CODES = frozenset(code.value for code in ErrorCode)


class Connection(Flowing):
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

    __slots__ = ()

    def go_away(self, last: bool) -> None:
        """Say that we are shutting down: first that new calls are refused, at the ``last`` which ones were
        processed."""
        if self.state in (states.WAITING, states.CLOSED):
            return
        self.state = states.DRAINING
        self.started_away = True
        last_id = self.last_id if last else spec.CALL_ID_MAX
        self.outbox.control.frame(spec.GOAWAY, 0, ErrorCode.NO_ERROR, 0, last_id.to_bytes(8, "little"))
        self.outbox.signal()

    def abandon(self, code: int, text: str) -> None:
        """End the connection for a fault of the peer that the shell has found, such as silence."""
        self.on_breach(RemoteProtocolError(text, code=code))

    def lost(self, error: ConnectionLost) -> None:
        """The byte stream has ended, or this side closes it: every call ends now.

        Args:
            error: what to tell the callers; each gets its own, which says whether its call may have run.
        """
        if self.state != states.CLOSED:
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
        for call in self.flows.values():
            if call.deadline > 0.0:
                if call.deadline <= now:
                    late.append(call)
                elif call.deadline < nearest:
                    nearest = call.deadline
        for running in list(self.running.values()):
            if running.deadline > 0.0 and not running.over:
                if running.deadline <= now:
                    running.over = True
                    flow = self._end_flow(running.call_id)
                    if running.kind != spec.NOTIFY:
                        self.fail(
                            running.call_id,
                            ErrorCode.DEADLINE_EXCEEDED,
                            "",
                            "the time allowed for the call is over",
                            "",
                        )
                    if flow is not None:
                        text = f"{flow.method} of {self.peer}: the time allowed for the call is over"
                        self.handler.on_failure(flow, DeadlineExceeded(text, method=flow.method, peer=self.peer))
                    self.handler.on_cancel(running, ErrorCode.DEADLINE_EXCEEDED)
                elif running.deadline < nearest:
                    nearest = running.deadline
        self.next_deadline = nearest
        for call in late:
            if self.calls.pop(call.call_id, None) is call:
                self._give_up(call, ErrorCode.DEADLINE_EXCEEDED)
                text = f"{call.method} at {self.peer}: no answer within {self._allowed(call)}"
            elif self.flows.get(call.call_id) is call:
                self.give_up_flow(call, ErrorCode.DEADLINE_EXCEEDED)
                text = f"{call.method} at {self.peer}: did not end within {self._allowed(call)}"
            else:
                continue
            self.handler.on_failure(call, DeadlineExceeded(text, method=call.method, peer=self.peer))
        return self.next_deadline

    def _allowed(self, call: PendingCall) -> str:
        """For the text of an error: the time that the call had, and where that comes from."""
        default = " (Timeouts.request of this side)" if call.timeout == self.timeouts.request else ""
        return f"{call.timeout:.6g} s{default}"

    def check_progress(self, now: float) -> None:
        """Called every few seconds: end the connection if a message that has begun makes no progress."""
        if self.decoder is None or self.state == states.CLOSED:
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
                    f"then none for {self.timeouts.message:g} s (Timeouts.message)",
                )
                return

    def on_greeting(self, greeting: Greeting) -> int:
        authentication = self.authentication
        check_mechanism(greeting.mechanism, authentication is not None)
        self.greeting = greeting
        if authentication is None:
            self._open()
        else:
            assert self.decoder is not None
            assert self.decoder.greeting is not None
            self.decoder.guard(True)
            nonce = authentication.begin(self.decoder.greeting)
            self.outbox.control.frame(spec.AUTH, 0, authentication.NONCE, 0, nonce)
        return 0

    def _open(self) -> None:
        """Nothing is in the way of calls any more."""
        greeting = self.greeting
        assert greeting is not None
        self.peer_max_message = greeting.max_message
        self.outbox.open(greeting.connection_window, greeting.call_window, greeting.max_frame)
        self.state = states.OPEN
        self.handler.on_open()

    def on_cancel(self, call_id: int, code: int) -> int:
        self.outbox.reading = True
        if not self.cancels.take(self.handler.now()):
            raise RemoteProtocolError(
                f"more cancels than cancel_burst ({self.limits.cancel_burst}) and cancel_rate "
                f"({self.limits.cancel_rate}/s) allow",
                code=ErrorCode.FLOOD,
            )
        flow = self.flows.get(call_id)
        if flow is not None:
            self.on_flow_cancel(flow, code)
        if (call_id & 1) == self.parity:
            call = self.calls.pop(call_id, None) or self.outbox.drop_notify(call_id)
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
        if running is not None and not running.over and running.kind != spec.NOTIFY:
            running.over = True
            self.handler.on_cancel(running, code)
        return 0

    def on_credit(self, call_id: int, aux: int, amount: int) -> int:
        self.outbox.reading = True
        self.credit_frames += 1
        sent = self.calls_opened + self.calls_served + self.items_sent
        if self.credit_frames > _CREDIT_FRAMES_FREE + 20 * sent:
            raise RemoteProtocolError("more CREDIT frames than messages sent could explain", code=ErrorCode.FLOOD)
        if call_id and aux == spec.ITEMS:
            self.add_item_credit(call_id, amount)
            return 0
        if call_id:
            if self.outbox.admit(call_id, amount):
                return 0
            if self._is_closed(call_id):
                return 0
            if call_id in self.calls or call_id in self.running or call_id in self.inbox.kept or call_id in self.flows:
                raise RemoteProtocolError(
                    f"call {call_id}: a CREDIT of {amount} bytes where no message of that size waits to be admitted",
                    code=ErrorCode.FLOW_CONTROL,
                )
            raise self._breach(call_id, "a CREDIT for a call that was never opened")
        self.outbox.add_credit(aux, amount)
        if self.outbox.freed:
            self._pump_freed()
        return 0

    def on_ping(self, aux: int, payload: bytes) -> int:
        self.outbox.reading = True
        if aux == 0:
            if self.outbox.control.size > _CONTROL_MAX:
                raise RemoteProtocolError("PINGs come faster than their answers are read", code=ErrorCode.FLOOD)
            self.outbox.control.frame(spec.PING, 0, 1, 0, payload)
            return 0
        waiter = self.outbox.pings.pop(payload, None)
        if isinstance(waiter, ReceiveWindow):
            self.inbox.on_answer(waiter)
        elif waiter is not None:
            self.handler.on_pong(waiter)
        return 0

    def on_goaway(self, code: int, last_call_id: int, text: str) -> int:
        self.outbox.reading = True
        if code != ErrorCode.NO_ERROR:
            name = ErrorCode(code).name if code in _CODES else f"{code:#06x}"
            error = RemoteProtocolError(f"the peer {self.peer} ended the connection: {name}: {text}", code=code)
            self._close(error)
            self.handler.on_end(error)
            return 0
        if self.state == states.WAITING:
            raise RemoteProtocolError("a GOAWAY without an error before the proofs", code=ErrorCode.AUTHENTICATION)
        first = self.state == states.OPEN
        self.state = states.DRAINING
        if last_call_id < spec.CALL_ID_MAX:
            above = [call for call in self.calls.values() if call.call_id > last_call_id]
            for call in above:
                del self.calls[call.call_id]
                self._drop_messages(call.call_id)
            for flow in list(self.flows.values()):
                if flow.call_id > last_call_id and (flow.call_id & 1) == self.parity:
                    self._end_flow(flow.call_id)
                    above.append(flow)
            for message in self.outbox.waiting_notifies():
                if message.call_id > last_call_id and message.handle is not None:
                    self.outbox.drop(message.call_id)
                    above.append(message.handle)
            for call in above:
                text = f"{call.method} at {self.peer}: not started, the peer shut down"
                self.handler.on_failure(call, GoingAway(text, method=call.method, peer=self.peer))
        if first:
            self.handler.on_drain()
        return 0

    def on_auth(self, step: int, payload: bytes) -> int:
        authentication = self.authentication
        if authentication is None:
            raise RemoteProtocolError("an AUTH frame where nothing was to be proved", code=ErrorCode.AUTHENTICATION)
        proof = authentication.receive(step, payload)
        if proof is not None:
            self.outbox.control.frame(spec.AUTH, 0, authentication.PROOF, 0, proof)
        if authentication.done:
            assert self.decoder is not None
            self.authentication = None  # and with it the secret
            self.decoder.guard(False)
            self._open()
        return 0

    def on_stray(self, kind: int, call_id: int) -> int:
        if not self._is_closed(call_id):
            raise self._breach(call_id, "a fragment of a message that has no beginning")
        return 0

    def on_large(self, message: Assembly) -> int:
        self.outbox.reading = True
        inbox = self.inbox
        call_id = message.call_id
        size = message.total
        if size > self.limits.call_window:
            if message.received:
                raise RemoteProtocolError(
                    f"call {call_id}: {message.received} bytes of a message of {size} sent before it was admitted",
                    code=ErrorCode.FLOW_CONTROL,
                )
            message.expected = 0
        if message.kind <= spec.CHANNEL:
            if call_id <= self.last_id or (call_id & 1) == self.parity:
                raise self._wrong_id(call_id)
            self.last_id = call_id
            inbox.calls.take(inbox.cost(size, message.head_bytes()))
            if message.name is not None:
                entry = self._bind(call_id, message.method, message.name)
            else:
                entry = self._method(call_id, message.method)
            if entry is None or self.started_away or message.deadline_ms == 0 or size > self.max_message:
                # Answered even if it is a notify: its sender waits to be told.
                self._turn_away(entry, spec.REQUEST, call_id, message.deadline_ms, size)
                inbox.drop(message)
            else:
                inbox.keep(message)
        elif message.kind == spec.REPLY:
            inbox.replies.take(inbox.cost(size, message.head_bytes()))
            call = self.calls.get(call_id)
            if call is None:
                self._stray_reply(call_id, Kind.REPLY)
                inbox.drop(message)
            elif size > self.max_message:
                del self.calls[call_id]
                self._send_cancel(call_id, ErrorCode.MESSAGE_TOO_LARGE)
                inbox.drop(message)
                self._reply_too_large(call, size)
            else:
                inbox.keep(message)
        else:
            cost = inbox.cost(size, message.head_bytes())
            inbox.calls.take(cost)
            self.on_large_item(message, cost)
        return 0

    def on_allocate(self, message: Assembly) -> int:
        try:
            message.use(list(self.handler.allocate(message.segment_sizes())))
        except Exception as error:
            self.inbox.forget(message)
            text = f"no memory for a message of {message.total} bytes: {type(error).__name__}: {error}"
            if message.kind == spec.REPLY:
                call = self.calls.pop(message.call_id, None)
                self._send_cancel(message.call_id, ErrorCode.CANCELLED)
                if call is not None:
                    local = Overloaded(f"{call.method} at {self.peer}: {text}", method=call.method, peer=self.peer)
                    local.__cause__ = error
                    self.handler.on_failure(call, local)
            elif message.kind == spec.ITEM:
                flow = self.flows.get(message.call_id)
                if flow is not None:
                    overloaded = Overloaded(f"{flow.method} of {self.peer}: {text}", method=flow.method, peer=self.peer)
                    overloaded.__cause__ = error
                    self.fail_flow(flow, overloaded)
            else:
                self.refuse(message.kind, message.call_id, ErrorCode.OVERLOADED, text)
        return 0

    def on_breach(self, error: BaseException) -> int:
        if self.state == states.CLOSED:
            return 0
        code = error.code if isinstance(error, RemoteProtocolError) else int(ErrorCode.INTERNAL)
        text = str(error).encode("utf-8", "backslashreplace")[:1024].decode("utf-8", "ignore").encode()
        self._close(error)
        self.outbox.control.frame(spec.GOAWAY, 0, code, 0, self.last_id.to_bytes(8, "little") + text)
        self.handler.on_end(error)
        return 0
