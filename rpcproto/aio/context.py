"""Which peer called the handler that is running.

A context variable would cost every inline call 0.1 us to set and reset. Inline handlers of one loop cannot
interleave, so for them one slot a loop will do; tasks and threads have a context of their own, in which the variable
is set once.
"""

from __future__ import annotations

import asyncio
import weakref
from contextvars import ContextVar
from typing import TYPE_CHECKING

from rpcproto.errors import ConfigurationError

if TYPE_CHECKING:
    from rpcproto.aio.peer import Peer

__all__ = ["Current", "calling_peer", "peer", "slot_of"]


class Current:
    """The slot of a loop for inline handlers. ``peer`` is None while none runs."""

    __slots__ = ("__weakref__", "peer")

    def __init__(self) -> None:
        self.peer: Peer | None = None


_slots: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Current] = weakref.WeakKeyDictionary()
calling_peer: ContextVar[Peer] = ContextVar("rpcproto_calling_peer")


def slot_of(loop: asyncio.AbstractEventLoop) -> Current:
    """The slot of a loop."""
    slot = _slots.get(loop)
    if slot is None:
        slot = _slots[loop] = Current()
    return slot


def peer() -> Peer:
    """The peer whose call is being handled, for use in a handler: its address, and calls back to it.

    Raises:
        ConfigurationError: no handler is running in this context.
    """
    # Not the slot of another thread's loop, whose inline handler may be at work just now.
    loop = asyncio._get_running_loop()
    slot = None if loop is None else _slots.get(loop)
    found = calling_peer.get(None) if slot is None or slot.peer is None else slot.peer
    if found is None:
        raise ConfigurationError("rpcproto.peer() was called outside of a handler")
    return found
