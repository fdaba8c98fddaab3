"""What to measure (:class:`Workload`) and what came out (:class:`Result`)."""

from __future__ import annotations

import dataclasses
import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from ..errors import ConfigurationError

__all__ = ["CODECS", "HANDLERS", "SMALL_REPLY", "TRANSPORTS", "Result", "Workload"]

HANDLERS = ("sync", "async", "thread")
CODECS = ("raw", "msgpack")
TRANSPORTS = ("tcp", "tls", "unix")

SMALL_REPLY = b"0123456789"
"""What a handler answers unless it echoes: as many bytes as the smallest standard payload."""


def _has_uvloop() -> bool:
    return importlib.util.find_spec("uvloop") is not None


@dataclass(frozen=True, slots=True, kw_only=True)
class Workload:
    """One server process, ``procs`` client processes, each with ``concurrency`` loops of "send, await the reply".

    Raises:
        ConfigurationError: a value is out of its range; the text names it and what is allowed.
    """

    procs: int = 1
    """Client processes, each with one connection."""

    concurrency: int = 64
    """Calls that each client keeps in flight."""

    bytes: int = 10
    """Payload of a request in bytes; with ``codec="msgpack"``, of the bytes value in the dict."""

    seconds: float = 2.0
    """Measured span."""

    warmup: float = 0.3
    """Seconds of the same load before the measured span."""

    handler: str = "sync"
    """``"sync"``: a plain function on the loop; ``"async"``: a coroutine, as a task; ``"thread"``: in a thread."""

    echo: bool = False
    """Whether the payload comes back; else the reply is 10 bytes."""

    codec: str = "raw"
    """``"raw"``: bytes as they are. ``"msgpack"``: a small dict that holds the bytes."""

    transport: str = "tcp"
    """``"tcp"`` on the loopback interface, ``"tls"`` over it, or ``"unix"``."""

    uvloop: bool = field(default_factory=_has_uvloop)
    """Whether both sides run on uvloop; by default where it is installed."""

    pin: bool = True
    """Whether the server is pinned to the first CPU and the clients to the second. Figures of other placements differ
    by up to 3x and cannot be compared."""

    def __post_init__(self) -> None:
        _check_range("procs", self.procs, 1, 256)
        _check_range("concurrency", self.concurrency, 1, 100_000)
        _check_range("bytes", self.bytes, 0, 2**30)
        for name in ("seconds", "warmup"):
            value = getattr(self, name)
            if not isinstance(value, (int, float)) or isinstance(value, bool) or not 0 <= value <= 3600:
                raise ConfigurationError(f"{name} must be a number of seconds from 0 to 3600, not {value!r}")
        if self.seconds == 0:
            raise ConfigurationError("seconds must be above 0")
        _check_choice("handler", self.handler, HANDLERS)
        _check_choice("codec", self.codec, CODECS)
        _check_choice("transport", self.transport, TRANSPORTS)
        if self.uvloop and not _has_uvloop():
            raise ConfigurationError("uvloop is not installed (pip install uvloop), or ask for asyncio's own loop")

    def value(self) -> object:
        """The argument of each request."""
        payload = (b"0123456789" * (self.bytes // 10 + 1))[: self.bytes]
        if self.codec == "raw":
            return payload
        return {"op": "echo", "id": 1234567, "data": payload}

    def reply(self) -> object:
        """What each request is answered with."""
        return self.value() if self.echo else SMALL_REPLY

    def to_json(self) -> dict[str, Any]:
        """The fields, for JSON; ``Workload(**fields)`` makes it again."""
        return dataclasses.asdict(self)


@dataclass(frozen=True, slots=True, kw_only=True)
class Result:
    """The figures of one run. Durations are in microseconds; rates count the payload that clients sent."""

    subject: str
    """What was measured: ``"rpcproto"``, ``"ceiling"``, ``"prototype"``, or a peer."""

    workload: Workload
    calls: int
    seconds: float
    rps: float
    mb_per_s: float
    """Request payload, millions of bytes a second; replies are not counted."""

    p50_us: float
    p99_us: float
    p999_us: float
    cpu_us_per_call: float
    """CPU time of both ends, user and system, for one call."""

    server_cpu_us_per_call: float
    client_cpu_us_per_call: float
    server_messages_per_send: float | None = None
    """Messages for one system call, where the subject counts them."""

    client_messages_per_send: float | None = None
    disturbance: float | None = None
    """Cores that other processes used meanwhile on the CPUs of the run. Above 0.1 or so the figures are not to be
    trusted. Some of what the kernel does for the run itself is in it. None where the system does not tell."""

    versions: Mapping[str, str | None] = field(default_factory=dict)
    machine: Mapping[str, Any] = field(default_factory=dict)
    build: str = ""
    """``"compiled"``, ``"pure"`` or ``"mixed"``; for other subjects their own word."""

    placement: Mapping[str, Any] = field(default_factory=dict)
    """``pinned``, and the CPUs that ``server`` and ``clients`` were allowed to run on; None where not known."""

    @property
    def us_per_request(self) -> float:
        """Wall-clock time for one request, all clients together, in microseconds."""
        return 1e6 / self.rps

    def to_json(self) -> dict[str, Any]:
        """All fields and ``us_per_request``, for JSON."""
        return dataclasses.asdict(self) | {"us_per_request": self.us_per_request}


def _check_range(name: str, value: object, low: int, high: int) -> None:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ConfigurationError(f"{name} must be a whole number from {low} to {high}, not {value!r}")


def _check_choice(name: str, value: object, allowed: tuple[str, ...]) -> None:
    if value not in allowed:
        raise ConfigurationError(f"{name} must be one of {', '.join(allowed)}, not {value!r}")
