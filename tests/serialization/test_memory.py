"""The Python bodies; the C bodies are tested through ``prescan`` and ``flood``."""

from __future__ import annotations

from array import array

from rpcproto.serialization import _memory


def test_address_is_the_object_itself() -> None:
    data = b"\x01\x02\x03\x04\x05"
    assert _memory.address(data) is data
    numbers = array("q", [1, 2])
    assert _memory.integers(numbers) is numbers


def test_numbers_are_big_endian() -> None:
    data = b"\x01\x02\x03\x04\x05"
    for held in (data, memoryview(data)):
        assert _memory.big_endian(held, 0, 1) == 1
        assert _memory.big_endian(held, 1, 2) == 0x0203
        assert _memory.big_endian(held, 1, 4) == 0x02030405
