"""Receive windows: how much a peer may have under way to us.

A window holds what the peer may still send. What has been delivered is *owed* and given back in one CREDIT frame once
it is half of the window, so that credit costs one frame in many thousand small calls. But it is given back at once when
the peer has too little left for the largest message it may send: nobody must wait for credit that is held back.

The window grows with the link. After giving credit back, a probe measures what arrives in one round trip: if that is
more than a third of the window, the window may be what holds the peer back, and it is doubled. (The idea of gRPC's
BDP probe. A third, because up to half of the window is owed, so a peer that is held back sends half of it in a round
trip.) The round trip is that between the answers to two PINGs: the first one leaves together with the credit, and its
answer jumps the queue at the peer, ahead of all that the credit allows.
"""

from __future__ import annotations

from rpcproto.errors import RemoteProtocolError
from rpcproto.wire.spec import ErrorCode

_REST = 16
"""Credits sent without a probe after one that found the window large enough."""


class ReceiveWindow:
    """One class of credit of one connection.

    Args:
        name: for error texts.
        size: initial window in bytes, as announced in the greeting.
        limit: how far it may grow, in bytes.
        largest: what one message costs at the most, in bytes.
        credit_class, call_id: what its CREDIT frames say.
    """

    __slots__ = (
        "arrived",
        "call_id",
        "credit_class",
        "largest",
        "left",
        "limit",
        "name",
        "owed",
        "probing",
        "rest",
        "size",
    )

    def __init__(
        self, name: str, size: int, limit: int, largest: int = 0, credit_class: int = 0, call_id: int = 0
    ) -> None:
        self.name = name
        self.size = size
        self.limit = limit
        self.largest = largest
        self.credit_class = credit_class
        self.call_id = call_id
        self.left = size
        self.owed = 0
        self.arrived = 0
        self.probing = 0
        self.rest = 0

    def take(self, cost: int) -> None:
        """The peer used ``cost`` bytes of its credit.

        Raises:
            RemoteProtocolError: it had less (``FLOW_CONTROL``).
        """
        self.left -= cost
        self.arrived += cost
        if self.left < 0:
            raise RemoteProtocolError(
                f"a message of {cost} bytes of credit for {self.name} where {self.left + cost} were left",
                code=ErrorCode.FLOW_CONTROL,
            )

    def pass_through(self, cost: int) -> int:
        """:meth:`take` and :meth:`give_back` for a message that is delivered as it arrives."""
        left = self.left - cost
        owed = self.owed + cost
        if left < self.largest or owed * 2 >= self.size:
            self.take(cost)
            return self.give_back(cost)
        self.left = left
        self.owed = owed
        self.arrived += cost
        return 0

    def give_back(self, cost: int) -> int:
        """``cost`` bytes were delivered. Returns the credit to send now, 0 for none yet."""
        self.owed += cost
        if self.owed * 2 < self.size and self.left >= self.largest:
            return 0
        amount = self.owed
        self.owed = 0
        self.left += amount
        return amount

    def start_probe(self) -> bool:
        """Whether a PING shall be sent with the credit given back; at most one probe is under way."""
        if self.probing or self.size >= self.limit:
            return False
        if self.rest:
            self.rest -= 1
            return False
        self.probing = 1
        return True

    def on_answer(self) -> int:
        """A PING of the probe was answered. Returns -1 if another one shall be sent; else by how much the window was
        enlarged, as credit to send, or 0."""
        if self.probing == 1:
            self.probing = 2
            self.arrived = 0
            return -1
        self.probing = 0
        if self.arrived * 3 < self.size:
            self.rest = _REST
            return 0
        larger = min(self.limit, self.size * 2)
        extra = larger - self.size
        self.size = larger
        self.left += extra
        return extra


class ItemWindow(ReceiveWindow):
    """What the peer may have under way to the consumer of one stream or channel.

    An item may be sent while anything is left, whatever it costs: so any item fits into any window, and credit can be
    gathered although the largest item is as large as the window.
    """

    __slots__ = ()

    def take(self, cost: int) -> None:
        """The peer sent an item that costs ``cost`` bytes.

        Raises:
            RemoteProtocolError: it had no credit left (``FLOW_CONTROL``).
        """
        if self.left <= 0:
            raise RemoteProtocolError(
                f"call {self.call_id}: an item where no credit for items was left", code=ErrorCode.FLOW_CONTROL
            )
        self.left -= cost
        self.arrived += cost

    def give_back(self, cost: int) -> int:
        """The consumer took items of ``cost`` bytes. Returns the credit to send now, 0 for none yet."""
        self.owed += cost
        if self.owed * 2 < self.size:
            return 0
        amount = self.owed
        self.owed = 0
        self.left += amount
        return amount
