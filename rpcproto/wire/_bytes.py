"""Byte arithmetic: loads, stores and copies on raw memory.

Never compiled. These bodies serve the pure build; the ``cdef inline`` bodies in ``_bytes.pxd`` do the same to C
pointers in the compiled modules. ``data`` is a bytearray here and an ``unsigned char *`` there.
"""

from __future__ import annotations

import ctypes
import struct
import sys

_HEADER = struct.Struct("<IBBHQ")
_HEAD = struct.Struct("<HBx")
_OPENING = struct.Struct("<IBBHQHBxI")
_U16 = struct.Struct("<H")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")

_SLICE_MAX = 4096
"""Up to here copying twice is quicker than making a view."""

_IDLE_REFERENCES = 2
"""What ``sys.getrefcount`` tells of an object that only one list holds: the list's reference and the argument's."""


def u16(data: bytearray, at: int) -> int:
    """Load 16 bits at ``at``."""
    value: int = _U16.unpack_from(data, at)[0]
    return value


def u32(data: bytearray, at: int) -> int:
    """Load 32 bits at ``at``."""
    value: int = _U32.unpack_from(data, at)[0]
    return value


def u64(data: bytearray, at: int) -> int:
    """Load 64 bits at ``at``."""
    value: int = _U64.unpack_from(data, at)[0]
    return value


put32 = _U32.pack_into
"""``put32(data, at, value)``: store 32 bits at ``at``. No function of ours: a call less."""

put64 = _U64.pack_into
"""``put64(data, at, value)``: store 64 bits at ``at``."""

put_header = _HEADER.pack_into
"""``put_header(data, at, length, kind, flags, aux, call_id)``: store the 16 bytes of a frame header at ``at``."""


put_opening = _OPENING.pack_into
"""``put_opening(data, at, length, kind, flags, aux, call_id, method, parts, deadline)``: store a frame header and
behind it a head of 8 bytes. Of a head without deadline 4 bytes are meant; the payload overwrites the other 4."""

get_header = _HEADER.unpack_from
"""``get_header(data, at)``: length, kind, flags, aux and call id of the frame header at ``at``."""

get_head = _HEAD.unpack_from
"""``get_head(data, at)``: method id and parts, from the first 4 bytes of the head at ``at``."""


def copy_out(data: bytearray, start: int, stop: int) -> bytes:
    """The bytes from ``start`` to ``stop`` as an object of their own."""
    if stop - start <= _SLICE_MAX:
        return bytes(data[start:stop])
    with memoryview(data) as view:
        return bytes(view[start:stop])


def copy_bytes(data: bytearray, at: int, source: bytes, size: int) -> None:
    """Copy the first ``size`` bytes of ``source`` to ``at``."""
    data[at : at + size] = source


def copy_view(data: bytearray, at: int, source: object, size: int) -> None:
    """Copy all ``size`` bytes of a contiguous buffer to ``at``."""
    if len(source) != size:  # type: ignore[arg-type]
        raise ValueError("the buffer changed its size while it was copied")
    data[at : at + size] = source  # type: ignore[call-overload]


def uninitialised(size: int) -> bytearray:
    """A bytearray whose content does not matter. In C its pages are not touched; here they are zeroed."""
    return bytearray(size)


def misalignment(memory: bytearray, alignment: int) -> int:
    """How many bytes the memory starts after a multiple of ``alignment``."""
    if not memory:
        return 0
    probe = ctypes.c_char.from_buffer(memory)
    try:
        return ctypes.addressof(probe) % alignment
    finally:
        del probe


def idle(held: list[bytearray], index: int) -> bool:
    """Whether nobody but the list holds this object: no view of it is left anywhere."""
    return sys.getrefcount(held[index]) <= _IDLE_REFERENCES
