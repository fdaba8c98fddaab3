"""When what is queued leaves: with the read or turn that queued it, but not more than a batch later."""

from __future__ import annotations

import asyncio
import time

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import Kit


@pytest.mark.parametrize("scheme", ["tcp", "unix"])
@pytest.mark.parametrize(("calls", "sends"), [(1, 1), (2, 2), (9, 2), (10, 3), (50, 5)])
def test_many_calls_leave_in_batches_of_about_half_of_them(run, scheme, tmp_path, calls, sends):
    """The first one by itself, since nothing is under way; then 8 or more."""
    address = "tcp://127.0.0.1:0" if scheme == "tcp" else f"unix://{tmp_path}/socket"

    async def main():
        async with pair(Kit(), address) as (server, client):
            await client.request("Kit.echo", 0)
            before = client.stats()["sends"], server.peers[0].stats()["sends"]
            await asyncio.gather(*(client.request("Kit.echo", n) for n in range(calls)))
            assert client.stats()["sends"] == before[0] + sends
            assert server.peers[0].stats()["sends"] > before[1] + (calls - 1) // 16

    run(main())


def test_an_answer_does_not_wait_for_the_slow_handler_after_its_own(run):
    """All three calls come with one read."""
    sends = []

    def slow():
        sends.append(rpcproto.peer().stats()["sends"])
        time.sleep(0.001)  # twice what counts as slow

    async def main():
        async with pair({"slow": slow}, "tcp://127.0.0.1:0") as (_, client):
            await client.request("slow")
            sends.clear()
            await asyncio.gather(*(client.request("slow") for _ in range(3)))
            assert sends == [sends[0], sends[0] + 1, sends[0] + 2]

    run(main())


def test_fault_11_sizes_are_bytes_not_items(run, address):
    import array

    async def main():
        values = array.array("d", range(1000))
        async with pair(Kit(), address, server={"limits": rpcproto.Limits(max_message=8_100)}) as (server, client):
            before = server.peers[0].stats()["bytes_received"]
            assert (await client.request("Kit.echo", memoryview(values))).tobytes() == values.tobytes()
            assert 8_000 < server.peers[0].stats()["bytes_received"] - before < 8_200
            with pytest.raises(rpcproto.MessageTooLarge) as caught:
                client.request("Kit.echo", memoryview(array.array("d", range(1100))))
            assert caught.value.size > 8_800

    run(main())
