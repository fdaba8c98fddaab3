"""Large messages and the reassembly budget: who is admitted when, and what becomes of claims."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rpcproto import errors
from rpcproto.connection.budget import ReassemblyBudget
from tests.connection.pairing import ConnectionPair, Side
from tests.wire import frames

KIB = 1024
MIB = 1 << 20
Make = Callable[..., ConnectionPair]
MakeSide = Callable[..., Side]


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
