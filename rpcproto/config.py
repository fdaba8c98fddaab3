"""Limits and time-outs: frozen dataclasses, checked once when they are made.

Every limit has a name, a default and the reason for it. A limit on what is *received* is announced to the peer in
the greeting, so that a well-behaved sender fails at the call and not by losing its connection.
"""

from __future__ import annotations

import os
from dataclasses import dataclass, fields

from .errors import ConfigurationError

__all__ = ["KIB", "MIB", "Limits", "Timeouts", "default_reassembly_budget"]

KIB = 1024
MIB = 1024 * KIB
GIB = 1024 * MIB


def default_reassembly_budget() -> int:
    """A quarter of the machine's memory, in bytes; 1 GiB where the machine does not tell."""
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") // 4
    except (AttributeError, ValueError, OSError):
        return GIB


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Limits of one connection. Sizes are in bytes.

    Raises:
        ConfigurationError: a value is not a whole number or outside its range; the text names both.
    """

    max_frame: int = MIB
    """Largest frame payload received, 128 KiB to 16 MiB - 1. 1 MiB keeps what a ping waits behind near 10 ms at 100
    MB/s."""

    max_message: int = GIB
    """Largest message received, body and buffers together. For peers on this machine, or that have
    authenticated; see ``max_message_remote``."""

    max_message_remote: int = 16 * MIB
    """The same for peers on other machines where no secret is to be proved: what a stranger can make us reserve."""

    call_window: int = MIB
    """Largest message that may be sent without asking first; what is larger waits until it is admitted."""

    connection_window: int = 8 * MIB
    """Bytes a peer may have under way to us before we have taken any of them, calls and replies apart."""

    max_connection_window: int = 64 * MIB
    """How far ``connection_window`` may grow with the measured bandwidth-delay product."""

    max_running: int = 1024
    """Handlers running at once for one peer, cancelled ones included until they end (grpc-go #6703). Excess is
    refused."""

    max_running_bytes: int = 64 * MIB
    """Request bytes held by running handlers of one peer. One call is always admitted. Excess is refused."""

    max_queued: int = 64 * MIB
    """Bytes waiting on this side to be sent. Calls beyond it fail with Overloaded; replies beyond it pause reading."""

    frames_per_turn: int = 512
    """Frames handled in one loop turn before other connections get theirs."""

    cancel_burst: int = 10_000
    """Cancels a peer may send at once; a scheduler may honestly drop a whole graph. Beyond: the connection is ended."""

    cancel_rate: int = 1_000
    """Cancels per second by which ``cancel_burst`` refills."""

    max_handshakes: int = 128
    """TLS handshakes at once at one address of a server. Those beyond it wait, the newest is let in first, and while
    some wait a handshake that takes half a second is given up: a crowd of idle connections keeps nobody out."""

    max_arriving: int = 4_000
    """Connections of a server that have not greeted, or not proved the secret, yet. At the next one the oldest of them
    is cut. Some four times what the system holds back for a listener, so a cluster that arrives all at once is not."""

    def __post_init__(self) -> None:
        _check_integers(self)
        _check_range("max_frame", self.max_frame, 128 * KIB, 16 * MIB - 1)
        _check_range("max_message", self.max_message, 1, 2**63 - 1)
        _check_range("max_message_remote", self.max_message_remote, 1, 2**63 - 1)
        _check_range("call_window", self.call_window, 64 * KIB, 2**31 - 1)
        _check_range("connection_window", self.connection_window, self.call_window, 2**31 - 1)
        _check_range("max_connection_window", self.max_connection_window, self.connection_window, 2**31 - 1)
        _check_range("max_running", self.max_running, 1, 2**31 - 1)
        _check_range("max_running_bytes", self.max_running_bytes, 0, 2**63 - 1)
        _check_range("max_queued", self.max_queued, 64 * KIB, 2**63 - 1)
        _check_range("frames_per_turn", self.frames_per_turn, 1, 1_000_000)
        _check_range("cancel_burst", self.cancel_burst, 1, 2**31 - 1)
        _check_range("cancel_rate", self.cancel_rate, 0, 2**31 - 1)
        _check_range("max_handshakes", self.max_handshakes, 1, 1_000_000)
        _check_range("max_arriving", self.max_arriving, 1, 1_000_000)


@dataclass(frozen=True, slots=True, kw_only=True)
class Timeouts:
    """Time-outs in seconds. ``None`` switches one off, where its type allows it.

    Raises:
        ConfigurationError: a value is not a number above zero; the text names it.
    """

    connect: float = 10.0
    """To reach the peer, over all of its addresses together."""

    handshake: float = 10.0
    """For the TLS handshake: on a server from the connection being accepted; a client's must be over within
    ``connect`` as well. asyncio's 60 s would hold what an idle connection costs for six times as long."""

    greeting: float = 10.0
    """For the peer's greeting, and its proof of the shared secret, counted from the connection being made."""

    request: float | None = 30.0
    """Deadline of a request that names none. gRPC's "omitted is infinite" is the usual cause of hangs."""

    heartbeat: float | None = 20.0
    """Silence after which a peer is taken for dead. The peer is told, and sends something every quarter of it."""

    stall: float = 10.0
    """How long a peer may refuse to read what we send before it is cut off as a slow consumer."""

    message: float = 60.0
    """How long a large message that has begun may make no progress, before its connection is ended."""

    linger: float = 1.0
    """How long input is discarded after a protocol error, so that the reason reaches the peer."""

    slow_handler: float = 0.05
    """A plain handler that holds the loop for longer is logged once by name."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if value is None and field.name in ("request", "heartbeat"):
                continue
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 < value < float("inf"):
                raise ConfigurationError(f"timeout {field.name} must be a number of seconds above 0, not {value!r}")


def _check_integers(limits: Limits) -> None:
    for field in fields(limits):
        value = getattr(limits, field.name)
        if not isinstance(value, int) or isinstance(value, bool):
            raise ConfigurationError(f"limit {field.name} must be a whole number, not {value!r}")


def _check_range(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise ConfigurationError(f"limit {name} must be between {low} and {high}, not {value}")
