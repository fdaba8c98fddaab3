"""Items of covered streams and channels: hooks that raise, consumers, pacing, and what comes before proceeding."""

from __future__ import annotations

import asyncio

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import poll, turns
from tests.aio._middleware import Bench, Notes, collect, until_idle

WINDOW = 64 * 1024
SMALL = {"limits": rpcproto.Limits(call_window=WINDOW, connection_window=4 * WINDOW)}


async def passing(call, proceed):
    return await proceed(call)


def refusing(item):
    if item == 2:
        raise ValueError(f"no {item}")
    return item


async def refuse_sent(call, proceed):
    call.on_sent(refusing)
    return await proceed(call)


async def refuse_received(call, proceed):
    call.on_received(refusing)
    return await proceed(call)


def covered(*middleware):
    """``pair`` with middleware at the client."""
    return pair(Bench(), client={"middleware": list(middleware or (passing,))})


# ---- hooks that raise ------------------------------------------------------------------------------------------------


def test_what_was_received_before_a_hook_raised_is_to_be_had(run):
    async def main():
        notes = Notes()
        async with covered(notes, refuse_received) as (server, client):
            got = []
            with pytest.raises(ValueError, match="no 2"):
                await collect(client.stream("Bench.items", 5), got)
            assert got == [0, 1]
            await until_idle(client, server.peers[0])

    run(main())


def test_a_hook_that_raises_fails_the_call_at_the_server(run):
    async def main():
        async with pair(Bench(), server={"middleware": [refuse_received, refuse_sent]}) as (server, client):
            got = []
            with pytest.raises(rpcproto.RemoteError, match="ValueError: no 2"):
                await collect(client.stream("Bench.items", 5), got)
            assert got == [0, 1]
            for method in ("talk", "plain_talk"):
                async with client.channel(f"Bench.{method}") as channel:
                    await channel.send(1)
                    assert await channel.receive() == 1
                    await channel.send(2)
                    with pytest.raises(rpcproto.RemoteError, match="ValueError: no 2"):
                        await channel.receive()
            await until_idle(client, server.peers[0])

    run(main())


def test_a_hook_that_raises_where_an_item_is_sent(run):
    """The item is not sent, and the call goes on."""

    async def main():
        async with covered(refuse_sent) as (_, client):
            async with client.channel("Bench.talk") as channel:
                early = channel.send(2)
                await channel.send(1)
                assert await channel.receive() == 1
                with pytest.raises(ValueError, match="no 2"):
                    await early
                with pytest.raises(ValueError, match="no 2"):
                    channel.send(2)
                await channel.send(3)
                assert await channel.receive() == 3

    run(main())


def test_a_hook_that_raises_before_a_consumer(run, caplog):
    async def main():
        async with covered(refuse_received) as (server, client):
            got, ended = [], asyncio.get_running_loop().create_future()
            stream = client.stream("Bench.items", 5)
            stream.on_items(got.extend, on_end=ended.set_result)
            assert str(await ended) == "no 2"
            await until_idle(client, server.peers[0])

    run(main())
    assert "the consumer of the items of Bench.items raised" in caplog.text


# ---- consumers -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("taken", [0, 1, 3])
def test_a_consumer_after_some_were_taken(run, taken):
    """Each item goes through the hook once, and arrives once."""
    seen = []

    async def note(call, proceed):
        call.on_received(lambda item: seen.append(item) or -item)
        return await proceed(call)

    async def main():
        async with covered(note) as (_, client):
            stream = client.stream("Bench.items", 10)
            got = [await anext(stream) for _ in range(taken)]
            ended = asyncio.get_running_loop().create_future()
            stream.on_items(got.extend, on_end=ended.set_result)
            assert await ended is None
            assert got == [-number for number in range(10)]

    run(main())
    assert seen == list(range(10))


def test_hooks_have_seen_all_when_proceed_returns(run):
    """Although the consumer takes its time."""
    seen, total = [], []

    async def count(call, proceed):
        call.on_received(seen.append)
        await proceed(call)
        total.append(len(seen))

    async def main():
        async with covered(count) as (_, client):
            stream = client.stream("Bench.items", 100)
            await anext(stream)
            await poll(lambda: total)
            assert len([item async for item in stream]) == 99
            stream = client.stream("Bench.items", 100)
            await anext(stream)
            await poll(lambda: len(total) == 2)
            got = []
            stream.on_items(got.extend)
            assert len(got) == 99

    run(main())
    assert total == [100, 200]


def test_a_consumer_that_raises_at_the_server(run):
    """The caller is told, and the middleware; the handler's own ``on_end`` as well."""
    notes, ended = Notes(), []

    @rpcproto.channel
    def handler(channel):
        def consume(values):
            raise KeyError(values[0])

        channel.on_items(consume, on_end=ended.append)

    async def main():
        async with pair({"handler": handler}, server={"middleware": [notes]}) as (server, client):
            async with client.channel("handler") as channel:
                await channel.send("x")
                with pytest.raises(rpcproto.RemoteError) as caught:
                    await channel.receive()
                assert caught.value.type_name == "KeyError"
            await until_idle(client, server.peers[0])
            assert server.peers[0].stats()["handlers_failed"] == 1

    run(main())
    assert notes.log[-1] == ("raised", "KeyError")
    assert [type(error) for error in ended] == [KeyError]


def test_what_has_arrived_is_forgotten_when_the_call_is_given_up(run):
    async def main():
        async with covered(Notes()) as (server, client):
            stream = client.stream("Bench.items", 10)
            assert await anext(stream) == 0
            await until_idle(server.peers[0])
            stream.cancel()
            assert [item async for item in client.stream("Bench.items", 2)] == [0, 1]
            endless = client.channel("Bench.talk")
            for number in range(3):
                await endless.send(number)
            assert await endless.receive() == 0
            endless.cancel()
            with pytest.raises(rpcproto.CallCancelled):
                await endless.receive()

    run(main())


def test_two_consumers(run):
    async def main():
        async with covered() as (_, client):
            async with client.stream("Bench.endless") as stream:
                stream.on_items(lambda values: None)
                with pytest.raises(rpcproto.ConfigurationError, match="its items have a consumer already"):
                    stream.on_items(lambda values: None)

    run(main())


# ---- pace -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["client", "server"])
def test_a_slow_consumer_holds_up_the_sender_as_without(run, side):
    sent = []

    @rpcproto.stream
    async def source():
        for number in range(1000):
            sent.append(number)
            yield bytes(4096)

    async def main():
        middleware = {"middleware": [Notes()]}
        options = {"server": SMALL, "client": SMALL}
        options[side] = SMALL | middleware
        async with pair({"source": source}, **options) as (_, client):
            async with client.stream("source") as stream:
                await anext(stream)
                await poll(lambda: len(sent) >= 16)
                await client.ping()
                await turns(20)
                held = len(sent)
                assert held < 100
                assert len([item async for item in stream]) == 999

    run(main())


@pytest.mark.parametrize("side", ["client", "server"])
def test_many_items_come_whole_and_in_order(run, address, side):
    async def main():
        notes = Notes()
        async with pair(Bench(), address, **{side: {"middleware": [notes]}}) as (_, client):
            assert [item async for item in client.stream("Bench.plain_items", 3000)] == list(range(3000))
            assert [note[1] for note in notes.log[1:-1]] == list(range(3000))
            async with client.channel("Bench.talk") as channel:

                async def feed():
                    for number in range(3000):
                        await channel.send(number)
                    channel.end()

                task = asyncio.ensure_future(feed())
                assert [item async for item in channel] == list(range(3000))
                await task

    run(main())
