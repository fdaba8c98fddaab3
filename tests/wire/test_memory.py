"""Shared memory of a loop: used again only when nobody can see it, aligned, bounded."""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
import threading

import pytest

from rpcproto._build import PURE
from rpcproto.wire import _bytes
from rpcproto.wire import _tuning as tuning
from rpcproto.wire.encoder import Encoder
from rpcproto.wire.memory import BufferPool, LoopMemory, ScratchStack
from rpcproto.wire.spec import FrameType
from tests.wire.feeding import RecordingSink, new_decoder

LARGE = 100_000
FREE_THREADED = hasattr(sys, "_is_gil_enabled") and not sys._is_gil_enabled()
recycles = pytest.mark.skipif(
    FREE_THREADED and not PURE, reason="a free-threaded build cannot tell that memory is idle"
)


def address(view: memoryview) -> int:
    return ctypes.addressof(ctypes.c_char.from_buffer(view))


@pytest.mark.parametrize("size", [0, 1, 63, 64, 65, 1000, 16_383, 16_384, 65_537, 1 << 20])
def test_buffers_have_their_size_and_are_aligned(size: int) -> None:
    pool = BufferPool()
    views = [pool.allocate(size) for _ in range(4)]
    for view in views:
        assert (view.nbytes, view.format, view.ndim, view.readonly) == (size, "B", 1, False)
        if size:
            assert address(view) % 64 == 0
    spans = sorted((address(view), size) for view in views if size)
    assert all(a + length <= b for (a, length), (b, _) in itertools.pairwise(spans))


@recycles
def test_row_70_memory_is_used_again_once_nobody_sees_it() -> None:
    pool = BufferPool()
    view = pool.allocate(LARGE)
    first = address(view)
    del view
    view = pool.allocate(LARGE)
    assert address(view) == first


@pytest.mark.parametrize("kind", ["view", "slice", "cast", "slice of a slice", "bytearray", "ctypes"])
def test_row_70_memory_is_not_used_again_while_a_view_of_any_kind_is_left(kind: str) -> None:
    pool = BufferPool()
    view = pool.allocate(LARGE)
    view[:5] = b"mine!"
    first = address(view)
    kept: object = {
        "view": view,
        "slice": view[10:20],
        "cast": view.cast("d"),
        "slice of a slice": view[1:][1:].toreadonly(),
        "bytearray": view.obj,
        "ctypes": (ctypes.c_char * 5).from_buffer(view),
    }[kind]
    snapshot = view
    del view
    for _ in range(70):
        other = pool.allocate(LARGE)
        assert address(other) != first
        other[:5] = b"other"
    del snapshot
    gc.collect()
    for _ in range(70):
        other = pool.allocate(LARGE)
        assert address(other) != first
        other[:5] = b"other"
    assert kept is not None


@recycles
def test_row_70_released_views_do_not_count() -> None:
    pool = BufferPool()
    view = pool.allocate(LARGE)
    first = address(view)
    view.release()
    del view
    assert address(pool.allocate(LARGE)) == first


def test_row_70_a_view_held_by_another_thread_counts() -> None:
    pool = BufferPool()
    ready, done = threading.Event(), threading.Event()
    seen: list[bytes] = []

    def hold(view: memoryview) -> None:
        ready.set()
        done.wait(10)
        seen.append(bytes(view[:6]))

    view = pool.allocate(LARGE)
    view[:6] = b"theirs"
    thread = threading.Thread(target=hold, args=(view,))
    thread.start()
    del view
    ready.wait(10)
    for _ in range(10):
        pool.allocate(LARGE)[:6] = b"others"
    done.set()
    thread.join()
    assert seen == [b"theirs"]


@recycles
def test_row_70_a_view_in_a_cycle_counts_until_it_is_collected() -> None:
    pool = BufferPool()
    view = pool.allocate(LARGE)
    first = address(view)
    cycle: list[object] = [view]
    cycle.append(cycle)
    gc.disable()
    try:
        del view, cycle
        assert address(pool.allocate(LARGE)) != first
        gc.collect()
        assert first in {address(view) for view in [pool.allocate(LARGE) for _ in range(3)]}
    finally:
        gc.enable()


