"""What a connection is doing at this moment, as plain values, for those who look into a running process.

Rules:

1. It is read when somebody asks. Nothing is counted or kept for it, so it costs a call nothing; what nobody keeps, such
   as when a call began, cannot be told.
2. It is bounded: as many calls as asked for, the oldest first, and the number of those left out.
3. Of a call it has the method and what the protocol needs: no arguments, items, results or metadata.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, islice
from typing import TYPE_CHECKING, TypedDict

from rpcproto.connection import _states as states
from rpcproto.wire.spec import FrameType

if TYPE_CHECKING:
    from rpcproto.connection.calls import Flow, PendingCall, RunningCall
    from rpcproto.connection.connection import Connection

__all__ = ["CallSnapshot", "ConnectionSnapshot", "calls_of", "state_of"]

_STATES = {states.WAITING: "waiting", states.OPEN: "open", states.DRAINING: "draining", states.CLOSED: "closed"}
_KINDS = {int(kind): kind.name.lower() for kind in FrameType}


class ConnectionSnapshot(TypedDict):
    """One connection. Amounts are in bytes unless they are said to be a number."""

    state: str
    """``waiting`` for greeting and proofs, ``open``, ``draining`` or ``closed``."""
    paused: bool
    """Nothing is read, since the peer does not take our replies."""
    queued: int
    """What waits to be sent: for the socket, for credit, for an admission."""
    credit_calls: int
    """What may be sent of calls and items before the peer gives credit back."""
    credit_replies: int
    blocked: int
    """Number of messages that wait for that credit."""
    blocked_bytes: int
    unadmitted: int
    """Number of large messages that wait until the peer has room for them."""
    unadmitted_bytes: int
    window_calls: int
    """The window for what the peer sends of calls and items, which may have grown."""
    window_replies: int
    left_calls: int
    """What is left to the peer of that window."""
    left_replies: int
    arriving: int
    """Number of large messages that have begun to arrive, or wait for the reassembly budget."""
    running: int
    """Number of handlers that run for the peer, or have yet to end though their calls are over."""
    running_bytes: int
    """Their requests."""
    pending: int
    """Number of requests of ours that wait for an answer."""
    flows: int
    """Number of streams and channels, of both sides."""


class CallSnapshot(TypedDict):
    """One call."""

    id: int
    direction: str
    """``in``: the peer called; ``out``: this side did."""
    kind: str
    """``request``, ``notify``, ``stream`` or ``channel``."""
    method: str
    state: str
    """See :func:`calls_of`."""
    time_left: float | None
    """Seconds until its deadline, below 0 if that has passed and was not acted on yet; None if it has none."""
    queued: int
    """Bytes of it that wait for credit, or to be admitted."""
    held: int
    """Bytes that arrived for it and are kept: the request while its handler runs, items that were not taken."""
    credit: int | None
    """Bytes of items that this side may send in it; None for what has no items."""
    window: int | None
    """Bytes of items that the peer may send in it."""


def state_of(connection: Connection) -> ConnectionSnapshot:
    """The connection as a whole."""
    outbox, inbox = connection.outbox, connection.inbox
    return {
        "state": _STATES[connection.state],
        "paused": connection.paused,
        "queued": connection.queued(),
        "credit_calls": outbox.credit_calls,
        "credit_replies": outbox.credit_replies,
        "blocked": len(outbox.blocked),
        "blocked_bytes": outbox.blocked_size,
        "unadmitted": len(outbox.probing),
        "unadmitted_bytes": outbox.probing_size,
        "window_calls": inbox.calls.size,
        "window_replies": inbox.replies.size,
        "left_calls": inbox.calls.left,
        "left_replies": inbox.replies.left,
        "arriving": len(inbox.kept),
        "running": len(connection.running),
        "running_bytes": connection.running_size,
        "pending": len(connection.calls),
        "flows": len(connection.flows),
    }


def calls_of(connection: Connection, now: float, most: int) -> tuple[list[CallSnapshot], int]:
    """The calls that are open, those of the peer first, in either direction the oldest first.

    A call of the peer that a plain handler answers at once is never among them, nor is one that is still arriving, nor
    one that was answered while its answer waits to be sent: see :class:`ConnectionSnapshot` for these.

    =============  =====================================================================================
    state
    =============  =====================================================================================
    ``credit``     waits for credit of the connection, or of the call, before more of it can be sent
    ``admission``  a large message of it waits until the other side has room
    ``queued``     nothing of it has been sent yet
    ``sent``       ours, and the answer has not come
    ``running``    the peer's, and its handler is at work
    ``cancelled``  the peer's; it is over, but its handler has not ended
    ``open``       a channel in which both sides may send
    ``sending``    a stream or channel in which only this side still sends
    ``receiving``  the same, and only the other side does
    ``ending``     the same, and neither does
    =============  =====================================================================================

    Args:
        connection: whose.
        now: monotonic time in seconds.
        most: how many calls to tell of.

    Returns:
        The calls, and how many were left out.
    """
    calls, running, flows = connection.calls, connection.running, connection.flows
    parity = connection.next_id & 1
    served = (flow for flow in flows.values() if flow.call_id & 1 != parity and flow.call_id not in running)
    opened = (flow for flow in flows.values() if flow.call_id & 1 == parity)
    incoming: list[RunningCall | Flow] = [*islice(running.values(), most)]
    incoming += islice(served, most - len(incoming))
    outgoing: list[PendingCall] = [*islice(chain(opened, calls.values()), most)]
    if len(incoming) + len(outgoing) > most:  # each direction has half, and what the other does not need
        share = min(len(incoming), max(most // 2, most - len(outgoing)))
        del incoming[share:], outgoing[most - share :]
    told = [*_incoming(connection, incoming, now), *_outgoing(connection, outgoing, now)]
    twice = sum(1 for call_id in running if call_id in flows)
    return told, len(calls) + len(running) + len(flows) - twice - len(told)


def _incoming(connection: Connection, found: list[RunningCall | Flow], now: float) -> Iterator[CallSnapshot]:
    for record in found:
        running = connection.running.get(record.call_id)
        flow = connection.flows.get(record.call_id)
        if running is not None and running.over:
            state = "cancelled"
        else:
            state = "running" if flow is None else _state_of_flow(connection, flow)
        told = _call(record.call_id, "in", record.kind, record.method, state, record.deadline, now)
        told["held"] = 0 if running is None else running.size
        _add_flow(connection, told, flow)
        yield told


def _outgoing(connection: Connection, found: list[PendingCall], now: float) -> Iterator[CallSnapshot]:
    outbox = connection.outbox
    for record in found:
        call_id = record.call_id
        flow = connection.flows.get(call_id)
        message = outbox.blocked.get(call_id) or outbox.probing.get(call_id)
        if flow is not None:
            state = _state_of_flow(connection, flow)
        elif call_id in outbox.blocked:
            state = "credit"
        elif message is not None:
            state = "admission"
        else:
            state = "sent" if record.sent else "queued"
        kind = FrameType.REQUEST if flow is None else flow.kind
        told = _call(call_id, "out", kind, record.method, state, record.deadline, now)
        if flow is None and message is not None:
            told["queued"] = message.size
        _add_flow(connection, told, flow)
        yield told


def _call(
    call_id: int, direction: str, kind: int, method: str, state: str, deadline: float, now: float
) -> CallSnapshot:
    return {
        "id": call_id,
        "direction": direction,
        "kind": _KINDS[kind],
        "method": method,
        "state": state,
        "time_left": deadline - now if deadline > 0.0 else None,
        "queued": 0,
        "held": 0,
        "credit": None,
        "window": None,
    }


def _state_of_flow(connection: Connection, flow: Flow) -> str:
    outbox = connection.outbox
    if flow.call_id in outbox.blocked or (flow.queue and flow.credit <= 0):
        return "credit"
    if flow.call_id in outbox.probing:
        return "admission"
    if not flow.sent:
        return "queued"
    if flow.sent_all:
        return "ending" if flow.received_all else "receiving"
    return "sending" if flow.received_all else "open"


def _add_flow(connection: Connection, told: CallSnapshot, flow: Flow | None) -> None:
    """What there is to tell of items."""
    if flow is None:
        return
    message = connection.outbox.blocked.get(flow.call_id) or connection.outbox.probing.get(flow.call_id)
    told["queued"] = flow.queued + (0 if message is None else message.size)
    told["held"] += flow.held
    told["credit"] = None if flow.sent_all else flow.credit
    told["window"] = None if flow.received_all else flow.window.left
