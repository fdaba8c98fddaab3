"""The guard in front of the unpacker: what it refuses, what it lets through, and that both its forms agree."""

from __future__ import annotations

from array import array
from types import ModuleType
from typing import Any

import msgpack
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from rpcproto.errors import ConfigurationError, SerializationError
from rpcproto.serialization import MsgpackCodec, prescan
from rpcproto.serialization import _layout as layout
from tests.serialization._forms import array32, load_python_form, map32, peak_of

MIB = 1024 * 1024


python_form = load_python_form(prescan)


def outcome(module: ModuleType, body: Any, *limits: int) -> int | str:
    try:
        found: int = module.scan(body, *(limits or (64, 256 * MIB)))
        return found
    except SerializationError as error:
        return str(error)


def refused(body: bytes, text: str) -> None:
    """Both forms refuse the body, from each kind of memory, and say the same."""
    for module in (prescan, python_form):
        for held in (body, memoryview(body), memoryview(bytearray(body))):
            with pytest.raises(SerializationError) as caught:
                module.check(held)
            assert text in str(caught.value)


# ---- well-formed bodies ----------------------------------------------------------------------------------------------

ITEMS = [
    b"\x00", b"\x7f", b"\xe0", b"\xff", b"\xc0", b"\xc2", b"\xc3", b"\xa0", b"\xa3abc", b"\xbf" + b"a" * 31,
    b"\xc4\x00", b"\xc4\x02ab", b"\xc5\x00\x02ab", b"\xc6\x00\x00\x00\x02ab",
    b"\xc7\x00\x01", b"\xc7\x02\x04ab", b"\xc8\x00\x02\x04ab", b"\xc9\x00\x00\x00\x02\x04ab",
    b"\xca1234", b"\xcb12345678", b"\xcc1", b"\xcd12", b"\xce1234", b"\xcf12345678",
    b"\xd01", b"\xd112", b"\xd21234", b"\xd312345678",
    b"\xd4\x04a", b"\xd5\x04ab", b"\xd6\x04abcd", b"\xd7\x04" + b"a" * 8, b"\xd8\x04" + b"a" * 16,
    b"\xd9\x03abc", b"\xda\x00\x03abc", b"\xdb\x00\x00\x00\x03abc",
    b"\x90", b"\x91\x01", b"\x9f" + b"\x01" * 15, b"\xdc\x00\x00", b"\xdc\x00\x01\x01", b"\xdd\x00\x00\x00\x01\x01",
    b"\x80", b"\x81\x01\x02", b"\x8f" + b"\x01" * 30, b"\xde\x00\x00", b"\xde\x00\x01\x01\x02",
    b"\xdf\x00\x00\x00\x01\x01\x02",
]  # fmt: skip
"""One item of each form, short and exact."""


@pytest.mark.parametrize("item", ITEMS, ids=bytes.hex)
def test_each_form_of_item(item: bytes) -> None:
    for body in (item, b"\x92\x01" + item, b"\x82\x01" + item + b"\x02" + item, b"\x91" * 20 + item):
        assert outcome(prescan, body) == outcome(python_form, body)
        prescan.check(body)
        prescan.check(memoryview(bytearray(body)))


@pytest.mark.parametrize("item", ITEMS, ids=bytes.hex)
def test_each_form_cut_off_anywhere(item: bytes) -> None:
    for size in range(len(item)):
        refused(item[:size], "msgpack, offset")
        refused(b"\x92\x01" + item[:size], "msgpack, offset")


@pytest.mark.parametrize("item", ITEMS, ids=bytes.hex)
def test_nothing_may_follow(item: bytes) -> None:
    refused(item + b"\x01", f"msgpack, offset {len(item)}: 1 bytes follow the value")


def test_every_first_byte_is_known() -> None:
    """Any byte followed by zeros is a value with something after it, except the one that is never used."""
    for first in range(256):
        result = outcome(prescan, bytes([first]) + bytes(100))
        assert result == outcome(python_form, bytes([first]) + bytes(100))
        assert ("starts no item" in str(result)) == (first == 0xC1)


# ---- hostile bodies --------------------------------------------------------------------------------------------------


def test_an_empty_body_is_refused() -> None:
    refused(b"", "msgpack, offset 0: the body ends inside an item")


def test_the_unused_byte_is_refused() -> None:
    refused(b"\x93\x01\xc1\x02", "msgpack, offset 2: the byte c1 starts no item")


@pytest.mark.parametrize("depth", [1000, 500])
def test_row_61_nested_headers_cost_no_memory(depth: int) -> None:
    """Arrays that announce 10,000 items, each in the one before: 66 MB in an unpacker without a guard."""
    body = array32(10_000) * depth + b"\x00" * 10_000
    refused(body, "nested deeper than 64")
    assert peak_of(prescan.check, body) < 16 * 1024
    assert peak_of(MsgpackCodec().decode_value, body, None) < 16 * 1024


