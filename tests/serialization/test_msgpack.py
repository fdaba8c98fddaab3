"""The codec as its users see it: exact round trips, no copies, and nothing shared between calls."""

from __future__ import annotations

import gc
import re
import threading
from array import array
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import msgpack
import pytest
from hypothesis import given

from rpcproto.errors import SerializationError
from rpcproto.serialization import Codec
from rpcproto.serialization import _layout as layout
from rpcproto.serialization import msgpack as module

np = pytest.importorskip("numpy")

from tests.serialization._values import codec, exact, received, through, values  # noqa: E402

VALUES: list[Any] = [
    None, True, False, 0, -1, 127, 128, 255, 256, 65_535, 65_536, 2**32, 2**63, 2**64 - 1, -32, -33, -128, -129,
    -(2**63), 2**64, -(2**63) - 1, 10**400, 0.0, -0.0, 1e300, float("inf"), float("nan"), 1 + 2j,
    "", "x", "ä€😀", "\0", "x" * 70_000,
    b"", b"x", b"\xff" * 300, b"x" * 65_536, b"x" * 65_537, b"x" * 1_400_000,
    bytearray(), bytearray(b"x"), bytearray(4096), bytearray(4097), bytearray(70_000),
    memoryview(b""), memoryview(bytearray()), memoryview(b"x"), memoryview(bytes(4097)),
    memoryview(array("d", range(10))), memoryview(array("H", range(9000))), memoryview(array("d")),
    memoryview(np.arange(6.0).reshape(2, 3)), memoryview(np.arange(6000.0).reshape(60, 100)), memoryview(np.array(1.5)),
    memoryview(b"abcdef").cast("c"), memoryview(np.array([True, False])),
    [], [[]], [1, [2, [3]]], (), (1,), ((),), [()], ([],), (1, (2, [3, (4,)])),
    {}, {"a": {}}, {"a": 1, "b": [1, 2, 3], "s": "x"}, {1: 2}, {(1, 2): 3}, {2**70: {(): ()}},
    {None: 1, True: 2, 1.5: 3, b"k": 4, "k": 5, (1, ("x",)): 6, frozenset([1]): 7},
    {datetime(2024, 1, 1, tzinfo=UTC): 1, 1j: 2, np.int64(5): 3}, {b"x" * 70_000: 1},
    set(), {1, 2, 3}, frozenset(), frozenset([("a", 1), b"x"]), {frozenset([1]), frozenset()}, [{(1, 2)}],
    datetime(2024, 1, 1), datetime(2024, 1, 1, tzinfo=UTC),  # noqa: DTZ001  naive on purpose
    datetime(2024, 1, 1, tzinfo=timezone(timedelta(hours=-5))),
    np.int64(1), np.float32(0.1), np.bool_(True), np.datetime64("2024-01-01"), [np.float64(1.5), 1.5],
    np.arange(10), {"x": np.zeros((100, 100)), "y": [np.empty((2, 0)), (np.array(3),)]},
    np.arange(5000, dtype=">u2")[::3],
    [b"a", bytearray(5000), np.arange(5000), b"b" * 70_000, memoryview(bytes(5000))],
]  # fmt: skip


@pytest.mark.parametrize("value", VALUES, ids=[f"{at} {type(value).__name__}" for at, value in enumerate(VALUES)])
def test_fault_73_values_arrive_as_they_were(value: Any) -> None:
    assert exact(value)


def test_fault_7_views_that_are_not_contiguous_arrive_in_c_order() -> None:
    data = bytes(range(256)) * 100
    assert through(memoryview(data)[::2]) == data[::2]
    view = memoryview(np.arange(40_000).reshape(100, 400)[:, ::-3])
    result = through(view)
    assert (result.format, result.shape, result.tobytes()) == (view.format, view.shape, view.tobytes())


def test_fault_10_buffers_of_no_size() -> None:
    for count in (0, 1, 3):
        assert exact([np.empty(0), bytearray(), memoryview(b"")] * count)


def test_fault_75_large_bodies() -> None:
    assert exact(list(range(100_000)))
    assert exact(["x" * 1_400_000])
    assert exact({f"key-{i}": i for i in range(100_000)})
    assert exact(dict.fromkeys(range(100_000)))
    assert exact([(i, "a") for i in range(10_000)])


def test_fault_13_many_small_buffers_are_one_body() -> None:
    buffers: list[Any] = []
    body = codec.encode_value([bytearray(16)] * 10_000, buffers)
    assert buffers == []
    assert codec.decode_value(body, None) == [bytearray(16)] * 10_000


