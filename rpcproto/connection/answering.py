"""The calls that the peer makes: turning away, registering what runs, answering."""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcproto.connection import _states as states
from rpcproto.connection.calling import Calling
from rpcproto.connection.calls import OutMessage, RunningCall
from rpcproto.connection.state import UNBOUND
from rpcproto.errors import RemoteProtocolError
from rpcproto.wire import spec
from rpcproto.wire.failure import encode_failure
from rpcproto.wire.spec import ErrorCode

if TYPE_CHECKING:
    from collections.abc import Sequence

    Buffer = bytes | bytearray | memoryview


class Answering(Calling):
    """The half of a connection that answers calls."""

    __slots__ = ()

    def reply(
        self,
        call_id: int,
        codec: int,
        body: Buffer,
        buffers: Sequence[Buffer] | None,
        size: int,
        metadata: bytes | None,
    ) -> None:
        """Answer a request of the peer."""
        if self.state == states.CLOSED:
            return
        self.calls_served += 1
        cost = size if size > spec.MIN_COST else spec.MIN_COST
        outbox = self.outbox
        if (
            size <= self.peer_max_message
            and buffers is None
            and metadata is None
            and size <= spec.INLINE_MAX
            and cost <= outbox.credit_replies
            and not outbox.blocked
        ):
            outbox.credit_replies -= cost
            outbox.small.whole(spec.REPLY, spec.END, codec, call_id, body, size)
            outbox.signal()
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
        outbox.send(OutMessage(spec.REPLY, spec.END, codec, call_id, body, buffers, size, metadata))
        outbox.signal()

    def fail(self, call_id: int, code: int, type_name: str, text: str, traceback: str) -> None:
        """Answer a call of the peer with an error."""
        if self.state == states.CLOSED:
            return
        flow = self._end_flow(call_id) if self.flows else None
        self.outbox.small.frame(spec.ERROR, spec.END, code, call_id, encode_failure(type_name, text, traceback))
        self.outbox.signal()
        if flow is not None:
            self.handler.on_flow_over(flow)

    def begin(
        self, kind: int, call_id: int, codec: int, method: str, size: int, deadline_ms: int, begun: bool
    ) -> RunningCall | None:
        """Register a call of the peer whose handler does not answer at once. None if it is over the limits, and was
        refused; given up, if some of the handler has run (``begun``), since what is refused is safe to retry."""
        if not self._room(kind, call_id, size, begun):
            return None
        deadline = 0.0
        if deadline_ms >= 0:
            deadline = self.handler.now() + deadline_ms * 0.001
            if deadline < self.next_deadline:
                self._expect(deadline)
        call = RunningCall.__new__(RunningCall)
        call.open(kind, call_id, codec, method, size, deadline)
        self.running[call_id] = call
        self.running_size += size
        return call

    def _room(self, kind: int, call_id: int, size: int, begun: bool) -> bool:
        """Whether another handler may run; if not, its call is refused."""
        count = len(self.running)
        if count < self.max_running and (count == 0 or self.running_size + size <= self.max_running_bytes):
            return True
        if count >= self.max_running:
            text = f"{count} calls of this peer run here, the server's max_running"
        else:
            text = (
                f"running calls of this peer hold {self.running_size} bytes, "
                f"and the server's max_running_bytes is {self.max_running_bytes}"
            )
        if begun:
            self.refuse(kind, call_id, ErrorCode.CANCELLED, f"given up after its handler had begun: {text}")
        else:
            self.refuse(kind, call_id, ErrorCode.OVERLOADED, text)
        return False

    def finished(self, call: RunningCall) -> bool:
        """The handler of a running call has ended. Returns whether its answer is still wanted."""
        if self.running.get(call.call_id) is call:
            del self.running[call.call_id]
            self.running_size -= call.size
        return not call.over and call.kind != spec.NOTIFY and self.state != states.CLOSED

    def refuse(self, kind: int, call_id: int, code: int, text: str) -> None:
        """Do not start a call of the peer, or give up what has begun of it."""
        self.refused += 1
        if kind != spec.NOTIFY:
            self.fail(call_id, code, "", text, "")

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
        buffers: list[memoryview] | None,
        size: int,
    ) -> int:
        self.outbox.reading = True
        inbox = self.inbox
        if size <= spec.INLINE_MAX and buffers is None and metadata is None:
            cost = size if size > spec.MIN_COST else spec.MIN_COST
        else:
            cost = inbox.cost_of(size, metadata, buffers)
        if call_id > self.last_id and (call_id & 1) != self.parity:
            self.last_id = call_id
            credit = inbox.calls.pass_through(cost)
        elif not inbox.complete(call_id):
            raise self._wrong_id(call_id)
        else:
            credit = inbox.calls.give_back(cost)
            if method:
                name = None  # bound by its first frame
        if name is not None:
            entry = self._bind(call_id, method, name)
        else:
            entry = self._method(call_id, method)
        if (
            entry is None
            or self.started_away
            or deadline_ms == 0
            or size > self.max_message
            or self.outbox.blocked_size + self.outbox.probing_size > self.max_queued
        ):
            self._turn_away(entry, kind, call_id, deadline_ms, size)
        else:
            self.handler.on_call(entry, kind, call_id, codec, deadline_ms, metadata, body, buffers, size)
        if credit and self.state != states.CLOSED:
            inbox.grant(inbox.calls, credit)
        return 0

    def _bind(self, call_id: int, method: int, name: str) -> object:
        entry = self.handler.resolve(name)
        if method:
            methods = self.methods
            while len(methods) <= method:
                methods.append(UNBOUND)
            if methods[method] is not UNBOUND:
                raise RemoteProtocolError(
                    f"call {call_id}: its head binds method id {method} a second time", code=ErrorCode.HEAD
                )
            methods[method] = entry
        return entry

    def _method(self, call_id: int, method: int) -> object:
        if method < len(self.methods):
            entry = self.methods[method]
            if entry is not UNBOUND:
                return entry
        raise RemoteProtocolError(
            f"call {call_id}: its head has method id {method}, which is not bound", code=ErrorCode.HEAD
        )

    def _turn_away(self, entry: object, kind: int, call_id: int, deadline_ms: int, size: int) -> None:
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
            waiting = self.outbox.blocked_size + self.outbox.probing_size
            text = f"{waiting} bytes of replies wait for this peer to take them"
            self.refuse(kind, call_id, ErrorCode.OVERLOADED, text)

    def _wrong_id(self, call_id: int) -> RemoteProtocolError:
        if (call_id & 1) == self.parity:
            return RemoteProtocolError(
                f"call {call_id} opened by the peer: its ids have the other parity", code=ErrorCode.CALL_ID
            )
        return RemoteProtocolError(
            f"call {call_id} opened after {self.last_id}: ids must rise, and are never used again",
            code=ErrorCode.CALL_ID,
        )
