"""The records of calls: ours that wait for an answer, the peer's that run here, and messages that wait to be sent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from rpcproto.wire import _tuning as tuning
from rpcproto.wire import spec

if TYPE_CHECKING:
    from collections import deque
    from collections.abc import Sequence

    from rpcproto.connection.window import ItemWindow
    from rpcproto.wire.assembly import Assembly

    Buffer = bytes | bytearray | memoryview


class PendingCall:
    """A call of ours, as the table of pending calls holds it. The shell derives what its callers await from it.

    Attributes:
        call_id: 0 until it is opened.
        method: its name, for error texts.
        timeout: seconds it was given, if it has a deadline: for error texts.
        deadline: monotonic time in seconds, or 0.0 for none.
        sent: whether a byte of it may have reached the peer.
    """

    __slots__ = ("call_id", "deadline", "method", "sent", "timeout")

    timeout: float

    def __init__(self) -> None:
        self.call_id = 0
        self.method = ""
        self.deadline = 0.0
        self.sent = False


class Flow(PendingCall):
    """A stream or channel, of either side: what may be sent in it, and what arrives.

    Attributes:
        kind: STREAM or CHANNEL.
        credit: bytes of items that may be sent; an item may be sent while it is above 0, and can take it below.
        queue: items that wait for credit or for the one before them, or None.
        queued: their bytes.
        busy: a message of this call is in the outbox, so the next one must wait: there is one at a time.
        ending: nothing is sent after what is queued.
        leaving: nor is anything wanted any more: the handler has returned.
        sent_all: the end was queued, or this side never sends.
        received_all: the peer has sent its end, or never sends.
        window: what the peer may send.
        held: bytes of items that arrived and were not taken.
        large: an item above the call window, which comes when all before it have been taken; or None.
        over: the call has ended.
    """

    __slots__ = (
        "busy",
        "credit",
        "ending",
        "held",
        "kind",
        "large",
        "leaving",
        "over",
        "queue",
        "queued",
        "received_all",
        "sent_all",
        "window",
    )

    def open(self, kind: int, call_id: int, method: str, credit: int, window: ItemWindow, ours: bool) -> None:
        """Stands in for ``__init__``: the shell makes the object before the call has an id."""
        self.kind = kind
        self.call_id = call_id
        self.method = method
        self.deadline = 0.0
        self.sent = False
        self.credit = credit
        self.window = window
        self.queue: deque[OutMessage] | None = None
        self.queued = 0
        self.busy = False
        self.ending = False
        self.leaving = False
        self.sent_all = ours and kind == spec.STREAM
        self.received_all = not ours and kind == spec.STREAM
        self.held = 0
        self.large: Assembly | None = None
        self.over = False

    def clear(self) -> list[PendingCall]:
        """The call is over: let go of what waited to be sent. Returns the handles of it."""
        self.over = True
        self.busy = False
        self.large = None
        queue = self.queue
        self.queue = None
        return [message.handle for message in queue or () if message.handle is not None]


class RunningCall:
    """A call of the peer whose handler runs and has not answered.

    Attributes:
        work: what runs it (a task or a future of the shell), with a ``cancel()``; None until the shell has set it.
        size: request bytes it holds.
        deadline: monotonic time in seconds, or 0.0 for none.
        context: for the shell's own use.
        over: the call has ended by cancel, deadline or connection; the handler has not, and still counts.
    """

    __slots__ = ("call_id", "codec", "context", "deadline", "kind", "method", "over", "size", "work")

    def open(self, kind: int, call_id: int, codec: int, method: str, size: int, deadline: float) -> None:
        # Stands in for __init__, which costs more when it is compiled.
        self.kind = kind
        self.call_id = call_id
        self.codec = codec
        self.method = method
        self.size = size
        self.deadline = deadline
        self.work: object = None
        self.context: Any = None
        self.over = False


class OutMessage:
    """A message that cannot be written at once: it waits for credit or an admission, or goes out in fragments.

    Attributes:
        call: the pending call it opens, or None for a reply.
        method_id, name: what its head says; settled when it begins to be written.
        pieces: body and buffers, empty ones left out.
        size: their bytes.
        head_size: what its head has at the most.
        begun: its first frame was written.
        admitted: fragments may flow.
        metadata: encoded, or None.
        flow: the stream or channel it belongs to, or None.
        handle: for a notify or an item: what is told once the last byte is handed over.
    """

    __slots__ = (
        "admitted",
        "at",
        "begun",
        "body_size",
        "call",
        "call_id",
        "codec",
        "deadline",
        "flags",
        "flow",
        "handle",
        "head_size",
        "index",
        "kind",
        "left",
        "metadata",
        "method",
        "pieces",
        "size",
        "sizes",
    )

    def __init__(
        self,
        kind: int,
        flags: int,
        codec: int,
        call_id: int,
        body: Buffer,
        buffers: Sequence[Buffer] | None,
        size: int,
        metadata: bytes | None = None,
    ) -> None:
        self.kind = kind
        self.flags = flags
        self.codec = codec
        self.call_id = call_id
        self.size = size
        self.left = size
        self.sizes = None if buffers is None else [len(buffer) for buffer in buffers]
        self.body_size = size - (sum(self.sizes) if self.sizes is not None else 0)
        self.pieces = [_own(piece) for piece in [body, *(buffers or ())] if len(piece)]
        self.metadata = metadata
        self.head_size = 1024 + 8 * len(self.sizes or ()) + len(metadata or b"")
        self.index = 0
        self.at = 0
        self.begun = False
        self.admitted = True
        self.call: PendingCall | None = None
        self.flow: Flow | None = None
        self.handle: PendingCall | None = None
        self.method = ""
        self.deadline = 0.0

    def cost(self, call_window: int) -> int:
        """What it costs of the connection window."""
        cost = self.size if self.size <= call_window else 0
        if self.sizes is not None or self.metadata is not None:
            cost = max(cost, min(8 * len(self.sizes or ()) + len(self.metadata or b""), call_window))
        return cost if cost > spec.MIN_COST else spec.MIN_COST

    def cut(self, most: int) -> list[Buffer]:
        """The next ``most`` bytes of it, or what is left, as slices of its pieces.

        A large piece is cut at multiples of 16, for the alignment of what follows; so it may be up to 15 bytes fewer.
        """
        slices: list[Buffer] = []
        while most and self.left:
            piece = self.pieces[self.index]
            size = len(piece) - self.at
            if size > most:
                size = (most - most % tuning.COPY_ALIGNMENT) or most
                most = size
            if self.at == 0 and size == len(piece):
                slices.append(piece)
            else:
                slices.append(memoryview(piece)[self.at : self.at + size])
            most -= size
            self.left -= size
            self.at += size
            if self.at == len(piece):
                self.index += 1
                self.at = 0
        return slices


def _own(piece: Buffer) -> Buffer:
    """A small piece is copied, so that its owner may use it again at once although it has to wait."""
    return bytes(piece) if len(piece) <= tuning.PACK_MAX and type(piece) is not bytes else piece
