"""Two connections joined without a network, or one against a peer that the test plays.

Bytes go in through the decoder and come out through ``take``, as in a shell; time is a number that the test sets. An
:class:`~tests.connection.observer.Observer` checks every frame that a connection sends. At the end of each test,
:meth:`Side.verify` and :meth:`ConnectionPair.verify` check that nothing is left and no credit was lost.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from rpcproto.config import Limits, Timeouts
from rpcproto.connection.budget import ReassemblyBudget
from rpcproto.connection.connection import Connection
from rpcproto.errors import RemoteProtocolError
from rpcproto.wire import spec
from rpcproto.wire.decoder import Decoder
from rpcproto.wire.spec import CreditClass, Role
from tests.connection.observer import Observer
from tests.connection.shell import Call, CallFlow, Clock, Shell
from tests.wire import frames
from tests.wire.frames import Frame

KIB = 1024
FLUSH = 1 << 18
"""Bytes of bulk that a shell takes at once."""


def small_limits(**changes: int) -> Limits:
    """Limits with windows so small that tests can fill them, and that do not grow."""
    chosen = {"call_window": 64 * KIB, "connection_window": 256 * KIB} | changes
    chosen.setdefault("max_connection_window", chosen["connection_window"])
    return Limits(**chosen)


class Side:
    """One connection with its shell, and the observer of what it sends."""

    def __init__(
        self,
        role: int,
        clock: Clock,
        *,
        limits: Limits | None = None,
        timeouts: Timeouts | None = None,
        max_message: int | None = None,
        budget: ReassemblyBudget | None = None,
        peer_limits: Limits | None = None,
        peer_max_message: int | None = None,
        shell: Shell | None = None,
    ) -> None:
        self.role = role
        self.limits = small_limits() if limits is None else limits
        self.max_message = self.limits.max_message if max_message is None else max_message
        self.budget = ReassemblyBudget(64 << 20) if budget is None else budget
        self.shell = Shell(clock) if shell is None else shell
        memory = self.shell.memory
        self.connection = Connection(
            self.shell, role, memory, self.limits, timeouts or Timeouts(), self.max_message, self.budget, "the peer"
        )
        limits = self.limits
        self.decoder = Decoder(
            self.connection,
            memory,
            role,
            limits.max_frame,
            limits.frames_per_turn,
        )
        self.connection.decoder = self.decoder
        self.shell.connection = self.connection
        self.peer_limits = self.limits if peer_limits is None else peer_limits
        self.peer_max_message = self.peer_limits.max_message if peer_max_message is None else peer_max_message
        self.observer = Observer(
            role, self.peer_limits.max_frame, self.peer_limits.call_window, self.peer_limits.connection_window
        )

    def greet(self) -> None:
        """Receive the peer's greeting."""
        limits = self.peer_limits
        self.receive(
            frames.greeting(
                3 - self.role,
                max_frame=limits.max_frame,
                max_message=self.peer_max_message,
                call_window=limits.call_window,
                connection_window=limits.connection_window,
            )
        )

    def receive(self, data: bytes, step: int = 1 << 30) -> None:
        """Read ``data``, at most ``step`` bytes at a time."""
        at = 0
        while at < len(data):
            room = memoryview(self.decoder.get_buffer(-1))
            size = min(len(room), len(data) - at, step)
            room[:size] = data[at : at + size]
            at += size
            self.decoder.buffer_updated(size)
            while self.shell.backlog:
                self.shell.backlog = False
                self.decoder.resume()

    def admit(self, call_id: int, size: int) -> None:
        """Receive the peer's admission of a large message."""
        data = frames.credit(size, call_id)
        self.observer.saw_credit(frames.split(data)[0])
        self.receive(data)

    def take(self, limit: int = FLUSH) -> bytes:
        """What is to be sent next, taken once and handed over whole."""
        parts = self.connection.take(limit)
        if parts is None:
            return b""
        data = b"".join(parts)
        assert data
        handles = self.connection.outbox.handles or []
        self.connection.on_sent(0)
        for handle in handles:
            self.connection.on_written(handle)
        self.observer.see(data)
        return data

    def sent(self) -> list[Frame]:
        """All frames that are to be sent."""
        found: list[Frame] = []
        while data := self.take():
            found += frames.split(data)
        return found

    def request(
        self,
        method: str = "echo",
        body: Any = b"",
        buffers: list[Any] | None = None,
        *,
        timeout: float = 0.0,
        codec: int = 1,
        metadata: bytes | None = None,
    ) -> Call:
        call = Call()
        size = len(body) + sum(len(one) for one in buffers or ())
        self.connection.request(call, method, codec, body, buffers, size, timeout, metadata)
        return call

    def open_flow(
        self,
        kind: int,
        body: Any = b"",
        buffers: list[Any] | None = None,
        *,
        method: str = "flow",
        timeout: float = 0.0,
        metadata: bytes | None = None,
    ) -> CallFlow:
        """Open a stream or channel."""
        flow = CallFlow()
        size = len(body) + sum(len(one) for one in buffers or ())
        self.connection.open_flow(flow, kind, method, 1, body, buffers, size, timeout, metadata)
        return flow

    def item(self, flow: CallFlow, body: Any, buffers: list[Any] | None = None) -> Call:
        """Send an item; the outcome of the call returned is ``"written"`` when that is over."""
        handle = Call()
        handle.method = flow.method
        size = len(body) + sum(len(one) for one in buffers or ())
        if self.connection.send_item(flow, 1, body, buffers, size, handle):
            handle.outcomes.append("written")
        return handle

    def consume(self, flow: CallFlow, most: int = 1 << 60) -> list[Any]:
        """Take items that have arrived, at most ``most``."""
        taken = flow.values[:most]
        del flow.values[:most]
        self.connection.taken(flow, sum(cost for _, cost in taken))
        return [value for value, _ in taken]

    def leave(self, flow: CallFlow) -> None:
        """The handler of a stream or channel returns."""
        if self.connection.finished(self.shell.held.pop(flow.call_id)):
            self.connection.end_items(flow, True)

    def notify(
        self, method: str = "log", body: Any = b"", buffers: list[Any] | None = None, metadata: bytes | None = None
    ) -> Call:
        handle = Call()
        handle.method = method
        size = len(body) + sum(len(one) for one in buffers or ())
        self.connection.notify(handle, method, 1, body, buffers, size, metadata)
        return handle

    def answer(self, call_id: int, body: bytes = b"held") -> bool:
        """Let a held call end with a reply, if one is still wanted. Returns whether it was."""
        running = self.shell.held.pop(call_id)
        wanted = self.connection.finished(running)
        if wanted:
            self.connection.reply(call_id, 1, body, None, len(body), None)
        return wanted

    @property
    def breach(self) -> RemoteProtocolError | None:
        """What the connection ended with, if it was a breach."""
        error = self.connection.end
        return error if isinstance(error, RemoteProtocolError) else None

    def verify(self) -> None:
        """Nothing is left to be sent, received or ended."""
        connection = self.connection
        assert connection.take(FLUSH) is None, "more was to be sent"
        assert connection.queued() == 0
        assert not connection.calls
        assert not connection.flows
        assert all(running.over for running in connection.running.values())
        assert not self.decoder.assemblies
        assert not self.decoder.incomplete()


