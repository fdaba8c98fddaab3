"""Watches the frames of one direction, and fails when one breaks a rule of ``PROTOCOL.md``.

It knows nothing of the code: it reads the bytes alone, and keeps the accounts that the text asks of a sender.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from rpcproto.wire.spec import CreditClass, ErrorCode, Flag, FrameType, Role
from tests.wire import frames
from tests.wire.frames import Frame

OPENING = {FrameType.REQUEST, FrameType.NOTIFY, FrameType.STREAM, FrameType.CHANNEL}
MESSAGES = OPENING | {FrameType.REPLY, FrameType.ITEM}


@dataclass
class Unfinished:
    """A message of which frames are still to come."""

    kind: int
    total: int
    sent: int
    admitted: int
    tiny: int = 0


@dataclass
class Observer:
    """One direction.

    Args:
        role: of the sender.
        max_frame, call_window, connection_window: as the receiver has announced.

    Attributes:
        frames: all that was seen.
        spent, given: bytes of credit, by class.
        item_credit: bytes of credit left for the items of each call.
    """

    role: int
    max_frame: int
    call_window: int
    connection_window: int
    frames: list[Frame] = field(default_factory=list)
    spent: dict[int, int] = field(default_factory=lambda: dict.fromkeys(CreditClass, 0))
    given: dict[int, int] = field(default_factory=lambda: dict.fromkeys(CreditClass, 0))
    item_credit: dict[int, int] = field(default_factory=dict)
    unfinished: dict[int, Unfinished] = field(default_factory=dict)
    ended: set[int] = field(default_factory=set)
    methods: set[int] = field(default_factory=set)
    last_id: int = 0
    over: bool = False

    def owed(self, which: int) -> int:
        """Bytes of credit taken and not given back yet."""
        return self.spent[which] - self.given[which]

    def see(self, data: bytes) -> list[Frame]:
        """The sender has sent ``data``, whole frames."""
        found = frames.split(data)
        for frame in found:
            self._see(frame)
        self.frames += found
        return found

    def saw_credit(self, frame: Frame) -> None:
        """A CREDIT frame for this sender has come."""
        amount = int.from_bytes(frame.payload, "little")
        assert amount > 0
        if frame.call_id == 0:
            self.given[frame.aux] += amount
            assert self.connection_window - self.owed(frame.aux) <= 2**31 - 1
        elif frame.aux == CreditClass.ITEMS:
            self.item_credit[frame.call_id] = self.item_credit.get(frame.call_id, self.call_window) + amount
        elif frame.call_id in self.unfinished:
            message = self.unfinished[frame.call_id]
            assert amount == message.total
            message.admitted = amount

    def _see(self, frame: Frame) -> None:
        assert not self.over, f"{frame} after the end"
        assert len(frame.payload) <= self.max_frame, frame
        if frame.kind in MESSAGES:
            self._message(frame)
        elif frame.kind == FrameType.GOAWAY:
            self.over = frame.aux != ErrorCode.NO_ERROR
        elif frame.kind in (FrameType.ERROR, FrameType.CANCEL):
            assert frame.call_id <= max(self.last_id, frame.call_id), frame
            self.unfinished.pop(frame.call_id, None)
            self.ended.add(frame.call_id)

    def _message(self, frame: Frame) -> None:
        call_id = frame.call_id
        if frame.flags & Flag.FIRST:
            assert call_id not in self.unfinished, frame
            self._first(frame)
            return
        assert not frame.flags & Flag.HEAD, frame
        message = self.unfinished[call_id]
        assert message.kind == frame.kind, frame
        self._count(frame, message, len(frame.payload))

    def _first(self, frame: Frame) -> None:
        call_id, payload = frame.call_id, frame.payload
        if frame.kind in OPENING:
            assert call_id > self.last_id, frame
            assert call_id & 1 == (self.role == Role.INITIATOR), frame
            assert frame.flags & Flag.HEAD, frame
            self.last_id = call_id
        else:
            assert call_id not in self.ended, frame
        total, extra = None, 0
        if frame.flags & Flag.HEAD:
            head = frames.read_head(payload)
            extra = len(head.metadata or b"") + 8 * len(head.buffers or ())
            payload = payload[head.length :]
            total = head.total
            if frame.kind in OPENING:
                self._method(head)
        assert total is not None or not frame.flags & Flag.MORE, frame
        total = len(payload) if total is None else total
        if frame.kind == FrameType.ITEM and total == 0 and frame.flags & Flag.END:
            self.ended.add(call_id)  # only the end, which is free
            return
        which = CreditClass.REPLIES if frame.kind == FrameType.REPLY else CreditClass.CALLS
        large = total > self.call_window
        assert not (large and payload), f"{frame} is not admitted yet"
        cost = max(64, min(extra, self.call_window), 0 if large else total)
        self.spent[which] += cost
        if frame.kind == FrameType.ITEM:
            left = self.item_credit.get(call_id, self.call_window)
            assert left > 0, f"{frame} without credit for items"
            self.item_credit[call_id] = left - cost
        assert self.owed(which) <= self.connection_window, f"{frame} without credit"
        message = Unfinished(frame.kind, total, 0, 0 if large else total)
        self.unfinished[call_id] = message
        self._count(frame, message, len(payload))

    def _method(self, head: frames.Head) -> None:
        if head.method and head.name is not None:
            assert head.method not in self.methods
            self.methods.add(head.method)
        assert head.name is not None or head.method in self.methods

    def _count(self, frame: Frame, message: Unfinished, size: int) -> None:
        assert frame.call_id not in self.ended, frame
        message.sent += size
        assert message.sent <= message.admitted, f"{frame} before it was admitted"
        if frame.flags & Flag.MORE:
            assert message.sent < message.total, frame
            message.tiny += size < 1024
            assert message.tiny <= 1, frame
        else:
            assert message.sent == message.total, frame
            del self.unfinished[frame.call_id]
            if frame.flags & Flag.END:
                self.ended.add(frame.call_id)
