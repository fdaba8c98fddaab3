"""Values that msgpack has no type for, and the bytes of the extension types that carry them.

Both tables hold what is complete in itself. What contains other values or comes with a buffer is in ``_writer`` and
``_reader``, numpy in ``_numpy``. The table of all types is in ``msgpack``.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from msgpack import ExtType, Timestamp

from rpcproto.errors import SerializationError
from rpcproto.serialization import _layout as layout

__all__ = ["DECODERS", "ENCODERS", "MAX_INT_BYTES", "Unencodable", "encode_int"]

MAX_INT_BYTES = 1024
"""Largest int, 8,191 bits and the sign: enough for cryptography, too small for its arithmetic to become a weapon."""

MAX_DATETIME_BYTES = 64

_COMPLEX = struct.Struct(">dd")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class Unencodable(Exception):
    """Raised while encoding, and completed with the path to the value on its way out.

    Args:
        reason: what is wrong with the value.
    """

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.path: list[str] = []  # innermost step first

    def text(self, root: str) -> str:
        """``root[0]['x']: reason``"""
        return f"{root}{''.join(reversed(self.path))}: {self}"


def encode_int(value: int) -> ExtType:
    """An int beyond 64 bits: two's complement, big-endian."""
    size = value.bit_length() // 8 + 1
    if size > MAX_INT_BYTES:
        raise Unencodable(f"an int of {value.bit_length()} bits; the limit is {8 * MAX_INT_BYTES - 1}")
    return ExtType(layout.INTEGER, value.to_bytes(size, "big", signed=True))


def _decode_int(data: bytes) -> int:
    if len(data) > MAX_INT_BYTES:
        raise SerializationError(f"msgpack: an int of {len(data)} bytes; the limit is {MAX_INT_BYTES}")
    return int.from_bytes(data, "big", signed=True)


def _encode_complex(value: complex) -> ExtType:
    return ExtType(layout.COMPLEX, _COMPLEX.pack(value.real, value.imag))


def _decode_complex(data: bytes) -> complex:
    return complex(*_COMPLEX.unpack(data))


def _encode_datetime(value: datetime) -> ExtType | Timestamp:
    if value.tzinfo is UTC and not value.fold:
        since = value - _EPOCH
        return Timestamp(since.days * 86400 + since.seconds, since.microseconds * 1000)
    data = bytes([value.fold]) + value.isoformat().encode()
    # A named zone is a set of rules, of which the other side may have another version. repr tells more than == does.
    if repr(_decode_datetime(data)) != repr(value):
        raise Unencodable(f"a datetime with the time zone {value.tzinfo!r}: convert it with astimezone(datetime.UTC)")
    return ExtType(layout.DATETIME, data)


def _decode_datetime(data: bytes) -> datetime:
    if len(data) > MAX_DATETIME_BYTES or data[:1] not in (b"\0", b"\1"):
        raise SerializationError("msgpack: a malformed datetime")
    try:
        return datetime.fromisoformat(data[1:].decode("ascii")).replace(fold=data[0])
    except ValueError:
        raise SerializationError("msgpack: a malformed datetime") from None  # the text is the peer's


ENCODERS: dict[type, Callable[[Any], ExtType | Timestamp]] = {
    complex: _encode_complex,
    datetime: _encode_datetime,
}
"""By the exact type of a value: what makes the item to pack for it. Raises Unencodable."""

DECODERS: dict[int, Callable[[bytes], Any]] = {
    layout.INTEGER: _decode_int,
    layout.COMPLEX: _decode_complex,
    layout.DATETIME: _decode_datetime,
}
"""By extension type: the inverse. Raises SerializationError, ValueError or struct.error for what no encoder makes."""
