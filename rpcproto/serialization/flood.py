"""Tells keys that were made to collide from others, before a dict or set is built from them.

The hash of a str or bytes object is keyed with a secret of the process. That of an int, a float or a tuple of them is
not: a peer can choose 87,000 ints, one MiB, for which a dict takes seconds instead of milliseconds. So where such keys
come in number, their way through the table is walked on a table of hashes, with a bound on the steps:

1. For each size the table has while it grows, all keys that it then holds are put in by CPython's rule (the slot
   from the low bits of the hash; then 5 i + 1 plus what is left of the hash, shifted by 5 each time).
2. More than 32 steps a key on average are refused. Keys as they occur (numbers in a row, multiples of powers of two,
   addresses, times, floats, pairs) take 1 to 17.
3. More than 8 keys with a hash that an earlier one has, to the bit, are refused: these are compared, and comparing
   long tuples costs as much as their length. Repeated keys count; nobody who encodes a dict sends any.
"""

from __future__ import annotations

from array import array
from collections.abc import Iterable
from typing import Any

from rpcproto.serialization import _layout as layout
from rpcproto.serialization import _memory as memory

__all__ = ["collide"]


def collide(keys: Iterable[Any], count: int) -> bool:
    """Whether putting these keys into a dict or set would take much longer than it should.

    Args:
        keys: hashable objects. Text and bytes among them are passed over.
        count: how many there are, text and bytes included.

    Raises:
        TypeError: a key is not hashable.
    """
    if count <= layout.MAX_SAME:
        return False
    found = [hash(key) for key in keys if type(key) is not str and type(key) is not bytes]
    if len(found) <= layout.MAX_SAME:
        return False
    hashes = array("q", found)
    size = layout.SMALLEST_TABLE
    while size * 2 // 3 < count:
        if _collide_at(hashes, size):
            return True
        size *= 2
    return _collide_at(hashes, size)


def _collide_at(hashes: array[int], size: int) -> bool:
    """Put as many hashes as a table of this size takes, two thirds of it, into one."""
    table = array("q", bytes(8 * size))
    slots = memory.integers(table)
    values = memory.integers(hashes)
    mask = size - 1
    number = min(len(hashes), size * 2 // 3)
    steps = number * layout.MAX_STEPS
    same = 0
    for index in range(number):
        value = values[index] or 1  # 0 stands for an empty slot
        rest = value & 0xFFFFFFFFFFFFFFFF
        slot = rest & mask
        while slots[slot] != 0:
            if slots[slot] == value:
                same += 1
                break
            steps -= 1
            rest >>= 5
            slot = (slot * 5 + rest + 1) & mask
        else:
            slots[slot] = value
        if steps < 0 or same > layout.MAX_SAME:
            return True
    return False
