"""What a connection tells of itself, and how much of it."""

from __future__ import annotations

from typing import Any

import pytest

from rpcproto.connection.snapshot import calls_of, state_of
from rpcproto.errors import ConnectionLost
from rpcproto.wire import spec
from rpcproto.wire.spec import ErrorCode, Role
from tests.connection.pairing import KIB, ConnectionPair, Side


def told(side: Side, most: int = 100) -> list[dict[str, Any]]:
    """The calls of a side; what is as for an idle one is left out."""
    found, left_out = calls_of(side.connection, side.shell.now(), most)
    assert left_out == 0
    idle = {"queued": 0, "held": 0, "credit": None, "window": None, "time_left": None}
    return [{key: value for key, value in call.items() if value != idle.get(key, ...)} for call in found]


def test_an_idle_connection(pair: ConnectionPair) -> None:
    assert told(pair.left) == []
    assert state_of(pair.left.connection) == {
        "state": "open",
        "paused": False,
        "queued": 0,
        "credit_calls": 256 * KIB,
        "credit_replies": 256 * KIB,
        "blocked": 0,
        "blocked_bytes": 0,
        "unadmitted": 0,
        "unadmitted_bytes": 0,
        "window_calls": 256 * KIB,
        "window_replies": 256 * KIB,
        "left_calls": 256 * KIB,
        "left_replies": 256 * KIB,
        "arriving": 0,
        "running": 0,
        "running_bytes": 0,
        "pending": 0,
        "flows": 0,
    }


def test_the_states_of_a_connection(make_pair) -> None:
    pair = make_pair(greet=False)
    assert state_of(pair.left.connection)["state"] == "waiting"
    pair.left.greet()
    pair.right.greet()
    pair.left.connection.go_away(False)
    assert state_of(pair.left.connection)["state"] == "draining"
    pair.pump()
    pair.left.connection.abandon(ErrorCode.HEARTBEAT, "over")
    assert state_of(pair.left.connection)["state"] == "closed"
    pair.pump()


def test_a_request_seen_from_both_sides(pair: ConnectionPair) -> None:
    call = pair.left.request("hold", b"x" * 100, timeout=10.0)
    pair.pump()
    pair.clock.now += 4.0
    request = {"id": 1, "kind": "request", "method": "hold"}
    (ours,), (theirs,) = told(pair.left), told(pair.right)
    assert ours == request | {"direction": "out", "state": "sent", "time_left": pytest.approx(6.0)}
    assert theirs == request | {
        "direction": "in",
        "state": "running",
        "held": 100,
        "time_left": pytest.approx(6.0, abs=0.01),
    }
    assert state_of(pair.left.connection)["pending"] == 1
    assert state_of(pair.right.connection)["running"] == 1
    assert state_of(pair.right.connection)["running_bytes"] == 100
    pair.left.connection.cancel_call(1)
    pair.pump()
    assert told(pair.left) == []
    assert [call["state"] for call in told(pair.right)] == ["cancelled"]
    pair.right.answer(1)
    assert told(pair.right) == []
    assert call.outcomes == []


def test_what_a_request_waits_for(pair: ConnectionPair) -> None:
    side = pair.left
    calls = [side.request("hold", bytes(64 * KIB)) for _ in range(5)]
    assert [(call["state"], call.get("queued", 0)) for call in told(side)] == [("sent", 0)] * 4 + [("credit", 64 * KIB)]
    assert state_of(side.connection)["credit_calls"] == 0
    assert state_of(side.connection)["blocked"] == 1
    assert state_of(side.connection)["blocked_bytes"] == 64 * KIB
    pair.pump()
    for number in range(5):
        pair.right.answer(2 * number + 1)
    pair.pump()
    assert [call.outcome for call in calls] == [b"held"] * 5


def test_a_large_message_that_was_not_admitted(pair: ConnectionPair) -> None:
    size = 100 * KIB
    call = pair.left.request("echo", bytes(size))
    assert [(call["state"], call["queued"]) for call in told(pair.left)] == [("admission", size)]
    assert state_of(pair.left.connection)["unadmitted"] == 1
    assert state_of(pair.left.connection)["unadmitted_bytes"] == size
    pair.carry(pair.left, pair.right)
    assert state_of(pair.right.connection)["arriving"] == 1
    assert told(pair.right) == [], "it has not arrived"
    pair.pump()
    assert call.outcome == bytes(size)


def test_a_running_notify(make_pair) -> None:
    pair = make_pair()
    running = pair.right.connection.begin(spec.NOTIFY, 1, 1, "log", 10, -1, False)
    assert told(pair.right) == [
        {"id": 1, "direction": "in", "kind": "notify", "method": "log", "state": "running", "held": 10}
    ]
    pair.right.connection.finished(running)