def test_row_61_nesting_of_10_000() -> None:
    refused(b"\x91" * 10_000 + b"\x00", "msgpack, offset 64: nested deeper than 64")


def test_fault_81_repeated_array16_headers() -> None:
    refused(b"\xdc\xff\xff" * 24_333, "msgpack, offset 192: nested deeper than 64")
    refused(b"\xdc\xff\xff" * 100, "msgpack, offset 0: 65535 items or entries announced where 297 bytes remain")


def test_fault_81_nested_fixarrays() -> None:
    refused(b"\x91" * 100_000, "msgpack, offset 64: nested deeper than 64")
    refused(b"\x81\x01" * 100_000, "nested deeper than 64")


def test_fault_81_counts_of_2_to_the_32() -> None:
    for head in (array32(2**32 - 1), map32(2**32 - 1)):
        refused(head, "msgpack, offset 0: 4294967295 items or entries announced where 0 bytes remain")
        refused(head + bytes(1000), "4294967295 items or entries announced where 1000 bytes remain")
        refused(b"\x92\x01" + head + bytes(1000), "msgpack, offset 2")


def test_fault_81_counts_must_fit_what_remains() -> None:
    prescan.check(array32(1000) + bytes(1000))
    refused(array32(1001) + bytes(1000), "1001 items or entries announced where 1000 bytes remain")
    prescan.check(map32(500) + b"\xa0\x00" * 500)
    refused(map32(501) + b"\xa0\x00" * 500 + b"\xa0", "501 items or entries announced where 1001 bytes remain")


@pytest.mark.parametrize("size", [0, 1, 2, 3, 5, 15, 17, 255])
def test_fault_81_extension_types_of_odd_lengths(size: int) -> None:
    body = b"\xc7" + bytes([size, 4]) + bytes(size)
    prescan.check(body)
    refused(body[:-1], "msgpack, offset")
    refused(b"\xc8\xff\xff\x04" + bytes(size), "an item of 65536 bytes where")
    refused(b"\xc9\xff\xff\xff\xff\x04" + bytes(size), "an item of 4294967296 bytes where")  # + 1 must not wrap to 0


@pytest.mark.parametrize("first", [0xC6, 0xDB])
def test_fault_81_huge_texts(first: int) -> None:
    refused(bytes([first]) + b"\xff\xff\xff\xff" + bytes(100), "an item of 4294967295 bytes where 100 bytes remain")


def test_row_61_repeated_keys_of_one_byte() -> None:
    """There are 161: the ints, None, and True and False, which equal 1 and 0. Each once is a map as it should be."""
    once = b"".join(bytes([key]) + b"\x00" for key in (*range(128), *range(0xE0, 0x100), 0xC0, 0xC2, 0xC3))
    prescan.check(map32(163) + once)
    prescan.check(b"\x92" + (map32(163) + once) * 2)
    refused(map32(170) + b"\x01\x00" * 170, "a map repeats its keys: 170 are one byte long")
    refused(map32(10_000) + b"\x01\x02" * 10_000, "a map repeats its keys")
    assert peak_of(MsgpackCodec().decode_value, map32(10_000) + b"\x01\x02" * 10_000, None) < 16 * 1024


def test_depth_64_is_allowed_and_65_is_not() -> None:
    for opening, end in ((b"\x91", b"\x00"), (b"\x81\x01", b"\x00"), (b"\x91", b"\x90"), (b"\x91", b"\x80")):
        deep = 64 - (end != b"\x00")
        prescan.check(opening * deep + end)
        refused(opening * (deep + 1) + end, "nested deeper than 64")
    side_by_side = b"\x9f" + (b"\x91" * 63 + b"\x00") * 15
    prescan.check(side_by_side)


def test_depth_can_be_less() -> None:
    prescan.check(b"\x91\x91\x00", 2)
    with pytest.raises(SerializationError, match="offset 2: nested deeper than 2"):
        prescan.check(b"\x91\x91\x90", 2)
    for module in (prescan, python_form):
        for depth in (0, -1, 65):
            with pytest.raises(ConfigurationError, match="max_depth must be between 1 and 64"):
                module.check(b"\x00", depth)


def test_other_memory_is_read_as_bytes() -> None:
    prescan.check(bytearray(b"\x91\x01"))
    prescan.check(memoryview(array("H", [0x0101]))[:1].cast("B")[:1])
    prescan.check(memoryview(array("H", [0x9191, 0])).cast("B")[:3])
    with pytest.raises(TypeError):
        prescan.check("text")  # type: ignore[arg-type]


def test_the_memory_is_let_go() -> None:
    memory = bytearray(b"\x91\x01")
    prescan.check(memory)
    with pytest.raises(SerializationError):
        prescan.check(memoryview(memory)[:1])
    memory.append(1)


