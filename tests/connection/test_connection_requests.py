"""Calls that go well, and calls that fail for reasons of their own, on two connections that are joined."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from rpcproto import errors
from rpcproto.wire import spec
from rpcproto.wire.spec import ErrorCode, Flag
from tests.connection.pairing import ConnectionPair, Side, kinds, small_limits
from tests.wire import frames

Make = Callable[..., ConnectionPair]


@pytest.mark.smoke
def test_a_request_and_its_reply(pair: ConnectionPair) -> None:
    call = pair.left.request("echo", b"hello")
    assert kinds(pair.pump()) == [spec.REQUEST, spec.REPLY]
    assert call.outcome == b"hello"
    assert pair.right.shell.called == [("echo", spec.REQUEST, 1, b"hello", [])]


def test_row_11_the_bytes_of_a_request_are_those_of_the_transcript(pair: ConnectionPair) -> None:
    pair.left.shell.methods = pair.right.shell.methods = {"Echo.echo"}
    pair.left.request("Echo.echo", b"hello")
    assert pair.left.take() == frames.opening(1, b"hello", method=1, name="Echo.echo")
    pair.left.request("Echo.echo", b"\x92\xa1a\x01", codec=2, timeout=5.0)
    assert pair.left.take() == frames.opening(3, b"\x92\xa1a\x01", codec=2, method=1, name=None, deadline=5000)
    pair.left.connection.calls.clear()
    pair.right.connection.reply(1, 1, b"hello", None, 5, None)
    assert pair.right.take() == frames.reply(1, b"hello")
    pair.left.connection.lost(errors.ConnectionLost("over"))
    pair.right.connection.lost(errors.ConnectionLost("over"))


@pytest.mark.parametrize("step", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("size", [0, 1, 4096, 4097, 65_535, 65_536, 65_537, 200_000])
def test_sizes_around_every_border(pair: ConnectionPair, size: int, step: int) -> None:
    if step == 1 and size > 5000:
        step = 101
    body = random.Random(size).randbytes(size)
    call = pair.left.request("echo", body)
    pair.pump(step)
    assert call.outcome == body


def test_both_sides_call_at_once(pair: ConnectionPair) -> None:
    calls = [(side, side.request("echo", bytes([at])), at) for at in range(50) for side in (pair.left, pair.right)]
    pair.pump(13)
    assert all(call.outcome == bytes([at]) for _, call, at in calls)
    assert {call.call_id & 1 for side, call, _ in calls if side is pair.left} == {1}
    assert {call.call_id & 1 for side, call, _ in calls if side is pair.right} == {0}


def test_row_18_each_reply_goes_to_its_own_call_in_any_order(pair: ConnectionPair) -> None:
    calls = [pair.left.request("hold", b"x") for _ in range(500)]
    pair.pump()
    order = [call.call_id for call in calls]
    random.Random(1).shuffle(order)
    for call_id in order:
        pair.right.answer(call_id, str(call_id).encode())
    pair.pump(50)
    assert [call.outcome for call in calls] == [str(call.call_id).encode() for call in calls]


@pytest.mark.parametrize("sizes", [[], [0], [0, 5, 0], [5000, 0, 70_000], [1] * 1000])
def test_fault_10_buffers_come_back_as_they_were(pair: ConnectionPair, sizes: list[int]) -> None:
    buffers = [bytes([65 + at % 26]) * size for at, size in enumerate(sizes)]
    call = pair.left.request("echo", b"body", list(buffers))
    pair.pump(997)
    assert call.outcome == (b"body", buffers)


def test_bytearrays_and_views_are_sent_like_bytes(pair: ConnectionPair) -> None:
    buffers = [bytearray(b"a" * 5000), memoryview(b"b" * 5000), memoryview(bytearray(100))]
    call = pair.left.request("echo", bytearray(b"body"), buffers)
    pair.pump()
    assert call.outcome == (b"body", [b"a" * 5000, b"b" * 5000, bytes(100)])


def test_method_names_are_sent_once_in_each_direction(pair: ConnectionPair) -> None:
    for side in (pair.left, pair.right):
        for method in ("echo", "fill", "echo", "fill", "echo"):
            side.request(method, b"1")
    found = [frame for frame in pair.pump() if frame.kind == spec.REQUEST]
    heads = [frames.read_head(frame.payload) for frame in found]
    assert [(head.method, head.name) for head in heads] == [
        *[(1, b"echo"), (2, b"fill"), (1, None), (2, None), (1, None)] * 2
    ]


def test_names_beyond_the_last_method_id_are_sent_each_time(pair: ConnectionPair) -> None:
    pair.right.shell.methods = pair.left.shell.methods = {"log", "fill", *(f"m{at}" for at in range(5000))}
    for at in range(4200):
        pair.left.notify(f"m{at}")
    pair.left.notify("m4199")
    found = [frames.read_head(frame.payload) for frame in pair.pump()]
    assert max(head.method for head in found) == 4095
    assert [head.name for head in found[-2:]] == [b"m4199", b"m4199"]
    assert [call[0] for call in pair.right.shell.called[-2:]] == ["m4199", "m4199"]


@pytest.mark.parametrize("name", ["", "n" * 256, "ü" * 128])
def test_row_64_names_that_cannot_be_sent_fail_at_the_call(pair: ConnectionPair, name: str) -> None:
    with pytest.raises(errors.LocalProtocolError, match="1 to 255 bytes"):
        pair.left.request(name)
    with pytest.raises(errors.LocalProtocolError, match="1 to 255 bytes"):
        pair.left.notify(name)


@pytest.mark.parametrize("name", ["n" * 255, "ü" * 127, "__class__", "a.b", "\0"])
def test_row_64_other_names_are_just_not_known(pair: ConnectionPair, name: str) -> None:
    call = pair.left.request(name)
    pair.pump()
    assert isinstance(call.outcome, errors.NoSuchMethod)
    assert name in str(call.outcome)


def test_a_method_that_is_not_known_is_refused_each_time(pair: ConnectionPair) -> None:
    handle = pair.left.notify("missing")
    calls = [pair.left.request("missing", body) for body in (b"", b"x" * 5000, b"x" * 70_000)]
    pair.pump()
    assert all(type(call.outcome) is errors.NoSuchMethod for call in calls)
    assert handle.outcome == "written"
    assert pair.right.connection.refused == 4
    assert not pair.right.shell.called


def test_row_19_a_handler_that_raises_fails_its_call_alone(pair: ConnectionPair) -> None:
    bad, good = pair.left.request("fail", b"1"), pair.left.request("echo", b"2")
    pair.pump()
    error = bad.outcome
    assert type(error) is errors.RemoteError
    assert (error.type_name, error.text, error.code) == ("ValueError", "no", ErrorCode.HANDLER_RAISED)
    assert good.outcome == b"2"


def test_a_notify_is_done_once_it_was_handed_over(pair: ConnectionPair) -> None:
    small, large = pair.left.notify("log", b"x"), pair.left.notify("log", b"y" * 200_000)
    assert (small.outcomes, large.outcomes) == ([], [])
    pair.carry(pair.left, pair.right)
    assert (small.outcomes, large.outcomes) == (["written"], [])
    assert spec.ERROR not in kinds(pair.pump())
    assert large.outcome == "written"
    assert [call[3] for call in pair.right.shell.called] == [b"x", b"y" * 200_000]


def test_a_failing_notify_is_not_answered(pair: ConnectionPair) -> None:
    handles = [pair.left.notify("fail"), pair.left.notify("missing"), pair.left.notify("missing", b"x" * 65_000)]
    assert set(kinds(pair.pump())) <= {spec.NOTIFY, spec.CREDIT}
    assert [handle.outcome for handle in handles] == ["written"] * 3


def test_a_notify_that_waits_to_be_admitted_is_told_when_it_is_refused(pair: ConnectionPair) -> None:
    handle = pair.left.notify("missing", b"x" * 70_000)
    pair.pump()
    assert isinstance(handle.outcome, errors.NoSuchMethod)
    assert pair.left.connection.queued() == 0


@pytest.mark.parametrize("sizes", [(70_000, 10), (10, 70_000, 10), (200_000, 70_000, 0, 65_536), (60_000, 65_537, 1)])
@pytest.mark.parametrize("kind", ["request", "notify"])
def test_row_13_ids_rise_on_the_wire_although_small_calls_pass_large_ones(
    pair: ConnectionPair, kind: str, sizes: tuple[int, ...]
) -> None:
    if kind == "request":
        calls = [pair.left.request("echo", bytes(size)) for size in sizes]
        pair.pump()
        assert [len(call.outcome) for call in calls] == list(sizes)
    else:
        for size in sizes:
            pair.left.notify("log", bytes(size))
        pair.pump()
        assert sorted(len(call[3]) for call in pair.right.shell.called) == sorted(sizes)


def test_a_ping_and_its_answer(pair: ConnectionPair) -> None:
    waiter = pair.left.request("hold")
    pair.pump()
    pair.left.connection.ping(waiter)
    assert kinds(pair.pump()) == [spec.PING, spec.PING]
    assert waiter.outcomes == ["pong"]
    pair.right.answer(waiter.call_id)
    pair.pump()


def test_row_38_answers_to_no_ping_are_ignored(side: Side) -> None:
    side.receive(frames.ping(b"nobody's", answer=True) * 5)
    assert side.sent() == []
    side.receive(frames.ping(b"a ping!!"))
    assert side.sent() == [frames.Frame(spec.PING, 0, 1, 0, b"a ping!!")]


@pytest.mark.parametrize("limit", [1000, 65_535, 65_536, 65_537, 100_000, 1_000_000])
def test_fault_96_a_request_around_the_peers_limit(make_pair: Make, limit: int) -> None:
    pair = make_pair(right={"max_message": limit, "limits": small_limits(max_message=limit)})
    for size in (limit - 1, limit):
        call = pair.left.request("echo", bytes(size))
        pair.pump()
        assert call.outcome == bytes(size)
    for send in (pair.left.request, pair.left.notify):
        with pytest.raises(errors.MessageTooLarge) as caught:
            send("echo", bytes(limit + 1))
        assert (caught.value.size, caught.value.limit) == (limit + 1, limit)
        assert "the peer's max_message" in str(caught.value)
    assert pair.pump() == []


@pytest.mark.parametrize("limit", [1000, 65_535, 65_536, 65_537, 100_000, 1_000_000])
def test_fault_96_a_reply_around_the_peers_limit(make_pair: Make, limit: int) -> None:
    pair = make_pair(left={"max_message": limit, "limits": small_limits(max_message=limit)})
    for size in (limit - 1, limit):
        call = pair.left.request("fill", str(size).encode())
        pair.pump()
        assert call.outcome == bytes(size)
    call = pair.left.request("fill", str(limit + 1).encode())
    found = pair.pump()
    assert type(call.outcome) is errors.MessageTooLarge
    assert str(limit) in str(call.outcome)
    assert str(limit + 1) in str(call.outcome)
    assert [frame.aux for frame in found if frame.kind == spec.ERROR] == [ErrorCode.MESSAGE_TOO_LARGE]


@pytest.mark.parametrize("size", [1001, 70_000, 5 << 20])
def test_fault_96_a_peer_that_ignores_the_limit(make_side: Callable[..., Side], size: int) -> None:
    side = make_side(max_message=1000)
    if size <= 65_536:
        side.receive(frames.opening(1, bytes(size)))
    else:
        side.receive(frames.first(1, b"", size))
    (frame,) = side.sent()
    assert (frame.kind, frame.aux, frame.call_id) == (spec.ERROR, ErrorCode.MESSAGE_TOO_LARGE, 1)
    assert str(size).encode() in frame.payload
    assert b"1000" in frame.payload
    side.receive(frames.more(1, bytes(2000)) if size > 65_536 else frames.ping())
    side.receive(frames.opening(3, b"next"))
    assert frames.Frame(spec.REPLY, Flag.FIRST | Flag.END, 1, 3, b"next") in side.sent()


@pytest.mark.parametrize("size", [1001, 70_000, 5 << 20])
def test_fault_96_a_reply_of_a_peer_that_ignores_the_limit(make_side: Callable[..., Side], size: int) -> None:
    side = make_side(spec.Role.INITIATOR, max_message=1000)
    call = side.request("echo")
    side.sent()
    if size <= 65_536:
        side.receive(frames.reply(1, bytes(size)))
    else:
        side.receive(frames.first(1, b"", size, kind=spec.REPLY))
    error = call.outcome
    assert type(error) is errors.MessageTooLarge
    assert (error.size, error.limit) == (size, 1000)
    assert "this side's" in str(error)
    for frame in side.sent():
        assert (frame.kind, frame.aux) == (spec.CANCEL, ErrorCode.MESSAGE_TOO_LARGE)
    side.receive(frames.more(1, bytes(2000), kind=spec.REPLY) if size > 65_536 else frames.ping())
    assert side.breach is None
    side.sent()


@pytest.mark.parametrize("size", [65_000, 65_500, 65_532, 65_536])
@pytest.mark.parametrize("buffers", [0, 1, 8000])
def test_fault_13_heads_count_towards_the_frame(make_pair: Make, size: int, buffers: int) -> None:
    """With the smallest max_frame there is, a head and 64 KiB do not fit one frame. The observer checks each length."""
    limits = small_limits(max_frame=131_072)
    pair = make_pair(left={"limits": limits}, right={"limits": limits})
    for method in ("echo", "echo"):
        parts: list[Any] | None = [b"", *[b""] * (buffers - 1)] if buffers else None
        call = pair.left.request(method, bytes(size), parts)
        pair.pump()
        assert call.outcome == (bytes(size) if parts is None else (bytes(size), parts))


@pytest.mark.parametrize("count", [65_535, 65_536])
def test_fault_13_the_most_buffers(pair: ConnectionPair, count: int) -> None:
    buffers: list[Any] = [b"x" * 2] * count
    if count > 65_535:
        with pytest.raises(errors.MessageTooLarge, match="65,535"):
            pair.left.request("log", b"", buffers)
        return
    call = pair.left.request("echo", b"", buffers)
    pair.pump()
    assert call.outcome == (b"", buffers)


def test_requests_before_the_greeting_and_after_the_end(make_pair: Make) -> None:
    pair = make_pair(greet=False)
    with pytest.raises(errors.LocalProtocolError, match="greeting"):
        pair.left.request()
    with pytest.raises(errors.LocalProtocolError, match="greeting"):
        pair.left.connection.ping(None)
    pair.left.greet()
    pair.left.connection.lost(errors.ConnectionLost("gone"))
    for use in (pair.left.request, pair.left.notify, lambda: pair.left.connection.ping(None)):
        with pytest.raises(errors.ConnectionLost, match="gone"):
            use()
