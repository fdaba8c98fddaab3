"""Ends in good order: draining, closing at the wrong moment, closing twice, and what is left afterwards."""

from __future__ import annotations

import asyncio
import gc
import socket
import time

import pytest

import rpcproto
from rpcproto.testing import pair, proxied_pair
from tests.aio._ends import Kit, failure, poll, turns

pytestmark = pytest.mark.smoke


def test_fault_54_a_graceful_stop_stays_graceful(run, address):
    """A finishes, B raises and C refuses to end; new calls are refused, and safe to send elsewhere."""

    async def main():
        stop = asyncio.Event()
        finish = asyncio.Event()
        refused = asyncio.Event()

        async def a():
            await finish.wait()
            return "A's answer"

        async def b():
            await stop.wait()
            raise ValueError("B")

        async def c():
            try:
                await asyncio.sleep(60)
            finally:
                refused.set()

        service = [{"a": a, "b": b, "c": c}, Kit()]
        async with pair(service, address) as (server, client):
            calls = [client.request(name) for name in "abc"]
            await client.ping()
            await turns()
            start = time.monotonic()
            closing = asyncio.create_task(server.close(grace=0.1))
            await poll(lambda: isinstance(_try(client), rpcproto.GoingAway))
            error = _try(client)
            assert isinstance(error, rpcproto.Refused)
            assert "shutting down" in str(error)
            stop.set()
            assert type(await failure(calls[1])) is rpcproto.RemoteError
            finish.set()
            assert await calls[0] == "A's answer"
            assert not refused.is_set()
            assert type(await failure(calls[2])) is rpcproto.ConnectionLost
            await closing
            assert refused.is_set()
            assert time.monotonic() - start < 3

    def _try(client):
        try:
            client.request("Kit.echo", 1).cancel()
        except rpcproto.RpcError as error:
            return error

    run(main())


def test_calls_that_cross_the_goaway_are_refused_and_not_run(run):
    async def main():
        kit = Kit()
        async with proxied_pair(kit) as (server, client, proxy):
            running = client.request("Kit.wait", "runs")
            await kit.until(lambda: kit.started)
            proxy.down.stop()
            closing = asyncio.create_task(server.close(grace=5))
            await turns(3)
            crossing = [client.request("Kit.wait", n) for n in range(5)]
            crossing.append(client.request("Kit.digest", bytes(100_000)))
            crossing.append(client.request("Kit.digest", bytes(2_000_000)))
            await proxy.up.reached(proxy.up.forwarded + 100_000)
            proxy.down.resume()
            for call in crossing:
                assert type(await failure(call)) is rpcproto.GoingAway
            assert kit.started == ["runs"]
            kit.gate.set()
            assert await running == "runs"
            await closing

    run(main())


def test_a_client_drains_too(run, address):
    async def main():
        kit = Kit()
        async with pair(kit, address, client={"service": kit}) as (server, client):
            ours = client.request("Kit.wait", "ours")
            theirs = server.peers[0].request("Kit.wait", "theirs")
            await kit.until(lambda: len(kit.started) == 2)
            closing = asyncio.create_task(client.close(grace=5))
            await turns()
            assert not closing.done()
            kit.gate.set()
            assert await asyncio.gather(ours, theirs) == ["ours", "theirs"]
            await closing
            assert client.closed
            await poll(lambda: not server.peers)

    run(main())


def test_closing_waits_until_all_is_sent(run):
    async def main():
        kit = Kit()
        async with proxied_pair(kit) as (_server, client, proxy):
            proxy.up.stop()
            client.notify("Kit.note", bytes(6_000_000))
            client.notify("Kit.note", b"last")
            closing = asyncio.create_task(client.close(grace=5))
            await turns(3)
            assert not closing.done()
            proxy.up.resume()
            await closing
            await asyncio.wait_for(kit.until(lambda: len(kit.notes) == 2), 1)
            assert {len(note) for note in kit.notes} == {6_000_000, 4}

    run(main())


def test_a_large_reply_arrives_before_the_server_closes(run, address):
    async def main():
        async with pair(Kit(), address) as (server, client):
            reply = client.request("Kit.produce", 8_000_000)
            await client.ping()
            await server.close(grace=5)
            assert len(await reply) == 8_000_000

    run(main())


@pytest.mark.parametrize("backlog", [0, 10_000_000])
def test_fault_40_close_returns_though_the_peer_is_stopped(run, backlog):
    async def main():
        async with proxied_pair(Kit()) as (server, client, proxy):
            proxy.up.stop()
            proxy.down.stop()
            with pytest.raises(rpcproto.DeadlineExceeded):
                await client.request("Kit.echo", 1, timeout=0.01)
            stuck = client.request("Kit.echo", 1, timeout=None)
            pinging = asyncio.ensure_future(client.ping(None))
            notes = [client.notify("Kit.note", bytes(backlog)) for _ in range(2)]
            await turns(2)
            for closing in (client.close(0.05), server.close(0.05)):
                start = time.monotonic()
                await closing
                assert time.monotonic() - start < 2
            for waiter in (stuck, pinging):
                assert type(await failure(waiter)) is rpcproto.ConnectionClosed
            for note in notes:
                assert type(await failure(note)) in ((rpcproto.ConnectionClosed,) if backlog else (type(None),))
            assert server.peers == []

    run(main())


