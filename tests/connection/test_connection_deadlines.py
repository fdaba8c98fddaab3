"""Deadlines: each side ends a call by its own clock, and the call has one outcome."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rpcproto import errors
from rpcproto.wire import spec
from rpcproto.wire.spec import ErrorCode
from tests.connection.pairing import ConnectionPair, Side, cancels, kinds
from tests.wire import frames

KIB = 1024
MIB = 1 << 20
Make = Callable[..., ConnectionPair]
MakeSide = Callable[..., Side]


# ---- deadlines -------------------------------------------------------------------------------------------------------


def test_row_31_the_opener_gives_up_by_its_own_clock(pair: ConnectionPair) -> None:
    call = pair.left.request("hold", b"x", timeout=2.0)
    assert pair.left.shell.deadlines == [pair.clock.now + 2.0]
    pair.pump()
    assert pair.left.connection.on_time(pair.clock.now + 1.999) == pair.clock.now + 2.0
    assert call.outcomes == []
    assert pair.left.connection.on_time(pair.clock.now + 2.0) == float("inf")
    assert type(call.outcome) is errors.DeadlineExceeded
    assert cancels(pair.pump()) == [(call.call_id, ErrorCode.DEADLINE_EXCEEDED)]
    assert not pair.right.answer(call.call_id)


def test_row_31_the_receiver_ends_it_by_its_own_clock(pair: ConnectionPair) -> None:
    call = pair.left.request("hold", b"x", timeout=0.5)
    pair.pump()
    assert pair.right.shell.deadlines == [pair.clock.now + 0.5]
    pair.right.connection.on_time(pair.clock.now + 0.5)
    assert pair.right.shell.events[-1] == ("cancelled", call.call_id, ErrorCode.DEADLINE_EXCEEDED)
    assert kinds(pair.pump()) == [spec.ERROR]
    assert type(call.outcome) is errors.DeadlineExceeded
    assert not pair.right.answer(call.call_id)
    assert pair.pump() == []


@pytest.mark.parametrize("shape", ["whole", "pieces", "large"])
def test_row_31_a_call_whose_deadline_is_over_never_starts(side: Side, shape: str) -> None:
    head = frames.head(0, "echo", deadline=0, size={"whole": 1, "pieces": 5000, "large": 500_000}[shape])
    flags = frames.WHOLE if shape == "whole" else frames.Flag.FIRST | frames.Flag.HEAD | frames.Flag.MORE
    carried = {"whole": 1, "pieces": 2000, "large": 0}[shape]
    side.receive(frames.frame(spec.REQUEST, 1, head + bytes(carried), flags=flags))
    (frame,) = side.sent()
    assert (frame.kind, frame.aux) == (spec.ERROR, ErrorCode.DEADLINE_EXCEEDED)
    assert not side.shell.called


def test_row_31_time_spent_in_the_queue_is_taken_off(make_side: MakeSide) -> None:
    side = make_side()
    for _ in range(5):
        side.notify("log", bytes(60_000))
    call = side.request("echo", b"x", timeout=5.0)
    side.sent()
    side.shell.clock.now += 3.0
    data = frames.credit(200_000)
    side.observer.saw_credit(frames.split(data)[0])
    side.receive(data)
    found = [frame for frame in side.sent() if frame.kind == spec.REQUEST]
    assert frames.read_head(found[0].payload).deadline == 2000
    side.connection.cancel_call(call.call_id)
    side.sent()


def test_row_31_a_call_that_expires_in_the_queue_was_never_sent(make_side: MakeSide) -> None:
    side = make_side()
    handles = [side.notify("log", bytes(60_000)) for _ in range(4)]
    call = side.request("echo", bytes(60_000), timeout=5.0)
    side.sent()
    side.connection.on_time(side.shell.clock.now + 5.0)
    assert type(call.outcome) is errors.DeadlineExceeded
    assert side.sent() == []
    assert [handle.outcome for handle in handles] == ["written"] * 4


@pytest.mark.parametrize("order", ["reply first", "deadline first"])
def test_row_31_reply_and_deadline_race_to_one_outcome(pair: ConnectionPair, order: str) -> None:
    call = pair.left.request("hold", b"x", timeout=1.0)
    pair.pump()
    pair.right.answer(call.call_id)
    if order == "reply first":
        pair.pump()
        pair.left.connection.on_time(pair.clock.now + 1.0)
        assert call.outcome == b"held"
    else:
        pair.left.connection.on_time(pair.clock.now + 1.0)
        pair.pump()
        assert type(call.outcome) is errors.DeadlineExceeded
        assert pair.left.connection.late_replies == 1
    pair.pump()


@pytest.mark.parametrize(("timeout", "told"), [(0.0001, 1), (1.0, 1000), (4_000_000.0, None), (1e9, None)])
def test_deadlines_on_the_wire_are_whole_milliseconds_rounded_up(
    pair: ConnectionPair, timeout: float, told: int | None
) -> None:
    for _ in range(2):  # first with a name, then without
        call = pair.left.request("hold", b"x", timeout=timeout)
        (frame,) = frames.split(pair.left.take())
        head = frames.read_head(frame.payload)
        assert head.deadline == told or (told is None and (head.deadline or 2**32 - 1) >= 4_000_000_000)
        pair.left.connection.cancel_call(call.call_id)
        pair.left.sent()
    pair.left.connection.lost(errors.ConnectionLost("over"))


def test_deadlines_of_many_calls_end_in_one_go(pair: ConnectionPair) -> None:
    calls = [pair.left.request("hold", b"x", timeout=1.0 + at % 3) for at in range(300)]
    pair.pump()
    nearest = pair.left.connection.on_time(pair.clock.now + 1.0)
    assert nearest == pair.clock.now + 2.0
    assert sum(bool(call.outcomes) for call in calls) == 100
    pair.left.connection.on_time(pair.clock.now + 10.0)
    assert all(type(call.outcome) is errors.DeadlineExceeded for call in calls)
    pair.pump()
    for call_id in list(pair.right.shell.held):
        pair.right.answer(call_id)
