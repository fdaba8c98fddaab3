"""The state table of section 3 of ``PROTOCOL.md``, each cell of it (row 14 of the fault plan).

The table is read off the text, so that neither can change alone. :data:`STATES` has the ways into the state of a
column, :func:`events` the frames of a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from rpcproto.wire import spec
from rpcproto.wire.spec import CreditClass, ErrorCode, FrameType, Role
from tests.connection.pairing import Side
from tests.wire import frames
from tests.wire.test_spec import table

Make = Callable[..., Side]

CELLS: dict[tuple[str, str], str] = {}
COLUMNS = ["idle, peer's", "idle, ours", "open, incoming", "open, ours", "closed"]
for row in table("frame"):
    for column, cell in zip(COLUMNS, row[1:], strict=True):
        CELLS[row[0], column] = cell.replace("`", "")

OPENING = "REQUEST, NOTIFY, STREAM, CHANNEL"
CONTINUATION = "... continuation of it"
OPENINGS = [FrameType.REQUEST, FrameType.NOTIFY, FrameType.STREAM, FrameType.CHANNEL]
IDLE_PEERS, IDLE_OURS, INCOMING, OURS, CLOSED = COLUMNS


def test_the_table_is_the_one_these_tests_are_written_for() -> None:
    rows = [OPENING, CONTINUATION, "REPLY", "ITEM", "ERROR", "CANCEL", "CREDIT on the call"]
    assert list(CELLS) == [(row, column) for row in rows for column in COLUMNS]
    text = set(CELLS.values())
    plain = {cell for cell in text if re.fullmatch(r"[A-Z_]+", cell)}
    assert plain == {"CALL_ID", "CALL_STATE"}
    assert text - plain == {
        "opens",
        "goes on, else CALL_STATE",
        "dropped",
        "request: delivers; else CALL_STATE",
        "channel: delivers; else CALL_STATE",
        "stream, channel: delivers; else CALL_STATE",
        "ends",
        "ignored",
        "stream, channel, large reply: counts; else FLOW_CONTROL",
        "stream, channel, large message: counts; else FLOW_CONTROL",
    }


# ---- states ------------------------------------------------------------------------------------------------------


def idle_peers(side: Side) -> int:
    return 101


def idle_ours(side: Side) -> int:
    return 102


def incoming(side: Side) -> int:
    side.receive(frames.opening(1, b"x", name="hold"))
    return 1


def ours(side: Side) -> int:
    call_id = side.request("echo", b"x").call_id
    side.sent()
    return call_id


def closed_incoming(side: Side) -> int:
    side.receive(frames.opening(1, b"x"))
    side.sent()
    return 1


def closed_incoming_refused(side: Side) -> int:
    side.receive(frames.opening(1, b"x", name="missing"))
    side.sent()
    return 1


def closed_incoming_cancelled(side: Side) -> int:
    incoming(side)
    side.receive(frames.cancel(1))
    return 1


def closed_incoming_in_the_middle(side: Side) -> int:
    side.receive(frames.first(1, b"x" * 2000, 9000) + frames.cancel(1))
    return 1


def closed_notify(side: Side) -> int:
    side.receive(frames.opening(1, b"x", kind=FrameType.NOTIFY, name="log"))
    return 1


def closed_ours(side: Side) -> int:
    call_id = ours(side)
    side.receive(frames.reply(call_id, b"done"))
    return call_id


def closed_ours_failed(side: Side) -> int:
    call_id = ours(side)
    side.receive(frames.error(call_id))
    return call_id


def closed_ours_cancelled(side: Side) -> int:
    call_id = ours(side)
    side.connection.cancel_call(call_id)
    side.sent()
    return call_id


STATES: dict[str, list[Callable[[Side], int]]] = {
    IDLE_PEERS: [idle_peers],
    IDLE_OURS: [idle_ours],
    INCOMING: [incoming],
    OURS: [ours],
    CLOSED: [
        closed_incoming,
        closed_incoming_refused,
        closed_incoming_cancelled,
        closed_incoming_in_the_middle,
        closed_notify,
        closed_ours,
        closed_ours_failed,
        closed_ours_cancelled,
    ],
}
BY_NAME = {prepare.__name__: prepare for group in STATES.values() for prepare in group}


def events(row: str, call_id: int) -> list[bytes]:
    """Frames of a row, each of which has to meet the same fate."""
    match row:
        case "REQUEST, NOTIFY, STREAM, CHANNEL":
            return [
                *(frames.opening(call_id, b"x", kind=kind, name="hold") for kind in OPENINGS),
                frames.first(call_id, b"x" * 2000, 5000),
                frames.opening(call_id, b"xy", size=1, buffers=[1]),
            ]
        case "... continuation of it":
            return [
                frames.more(call_id, b"x" * size, kind=kind, last=last)
                for kind, size, last in ((1, 2000, False), (1, 0, True), (2, 2000, True), (3, 9, False), (4, 9, True))
            ]
        case "REPLY":
            return [
                frames.reply(call_id, b"answer"),
                frames.first(call_id, b"x" * 2000, 5000, kind=FrameType.REPLY),
                frames.frame(5, call_id, frames.head(size=1, buffers=[1]) + b"xy", flags=frames.WHOLE),
            ]
        case "ITEM":
            return [
                frames.item(call_id, b"one"),
                frames.item(call_id, b"", flags=frames.Flag.FIRST | frames.Flag.END),
                frames.first(call_id, b"x" * 2000, 5000, kind=FrameType.ITEM),
            ]
        case "ERROR":
            return [frames.error(call_id), frames.error(call_id, ErrorCode.OVERLOADED, text="busy")]
        case "CANCEL":
            return [frames.cancel(call_id), frames.cancel(call_id, ErrorCode.DEADLINE_EXCEEDED)]
        case "CREDIT on the call":
            return [frames.credit(1, call_id), frames.credit(5 << 20, call_id)]
    raise AssertionError(row)


CASES = [
    pytest.param(row, prepare, which, cell, id=f"{row.split(',')[0]}-{prepare.__name__}-{which}")
    for (row, column), cell in CELLS.items()
    for prepare in STATES[column]
    for which in range(len(events(row, 1)))
]


@pytest.mark.parametrize(("row", "prepare", "which", "cell"), CASES)
def test_row_14_each_cell(make_side: Make, row: str, prepare: Callable[[Side], int], which: int, cell: str) -> None:
    side = make_side(Role.ACCEPTOR)
    call_id = prepare(side)
    told = len(side.shell.called), list(side.shell.events), len(side.connection.calls)
    frame = events(row, call_id)[which]
    side.receive(frame)
    # The case "goes on", "counts" or "delivers" for another kind of call has a test of its own below.
    expected = cell.rpartition("else ")[2] if "else" in cell and not delivers(row, prepare) else cell
    if expected in ErrorCode.__members__:
        if side.breach is None:
            raise AssertionError(f"{expected}: it was accepted")
        assert side.breach.code == ErrorCode[expected], str(side.breach)
        assert str(call_id) in str(side.breach)
        end(side)
        return
    if side.breach is not None:
        raise AssertionError(f"{cell}: {side.breach}")
    if expected == "opens":
        assert len(side.shell.called) + len(side.decoder.assemblies) == told[0] + 1
    elif expected in ("dropped", "ignored"):
        assert (len(side.shell.called), side.shell.events, len(side.connection.calls)) == told
    elif row in ("ERROR", "CANCEL") and prepare is ours:
        assert not side.connection.calls
    elif row == "CANCEL":
        assert side.shell.events[-1][:2] == ("cancelled", call_id)
    finish(side, call_id)


def delivers(row: str, prepare: Callable[[Side], int]) -> bool:
    return row == "REPLY" and prepare is ours


def end(side: Side) -> None:
    """The breach was told, and nothing after it."""
    (goaway,) = [frame for frame in side.sent() if frame.kind == spec.GOAWAY]
    assert side.breach is not None
    assert goaway.aux == side.breach.code
    assert goaway.payload[8:].decode() == str(side.breach)[:1024]


def finish(side: Side, call_id: int) -> None:
    """The connection goes on; end what the case has begun."""
    side.receive(frames.cancel(call_id) if call_id & 1 else b"")
    side.receive(frames.ping(b"alive???"))
    assert frames.ping(b"alive???", answer=True) in b"".join(
        frames.frame(frame.kind, frame.call_id, frame.payload, flags=frame.flags, aux=frame.aux)
        for frame in side.sent()
    )
    for held in list(side.shell.held):
        side.answer(held)
    for pending in list(side.connection.calls):
        side.connection.cancel_call(pending)
    side.sent()


# ---- the cells that say "counts", "delivers" or "goes on" ----------------------------------------------------------


def test_row_14_a_continuation_goes_on(side: Side) -> None:
    side.receive(frames.first(1, b"a" * 2000, 4000) + frames.more(1, b"b" * 2000, last=True))
    assert side.shell.called[-1][3] == b"a" * 2000 + b"b" * 2000
    assert [frame.kind for frame in side.sent()] == [spec.REPLY]


def test_row_14_a_reply_is_delivered_once(make_side: Make) -> None:
    side = make_side(Role.INITIATOR)
    call = side.request("echo", b"x")
    side.sent()
    side.receive(frames.reply(1, b"one") + frames.reply(1, b"two") + frames.error(1))
    assert call.outcome == b"one"
    assert side.connection.late_replies == 2
    assert side.breach is None


def test_row_14_credit_counts_for_a_large_reply_of_ours(side: Side) -> None:
    side.receive(frames.opening(1, b"70000", name="fill"))
    assert sum(len(frame.payload) for frame in side.sent()) < 100
    side.admit(1, 70_000)
    assert sum(len(frame.payload) for frame in side.sent()) > 50_000


def test_row_14_credit_counts_for_a_large_request_of_ours(make_side: Make) -> None:
    side = make_side(Role.INITIATOR)
    call = side.request("echo", bytes(70_000))
    side.sent()
    side.admit(1, 70_000)
    assert sum(len(frame.payload) for frame in side.sent()) > 50_000
    side.receive(frames.reply(1, b"ok"))
    assert call.outcome == b"ok"


@pytest.mark.parametrize("amount", [0, 69_999, 70_001, 1 << 63])
def test_row_14_an_admission_must_name_the_size(make_side: Make, amount: int) -> None:
    side = make_side(Role.INITIATOR)
    call = side.request("echo", bytes(70_000))
    side.sent()
    side.receive(frames.credit(amount, 1))
    assert side.breach is not None
    assert side.breach.code == ErrorCode.FLOW_CONTROL
    assert call.outcome.maybe_executed
    end(side)


def test_row_14_a_second_admission_is_none(make_side: Make) -> None:
    side = make_side(Role.INITIATOR)
    side.request("echo", bytes(70_000))
    side.sent()
    side.receive(frames.credit(70_000, 1) * 2)
    assert side.breach is not None
    assert side.breach.code == ErrorCode.FLOW_CONTROL
    end(side)


@pytest.mark.parametrize("prepare", ["closed_incoming", "closed_ours", "closed_ours_cancelled"])
@pytest.mark.parametrize("kind", [FrameType.REPLY, FrameType.ITEM])
def test_dropped_messages_are_counted_to_credit(make_side: Make, prepare: str, kind: FrameType) -> None:
    """Sections 3 and 5: what is dropped is counted to credit like all else, and its credit comes back."""
    side = make_side(Role.ACCEPTOR)
    call_id = BY_NAME[prepare](side)
    message = frames.reply(call_id, bytes(60_000)) if kind == FrameType.REPLY else frames.item(call_id, bytes(60_000))
    side.receive(message * 40)
    assert side.breach is None, str(side.breach)
    given = [frame for frame in side.sent() if frame.kind == spec.CREDIT]
    which = CreditClass.REPLIES if kind == FrameType.REPLY else CreditClass.CALLS
    assert {frame.aux for frame in given} == {which}
    assert sum(int.from_bytes(frame.payload, "little") for frame in given) > 40 * 60_000 - 131_072


def test_row_13_gaps_between_ids_are_allowed(side: Side) -> None:
    side.receive(frames.opening(5, b"a") + frames.opening(999, b"b") + frames.opening((1 << 48) - 1, b"c"))
    assert [frame.call_id for frame in side.sent()] == [5, 999, (1 << 48) - 1]


@pytest.mark.parametrize("shape", ["whole", "buffers", "pieces", "large"])
@pytest.mark.parametrize("call_id", [1, 3, 2, 4])
def test_row_13_ids_rise_and_have_a_parity(side: Side, shape: str, call_id: int) -> None:
    side.receive(frames.opening(3, b"first"))
    side.sent()
    piece = {
        "whole": frames.opening(call_id, b"x"),
        "buffers": frames.opening(call_id, b"xy", size=1, buffers=[1]),
        "pieces": frames.first(call_id, b"x" * 2000, 5000),
        "large": frames.first(call_id, b"", 5 << 20),
    }[shape]
    side.receive(piece)
    assert side.breach is not None
    assert side.breach.code == ErrorCode.CALL_ID
    assert any(text in str(side.breach) for text in ("parity", "rise"))
    assert len(side.shell.called) == 1
    end(side)


def test_row_2_frames_of_calls_that_never_were(make_side: Make) -> None:
    for frame in (frames.reply(1), frames.error(1), frames.cancel(1), frames.credit(5, 1), frames.more(1, b"x")):
        side = make_side(Role.INITIATOR)
        side.receive(frame)
        assert side.breach is not None
        assert side.breach.code == ErrorCode.CALL_STATE
        end(side)


def test_auth_frames_need_a_mechanism(side: Side) -> None:
    side.receive(frames.auth(1, bytes(32)))
    assert side.breach is not None
    assert side.breach.code == ErrorCode.AUTHENTICATION
    end(side)
