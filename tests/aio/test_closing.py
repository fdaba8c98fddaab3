"""Ends in good order: draining, closing at the wrong moment, closing twice, and what is left afterwards."""

from __future__ import annotations

import asyncio
import gc
import socket
import time
import weakref

import pytest

import rpcproto
from rpcproto.testing import pair, proxied_pair
from tests.aio._ends import Kit, gone, poll, turns

pytestmark = pytest.mark.smoke


async def failure(awaitable):
    try:
        return await asyncio.wait_for(awaitable, 5)
    except rpcproto.RpcError as error:
        return error


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
            assert 0.1 <= time.monotonic() - start < 3

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


def test_fault_58_nothing_runs_after_close_returned(run, address):
    async def main():
        kit = Kit()
        before = asyncio.all_tasks()
        async with rpcproto.serve(kit, address) as server:
            client = await rpcproto.connect(server.address)
            for n in range(20):
                client.request("Kit.wait", n)
                client.request("Kit.echo_thread", n)
            await kit.until(lambda: len(kit.started) == 20)
            await client.close(0)
            await server.close(0)
            assert asyncio.all_tasks() == before
            assert len(kit.ended) == 20

    run(main())


def test_fault_58_no_timer_is_left(run, address):
    if not hasattr(run.loop, "_scheduled"):
        pytest.skip("this loop does not tell its timers")

    async def main():
        async with pair(Kit(), address) as (_, client):
            with pytest.raises(rpcproto.DeadlineExceeded):
                await client.request("Kit.wait", timeout=0.01)
            await client.request("Kit.echo", 1, timeout=1000)
        # After a breach, too.
        async with rpcproto.serve(Kit(), "tcp://127.0.0.1:0") as server:
            reader, writer = await asyncio.open_connection("127.0.0.1", int(server.address.rpartition(":")[2]))
            writer.write(b"GET / HTTP/1.0\r\n\r\n")
            await reader.read()
            writer.close()
            await writer.wait_closed()
        assert [timer for timer in run.loop._scheduled if not timer.cancelled()] == [run_timer]

    run_timer = None

    async def find():
        nonlocal run_timer
        (run_timer,) = (timer for timer in run.loop._scheduled if not timer.cancelled())
        await main()

    run(find())


def test_fault_59_closed_ends_are_freed(run, address):
    class Heavy(Kit):
        def __init__(self):
            super().__init__()
            self.data = bytearray(8 * 1024 * 1024)

    async def once():
        service = Heavy()
        server = await rpcproto.serve(service, address)
        client = await rpcproto.connect(server.address, service=service)
        await client.request("Heavy.echo", 1, timeout=1000)
        waiting = client.request("Heavy.wait", timeout=1000)
        await service.until(lambda: service.started)
        await client.close(0)
        await server.close(0)
        assert isinstance(await failure(waiting), rpcproto.ConnectionClosed)
        return [weakref.ref(each) for each in (service, server, client, client.peer, client._link)]

    async def main():
        # Another connection of the loop lives on, and keeps what loops share.
        async with pair(Kit()) as (_, client):
            for _ in range(3):
                references = await once()
                await turns()
                assert gone(*references)
                assert await client.request("Kit.echo", 1) == 1

    run(main())


def test_fault_59_a_loop_that_is_closed_is_freed(run):
    async def main():
        async with pair(Kit()) as (_, client):
            await client.request("Kit.echo", 1)
        return weakref.ref(asyncio.get_running_loop())

    def with_a_loop():
        from tests.conftest import loop_factory

        with asyncio.Runner(loop_factory=loop_factory()) as runner:
            return runner.run(main())

    assert gone(*[with_a_loop() for _ in range(3)])


def test_fault_60_every_call_in_every_state_gives_one_typed_error(run, address):
    calls = {
        "request": lambda client: client.request("Kit.echo", 1),
        "notify": lambda client: client.notify("Kit.note", 1),
        "ping": lambda client: client.ping(),
    }

    async def attempt(client):
        errors = []
        for call in calls.values():
            try:
                await call(client)
            except rpcproto.RpcError as error:
                errors.append(type(error))
            else:
                errors.append(None)
        return errors

    async def main():
        kit = Kit()
        async with rpcproto.serve(kit, address) as server:
            client = rpcproto.connect(server.address)
            assert await attempt(client) == [rpcproto.LocalProtocolError] * 3
            assert not client.closed
            connecting = asyncio.ensure_future(client.__aenter__())
            await asyncio.sleep(0)
            assert await attempt(client) == [rpcproto.LocalProtocolError] * 3
            await connecting
            assert await attempt(client) == [None] * 3
            with pytest.raises(rpcproto.ConfigurationError, match="connects once"):
                await client

            closing = asyncio.ensure_future(client.close())
            waiting = client.request("Kit.wait")
            await asyncio.sleep(0)
            assert (await attempt(client))[:2] == [rpcproto.GoingAway] * 2
            kit.gate.set()
            await closing
            assert await failure(waiting) in (None, waiting.result() if not waiting.exception() else None)
            assert await attempt(client) == [rpcproto.ConnectionClosed] * 3
            assert client.closed
            assert "closed" in repr(client)

            never = rpcproto.connect(server.address)
            await never.close()
            assert await attempt(never) == [rpcproto.ConnectionClosed] * 3

            lost = await rpcproto.connect(server.address)
            await server.close(0)
            await lost.wait_closed()
            assert await attempt(lost) == [rpcproto.ConnectionLost] * 3
            assert lost.stats()["calls_opened"] == 0
            assert lost.peer.closed
            assert "closed" in repr(lost.peer)
            await lost.close()

            with pytest.raises(rpcproto.ConfigurationError, match="started before"):
                await server
        refused = rpcproto.connect(server.address)
        for _ in range(2):  # a failed attempt may be repeated
            with pytest.raises(rpcproto.ConnectFailed):
                await refused
            assert await attempt(refused) == [rpcproto.LocalProtocolError] * 3
        await refused.close()

    run(main())


def test_fault_60_a_server_in_every_state(run, address):
    async def main():
        server = rpcproto.serve(Kit(), address)
        with pytest.raises(rpcproto.LocalProtocolError, match="does not listen"):
            _ = server.address
        assert server.peers == []
        await server
        assert address.split(":")[0] in repr(server)
        serving = asyncio.ensure_future(server.serve_forever())
        await turns()
        await server.close()
        await serving
        assert "closed" in repr(server)
        assert server.peers == []
        await server.serve_forever()

        never = rpcproto.serve(Kit(), address)
        await never.close()
        with pytest.raises(rpcproto.ConfigurationError, match="closed"):
            await never

        taken = await rpcproto.serve(Kit(), address)
        with pytest.raises(rpcproto.ConnectFailed):
            await rpcproto.serve(Kit(), "inproc://other", taken.address)
        again = await rpcproto.serve(Kit(), "inproc://other")
        await again.close()
        await taken.close()

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