def test_a_stream_seen_from_both_sides(pair: ConnectionPair) -> None:
    flow = pair.left.open_flow(spec.STREAM, timeout=5.0)
    pair.pump()
    stream = {"id": 1, "kind": "stream", "method": "flow"}
    served = pair.right.shell.flows[1]
    window = 64 * KIB
    (ours,), (theirs,) = told(pair.left), told(pair.right)
    assert ours.pop("time_left") == theirs.pop("time_left") == 5.0
    assert ours == stream | {"direction": "out", "state": "receiving", "window": window}
    assert theirs == stream | {"direction": "in", "state": "sending", "credit": window}

    pair.right.item(served, bytes(window))
    pair.right.item(served, bytes(1000))
    pair.pump()
    (ours,), (theirs,) = told(pair.left), told(pair.right)
    assert (ours["held"], ours["window"]) == (window, 0)
    assert (theirs["state"], theirs["queued"], theirs["credit"]) == ("credit", 1000, 0)

    pair.left.consume(flow)
    pair.pump()
    assert [call["state"] for call in told(pair.right)] == ["sending"]
    pair.right.leave(served)
    pair.pump()
    pair.left.consume(flow)
    assert told(pair.left) == told(pair.right) == []


def test_a_channel_and_its_ends(pair: ConnectionPair) -> None:
    flow = pair.left.open_flow(spec.CHANNEL)
    pair.pump()
    served = pair.right.shell.flows[1]
    assert [call["state"] for call in told(pair.left) + told(pair.right)] == ["open", "open"]
    pair.left.connection.end_items(flow, False)
    pair.pump()
    (ours,), (theirs,) = told(pair.left), told(pair.right)
    assert (ours["state"], "credit" in ours, ours["window"]) == ("receiving", False, 64 * KIB)
    assert (theirs["state"], theirs["credit"], "window" in theirs) == ("sending", 64 * KIB, False)
    pair.right.leave(served)
    pair.pump()
    assert told(pair.left) == told(pair.right) == []


def test_a_flow_that_is_over_while_its_handler_is_not(pair: ConnectionPair) -> None:
    flow = pair.left.open_flow(spec.STREAM)
    pair.pump()
    pair.left.connection.give_up_flow(flow, ErrorCode.CANCELLED)
    pair.pump()
    assert [(call["state"], call["kind"]) for call in told(pair.right)] == [("cancelled", "stream")]
    pair.right.leave(pair.right.shell.flows[1])
    assert told(pair.right) == []


def test_a_handler_that_has_returned_while_items_wait(pair: ConnectionPair) -> None:
    flow = pair.left.open_flow(spec.STREAM)
    pair.pump()
    served = pair.right.shell.flows[1]
    for _ in range(2):
        pair.right.item(served, bytes(64 * KIB))
    pair.right.leave(served)
    pair.pump()
    assert state_of(pair.right.connection)["running"] == 0
    assert [(call["direction"], call["state"]) for call in told(pair.right)] == [("in", "credit")]
    while flow.outcomes != ["end", "over"] and flow.outcomes != ["over"]:
        pair.left.consume(flow)
        pair.pump()


def test_an_item_of_ours_that_waits_to_be_admitted(pair: ConnectionPair) -> None:
    flow = pair.left.open_flow(spec.CHANNEL)
    pair.pump()
    pair.left.item(flow, bytes(100 * KIB))
    assert [(call["state"], call["queued"]) for call in told(pair.left)] == [("admission", 100 * KIB)]
    pair.left.connection.give_up_flow(flow, ErrorCode.CANCELLED)
    pair.pump()
    pair.right.leave(pair.right.shell.flows[1])


def test_both_directions_have_their_share(pair: ConnectionPair) -> None:
    for _ in range(10):
        pair.left.request("hold")
    for _ in range(3):
        pair.right.request("hold")
    pair.pump()
    connection, now = pair.left.connection, pair.clock.now

    def directions(most: int) -> tuple[int, int, int]:
        found, left_out = calls_of(connection, now, most)
        ways = [call["direction"] for call in found]
        return ways.count("in"), ways.count("out"), left_out

    assert directions(100) == (3, 10, 0)
    assert directions(13) == (3, 10, 0)
    assert directions(12) == (3, 9, 1)
    assert directions(6) == (3, 3, 7)
    assert directions(4) == (2, 2, 9)
    assert directions(3) == (1, 2, 10)
    assert directions(0) == (0, 0, 13)
    found, _ = calls_of(connection, now, 4)
    assert [call["id"] for call in found] == [2, 4, 1, 3], "the oldest"
    for number in range(10):
        pair.right.answer(2 * number + 1)
    for number in range(3):
        pair.left.answer(2 * number + 2)
    pair.pump()


def test_a_bounded_number_of_very_many_calls(make_side) -> None:
    side = make_side(Role.INITIATOR)
    calls = [side.request("hold") for _ in range(20_000)]
    found, left_out = calls_of(side.connection, 0.0, 100)
    assert ([call["id"] for call in found], left_out) == (list(range(1, 201, 2)), 19_900)
    assert {call["state"] for call in found} == {"sent"}
    assert state_of(side.connection)["pending"] == 20_000
    assert state_of(side.connection)["blocked"] > 10_000
    side.connection.lost(ConnectionLost("over"))
    assert all(isinstance(call.outcome, ConnectionLost) for call in calls)


def test_a_flow_that_runs_is_one_call(pair: ConnectionPair) -> None:
    flows = [pair.left.open_flow(spec.STREAM) for _ in range(4)]
    pair.pump()
    found, left_out = calls_of(pair.right.connection, pair.clock.now, 3)
    assert (len(found), left_out) == (3, 1)
    for flow in flows:
        pair.left.connection.give_up_flow(flow, ErrorCode.CANCELLED)
    pair.pump()
    for flow in flows:
        pair.right.leave(pair.right.shell.flows[flow.call_id])