def test_row_42_close_while_connecting(run):
    """At each step: before anything, while the other end does not accept, while its greeting does not come."""

    async def main():
        with socket.create_server(("127.0.0.1", 0)) as silent:
            address = f"tcp://127.0.0.1:{silent.getsockname()[1]}"
            for steps in range(8):
                client = rpcproto.connect(address)
                connecting = asyncio.ensure_future(_enter(client))
                await turns(steps)
                assert not connecting.done()
                start = time.monotonic()
                await client.close()
                assert time.monotonic() - start < 2
                error = await failure(connecting)
                assert type(error) is rpcproto.ConnectionClosed
                assert client.closed
                assert "closed" in repr(client)
                with pytest.raises(rpcproto.ConnectionClosed):
                    client.request("Kit.echo", 1)
                with pytest.raises((rpcproto.ConnectionClosed, rpcproto.ConfigurationError)):
                    await client

    async def _enter(client):
        async with client:
            pass

    run(main())


@pytest.mark.parametrize("steps", range(6))
def test_row_42_a_connect_that_is_cancelled_leaves_nothing(run, address, steps):
    async def main():
        async with rpcproto.serve(Kit(), address) as server:
            client = rpcproto.connect(server.address)
            connecting = asyncio.ensure_future(_enter(client))
            await turns(steps)
            if connecting.done():
                await client.close()
                return
            connecting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await connecting
            await poll(lambda: not server.peers)
            with pytest.raises(rpcproto.RpcError):
                client.request("Kit.echo", 1)

    async def _enter(client):
        await client

    run(main())


def test_row_42_close_with_a_write_backlog(run):
    async def main():
        async with proxied_pair(Kit()) as (_, client, proxy):
            proxy.up.stop()
            calls = [client.request("Kit.digest", bytes(3_000_000), timeout=None) for _ in range(5)]
            note = client.notify("Kit.note", bytes(3_000_000))
            await turns(3)
            await client.close(0)
            for call in [*calls, note]:
                error = await failure(call)
                assert type(error) is rpcproto.ConnectionClosed
            assert client.stats()["calls_pending"] == 0

    run(main())


def test_row_42_closing_twice_and_at_once(run, address):
    async def main():
        kit = Kit()
        async with pair(kit, address) as (server, client):
            call = client.request("Kit.wait", timeout=None)
            await kit.until(lambda: kit.started)
            slow = [asyncio.create_task(each.close(60)) for each in (client, server, client, client.peer)]
            await turns()
            assert not any(each.done() for each in slow)
            # A shorter grace counts, from whichever side it comes.
            await client.close(0)
            await asyncio.gather(*slow)
            assert type(await failure(call)) is rpcproto.ConnectionClosed
            for _ in range(2):
                await client.close()
                await server.close()
                await client.peer.close()
            await client.wait_closed()

    run(main())


def test_row_42_a_close_that_is_cancelled_ends_the_connection(run, address):
    async def main():
        for end in ("client", "server"):
            kit = Kit()
            async with pair(kit, address) as (server, client):
                call = client.request("Kit.wait", timeout=None)
                await client.ping()
                closing = asyncio.create_task((client if end == "client" else server).close(60))
                await turns()
                closing.cancel()
                with pytest.raises(asyncio.CancelledError):
                    await closing
                assert isinstance(await failure(call), rpcproto.ConnectionLost)
                await poll(lambda: client.closed and not server.peers)

    run(main())


def test_an_error_in_the_block_closes_at_once(run, address):
    async def main():
        kit = Kit()
        start = time.monotonic()
        with pytest.raises(ValueError, match="in the block"):
            async with pair(kit, address) as (_, client):
                call = client.request("Kit.wait", timeout=None)
                await kit.until(lambda: kit.started)
                raise ValueError("in the block")
        assert time.monotonic() - start < 2
        assert isinstance(await failure(call), rpcproto.ConnectionLost)
        assert kit.cancelled

    run(main())


def test_serve_forever_that_is_cancelled_closes(run, address):
    async def main():
        kit = Kit()
        async with pair(kit, address) as (server, client):
            serving = asyncio.ensure_future(server.serve_forever())
            call = client.request("Kit.wait", "answered")
            await kit.until(lambda: kit.started)
            serving.cancel()
            await turns()
            kit.gate.set()
            with pytest.raises(asyncio.CancelledError):
                await serving
            assert await call == "answered"

    run(main())


def test_connections_made_while_the_server_closes_are_closed_too(run, address):
    async def main():
        server = await rpcproto.serve(Kit(), address)
        clients = [rpcproto.connect(server.address) for _ in range(10)]
        connecting = [asyncio.ensure_future(client.__aenter__()) for client in clients]
        for steps in range(3):
            await turns(steps)
        await server.close(0)
        outcomes = await asyncio.gather(*connecting, return_exceptions=True)
        for client, outcome in zip(clients, outcomes, strict=True):
            if isinstance(outcome, rpcproto.Client):
                await asyncio.wait_for(client.wait_closed(), 5)
            else:
                assert isinstance(outcome, rpcproto.ConnectFailed)
            await client.close()
        gc.collect()

    run(main())
