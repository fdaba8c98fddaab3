"""Calls that are given up, by either side, at every moment: one outcome each, and no other call notices."""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from rpcproto import errors
from rpcproto.wire import spec
from rpcproto.wire.spec import ErrorCode, Role
from tests.connection.pairing import ConnectionPair, Side, cancels
from tests.wire import frames

KIB = 1024
MIB = 1 << 20
Make = Callable[..., ConnectionPair]
MakeSide = Callable[..., Side]


# ---- the opener gives up -------------------------------------------------------------------------------------------


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
        running = side.connection.begin(kind, call_id, codec, "hold", size, -1, False)  # type: ignore[arg-type]
        assert running is not None
        side.shell.held[int(str(call_id))] = running
        return 0

    side.shell.on_call = hold  # type: ignore[method-assign]
    side.receive(frames.opening(1, b"x", kind=spec.NOTIFY, name="hold") + frames.cancel(1))
    assert ("cancelled", 1, ErrorCode.CANCELLED) not in side.shell.events
    assert not side.answer(1)


# ---- the other side gives up ---------------------------------------------------------------------------------------


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


# ---- answers that come late, twice, or to nobody ---------------------------------------------------------------------


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