def test_buffers_arrive_on_the_memory_they_were_received_into() -> None:
    buffers: list[Any] = []
    array_in, view_in = np.zeros(1000), memoryview(bytes(5000))
    body = codec.encode_args((array_in, view_in), buffers)
    memory = received(buffers)
    assert memory is not None
    array_out, view_out = codec.decode_args(body, memory)
    memory[0][:8] = np.float64(7.0).tobytes()
    memory[1][0] = 9
    assert array_out[0] == 7.0
    assert view_out[0] == 9
    array_out[1] = 3.0
    view_out[1] = 1
    assert memory[0][8:16] == np.float64(3.0).tobytes()


def test_large_values_are_not_copied_when_they_are_sent() -> None:
    array_in, large = np.zeros(1000), b"x" * 100_000
    buffers: list[Any] = []
    codec.encode_args((array_in, large), buffers)
    assert np.shares_memory(np.asarray(buffers[0]), array_in)
    assert buffers[1] is large


def test_arguments_are_an_array() -> None:
    assert codec.encode_args((), []) == b"\x90"
    assert codec.decode_args(b"\x90", None) == []
    assert codec.encode_args((1, "x"), []) == msgpack.packb([1, "x"])
    for body in (b"\x01", b"\x80", b"\xc0", b"\xa1x"):
        with pytest.raises(SerializationError, match="the arguments must be an array, not a"):
            codec.decode_args(body, None)


def test_plain_payloads_are_plain_msgpack() -> None:
    value = {"a": 1, "b": [1, 2, 3], "s": "x", "t": None, "f": 1.5, "y": b"z", 5: {}}
    assert codec.encode_value(value, []) == msgpack.packb(value)


@given(values)
def test_whatever_the_table_holds_arrives_as_it_was(value: Any) -> None:
    assert exact(value)


# ---- state -----------------------------------------------------------------------------------------------------------


def test_encoding_can_start_while_encoding_is_under_way() -> None:
    """The garbage collector may run anything while a payload is packed."""
    inner: list[bytes] = []

    class Sender:
        def __del__(self) -> None:
            inner.append(bytes(codec.encode_value({"from": "a finaliser", "n": [1, (2,)]}, [])))

    for _ in range(50):
        cycle: list[Any] = [Sender()]
        cycle.append(cycle)
        del cycle
        value = {"items": [{"k": [i]} for i in range(2000)], "t": (1, 2)}
        body = codec.encode_value(value, [])
        assert codec.decode_value(body, None) == value
    gc.collect()
    assert set(inner) == {bytes(codec.encode_value({"from": "a finaliser", "n": [1, (2,)]}, []))}
    assert len(inner) == 50


def test_threads_share_a_codec() -> None:
    failures: list[Any] = []

    def work(number: int) -> None:
        value = {"n": number, "items": [(number, i) for i in range(50)], "plain": [number] * 50}
        if any(codec.decode_value(codec.encode_value(value, []), None) != value for _ in range(100)):
            failures.append(number)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_a_failure_leaves_nothing_behind_in_the_packer() -> None:
    for _ in range(3):
        with pytest.raises(SerializationError):
            codec.encode_value(["before", "\ud800"], [])
        assert codec.encode_value([1], []) == b"\x91\x01"


def test_a_decoded_value_does_not_hold_the_body() -> None:
    memory = bytearray(codec.encode_value(["text", b"bytes", {"k": "v"}, (bytearray(b"x"), np.zeros(3))], []))
    value = codec.decode_value(memoryview(memory), None)
    memory.append(1)  # would fail if a view were left
    memory[:] = bytes(len(memory))
    assert value[:3] == ["text", b"bytes", {"k": "v"}]


@pytest.mark.parametrize("enabled", [True, False])
@pytest.mark.parametrize(
    "body", [b"\xdc\x27\x10" + b"\x90" * 10_000, b"\xdc\x27\x10" + b"\x90" * 9_999 + b"\x81\x90\x01"]
)
def test_the_garbage_collector_is_left_as_it_was(enabled: bool, body: bytes) -> None:
    was_enabled = gc.isenabled()
    try:
        (gc.enable if enabled else gc.disable)()
        try:
            codec.decode_value(body, None)
        except SerializationError:
            pass
        assert gc.isenabled() == enabled
    finally:
        (gc.enable if was_enabled else gc.disable)()


def test_it_is_a_codec() -> None:
    assert isinstance(codec, Codec)
    assert (codec.name, codec.id, codec.max_object_bytes) == ("msgpack", 2, 256 * 1024 * 1024)


def test_the_module_lists_every_extension_type() -> None:
    assert module.__doc__ is not None
    rows = re.findall(r"^(-?\d+) +\w+ ", module.__doc__, re.MULTILINE)
    assert [int(number) for number in rows] == [layout.TIMESTAMP, *range(layout.TUPLE, layout.SCALAR_OF_NUMPY + 1)]
