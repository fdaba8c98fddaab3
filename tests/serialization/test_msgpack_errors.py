"""What the codec refuses, on both sides: with the path to what cannot be sent, and never with another exception."""

from __future__ import annotations

import collections
import enum
from decimal import Decimal
from typing import Any

import msgpack
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcproto.errors import ConfigurationError, SerializationError
from rpcproto.serialization import MsgpackCodec

np = pytest.importorskip("numpy")

from tests.serialization._values import codec, exact, received, values  # noqa: E402


class Colour(enum.IntEnum):
    RED = 1


Point = collections.namedtuple("Point", "x y")

# ---- what cannot be sent ---------------------------------------------------------------------------------------------


class Custom:
    def __repr__(self) -> str:
        raise AssertionError("no code of a value may run")


class Text(str):
    __slots__ = ()


ordered = collections.OrderedDict(a=1)
looped: list[Any] = []
looped.append(looped)


@pytest.mark.parametrize(
    ("value", "text"),
    [
        ([{"x": [1, {(): {Custom}}]}], r"args\[0\]\[0\]\['x'\]\[1\]\[\(\)\]\.<item>: a value of type type cannot"),
        ({"k": Custom()}, r"args\[0\]\['k'\]: a value of type \S*\.Custom cannot be sent"),
        ([1, object()], r"args\[0\]\[1\]: a value of type object cannot be sent with msgpack"),
        ({1: {b"y": ordered}}, r"args\[0\]\[1\]\[b'y'\]: a collections\.OrderedDict, which would"),
        ((0, Point(1, 2)), r"args\[0\]\[1\]: a .*Point, which would arrive as a plain tuple"),
        ([Colour.RED], r"args\[0\]\[0\]: a .*Colour, which would arrive as a plain int"),
        ({"k": Text("x")}, r"args\[0\]\['k'\]: a .*Text, which would arrive as a plain str"),
        ({Text("x"): 1}, r"args\[0\]\.<key>: a .*Text"),
        ({(1, Text("x")): 1}, r"args\[0\]\.<key>\[1\]: a .*Text"),
        ({Decimal(1)}, r"args\[0\]\.<item>: a value of type decimal\.Decimal"),
        (collections.defaultdict(int), r"args\[0\]: a collections.defaultdict"),
        ([msgpack.ExtType(5, b"x")], r"args\[0\]\[0\]: a msgpack.ext.ExtType"),
        (msgpack.Timestamp(1), r"args\[0\]: a value of type msgpack.ext.Timestamp"),
        (["a", "\ud800"], r"args\[0\]\[1\]: a str that is not valid Unicode: surrogates not allowed at position 0"),
        ({"\ud800": 1}, r"args\[0\]\.<key>: a str that is not valid Unicode"),
        ([(), "\ud800"], r"args\[0\]\[1\]: a str that is not valid Unicode"),
        (2**9000, r"args\[0\]: an int of 9001 bits; the limit is 8191"),
        ({memoryview(b"x"): 1}, r"args\[0\]\.<key>: a memoryview as a key"),
        ({(memoryview(b"x"),)}, r"args\[0\]\.<item>\[0\]: a memoryview as a key"),
        ([np.array([None])], r"args\[0\]\[0\]: numpy data of type object"),
        (np.ma.array([1]), r"args\[0\]: a value of type numpy.ma.*MaskedArray"),
        (looped, r"args\[0\](\[0\]){63}: nested too deep: more than 64 containers"),
        ({"x" * 1000: object()}, r"args\[0\]\['x{39}\.\.\.\]: a value of type object"),
        ((i for i in ()), r"args\[0\]: a value of type generator"),
        (dict.fromkeys(i * (2**61 - 1) for i in range(100)), r"args\[0\]: a dict of 100 keys whose hashes collide"),
    ],
)  # fmt: skip
def test_fault_73_the_error_names_the_path(value: Any, text: str) -> None:
    buffers: list[Any] = []
    with pytest.raises(SerializationError, match=f"^{text}"):
        codec.encode_args((value,), buffers)
    with pytest.raises(SerializationError, match="^" + text.replace(r"args\[0\]", "value").replace("{63}", "{64}")):
        codec.encode_value(value, buffers)


def test_a_failed_payload_leaves_no_buffers() -> None:
    buffers: list[Any] = []
    for bad in (object(), "\ud800"):
        with pytest.raises(SerializationError):
            codec.encode_args((bytearray(5000), np.zeros(1000), bad), buffers)
        assert buffers == []
    codec.encode_args((bytearray(5000),), buffers)
    assert len(buffers) == 1


