"""What a peer may have running here, and how often it may give calls up."""

from __future__ import annotations

from collections.abc import Callable

from rpcproto import errors
from rpcproto.wire.spec import ErrorCode
from tests.connection.pairing import ConnectionPair, Side, small_limits
from tests.wire import frames

KIB = 1024
MIB = 1 << 20
Make = Callable[..., ConnectionPair]
MakeSide = Callable[..., Side]


# ---- limits of the receiver ------------------------------------------------------------------------------------------


def test_row_29_a_flood_of_cancels(make_side: MakeSide) -> None:
    side = make_side(limits=small_limits(cancel_burst=100, cancel_rate=10))
    for call_id in range(1, 400, 2):
        side.receive(frames.opening(call_id, b"x") + frames.cancel(call_id))
        if side.breach is not None:
            break
    assert side.breach is not None
    assert side.breach.code == ErrorCode.FLOOD
    assert "cancel_burst" in str(side.breach)
    assert len(side.shell.called) == 101
    side.sent()


def test_row_29_and_fault_82_honest_cancels_over_a_long_time_are_no_flood(make_pair: Make) -> None:
    pair = make_pair(right={"limits": small_limits(cancel_burst=100, cancel_rate=10)})
    for _ in range(3000):
        pair.left.connection.cancel_call(pair.left.request("echo", b"x").call_id)
        pair.clock.now += 0.1
        pair.pump()
    assert pair.right.breach is None


def test_row_15_calls_over_the_limit_are_refused_and_may_be_sent_again(make_pair: Make) -> None:
    pair = make_pair(right={"limits": small_limits(max_running=3)})
    calls = [pair.left.request("hold", b"x") for _ in range(5)]
    pair.pump()
    refused = [call for call in calls if call.outcomes]
    assert [call.call_id for call in refused] == [7, 9]
    assert all(type(call.outcome) is errors.Overloaded and "max_running" in str(call.outcome) for call in refused)
    pair.right.answer(1)
    again = pair.left.request("hold", b"x")
    pair.pump()
    for call_id in list(pair.right.shell.held):
        pair.right.answer(call_id)
    pair.pump()
    assert again.outcome == b"held"


def test_row_28_and_fault_82_a_cancelled_handler_counts_until_it_has_ended(make_pair: Make) -> None:
    pair = make_pair(right={"limits": small_limits(max_running=2)})
    calls = [pair.left.request("hold", b"x") for _ in range(2)]
    pair.pump()
    for call in calls:
        pair.left.connection.cancel_call(call.call_id)
    third = pair.left.request("hold", b"x")
    pair.pump()
    assert type(third.outcome) is errors.Overloaded
    pair.right.answer(calls[0].call_id)
    fourth = pair.left.request("hold", b"x")
    pair.pump()
    assert fourth.outcomes == []
    pair.right.answer(calls[1].call_id)
    pair.right.answer(fourth.call_id)
    pair.pump()


def test_fault_84_the_count_of_running_handlers_never_drifts(make_pair: Make) -> None:
    pair = make_pair(right={"limits": small_limits(max_running=1)})
    for wave in range(100):
        calls = [pair.left.request("hold", bytes(10)) for _ in range(3)]
        pair.pump()
        assert len(pair.right.connection.running) == 1
        assert pair.right.connection.running_size == 10
        if wave % 2:
            pair.left.connection.cancel_call(calls[0].call_id)
        pair.right.answer(calls[0].call_id)
        pair.pump()
        assert [type(call.outcome) for call in calls[1:]] == [errors.Overloaded] * 2
    assert pair.right.connection.running_size == 0


def test_bytes_held_by_handlers_are_bounded_and_one_is_always_admitted(make_pair: Make) -> None:
    pair = make_pair(right={"limits": small_limits(max_running_bytes=100_000)})
    large = pair.left.request("hold", bytes(500_000))
    pair.pump()
    small = pair.left.request("hold", b"x")
    pair.pump()
    assert large.outcomes == []
    assert "max_running_bytes" in str(small.outcome)
    pair.right.answer(large.call_id)
    calls = [pair.left.request("hold", bytes(50_000)) for _ in range(3)]
    pair.pump()
    assert [bool(call.outcomes) for call in calls] == [False, False, True]
    for call_id in list(pair.right.shell.held):
        pair.right.answer(call_id)
    pair.pump()
