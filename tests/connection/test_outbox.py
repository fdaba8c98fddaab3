"""The outbound queue: what goes first, how large messages are cut, and what waits for what."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rpcproto.connection.calls import OutMessage, PendingCall
from rpcproto.connection.handler import CallHandler
from rpcproto.connection.outbox import Outbox
from rpcproto.errors import RemoteProtocolError
from rpcproto.wire import _tuning as tuning
from rpcproto.wire import spec
from rpcproto.wire.memory import ScratchStack
from rpcproto.wire.spec import CreditClass, ErrorCode, Flag, FrameType
from tests.wire import frames
from tests.wire.frames import Frame

MIB = 1 << 20


def outbox(credit: int = 64 * MIB, call_window: int = 16 * MIB, max_frame: int = MIB) -> Outbox:
    box = Outbox(ScratchStack(), CallHandler())
    box.open(credit, call_window, max_frame)
    return box


def message(call_id: int, size: int, *, kind: int = spec.REQUEST, handle: PendingCall | None = None) -> OutMessage:
    out = OutMessage(kind, spec.END, 1, call_id, bytes([call_id]) * size, None, size)
    out.method = "m"
    out.handle = handle
    return out


def taken(box: Outbox, limit: int = MIB) -> list[Frame]:
    """What goes out next, without its padding."""
    parts = box.take(limit) or []
    data = b"".join(parts)
    assert len(data) == box.taken
    return [frame for frame in frames.split(data) if frame.kind != FrameType.PAD]


def body_size(frame: Frame) -> int:
    return len(frame.payload) - (frames.read_head(frame.payload).length if frame.flags & Flag.HEAD else 0)


def all_of(box: Outbox, limit: int = MIB) -> list[Frame]:
    found = []
    while some := taken(box, limit):
        found += some
    assert box.sendable() == 0
    return found


def test_nothing_to_send() -> None:
    box = outbox()
    assert box.take(MIB) is None
    assert (box.taken, box.handles, box.sendable()) == (0, None, 0)


def test_control_comes_before_small_before_bulk() -> None:
    """The FIRST frame of a large call goes among the small ones, since ids must rise; its bytes are bulk."""
    box = outbox()
    box.send(message(1, 200_000))
    box.send(message(3, 10))
    box.small.frame(spec.CANCEL, spec.END, ErrorCode.CANCELLED, 9, b"")
    box.control.frame(spec.PING, 0, 0, 0, bytes(8))
    found = taken(box)
    kinds = [(frame.kind, frame.call_id) for frame in found]
    assert kinds[:4] == [(spec.PING, 0), (spec.REQUEST, 1), (spec.REQUEST, 3), (spec.CANCEL, 9)]
    assert body_size(found[1]) == 0
    assert {call_id for _, call_id in kinds[4:]} == {1}


def test_small_messages_keep_their_order() -> None:
    box = outbox()
    for call_id in range(1, 101, 2):
        box.send(message(call_id, call_id * 600))
    assert [frame.call_id for frame in all_of(box)] == list(range(1, 101, 2))


@pytest.mark.parametrize("max_frame", [128 * 1024, MIB, 16 * MIB - 1])
@pytest.mark.parametrize("size", [65_537, 100_000, 3 * MIB])
def test_bulk_that_is_alone_goes_in_frames_as_large_as_the_peer_and_the_limit_allow(size: int, max_frame: int) -> None:
    box = outbox(max_frame=max_frame)
    box.send(message(1, size))
    bodies = [body_size(frame) for frame in all_of(box)]
    most = min(max_frame, MIB)
    assert bodies[0] == 0
    assert max(bodies) <= most
    assert sum(bodies) == size
    assert len(bodies) <= size // most + 3  # cuts are at multiples of 16, and takes at the limit


def address(data: Any) -> int:
    return int(np.frombuffer(data, np.uint8).ctypes.data)


@pytest.mark.parametrize("kind", [spec.REQUEST, spec.REPLY])
@pytest.mark.parametrize("before", [0, 1, 8, 23])
@pytest.mark.parametrize("body", [0, 5, 18])
@pytest.mark.parametrize("calls", [1, 3])
def test_large_pieces_are_copied_between_addresses_a_multiple_of_16_apart(
    kind: int, before: int, body: int, calls: int
) -> None:
    box = outbox()
    box.ping(None)
    box.send(message(1, before))
    for call_id in range(3, 3 + 2 * calls, 2):
        buffer = bytes(2_000_001 + call_id)
        out = OutMessage(kind, spec.END, 1, call_id, bytes(body), [buffer], body + len(buffer))
        out.method = "m"
        box.send(out)
    large = 0
    while parts := box.take(MIB):
        at = 0
        for part in parts:
            if len(part) > tuning.PACK_MAX:
                assert (at - address(part)) % 16 == 0
                large += 1
            at += len(part)
    assert large >= 2 * calls


def test_padding_is_short_and_zero() -> None:
    box = outbox()
    box.send(message(1, 3))
    box.send(message(3, 100_000))
    (pad,) = [frame for frame in frames.split(b"".join(box.take(MIB) or [])) if frame.kind == FrameType.PAD]
    assert (pad.flags, pad.aux, pad.call_id) == (0, 0, 0)
    assert 0 < len(pad.payload) < 16
    assert not any(pad.payload)


def test_bulk_goes_in_fragments_of_64_kib_while_others_wait() -> None:
    box = outbox()
    for call_id in (1, 3, 5):
        box.send(message(call_id, 300_000))
    found = all_of(box)
    together = [frame for frame in found[:-1] if frame.flags & Flag.MORE]
    assert max(body_size(frame) for frame in together) == 65_536


def test_row_18_bulk_takes_turns() -> None:
    box = outbox()
    for call_id in (1, 3, 5):
        box.send(message(call_id, 5 * 65_536))
    order = [frame.call_id for frame in all_of(box)]
    starts = [at for at, call_id in enumerate(order) if call_id == 1]
    assert [order.count(call_id) for call_id in (1, 3, 5)] == [order.count(1)] * 3
    for at in starts[:-1]:
        assert set(order[at : at + 3]) == {1, 3, 5}


def test_a_small_message_waits_behind_one_fragment_at_most() -> None:
    box = outbox()
    for call_id in (1, 3):
        box.send(message(call_id, 10 * MIB))
    taken(box, 65_536)
    box.send(message(5, 10))
    assert taken(box, 65_536)[0].call_id == 5


def test_the_limit_bounds_what_is_taken_at_once() -> None:
    box = outbox()
    for call_id in (1, 3):
        box.send(message(call_id, 10 * MIB))
    for _ in range(20):
        taken(box, 256 * 1024)
        assert box.taken <= 256 * 1024 + 65_536 + 100


@pytest.mark.parametrize("max_frame", [MIB, 16 * MIB - 1])
def test_the_limit_bounds_a_message_that_is_left_alone(max_frame: int) -> None:
    box = outbox(max_frame=max_frame)
    box.send(message(1, 15 * 65_536))
    box.send(message(3, 3 * MIB))
    while taken(box):
        assert box.taken <= MIB + 65_536 + 100


def test_interleaved_fragments_are_whole_messages() -> None:
    box = outbox()
    sizes = {1: 1_000_000, 3: 70_000, 5: 65_537, 7: 300_001, 9: 5}
    for call_id, size in sizes.items():
        box.send(message(call_id, size))
    bodies: dict[int, bytes] = dict.fromkeys(sizes, b"")
    for frame in all_of(box, 100_000):
        start = frames.read_head(frame.payload).length if frame.flags & Flag.HEAD else 0
        bodies[frame.call_id] += frame.payload[start:]
    assert bodies == {call_id: bytes([call_id]) * size for call_id, size in sizes.items()}


def test_handles_come_with_the_take_that_holds_their_last_byte() -> None:
    box = outbox()
    small, large = PendingCall(), PendingCall()
    box.send(message(1, 10, kind=spec.NOTIFY, handle=small))
    box.send(message(3, 3 * MIB, kind=spec.NOTIFY, handle=large))
    told: list[Any] = []
    done: list[int] = []
    while found := taken(box, 300_000):
        told += box.handles or []
        done += [frame.call_id for frame in found if not frame.flags & Flag.MORE]
        assert len(told) == len(done)
    assert told == [small, large]


def test_messages_wait_for_credit_in_order() -> None:
    box = outbox(credit=1000, call_window=1000)
    for call_id, size in ((1, 900), (3, 200), (5, 10)):
        box.send(message(call_id, size))
    assert [frame.call_id for frame in all_of(box)] == [1]
    assert box.blocked_size == 210
    box.add_credit(CreditClass.CALLS, 99)
    assert all_of(box) == []
    box.add_credit(CreditClass.CALLS, 1)
    assert [frame.call_id for frame in all_of(box)] == [3]
    box.add_credit(CreditClass.CALLS, 64)
    assert [frame.call_id for frame in all_of(box)] == [5]
    assert box.blocked_size == 0


def test_replies_and_calls_wait_apart() -> None:
    box = outbox(credit=1000, call_window=1000)
    box.send(message(1, 1000))
    box.send(message(3, 1000))
    box.send(message(2, 1000, kind=spec.REPLY))
    box.send(message(4, 10, kind=spec.REPLY))
    assert [frame.call_id for frame in all_of(box)] == [1, 2]
    box.add_credit(CreditClass.REPLIES, 100)
    assert [frame.call_id for frame in all_of(box)] == [4]
    box.add_credit(CreditClass.CALLS, 1000)
    assert [frame.call_id for frame in all_of(box)] == [3]


@pytest.mark.parametrize(("aux", "amount"), [(0, 0), (1, 0), (2, 5), (0, 2**31), (1, 2**63), (0, 2**31 - 1000)])
def test_row_20_credit_that_is_refused(aux: int, amount: int) -> None:
    box = outbox(credit=1000, call_window=1000)
    with pytest.raises(RemoteProtocolError) as caught:
        box.add_credit(aux, amount)
    assert caught.value.code == ErrorCode.FLOW_CONTROL


def test_row_20_the_largest_credit_there_may_be() -> None:
    box = outbox(credit=1000, call_window=1000)
    for aux in (0, 1):
        box.add_credit(aux, 2**31 - 1 - 1000)
    with pytest.raises(RemoteProtocolError):
        box.add_credit(0, 1)


def test_a_message_above_the_call_window_stops_after_its_first_frame() -> None:
    box = outbox(call_window=65_536)
    box.send(message(1, 200_000))
    (first,) = all_of_unadmitted(box)
    assert body_size(first) == 0
    assert first.flags & Flag.MORE
    assert not box.admit(1, 199_999)
    assert not box.admit(3, 200_000)
    assert box.admit(1, 200_000)
    assert not box.admit(1, 200_000)
    assert sum(body_size(frame) for frame in all_of(box)) == 200_000


def all_of_unadmitted(box: Outbox) -> list[Frame]:
    found = []
    while some := taken(box):
        found += some
    return found


@pytest.mark.parametrize("kind", [spec.REQUEST, spec.REPLY])
@pytest.mark.parametrize("state", ["blocked", "queued", "begun", "probing"])
def test_row_27_nothing_more_is_sent_of_a_dropped_message(state: str, kind: int) -> None:
    box = outbox(credit=100_000, call_window=65_536 if state == "probing" else 100_000)
    if state == "blocked":
        box.send(message(1, 90_000, kind=kind))
        all_of(box)
    box.send(message(3, 80_000, kind=kind))
    if state in ("begun", "probing"):
        taken(box, 1)
    box.drop(3)
    assert sum(map(body_size, all_of_unadmitted(box))) == 0
    assert (box.sendable(), box.blocked_size) == (0, 0)
    assert not box.drop(3)
    assert not box.drop(99)


def test_row_24_a_dropped_reply_of_which_nothing_was_sent_gives_its_credit_back() -> None:
    box = outbox(credit=100_000, call_window=100_000)
    box.send(message(2, 90_000, kind=spec.REPLY))
    box.send(message(4, 50_000, kind=spec.REPLY))
    assert box.drop(2)
    assert [frame.call_id for frame in all_of(box)] == [4]
    box.send(message(6, 50_000, kind=spec.REPLY))
    assert [frame.call_id for frame in all_of(box)] == [6]


def test_a_dropped_message_that_waited_holds_nobody_up() -> None:
    box = outbox(credit=1000, call_window=1000)
    box.send(message(1, 900))
    box.send(message(3, 500))
    all_of(box)
    box.drop(3)
    box.send(message(5, 50))
    assert [frame.call_id for frame in all_of(box)] == [5]


@pytest.mark.parametrize("size", [10, 4096])
def test_fault_8_small_messages_that_wait_are_copied(size: int) -> None:
    """Up to 4 KiB the caller may use its buffer again at once, also when the message has to wait for credit."""
    box = outbox(credit=5000, call_window=5000)
    box.send(message(1, 5000))
    all_of(box)
    body, buffer = bytearray(b"b" * size), bytearray(b"c" * size)
    waiting = OutMessage(spec.REQUEST, spec.END, 1, 3, body, [buffer], 2 * size)
    waiting.method = "m"
    box.send(waiting)
    body[:] = b"?" * size
    buffer.clear()
    box.add_credit(CreditClass.CALLS, 2 * size + 64)
    (frame,) = all_of(box)
    assert frame.payload.endswith(b"b" * size + b"c" * size)


def test_clear_returns_the_handles_of_everything_that_waits() -> None:
    box = outbox(credit=200_000, call_window=100_000)
    handles = [PendingCall() for _ in range(4)]
    for handle, size in zip(handles, (10, 100_000, 150_000, 99_999), strict=True):  # the last two have to wait
        box.send(message(2 * handles.index(handle) + 1, size, kind=spec.NOTIFY, handle=handle))
    assert set(box.clear()) == set(handles)
    assert box.take(MIB) is None
    box.control.frame(spec.GOAWAY, 0, ErrorCode.PROTOCOL, 0, bytes(8))
    assert [frame.kind for frame in all_of(box)] == [spec.GOAWAY]


def test_fault_13_very_many_messages_in_one_turn_are_few_parts() -> None:
    box = outbox()
    box.send(message(1, 10))
    for call_id in range(3, 20_001, 2):
        box.send(OutMessage(spec.NOTIFY, spec.END, 1, call_id, b"x" * 64, None, 64))
    parts = box.take(MIB)
    assert parts is not None
    assert len(parts) < 20
