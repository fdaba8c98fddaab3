"""What all parts of a connection share: its fields, its queues, and how it ends."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcproto.connection import _states as states
from rpcproto.connection.bucket import TokenBucket
from rpcproto.connection.calls import Flow, PendingCall, RunningCall
from rpcproto.connection.inbox import Inbox
from rpcproto.connection.outbox import Outbox
from rpcproto.errors import (
    CallCancelled,
    ConnectionClosed,
    ConnectionLost,
    GoingAway,
    LocalProtocolError,
    RemoteProtocolError,
)
from rpcproto.wire import spec
from rpcproto.wire.sink import FrameSink
from rpcproto.wire.spec import ErrorCode, Role

if TYPE_CHECKING:
    from rpcproto.config import Limits, Timeouts
    from rpcproto.connection.authentication import Authentication
    from rpcproto.connection.budget import ReassemblyBudget
    from rpcproto.connection.handler import CallHandler
    from rpcproto.wire.decoder import Decoder
    from rpcproto.wire.greeting import Greeting
    from rpcproto.wire.memory import LoopMemory


UNBOUND = object()
"""Stands for a method id that the peer has not bound."""


class ConnectionState(FrameSink):
    """Fields and end of a connection. See :class:`~rpcproto.connection.connection.Connection` for the arguments.

    Attributes:
        authentication: set before the peer's greeting comes if both sides are to prove a secret; None again once they
            have.
        state: WAITING, OPEN, DRAINING or CLOSED.
        end: why it is CLOSED.
        calls: our pending calls, by id.
        running: the peer's calls whose handlers have not answered, by id.
        flows: the streams and channels of both sides, by id.
        paused: reading has stopped, since the peer does not take our replies.
    """

    __slots__ = (
        "authentication",
        "calls",
        "calls_opened",
        "calls_served",
        "cancels",
        "credit_frames",
        "decoder",
        "end",
        "flows",
        "greeting",
        "handler",
        "inbox",
        "items_sent",
        "last_id",
        "late_replies",
        "limits",
        "max_message",
        "max_queued",
        "max_running",
        "max_running_bytes",
        "methods",
        "next_deadline",
        "next_id",
        "outbox",
        "parity",
        "paused",
        "peer",
        "peer_max_message",
        "refused",
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
        self.max_running = limits.max_running
        self.max_running_bytes = limits.max_running_bytes
        self.peer = peer
        self.decoder: Decoder | None = None
        self.greeting: Greeting | None = None
        self.authentication: Authentication | None = None
        self.state = states.WAITING
        self.end: BaseException | None = None
        self.started_away = False
        self.outbox = Outbox(memory.scratches, handler)
        self.inbox = Inbox(self.outbox, handler, limits, budget)
        self.parity = 1 if role == Role.INITIATOR else 0
        self.next_id = 1 if role == Role.INITIATOR else 2
        self.last_id = 0
        self.calls: dict[int, PendingCall] = {}
        self.running: dict[int, RunningCall] = {}
        self.flows: dict[int, Flow] = {}
        self.running_size = 0
        self.methods: list[object] = [UNBOUND]
        self.paused = False
        self.unsent = 0
        self.credit_frames = 0
        self.peer_max_message = 0
        self.cancels = TokenBucket(limits.cancel_burst, limits.cancel_rate)
        self.next_deadline = float("inf")
        self.calls_opened = 0
        self.calls_served = 0
        self.items_sent = 0
        self.late_replies = 0
        self.refused = 0

    def queued(self) -> int:
        """Bytes waiting on this side, for the socket, for credit or for an admission."""
        return self.outbox.sendable() + self.outbox.blocked_size + self.outbox.probing_size + self.unsent

    def on_sent(self, unsent: int) -> None:
        """The shell tells how many bytes of what it took the socket has not accepted yet."""
        self.unsent = unsent
        size = unsent + self.outbox.sendable()
        if self.paused:
            if size * 2 <= self.max_queued:
                self.paused = False
                self.handler.on_pause(False)
        elif size > self.max_queued and self.state != states.CLOSED:
            self.paused = True
            if self.decoder is not None:
                self.decoder.pause()
            self.handler.on_pause(True)

    def on_read_done(self) -> int:
        self.handler.on_read_done()
        self.outbox.reading = False
        return 0

    def on_backlog(self) -> int:
        return self.handler.on_backlog()

    def _expect(self, deadline: float) -> None:
        """This deadline is nearer than all others."""
        self.next_deadline = deadline
        self.handler.on_deadline(deadline)

    def _closed_error(self, what: str) -> Exception:
        if self.state == states.WAITING:
            return LocalProtocolError(f"{what}: the greeting of {self.peer} has not come yet")
        if self.state == states.DRAINING:
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
        self.state = states.CLOSED
        self.end = error
        self.authentication = None
        if self.decoder is not None:
            self.decoder.stop()
        self.inbox.clear()
        pings = self.outbox.pings
        handles = self.outbox.clear()
        calls = self.calls
        self.calls = {}
        flows = self.flows
        self.flows = {}
        for call in calls.values():
            self.handler.on_failure(call, self._lost_error(call.method, call.sent))
        for flow in flows.values():
            handles += flow.clear()
            self.handler.on_failure(flow, self._lost_error(flow.method, flow.sent))
        for handle in handles:
            self.handler.on_failure(handle, self._lost_error(handle.method, handle.sent))
        for waiter in pings.values():
            if isinstance(waiter, PendingCall):
                self.handler.on_failure(waiter, self._lost_error("ping", True))
        for running in list(self.running.values()):
            if not running.over:
                running.over = True
                self.handler.on_cancel(running, ErrorCode.CANCELLED)

    def _drop_messages(self, call_id: int) -> bool:
        """The call has ended: drop what is under way for it in both directions. Returns whether nothing of it was
        sent."""
        decoder = self.decoder
        if decoder is not None and call_id in self.inbox.kept:
            message = decoder.assemblies.get(call_id)
            if message is not None:
                self.inbox.forget(message)
                decoder.forget(call_id)
        return self.outbox.drop(call_id)

    def _end_flow(self, call_id: int) -> Flow | None:
        """A stream or channel is over before its end: forget it, and send nothing more of it. Returns it; None if there
        is none of this id."""
        flow = self.flows.pop(call_id, None)
        if flow is None:
            return None
        waiting = flow.clear()
        for message in self.outbox.waiting_notifies():
            if message.flow is flow and message.handle is not None:
                waiting.append(message.handle)
        self._drop_messages(call_id)
        for handle in waiting:
            text = f"an item of {flow.method} to {self.peer}: not sent, the call has ended"
            self.handler.on_failure(handle, CallCancelled(text, method=flow.method, peer=self.peer))
        return flow

    def _send_cancel(self, call_id: int, code: int) -> None:
        self.outbox.small.frame(spec.CANCEL, spec.END, code, call_id, b"")
        self.outbox.signal()

    def _is_closed(self, call_id: int) -> bool:
        """Whether a call was open and is over, as far as this side is concerned."""
        if (call_id & 1) == self.parity:
            return call_id < self.next_id and call_id not in self.calls and call_id not in self.flows
        if call_id > self.last_id or call_id in self.inbox.kept or call_id in self.flows:
            return False
        running = self.running.get(call_id)
        return running is None or running.over

    def _breach(self, call_id: int, text: str) -> RemoteProtocolError:
        return RemoteProtocolError(f"call {call_id}: {text}", code=ErrorCode.CALL_STATE)
