"""Middleware where calls are made: what closing waits for and ends, and clients of other threads and kinds."""

from __future__ import annotations

import asyncio
import gc
import threading

import pytest

import rpcproto
from rpcproto.testing import pair, proxied_pair
from tests.aio._ends import failure, poll, turns
from tests.aio._middleware import Bench, Notes
from tests.conftest import loop_factory


async def passing(call, proceed):
    return await proceed(call)


def covered(*middleware, **options):
    """``pair`` with middleware at the client."""
    return pair(Bench(), client={"middleware": list(middleware or (passing,))}, **options)


# ---- the end of the connection ---------------------------------------------------------------------------------------


def test_closing_waits_for_covered_calls(run):
    async def slow(call, proceed):
        result = await proceed(call)
        for _ in range(20):
            await asyncio.sleep(0)
        return result

    async def main():
        async with covered(slow) as (_, client):
            replies = [client.request("Bench.task", n) for n in range(3)]
            await client.close(5)
            assert [reply.result() for reply in replies] == [0, 1, 2]

    run(main())


@pytest.mark.parametrize("grace", [0, 0.02])
def test_closing_ends_what_does_not_end(run, grace):
    ended = []

    async def stall(call, proceed):
        try:
            await asyncio.sleep(600)
        finally:
            ended.append(call.kind)

    async def main():
        async with covered(stall) as (_, client):
            reply = client.request("Bench.plain", 1)
            stream = client.stream("Bench.items", 1)
            await turns(2)
            await client.close(grace)
            assert type(await failure(reply)) is rpcproto.ConnectionClosed
            with pytest.raises(rpcproto.ConnectionClosed):
                await anext(stream)
            assert not client._link.covered

    run(main())
    assert sorted(ended) == ["request", "stream"]


def test_a_server_that_closes_ends_its_middleware_too(run):
    """Also of connections that were lost before."""

    async def stall(call, proceed):
        await asyncio.sleep(600)

    async def main():
        covering = rpcproto.covering(stall, sides="client")
        options = {"server": {"middleware": [covering]}, "client": {"service": {"f": int}}}
        async with proxied_pair(Bench(), **options) as (server, client, proxy):
            await client.ping()
            (peer,) = server.peers
            reply = peer.request("f")
            await turns(2)
            proxy.reset()
            await poll(lambda: not server.peers)
            assert not reply.done()
            await server.close(0)
            assert type(await failure(reply)) is rpcproto.ConnectionClosed

    run(main())


def test_closing_from_within_middleware(run):
    async def main():
        async def close(call, proceed):
            result = await proceed(call)
            await client.close(0)
            return result

        async with covered(close) as (_, client):
            assert await client.request("Bench.plain", 1) == 1

    run(main())


def test_closing_can_be_cancelled(run):
    async def stall(call, proceed):
        await asyncio.sleep(600)

    async def main():
        async with covered(stall) as (_, client):
            reply = client.request("Bench.plain", 1)
            task = asyncio.ensure_future(client.close(5))
            await asyncio.sleep(0)
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
            assert client.closed
            await client.close(0)
            assert type(await failure(reply)) is rpcproto.ConnectionClosed

    run(main())


# ---- other threads ---------------------------------------------------------------------------------------------------


def test_blocking_clients_have_middleware(run, blocking_loop):
    notes = Notes()

    def work(address):
        with rpcproto.connect_blocking(address, middleware=[notes]) as client:
            assert client.request("Bench.plain", 1) == 1
            assert client.submit("Bench.plain", 2).result() == 2
            client.notify("Bench.note", 3)
            assert list(client.stream("Bench.items", 2)) == [0, 1]
            with client.channel("Bench.talk", 2) as channel:
                channel.send(4)
                channel.flush()
                channel.end()
                assert list(channel) == [8]

    async def main():
        async with rpcproto.serve(Bench(), "tcp://127.0.0.1:0") as server:
            await asyncio.to_thread(work, server.address)

    run(main())
    kinds = [note[1] for note in notes.log if note[0] == "begin"]
    assert kinds == ["request", "request", "notify", "stream", "channel"]
    assert [note for note in notes.log if note[0] in ("sent", "received")] == [
        ("received", 0),
        ("received", 1),
        ("sent", 4),
        ("received", 8),
    ]


def test_a_wrong_thread_is_told(run):
    async def main():
        async with covered() as (_, client):
            caught = []

            def call():
                with pytest.raises(rpcproto.LocalProtocolError, match="belongs to the event loop of another thread"):
                    client.request("Bench.plain", 1)
                caught.append(True)

            thread = threading.Thread(target=call)
            thread.start()
            await asyncio.to_thread(thread.join)
            assert caught == [True]

    run(main())


def test_typed_clients_have_middleware(run):
    notes = Notes()

    async def main():
        async with covered(notes) as (_, client):
            assert await client.of(Bench).task("x") == "x"
            assert [item async for item in client.of(Bench).items(2)] == [0, 1]

    run(main())
    assert [note[1] for note in notes.log if note[0] == "begin"] == ["request", "stream"]


def test_a_loop_that_ends_takes_its_calls_along(recwarn):
    """As ``asyncio.run`` does: the tasks are cancelled, and nobody complains."""
    begun = []

    async def stall(call, proceed):
        begun.append(call.kind)
        await asyncio.sleep(600)

    async def main():
        server = await rpcproto.serve(Bench(), "tcp://127.0.0.1:0")
        client = await rpcproto.connect(server.address, middleware=[stall])
        replies = [client.request("Bench.plain", 1), client.stream("Bench.items", 1)]
        await turns(2)
        return server, client, replies

    with asyncio.Runner(loop_factory=loop_factory()) as runner:
        server, client, replies = runner.run(main())
        for task in asyncio.all_tasks(runner.get_loop()):
            task.cancel()
        runner.run(turns())
        assert type(replies[0].exception()) is rpcproto.CallCancelled
        runner.run(client.close(0))
        runner.run(server.close(0))
    del replies
    gc.collect()
    assert begun == ["request", "stream"]
    assert not recwarn.list
