"""Streams and channels of ours that middleware covers: before they are opened, and what is told of their end."""

from __future__ import annotations

import asyncio
import gc

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import poll, turns
from tests.aio._middleware import Bench, Notes, collect, until_idle


def covered(*middleware):
    """``pair`` with middleware at the client."""
    return pair(Bench(), client={"middleware": list(middleware)})


# ---- before it is opened ---------------------------------------------------------------------------------------------


def gated():
    """An event, and middleware that waits for it before it proceeds."""
    gate = asyncio.Event()

    async def wait(call, proceed):
        await gate.wait()
        return await proceed(call)

    return gate, wait


def test_what_is_sent_before_waits(run):
    async def main():
        gate, wait = gated()
        async with covered(wait) as (_, client):
            async with client.channel("Bench.talk") as channel:
                assert channel.method == "Bench.talk"
                assert not channel.over
                assert not channel.ready()
                sent = [asyncio.ensure_future(channel.send(number)) for number in (1, 2)]
                channel.send(3)
                flushed = asyncio.ensure_future(channel.flush())
                channel.end()
                with pytest.raises(rpcproto.LocalProtocolError, match="an item was sent after the end of this side"):
                    channel.send(4)
                await turns()
                assert not any(each.done() for each in [*sent, flushed])
                gate.set()
                await asyncio.gather(*sent, flushed)
                assert [item async for item in channel] == [1, 2, 3]

    run(main())


def test_what_waits_is_bounded(run):
    async def main():
        _, wait = gated()
        async with covered(wait) as (_, client):
            async with client.channel("Bench.talk") as channel:
                with pytest.raises(rpcproto.Overloaded, match="1000 wait for middleware to proceed; await each send"):
                    for number in range(1001):
                        channel.send(number)
                assert number == 1000

    run(main())


def test_a_channel_given_up_before(run):
    async def main():
        gate, wait = gated()
        async with covered(wait) as (server, client):
            async with client.channel("Bench.talk") as channel:
                handle = channel.send(1)
                await turns()
            with pytest.raises(rpcproto.CallCancelled):
                await handle
            assert channel.over
            with pytest.raises(rpcproto.CallCancelled):
                await channel.receive()
            stream = client.stream("Bench.items", 1)
            await turns()
            del stream
            gc.collect()
            await poll(lambda: not client._link.covered)
            assert not gate.is_set()
            assert server.peers[0].stats()["calls_served"] == 0

    run(main())


def test_a_consumer_set_before(run):
    async def main():
        gate, wait = gated()
        async with covered(wait) as (_, client):
            got, ended = [], asyncio.get_running_loop().create_future()
            stream = client.stream("Bench.items", 3)
            stream.on_items(got.extend, on_end=ended.set_result)
            await turns()
            gate.set()
            assert await ended is None
            assert got == [0, 1, 2]

    run(main())


def test_sends_that_wait_learn_that_nothing_comes_of_it(run):
    async def main():
        async def refuse(call, proceed):
            await asyncio.sleep(0)
            raise PermissionError("not you")

        async with covered(refuse) as (_, client):
            async with client.channel("Bench.talk") as channel:
                with pytest.raises(PermissionError):
                    await channel.send(1)
                with pytest.raises(PermissionError):
                    await channel.receive()
                with pytest.raises(rpcproto.CallCancelled):
                    await channel.send(1)

    run(main())


# ---- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("how", ["iterate", "consume"])
def test_the_end_is_told_when_the_middleware_has_ended(run, how):
    async def main():
        gate, told = asyncio.Event(), []

        async def change(call, proceed):
            try:
                await proceed(call)
            except rpcproto.RemoteError as error:
                await gate.wait()
                raise LookupError("changed") from error

        async def use():
            stream = client.stream("Bench.fail_late", "x")
            if how == "consume":
                ended = asyncio.get_running_loop().create_future()
                stream.on_items(told.extend, on_end=ended.set_result)
                raise await ended
            await collect(stream, told)

        async with covered(change) as (server, client):
            task = asyncio.ensure_future(use())
            await poll(lambda: server.peers[0].stats()["handlers_failed"])
            await poll(lambda: told == [1])
            await turns()
            assert not task.done()
            gate.set()
            with pytest.raises(LookupError, match="changed"):
                await task

    run(main())


def test_one_direction_of_a_channel_ends_although_the_call_goes_on(run):
    @rpcproto.channel
    async def handler(channel):
        await channel.send(1)
        channel.end()
        assert [item async for item in channel] == [2, 3]

    async def main():
        notes = Notes()
        async with pair({"handler": handler}, client={"middleware": [notes]}) as (server, client):
            async with client.channel("handler") as channel:
                assert [item async for item in channel] == [1]
                assert notes.log[-1] == ("received", 1)
                await channel.send(2)
                await channel.send(3)
                channel.end()
                await poll(lambda: notes.log[-1] == ("end", None))
            assert server.peers[0].stats()["handlers_failed"] == 0

    run(main())


def test_middleware_that_gives_the_call_up_tells_its_own_error(run):
    async def limit(call, proceed):
        try:
            async with asyncio.timeout(0.02):
                await proceed(call)
        except TimeoutError:
            raise LookupError("took too long") from None

    async def main():
        async with covered(limit) as (server, client):
            stream = client.stream("Bench.endless")
            assert await anext(stream) == "first"
            with pytest.raises(LookupError, match="took too long"):
                await anext(stream)
            await until_idle(client, server.peers[0])

    run(main())
