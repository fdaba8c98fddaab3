"""The greeting: 64 bytes that each side sends first. Section 1.1 of ``PROTOCOL.md``."""

from __future__ import annotations

import struct
from dataclasses import dataclass

from rpcproto.errors import RemoteProtocolError
from rpcproto.wire.spec import CREDIT_MAX, GREETING_SIZE, MAGIC, MINOR, VERSION, ErrorCode, Mechanism, Role

_LAYOUT = struct.Struct("<8sBBBBIIIQIIIIQ8x")
_MIN_WINDOW = 65_536
_MIN_FRAME = 131_072
_MAX_FRAME = 2**24 - 1


@dataclass(frozen=True, slots=True, kw_only=True)
class Greeting:
    """What one side announces. Sizes are in bytes, and speak of what that side *receives*."""

    role: int
    incarnation: int
    max_frame: int
    max_message: int
    call_window: int
    connection_window: int
    max_running: int
    silence_ms: int = 0
    mechanism: int = Mechanism.NONE
    capabilities: int = 0
    major: int = VERSION
    minor: int = MINOR

    def encode(self) -> bytes:
        """The 64 bytes."""
        return _LAYOUT.pack(
            MAGIC,
            self.major,
            self.minor,
            self.role,
            self.mechanism,
            0,
            self.capabilities,
            self.max_frame,
            self.max_message,
            self.call_window,
            self.connection_window,
            self.max_running,
            self.silence_ms,
            self.incarnation,
        )


def check_magic(start: bytes) -> None:
    """Check the first bytes of a greeting, as many as have come.

    Raises:
        RemoteProtocolError: they are not the start of a greeting. A short piece of them is told, at most 16 bytes.
    """
    if start[: len(MAGIC)] != MAGIC[: len(start)]:
        raise RemoteProtocolError(
            f"the peer does not speak rpcproto: its first bytes are {start[:16]!r}, not {MAGIC!r}",
            code=ErrorCode.GREETING,
        )


def decode_greeting(data: bytes, our_role: int) -> Greeting:
    """Read and check the peer's greeting.

    Args:
        data: 64 bytes.
        our_role: the :class:`~rpcproto.wire.spec.Role` of this side.

    Raises:
        RemoteProtocolError: it is none (``GREETING``), or of a version or with a capability that this side does not
            know (``VERSION``), or a limit in it is out of range (``GREETING``).
    """
    if len(data) != GREETING_SIZE:
        raise RemoteProtocolError(f"a greeting has {GREETING_SIZE} bytes, not {len(data)}", code=ErrorCode.GREETING)
    check_magic(data)
    (
        _,
        major,
        minor,
        role,
        mechanism,
        must,
        may,
        max_frame,
        max_message,
        call,
        connection,
        running,
        silence,
        incarnation,
    ) = _LAYOUT.unpack(data)
    if major != VERSION:
        raise RemoteProtocolError(
            f"the peer speaks version {major}.{minor} of the protocol, this side {VERSION}.{MINOR}",
            code=ErrorCode.VERSION,
        )
    if must:
        raise RemoteProtocolError(
            f"the peer demands capabilities {must:#010x} that version {VERSION}.{MINOR} does not know",
            code=ErrorCode.VERSION,
        )
    if role not in (Role.INITIATOR, Role.ACCEPTOR) or role == our_role:
        raise RemoteProtocolError(
            f"the peer's role is {role}, ours {our_role}: one must be 1, the other 2", code=ErrorCode.GREETING
        )
    _check("max frame", max_frame, _MIN_FRAME, _MAX_FRAME)
    _check("max message", max_message, 1, 2**63 - 1)
    _check("call window", call, _MIN_WINDOW, CREDIT_MAX)
    _check("connection window", connection, call, CREDIT_MAX)
    return Greeting(
        role=role,
        incarnation=incarnation,
        max_frame=max_frame,
        max_message=max_message,
        call_window=call,
        connection_window=connection,
        max_running=running,
        silence_ms=silence,
        mechanism=mechanism,
        capabilities=may,
        major=major,
        minor=minor,
    )


def _check(name: str, value: int, low: int, high: int) -> None:
    if not low <= value <= high:
        raise RemoteProtocolError(
            f"the peer's greeting has {name} {value}, which must be between {low} and {high}", code=ErrorCode.GREETING
        )
