"""The objects that a body decodes to are in proportion, and what ``prescan`` counts for them is what they take."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest

from rpcproto.errors import SerializationError
from rpcproto.serialization import MsgpackCodec, prescan
from rpcproto.serialization.msgpack import MOST_PER_BYTE
from tests.serialization._forms import array32, load_python_form, map32, peak_of

MIB = 1024 * 1024

python_form = load_python_form(prescan)


def of(item: bytes, size: int = 32 * 1024) -> bytes:
    """A body of that size which is an array of the same item again and again."""
    count = size // len(item)
    return array32(count) + item * count


def entries(count: int, key: Any) -> bytes:
    return b"".join(msgpack.packb(key(i)) + b"\x00" for i in range(count))


def encoded(value: Any) -> bytes:
    return MsgpackCodec().encode_value(value, [])  # type: ignore[return-value]


SHAPES = {
    "zeros": of(b"\x00"), "negative ints": of(b"\xe0"), "ints": of(b"\xcd\xff\xff"), "floats": of(b"\xca@@@@"),
    "empty texts": of(b"\xa0"), "texts": of(b"\xa2ab"), "wide texts": of(b"\xa5a\xf0\x9f\x98\x80"),
    "bytes": of(b"\xc4\x01a"),
    "empty lists": of(b"\x90"), "lists": of(b"\x91\xe0"), "nested lists": of(b"\x91" * 60 + b"\x90"),
    "empty dicts": of(b"\x80"), "dicts": of(b"\x81\xe0\xe0"), "dicts of 2": of(b"\x82\xa1x\x01\xa1y\x02"),
    "dicts of 5": of(b"\x85" + bytes(range(10))), "dicts of 6": of(b"\x86" + bytes(range(12))),
    "dict of ints": map32(12_000) + entries(12_000, int),
    "dict of bytes": map32(10_930) + entries(10_930, lambda i: b"%05x" % i),
    "dicts of bytes": of(b"\xde\x00\x64" + entries(100, lambda i: b"%05x" % i)),
    "tuples": of(b"\x92\xc7\x00\x01\x00"), "empty sets": of(b"\x91\xc7\x00\x02"), "sets": of(b"\x92\xc7\x00\x02\xe0"),
    "sets of 5": of(b"\x96\xc7\x00\x02" + bytes(range(5))), "frozensets": of(b"\x97\xc7\x00\x03" + bytes(range(6))),
    "a large set": array32(13_001) + b"\xc7\x00\x02" + b"".join(map(msgpack.packb, range(13_000))),
    "tuples as keys": map32(5000) + b"".join(b"\x93\xc7\x00\x01" + msgpack.packb(i) + b"\x00\x00" for i in range(5000)),
    "large ints": of(encoded(2**64)), "complex": of(encoded(1j)), "views": of(encoded(memoryview(b""))),
    "buffers": of(b"\xd5\x07\x91\x00"), "bytearrays": of(encoded(bytearray(b"x"))),
    "repeated keys": map32(15_000) + b"\xcc\xff\x00" * 15_000,
}  # fmt: skip


in_c = pytest.mark.skipif(msgpack.unpackb.__module__ == "msgpack.fallback", reason="msgpack in Python copies a lot")


@in_c
@pytest.mark.parametrize("body", SHAPES.values(), ids=SHAPES)
def test_row_61_what_is_counted_is_at_least_what_is_used(body: bytes) -> None:
    """Decoded memory is at most what ``prescan`` counts for the objects, and 4 times the body.

    No dict has text as keys: the unpacker interns them, and how much the interpreter's table of these grows depends on
    what it held before.
    """
    peak = peak_of(MsgpackCodec(2**40).decode_value, body, None)
    slack = 12 * 1024
    prescan.check(body, 64, MOST_PER_BYTE * len(body))  # encoders rely on this for small bodies
    if peak - 4 * len(body) > slack:
        with pytest.raises(SerializationError, match="as objects"):
            prescan.check(body, 64, peak - 4 * len(body) - slack)


@in_c
@pytest.mark.parametrize("text", ["a" * MIB, "\U0001f600" + "a" * MIB, "a" * MIB + "\U0001f600"])
def test_row_61_text_takes_at_most_five_times_its_size(text: str) -> None:
    """4 where one character takes 4 bytes, and so all of them; once more while the text is widened."""
    assert peak_of(MsgpackCodec().decode_value, msgpack.packb(text), None) < 5 * MIB + 16 * 1024


def test_a_body_out_of_proportion_is_refused() -> None:
    body = of(b"\x80")
    prescan.check(body)
    for module in (prescan, python_form):
        with pytest.raises(SerializationError, match="of 32773 bytes takes some 2 MiB as objects, the limit is 1 MiB"):
            module.check(body, 64, MIB)


def test_a_refused_body_costs_no_memory() -> None:
    body = of(b"\x80")
    assert peak_of(MsgpackCodec(MIB).decode_value, body, None) < 16 * 1024


def test_fault_75_a_million_small_objects_pass() -> None:
    """What people do send in one message must not be taken for an attack. A hundredth of it, and of the budget."""
    budget = prescan.MAX_OBJECT_BYTES // 100
    prescan.check(array32(10_000) + b"\xce\x00\x01\x00\x00" * 10_000, 64, budget)
    prescan.check(array32(10_000) + b"\xcb@@@@@@@@" * 10_000, 64, budget)
    prescan.check(map32(10_000) + b"\xa8key-0001\xcd\x01\x00" * 10_000, 64, budget)
    prescan.check(array32(6000) + b"\x82\xa1x\x01\xa1y\x02" * 6000, 64, budget)