def test_depth_64_arrives_and_65_fails_here() -> None:
    def nested(levels: int, leaf: Any) -> Any:
        value = leaf
        for _ in range(levels):
            value = [value]
        return value

    for leaf in (1, 2**70):
        assert codec.decode_value(codec.encode_value(nested(64, leaf), []), None) == nested(64, leaf)
        with pytest.raises(SerializationError, match="nested too deep"):
            codec.encode_value(nested(65, leaf), [])
        assert codec.decode_args(codec.encode_args((nested(63, leaf),), []), None) == [nested(63, leaf)]
        with pytest.raises(SerializationError, match="nested too deep"):
            codec.encode_args((nested(64, leaf),), [])


def test_what_would_be_refused_there_fails_here() -> None:
    small = MsgpackCodec(max_object_bytes=10_000)
    for value in ([{}] * 200, [()] * 200):
        with pytest.raises(
            SerializationError, match=r"value: msgpack: a body of .* set max_object_bytes of MsgpackCodec"
        ):
            small.encode_value(value, [])
        with pytest.raises(SerializationError, match="args: msgpack: a body of"):
            small.encode_args((value,), [])
        body = codec.encode_value(value, [])
        with pytest.raises(SerializationError, match="as objects"):
            small.decode_value(body, None)
    assert small.encode_value([{}] * 100, []) == codec.encode_value([{}] * 100, [])


@pytest.mark.parametrize("number", [0, -1])
def test_the_budget_is_above_0(number: int) -> None:
    with pytest.raises(ConfigurationError, match="max_object_bytes must be above 0"):
        MsgpackCodec(number)


# ---- what a peer may send --------------------------------------------------------------------------------------------


def refused(body: bytes, text: str) -> None:
    for decode in (codec.decode_value, codec.decode_args):
        with pytest.raises(SerializationError, match=text):
            decode(body, None)


def test_row_61_invalid_utf_8() -> None:
    refused(b"\x91\xa2\xff\xfe", "cannot be decoded: 'utf-8' codec")


def test_row_61_keys_without_a_hash() -> None:
    refused(b"\x91\x81\x90\x01", "unhashable type: 'list'")
    refused(b"\x91\x81\x80\x01", "unhashable type: 'dict'")
    refused(b"\x92\x91\xc7\x00\x01\x81\x90\x01", "unhashable type: 'list'")


def test_row_61_repeated_keys() -> None:
    """A few are msgpack's business, of which the last counts. Many of ints are refused, many of texts are harmless."""
    assert codec.decode_value(b"\x82\x01\x02\x01\x03", None) == {1: 3}
    refused(b"\xdf\x00\x0f\x42\x40" + b"\x01\x02" * 1_000_000, "a map repeats its keys: 1000000 are one byte long")
    refused(b"\xdf\x00\x01\x86\xa0" + b"\xcc\xff\x02" * 100_000, "a map of 100000 keys whose hashes collide")
    assert codec.decode_value(b"\xdf\x00\x01\x86\xa0" + b"\xa1a\x02" * 100_000, None) == {"a": 2}


def test_row_61_nan_and_large_numbers() -> None:
    assert repr(
        codec.decode_value(b"\x93\xca\x7f\xc0\x00\x00\xcf" + b"\xff" * 8 + b"\xd3\x80" + bytes(7), None)
    ) == repr([float("nan"), 2**64 - 1, -(2**63)])


def test_row_61_bodies_that_the_guard_refuses_never_reach_the_unpacker() -> None:
    refused(b"\xdd\xff\xff\xff\xff", "msgpack, offset 0: 4294967295 items")
    refused(b"\x91" * 65 + b"\x01", "nested deeper than 64")
    refused(b"", "the body ends inside an item")
    refused(b"\x90\x90", "1 bytes follow the value")


@given(st.binary(max_size=80) | st.binary(max_size=80).map(lambda tail: b"\x9f" + tail), st.integers(0, 3))
def test_random_bytes_are_decoded_or_refused(body: bytes, count: int) -> None:
    """... and what is decoded can be sent again, apart from the order of a dict's repeated keys."""
    buffers = [memoryview(bytearray(10)) for _ in range(count)]
    try:
        value = codec.decode_value(body, buffers)
    except SerializationError:
        return
    assert exact(value)


@given(st.data())
def test_changed_bytes_are_decoded_or_refused(data: st.DataObject) -> None:
    buffers: list[Any] = []
    body = codec.encode_value(data.draw(values), buffers)
    at = data.draw(st.integers(0, len(body) - 1))
    changed = body[:at] + data.draw(st.binary(min_size=1, max_size=2)) + body[at + 1 :]
    try:
        codec.decode_value(changed, received(buffers))
    except SerializationError:
        pass
