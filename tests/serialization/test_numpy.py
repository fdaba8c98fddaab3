"""Arrays and scalars of numpy."""

from __future__ import annotations

import subprocess
import sys
from typing import Any

import pytest

from rpcproto.errors import SerializationError
from rpcproto.serialization import MsgpackCodec
from rpcproto.serialization import _numpy as arrays
from rpcproto.serialization._extensions import Unencodable

np = pytest.importorskip("numpy")
hypothesis_numpy = pytest.importorskip("hypothesis.extra.numpy")

from hypothesis import given  # noqa: E402
from hypothesis import strategies as st  # noqa: E402


def through(array: Any) -> Any:
    data, description = arrays.encode_array(array)
    return arrays.decode_array(memoryview(bytearray(data)), *description)


def same(left: Any, right: Any) -> bool:
    """Equal to the last bit: also type, shape, byte order and NaN."""
    return (
        type(left) is type(right)
        and left.dtype == right.dtype
        and left.dtype.str == right.dtype.str
        and left.shape == right.shape
        and left.tobytes() == right.tobytes()
    )


big = np.arange(6000, dtype=np.float64)

ARRAYS = [
    np.arange(10),
    big.reshape(60, 100),
    np.array(5.0),  # no dimension
    np.array(b"abc"),
    np.empty(0),
    np.empty((2, 0)),
    np.empty((0, 3), order="F"),
    np.zeros((1,) * 32),
    np.array([True, False]),
    np.arange(5000, dtype=">i4"),
    np.arange(5000, dtype=np.float16),
    np.array([1 + 2j], np.complex64),
    np.array(["a", "bc", ""]),
    np.array([b"a", b"bc\0"]),
    np.array(["2024-01-01", "NaT"], "M8[ns]"),
    np.array([1, 2], "m8[D]"),
    np.array([1, 2], "m8[25s]"),
    np.array([b"ab"], "V2"),
    np.array([np.nan, -0.0, np.inf]),
    np.longdouble([1.5]),
]


@pytest.mark.parametrize("array", ARRAYS, ids=lambda array: f"{array.dtype}{array.shape}")
def test_fault_10_arrays_arrive_as_they_were(array: Any) -> None:
    assert same(through(array), array)


@pytest.mark.parametrize(
    "array",
    [
        big.reshape(60, 100)[:, ::2],
        big[::-1],
        big.reshape(60, 100)[::3, 5:],
        np.broadcast_to(big[:100], (60, 100))[:, ::-1],
        big.reshape(10, 6, 100).transpose(1, 0, 2),
        np.lib.stride_tricks.as_strided(big, (1000, 3), (8, 8)),
    ],
    ids=str,
)
def test_fault_7_what_is_not_contiguous_is_copied(array: Any) -> None:
    data, description = arrays.encode_array(array)
    assert description[2] == "C"
    assert data.contiguous
    assert same(through(array), array)


def test_fortran_order_is_kept_without_a_copy() -> None:
    array = np.asfortranarray(big.reshape(60, 100))
    data, description = arrays.encode_array(array)
    assert description == ["<f8", [60, 100], "F"]
    assert np.shares_memory(np.asarray(data), array)
    result = through(array)
    assert result.flags.f_contiguous
    assert same(result, array)


def test_large_arrays_are_not_copied() -> None:
    array = np.zeros(1000)
    data, description = arrays.encode_array(array)
    array[3] = 1.0  # documented: seen by the peer until the call is over
    memory = memoryview(bytearray(data))
    result = arrays.decode_array(memory, *description)
    assert result[3] == 1.0
    assert np.shares_memory(result, np.asarray(memory))
    assert result.flags.writeable


def test_fault_8_small_arrays_are_copied() -> None:
    array = np.zeros(512)
    data, _ = arrays.encode_array(array)
    assert type(data) is bytes
    array[3] = 1.0
    assert data == bytes(4096)


def test_read_only_arrays_can_be_sent() -> None:
    array = np.zeros(1000)
    array.flags.writeable = False
    assert same(through(array), array)


@pytest.mark.parametrize(
    "array",
    [
        np.array([{}], object),
        np.zeros(2, [("a", "i4"), ("b", "f8")]),
        np.zeros(2, [("a", object)]),
        np.zeros(2, "V0"),
    ],
    ids=lambda array: str(array.dtype),
)
def test_objects_and_records_are_refused(array: Any) -> None:
    with pytest.raises(Unencodable, match="numpy data of type"):
        arrays.encode_array(array)


def test_only_numpy_s_own_class_is_an_array() -> None:
    assert arrays.is_array(np.zeros(1))
    for value in (np.ma.array([1]), np.zeros(1).view(np.recarray), np.float64(1), [1], memoryview(b"")):
        assert not arrays.is_array(value)
    assert arrays.is_scalar(np.float64(1))
    assert not arrays.is_scalar(1.0)


