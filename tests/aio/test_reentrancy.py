"""Row 75 of the fault plan: handlers and callers that reach back into the connection that runs them."""

from __future__ import annotations

import asyncio
import threading

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import Kit, in_each_way, poll

pytestmark = pytest.mark.smoke


def close_at_once(peer):
    """Begin ``peer.close(0)`` within this very call, not in a later turn of the loop. Returns what is left to do."""
    closing = peer.close(0)
    closing.send(None)
    assert peer.closed
    return closing


def test_row_75_an_inline_handler_closes_its_connection(run, address):
    seen = []

    def close():
        seen.append(close_at_once(rpcproto.peer()))
        return "nobody gets this"

    def count():
        seen.append("called")

    async def main():
        async with pair({"close": close, "count": count}, address) as (server, client):
            calls = [client.request("close"), client.request("count"), client.request("count")]
            with pytest.raises(rpcproto.ConnectionLost) as caught:
                await calls[0]
            assert caught.value.maybe_executed
            for call in calls[1:]:
                with pytest.raises(rpcproto.GoingAway, match="not started"):
                    await call
            await client.wait_closed()
            await poll(lambda: not server.peers)
            seen[0].close()
            assert len(seen) == 1, "calls behind the one that closed were still run"

    run(main())


@pytest.mark.parametrize("way", ["inline", "task"])
def test_row_75_a_handler_raises_after_it_closed_its_connection(run, address, way):
    closings = []

    def close():
        closings.append(close_at_once(rpcproto.peer()))
        raise ValueError("too late")

    async def main():
        async with pair(in_each_way(close), address) as (server, client):
            with pytest.raises(rpcproto.ConnectionLost):
                await client.request(way)
            await poll(lambda: not server.peers)
            closings[0].close()

    run(main())


def test_row_75_an_inline_handler_closes_and_returns_an_awaitable(run, address):
    closings = []
    awaited = []

    async def rest():
        awaited.append(1)

    def close():
        closings.append(close_at_once(rpcproto.peer()))
        return rest()

    async def main():
        async with pair({"close": close}, address) as (server, client):
            with pytest.raises(rpcproto.ConnectionLost):
                await client.request("close")
            await poll(lambda: not server.peers)
            closings[0].close()

    run(main())


def test_row_75_row_42_a_task_handler_closes_its_connection(run, address):
    async def close(grace):
        await rpcproto.peer().close(grace)

    async def main():
        for grace in (0, 0.02):
            async with pair({"close": close}, address) as (server, client):
                with pytest.raises(rpcproto.ConnectionLost):
                    await client.request("close", grace)
                await poll(lambda: not server.peers)

    run(main())


def test_row_75_a_handler_closes_the_server(run, address):
    async def main():
        async def stop():
            await server.close(0)

        async with pair({"stop": stop}, address) as (server, client):
            serving = asyncio.create_task(server.serve_forever())
            with pytest.raises(rpcproto.ConnectionLost):
                await client.request("stop")
            await serving

    run(main())


def test_row_75_handlers_call_back_before_they_answer(run, address):
    order = []

    def inline(n):
        rpcproto.peer().notify("Kit.note", n)
        reply = rpcproto.peer().request("Kit.echo", n)
        reply.add_done_callback(lambda reply: order.append(reply.result()))
        return n

    async def main():
        kit = Kit()
        async with pair({"inline": inline}, address, client={"service": kit}) as (_, client):
            assert await asyncio.gather(*(client.request("inline", n) for n in range(20))) == list(range(20))
            await client.ping()
            assert kit.notes == order == list(range(20))

    run(main())


def test_row_75_done_callbacks_call_and_close(run, address):
    async def main():
        async with pair(Kit(), address) as (_, client):
            again = []

            def call_again(reply):
                again.append(client.request("Kit.echo", reply.result() + 1))

            first = client.request("Kit.echo", 1)
            first.add_done_callback(call_again)
            await first
            await poll(lambda: again)
            assert await again[0] == 2

            closing = []
            last = client.request("Kit.echo", 1)
            last.add_done_callback(lambda _: closing.append(asyncio.ensure_future(client.close(0))))
            behind = client.request("Kit.wait")
            await last
            with pytest.raises(rpcproto.ConnectionClosed):
                await behind
            await closing[0]

    run(main())


def test_row_75_a_task_woken_by_a_reply_closes_the_connection(run, address):
    """It runs within the read that brought the reply, ahead of other replies of the same read."""

    async def main():
        async with pair(Kit(), address) as (_, client):

            async def call_and_close():
                await client.request("Kit.echo", 1)
                await client.close(0)

            closing = asyncio.create_task(call_and_close())
            others = [asyncio.create_task(_outcome(client, n)) for n in range(100)]
            await closing
            outcomes = await asyncio.gather(*others)
            assert {type(outcome) for outcome in outcomes} <= {int, rpcproto.ConnectionClosed}

    async def _outcome(client, n):
        try:
            return await client.request("Kit.echo", n)
        except rpcproto.ConnectionClosed as error:
            return error

    run(main())


def test_row_75_an_inline_handler_runs_another_loop(run, address):
    """A blocking call inside a handler that runs a loop of its own must not mix up the memory of reads."""

    def nested(value):
        thread_result = []

        def work():
            thread_result.append(asyncio.run(_other_pair(value)))

        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return thread_result[0]

    async def _other_pair(value):
        async with pair(Kit(), "tcp://127.0.0.1:0") as (_, client):
            return await client.request("Kit.echo", value)

    async def main():
        options = {"timeouts": rpcproto.Timeouts(slow_handler=60)}
        async with pair({"nested": nested}, address, server=options) as (_, client):
            values = [b"a" * 10, b"b" * 5_000, b"c" * 200_000]
            assert await asyncio.gather(*(client.request("nested", value) for value in values)) == values

    run(main())
