"""Looks through a msgpack body before anything is built from it, so that a hostile one costs nothing.

An unpacker believes what it reads: a frame of 10 KB can make it reserve 66 MB. Here every header is checked against the
bytes that remain, in one pass, in linear time, without recursion and without an object per item:

1. The body is exactly one value: nothing is cut off, nothing follows it, no item starts with the unused byte ``c1``.
2. Arrays and maps are nested at most 64 deep, empty ones included.
3. An array of *n* items has at least *n* bytes after its header, a map of *n* entries 2 *n*. A map has no more keys of
   one byte than there are.
4. The Python objects that it decodes to take at most a fixed number of bytes, plus 4 times the size of the body.

Rule 4 is there because a valid body can be small for what it holds: one byte is an empty dict of 64 bytes, three are a
dict of 232. No ratio near the size of the body tells hostile from honest, since a list of small dicts has nearly
the same. So objects are counted, rounded up, and bounded by a budget: 256 MiB unless set otherwise, which is a million
small dicts. Text and bytes take at most 4 times their size in the body, where UTF-8 widens to four bytes a character
(5 while it does).

Measured on CPython 3.11, decoding bodies of one MiB that hold the same item again and again, in memory per byte of the
body and CPU time: floats 4 and 3 ms; texts of two letters 20 and 18 ms; dicts of two ints 27 and 30 ms; empty lists
65 and 50 ms; dicts of one int, the worst, 101 and 70 ms; sets of five 82 and 85 ms; empty memoryviews 63 and 110 ms.
The scan is 1 to 3 ms of it where it is compiled, 100 to 270 ms in Python.
"""

from __future__ import annotations

from rpcproto.errors import ConfigurationError, SerializationError
from rpcproto.serialization import _layout as layout
from rpcproto.serialization import _memory as memory

__all__ = ["MAX_DEPTH", "MAX_OBJECT_BYTES", "check", "scan"]

MAX_DEPTH = layout.MAX_DEPTH

MAX_OBJECT_BYTES = 256 * 1024 * 1024
"""Memory in bytes that the objects of one body may take: about a million small dicts, some 100 ms of decoding."""


def _steps() -> bytes:
    steps = bytearray(256)
    steps[0x80:0x90] = [layout.MAP] * 16
    steps[0x90:0xA0] = [layout.ARRAY] * 16
    steps[0xA0:0xC0] = range(32)
    steps[0xC1] = layout.INVALID
    steps[0xC4:0xC7] = [layout.TEXT | width for width in (1, 2, 4)]
    steps[0xC7:0xCA] = [layout.EXTENSION | width for width in (1, 2, 4)]
    steps[0xCA:0xD4] = [4, 8, 1, 2, 4, 8, 1, 2, 4, 8]
    steps[0xD4:0xD9] = [layout.FIXED_EXTENSION] * 5
    steps[0xD9:0xDC] = [layout.TEXT | width for width in (1, 2, 4)]
    steps[0xDC:0xDE] = [layout.ARRAY | 2, layout.ARRAY | 4]
    steps[0xDE:0xE0] = [layout.MAP | 2, layout.MAP | 4]
    return bytes(steps)


def _weights() -> bytes:
    weights = bytearray([8]) * 256  # None, bools, ints from -5 to 256: these objects exist once
    for first in (*range(0x80, 0xC0), *range(0xC4, 0xC7), *range(0xD9, 0xE0)):
        weights[first] = 72  # text or bytes (49 to 80, without what they hold), an empty list or dict
    for first in (0xCA, 0xCB, *range(0xCD, 0xD4), *range(0xE0, 0xFB)):
        weights[first] = 40  # a float, an int
    return bytes(weights)


# By the first byte of an item: what follows, and what its object takes.
STEPS = _steps()
WEIGHTS = _weights()


def check(body: bytes | memoryview, max_depth: int = MAX_DEPTH, max_object_bytes: int = MAX_OBJECT_BYTES) -> None:
    """Raise if a msgpack body is malformed or out of proportion.

    Args:
        body: the body, in one contiguous piece.
        max_depth: deepest nesting allowed, 1 to 64.
        max_object_bytes: memory in bytes that its objects may take, beside 4 times the size of the body.

    Raises:
        SerializationError: the text names the offset of the fault and the reason.
        ConfigurationError: ``max_depth`` is out of range.
    """
    scan(body, max_depth, max_object_bytes)