# ---- what scan tells -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("body", "found"),
    [
        (b"\x93\x01\xa1a\x80", 0),
        (b"\x92\xc7\x00\x01\x01", layout.HAS_EXTENSIONS | layout.HAS_MARKS),
        (b"\x91\xd4\x04\x01", layout.HAS_EXTENSIONS),
        (b"\xd6\xff\x00\x00\x00\x00", layout.HAS_EXTENSIONS),
        (b"\x82\x01\x02\xc4\x01a\x03", 0),  # few keys, and none that contains others
        (b"\x81\x90\x01", layout.HAS_RISKY_KEYS),
        (b"\x81\x80\x01", layout.HAS_RISKY_KEYS),
        (b"\x81\x01\x90", 0),  # a list as a value
        (b"\x81\xd4\x04\x01\x01", layout.HAS_EXTENSIONS | layout.HAS_RISKY_KEYS),
        (b"\x82\x91\x01\x01\x01\x01", layout.HAS_RISKY_KEYS),
        (b"\x82\x01\x91\x01\x90\x01", layout.HAS_RISKY_KEYS),  # the second key, after a list
        (b"\xde\x00\x40" + b"\x01\x02" * 64, 0),
        (b"\xde\x00\x41" + b"\x01\x02" * 65, layout.HAS_RISKY_KEYS),
        (b"\xde\x00\x41" + b"\xa1a\x02" * 65, 0),
        (b"\xde\x00\x41" + b"\xd9\x01a\x02" * 65, 0),
        (b"\xde\x00\x41" + b"\xc4\x01a\x02" * 65, 0),
        (b"\xde\x00\x41" + b"\xa1a\x02" * 64 + b"\xc0\x02", layout.HAS_RISKY_KEYS),
        (b"\xde\x00\x41" + b"\xa1a\x91\x07" * 65, 0),  # ints, but not as keys
        (b"\xdc\x13\x88" + b"\x90" * 5000, layout.HAS_MANY_CONTAINERS),
        (b"\xdc\x13\x87" + b"\x90" * 4999, 0),
    ],
)
def test_what_scan_tells(body: bytes, found: int) -> None:
    assert outcome(prescan, body) == found
    assert outcome(python_form, body) == found


# ---- properties ------------------------------------------------------------------------------------------------------

leaves = (
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**64 - 1)
    | st.floats()
    | st.text(max_size=40)
    | st.binary(max_size=300)
    | st.builds(msgpack.ExtType, st.integers(0, 127), st.binary(max_size=20))
    | st.builds(msgpack.Timestamp, st.integers(-(2**60), 2**60), st.integers(0, 10**9 - 1))
)
values = st.recursive(
    leaves,
    lambda inner: st.lists(inner, max_size=20) | st.dictionaries(st.text(max_size=3) | st.integers(), inner),
    max_leaves=15,
)


def packed(value: Any) -> bytes | None:
    try:
        return msgpack.packb(value)
    except OverflowError:  # an int as a key
        return None


@given(values)
def test_whatever_is_packed_is_accepted(value: Any) -> None:
    body = packed(value)
    if body is not None:
        prescan.check(body)
        assert outcome(prescan, body) == outcome(python_form, body)


def unpack(body: bytes) -> None:
    """Unpack what was accepted: it may be refused for its content, never for its structure, and never crash."""
    try:
        msgpack.unpackb(body, strict_map_key=False, timestamp=0)
    except (msgpack.FormatError, msgpack.StackError, msgpack.ExtraData) as error:
        raise AssertionError(f"accepted, but not well-formed: {body!r}") from error
    except (ValueError, TypeError, OverflowError):
        pass


@given(st.binary(max_size=64) | st.binary(max_size=64).map(lambda tail: b"\x9f" + tail))
@example(b"\xc9\xff\xff\xff\xff\x01")
@example(b"\xd6\xff\x00\x00\x00\x00")
def test_random_bytes_have_one_verdict(body: bytes) -> None:
    """Both forms agree to the letter, and what they accept is well-formed to the unpacker, what they refuse is not."""
    result = outcome(prescan, body)
    assert result == outcome(python_form, body)
    assert result == outcome(prescan, memoryview(bytearray(body)))
    if isinstance(result, int):
        unpack(body)
    elif "nested deeper" not in result:
        with pytest.raises(Exception):  # noqa: B017  whatever the unpacker has for it
            msgpack.unpackb(body, strict_map_key=False, ext_hook=lambda code, data: (code, data))


@given(values, st.data())
def test_a_changed_byte_has_one_verdict(value: Any, data: st.DataObject) -> None:
    body = packed(value)
    if not body:
        return
    at = data.draw(st.integers(0, len(body) - 1))
    changed = body[:at] + data.draw(st.binary(min_size=1, max_size=1)) + body[at + 1 :]
    result = outcome(prescan, changed)
    assert result == outcome(python_form, changed)
    if isinstance(result, int):
        unpack(changed)


@given(st.binary(max_size=40), st.integers(1, 64), st.integers(0, 2000))
def test_limits_have_one_verdict(body: bytes, depth: int, objects: int) -> None:
    assert outcome(prescan, body, depth, objects) == outcome(python_form, body, depth, objects)
