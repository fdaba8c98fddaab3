"""How connections end: by the stream, by a breach of either side, by an orderly shutdown. Every call ends, once."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rpcproto import errors
from rpcproto.config import Timeouts
from rpcproto.wire import spec
from rpcproto.wire.spec import ErrorCode, Flag, FrameType, Role
from tests.connection.pairing import Call, ConnectionPair, Side, small_limits
from tests.wire import frames
from tests.wire.test_transcripts import NAMES, read

KIB = 1024
MIB = 1 << 20
Make = Callable[..., ConnectionPair]
MakeSide = Callable[..., Side]


LOST = errors.ConnectionLost("the stream broke", peer="the peer")


# ---- the end of the stream -----------------------------------------------------------------------------------------


def open_everything(side: Side) -> dict[str, Call]:
    """Calls and notifies in every state that they can have, on an initiator."""
    calls = {
        "answered in part": side.request("echo"),
        "waiting for the answer": side.request("echo", b"x"),
        "being cut": side.request("echo", bytes(65_537)),
    }
    side.sent()
    side.receive(frames.first(1, bytes(2000), 60_000, kind=spec.REPLY))
    calls["taken notify"] = side.notify("log", b"x")
    side.sent()
    calls["queued"] = side.request("echo", b"queued")
    calls["queued notify"] = side.notify("log", b"queued")
    for _ in range(4):
        side.notify("log", bytes(60_000))
    calls["blocked"] = side.request("echo", bytes(60_000))
    calls["blocked notify"] = side.notify("log", bytes(60_000))
    calls["ping"] = Call()
    side.connection.ping(calls["ping"])
    return calls


def check_all_lost(calls: dict[str, Call], kind: type[Exception] = errors.ConnectionLost) -> None:
    assert calls.pop("taken notify").outcome == "written"
    for name, call in calls.items():
        error = call.outcome
        assert type(error) is kind, name
        assert error.peer == "the peer"
        assert error.maybe_executed == (not name.startswith("blocked")), name
        assert ("may have run" in str(error)) == error.maybe_executed


def test_row_41_and_fault_14_every_call_fails_once_and_says_whether_it_may_have_run(make_side: MakeSide) -> None:
    side = make_side(Role.INITIATOR)
    calls = open_everything(side)
    side.connection.lost(LOST)
    check_all_lost(calls)
    side.connection.lost(LOST)
    assert all(len(call.outcomes) == 1 for call in calls.values())
    assert side.sent() == []
    assert all(call.outcome.__cause__ is LOST for name, call in calls.items() if name != "taken notify")


def test_calls_end_as_closed_where_this_side_closes(make_side: MakeSide) -> None:
    side = make_side(Role.INITIATOR)
    calls = open_everything(side)
    side.connection.lost(errors.ConnectionClosed("closed by this side"))
    check_all_lost(calls, errors.ConnectionClosed)


def test_running_handlers_are_cancelled_once(side: Side) -> None:
    side.receive(frames.opening(1, b"x", name="hold") + frames.opening(3, b"x", name="hold") + frames.cancel(3))
    side.connection.lost(LOST)
    cancelled = [event[1:] for event in side.shell.events if event[0] == "cancelled"]
    assert cancelled == [(3, ErrorCode.CANCELLED), (1, ErrorCode.CANCELLED)]
    assert not side.answer(1)
    assert not side.answer(3)
    side.connection.reply(1, 1, b"late", None, 4, None)
    side.connection.fail(1, ErrorCode.HANDLER_RAISED, "", "", "")
    assert side.sent() == []


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize("sender", Role)
def test_row_41_the_end_at_every_offset_of_a_transcript(name: str, sender: Role) -> None:
    """Nothing that is not whole is delivered, and every call ends once."""
    data = bytes(read(name)[sender].data)
    step = max(1, len(data) // 1500)
    for stop in range(0, len(data), step):
        pair = ConnectionPair(greet=False)
        side = pair.left if sender == Role.ACCEPTOR else pair.right
        side.shell.methods |= {"Echo.echo"}
        side.receive(data[: min(64, stop)])
        calls = [side.request("echo", b"x") for _ in range(3)] if stop >= 64 and side.connection.end is None else []
        before = len(side.connection.calls)
        side.receive(data[64:stop])
        whole = complete_messages(data[64:stop])
        if side.connection.end is None:
            assert len(side.shell.called) <= whole
        side.connection.lost(LOST)
        assert before == len(calls)
        assert all(len(call.outcomes) == 1 for call in calls)
        assert side.budget.reserved == 0
        assert side.decoder.state == 2 or not side.decoder.assemblies


def complete_messages(data: bytes) -> int:
    """Whole opening messages in a piece of a transcript that may end anywhere."""
    count, at = 0, 0
    while at + 16 <= len(data):
        length, kind, flags, _, _ = frames.HEADER.unpack_from(data, at)
        at += 16 + length
        if at > len(data):
            break
        count += kind <= FrameType.CHANNEL and kind > 0 and not flags & Flag.MORE
    return count


# ---- shutting down -------------------------------------------------------------------------------------------------


def test_row_40_goaway_twice(pair: ConnectionPair) -> None:
    running = pair.left.request("hold", b"x")
    pair.pump()
    pair.right.connection.go_away(False)
    crossing = pair.left.request("echo", b"crosses it")
    (first,) = frames.split(pair.right.take())
    assert (first.aux, int.from_bytes(first.payload, "little")) == (ErrorCode.NO_ERROR, (1 << 48) - 1)
    pair.carry(pair.left, pair.right)
    pair.left.receive(frames.goaway())
    assert pair.left.shell.events[-1] == ("drain",)
    with pytest.raises(errors.GoingAway):
        pair.left.request("echo")
    pair.pump()
    assert type(crossing.outcome) is errors.GoingAway
    pair.right.answer(running.call_id)
    pair.right.connection.go_away(True)
    second = [frame for frame in pair.pump() if frame.kind == spec.GOAWAY]
    assert [int.from_bytes(frame.payload, "little") for frame in second] == [crossing.call_id]
    assert running.outcome == b"held"
    assert pair.left.shell.events.count(("drain",)) == 1


def test_row_40_calls_above_the_last_id_were_never_started(make_side: MakeSide) -> None:
    side = make_side(Role.INITIATOR)
    calls = [side.request("echo", b"x") for _ in range(3)]
    large = side.request("echo", bytes(5 << 20))
    side.sent()
    side.receive(frames.goaway(last_id=3))
    assert [call.outcomes for call in calls[:2]] == [[], []]
    for call in (calls[2], large):
        assert type(call.outcome) is errors.GoingAway
        assert isinstance(call.outcome, errors.Refused)
    assert side.connection.queued() == 0
    side.receive(frames.reply(1, b"a") + frames.reply(3, b"b"))
    assert [call.outcome for call in calls[:2]] == [b"a", b"b"]


def test_row_40_notifies_above_the_last_id_fail_too(make_side: MakeSide) -> None:
    side = make_side(Role.INITIATOR)
    handles = [side.notify("log", bytes(60_000)) for _ in range(6)]
    side.sent()
    side.receive(frames.goaway(last_id=7))
    assert [handle.outcome for handle in handles[:4]] == ["written"] * 4
    assert [type(handle.outcome) for handle in handles[4:]] == [errors.GoingAway] * 2
    assert side.connection.queued() == 0


@pytest.mark.parametrize("size", [1, 60_000, 500_000])
def test_row_40_new_calls_are_refused_after_our_goaway(side: Side, size: int) -> None:
    side.connection.go_away(False)
    side.sent()
    side.receive(frames.opening(1, bytes(size)) if size < 65_536 else frames.first(1, b"", size))
    (frame,) = side.sent()
    assert (frame.kind, frame.aux) == (spec.ERROR, ErrorCode.GOING_AWAY)
    assert not side.shell.called
    assert side.budget.reserved == 0


def test_both_sides_may_shut_down_at_once(pair: ConnectionPair) -> None:
    calls = [side.request("hold", b"x") for side in (pair.left, pair.right)]
    pair.pump()
    for side in (pair.left, pair.right):
        side.connection.go_away(False)
    pair.pump()
    pair.right.answer(calls[0].call_id)
    pair.left.answer(calls[1].call_id)
    pair.pump()
    assert [call.outcome for call in calls] == [b"held", b"held"]


def test_going_away_before_the_greeting_or_after_the_end_says_nothing(make_side: MakeSide) -> None:
    side = make_side(greet=False)
    side.connection.go_away(False)
    assert side.sent() == []
    side.connection.lost(LOST)
    side.connection.go_away(True)
    assert side.sent() == []


# ---- floods, stalls and limits ---------------------------------------------------------------------------------------


def test_row_38_and_55_pings_faster_than_their_answers_are_read(side: Side) -> None:
    for _ in range(100):
        side.receive(frames.ping() * 100)
        if side.breach is not None:
            break
    assert side.breach is not None
    assert side.breach.code == ErrorCode.FLOOD
    assert len(side.sent()) == 1


def test_row_38_pings_whose_answers_are_read_are_no_flood(side: Side) -> None:
    for _ in range(100):
        side.receive(frames.ping() * 100)
        assert len(side.sent()) == 100


def test_fault_3_a_message_that_makes_no_progress_ends_its_connection(make_side: MakeSide) -> None:
    side = make_side(timeouts=Timeouts(message=60.0))
    side.receive(frames.first(1, bytes(2000), 60_000))
    now = side.shell.clock.now
    side.connection.check_progress(now)
    side.receive(frames.more(1, bytes(2000)))
    side.connection.check_progress(now + 50)
    side.connection.check_progress(now + 109)
    assert side.breach is None
    side.connection.check_progress(now + 111)
    assert side.breach is not None
    assert side.breach.code == ErrorCode.PROTOCOL
    assert "4000 of 60000 bytes" in str(side.breach)
    side.sent()


def test_fault_3_a_message_that_waits_for_us_is_not_blamed(make_side: MakeSide) -> None:
    side = make_side()
    claim = side.budget.reserve(64 << 20, lambda _: None, None)
    side.receive(frames.first(1, b"", 500_000))
    side.connection.check_progress(side.shell.clock.now + 1)
    side.connection.check_progress(side.shell.clock.now + 1000)
    assert side.breach is None
    side.receive(frames.cancel(1))
    side.budget.release(claim)
    side.sent()


def test_row_25_and_fault_30_calls_beyond_the_queue_fail_at_once(make_side: MakeSide) -> None:
    side = make_side(limits=small_limits(max_queued=100_000))
    for _ in range(2):
        side.notify("log", bytes(60_000))
    for send in (side.notify, side.request):
        with pytest.raises(errors.Overloaded, match="max_queued"):
            send("log", b"one more")
    side.sent()
    side.notify("log", b"again")
    side.sent()


def test_row_25_replies_that_are_not_taken_pause_reading(make_side: MakeSide) -> None:
    side = make_side(limits=small_limits(max_queued=100_000))
    side.receive(b"".join(frames.opening(call_id, b"60000", name="fill") for call_id in (1, 3)))
    data = side.connection.take(1 << 18)
    assert data is not None
    side.connection.on_sent(120_000)
    assert side.shell.events[-1] == ("pause", True)
    assert side.connection.paused
    side.connection.on_sent(50_001)
    assert side.shell.events[-1] == ("pause", True)
    side.connection.on_sent(50_000)
    assert side.shell.events[-1] == ("pause", False)
    side.connection.on_sent(0)


# ---- ids near the top ----------------------------------------------------------------------------------------------


def test_row_17_ids_of_the_peer_up_to_the_last_one(side: Side) -> None:
    top = (1 << 48) - 1
    side.receive(frames.opening(top - 2, b"a") + frames.opening(top, b"b"))
    assert [frame.call_id for frame in side.sent()] == [top - 2, top]
    side.receive(frames.opening(top, b"again"))
    assert side.breach is not None
    assert side.breach.code == ErrorCode.CALL_ID
    side.sent()


@pytest.mark.parametrize("role", Role)
def test_row_17_our_ids_run_out_with_an_error_and_never_come_again(make_side: MakeSide, role: int) -> None:
    side = make_side(role)
    connection = side.connection
    top = (1 << 48) - (1 if role == Role.INITIATOR else 2)
    connection.next_id = top - 2
    calls = [side.request("echo", b"x"), side.request("echo", b"y")]
    assert [call.call_id for call in calls] == [top - 2, top]
    side.sent()
    for use in (side.request, side.notify):
        with pytest.raises(errors.GoingAway, match="call ids"):
            use("echo", b"z")
    side.receive(frames.reply(top - 2, b"1") + frames.reply(top, b"2"))
    assert [call.outcome for call in calls] == [b"1", b"2"]
