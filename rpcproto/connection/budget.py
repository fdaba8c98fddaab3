"""The reassembly budget: memory that large messages under way to this process may occupy together.

A message above the call window is admitted once its whole size is reserved, first come, first served, over all
connections; one larger than the budget is admitted when nothing else is. So no sequence of announcements makes the
process allocate more, and two half-received messages can never wait for each other.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any

from rpcproto.config import default_reassembly_budget


class Reservation:
    """A claim on the budget: waiting, held or released."""

    __slots__ = ("admitted", "message", "on_admitted", "size")

    def __init__(self, size: int, on_admitted: Callable[[Any], None], message: object) -> None:
        self.size = size
        self.on_admitted = on_admitted
        self.message = message
        self.admitted = False


class ReassemblyBudget:
    """Shared by all connections of a process, unless one is passed explicitly.

    Args:
        size: bytes in all; a quarter of the machine's memory by default.
    """

    __slots__ = ("reserved", "size", "waiting")

    def __init__(self, size: int | None = None) -> None:
        self.size = default_reassembly_budget() if size is None else size
        self.reserved = 0
        self.waiting: deque[Reservation] = deque()

    def reserve(self, size: int, on_admitted: Callable[[Any], None], message: object) -> Reservation:
        """Claim ``size`` bytes. ``on_admitted(message)`` is called when they are reserved, maybe before this
        returns."""
        claim = Reservation(size, on_admitted, message)
        self.waiting.append(claim)
        self._admit()
        return claim

    def release(self, claim: Reservation) -> None:
        """Give back a claim, held or still waiting."""
        if claim.admitted:
            self.reserved -= claim.size
            claim.admitted = False
        elif claim in self.waiting:
            self.waiting.remove(claim)
        self._admit()

    def _admit(self) -> None:
        while self.waiting:
            claim = self.waiting[0]
            if self.reserved and self.reserved + claim.size > self.size:
                return
            self.waiting.popleft()
            self.reserved += claim.size
            claim.admitted = True
            claim.on_admitted(claim.message)
