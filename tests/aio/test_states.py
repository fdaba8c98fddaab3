"""What is left of ends that were closed, and what they say in each state."""

from __future__ import annotations

import asyncio
import weakref

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import Kit, failure, gone, turns

pytestmark = pytest.mark.smoke


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

            with pytest.raises(rpcproto.ConfigurationError, match="connects once"):
                await client.__aenter__()

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


def test_what_was_awaited_can_be_entered_once(run, address):
    async def main():
        async with await rpcproto.serve(Kit(), address) as server:
            async with await rpcproto.connect(server.address) as client:
                assert await client.request("Kit.echo", 1) == 1
                for again in (client, server):
                    with pytest.raises(rpcproto.ConfigurationError):
                        await again.__aenter__()
            assert client.closed
            with pytest.raises(rpcproto.ConfigurationError, match="connects once"):
                await client.__aenter__()
            gone = await rpcproto.connect(server.address)
            await gone.close()
            with pytest.raises(rpcproto.ConfigurationError, match="connects once"):
                await gone.__aenter__()

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
