"""Records of calls, and messages that are cut into frames."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcproto.connection.calls import OutMessage, PendingCall
from rpcproto.wire import spec
from tests.connection.pairing import Side
from tests.wire import frames


def message(body: Any, buffers: list[Any] | None = None) -> OutMessage:
    size = len(body) + sum(len(buffer) for buffer in buffers or ())
    return OutMessage(spec.REQUEST, spec.END, 1, 1, body, buffers, size)


def test_a_new_pending_call() -> None:
    call = PendingCall()
    assert (call.call_id, call.method, call.deadline, call.sent) == (0, "", 0.0, False)
    call.call_id = (1 << 48) - 1
    assert call.call_id == (1 << 48) - 1


def test_a_running_call_tells_what_runs(side: Side) -> None:
    side.receive(frames.opening(7, b"x" * 100, name="hold", codec=2, deadline=500))
    call = side.shell.held[7]
    assert (call.kind, call.call_id, call.codec, call.method, call.size) == (spec.REQUEST, 7, 2, "hold", 100)
    assert (call.deadline, call.work, call.over) == (1000.5, None, False)
    side.answer(7)
    side.sent()


@pytest.mark.parametrize(
    ("size", "window", "cost"),
    [
        (0, 65_536, 64),
        (63, 65_536, 64),
        (65, 65_536, 65),
        (65_536, 65_536, 65_536),
        (65_537, 65_536, 64),
        (1 << 40, 65_536, 64),
        (65_537, 100_000, 65_537),
    ],
)
def test_cost(size: int, window: int, cost: int) -> None:
    big = OutMessage(spec.REQUEST, 0, 1, 1, b"", [range(size)] if size else None, size)
    assert big.cost(window) == cost


def test_sizes_are_told_with_buffers_only() -> None:
    assert message(b"abc").sizes is None
    assert message(b"abc", []).sizes == []
    both = message(b"abc", [b"", b"12345"])
    assert (both.sizes, both.body_size, both.size) == ([0, 5], 3, 8)


def test_fault_10_empty_pieces_are_never_parts() -> None:
    assert message(b"", [b"", b"x", b""]).cut(100) == [b"x"]


def test_whole_pieces_are_passed_on_as_they_are() -> None:
    buffer = bytearray(5000)
    assert message(b"", [buffer]).cut(5000)[0] is buffer
    first = message(b"", [buffer]).cut(4999)[0]
    assert isinstance(first, memoryview)
    assert first.obj is buffer


def test_fault_8_small_pieces_are_copied() -> None:
    body, buffer = bytearray(b"b" * 4096), bytearray(b"c")
    out = message(body, [buffer])
    body[:] = b"?" * 4096
    buffer.clear()
    assert b"".join(out.cut(5000)) == b"b" * 4096 + b"c"


@given(st.binary(max_size=50), st.lists(st.binary(max_size=50), max_size=6), st.lists(st.integers(1, 60), max_size=40))
def test_cuts_of_any_size_are_the_message_in_order(body: bytes, buffers: list[bytes], steps: list[int]) -> None:
    whole = body + b"".join(buffers)
    out = message(body, buffers)
    found = b""
    for step in [*steps, len(whole)]:
        left = out.left
        cut = b"".join(out.cut(step))
        most = min(step, left)
        assert most - 15 <= len(cut) <= most
        assert cut or not most
        assert out.left == left - len(cut)
        found += cut
    assert found == whole
    assert out.left == 0
    assert out.cut(10) == []
