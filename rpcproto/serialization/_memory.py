"""The memory of a buffer: its bytes and numbers.

Never compiled. These bodies serve the pure build; the ``cdef inline`` bodies in ``_memory.pxd`` do the same to a C
pointer in the compiled modules. ``data`` is ``bytes`` or a flat ``memoryview`` here, a ``const unsigned char *`` there.
"""

from __future__ import annotations

from array import array


def address(data: bytes | memoryview) -> bytes | memoryview:
    """What the other functions and indexing work on. Valid as long as the caller holds ``data``."""
    return data


def big_endian(data: bytes | memoryview, at: int, width: int) -> int:
    """The unsigned number in the ``width`` bytes (at most 4) at ``at``. The caller has checked that they exist."""
    return int.from_bytes(data[at : at + width], "big")


def integers(data: array[int]) -> array[int]:
    """The same for an array of 64-bit numbers."""
    return data
