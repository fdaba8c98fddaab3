"""Row 30: a peer that makes this side refuse calls as fast as it can, and does not read the refusals.

They are counted (``calls_refused``) and cost their sender: what waits to be told is bounded by ``max_queued``, above
which nothing more of the peer is read. No rate ends the connection: a client that is told ``Overloaded`` or calls a
method that is gone is not hostile.
"""

from __future__ import annotations

import pytest

import rpcproto
from tests.aio._ends import Kit
from tests.aio._hostile import connect
from tests.wire import frames

CALLS = 250_000
MAX_QUEUED = 64 * 1024
STUCK = 50
"""Calls of somebody else that are answered while the flood gets nowhere, until it is taken to be stuck."""

PROVOCATIONS = {
    "no such method": lambda number: frames.opening(2 * number + 1, b"\x90", codec=2, name="absent"),
    "wrong arguments": lambda number: frames.opening(2 * number + 1, b"\x90", codec=2, name="Kit.echo"),
    "no such codec": lambda number: frames.opening(2 * number + 1, b"", codec=200, name="Kit.echo"),
}


@pytest.mark.parametrize("provocation", PROVOCATIONS)
def test_row_30_refusals_that_nobody_reads_stop_the_flood(run, provocation):
    make = PROVOCATIONS[provocation]
    data = frames.greeting(frames.INITIATOR) + b"".join(make(number) for number in range(CALLS))

    async def main():
        limits = rpcproto.Limits(max_queued=MAX_QUEUED)
        async with rpcproto.serve(Kit(), "tcp://127.0.0.1:0", limits=limits) as server:
            async with rpcproto.connect(server.address) as client:
                (honest,) = server.peers
                with connect(server.address) as sock:
                    sock.setblocking(False)
                    view = memoryview(data)
                    stuck = 0
                    while view and stuck < STUCK:
                        try:
                            view = view[sock.send(view[:65_536]) :]
                            stuck = 0
                        except BlockingIOError:
                            stuck += 1
                        assert await client.request("Kit.echo", stuck) == stuck
                    (hostile,) = [peer for peer in server.peers if peer is not honest]
                    stats = hostile.stats()
                    assert 0 < stats["calls_refused"] < CALLS
                    assert stats["bytes_queued"] <= 2 * MAX_QUEUED
                    assert stats["calls_running"] == 0

    run(main())
