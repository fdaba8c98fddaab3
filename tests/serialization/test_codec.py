"""The contract of codecs, ``flatten``, and the raw codec."""

from __future__ import annotations

import mmap
from array import array
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcproto.errors import SerializationError
from rpcproto.serialization.codec import INLINE_MAX, SNAPSHOT_MAX, Codec, RawCodec, flatten

np = pytest.importorskip("numpy")

raw = RawCodec()


def through(value: Any) -> Any:
    """Encode, receive as the wire would, decode."""
    buffers: list[Any] = []
    body = raw.encode_value(value, buffers)
    assert len(buffers) <= 1
    assert all(len(buffer) > INLINE_MAX for buffer in buffers)
    received = [memoryview(bytearray(buffer)) for buffer in buffers]
    return raw.decode_value(bytes(body), received or None)


# ---- flatten -------------------------------------------------------------------------------------------------------


def test_bytes_are_taken_as_they_are() -> None:
    for value in (b"", b"x", b"x" * 1_000_000):
        assert flatten(value) is value


@pytest.mark.parametrize("size", [0, 1, SNAPSHOT_MAX])
def test_fault_8_a_small_mutable_value_is_copied(size: int) -> None:
    value = bytearray(b"a" * size)
    flat = flatten(value)
    assert type(flat) is bytes
    value[:] = b"b" * size
    assert flat == b"a" * size
    value.append(1)  # not pinned


def test_fault_8_a_large_mutable_value_is_pinned() -> None:
    value = bytearray(SNAPSHOT_MAX + 1)
    flat = flatten(value)
    assert isinstance(flat, memoryview)
    with pytest.raises(BufferError):
        value.append(1)
    value[0] = 7  # documented: a change is a change of what is sent
    assert flat[0] == 7
    del flat
    value.append(1)


def test_fault_8_mmap_and_array_are_pinned() -> None:
    with mmap.mmap(-1, 2 * mmap.PAGESIZE) as memory:
        flat = flatten(memory)
        assert isinstance(flat, memoryview)
        with pytest.raises(BufferError):
            memory.close()
        flat.release()
    numbers = array("d", range(1000))
    flat = flatten(numbers)
    with pytest.raises(BufferError):
        numbers.append(1.0)
    assert flat is not None
    assert bytes(flat) == numbers.tobytes()


def test_fault_6_typed_and_many_dimensional_views_become_flat_bytes() -> None:
    values: list[Any] = [
        np.arange(1_000_000, dtype=np.float64).reshape(1000, 1000),
        array("H", range(10_000)),
        memoryview(array("d", range(1000))),
        np.arange(5000, dtype=">f8"),  # a format that memoryview.cast does not know
        np.arange(5000, dtype=np.float16),
        np.zeros(5000, "U3"),
    ]
    for value in values:
        flat = flatten(value)
        assert flat is not None
        assert memoryview(flat).format == "B"
        assert memoryview(flat).ndim == 1
        assert len(flat) == memoryview(value).nbytes
        assert bytes(flat) == memoryview(value).tobytes()


def test_fault_7_what_is_not_contiguous_is_copied_in_c_order() -> None:
    matrix = np.arange(40_000, dtype=np.int32).reshape(100, 400)
    views = [matrix[:, ::2], matrix[::-1], matrix.T, np.asfortranarray(matrix), np.broadcast_to(matrix[0], (50, 400))]
    for view in views:
        assert flatten(view) == view.tobytes()
    data = bytes(range(256)) * 100
    assert flatten(memoryview(data)[::2]) == data[::2]
    assert flatten(memoryview(data)[::-1]) == data[::-1]


def test_fault_10_empty_buffers() -> None:
    for value in (bytearray(), memoryview(b""), array("d"), np.empty((2, 0)), np.empty(0), memoryview(b"ab")[1:1]):
        assert flatten(value) == b""


def test_other_values_are_not_flattened() -> None:
    for value in ("text", 1, None, [b"x"], object()):
        assert flatten(value) is None


def test_a_buffer_that_cannot_be_read() -> None:
    view = memoryview(b"x" * 10_000)
    view.release()
    with pytest.raises(SerializationError, match="memoryview cannot be read: operation forbidden on released"):
        flatten(view)
    with pytest.raises(SerializationError, match="ndarray cannot be read"):
        flatten(np.zeros(1000, "M8[ns]"))


