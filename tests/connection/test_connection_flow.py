"""Credit and admission: nothing waits for ever, nothing is lost, nobody is starved, and a cheat is cut off."""

from __future__ import annotations

import random
from collections import deque
from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcproto import errors
from rpcproto.config import Limits
from rpcproto.wire import spec
from rpcproto.wire.spec import CreditClass, Role
from tests.connection.pairing import ConnectionPair, Side, kinds, small_limits
from tests.wire import frames

KIB = 1024
MIB = 1 << 20
Make = Callable[..., ConnectionPair]
MakeSide = Callable[..., Side]


# ---- nothing waits for ever ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("windows", [(64, 64), (64, 65), (64, 127), (64, 128), (100, 150), (256, 256)])
@pytest.mark.parametrize("kind", ["echo", "notify"])
def test_fault_26_message_sizes_around_the_windows(make_pair: Make, windows: tuple[int, int], kind: str) -> None:
    """Each size behind each remainder, one at a time: credit is never held back while somebody waits for it."""
    call, connection = windows
    limits = small_limits(call_window=call * KIB, connection_window=connection * KIB)
    pair = make_pair(left={"limits": limits}, right={"limits": limits})
    near = [call * KIB - 1, call * KIB, call * KIB + 1, connection * KIB, connection * KIB + 1]
    for remainder in (0, 1, 100, 1000, 30_000, 32 * KIB, connection * KIB // 2 - 1):
        for size in [*near, MIB]:
            if kind == "echo":
                first, second = pair.left.request("echo", bytes(remainder)), pair.left.request("echo", bytes(size))
                pair.pump()
                assert (len(first.outcome), len(second.outcome)) == (remainder, size)
            else:
                handles = pair.left.notify("log", bytes(remainder)), pair.left.notify("log", bytes(size))
                pair.pump()
                assert [handle.outcome for handle in handles] == ["written", "written"]


@pytest.mark.parametrize("size", [16 * MIB, 40 * MIB])
def test_fault_26_messages_far_above_every_window(pair: ConnectionPair, size: int) -> None:
    body = random.Random(size).randbytes(MIB) * (size // MIB)
    call = pair.left.request("echo", body)
    pair.pump()
    assert call.outcome == body


def test_fault_26_a_window_with_credit_for_exactly_one_message(make_pair: Make) -> None:
    limits = small_limits(connection_window=64 * KIB)
    pair = make_pair(right={"limits": limits})
    calls = [pair.left.request("echo", bytes(64 * KIB)) for _ in range(20)]
    pair.pump()
    assert all(len(call.outcome) == 64 * KIB for call in calls)


@pytest.mark.parametrize("step", [1 << 30, 5000])
def test_many_large_messages_together_larger_than_the_window(pair: ConnectionPair, step: int) -> None:
    chance = random.Random(3)
    bodies = [chance.randbytes(chance.choice([10, 60_000, 65_536, 65_537, 200_000, 700_000])) for _ in range(40)]
    calls = [(side.request("echo", body), body) for body in bodies for side in (pair.left, pair.right)]
    pair.pump(step)
    assert all(call.outcome == body for call, body in calls)


@given(st.data())
def test_any_mix_of_sizes_windows_and_reads_comes_to_an_end(data: st.DataObject) -> None:
    def limits() -> Limits:
        call = data.draw(st.integers(64 * KIB, 200 * KIB))
        window = data.draw(st.integers(call, 400 * KIB))
        grown = data.draw(st.sampled_from([window, 2 * window]))
        frame = data.draw(st.sampled_from([131_072, MIB]))
        return small_limits(call_window=call, connection_window=window, max_connection_window=grown, max_frame=frame)

    pair = ConnectionPair({"limits": limits()}, {"limits": limits()})
    sizes = st.one_of(st.integers(0, 200), st.integers(0, 70_000), st.integers(60_000, 600_000))
    waiting = []
    for _ in range(data.draw(st.integers(1, 12))):
        side = data.draw(st.sampled_from([pair.left, pair.right]))
        body = bytes(data.draw(sizes))
        buffers = data.draw(st.one_of(st.none(), st.lists(sizes.map(bytes), max_size=3)))
        if data.draw(st.booleans()):
            waiting.append((side.request("echo", body, buffers), body if buffers is None else (body, buffers)))
        else:
            waiting.append((side.notify("log", body, buffers), "written"))
        if data.draw(st.booleans()):
            pair.carry(side, pair.right if side is pair.left else pair.left)
    pair.pump(data.draw(st.sampled_from([1 << 30, 65_536, 10_007])))
    assert all(call.outcome == expected for call, expected in waiting)
    pair.verify()


# ---- order and fairness -------------------------------------------------------------------------------------------


def test_replies_never_wait_for_request_credit(make_side: MakeSide) -> None:
    side = make_side()
    waiting = [side.notify("log", bytes(60_000)) for _ in range(20)]
    assert len(side.sent()) == 4
    side.receive(frames.opening(1, b"hello"))
    assert [(frame.kind, frame.call_id) for frame in side.sent()] == [(spec.REPLY, 1)]
    side.connection.lost(errors.ConnectionLost("over"))
    assert [len(handle.outcomes) for handle in waiting] == [1] * 20


def test_control_frames_never_wait_for_credit(make_side: MakeSide) -> None:
    side = make_side()
    calls = [side.request("echo", bytes(60_000)) for _ in range(20)]
    side.sent()
    side.connection.cancel_call(calls[0].call_id)
    side.receive(frames.ping() + frames.opening(1, b"x", name="missing"))
    assert sorted(kinds(side.sent())) == [spec.ERROR, spec.CANCEL, spec.PING]
    side.connection.lost(errors.ConnectionLost("over"))


def test_fault_27_requests_keep_their_order_while_they_wait_for_credit(pair: ConnectionPair) -> None:
    sizes = [60_000] * 6 + [10, 5000, 0, 60_000, 1]
    for size in sizes:
        pair.left.notify("log", bytes(size))
    pair.pump()
    assert [len(call[3]) for call in pair.right.shell.called] == sizes


def test_row_18_a_small_call_passes_one_of_64_mib(make_pair: Make) -> None:
    pair = make_pair()
    large = pair.left.request("log", bytes(64 * MIB))
    for _ in range(5):
        pair.carry(pair.left, pair.right, limit=64 * KIB)
        pair.carry(pair.right, pair.left)
    small = pair.left.request("echo", b"quick")
    pair.carry(pair.left, pair.right, limit=64 * KIB)
    pair.carry(pair.right, pair.left)
    assert small.outcome == b"quick"
    assert large.outcomes == []
    pair.left.connection.cancel_call(large.call_id)
    pair.pump()


def test_row_18_large_calls_share_the_connection(pair: ConnectionPair) -> None:
    first, second = pair.left.request("log", bytes(8 * MIB)), pair.left.request("log", bytes(8 * MIB))
    seen = {first.call_id: 0, second.call_id: 0}
    for _ in range(100):
        for frame in pair.carry(pair.left, pair.right):
            seen[frame.call_id] += len(frame.payload)
        pair.carry(pair.right, pair.left)
        if min(seen.values()) > MIB:
            assert abs(seen[first.call_id] - seen[second.call_id]) <= 2 * 64 * KIB + 20_000
    pair.left.connection.cancel_call(first.call_id)
    pair.left.connection.cancel_call(second.call_id)
    pair.pump()


# ---- nothing is lost ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 5000, 65_536, 70_000, 300_000])
@pytest.mark.parametrize("method", ["echo", "fail", "missing", "hold"])
def test_row_24_credit_of_calls_that_end_in_any_way_comes_back(pair: ConnectionPair, method: str, size: int) -> None:
    """The pair checks at the end that not one byte is missing."""
    for turn in range(12):
        call = pair.left.request(method, bytes(size))
        if turn % 3 == 0:
            pair.carry(pair.left, pair.right)
            pair.left.connection.cancel_call(call.call_id)
        elif turn % 3 == 1:
            pair.pump(limit=1000)
        else:
            pair.carry(pair.left, pair.right, limit=1000)
            pair.left.connection.cancel_call(call.call_id)
        pair.pump()
    for call_id in list(pair.right.shell.held):
        pair.right.answer(call_id)
    pair.pump()


@pytest.mark.parametrize("size", [70_000, 200_000])
@pytest.mark.parametrize("kind", ["request", "reply"])
def test_row_24_a_message_dropped_before_its_first_byte_gives_its_credit_back(
    make_pair: Make, kind: str, size: int
) -> None:
    limits = small_limits(call_window=100_000)
    pair = make_pair({"limits": limits}, {"limits": limits})
    method, body = ("echo", bytes(size)) if kind == "request" else ("fill", str(size).encode())
    for _ in range(40):
        call = pair.left.request(method, body)
        if kind == "reply":
            pair.carry(pair.left, pair.right)
        pair.left.connection.cancel_call(call.call_id)
        if kind == "reply":
            pair.carry(pair.left, pair.right)
    last = pair.left.request("fill", b"60000")
    pair.pump()
    assert last.outcome == bytes(60_000)


def test_row_24_many_half_sent_messages_leave_the_window_whole(pair: ConnectionPair) -> None:
    for _ in range(500):
        call = pair.left.request("echo", bytes(200_000))
        pair.carry(pair.left, pair.right, limit=1)
        pair.carry(pair.right, pair.left)
        pair.carry(pair.left, pair.right, limit=1)
        pair.left.connection.cancel_call(call.call_id)
        pair.carry(pair.left, pair.right)
    pair.pump()
    assert not pair.right.decoder.assemblies
    assert pair.right.budget.reserved == 0


def test_row_16_and_24_bytes_that_cross_a_cancel_are_counted(make_side: MakeSide) -> None:
    side = make_side(Role.INITIATOR)
    for _ in range(40):
        call_id = side.request("echo").call_id
        side.connection.cancel_call(call_id)
        side.sent()
        side.receive(frames.reply(call_id, bytes(60_000)))
    assert side.breach is None
    given = [frame for frame in side.observer.frames + side.sent() if frame.kind == spec.CREDIT]
    assert sum(int.from_bytes(frame.payload, "little") for frame in given) <= 40 * 60_000


@pytest.mark.parametrize(("per_tick", "grown"), [(64 * KIB, MIB), (400, 128 * KIB)])
def test_windows_grow_with_what_arrives_in_a_round_trip(make_pair: Make, per_tick: int, grown: int) -> None:
    """A link with a delay of 10 ticks each way: a stream fills it, or it does not and the window stays as it is."""
    limits = small_limits(connection_window=128 * KIB, max_connection_window=MIB)
    pair = make_pair(right={"limits": limits})
    link: deque[tuple[int, Side, Side, bytes]] = deque()
    size, left = min(2000, per_tick // 2), 400 * per_tick
    for tick in range(1500):
        while left > 0 and pair.left.connection.queued() < 2 * per_tick:
            pair.left.notify("log", bytes(size))
            left -= size
        for source, target in ((pair.left, pair.right), (pair.right, pair.left)):
            link.append((tick + 10, source, target, source.take(per_tick)))
        while link[0][0] <= tick:
            _, source, target, data = link.popleft()
            for frame in frames.split(data):
                if frame.kind == spec.CREDIT:
                    target.observer.saw_credit(frame)
            target.receive(data)
    given, spent = pair.left.observer.given[CreditClass.CALLS], pair.left.observer.spent[CreditClass.CALLS]
    assert left <= 0
    assert grown // 2 < 128 * KIB + given - spent <= grown
