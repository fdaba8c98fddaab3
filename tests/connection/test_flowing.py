"""Streams and channels between two connections, and against a peer that the test plays."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rpcproto import errors
from rpcproto.wire import spec
from rpcproto.wire.spec import CHANNEL, STREAM, CreditClass, ErrorCode, Flag, FrameType, Role
from tests.connection.pairing import ConnectionPair, Side, breach_code, cancels, kinds, small_limits
from tests.connection.shell import CallFlow
from tests.wire import frames

KIB = 1024
MIB = 1 << 20
Make = Callable[..., ConnectionPair]
MakeSide = Callable[..., Side]


def opened(pair: ConnectionPair, kind: int, body: bytes = b"") -> tuple[CallFlow, CallFlow]:
    """Both ends of a new call, from the left to the right."""
    ours = pair.left.open_flow(kind, body)
    pair.pump()
    return ours, pair.right.shell.flows[ours.call_id]


def received(side: Side, flow: CallFlow) -> list[Any]:
    return side.consume(flow)


# ---- both ends in good order -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 10, 300_000])
def test_a_stream_sends_items_and_ends(pair: ConnectionPair, size: int) -> None:
    ours, theirs = opened(pair, STREAM, bytes(size))
    assert pair.right.shell.called[-1][1:4] == (STREAM, 1, bytes(size))
    for number in range(5):
        assert pair.right.item(theirs, b"%d" % number).outcome == "written"
    pair.right.leave(theirs)
    pair.pump()
    assert received(pair.left, ours) == [b"0", b"1", b"2", b"3", b"4"]
    assert (ours.outcomes, theirs.outcomes) == (["end", "over"], ["over"])


def test_a_channel_is_half_closed_by_either_side(pair: ConnectionPair) -> None:
    ours, theirs = opened(pair, CHANNEL)
    pair.left.item(ours, b"a")
    pair.left.connection.end_items(ours, False)
    pair.pump()
    assert (theirs.outcomes, ours.outcomes) == (["end"], [])
    pair.right.item(theirs, b"b")
    pair.right.leave(theirs)
    pair.pump()
    assert (received(pair.right, theirs), received(pair.left, ours)) == ([b"a"], [b"b"])
    assert (ours.outcomes, theirs.outcomes) == (["end", "over"], ["end", "over"])


def test_a_channel_whose_handler_returns_is_over_though_its_opener_still_sends(pair: ConnectionPair) -> None:
    ours, theirs = opened(pair, CHANNEL)
    pair.right.item(theirs, b"last")
    pair.right.leave(theirs)
    pair.left.item(ours, b"crossing")
    sent = pair.pump()
    assert [kind for kind in kinds(sent) if kind != spec.CREDIT] == [spec.ITEM, spec.ITEM, spec.ITEM, spec.CANCEL]
    assert ours.outcomes == ["end", "over"]
    assert received(pair.left, ours) == [b"last"]
    with pytest.raises(errors.CallCancelled, match="the call is over"):
        pair.left.item(ours, b"late")


def test_nothing_is_sent_after_the_end(pair: ConnectionPair) -> None:
    ours, theirs = opened(pair, CHANNEL)
    pair.left.connection.end_items(ours, False)
    with pytest.raises(errors.LocalProtocolError, match="after the end"):
        pair.left.item(ours, b"x")
    pair.right.leave(theirs)
    pair.pump()
    stream, theirs = opened(pair, STREAM)
    with pytest.raises(errors.LocalProtocolError, match="after the end"):
        pair.left.item(stream, b"x")
    pair.right.leave(theirs)
    pair.pump()


SIZES = [0, 1, 63, 64, 65, 4096, 4097, 65_535, 65_536, 65_537, 100_000, 300_000, 3 * MIB]


@pytest.mark.parametrize("kind", [bytes, bytearray])
@pytest.mark.parametrize("step", [1 << 30, 1])
def test_items_of_all_sizes_arrive_in_order(pair: ConnectionPair, kind: Callable[[bytes], Any], step: int) -> None:
    ours, theirs = opened(pair, CHANNEL)
    bodies = [bytes([number]) * size for number, size in enumerate(SIZES if step > 1 else SIZES[:6])] * 2
    handles = [pair.left.item(ours, kind(body)) for body in bodies]
    got: list[Any] = []
    while len(got) < len(bodies):
        pair.pump(step=step)
        assert theirs.values, "it came to rest before everything was sent"
        got += received(pair.right, theirs)
    assert got == bodies
    pair.pump()
    assert {handle.outcome for handle in handles} == {"written"}
    pair.left.connection.end_items(ours, False)
    pair.right.leave(theirs)
    pair.pump()


def test_items_with_buffers(pair: ConnectionPair) -> None:
    ours, theirs = opened(pair, CHANNEL)
    item = (b"body", [b"one" * 10, b"", b"two" * 40_000])
    pair.left.item(ours, item[0], item[1])
    pair.pump()
    assert received(pair.right, theirs) == [item]
    pair.right.leave(theirs)
    pair.pump()


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(st.sampled_from("lrLR"), st.integers(0, 200_000)), max_size=30), st.integers(1, 100_000))
def test_any_items_arrive_whole_and_in_order(actions: list[tuple[str, int]], step: int) -> None:
    """Small letters send from the left or right; capitals let a consumer take what has come."""
    pair = ConnectionPair()
    ours, theirs = opened(pair, CHANNEL)
    sides = {"l": (pair.left, ours, pair.right, theirs), "r": (pair.right, theirs, pair.left, ours)}
    sent: dict[str, list[Any]] = {"l": [], "r": []}
    got: dict[str, list[Any]] = {"l": [], "r": []}
    for number, (action, size) in enumerate(actions):
        source, flow, target, other = sides[action.lower()]
        if action.islower():
            sent[action].append(bytes([number]) * size)
            source.item(flow, sent[action][-1])
        else:
            pair.pump(step=step)
            got[action.lower()] += target.consume(other)
    pair.left.connection.end_items(ours, False)
    pair.right.connection.end_items(theirs, False)
    while got != sent:
        pair.pump()
        before = sum(map(len, got.values()))
        for which, (_, _, target, other) in sides.items():
            got[which] += target.consume(other)
        assert got == sent or sum(map(len, got.values())) > before
    pair.pump()
    assert (ours.outcomes, theirs.outcomes) == (["end", "over"], ["end", "over"])
    pair.right.connection.finished(pair.right.shell.held.pop(ours.call_id))
    pair.verify()


# ---- credit ----------------------------------------------------------------------------------------------------------


def test_row_22_a_consumer_that_stops_holds_its_own_window_and_nobody_else(pair: ConnectionPair) -> None:
    ours, theirs = opened(pair, CHANNEL)
    handles = [pair.left.item(ours, bytes(1000)) for _ in range(1000)]
    pair.pump()
    assert 64 * KIB <= sum(len(value) for value, _ in theirs.values) <= 64 * KIB + 1000
    other, far = opened(pair, CHANNEL)
    for _ in range(1000):
        pair.left.item(other, bytes(1000))
        pair.pump()
        assert received(pair.right, far) == [bytes(1000)]
        call = pair.left.request("echo", bytes(1000))
        pair.pump()
        assert call.outcome == bytes(1000)
    taken = 0
    while taken < 1000:
        taken += len(received(pair.right, theirs))
        pair.pump()
    assert {handle.outcome for handle in handles} == {"written"}
    for flow in (theirs, far):
        pair.right.leave(flow)
    pair.pump()


def test_items_that_wait_are_bounded_by_max_queued(make_pair: Make) -> None:
    pair = make_pair(left={"limits": small_limits(max_queued=300_000)})
    ours, theirs = opened(pair, CHANNEL)
    sent = 0
    with pytest.raises(errors.Overloaded, match="max_queued is 300000; await each send"):
        while True:
            pair.left.item(ours, bytes(10_000))
            sent += 1
    assert 300_000 <= sent * 10_000 <= 300_000 + 64 * KIB + 20_000
    got = 0
    while got < sent:
        pair.pump()
        got += len(received(pair.right, theirs))
    assert ours.queued == 0
    pair.right.leave(theirs)
    pair.pump()


def test_large_items_come_one_at_a_time_to_a_slow_consumer(pair: ConnectionPair) -> None:
    """Each is above the call window, so it waits for memory, which it gets when those before it have been taken."""
    ours, theirs = opened(pair, CHANNEL)
    for _ in range(3):
        pair.left.item(ours, bytes(MIB))
    for left in (2, 1, 0):
        pair.pump()
        assert [len(value) for value, _ in theirs.values] == [MIB]
        assert pair.right.budget.reserved == 0
        assert received(pair.right, theirs) == [bytes(MIB)]
        assert bool(ours.queue) == (left > 1)
    pair.right.leave(theirs)
    pair.pump()


@pytest.mark.parametrize("which", [CreditClass.CALLS, CreditClass.ITEMS])
def test_a_breach_of_either_window(make_side: MakeSide, which: CreditClass) -> None:
    side = make_side(Role.ACCEPTOR)
    side.receive(frames.opening(1, kind=FrameType.CHANNEL, flags=Flag.FIRST | Flag.HEAD, name="flow"))
    flow = side.shell.flows[1]
    for _ in range(2):
        side.receive(frames.item(1, bytes(60_000)))
    assert side.breach is None
    if which == CreditClass.ITEMS:
        side.receive(frames.item(1))
    else:
        side.consume(flow)
        side.receive(frames.first(1, b"", 60_000, kind=FrameType.ITEM) * 2)
    assert breach_code(side) == (ErrorCode.FLOW_CONTROL if which == CreditClass.ITEMS else ErrorCode.CALL_STATE)
    (error,) = flow.outcomes
    assert isinstance(error, errors.ConnectionLost)
    side.connection.finished(side.shell.held.pop(1))


@pytest.mark.parametrize("amount", [0, 2**31 - 1, 2**63])
def test_row_20_credit_for_items_has_bounds(make_side: MakeSide, amount: int) -> None:
    side = make_side(Role.INITIATOR)
    flow = side.open_flow(CHANNEL)
    side.sent()
    side.receive(frames.credit(amount, 1, CreditClass.ITEMS))
    assert breach_code(side) == ErrorCode.FLOW_CONTROL
    assert isinstance(flow.outcomes[0], errors.ConnectionLost)


def test_row_24_items_that_nobody_takes_cost_no_credit_of_the_connection(pair: ConnectionPair) -> None:
    """A thousand streams, each given up half read."""
    for _ in range(1000):
        ours, theirs = opened(pair, STREAM)
        for _ in range(20):
            pair.right.item(theirs, bytes(5000))
        pair.carry(pair.right, pair.left)
        pair.left.connection.give_up_flow(ours, ErrorCode.CANCELLED)
        pair.pump()
        assert isinstance(theirs.outcomes[0], errors.CallCancelled)
        pair.right.leave(theirs)
    pair.pump()


# ---- ends that are not in good order ---------------------------------------------------------------------------------


def test_giving_up_tells_the_handler_once(pair: ConnectionPair) -> None:
    ours, theirs = opened(pair, CHANNEL)
    pair.left.item(ours, b"x")
    pair.left.connection.give_up_flow(ours, ErrorCode.CANCELLED)
    pair.left.connection.give_up_flow(ours, ErrorCode.CANCELLED)
    sent = pair.pump()
    assert cancels(sent) == [(1, ErrorCode.CANCELLED)]
    assert pair.right.shell.events[-1] == ("cancelled", 1, ErrorCode.CANCELLED)
    assert [type(one) for one in theirs.outcomes] == [errors.CallCancelled]
    assert ours.outcomes == []
    pair.right.leave(theirs)


def test_giving_up_before_anything_was_sent_tells_nobody(pair: ConnectionPair) -> None:
    pair.left.notify("log", bytes(60_000))
    for _ in range(4):
        pair.left.notify("log", bytes(60_000))
    ours = pair.left.open_flow(STREAM, bytes(60_000))
    assert not ours.sent
    pair.left.connection.give_up_flow(ours, ErrorCode.CANCELLED)
    assert spec.STREAM not in kinds(pair.pump())


def test_giving_up_ends_the_items_that_wait(pair: ConnectionPair) -> None:
    ours, theirs = opened(pair, CHANNEL)
    handles = [pair.left.item(ours, bytes(60_000)) for _ in range(5)]
    pair.pump()
    pair.left.connection.give_up_flow(ours, ErrorCode.CANCELLED)
    pair.pump()
    written = [handle for handle in handles if handle.outcome == "written"]
    assert len(written) == 2
    assert {type(handle.outcome) for handle in handles} == {str, errors.CallCancelled}
    assert "not sent, the call has ended" in str(handles[-1].outcome)
    pair.right.leave(theirs)


@pytest.mark.parametrize("items", [0, 3])
def test_a_handler_that_fails_ends_both_directions(pair: ConnectionPair, items: int) -> None:
    ours, theirs = opened(pair, CHANNEL)
    for _ in range(items):
        pair.right.item(theirs, b"before")
    pair.right.connection.finished(pair.right.shell.held.pop(1))
    pair.right.connection.fail(1, ErrorCode.HANDLER_RAISED, "ValueError", "no", "")
    pair.left.item(ours, b"crossing")
    pair.pump()
    assert received(pair.left, ours) == [b"before"] * items
    assert [str(one) for one in ours.outcomes] == ["ValueError: no"]


@pytest.mark.parametrize("kind", [STREAM, CHANNEL])
def test_an_unknown_method_or_no_room_refuses(make_pair: Make, kind: int) -> None:
    pair = make_pair()
    unknown = pair.left.open_flow(kind, method="missing")
    pair.pump()
    assert [type(one) for one in unknown.outcomes] == [errors.NoSuchMethod]


def test_a_deadline_ends_the_call_at_both_sides(pair: ConnectionPair) -> None:
    ours = pair.left.open_flow(STREAM, timeout=2.0)
    pair.pump()
    theirs = pair.right.shell.flows[1]
    pair.clock.now += 2.0
    for side in (pair.left, pair.right):
        side.connection.on_time(pair.clock.now)
    pair.pump()
    assert [type(one) for one in ours.outcomes] == [errors.DeadlineExceeded]
    assert "did not end within " in str(ours.outcomes[0])
    assert [type(one) for one in theirs.outcomes] == [errors.DeadlineExceeded]
    assert pair.right.shell.events[-1] == ("cancelled", 1, ErrorCode.DEADLINE_EXCEEDED)
    assert not pair.right.connection.finished(pair.right.shell.held.pop(1))


def test_the_end_of_the_connection_fails_both_ends_once(pair: ConnectionPair) -> None:
    ours, theirs = opened(pair, CHANNEL)
    handles = [pair.left.item(ours, bytes(60_000)) for _ in range(4)]
    lost = errors.ConnectionLost("gone")
    for side in (pair.left, pair.right):
        side.connection.lost(lost)
    assert [type(one) for one in ours.outcomes] == [errors.ConnectionLost]
    assert [type(one) for one in theirs.outcomes] == [errors.ConnectionLost]
    assert ours.outcomes[0].maybe_executed
    assert [type(handle.outcome) for handle in handles].count(errors.ConnectionLost) == 2
    pair.right.connection.finished(pair.right.shell.held.pop(1))


def test_goaway_ends_streams_that_were_not_begun(make_side: MakeSide) -> None:
    side = make_side(Role.INITIATOR)
    first, second = side.open_flow(STREAM), side.open_flow(CHANNEL)
    side.sent()
    side.receive(frames.goaway(last_id=1))
    assert (first.outcomes, [type(one) for one in second.outcomes]) == ([], [errors.GoingAway])
    side.receive(frames.item(1, b"x") + frames.item(1, flags=Flag.FIRST | Flag.END))
    assert (side.consume(first), first.outcomes) == ([b"x"], ["end", "over"])


def test_an_item_above_max_message_fails_its_call_alone(make_pair: Make) -> None:
    pair = make_pair(left={"max_message": 100_000})
    ours, theirs = opened(pair, CHANNEL)
    with pytest.raises(errors.MessageTooLarge, match="above the peer's max_message of 100000"):
        pair.right.item(theirs, bytes(100_001))
    pair.right.item(theirs, bytes(100_000))
    pair.pump()
    assert received(pair.left, ours) == [bytes(100_000)]
    pair.right.leave(theirs)
    pair.pump()


def test_a_peer_that_sends_too_large_an_item_loses_the_call(make_side: MakeSide) -> None:
    side = make_side(Role.INITIATOR, max_message=100_000)
    flow = side.open_flow(STREAM)
    side.sent()
    side.receive(frames.first(1, b"", 200_000, kind=FrameType.ITEM))
    assert [type(one) for one in flow.outcomes] == [errors.MessageTooLarge]
    assert cancels(side.sent()) == [(1, ErrorCode.CANCELLED)]
    side.receive(frames.more(1, b"x" * 2000, kind=FrameType.ITEM))
    assert side.breach is None


def test_no_memory_for_an_item_fails_its_call_alone(pair: ConnectionPair) -> None:
    ours, theirs = opened(pair, STREAM)

    def allocate(sizes: list[int]) -> Any:
        raise MemoryError("none")

    pair.left.shell.allocate = allocate  # type: ignore[method-assign]
    pair.right.item(theirs, bytes(100_000))
    pair.pump()
    assert [type(one) for one in ours.outcomes] == [errors.Overloaded]
    assert "MemoryError" in str(ours.outcomes[0])
    assert [type(one) for one in theirs.outcomes] == [errors.CallCancelled]
    pair.right.leave(theirs)
    pair.pump()


def test_row_15_streams_above_max_running_are_refused(make_pair: Make) -> None:
    pair = make_pair(right={"limits": small_limits(max_running=2)})
    flows = [pair.left.open_flow(STREAM) for _ in range(3)]
    pair.pump()
    assert [[type(one) for one in flow.outcomes] for flow in flows] == [[], [], [errors.Overloaded]]
    for flow in flows[:2]:
        pair.right.leave(pair.right.shell.flows[flow.call_id])
    pair.pump()
