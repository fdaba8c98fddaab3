"""Frames to bytes: each as the protocol says, gathered into few parts, copied or left where they are."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcproto.wire import _tuning as tuning
from rpcproto.wire.encoder import Encoder, encode_head
from rpcproto.wire.memory import ScratchStack
from rpcproto.wire.spec import ErrorCode, Flag, FrameType
from tests.wire import frames
from tests.wire.feeding import START, feed

REPLY, END = int(FrameType.REPLY), int(Flag.END)


def encoder() -> Encoder:
    return Encoder(ScratchStack())


def joined(encoder: Encoder) -> bytes:
    """All that was gathered, which must be as much as ``size`` says."""
    size = encoder.size
    parts = encoder.take() or []
    data = b"".join(parts)
    assert len(data) == size
    assert encoder.size == 0
    assert encoder.take() is None
    return data


@pytest.mark.parametrize(
    ("kind", "flags", "aux", "call_id", "payload"),
    [
        (FrameType.CANCEL, Flag.END, ErrorCode.CANCELLED, 7, b""),
        (FrameType.ERROR, Flag.END, 0xFFFF, (1 << 48) - 1, b"text"),
        (FrameType.PING, 0, 1, 0, b"12345678"),
        (FrameType.GOAWAY, 0, ErrorCode.NO_ERROR, 0, bytes(8)),
        (255, 255, 0xFFFF, (1 << 64) - 1, b"x" * 70_000),
    ],
)
def test_frame(kind: int, flags: int, aux: int, call_id: int, payload: bytes) -> None:
    out = encoder()
    out.frame(kind, flags, aux, call_id, payload)
    assert joined(out) == frames.frame(kind, call_id, payload, flags=flags, aux=aux)


def test_number() -> None:
    out = encoder()
    out.number(FrameType.CREDIT, 1, (1 << 48) - 1, (1 << 64) - 1)
    assert joined(out) == frames.credit((1 << 64) - 1, (1 << 48) - 1, 1)


@pytest.mark.parametrize("deadline", [-1, 0, 1, (1 << 32) - 1])
@pytest.mark.parametrize("size", [0, 10, 4096, 4097, 65_536])
def test_opening(deadline: int, size: int) -> None:
    out = encoder()
    out.opening(FrameType.REQUEST, Flag.END, 2, 5, 4095, deadline, b"b" * size, size)
    told = None if deadline < 0 else deadline
    assert joined(out) == frames.opening(5, b"b" * size, codec=2, method=4095, name=None, deadline=told)


@pytest.mark.parametrize("size", [0, 10, 4096, 4097, 65_536])
@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_reply(size: int, kind: Any) -> None:
    out = encoder()
    out.whole(REPLY, END, 2, 5, kind(b"b" * size), size)
    assert joined(out) == frames.reply(5, b"b" * size, codec=2)


def test_start_and_append() -> None:
    out = encoder()
    start = frames.head(0, "m", size=3, buffers=[5000, 1])
    flags = Flag.FIRST | Flag.HEAD | Flag.END
    out.start(FrameType.REQUEST, flags, 1, 9, start, 5004)
    out.append(b"abc", 3)
    out.append(memoryview(bytearray(5000)), 5000)
    out.append(b"", 0)
    out.append(b"z", 1)
    assert joined(out) == frames.opening(9, b"abc" + bytes(5000) + b"z", name="m", size=3, buffers=[5000, 1])


def test_small_frames_are_one_part() -> None:
    out = encoder()
    for call_id in range(1, 1001, 2):
        out.whole(REPLY, END, 1, call_id, b"ten bytes.", 10)
    parts = out.take()
    assert parts is not None
    assert len(parts) == 1
    assert [frame.call_id for frame in frames.split(bytes(parts[0]))] == list(range(1, 1001, 2))


def test_fault_13_very_many_small_frames_are_few_parts() -> None:
    out = encoder()
    for call_id in range(1, 40_001, 2):
        out.whole(REPLY, END, 1, call_id, b"x" * 64, 64)
    parts = out.take()
    assert parts is not None
    assert len(parts) <= 20_000 * 80 // (tuning.SCRATCH_SIZE - 100) + 1
    assert len(frames.split(b"".join(parts))) == 20_000


def test_fault_8_small_payloads_are_copied_and_large_ones_left_where_they_are() -> None:
    out = encoder()
    small, large = bytearray(b"s" * tuning.PACK_MAX), bytearray(b"l" * (tuning.PACK_MAX + 1))
    out.whole(REPLY, END, 1, 1, small, len(small))
    out.whole(REPLY, END, 1, 3, large, len(large))
    small[:] = b"?" * len(small)
    parts = out.take()
    assert parts is not None
    assert b"?" not in b"".join(parts)
    assert any(part is large for part in parts)


def test_the_order_of_frames_is_kept_across_parts() -> None:
    out = encoder()
    sizes = [10, 5000, 0, 4096, 4097, 60_000, 1, 1, 65_536, 3]
    for at, size in enumerate(sizes):
        out.whole(REPLY, END, 1, at + 1, bytes([at]) * size, size)
    found = frames.split(joined(out))
    assert [(frame.call_id, frame.payload) for frame in found] == [
        (at + 1, bytes([at]) * size) for at, size in enumerate(sizes)
    ]


def test_what_is_taken_is_not_changed_by_what_follows() -> None:
    out = encoder()
    out.whole(REPLY, END, 1, 1, b"first", 5)
    first = out.take()
    assert first is not None
    out.whole(REPLY, END, 1, 3, b"later", 5)
    assert joined(out) == frames.reply(3, b"later")
    assert b"".join(first) == frames.reply(1, b"first")


@pytest.mark.parametrize("fill", range(tuning.SCRATCH_SIZE - 60, tuning.SCRATCH_SIZE + 4, 3))
def test_frames_at_the_end_of_the_scratch(fill: int) -> None:
    out = encoder()
    want = b""
    while len(want) + 4096 + 16 < fill:
        out.whole(REPLY, END, 1, 1, b"f" * 4080, 4080)
        want += frames.reply(1, b"f" * 4080)
    rest = max(0, fill - len(want) - 16)
    out.whole(REPLY, END, 1, 1, b"r" * rest, rest)
    want += frames.reply(1, b"r" * rest)
    out.opening(FrameType.REQUEST, 0, 1, 3, 1, 5, b"body", 4)
    out.number(FrameType.CREDIT, 0, 0, 9)
    out.frame(FrameType.PING, 0, 0, 0, b"12345678")
    out.start(FrameType.REPLY, Flag.FIRST, 1, 5, b"", 2)
    out.append(b"ab", 2)
    want += frames.opening(3, b"body", flags=Flag.FIRST | Flag.HEAD, method=1, name=None, deadline=5)
    want += frames.credit(9) + frames.ping() + frames.frame(FrameType.REPLY, 5, b"ab", flags=Flag.FIRST, aux=1)
    assert joined(out) == want


def test_a_buffer_that_changes_its_size_meanwhile_does_no_harm() -> None:
    out = encoder()
    with pytest.raises(ValueError, match="size"):
        out.whole(REPLY, END, 1, 1, bytearray(10), 20)


@given(
    st.integers(0, 4095),
    st.one_of(st.none(), st.text(st.characters(exclude_categories=["Cs"]), min_size=1, max_size=60)),
    st.one_of(st.none(), st.integers(0, 2**32 - 1)),
    st.one_of(st.none(), st.binary(max_size=50)),
    st.one_of(st.none(), st.lists(st.integers(0, 20), max_size=5)),
    st.binary(max_size=30),
)
def test_heads_as_the_protocol_says_and_back(
    method: int, name: str | None, deadline: int | None, metadata: bytes | None, sizes: list[int] | None, body: bytes
) -> None:
    size = None if sizes is None else len(body)
    encoded = encode_head(
        method,
        None if name is None else name.encode(),
        -1 if deadline is None else deadline,
        metadata,
        -1 if size is None else size,
        sizes,
    )
    assert encoded == frames.head(method, name, deadline=deadline, metadata=metadata, size=size, buffers=sizes)
    buffers = [bytes([at]) * each for at, each in enumerate(sizes or [])]
    data = frames.frame(FrameType.REQUEST, 1, encoded + body + b"".join(buffers), flags=frames.WHOLE, aux=3)
    total = len(body) + sum(sizes or [])
    event = feed([START, data])[-1]
    told = -1 if deadline is None else deadline
    assert event == ("open", 1, 1, 3, method, name, told, metadata, body, None if sizes is None else buffers, total)
