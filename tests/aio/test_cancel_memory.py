"""Nothing stays of calls that were given up (fault 38)."""

from __future__ import annotations

import asyncio
import gc

import pytest

from rpcproto.testing import pair
from tests.aio._ends import Kit


@pytest.mark.parametrize("size", [10, 100_000])
def test_fault_38_cancelled_calls_leave_nothing(run, address, size):
    """Objects are counted, those the garbage collector knows of, after rounds of the same calls."""

    async def rounds(client, count):
        for _ in range(count):
            calls = [client.request("Kit.wait", bytes(size)) for _ in range(50)]
            await asyncio.sleep(0)
            for call in calls:
                call.cancel()
            del calls
            await client.request("Kit.echo", 0)

    async def main():
        async with pair(Kit(), address) as (server, client):
            counts = []
            for _ in range(4):
                await rounds(client, 5)
                while server.peers[0].stats()["calls_running"]:
                    await asyncio.sleep(0)
                gc.collect()
                counts.append(len(gc.get_objects()))
            assert client.stats()["calls_pending"] == 0
            assert client.stats()["bytes_queued"] == 0
            assert counts[3] - counts[1] < 100  # of 500 calls in between

    run(main())