# ---- raw -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 1, SNAPSHOT_MAX, SNAPSHOT_MAX + 1, INLINE_MAX])
def test_a_value_up_to_the_limit_is_the_body(size: int) -> None:
    data = bytes(size)
    buffers: list[Any] = []
    assert raw.encode_args((data,), buffers) is data
    assert buffers == []
    for value in (data, bytearray(data), memoryview(data), array("b", data), np.frombuffer(data, np.uint8)):
        result = through(value)
        assert type(result) is bytes
        assert result == data


def test_a_larger_value_is_the_only_buffer() -> None:
    data = bytes(INLINE_MAX + 1)
    buffers: list[Any] = []
    assert raw.encode_args((data,), buffers) == b""
    assert buffers[0] is data
    for value in (data, bytearray(data), memoryview(data), array("b", data), np.frombuffer(data, np.uint8)):
        result = through(value)
        assert type(result) is memoryview
        assert not result.readonly
        assert result == data


def test_fault_11_sizes_are_counted_in_bytes() -> None:
    buffers: list[Any] = []
    raw.encode_value(memoryview(array("d", range(10_000))), buffers)
    assert [len(buffer) for buffer in buffers] == [80_000]


def test_a_large_value_arrives_in_the_memory_it_was_received_into() -> None:
    memory = memoryview(bytearray(INLINE_MAX + 1))
    (value,) = raw.decode_args(b"", [memory])
    assert value is memory


@pytest.mark.parametrize("value", ["text", 1, None, [b"x"]])
def test_what_is_not_bytes_like_is_named(value: Any) -> None:
    text = f"raw takes one bytes-like value, not {type(value).__name__}"
    with pytest.raises(SerializationError, match=text):
        raw.encode_value(value, [])
    with pytest.raises(SerializationError, match=text):
        raw.encode_args((value,), [])


@pytest.mark.parametrize("args", [(), (b"x", b"y")])
def test_one_argument_is_needed(args: tuple[Any, ...]) -> None:
    with pytest.raises(SerializationError, match=f"raw takes one bytes-like value, not {len(args)} arguments"):
        raw.encode_args(args, [])


def test_a_body_that_is_a_view_arrives_as_bytes() -> None:
    assert type(raw.decode_value(memoryview(bytearray(b"abc")), [])) is bytes


@pytest.mark.parametrize(
    ("body", "sizes", "text"),
    [
        (bytes(INLINE_MAX + 1), [], "above 65536 it must be a buffer"),
        (b"x", [INLINE_MAX + 1], "one or the other"),
        (b"", [INLINE_MAX + 1] * 2, "one or the other"),
        (b"", [INLINE_MAX], "up to 65536 it is the body"),
    ],
)
def test_a_message_that_the_encoder_does_not_make_is_refused(body: bytes, sizes: list[int], text: str) -> None:
    with pytest.raises(SerializationError, match=text):
        raw.decode_value(body, [memoryview(bytearray(size)) for size in sizes])


@given(st.binary(max_size=200), st.integers(1, 1000), st.sampled_from([bytes, bytearray, memoryview]))
def test_any_bytes_arrive(data: bytes, times: int, kind: Any) -> None:
    assert through(kind(data * times)) == data * times


# ---- codecs of an application --------------------------------------------------------------------------------------


class Reversed(Codec):
    """What an application may write."""

    def __init__(self) -> None:
        super().__init__("reversed", 200)
        self.calls = 0

    def encode_value(self, value: Any, buffers: list[Any]) -> bytes:
        self.calls += 1
        return bytes(reversed(value))


def test_a_codec_can_be_derived_in_python() -> None:
    codec = Reversed()
    assert codec.encode_value(b"abc", []) == b"cba"
    assert codec.calls == 1
    assert repr(codec) == "<Reversed 'reversed' id=200>"
    with pytest.raises(NotImplementedError, match=r"Reversed\.decode_args"):
        codec.decode_args(b"", None)


def test_the_base_does_nothing() -> None:
    codec = Codec("none", 129)
    for call in (codec.encode_value, codec.decode_value, codec.decode_args):
        with pytest.raises(NotImplementedError):
            call(b"", [])
    with pytest.raises(NotImplementedError):
        codec.encode_args((), [])
