"""Peers that do not read: what waits is bounded, others are not held up, and in the end such a peer is cut off."""

from __future__ import annotations

import asyncio

import pytest

import rpcproto
from rpcproto.testing import pair, proxied_pair
from tests.aio._ends import RAW, Kit, poll, turns

pytestmark = pytest.mark.smoke

MIB = 1024 * 1024


def test_row_25_a_peer_that_never_reads_replies_is_paused_and_then_cut_off(run):
    async def main():
        options = {
            "limits": rpcproto.Limits(max_queued=2 * MIB),
            "timeouts": rpcproto.Timeouts(stall=0.05, heartbeat=None, linger=0.05),
        }
        async with proxied_pair(Kit(), server=options, client={"timeouts": rpcproto.Timeouts(heartbeat=None)}) as (
            server,
            client,
            proxy,
        ):
            peer = server.peers[0]
            proxy.down.stop()
            replies = [client.request("Kit.produce", 900_000, timeout=None) for _ in range(40)]
            # While its replies wait, no more of its calls are read.
            await poll(lambda: peer.stats()["bytes_queued"] > 2 * MIB)
            await turns(20)
            assert peer.stats()["bytes_queued"] < 40 * MIB
            await poll(lambda: not server.peers)
            proxy.down.resume()
            outcomes = await asyncio.gather(*replies, return_exceptions=True)
            # Some were answered, some refused when too much waited already, and the rest was cut off.
            assert {type(each) for each in outcomes} <= {bytes, rpcproto.Overloaded, rpcproto.ConnectionLost}
            assert rpcproto.ConnectionLost in {type(each) for each in outcomes}

    run(main())


def test_row_25_a_peer_that_reads_slowly_is_not_cut_off(run):
    async def main():
        options = {"limits": rpcproto.Limits(max_queued=2 * MIB), "timeouts": rpcproto.Timeouts(stall=0.1)}
        async with proxied_pair(Kit(), server=options) as (server, client, proxy):
            proxy.down.buffer = 64 * 1024
            proxy.down.rate = 40_000_000
            replies = [client.request("Kit.produce", 900_000, timeout=None) for _ in range(12)]
            for _ in range(10):
                await asyncio.sleep(0.02)
            proxy.down.rate = None
            assert [len(each) for each in await asyncio.gather(*replies)] == [900_000] * 12
            assert await client.request("Kit.echo", 1) == 1
            await poll(lambda: server.peers[0].stats()["bytes_queued"] == 0)

    run(main())


def test_row_25_reading_goes_on_when_the_peer_reads_again(run):
    async def main():
        options = {"limits": rpcproto.Limits(max_queued=2 * MIB), "timeouts": rpcproto.Timeouts(heartbeat=None)}
        kit = Kit()
        async with proxied_pair(kit, server=options) as (server, client, proxy):
            for _ in range(3):
                proxy.down.stop()
                replies = [client.request("Kit.produce", 900_000) for _ in range(8)]
                await poll(lambda: server.peers[0].stats()["bytes_queued"] > 2 * MIB)
                replies += [client.request("Kit.echo", n) for n in range(100)]
                await turns(5)
                proxy.down.resume()
                answers = await asyncio.gather(*replies)
                assert answers[8:] == list(range(100))
                assert [len(each) for each in answers[:8]] == [900_000] * 8

    run(main())


def test_row_22_one_slow_peer_holds_up_no_other(run):
    async def main():
        options = {"limits": rpcproto.Limits(max_queued=2 * MIB), "timeouts": rpcproto.Timeouts(heartbeat=None)}
        async with proxied_pair(Kit(), server=options) as (server, client, proxy):
            proxy.down.stop()
            for _ in range(20):
                client.request("Kit.produce", 900_000, timeout=None)
            await poll(lambda: server.peers[0].stats()["bytes_queued"] > 2 * MIB)
            async with rpcproto.connect(server.address) as other:
                for n in range(100):
                    assert await other.request("Kit.echo", n) == n
                assert len(await other.request("Kit.produce", 3_000_000)) == 3_000_000

    run(main())


def test_row_22_a_handler_that_takes_long_does_not_stop_its_connection(run, address):
    async def main():
        kit = Kit()
        async with pair(kit, address) as (_, client):
            slow = [client.request("Kit.wait", bytes(900_000), timeout=None) for _ in range(20)]
            for _ in range(20):
                assert await client.request("Kit.echo", bytes(900_000)) == bytes(900_000)
            kit.gate.set()
            assert len(await asyncio.gather(*slow)) == 20

    run(main())


@pytest.mark.parametrize("size", [1_000, 5_000, 100_000])
def test_fault_28_fault_30_notifies_to_a_peer_that_does_not_read_are_bounded(run, size):
    async def main():
        kit = Kit()
        limits = rpcproto.Limits(max_queued=1 * MIB)
        timeouts = rpcproto.Timeouts(heartbeat=None)
        async with proxied_pair(kit, client={"limits": limits, "timeouts": timeouts, **RAW}, server=RAW) as (
            _,
            client,
            proxy,
        ):
            proxy.up.stop()
            data = bytes(size)
            sent = 0
            handle = None
            with pytest.raises(rpcproto.Overloaded) as caught:
                for _ in range(1_000):
                    for _ in range(100):
                        handle = client.notify("Kit.note", data)
                        sent += 1
                    await asyncio.sleep(0)
            assert "max_queued of 1048576" in str(caught.value)
            assert client.stats()["bytes_queued"] <= MIB + 2 * size + 1000
            with pytest.raises(rpcproto.Overloaded):
                client.request("Kit.echo", data)
            assert not handle.done()
            # Awaiting the handle is how a sender waits.
            proxy.up.resume()
            await handle
            await client.notify("Kit.note", data)
            await client.ping()
            await kit.until(lambda: len(kit.notes) == sent + 1)

    run(main())


def test_fault_30_awaiting_each_handle_never_overloads(run):
    async def main():
        kit = Kit()
        limits = rpcproto.Limits(max_queued=1 * MIB)
        async with proxied_pair(kit, client={"limits": limits, **RAW}, server=RAW) as (_, client, proxy):
            proxy.up.rate = 200_000_000
            for _ in range(100):
                await client.notify("Kit.note", bytes(200_000))
            await client.ping()
            await kit.until(lambda: len(kit.notes) == 100)

    run(main())


def test_fault_28_replies_are_refused_while_too_many_wait_for_credit(run):
    """A caller that reads its socket but gives no credit back: what it would get is bounded all the same."""

    async def main():
        options = {"limits": rpcproto.Limits(max_queued=2 * MIB), "timeouts": rpcproto.Timeouts(stall=0.05)}
        small = rpcproto.Limits(call_window=64 * 1024, connection_window=64 * 1024, max_connection_window=64 * 1024)
        async with proxied_pair(Kit(), server=options, client={"limits": small}) as (server, client, _proxy):
            replies = [client.request("Kit.produce", 60_000) for _ in range(500)]
            outcomes = await asyncio.gather(*replies, return_exceptions=True)
            assert {type(each) for each in outcomes} <= {bytes, rpcproto.Overloaded}
            assert await client.request("Kit.echo", 1) == 1
            assert server.peers[0].stats()["bytes_queued"] == 0

    run(main())