SCALARS = [
    np.int64(1), np.int8(-1), np.uint64(2**64 - 1), np.float16(1.5), np.float32(0.1), np.float64("nan"),
    np.longdouble(1.5), np.bool_(True), np.complex64(1j),
    np.datetime64("2024-01-01"), np.datetime64("NaT", "us"), np.timedelta64(3, "s"),
]  # fmt: skip


@pytest.mark.parametrize("value", SCALARS, ids=repr)
def test_fault_73_scalars(value: Any) -> None:
    assert same(arrays.decode_scalar(*arrays.encode_scalar(value)), value)


@pytest.mark.parametrize(
    "value", [np.str_("a\0"), np.bytes_(b"a\0"), np.void(b"ab"), np.zeros(1, [("a", "i4")])[0]], ids=repr
)
def test_scalars_that_lose_something_are_refused(value: Any) -> None:
    with pytest.raises(Unencodable, match="convert it to a Python type"):
        arrays.encode_scalar(value)


@given(
    hypothesis_numpy.arrays(
        hypothesis_numpy.scalar_dtypes()
        | hypothesis_numpy.unicode_string_dtypes()
        | hypothesis_numpy.byte_string_dtypes(),
        hypothesis_numpy.array_shapes(min_dims=0, min_side=0),
    ),
    st.booleans(),
)
def test_any_array(array: Any, turned: bool) -> None:
    array = array.T[..., ::-1] if turned and array.ndim else array
    assert same(through(array), array)


# ---- what a peer may send --------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "O",
        "|O8",
        "object",
        "i4,f8",
        "(1000000000,)i4",
        "{'names':['a'],'formats':['O']}",
        "<f8 ",
        "",
        "f8",
        "<m8",
        "<M8",
        "<V2,O",
        7,
        None,
        ["<f8"],
    ],
    ids=repr,
)
def test_types_are_not_numpy_s_language(text: Any) -> None:
    with pytest.raises(SerializationError, match="unknown type of array"):
        arrays.decode_array(memoryview(b"12345678"), text, [1], "C")


@pytest.mark.parametrize("text", ["<f3", "<i99", "<M8[xx]", "|b2", "<U999999999"])
def test_types_that_numpy_does_not_have(text: str) -> None:
    with pytest.raises(SerializationError, match="msgpack: "):
        arrays.decode_array(memoryview(b"12345678"), text, [1], "C")


@pytest.mark.parametrize(
    ("shape", "order"),
    [
        ([2], "C"), ([], "X"), ([1], None), ("1", "C"), (None, "C"), ([1] * 33, "C"), ([-1], "C"), ([1.0], "C"),
        ([True], "C"), ([0], "C"), ([2**63], "C"), ([2**62, 2**62], "C"), ([2**40, 0], "C"), ([[1]], "C"),
    ],
)  # fmt: skip
def test_shapes_that_do_not_fit(shape: Any, order: Any) -> None:
    with pytest.raises(SerializationError, match="msgpack: "):
        arrays.decode_array(memoryview(bytearray(8)), "<f8", shape, order)


def test_a_shape_that_is_too_large_to_be_empty() -> None:
    with pytest.raises((SerializationError, ValueError)):
        arrays.decode_array(memoryview(b""), "<f8", [2**62, 2**62, 0], "C")


@pytest.mark.parametrize(("text", "data"), [("<f8", b"1234"), ("<U1", b"1234"), ("<f8", None), ("|O8", b"12345678")])
def test_malformed_scalars(text: str, data: Any) -> None:
    with pytest.raises(SerializationError, match="msgpack: "):
        arrays.decode_scalar(text, data)


# ---- numpy is optional -----------------------------------------------------------------------------------------------


def run_python(code: str) -> str:
    done = subprocess.run([sys.executable, "-W", "error", "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_numpy_is_not_imported_before_an_array_arrives() -> None:
    buffers: list[Any] = []
    body = bytes(MsgpackCodec().encode_value([np.arange(3)], buffers))
    run_python(
        "import sys; from rpcproto.serialization import MsgpackCodec; codec = MsgpackCodec()\n"
        "codec.encode_value((1, {2}, memoryview(b'x')), [])\n"
        "assert 'numpy' not in sys.modules\n"
        f"assert codec.decode_value({body!r}, None)[0].tolist() == [0, 1, 2]\n"
        "assert 'numpy' in sys.modules\n"
    )


def test_without_numpy_an_array_is_an_error() -> None:
    body = bytes(MsgpackCodec().encode_value([np.arange(3)], []))
    run_python(
        "import sys; sys.modules['numpy'] = None\n"
        "from rpcproto.serialization import MsgpackCodec\n"
        f"try: MsgpackCodec().decode_value({body!r}, None)\n"
        "except ValueError as error: assert 'numpy is not installed here' in str(error), error\n"
        "else: raise AssertionError\n"
        "MsgpackCodec().encode_value((1, 2), [])\n"
    )
