"""Peers that spend, announce or grant what they may not: they are cut off, and memory stays bounded."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rpcproto.connection.budget import ReassemblyBudget
from rpcproto.wire import spec
from rpcproto.wire.spec import CreditClass, ErrorCode, Role
from tests.connection.pairing import ConnectionPair, Side, breach_code, kinds, small_limits
from tests.wire import frames

KIB = 1024
MIB = 1 << 20
Make = Callable[..., ConnectionPair]
MakeSide = Callable[..., Side]


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


@pytest.mark.parametrize("total", [2, 60_000, 70_000])
@pytest.mark.parametrize("part", ["metadata", "buffers"])
def test_row_53_and_54_heads_of_messages_that_wait_are_bounded(make_side: MakeSide, part: str, total: int) -> None:
    """A message that is not complete makes us hold its head as well: the window has to bound that, too."""
    budget = ReassemblyBudget(100_000)
    claim = budget.reserve(100_000, lambda _: None, None)
    side = make_side(budget=budget)
    flags = frames.Flag.FIRST | frames.Flag.HEAD | frames.Flag.MORE
    if part == "metadata":
        head = frames.head(0, "echo", metadata=bytes(16_000), size=total)
    else:
        head = frames.head(0, "echo", size=total, buffers=[0] * 2000)
    held, call_id = 0, 1
    while held <= 2 * MIB and side.breach is None and spec.ERROR not in kinds(side.sent()):
        side.receive(frames.frame(spec.REQUEST, call_id, head, flags=flags))
        held += 16_000
        call_id += 2
    assert held <= 2 * 256 * KIB
    for waiting in range(1, call_id, 2):
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
