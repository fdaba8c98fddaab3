"""What is packed in place of a value, and where the buffers go."""

from __future__ import annotations

from typing import Any

import msgpack
import pytest
from msgpack import ExtType

from rpcproto.serialization._extensions import Unencodable
from rpcproto.serialization._writer import Writer

np = pytest.importorskip("numpy")

TUPLE, SET, FROZENSET = (ExtType(code, b"") for code in (1, 2, 3))


def prepare(value: Any, depth: int = 64, careful: bool = False) -> tuple[Any, list[Any]]:
    buffers: list[Any] = []
    return Writer(msgpack.packb, buffers, careful).prepare(value, depth, False), buffers


@pytest.mark.parametrize("value", [None, True, 0, -(2**63), 2**64 - 1, 1.5, "x", b"x", b"x" * 65_536])
def test_msgpack_s_own_values_stay(value: Any) -> None:
    prepared, buffers = prepare(value)
    assert prepared is value
    assert buffers == []


def test_containers_are_copied_with_their_marks() -> None:
    value = [(1, [2]), {3}, frozenset([4]), {"k": (5,)}]
    prepared, _ = prepare(value)
    assert prepared == ((TUPLE, 1, (2,)), (SET, 3), (FROZENSET, 4), {"k": (TUPLE, 5)})
    assert value == [(1, [2]), {3}, frozenset([4]), {"k": (5,)}]


def test_keys_stay_hashable() -> None:
    prepared, _ = prepare({(1, (2, 3)): 1, frozenset([1]): 2, 2**64: 3})
    assert prepared == {(TUPLE, 1, (TUPLE, 2, 3)): 1, (FROZENSET, 1): 2, ExtType(4, b"\1" + bytes(8)): 3}


def test_arguments_are_an_array_without_a_mark() -> None:
    assert Writer(msgpack.packb, [], False).items(((1,), 2), 64) == ((TUPLE, 1), 2)


def test_small_data_is_in_the_description() -> None:
    for value, code in ((bytearray(b"x" * 4096), 8), (memoryview(b"x" * 4096), 9)):
        prepared, buffers = prepare(value)
        assert (prepared.code, msgpack.unpackb(prepared.data), buffers) == (code, [b"x" * 4096], [])


def test_large_data_is_numbered_in_order() -> None:
    first, second, third = bytearray(4097), b"x" * 65_537, np.zeros(1000)
    prepared, buffers = prepare([first, [second], {"k": third}])
    assert [msgpack.unpackb(item.data) for item in (prepared[0], prepared[1][0], prepared[2]["k"])] == [
        [0],
        [1],
        [2, "<f8", [1000], "C"],
    ]
    assert buffers[1] is second
    assert [len(buffer) for buffer in buffers] == [4097, 65_537, 8000]
    assert all(memoryview(buffer).format == "B" and memoryview(buffer).ndim == 1 for buffer in buffers)


def test_numbers_start_with_the_buffers_of_this_payload() -> None:
    buffers: list[Any] = [b"of someone else"]
    prepared = Writer(msgpack.packb, buffers, False).prepare(bytearray(5000), 64, False)
    assert msgpack.unpackb(prepared.data) == [0]
    assert len(buffers) == 2


def test_depth() -> None:
    for opening in ("[", "({'k':"):
        closing = {"[": "]", "({'k':": "},)"}[opening]
        levels = {"[": 1, "({'k':": 2}[opening]
        prepare(eval(opening * 6 + "1" + closing * 6), 6 * levels)
        with pytest.raises(Unencodable, match="nested too deep"):
            prepare(eval(opening * 6 + "1" + closing * 6), 6 * levels - 1)


@pytest.mark.parametrize("value", ["\ud800", "ab\udfff"])
def test_fault_73_text_is_looked_at_only_when_packing_failed(value: str) -> None:
    assert prepare(value) == (value, [])
    with pytest.raises(Unencodable, match=f"not valid Unicode: surrogates not allowed at position {len(value) - 1}"):
        prepare(value, careful=True)


def test_keys_that_become_equal() -> None:
    nan = complex("nan")
    with pytest.raises(Unencodable, match="several keys that are not numbers"):
        prepare({complex("nan"): 1, nan: 2})
    prepare({float("nan"): 1, float("nan"): 2})


def test_colliding_keys_fail_here_and_not_there() -> None:
    keys = [i * (2**61 - 1) for i in range(20)]
    with pytest.raises(Unencodable, match="a dict of 20 keys whose hashes collide"):
        prepare(dict.fromkeys(keys))
    with pytest.raises(Unencodable, match="a set of 20 items whose hashes collide"):
        prepare(set(keys))


def test_views_that_cannot_be_made_again() -> None:
    for value, text in (
        (memoryview(np.zeros(2, "f2")), "format 'e'"),
        (memoryview(np.zeros(2, ">f8")), "format '>d'"),
        (memoryview(np.zeros((2, 0))), "shape"),
    ):
        with pytest.raises(Unencodable, match=text):
            prepare(value)
    released = memoryview(b"x")
    released.release()
    with pytest.raises(Unencodable, match="released"):
        prepare(released)
