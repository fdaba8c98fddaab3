"""How connections with TLS end, and that neither end can lock the other up."""

from __future__ import annotations

import asyncio
import socket

import pytest

import rpcproto
from rpcproto import Limits, Timeouts
from rpcproto.testing import FaultProxy, pair
from tests._certificates import mutual
from tests.aio._ends import Kit, failure, poll, turns
from tests.aio._tls import TLS_ADDRESS, port_of, server_only, trusting


def test_row_42_close_during_the_handshake(run, lines):
    async def main():
        with socket.create_server(("127.0.0.1", 0)) as silent:
            client = rpcproto.connect(f"tls://127.0.0.1:{silent.getsockname()[1]}", ssl=trusting())
            connecting = asyncio.create_task(client.__aenter__())
            peer = await asyncio.get_running_loop().sock_accept(_nonblocking(silent))
            await client.close()
            assert isinstance(await failure(connecting), rpcproto.ConnectionClosed)
            peer[0].close()
        server = await rpcproto.serve(Kit(), TLS_ADDRESS, ssl=server_only())
        with socket.create_connection(("127.0.0.1", port_of(server.address))) as silent:
            await turns()
            async with asyncio.timeout(5):
                await server.close()
            assert silent.recv(100) == b""
        assert lines() == []

    run(main())


def _nonblocking(sock: socket.socket) -> socket.socket:
    sock.setblocking(False)
    return sock


@pytest.mark.parametrize("grace", [0, 0.02])
@pytest.mark.parametrize("who", ["client", "server"])
def test_fault_48_49_closing_while_the_peer_streams(run, caplog, grace, who):
    """From either end: nothing reaches the loop's handler or the log, and it does not take long."""

    class Pour(rpcproto.Service):
        @rpcproto.stream
        async def pour(self):
            while True:
                yield bytes(10_000)

        @rpcproto.notify
        def drink(self, data):
            pass

    async def main():
        for _ in range(10):
            async with pair(Pour(), TLS_ADDRESS, server={"ssl": mutual()}, client={"ssl": mutual()}) as (
                server,
                client,
            ):
                items = aiter(client.stream("Pour.pour"))
                for _ in range(20):
                    await anext(items)
                for _ in range(20):
                    client.notify("Pour.drink", bytes(50_000))
                async with asyncio.timeout(5):
                    await (server if who == "server" else client).close(grace)
        assert caplog.records == []

    run(main())


def test_a_breach_is_told_though_the_peer_goes_on_sending(run):
    async def main():
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=server_only()) as server:
            context = trusting().context(server=False)
            reader, writer = await asyncio.open_connection("127.0.0.1", port_of(server.address), ssl=context)
            writer.write(b"GET / HTTP/1.1\r\n" + b"x" * 300_000)
            data = await asyncio.wait_for(reader.read(), 5)
            assert b"the peer does not speak rpcproto" in data
            writer.close()
            await poll(lambda: not server.peers)

    run(main())


@pytest.mark.parametrize("how", ["reset", "end"])
def test_an_end_without_close_notify(run, how):
    async def main():
        kit = Kit()
        async with rpcproto.serve(kit, TLS_ADDRESS, ssl=mutual()) as server, FaultProxy(server.address) as proxy:
            async with rpcproto.connect(proxy.address, ssl=mutual()) as client:
                waiting = client.request("Kit.wait", 1)
                await kit.until(lambda: kit.started)
                if how == "reset":
                    proxy.reset()
                else:
                    proxy.end(proxy.down)
                error = await failure(waiting)
                assert type(error) is rpcproto.ConnectionLost
                assert error.maybe_executed
                proxy.reset()
            await kit.until(lambda: kit.cancelled)

    run(main())


def test_what_is_cut_within_a_message_is_not_taken_for_whole(run):
    async def main():
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=mutual()) as server, FaultProxy(server.address) as proxy:
            async with rpcproto.connect(proxy.address, ssl=mutual()) as client:
                proxy.down.limit(proxy.down.forwarded + 500_000, "end")
                error = await failure(client.request("Kit.produce", 3_000_000))
                assert type(error) is rpcproto.ConnectionLost
                proxy.reset()

    run(main())


def test_fault_32_both_ways_at_once_does_not_lock_up(run):
    """More than all buffers hold, in both directions, with readers that pause."""

    async def main():
        async with pair(Kit(), TLS_ADDRESS, server={"ssl": mutual()}, client={"ssl": mutual()}) as (_, client):
            data = bytes(4_000_000)
            there = [client.request("Kit.echo", data) for _ in range(6)]
            assert [len(answer) for answer in await asyncio.gather(*there)] == [len(data)] * 6

    run(main())


def test_fault_30_a_peer_that_reads_nothing_is_noticed(run):
    async def main():
        limits, timeouts = Limits(max_queued=1_000_000), Timeouts(stall=0.1)
        async with rpcproto.serve(Kit(), TLS_ADDRESS, ssl=mutual()) as server, FaultProxy(server.address) as proxy:
            async with rpcproto.connect(proxy.address, ssl=mutual(), limits=limits, timeouts=timeouts) as client:
                proxy.up.stop()
                with pytest.raises(rpcproto.Overloaded):
                    for _ in range(1000):
                        client.notify("Kit.note", bytes(60_000))
                        await turns(1)
                proxy.reset()

    run(main())
