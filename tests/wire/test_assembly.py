"""A message that comes in pieces: where its bytes go, whatever memory the hook gives and however they are cut."""

from __future__ import annotations

import array
import itertools
import mmap
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcproto.wire import _tuning as tuning
from rpcproto.wire.assembly import Assembly
from rpcproto.wire.spec import FrameType
from tests.wire import frames
from tests.wire.feeding import START, RecordingSink, feed, new_decoder, push


def assembly(body_size: int, sizes: list[int] | None = None) -> Assembly:
    return Assembly(FrameType.REQUEST, 1, 1, 0, body_size, sizes, body_size + sum(sizes or []))


def test_a_new_one_is_undecided() -> None:
    message = assembly(10, [5])
    assert (message.state, message.total, message.expected, message.received) == (tuning.UNDECIDED, 15, 15, 0)
    message.admit()
    assert message.state == tuning.ADMITTED
    message.discard()
    assert message.state == tuning.DISCARDED


@pytest.mark.parametrize(
    ("body", "sizes", "segments"),
    [
        (10, None, [10]),
        (0, None, []),
        (10, [], [10]),
        (0, [5, 0, 7], [5, 0, 7]),
        (3, [0], [3, 0]),
    ],
)
def test_the_pieces_of_memory_it_asks_for(body: int, sizes: list[int] | None, segments: list[int]) -> None:
    assert assembly(body, sizes).segment_sizes() == segments


@pytest.mark.parametrize(
    ("views", "said"),
    [
        ([bytearray(10)], "returned 1 buffers where 2"),
        ([bytearray(10), bytearray(5), bytearray(1)], "returned 3 buffers where 2"),
        ([bytearray(10), bytearray(4)], "5 bytes"),
        ([bytearray(10), bytearray(6)], "5 bytes"),
        ([bytearray(10), b"12345"], "writable, contiguous buffer of 5 bytes"),
        ([memoryview(bytearray(20))[::2], bytearray(5)], "10 bytes"),
    ],
)
def test_fault_7_memory_that_does_not_fit_is_refused_by_name(views: list[Any], said: str) -> None:
    with pytest.raises((ValueError, TypeError), match=said):
        assembly(10, [5]).use(views)


class Hook(RecordingSink):
    """Gives each message the memory that a test has laid out."""

    def __init__(self, views: list[Any]) -> None:
        super().__init__()
        self.views = views

    def on_allocate(self, assembly: Assembly) -> int:
        assembly.use(self.views)
        return 0


@pytest.mark.parametrize("kind", ["bytearray", "array of doubles", "matrix", "mmap", "big buffer"])
def test_fault_6_and_11_memory_of_any_shape_is_filled_byte_by_byte(kind: str) -> None:
    size = 80_000
    memory: Any = {
        "bytearray": bytearray(size),
        "array of doubles": array.array("d", bytes(size)),
        "matrix": memoryview(bytearray(size)).cast("H", (100, 400)),
        "mmap": mmap.mmap(-1, size),
        "big buffer": memoryview(bytearray(size + 20))[7 : size + 7],
    }[kind]
    data = bytes(range(250)) * (size // 250)
    sink = Hook([memory])
    decoder = new_decoder(sink)
    push(decoder, sink, START + frames.opening(1, data, size=0, buffers=[size]))
    (body, buffers) = sink.events[-1][8:10]
    assert (body, buffers) == (b"", [data])
    assert bytes(memoryview(memory).cast("B")) == data
    sink.events.clear()
    sink.open.clear()


def test_bytes_are_received_straight_into_the_memory_of_the_message() -> None:
    memory = bytearray(1 << 20)
    sink = Hook([memory])
    decoder = new_decoder(sink)
    data = frames.opening(1, bytes(1 << 20)[:-100], size=(1 << 20) - 100)
    memory = bytearray((1 << 20) - 100)
    sink.views = [memory]
    push(decoder, sink, START + data[:100])
    room = memoryview(decoder.get_buffer(-1))
    room[:3] = b"abc"
    decoder.buffer_updated(3)
    assert room.nbytes > 1_000_000
    assert b"abc" in memory[:100]


def test_the_body_of_a_small_message_is_bytes_and_of_a_large_one_a_view() -> None:
    class Types(RecordingSink):
        def on_open(self, *told: Any) -> int:
            self.keep.append((type(told[-3]), [type(buffer) for buffer in told[-2] or ()]))
            return 0

    sink = Types()
    decoder = new_decoder(sink)
    for piece in (
        START,
        frames.opening(1, b"x"),
        frames.opening(3, b"xy", size=1, buffers=[1]),
        *frames.fragments(5, b"x" * 65_536, 40_000),
        *frames.fragments(7, b"x" * 65_537, 40_000),
    ):
        push(decoder, sink, piece)
    assert sink.keep == [(bytes, []), (bytes, [memoryview]), (bytes, []), (memoryview, [])]


SIZES = st.lists(st.one_of(st.integers(0, 5), st.integers(0, 5000)), max_size=6)


@given(st.integers(0, 3000), SIZES, st.data())
def test_any_layout_cut_anywhere(body_size: int, sizes: list[int], data: st.DataObject) -> None:
    total = body_size + sum(sizes)
    content = bytes(at % 251 for at in range(total))
    cuts = sorted({data.draw(st.integers(1024, max(total, 1024))) for _ in range(3)})
    cuts = [cut for cut, before in zip(cuts, [0, *cuts], strict=False) if cut - before >= 1024 and cut < total]
    pieces = [content[a:b] for a, b in zip([0, *cuts], [*cuts, total], strict=True)]
    start = frames.head(0, "m", size=body_size, buffers=sizes)
    last = len(pieces) - 1
    chunks = []
    for at, piece in enumerate(pieces):
        flags = (0x11 if at == 0 else 0) | (0 if at == last else 0x02)
        chunks.append(frames.frame(FrameType.REQUEST, 1, (start if at == 0 else b"") + piece, flags=flags))
    stream = b"".join(chunks)
    step = data.draw(st.integers(1, len(stream)))
    reads = [START, *(stream[at : at + step] for at in range(0, len(stream), step))]
    event = feed(reads)[-1]
    bounds = [body_size + sum(sizes[:at]) for at in range(len(sizes) + 1)]
    expected = [content[a:b] for a, b in itertools.pairwise(bounds)]
    assert event[8:] == (content[:body_size], expected, total)
