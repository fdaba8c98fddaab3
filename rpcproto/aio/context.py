"""Which peer called the handler that is running.

A context variable would cost every inline call 0.1 us to set and reset. Inline handlers cannot interleave, so for them
one slot will do; tasks and threads have a context of their own, in which the variable is set once.
"""

from __future__ import annotations

from contextvars import ContextVar
from typing import TYPE_CHECKING

from rpcproto.errors import ConfigurationError

if TYPE_CHECKING:
    from rpcproto.aio.peer import Peer

__all__ = ["Current", "calling_peer", "current", "peer"]


class Current:
    """The slot for inline handlers. ``peer`` is None while none runs."""

    __slots__ = ("peer",)

    def __init__(self) -> None:
        self.peer: Peer | None = None


current = Current()
calling_peer: ContextVar[Peer] = ContextVar("rpcproto_calling_peer")


def peer() -> Peer:
    """The peer whose call is being handled, for use in a handler: its address, and calls back to it.

    Raises:
        ConfigurationError: no handler is running in this context.
    """
    found = current.peer or calling_peer.get(None)
    if found is None:
        raise ConfigurationError("rpcproto.peer() was called outside of a handler")
    return found
