"""Calls that are given up, by either side, at every moment: one outcome each, and no other call notices."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from rpcproto import errors
from rpcproto.wire import spec
from rpcproto.wire.spec import ErrorCode, Role
from tests.connection.pairing import ConnectionPair, Side, kinds, small_limits
from tests.wire import frames

Make = Callable[..., ConnectionPair]
MakeSide = Callable[..., Side]


def cancels(found: list[frames.Frame]) -> list[tuple[int, int]]:
    return [(frame.call_id, frame.aux) for frame in found if frame.kind == spec.CANCEL]


# ---- the opener gives up --------------------------------------------------------------------------------------------


def test_row_27_before_anything_was_taken(pair: ConnectionPair) -> None:
    call = pair.left.request("hold", b"x")
    pair.left.connection.cancel_call(call.call_id)
    pair.pump()
    assert call.outcomes == []
    for call_id in list(pair.right.shell.held):
        assert not pair.right.answer(call_id)


def test_row_27_while_it_waits_for_credit(pair: ConnectionPair) -> None:
    others = [pair.left.request("log", bytes(60_000)) for _ in range(4)]
    call = pair.left.request("hold", bytes(60_000))
    pair.left.connection.cancel_call(call.call_id)
    assert not call.sent
    found = pair.pump()
    assert cancels(found) == []
    assert all(frame.call_id != call.call_id for frame in found)
    for other in others:
        pair.left.connection.cancel_call(other.call_id)
    pair.pump()


def test_row_27_while_it_waits_to_be_admitted(pair: ConnectionPair) -> None:
    call = pair.left.request("hold", bytes(500_000))
    pair.carry(pair.left, pair.right)
    pair.left.connection.cancel_call(call.call_id)
    assert cancels(pair.pump()) == [(call.call_id, ErrorCode.CANCELLED)]
    assert not pair.right.shell.called
    assert pair.right.budget.reserved == 0


def test_row_27_in_the_middle_of_a_large_message(pair: ConnectionPair) -> None:
    call, other = pair.left.request("hold", bytes(5 << 20)), pair.left.request("log", bytes(5 << 20))
    for _ in range(10):
        pair.carry(pair.left, pair.right)
        pair.carry(pair.right, pair.left)
    pair.left.connection.cancel_call(call.call_id)
    found = pair.pump()
    assert cancels(found) == [(call.call_id, ErrorCode.CANCELLED)]
    assert [called[0] for called in pair.right.shell.called] == ["log"]
    pair.left.connection.cancel_call(other.call_id)
    pair.pump()


def test_row_27_while_its_handler_runs(pair: ConnectionPair) -> None:
    call = pair.left.request("hold", b"x")
    pair.pump()
    pair.left.connection.cancel_call(call.call_id)
    assert cancels(pair.pump()) == [(call.call_id, ErrorCode.CANCELLED)]
    assert pair.right.shell.events[-1] == ("cancelled", call.call_id, ErrorCode.CANCELLED)
    assert not pair.right.answer(call.call_id)
    assert pair.pump() == []
    assert call.outcomes == []


def test_row_27_while_its_large_reply_is_under_way(pair: ConnectionPair) -> None:
    call = pair.left.request("fill", str(5 << 20).encode())
    for _ in range(4):
        pair.carry(pair.left, pair.right)
        pair.carry(pair.right, pair.left, limit=1)
    assert pair.left.budget.reserved == 5 << 20
    pair.left.connection.cancel_call(call.call_id)
    assert pair.left.budget.reserved == 0
    pair.pump()
    assert call.outcomes == []


def test_row_27_after_it_was_answered_and_twice(pair: ConnectionPair) -> None:
    call = pair.left.request("echo", b"x")
    pair.pump()
    for call_id in (call.call_id, call.call_id, 99, 2, 0):
        pair.left.connection.cancel_call(call_id)
    assert pair.pump() == []
    assert call.outcome == b"x"


def test_row_27_a_call_is_cancelled_at_the_handler_once(side: Side) -> None:
    side.receive(frames.opening(1, b"x", name="hold") + frames.cancel(1) * 5)
    assert [event for event in side.shell.events if event[0] == "cancelled"] == [("cancelled", 1, 0x204)]
    assert not side.answer(1)


@pytest.mark.parametrize("code", [ErrorCode.CANCELLED, ErrorCode.DEADLINE_EXCEEDED, 0x999])
def test_the_handler_is_told_the_code(side: Side, code: int) -> None:
    side.receive(frames.opening(1, b"x", name="hold") + frames.cancel(1, code))
    assert side.shell.events[-1] == ("cancelled", 1, code)
    side.answer(1)


def test_a_notify_is_closed_once_it_was_sent_so_a_cancel_of_it_is_ignored(side: Side) -> None:
    def hold(*told: object) -> int:
        _, kind, call_id, codec, _, _, _, _, size = told
        running = side.connection.begin(kind, call_id, codec, "hold", size, -1)  # type: ignore[arg-type]
        assert running is not None
        side.shell.held[int(str(call_id))] = running
        return 0

    side.shell.on_call = hold  # type: ignore[method-assign]
    side.receive(frames.opening(1, b"x", kind=spec.NOTIFY, name="hold") + frames.cancel(1))
    assert ("cancelled", 1, ErrorCode.CANCELLED) not in side.shell.events
    assert not side.answer(1)


# ---- the other side gives up ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("code", "kind"),
    [
        (ErrorCode.CANCELLED, errors.CallCancelled),
        (ErrorCode.DEADLINE_EXCEEDED, errors.DeadlineExceeded),
        (ErrorCode.OVERLOADED, errors.Overloaded),
        (0x999, errors.RemoteError),
    ],
)
def test_a_cancel_of_the_peer_fails_the_call(make_side: MakeSide, code: int, kind: type[Exception]) -> None:
    side = make_side(Role.INITIATOR)
    call = side.request("echo", b"x")
    side.sent()
    side.receive(frames.cancel(1, code) * 2 + frames.reply(1, b"late"))
    assert type(call.outcome) is kind
    assert side.sent() == []


@pytest.mark.parametrize("how", ["error", "cancel"])
def test_a_large_request_stops_when_the_peer_ends_it(make_side: MakeSide, how: str) -> None:
    side = make_side(Role.INITIATOR)
    call = side.request("echo", bytes(5 << 20))
    side.take(1)
    side.admit(1, 5 << 20)
    side.take(1)
    side.receive(frames.error(1, ErrorCode.OVERLOADED, text="full") if how == "error" else frames.cancel(1))
    assert side.sent() == []
    assert side.connection.queued() == 0
    assert isinstance(call.outcome, errors.Overloaded if how == "error" else errors.CallCancelled)


def test_a_large_reply_stops_when_the_opener_cancels(side: Side) -> None:
    side.receive(frames.opening(1, str(5 << 20).encode(), name="fill"))
    side.take(1)
    side.admit(1, 5 << 20)
    side.take(1)
    side.receive(frames.cancel(1))
    assert side.sent() == []
    assert side.connection.queued() == 0


# ---- answers that come late, twice, or to nobody ----------------------------------------------------------------------


def test_row_16_and_fault_16_late_answers_are_dropped_and_counted(make_side: MakeSide) -> None:
    side = make_side(Role.INITIATOR)
    first, second = side.request("echo", b"1"), side.request("echo", b"2")
    side.connection.cancel_call(first.call_id)
    side.sent()
    side.receive(frames.reply(1, b"late") + frames.error(1) + frames.cancel(1) + frames.reply(1, b"again"))
    side.receive(frames.reply(3, b"mine") + frames.reply(3, b"twice"))
    assert first.outcomes == []
    assert second.outcome == b"mine"
    assert side.connection.late_replies == 4
    assert side.sent() == []


def test_row_16_late_fragments_are_dropped(make_side: MakeSide) -> None:
    side = make_side(Role.INITIATOR)
    call = side.request("echo", b"1")
    side.sent()
    side.receive(frames.first(1, bytes(2000), 60_000, kind=spec.REPLY))
    side.connection.cancel_call(call.call_id)
    side.receive(frames.more(1, bytes(20_000), kind=spec.REPLY) + frames.more(1, bytes(38_000), kind=spec.REPLY))
    side.receive(frames.first(1, bytes(2000), 60_000, kind=spec.REPLY) + frames.more(1, bytes(3000), kind=spec.REPLY))
    assert side.breach is None
    assert call.outcomes == []
    assert cancels(side.sent()) == [(1, ErrorCode.CANCELLED)]


@pytest.mark.parametrize("seed", range(4))
def test_fault_35_every_answer_carries_its_own_nonce(pair: ConnectionPair, seed: int) -> None:
    """Calls cancelled at random moments, in pieces of random sizes: no answer reaches another call."""
    chance = random.Random(seed)
    open_calls: dict[int, tuple[bytes, object]] = {}
    done = 0
    for turn in range(600):
        size = chance.choice([0, 10, 5000, 65_536, 70_000, 150_000])
        nonce = turn.to_bytes(4, "little") + bytes(size)
        call = pair.left.request("echo", nonce)
        open_calls[call.call_id] = (nonce, call)
        if chance.random() < 0.7:
            pair.carry(pair.left, pair.right, chance.choice([1 << 30, 1000]), chance.choice([1, 1 << 18]))
        if chance.random() < 0.5:
            victim = chance.choice(list(open_calls))
            pair.left.connection.cancel_call(victim)
            open_calls.pop(victim)
        if chance.random() < 0.7:
            pair.carry(pair.right, pair.left, 1 << 30, chance.choice([1, 1 << 18]))
        for call_id, (expected, waiting) in list(open_calls.items()):
            if waiting.outcomes:  # type: ignore[attr-defined]
                assert waiting.outcomes == [expected]  # type: ignore[attr-defined]
                done += 1
                del open_calls[call_id]
    pair.pump()
    for expected, waiting in open_calls.values():
        assert waiting.outcomes == [expected]  # type: ignore[attr-defined]
    assert done > 100


def test_fault_18_nothing_is_kept_of_calls_that_are_over(pair: ConnectionPair) -> None:
    for turn in range(2000):
        call = pair.left.request(("echo", "fail", "missing", "hold")[turn % 4], b"x", timeout=5.0)
        if turn % 3 == 0:
            pair.left.connection.cancel_call(call.call_id)
        pair.pump()
        pair.left.connection.cancel_call(call.call_id)
    pair.pump()
    for call_id in list(pair.right.shell.held):
        pair.right.answer(call_id)
    for side in (pair.left, pair.right):
        connection = side.connection
        assert (len(connection.calls), len(connection.running), connection.running_size) == (0, 0, 0)
        assert connection.on_time(pair.clock.now + 100) == float("inf")


# ---- limits of the receiver -------------------------------------------------------------------------------------------


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


def test_row_29_honest_cancels_over_a_long_time_are_no_flood(make_pair: Make) -> None:
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


def test_row_28_a_cancelled_handler_counts_until_it_has_ended(make_pair: Make) -> None:
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


# ---- deadlines --------------------------------------------------------------------------------------------------------


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
    side.receive(frames.frame(spec.REQUEST, 1, head + bytes(1 if shape == "whole" else 2000), flags=flags))
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