class ConnectionPair:
    """An initiator, ``left``, and an acceptor, ``right``.

    Args:
        left, right: arguments of their :class:`Side`.
        greet: exchange greetings at once.
    """

    def __init__(
        self, left: dict[str, Any] | None = None, right: dict[str, Any] | None = None, greet: bool = True
    ) -> None:
        left, right = {"limits": small_limits()} | (left or {}), {"limits": small_limits()} | (right or {})
        self.clock = Clock()
        for ours, theirs in ((left, right), (right, left)):
            ours.setdefault("peer_limits", theirs["limits"])
            ours.setdefault("peer_max_message", theirs.get("max_message"))
        self.left = Side(Role.INITIATOR, self.clock, **left)
        self.right = Side(Role.ACCEPTOR, self.clock, **right)
        self.idle = True
        if greet:
            self.left.greet()
            self.right.greet()

    def carry(self, source: Side, target: Side, step: int = 1 << 30, limit: int = FLUSH) -> list[Frame]:
        """Take once from ``source`` and give it to ``target``. Returns the frames."""
        data = source.take(limit)
        found = frames.split(data)
        for frame in found:
            if frame.kind == spec.CREDIT:
                target.observer.saw_credit(frame)
        target.receive(data, step)
        return found

    def pump(self, step: int = 1 << 30, limit: int = FLUSH, turns: int = 100_000) -> list[Frame]:
        """Carry both ways until both sides have nothing more to send. Returns all frames, in order."""
        found: list[Frame] = []
        for _ in range(turns):
            there = self.carry(self.left, self.right, step, limit)
            back = self.carry(self.right, self.left, step, limit)
            found += there + back
            if not there and not back:
                return found
        raise AssertionError("the two never come to rest")

    def verify(self) -> None:
        """Nothing is left on either side, and all credit is back where it belongs."""
        self.left.verify()
        self.right.verify()
        for side in (self.left, self.right):
            assert side.budget.reserved == 0
            assert not side.budget.waiting
        if self.left.connection.end is None and self.right.connection.end is None and not self._draining():
            for side, other in ((self.left, self.right), (self.right, self.left)):
                size = min(60_000, side.peer_max_message)
                self._check_credit(side, CreditClass.CALLS, size, side.notify, "log", bytes(size))
                size = min(60_000, side.max_message)
                self._check_credit(other, CreditClass.REPLIES, size, side.request, "fill", str(size).encode())

    def _draining(self) -> bool:
        return any(frame.kind == spec.GOAWAY for side in (self.left, self.right) for frame in side.observer.frames)

    def _check_credit(self, sender: Side, which: CreditClass, size: int, spend: Callable[..., Any], *how: Any) -> None:
        """All that the sender took must be given back. What is owed may be gathered, so spend until it comes.

        When a CREDIT comes while nothing is under way, it must settle the account exactly (or enlarge the window).
        """
        observer = sender.observer
        before = observer.given[which]
        for _ in range(sender.peer_limits.max_connection_window // size + 4):
            spend(*how)
            self.pump()
            if observer.given[which] != before:
                growing = sender.peer_limits.max_connection_window > sender.peer_limits.connection_window
                assert observer.owed(which) <= 0 if growing else observer.owed(which) == 0
                return
        raise AssertionError(f"no credit for {which.name} comes back; {observer.owed(which)} bytes are owed")


def kinds(found: Iterable[Frame]) -> list[int]:
    return [frame.kind for frame in found]


def breach_code(side: Side) -> int:
    """The code of the breach that ended a side's connection; the peer must be told the same."""
    assert side.breach is not None
    goaways = [frame for frame in side.sent() if frame.kind == spec.GOAWAY]
    assert [frame.aux for frame in goaways] == [side.breach.code]
    return side.breach.code


def cancels(found: Iterable[Frame]) -> list[tuple[int, int]]:
    """Call id and code of each CANCEL."""
    return [(frame.call_id, frame.aux) for frame in found if frame.kind == spec.CANCEL]
