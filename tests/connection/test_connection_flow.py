"""Credit and admission: nothing waits for ever, nothing is lost, nobody is starved, and a cheat is cut off."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcproto import errors
from rpcproto.config import Limits
from rpcproto.connection.budget import ReassemblyBudget
from rpcproto.wire import spec
from rpcproto.wire.spec import CreditClass, ErrorCode, Role
from tests.connection.pairing import ConnectionPair, Side, kinds, small_limits
from tests.wire import frames

KIB = 1024
MIB = 1 << 20
Make = Callable[..., ConnectionPair]
MakeSide = Callable[..., Side]


def breach_code(side: Side) -> int:
    assert side.breach is not None
    goaways = [frame for frame in side.sent() if frame.kind == spec.GOAWAY]
    assert [frame.aux for frame in goaways] == [side.breach.code]
    return side.breach.code


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
        frame = data.draw(st.sampled_from([100_000, MIB]))
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


# ---- admission ----------------------------------------------------------------------------------------------------


def test_messages_larger_than_the_budget_are_admitted_one_after_the_other(make_pair: Make) -> None:
    budget = ReassemblyBudget(100 * KIB)
    pair = make_pair(right={"budget": budget})
    calls = [pair.left.request("log", bytes(size)) for size in (200_000, 300_000, 70_000, 70_000, 200_000)]
    most = 0
    for _ in range(1000):
        if not pair.carry(pair.left, pair.right) and not pair.carry(pair.right, pair.left):
            break
        most = max(most, budget.reserved)
    assert [len(call[3]) for call in pair.right.shell.called] == [200_000, 300_000, 70_000, 70_000, 200_000]
    assert most == 300_000
    for call in calls:
        pair.left.connection.cancel_call(call.call_id)
    pair.pump()


def test_two_connections_share_one_budget_first_come_first_served(make_pair: Make) -> None:
    budget = ReassemblyBudget(250_000)
    one, two = make_pair(right={"budget": budget}), make_pair(right={"budget": budget})
    for pair in (one, two, one, two):
        pair.left.notify("log", bytes(200_000))
        pair.carry(pair.left, pair.right)
    assert budget.reserved == 200_000
    for _ in range(6):
        for pair in (one, two):
            pair.pump()
    assert [len(pair.right.shell.called) for pair in (one, two)] == [2, 2]


@pytest.mark.parametrize("ending", ["cancel", "lost", "breach"])
def test_a_claim_goes_with_its_call_or_its_connection(make_pair: Make, ending: str) -> None:
    budget = ReassemblyBudget(100_000)
    first, second = make_pair(right={"budget": budget}), make_pair(right={"budget": budget})
    calls = [first.left.request("log", bytes(500_000)), second.left.request("echo", bytes(90_000))]
    first.carry(first.left, first.right)
    second.pump()
    assert calls[1].outcomes == []
    if ending == "cancel":
        first.left.connection.cancel_call(calls[0].call_id)
        first.pump()
    elif ending == "lost":
        for side in (first.left, first.right):
            side.connection.lost(errors.ConnectionLost("gone"))
    else:
        first.right.receive(frames.frame(200))
        first.carry(first.right, first.left)
    second.pump()
    assert calls[1].outcome == bytes(90_000)


def test_the_memory_hook_may_refuse_and_only_that_call_fails(pair: ConnectionPair) -> None:
    def refuse(sizes: list[int]) -> Any:
        raise MemoryError("none left")

    for shell in (pair.left.shell, pair.right.shell):
        shell.allocate = refuse  # type: ignore[method-assign]
    incoming, buffers = pair.left.request("echo", bytes(500_000)), pair.left.request("echo", b"x", [b"yy"])
    reply = pair.left.request("fill", b"500000")
    small = pair.left.request("echo", b"small")
    pair.pump()
    for call in (incoming, buffers, reply):
        assert type(call.outcome) is errors.Overloaded
        assert "none left" in str(call.outcome)
    assert small.outcome == b"small"


# ---- cheats -------------------------------------------------------------------------------------------------------


def test_row_21_a_peer_that_spends_more_than_it_has(side: Side) -> None:
    piece = frames.opening(1, bytes(60_000), name="hold")
    side.receive(piece)
    side.shell.held.clear()
    assert side.breach is None
    # Delivered messages give their credit back at once, so spend on one that is not delivered.
    for call_id in range(3, 13, 2):
        side.receive(frames.first(call_id, bytes(2000), 60_000))
    assert breach_code(side) == ErrorCode.FLOW_CONTROL


@pytest.mark.parametrize("kind", [spec.REQUEST, spec.REPLY])
def test_row_21_memory_is_bounded_by_the_window(make_side: MakeSide, kind: int) -> None:
    side = make_side(Role.ACCEPTOR if kind == spec.REQUEST else Role.INITIATOR)
    if kind == spec.REPLY:
        for _ in range(40):
            side.request("echo")
        side.sent()
    begun = 0
    for call_id in range(1, 80, 2):
        side.receive(frames.first(call_id, bytes(2000), 60_000, kind=kind))
        if side.breach is not None:
            break
        begun += 60_000
    assert begun <= 256 * KIB
    assert breach_code(side) == ErrorCode.FLOW_CONTROL


@pytest.mark.parametrize("carried", [1, 1024, 60_000])
def test_row_21_a_first_frame_that_carries_bytes_of_a_large_message(side: Side, carried: int) -> None:
    side.receive(frames.first(1, bytes(carried), 500_000))
    assert breach_code(side) == ErrorCode.FLOW_CONTROL


def test_row_21_fragments_of_a_message_that_is_not_admitted(make_side: MakeSide) -> None:
    budget = ReassemblyBudget(100_000)
    claim = budget.reserve(100_000, lambda _: None, None)
    side = make_side(budget=budget)
    side.receive(frames.first(1, b"", 500_000) + frames.more(1, bytes(1024)))
    assert breach_code(side) == ErrorCode.FLOW_CONTROL
    budget.release(claim)


def test_a_message_above_the_call_window_costs_64_bytes_of_credit(make_side: MakeSide) -> None:
    budget = ReassemblyBudget(100_000)
    claim = budget.reserve(100_000, lambda _: None, None)
    side = make_side(budget=budget)
    most = 256 * KIB // 64
    for call_id in range(1, 2 * most, 2):
        side.receive(frames.first(call_id, b"", 70_000))
    assert side.breach is None, str(side.breach)
    side.receive(frames.first(2 * most + 1, b"", 70_000))
    assert breach_code(side) == ErrorCode.FLOW_CONTROL
    budget.release(claim)


def test_row_53_and_54_heads_of_messages_that_wait_are_bounded(make_side: MakeSide) -> None:
    """What is announced costs little credit, so what its head makes us hold has to be bounded as well."""
    budget = ReassemblyBudget(100_000)
    claim = budget.reserve(100_000, lambda _: None, None)
    side = make_side(budget=budget)
    flags = frames.Flag.FIRST | frames.Flag.HEAD | frames.Flag.MORE
    held = 0
    for call_id in range(1, 2000, 2):
        head = frames.head(0, "echo", metadata=bytes(16_000), size=70_000)
        side.receive(frames.frame(spec.REQUEST, call_id, head, flags=flags))
        if side.breach is not None or spec.ERROR in kinds(side.sent()):
            break
        held += 16_000
    assert held <= 2 * 256 * KIB
    for waiting in range(1, call_id + 1, 2):
        side.receive(frames.cancel(waiting))
    budget.release(claim)
    side.sent()


@pytest.mark.parametrize("which", CreditClass)
@pytest.mark.parametrize("amounts", [[0], [1 << 31], [(1 << 31) - 1], [(1 << 63)], [1 << 30, 1 << 30]])
def test_row_20_and_fault_27_credit_that_cannot_be(side: Side, which: int, amounts: list[int]) -> None:
    side.receive(b"".join(frames.credit(amount, 0, which) for amount in amounts))
    assert breach_code(side) == ErrorCode.FLOW_CONTROL


@pytest.mark.parametrize("which", [2, 3, 0xFFFF])
def test_row_20_credit_of_no_class(side: Side, which: int) -> None:
    side.receive(frames.credit(1, 0, which))
    assert breach_code(side) == ErrorCode.FLOW_CONTROL


def test_row_20_credit_of_single_bytes_is_used_as_it_comes(make_side: MakeSide) -> None:
    side = make_side()
    sizes = [65_536] * 4 + [100, 200]
    for size in sizes:
        side.notify("log", bytes(size))
    assert len(side.sent()) == 4
    for given in range(1, 301):
        data = frames.credit(1)
        side.observer.saw_credit(frames.split(data)[0])
        side.receive(data)
        assert len(side.sent()) == (given in (100, 300))


def test_row_26_a_flood_of_credit(side: Side) -> None:
    side.receive(frames.credit(1) * 5000)
    assert breach_code(side) == ErrorCode.FLOOD


def test_row_26_honest_credit_is_no_flood(make_pair: Make) -> None:
    limits = small_limits(connection_window=64 * KIB)
    pair = make_pair(right={"limits": limits})
    for _ in range(3000):
        pair.left.notify("log", bytes(33_000))
        pair.pump()
    assert pair.left.breach is None


# ---- nothing is lost ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [0, 5000, 65_536, 70_000, 300_000])
@pytest.mark.parametrize("method", ["echo", "fail", "missing", "hold"])
def test_row_24_credit_of_calls_that_end_in_any_way_comes_back(
    pair: ConnectionPair, method: str, size: int
) -> None:
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


def test_windows_grow_with_what_arrives_in_a_round_trip(make_pair: Make) -> None:
    limits = small_limits(connection_window=128 * KIB, max_connection_window=MIB)
    pair = make_pair(right={"limits": limits})
    for _ in range(40):
        for _ in range(20):
            pair.left.notify("log", bytes(60_000))
        pair.pump()
    given, spent = pair.left.observer.given, pair.left.observer.spent
    assert 128 * KIB < 128 * KIB + given[CreditClass.CALLS] - spent[CreditClass.CALLS] <= MIB
    assert spec.PING in kinds(pair.right.observer.frames)