def scan(body: bytes | memoryview, max_depth: int, max_object_bytes: int) -> int:
    """The same as :func:`check`; returns what a decoder must reckon with, as a sum of ``HAS_...`` of ``_layout``."""
    if not 1 <= max_depth <= layout.MAX_DEPTH:
        raise ConfigurationError(f"max_depth must be between 1 and {layout.MAX_DEPTH}, not {max_depth}")
    held = body if type(body) is bytes else memoryview(body).cast("B")  # a view of our own pins the memory
    data = memory.address(held)
    end = len(held)
    steps = STEPS
    weights = WEIGHTS
    stack = [0] * 64
    depth = 0
    left = 1  # items to come in the innermost open container
    keyed = 0  # ... which is 0 an array, 1 a map, 2 a large map. In a map an even `left` means that a key comes
    containers = 0
    entries = 0
    large_maps = 0
    tiny_keys = 0  # keys of one byte in large maps
    weight = 0
    found = 0
    at = 0
    while True:
        if at >= end:
            raise _cut_off(end)
        start = at
        first = data[at]
        at += 1
        step = steps[first]
        weight += weights[first]
        if keyed and not left & 1 and not 0xA0 <= first <= 0xBF:  # a key, and not a short text
            if step >= layout.FIXED:
                if not layout.TEXT <= step < layout.ARRAY:
                    found |= layout.HAS_RISKY_KEYS
            elif keyed == 2:
                found |= layout.HAS_RISKY_KEYS
                tiny_keys += step == 0
        if step < layout.FIXED:
            at += step
            if at > end:
                raise _cut_off(end)
        elif step == layout.INVALID:
            raise SerializationError(f"msgpack, offset {start}: the byte c1 starts no item")
        else:
            width = step & 7
            if width > end - at:
                raise _cut_off(end)
            size = memory.big_endian(data, at, width) if width else first & 15
            at += width
            if step >= layout.ARRAY:
                if depth == max_depth:
                    raise SerializationError(f"msgpack, offset {start}: nested deeper than {max_depth}")
                if size > (end - at if step < layout.MAP else (end - at) >> 1):
                    raise SerializationError(
                        f"msgpack, offset {start}: {size} items or entries announced where {end - at} bytes remain"
                    )
                containers += 1
                if size:
                    stack[depth] = left << 2 | keyed
                    depth += 1
                    left = size
                    keyed = 0
                    if step >= layout.MAP:
                        left = size << 1
                        keyed = 1 if size <= layout.LARGE_MAP else 2
                        large_maps += keyed == 2
                        entries += size
                        weight += layout.SMALL_MAP_WEIGHT if size <= 5 else layout.ENTRY_WEIGHT * size
                    continue
            else:
                if step < layout.TEXT:
                    found |= layout.HAS_EXTENSIONS
                    size = 1 + (size if width else 1 << (first - 0xD4))  # the type counts
                if size > end - at:
                    raise SerializationError(
                        f"msgpack, offset {start}: an item of {size} bytes where {end - at} bytes remain"
                    )
                if step < layout.TEXT:
                    kind = data[at]
                    if kind == layout.SET or kind == layout.FROZENSET:  # noqa: PLR1714  compiles to C
                        found |= layout.HAS_MARKS
                        weight += layout.SET_WEIGHT + layout.SET_ITEM_WEIGHT * left
                    elif kind == layout.TUPLE:
                        found |= layout.HAS_MARKS
                    else:
                        described = layout.BYTES <= kind < layout.SCALAR_OF_NUMPY
                        weight += layout.EXTENSION_WEIGHT if described else layout.SMALL_EXTENSION_WEIGHT
                        containers += described
                at += size
        left -= 1
        while left == 0 and depth:
            depth -= 1
            left = (stack[depth] >> 2) - 1
            keyed = stack[depth] & 3
        if left == 0:
            break
    if at < end:
        raise SerializationError(f"msgpack, offset {at}: {end - at} bytes follow the value")
    if tiny_keys > layout.MOST_TINY_KEYS * large_maps:
        raise SerializationError(f"msgpack: a map repeats its keys: {tiny_keys} are one byte long")
    if found & layout.HAS_RISKY_KEYS:
        weight += layout.PAIR_WEIGHT * entries
    if weight > max_object_bytes:
        raise SerializationError(
            f"msgpack: a body of {end} bytes takes some {weight >> 20} MiB as objects, the limit is "
            f"{max_object_bytes >> 20} MiB: send arrays, or several messages, or set max_object_bytes of MsgpackCodec"
        )
    if containers > layout.MANY_CONTAINERS:
        found |= layout.HAS_MANY_CONTAINERS
    return found


def _cut_off(end: int) -> SerializationError:
    return SerializationError(f"msgpack, offset {end}: the body ends inside an item")
