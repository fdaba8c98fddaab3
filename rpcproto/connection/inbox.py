"""What is under way to us: credit given to the peer, and large messages that have begun.

Counterpart of the outbox. Small messages only take credit and give it back. A large one is *kept* from its first
frame until it is complete, dropped or forgotten; above the call window it also holds a claim on the reassembly
budget.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from rpcproto.connection.window import ReceiveWindow
from rpcproto.wire import spec
from rpcproto.wire.spec import CreditClass

if TYPE_CHECKING:
    from rpcproto.config import Limits
    from rpcproto.connection.budget import ReassemblyBudget, Reservation
    from rpcproto.connection.handler import CallHandler
    from rpcproto.connection.outbox import Outbox
    from rpcproto.wire.assembly import Assembly


class Inbox:
    """Bounds what one peer makes us hold before it is delivered.

    Args:
        outbox: where credit is sent.
        handler: asked for the time.
        limits: of this side.
        budget: the reassembly budget.

    Attributes:
        calls, replies: the two windows.
        kept: large messages under way, by call id: what each has reserved or waits for, None if it needs no claim.
    """

    __slots__ = ("budget", "call_window", "calls", "handler", "kept", "outbox", "replies")

    def __init__(self, outbox: Outbox, handler: CallHandler, limits: Limits, budget: ReassemblyBudget) -> None:
        self.outbox = outbox
        self.handler = handler
        self.budget = budget
        self.call_window = limits.call_window
        size, most = limits.connection_window, limits.max_connection_window
        self.calls = ReceiveWindow("calls", size, most, limits.call_window, CreditClass.CALLS)
        self.replies = ReceiveWindow("replies", size, most, limits.call_window, CreditClass.REPLIES)
        self.kept: dict[int, Reservation | None] = {}

    def cost(self, size: int, head: int) -> int:
        """What a message of ``size`` bytes takes of a window, with ``head`` bytes of metadata and buffer sizes."""
        if size > self.call_window:
            size = 0
        if head > size:
            size = min(head, self.call_window)
        return size if size > spec.MIN_COST else spec.MIN_COST

    def cost_of(self, size: int, metadata: bytes | None, buffers: list[memoryview] | None) -> int:
        """:meth:`cost` of a message that has arrived."""
        return self.cost(size, 8 * len(buffers or ()) + len(metadata or b""))

    def grant(self, window: ReceiveWindow, amount: int) -> None:
        """Send the credit that a window's ``give_back`` returned."""
        self.outbox.give_credit(window.credit_class, window.call_id, amount)
        if window.start_probe():
            self.outbox.ping(window)

    def on_answer(self, window: ReceiveWindow) -> None:
        """A PING that probes a window was answered: the window may grow."""
        extra = window.on_answer()
        if extra < 0:
            self.outbox.ping(window)
        elif extra:
            self.outbox.give_credit(window.credit_class, window.call_id, extra)

    def keep(self, message: Assembly) -> None:
        """Let a large message come, whose credit was taken: at once, or when its memory is reserved."""
        self.kept[message.call_id] = None
        message.progress = self.handler.now()
        if message.total <= self.call_window:
            message.admit()
        else:
            self.reserve(message)

    def reserve(self, message: Assembly) -> None:
        """Reserve memory for a kept message above the call window, and admit it when that is granted."""
        self.kept[message.call_id] = self.budget.reserve(message.total, self.on_reserved, message)

    def on_reserved(self, message: Assembly) -> None:
        """The budget has reserved the memory of a message: admit it."""
        message.admit()
        message.expected = message.total
        message.progress = self.handler.now()
        self.outbox.give_credit(CreditClass.ADMISSION, message.call_id, message.total)

    def drop(self, message: Assembly) -> None:
        """Do not let a message come, whose credit was taken: its bytes are thrown away."""
        message.discard()
        message.expected = message.total
        window = self.replies if message.kind == spec.REPLY else self.calls
        amount = window.give_back(self.cost(message.total, message.head_bytes()))
        if amount:
            self.grant(window, amount)

    def complete(self, call_id: int) -> bool:
        """A message is whole. Returns whether it was a kept one, whose credit was taken when it began."""
        if call_id not in self.kept:
            return False
        claim = self.kept.pop(call_id)
        if claim is not None:
            self.budget.release(claim)
        return True

    def forget(self, message: Assembly) -> None:
        """Stop a kept message: its call has ended, or there is no memory for it."""
        if self.complete(message.call_id):
            self.drop(message)

    def clear(self) -> None:
        """The connection has ended."""
        for call_id in list(self.kept):
            self.complete(call_id)
