"""When what is queued leaves: with the read or turn that queued it, but not more than a batch later."""

from __future__ import annotations

import asyncio
import time

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import Kit, poll


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


class Proxy(bytearray):
    """An argument whose finaliser makes calls, as proxies of remote objects do to release them."""

    client = None

    def __del__(self):
        for _ in range(20):
            self.client.notify("release")


@pytest.mark.parametrize("address", ["tcp://127.0.0.1:0", "inproc://finaliser"])
def test_a_finaliser_may_call_while_its_buffer_is_being_sent(run, address):
    """The writer gives buffers up in the middle of its work; sending at that point mixed up the byte stream."""
    released = []

    @rpcproto.notify
    def release():
        released.append(1)

    async def main():
        async with pair({"size": len, "release": release}, address) as (_, client):
            await client.request("size", b"")
            await client.notify("release")
            Proxy.client = client
            for _ in range(5):
                calls = [client.request("size", memoryview(Proxy(100_000))) for _ in range(60)]
                assert await asyncio.gather(*calls) == [100_000] * 60
            calls.clear()
            await poll(lambda: len(released) == 1 + 5 * 60 * 20)

    run(main())


def test_a_blocked_socket_pauses_reading_whatever_the_batch(run):
    """The first batch blocks the socket, long before ``max_queued`` is reached; what follows must be counted too."""

    async def main():
        window = 2**30  # so that credit does not hold replies back
        limits = {
            "server": {"limits": rpcproto.Limits(max_queued=65_536)},
            "client": {"limits": rpcproto.Limits(connection_window=window, max_connection_window=window)},
        }
        async with pair({"blob": bytes}, "tcp://127.0.0.1:0", **limits) as (server, client):
            await client.request("blob", 1)
            client._link.transport.pause_reading()
            calls = []
            for _ in range(3000):
                calls += [client.request("blob", 4000) for _ in range(10)]
                await asyncio.sleep(0)
            assert server.peers[0].stats()["bytes_queued"] < 2 * 65_536
            client._link.transport.resume_reading()
            assert {len(blob) for blob in await asyncio.gather(*calls)} == {4000}

    run(main())


@pytest.mark.parametrize(("name", "size"), [("known", 0), ("known", 5_000), ("known", 100_000), ("new", 0)])
def test_a_call_with_no_other_under_way_leaves_at_once(run, name, size):
    async def main():
        async with pair({"known": len, "new": len}, "tcp://127.0.0.1:0") as (_, client):
            await client.request("known", b"")
            before = client.stats()["sends"]
            reply = client.request(name, bytes(size))
            assert client.stats()["sends"] == before + 1
            assert await reply == size

    run(main())


def test_a_transport_that_raises_ends_the_connection_and_not_the_caller(run, monkeypatch):
    async def main():
        async with pair(Kit(), "inproc://raises") as (_, client):
            await client.request("Kit.echo", 0)

            def write(self, data):
                raise RuntimeError("the handler is closed")

            monkeypatch.setattr(type(client._link.transport), "write", write)
            reply = client.request("Kit.echo", 1)
            with pytest.raises(rpcproto.ConnectionLost, match="the handler is closed"):
                await reply

    run(main())
