"""What stands where the asyncio shell would: it answers calls by simple rules and records what it is told."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rpcproto.connection.calls import Flow, PendingCall, RunningCall
from rpcproto.connection.connection import Connection
from rpcproto.connection.handler import CallHandler
from rpcproto.wire import spec
from rpcproto.wire.memory import LoopMemory
from rpcproto.wire.spec import ErrorCode


class Call(PendingCall):
    """A call of ours, with how it ended."""

    def __init__(self) -> None:
        super().__init__()
        self.outcomes: list[Any] = []

    @property
    def outcome(self) -> Any:
        """The reply's bytes (and buffers, if it has any), or the error. There must be exactly one."""
        (outcome,) = self.outcomes
        return outcome


class CallFlow(Flow):
    """A stream or channel of either side, with what has happened to it.

    Attributes:
        values: items that arrived, the bytes (and buffers) with what each cost; nothing is taken by itself.
        outcomes: ``"end"``, ``"over"``, errors, in order.
    """

    def __init__(self) -> None:
        super().__init__()
        self.values: list[tuple[Any, int]] = []
        self.outcomes: list[Any] = []


class Clock:
    """Monotonic time in seconds, set by the test."""

    def __init__(self) -> None:
        self.now = 1000.0


class Shell(CallHandler):
    """Answers calls by simple rules and records what it is told.

    Methods: ``echo`` replies what it got, ``fill`` as many bytes as its body says, ``fail`` raises, ``hold`` runs until
    the test answers, ``log`` does nothing. Other names are not known. Streams and channels, whatever their name, run
    until the test ends them.
    """

    def __init__(self, clock: Clock) -> None:
        self.clock = clock
        self.events: list[tuple[Any, ...]] = []
        self.called: list[tuple[Any, ...]] = []
        self.held: dict[int, RunningCall] = {}
        self.flows: dict[int, CallFlow] = {}
        self.memory = LoopMemory()
        self.connection: Connection
        self.backlog = False
        self.wants_output = False
        self.deadlines: list[float] = []
        self.methods = {"echo", "fill", "fail", "hold", "log", "flow"}

    def now(self) -> float:
        return self.clock.now

    def resolve(self, name: str) -> object:
        return name if name in self.methods else None

    def on_open(self) -> int:
        self.events.append(("open",))
        return 0

    def on_call(
        self,
        entry: object,
        kind: int,
        call_id: int,
        codec: int,
        deadline_ms: int,
        metadata: bytes | None,
        body: Any,
        buffers: Sequence[memoryview] | None,
        size: int,
    ) -> int:
        self.called.append((entry, kind, call_id, bytes(body), [bytes(one) for one in buffers or ()]))
        if kind >= spec.STREAM:
            running = self.connection.begin(kind, call_id, codec, str(entry), size, deadline_ms, False)
            if running is not None:
                self.held[call_id] = running
                self.flows[call_id] = CallFlow()
                self.connection.accept_flow(self.flows[call_id], running)
        elif entry == "hold":
            running = self.connection.begin(kind, call_id, codec, "hold", size, deadline_ms, False)
            if running is not None:
                self.held[call_id] = running
        elif kind == spec.NOTIFY or entry == "log":
            pass
        elif entry == "echo":
            self.connection.reply(call_id, codec, body, buffers, size, metadata)
        elif entry == "fill":
            self.connection.reply(call_id, codec, bytes(int(bytes(body))), None, int(bytes(body)), None)
        else:
            self.connection.fail(call_id, ErrorCode.HANDLER_RAISED, "ValueError", "no", "")
        return 0

    def on_cancel(self, running: RunningCall, code: int) -> int:
        self.events.append(("cancelled", running.call_id, code))
        return 0

    def on_reply(
        self, call: Any, codec: int, metadata: bytes | None, body: Any, buffers: Sequence[memoryview] | None
    ) -> int:
        plain = bytes(body)
        call.outcomes.append(plain if buffers is None else (plain, [bytes(one) for one in buffers]))
        return 0

    def on_failure(self, call: Any, error: BaseException) -> int:
        call.outcomes.append(error)
        return 0

    def on_item(
        self,
        flow: Any,
        codec: int,
        metadata: bytes | None,
        body: Any,
        buffers: Sequence[memoryview] | None,
        cost: int,
    ) -> int:
        plain = bytes(body)
        flow.values.append((plain if buffers is None else (plain, [bytes(one) for one in buffers]), cost))
        return 0

    def on_items_end(self, flow: Any) -> int:
        flow.outcomes.append("end")
        return 0

    def on_flow_over(self, flow: Any) -> int:
        flow.outcomes.append("over")
        return 0

    def on_written(self, handle: Any) -> int:
        handle.outcomes.append("written")
        return 0

    def on_pong(self, waiter: Any) -> int:
        waiter.outcomes.append("pong")
        return 0

    def allocate(self, sizes: list[int]) -> Sequence[memoryview]:
        return self.memory.allocate(sizes)

    def on_output(self, at_once: bool) -> int:
        self.wants_output = True
        return 0

    def on_read_done(self) -> int:
        self.wants_output = True
        return 0

    def on_backlog(self) -> int:
        self.backlog = True
        return 0

    def on_pause(self, paused: bool) -> int:
        self.events.append(("pause", paused))
        return 0

    def on_deadline(self, when: float) -> int:
        self.deadlines.append(when)
        return 0

    def on_drain(self) -> int:
        self.events.append(("drain",))
        return 0

    def on_end(self, error: BaseException) -> int:
        self.events.append(("end", error))
        return 0
