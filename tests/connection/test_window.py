"""Receive windows: what a peer may use, when it gets it back, and how they grow."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rpcproto.connection.window import ReceiveWindow
from rpcproto.errors import RemoteProtocolError
from rpcproto.wire.spec import ErrorCode


def test_a_peer_may_use_all_of_it_and_not_a_byte_more() -> None:
    window = ReceiveWindow("calls", 1000, 1000, 400)
    window.take(400)
    window.take(600)
    with pytest.raises(RemoteProtocolError, match="for calls where 0 were left") as caught:
        window.take(1)
    assert caught.value.code == ErrorCode.FLOW_CONTROL


def test_returns_are_gathered_up_to_half_of_the_window() -> None:
    window = ReceiveWindow("calls", 1000, 1000, 0)
    window.take(1000)
    assert [window.give_back(100) for _ in range(10)] == [0, 0, 0, 0, 500, 0, 0, 0, 0, 500]


@given(st.lists(st.integers(1, 400), max_size=200))
def test_row_24_nothing_is_lost_or_given_twice(costs: list[int]) -> None:
    window = ReceiveWindow("calls", 1000, 1000, 400)
    given_back = 0
    for cost in costs:
        window.take(cost)
        given_back += window.give_back(cost)
        assert sum(costs) - given_back >= 0
    assert sum(costs) - given_back < 500 + 400 or not costs
    before = given_back
    taken = sum(costs)
    while given_back == before:
        window.take(1)
        taken += 1
        given_back += window.give_back(1)
    assert given_back == taken


@given(st.lists(st.integers(1, 400), max_size=100))
def test_a_message_that_passes_through_is_taken_and_given_back(costs: list[int]) -> None:
    window, other = (ReceiveWindow("calls", 1000, 1000, 400) for _ in range(2))
    for cost in costs:
        other.take(cost)
        assert window.pass_through(cost) == other.give_back(cost)
        assert (window.left, window.owed, window.arrived) == (other.left, other.owed, other.arrived)


def test_what_passes_through_may_not_be_more_than_is_left() -> None:
    window = ReceiveWindow("calls", 1000, 1000, 400)
    window.take(900)
    with pytest.raises(RemoteProtocolError, match="for calls where 100 were left"):
        window.pass_through(101)


@pytest.mark.parametrize("largest", [500, 501, 900, 1000])
def test_fault_26_a_sender_is_never_left_with_less_than_a_message_may_cost(largest: int) -> None:
    window = ReceiveWindow("calls", 1000, 1000, largest)
    for cost in (1, 100, 499, largest, 64, largest - 1):
        window.take(cost)
        window.give_back(cost)
        assert window.left >= largest


def test_one_probe_at_a_time_and_none_at_the_limit() -> None:
    window = ReceiveWindow("calls", 1000, 4000, 400)
    assert window.start_probe()
    assert not window.start_probe()
    assert window.on_answer() == -1
    assert not window.start_probe()
    assert window.on_answer() == 0
    assert [window.start_probe() for _ in range(17)] == [False] * 16 + [True]  # it rests where it found enough
    assert not ReceiveWindow("calls", 1000, 1000, 400).start_probe()


@pytest.mark.parametrize(("arrived", "extra"), [(0, 0), (300, 0), (333, 0), (334, 1000), (1000, 1000)])
def test_it_doubles_if_a_third_of_it_arrived_in_a_round_trip(arrived: int, extra: int) -> None:
    window = ReceiveWindow("calls", 1000, 4000, 400)
    window.take(300)  # before the probe: does not count
    window.give_back(300)
    window.start_probe()
    assert window.on_answer() == -1
    if arrived:
        window.take(arrived if arrived <= 700 else 700)
        window.give_back(700)
        if arrived > 700:
            window.take(arrived - 700)
    assert window.on_answer() == extra


def test_it_grows_up_to_its_limit() -> None:
    window = ReceiveWindow("calls", 1000, 3500, 400)
    extras = []
    for _ in range(4):
        if not window.start_probe():
            extras.append(-1)
            continue
        size = 1000 + sum(extra for extra in extras if extra > 0)
        assert window.on_answer() == -1
        window.take(size)
        window.give_back(size)
        extras.append(window.on_answer())
    assert extras == [1000, 1500, -1, -1]
    window.take(3500)
    with pytest.raises(RemoteProtocolError):
        window.take(1)