@recycles
def test_a_buffer_is_used_for_sizes_down_to_half_of_it() -> None:
    pool = BufferPool()
    view = pool.allocate(LARGE)
    first = address(view)
    del view
    assert address(pool.allocate(LARGE + 1)) != first
    assert address(pool.allocate(LARGE // 2 - 100)) != first
    assert address(pool.allocate(LARGE // 2)) == first


def test_small_buffers_and_very_large_ones_are_not_kept() -> None:
    pool = BufferPool()
    for size in (tuning.POOLED_MIN - 1, tuning.POOL_BYTES // 4 + 1):
        for _ in range(3):
            pool.allocate(size)
    assert kept_bytes(pool) == 0


def kept_bytes(pool: BufferPool) -> int:
    """What the pool holds on to, as the collector sees it."""
    return sum(
        len(memory)
        for held in gc.get_referents(pool)
        if isinstance(held, list)
        for memory in held
        if isinstance(memory, bytearray)
    )


def test_no_more_than_its_bounds_is_kept() -> None:
    pool = BufferPool()
    views = [pool.allocate(20_000) for _ in range(200)]
    assert kept_bytes(pool) <= tuning.POOL_ENTRIES * 20_100
    del views
    big = tuning.POOL_BYTES // 8
    views = [pool.allocate(big) for _ in range(20)]
    assert 0 < kept_bytes(pool) <= tuning.POOL_BYTES
    assert len({address(view) for view in views}) == 20


@recycles
def test_idle_ones_make_room_for_others() -> None:
    pool = BufferPool()
    views = [pool.allocate(20_000) for _ in range(tuning.POOL_ENTRIES)]
    del views
    view = pool.allocate(LARGE)
    first = address(view)
    del view
    assert address(pool.allocate(LARGE)) == first


@recycles
def test_idle_tells_of_the_list_alone() -> None:
    # The rule stands on how this Python counts references; here it is checked on the one that runs.
    held = [bytearray(10), bytearray(10), bytearray(10)]
    other = held[0]
    view = memoryview(held[1])
    assert [_bytes.idle(held, at) for at in range(3)] == [False, False, True]
    del other
    view.release()
    del view
    assert [_bytes.idle(held, at) for at in range(3)] == [True, True, True]


def test_the_allocate_hook_gives_separate_buffers() -> None:
    views = LoopMemory().allocate([10, 0, 70_000, 10])
    assert [view.nbytes for view in views] == [10, 0, 70_000, 10]
    for at, view in enumerate(views):
        view[:] = bytes([at]) * view.nbytes
    assert all(set(view) <= {at} for at, view in enumerate(views))


def test_idle_connections_own_no_memory() -> None:
    memory = LoopMemory()
    decoders = [new_decoder(RecordingSink(), memory) for _ in range(5)]
    places = {address(memoryview(decoder.get_buffer(-1))) for decoder in decoders}
    assert len(places) == 1
    assert memoryview(decoders[0].get_buffer(-1)).nbytes >= 64 * 1024


def kept(scratches: ScratchStack) -> int:
    """How many scratch buffers nobody has borrowed."""
    return len(scratches.free) + (scratches.top is not None)


def test_an_encoder_gives_its_scratch_back_at_every_take() -> None:
    scratches = ScratchStack()
    encoders = [Encoder(scratches) for _ in range(100)]
    for _ in range(3):
        for encoder in encoders:
            encoder.number(FrameType.CREDIT, 0, 0, 1)
            assert encoder.take()
    assert kept(scratches) == 1
    for encoder in encoders:
        encoder.number(FrameType.CREDIT, 0, 0, 1)
    for encoder in encoders:
        encoder.take()
    assert kept(scratches) == tuning.SCRATCHES_KEPT + 1
