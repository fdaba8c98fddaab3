"""The hooks of decoding, against bodies that no encoder makes. What encoders make is in test_msgpack."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from msgpack import ExtType

from rpcproto.errors import SerializationError
from rpcproto.serialization import MsgpackCodec
from rpcproto.serialization import _layout as layout

TUPLE, SET, FROZENSET = (ExtType(code, b"") for code in (1, 2, 3))

codec = MsgpackCodec()


def decode(value: Any, *buffers: bytes) -> Any:
    return codec.decode_value(msgpack.packb(value), [memoryview(bytearray(buffer)) for buffer in buffers])


def refused(text: str, value: Any, *buffers: bytes) -> None:
    with pytest.raises(SerializationError, match=text):
        decode(value, *buffers)


def described(code: int, *description: Any) -> ExtType:
    return ExtType(code, msgpack.packb(description))


def test_marks() -> None:
    assert decode([TUPLE]) == ()
    assert decode([TUPLE, 1, [2, [SET, 3]]]) == (1, [2, {3}])
    assert decode({"k": [FROZENSET, [TUPLE, 1]]}) == {"k": frozenset([(1,)])}


@pytest.mark.parametrize(
    "value",
    [
        TUPLE,
        [1, TUPLE],
        [TUPLE, TUPLE],
        [SET, SET],
        {"k": SET},
        {"k": 1, "l": [2, [3, FROZENSET]]},
        [[TUPLE, 1], TUPLE],
        [TUPLE, SET],
    ],
    ids=repr,
)
def test_stray_marks(value: Any) -> None:
    refused("the mark of a tuple or set is not the first item of an array", value)


def test_a_stray_mark_as_a_key() -> None:
    with pytest.raises(SerializationError, match="is not the first item"):
        codec.decode_value(b"\x81\xc7\x00\x01\x01", None)


def test_marks_are_empty() -> None:
    for code in (layout.TUPLE, layout.SET, layout.FROZENSET):
        refused("must be empty", [ExtType(code, b"x"), 1])


def test_items_of_sets() -> None:
    refused("an item twice", [SET, 1, 1])
    refused("an item twice", [FROZENSET, 1, True])
    refused("unhashable", [SET, [1]])
    refused("unhashable", [SET, [SET, 1]])
    refused("a set of 20 items whose hashes collide", [SET, *[described_int(i * (2**61 - 1)) for i in range(20)]])


def described_int(value: int) -> ExtType:
    return ExtType(layout.INTEGER, value.to_bytes(20, "big"))


def test_the_arguments_are_no_tuple() -> None:
    with pytest.raises(SerializationError, match="arguments must be an array, not a tuple"):
        codec.decode_args(msgpack.packb([TUPLE, 1]), None)


@pytest.mark.parametrize("code", [0, 12, 100, 127])
def test_unknown_types(code: int) -> None:
    refused(f"unknown extension type {code}", ExtType(code, b"data"))
    refused(f"unknown extension type {code}", [1, ExtType(code, b"")])


def test_a_negative_type() -> None:
    with pytest.raises(SerializationError, match="unknown extension type -2"):
        codec.decode_value(b"\xd4\xfe\x00", None)


@pytest.mark.parametrize("data", [b"", bytes(5), b"\x7f" * 12])
def test_timestamps_out_of_range(data: bytes) -> None:
    with pytest.raises(SerializationError):
        codec.decode_value(b"\xc7" + bytes([len(data)]) + b"\xff" + data, None)


def test_buffers_are_used_in_order_each_once() -> None:
    one, two = described(layout.BYTEARRAY, 0), described(layout.BYTEARRAY, 1)
    assert decode([one, two], b"a", b"b") == [bytearray(b"a"), bytearray(b"b")]
    refused("buffer 1 named where number 0 of 2 is next", [two, one], b"a", b"b")
    refused("buffer 0 named where number 1 of 2 is next", [one, one], b"a", b"b")
    refused("buffer 1 named where number 1 of 1 is next", [one, two], b"a")
    refused("buffer 0 named where number 0 of 0 is next", [one])
    refused("2 buffers came, the body uses 1", [one], b"a", b"b")
    refused("1 buffers came, the body uses 0", [1, 2], b"a")
    refused("1 buffers came, the body uses 0", [[TUPLE, 1]], b"a")


@pytest.mark.parametrize("source", [-1, None, "0", 1.0, True, [0], {}], ids=repr)
def test_what_names_no_buffer(source: Any) -> None:
    refused("buffer .* named", described(layout.MEMORYVIEW, source), b"a", b"b")


@pytest.mark.parametrize(
    ("code", "description"),
    [
        (layout.BYTES, [b"x", 1]),
        (layout.BYTEARRAY, [b"x", 1]),
        (layout.MEMORYVIEW, [b"x", "B"]),
        (layout.MEMORYVIEW, [b"x", "B", [1], 1]),
        (layout.ARRAY_OF_NUMPY, [b"x"]),
        (layout.SCALAR_OF_NUMPY, ["<f8"]),
    ],
)
def test_descriptions_of_the_wrong_length(code: int, description: list[Any]) -> None:
    refused(f"malformed item of extension type {code}", described(code, *description))


def test_descriptions_that_are_none() -> None:
    refused("ends inside an item", ExtType(layout.MEMORYVIEW, b""))
    refused("must be an array", ExtType(layout.MEMORYVIEW, b"\x01"))
    refused("must be an array", ExtType(layout.MEMORYVIEW, b"\x90"))
    refused("bytes follow the value", ExtType(layout.MEMORYVIEW, b"\x91\xc4\x00\x00"))
    refused("extension types in the description", described(layout.MEMORYVIEW, ExtType(4, b"x")))
    refused("nested deeper than 2", described(layout.MEMORYVIEW, [[b"x"]]))
    refused("the limit is 5120", ExtType(layout.MEMORYVIEW, msgpack.packb([b"x" * 6000])))


@pytest.mark.parametrize(
    ("code", "shape"),
    [
        ("d", [2]),
        ("e", [4]),
        ("", [8]),
        (None, [8]),
        ("<d", [1]),
        ("d", 1),
        ("d", [0]),
        ("d", [-1]),
        ("d", ["1"]),
        ("B", [2**63]),
    ],
)
def test_views_of_the_wrong_shape(code: Any, shape: Any) -> None:
    refused("msgpack: ", described(layout.MEMORYVIEW, bytes(8), code, shape))


def test_data_in_the_body_can_be_written() -> None:
    view = decode(described(layout.MEMORYVIEW, b"abc"))
    view[0] = 0x7A
    assert view == b"zbc"


def test_bytes_in_a_description() -> None:
    """Encoders keep small bytes in the body as they are; a description of them is allowed."""
    assert decode(described(layout.BYTES, b"abc")) == b"abc"
