"""The columns "open" of the state table (section 3 of ``PROTOCOL.md``, row 14) for streams and channels."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from rpcproto.wire import spec
from rpcproto.wire.spec import CHANNEL, STREAM, CreditClass, ErrorCode, Flag, FrameType, Role
from tests.connection.pairing import Side, breach_code
from tests.connection.shell import CallFlow
from tests.connection.test_connection_states import CELLS, INCOMING, OURS, events
from tests.wire import frames

Make = Callable[..., Side]
END = frames.item(1, flags=Flag.FIRST | Flag.END)


def incoming_stream(side: Side) -> CallFlow:
    side.receive(frames.opening(1, kind=FrameType.STREAM, name="flow"))
    return side.shell.flows[1]


def incoming_channel(side: Side) -> CallFlow:
    side.receive(frames.opening(1, kind=FrameType.CHANNEL, flags=Flag.FIRST | Flag.HEAD, name="flow"))
    return side.shell.flows[1]


def incoming_channel_ended_by_the_peer(side: Side) -> CallFlow:
    flow = incoming_channel(side)
    side.receive(END)
    return flow


def incoming_channel_ended_by_us(side: Side) -> CallFlow:
    flow = incoming_channel(side)
    side.connection.end_items(flow, False)
    side.sent()
    return flow


def our_stream(side: Side) -> CallFlow:
    flow = side.open_flow(STREAM)
    side.sent()
    return flow


def our_channel(side: Side) -> CallFlow:
    flow = side.open_flow(CHANNEL)
    side.sent()
    return flow


def our_channel_ended_by_the_peer(side: Side) -> CallFlow:
    flow = our_channel(side)
    side.receive(END)
    return flow


def our_channel_ended_by_us(side: Side) -> CallFlow:
    flow = our_channel(side)
    side.connection.end_items(flow, False)
    side.sent()
    return flow


DELIVERS = [incoming_channel, incoming_channel_ended_by_us, our_stream, our_channel, our_channel_ended_by_us]
SILENT = [incoming_stream, incoming_channel_ended_by_the_peer, our_channel_ended_by_the_peer]
STATES = DELIVERS + SILENT
ROWS = [row for row, column in CELLS if column == OURS and row not in ("CREDIT on the call", "... continuation of it")]


@pytest.mark.parametrize("prepare", STATES)
@pytest.mark.parametrize(("row", "which"), [(row, which) for row in ROWS for which in range(len(events(row, 1)))])
def test_row_14_each_cell(make_side: Make, prepare: Callable[[Side], CallFlow], row: str, which: int) -> None:
    ours = prepare.__name__.startswith("our")
    side = make_side(Role.INITIATOR if ours else Role.ACCEPTOR)
    flow = prepare(side)
    before = list(flow.outcomes)
    cell = CELLS[row, OURS if ours else INCOMING]
    side.receive(events(row, 1)[which])
    if row == "ITEM" and prepare in DELIVERS:
        assert "delivers" in cell
        assert side.breach is None
        assert flow.values or side.decoder.assemblies or "end" in flow.outcomes
        side.receive(frames.cancel(1))
    elif cell == "ends":
        assert side.breach is None
        assert len(flow.outcomes) == len(before) + 1
        if not ours:
            assert side.shell.events[-1][:2] == ("cancelled", 1)
    else:
        assert breach_code(side) == ErrorCode[cell.rpartition("else ")[2]]
        assert "call 1" in str(side.breach) or "id" in str(side.breach)
    assert not side.connection.flows
    leave(side)


@pytest.mark.parametrize("prepare", STATES)
def test_row_14_a_continuation_has_no_beginning(make_side: Make, prepare: Callable[[Side], CallFlow]) -> None:
    ours = prepare.__name__.startswith("our")
    side = make_side(Role.INITIATOR if ours else Role.ACCEPTOR)
    prepare(side)
    side.receive(frames.more(1, b"x" * 2000, kind=FrameType.ITEM))
    assert breach_code(side) == ErrorCode.CALL_STATE
    leave(side)


@pytest.mark.parametrize("prepare", STATES)
def test_row_14_credit_for_items_counts(make_side: Make, prepare: Callable[[Side], CallFlow]) -> None:
    ours = prepare.__name__.startswith("our")
    side = make_side(Role.INITIATOR if ours else Role.ACCEPTOR)
    flow = prepare(side)
    before = flow.credit
    side.receive(frames.credit(1000, 1, CreditClass.ITEMS))
    assert flow.credit == before + 1000
    side.receive(frames.cancel(1))
    side.receive(frames.credit(1000, 1, CreditClass.ITEMS))  # it crossed the end
    assert side.breach is None
    leave(side)


@pytest.mark.parametrize("prepare", STATES)
def test_row_14_an_admission_of_nothing(make_side: Make, prepare: Callable[[Side], CallFlow]) -> None:
    ours = prepare.__name__.startswith("our")
    side = make_side(Role.INITIATOR if ours else Role.ACCEPTOR)
    prepare(side)
    side.receive(frames.credit(5 << 20, 1))
    assert breach_code(side) == ErrorCode.FLOW_CONTROL
    leave(side)


@pytest.mark.parametrize(("call_id", "kind"), [(1, None), (1, "hold"), (2, None)])
def test_credit_for_items_of_no_stream(side: Side, call_id: int, kind: str | None) -> None:
    if kind:
        side.receive(frames.opening(1, b"x", name=kind))
    side.receive(frames.credit(1000, call_id, CreditClass.ITEMS))
    assert breach_code(side) == ErrorCode.FLOW_CONTROL
    if kind:
        side.connection.finished(side.shell.held.pop(1))


def leave(side: Side) -> None:
    """The handlers end; nothing else was sent but the reason of a breach."""
    for running in side.shell.held.values():
        assert not side.connection.finished(running)
    assert {frame.kind for frame in side.sent()} <= {spec.GOAWAY, spec.CREDIT}
