"""What a handler can know of the call it serves: who called, what came along, how much time is left.

A context variable would cost every inline call 0.1 us to set and reset. Inline handlers of one loop cannot
interleave, so for them one slot a loop will do, and the object is made when it is asked for; tasks and threads have a
context of their own, in which the variable is set once.
"""

from __future__ import annotations

import asyncio
import weakref
from collections.abc import Mapping
from contextvars import ContextVar
from typing import TYPE_CHECKING, Any

from rpcproto import _clock
from rpcproto.errors import ConfigurationError, SerializationError
from rpcproto.serialization.metadata import decode_metadata, encode_metadata

if TYPE_CHECKING:
    from rpcproto.aio.peer import Peer

__all__ = ["CallContext", "Current", "calling", "current_call", "peer", "slot_of"]

PASSED_ON = ("traceparent", "tracestate", "baggage")
"""Keys of metadata that calls made by a handler take over: those of W3C Trace Context and Baggage."""


class CallContext:
    """The call that a handler serves. Got by :func:`rpcproto.current_call`.

    Attributes:
        peer: who called.
        method: the name it was called by.
        deadline: monotonic time in seconds at which the call is over, 0.0 for never.
        reply_metadata: a dict to be sent with the answer of a request, or None. See :attr:`Reply.metadata`.
        over: the handler has ended. Calls made after that take over nothing.
    """

    __slots__ = ("_decoded", "_raw", "deadline", "method", "over", "peer", "reply_metadata")

    def __init__(self, peer: Peer, method: str, raw: bytes | None, deadline: float) -> None:
        self.peer = peer
        self.method = method
        self.deadline = deadline
        self.reply_metadata: Mapping[str, Any] | None = None
        self.over = False
        self._raw = raw
        self._decoded: dict[str, Any] | None = None

    @property
    def metadata(self) -> dict[str, Any]:
        """What the caller sent along; an empty dict if that is nothing.

        Raises:
            SerializationError: it is no metadata.
        """
        if self._decoded is None:
            self._decoded = {} if self._raw is None else decode_metadata(self._raw)
        return self._decoded

    @property
    def time_left(self) -> float | None:
        """Seconds until the call is over, 0.0 if it is; None if it has no deadline."""
        return max(0.0, self.deadline - _clock.monotonic()) if self.deadline else None

    def encode_reply_metadata(self) -> bytes | None:
        """What goes with the answer."""
        return None if self.reply_metadata is None else encode_metadata(self.reply_metadata)

    def seconds(self, seconds: float) -> float:
        """The time-out of a call made by the handler: at most what is left. 0.0 means none, in and out."""
        if self.over or not self.deadline:
            return seconds
        # In whole milliseconds, which the wire would round up: never more than this call has itself.
        left = max(int((self.deadline - _clock.monotonic()) * 1000.0) * 0.001, 1e-9)
        return left if seconds == 0.0 or left < seconds else seconds

    def passed_on(self, metadata: Mapping[str, Any] | None) -> Mapping[str, Any] | None:
        """The metadata of a call made by the handler: with the trace of its own."""
        if self.over or self._raw is None:
            return metadata
        try:
            ours = self.metadata
        except SerializationError:
            return metadata
        trace = {key: ours[key] for key in PASSED_ON if key in ours}
        return {**trace, **metadata} if metadata and trace else trace or metadata

    def __repr__(self) -> str:
        return f"<CallContext {self.method} of {self.peer.address}{' over' if self.over else ''}>"


class Current:
    """The slot of a loop for the call of its inline handler. ``peer`` is None while none runs.

    Attributes:
        peer, method, metadata, deadline: of that call.
        call: its context, once somebody has asked for it.
        nests: handlers have run in tasks or threads, so that the context variable may be set.
    """

    __slots__ = ("__weakref__", "call", "deadline", "metadata", "method", "nests", "peer")

    def __init__(self) -> None:
        self.peer: Peer | None = None
        self.method = ""
        self.metadata: bytes | None = None
        self.deadline = 0.0
        self.call: CallContext | None = None
        self.nests = False

    def context(self) -> CallContext | None:
        """The context of the call that runs here, inline or in the present task; None if there is none."""
        if self.peer is None:
            return calling.get(None) if self.nests else None
        if self.call is None:
            self.call = CallContext(self.peer, self.method, self.metadata, self.deadline)
        return self.call

    def leave(self) -> None:
        """The inline handler has ended, and its context was asked for."""
        assert self.call is not None
        self.call.over = True
        self.call = None


_slots: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Current] = weakref.WeakKeyDictionary()
calling: ContextVar[CallContext] = ContextVar("rpcproto_call")


def slot_of(loop: asyncio.AbstractEventLoop) -> Current:
    """The slot of a loop."""
    slot = _slots.get(loop)
    if slot is None:
        slot = _slots[loop] = Current()
    return slot


def current_call() -> CallContext:
    """The call that is being handled, for use in a handler: its metadata, the time left, who called.

    Raises:
        ConfigurationError: no handler is running in this context.
    """
    return _current("current_call")


def peer() -> Peer:
    """The peer whose call is being handled, for use in a handler: its address, and calls back to it.

    Raises:
        ConfigurationError: no handler is running in this context.
    """
    return _current("peer").peer


def _current(name: str) -> CallContext:
    # Not the slot of another thread's loop, whose inline handler may be at work just now.
    loop = asyncio._get_running_loop()
    slot = None if loop is None else _slots.get(loop)
    found = calling.get(None) if slot is None or slot.peer is None else slot.context()
    if found is None:
        raise ConfigurationError(f"rpcproto.{name}() was called outside of a handler")
    return found
