"""Connections that end by a fault, of the peer or of ours: the reason is told, and nothing after it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from rpcproto import errors
from rpcproto.wire import spec
from rpcproto.wire.spec import ErrorCode, Role
from tests.connection.pairing import Call, ConnectionPair, Side, kinds
from tests.wire import frames

KIB = 1024
MIB = 1 << 20
Make = Callable[..., ConnectionPair]
MakeSide = Callable[..., Side]


# ---- breaches -------------------------------------------------------------------------------------------------------

BREACHES: dict[str, tuple[bytes, int]] = {
    "row 2: a second greeting": (frames.greeting(1), ErrorCode.FRAME_SIZE),  # its magic reads as a length
    "row 5: a frame too large": (frames.HEADER.pack(2 << 20, 1, 0x11, 0, 1), ErrorCode.FRAME_SIZE),
    "row 5: an ERROR that holds no texts": (frames.frame(spec.ERROR, 2, b"\x05"), ErrorCode.FRAME_SIZE),
    "row 6: an unknown type": (frames.frame(99, 1), ErrorCode.FRAME_TYPE),
    "row 7: a PING of 7 bytes": (frames.frame(spec.PING, 0, bytes(7)), ErrorCode.FRAME_SIZE),
    "row 8: fragments that do not add up": (
        frames.first(1, bytes(2000), 5000) + frames.more(1, bytes(1), last=True),
        ErrorCode.HEAD,
    ),
    "row 8: a message begun twice": (frames.first(1, bytes(2000), 5000) * 2, ErrorCode.CALL_STATE),
    "row 8: a fragment of nothing": (frames.more(1, bytes(2000)), ErrorCode.CALL_STATE),
    "row 9: tiny fragments": (frames.first(1, b"", 5000) + frames.more(1, b"") * 2, ErrorCode.FLOOD),
    "row 13: parity": (frames.opening(2, b"x"), ErrorCode.CALL_ID),
    "row 13: order": (frames.opening(3, b"x") + frames.opening(1, b"x"), ErrorCode.CALL_ID),
    "row 13: used twice": (frames.opening(1, b"x") + frames.opening(1, b"x"), ErrorCode.CALL_ID),
    "row 20: credit of 0": (frames.credit(0), ErrorCode.FLOW_CONTROL),
    "row 54: metadata": (frames.opening(1, metadata=bytes(16_385)), ErrorCode.HEAD),
    "a method that is not bound": (frames.opening(1, name=None, method=7), ErrorCode.HEAD),
    "a method bound twice": (frames.opening(1, method=7) + frames.opening(3, method=7), ErrorCode.HEAD),
    "method 0 without a name": (frames.opening(1, name=None), ErrorCode.HEAD),
    "an AUTH frame": (frames.auth(1, bytes(32)), ErrorCode.AUTHENTICATION),
}


@pytest.mark.parametrize("what", BREACHES)
@pytest.mark.parametrize("step", [1 << 30, 1])
def test_a_breach_is_told_and_nothing_after_it(make_side: MakeSide, what: str, step: int) -> None:
    data, code = BREACHES[what]
    side = make_side()
    call, handle = side.request("echo", b"x"), side.notify("log", bytes(100_000))
    side.connection.ping(Call())
    side.receive(data + frames.ping() * 3, step)
    assert side.breach is not None
    assert side.breach.code == code
    found = side.sent()
    assert kinds(found)[-1] == spec.GOAWAY
    assert found[-1].aux == code
    assert found[-1].payload[8:].decode() == str(side.breach)
    assert kinds(found).count(spec.GOAWAY) == 1
    assert type(call.outcome) is errors.ConnectionLost
    assert type(handle.outcome) is errors.ConnectionLost
    assert call.outcome.__cause__ is side.breach
    assert [event[0] for event in side.shell.events].count("end") == 1
    with pytest.raises(errors.ConnectionLost):
        side.request("echo")
    side.receive(frames.opening(99, b"more") * 3)
    assert side.sent() == []


def test_goaway_names_the_last_call_that_was_processed(side: Side) -> None:
    side.receive(frames.opening(1, b"x") + frames.opening(7, b"x"))
    side.sent()
    side.receive(frames.frame(99))
    (goaway,) = side.sent()
    assert int.from_bytes(goaway.payload[:8], "little") == 7


def test_the_text_of_a_goaway_is_bounded(side: Side) -> None:
    side.connection.abandon(ErrorCode.HEARTBEAT, "ä" * 2000)
    (goaway,) = side.sent()
    assert goaway.aux == ErrorCode.HEARTBEAT
    assert goaway.payload[8:].decode() == "ä" * 512


@pytest.mark.parametrize("where", ["resolve", "on_call", "on_reply", "on_failure", "on_cancel", "on_pong", "on_drain"])
def test_fault_15_a_shell_that_raises_ends_the_connection_and_every_call(make_side: MakeSide, where: str) -> None:
    side = make_side()
    calls = [side.request("echo", b"x") for _ in range(4)]
    side.receive(frames.opening(1, b"x", name="hold"))
    side.sent()

    def fail(*told: Any) -> int:
        del side.shell.__dict__[where]
        raise KeyError("planted")

    setattr(side.shell, where, fail)
    ping = Call()
    side.connection.ping(ping)
    side.sent()
    side.receive(
        frames.reply(2, b"r")
        + frames.error(4)
        + frames.cancel(1)
        + frames.ping((1).to_bytes(8, "little"), answer=True)
        + frames.opening(3, b"x")
        + frames.goaway()
    )
    assert isinstance(side.connection.end, errors.InternalError)
    assert isinstance(side.connection.end.__cause__, KeyError)
    (goaway,) = [frame for frame in side.sent() if frame.kind == spec.GOAWAY]
    assert goaway.aux == ErrorCode.INTERNAL
    for call in calls[2:]:
        assert type(call.outcome) is errors.ConnectionLost
    assert sum(len(call.outcomes) for call in calls) >= 3


# ---- an error of the peer -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("code", [code for code in ErrorCode if 0x100 < code < 0x200] + [0x01FF, 0x7777])
def test_a_goaway_with_an_error_ends_everything_and_is_not_answered(make_side: MakeSide, code: int) -> None:
    side = make_side(Role.INITIATOR)
    call = side.request("echo", b"x")
    side.sent()
    waiting = side.request("echo", bytes(100_000))
    side.receive(frames.goaway(code, 0, "you did wrong") + frames.reply(1, b"late"))
    assert side.breach is not None
    assert side.breach.code == code
    assert "you did wrong" in str(side.breach)
    for each in (call, waiting):
        assert type(each.outcome) is errors.ConnectionLost
        assert "you did wrong" in str(each.outcome)
    assert side.sent() == []
