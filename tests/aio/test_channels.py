"""Channels over real transports: both directions at once, half closing, consumers, and every way to end."""

from __future__ import annotations

import asyncio
import gc
import weakref

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import failure, poll, turns

WINDOW = 64 * 1024
SMALL = {"limits": rpcproto.Limits(call_window=WINDOW, connection_window=4 * WINDOW)}


class Talk(rpcproto.Service):
    """Channels of each shape; ``ended`` tells how their handlers ended."""

    def __init__(self):
        self.got = []
        self.ended = []
        self.gate = asyncio.Event()

    @rpcproto.channel
    async def echo(self, channel, prefix=None):
        try:
            async for value in channel:
                self.got.append(value)
                await channel.send(value if prefix is None else [prefix, value])
        except BaseException as error:
            self.ended.append(type(error))
            raise
        self.ended.append("end")

    @rpcproto.channel
    def batches(self, channel):
        """Answers each read's values with their number, from a plain function."""

        def consume(values):
            self.got += values
            channel.send(len(values))

        channel.on_items(consume, on_end=lambda error: (self.ended.append(error), channel.end()))

    @rpcproto.channel
    async def first_only(self, channel):
        return await channel.receive()

    @rpcproto.channel
    async def deaf(self, channel):
        try:
            await self.gate.wait()
        finally:
            self.ended.append("deaf")

    @rpcproto.channel
    async def fails(self, channel):
        await channel.send("before")
        raise ValueError("talk")

    @rpcproto.channel
    def fails_at_once(self, channel):
        raise ValueError("at once")

    @rpcproto.channel
    def returns_at_once(self, channel):
        channel.send("only this")

    @rpcproto.channel
    def consumer_fails(self, channel):
        def consume(values):
            raise ValueError("consumer")

        channel.on_items(consume, on_end=self.ended.append)

    @rpcproto.channel
    def who(self, channel):
        channel.send(rpcproto.peer().address)


VALUES = [0, "text", None, b"x" * 5000, b"y" * 70_000, [1, {"a": b"z" * 2_000_000}], {"end": True}]


@pytest.mark.parametrize("prefix", [None, "p"])
def test_what_is_sent_comes_back_in_order(run, address, prefix):
    async def main():
        talk = Talk()
        async with pair(talk, address, server=SMALL, client=SMALL) as (_, client):
            async with client.channel("Talk.echo", *([prefix] if prefix else [])) as channel:

                async def send():
                    for value in VALUES * 3:
                        await channel.send(value)
                    channel.end()

                sending = asyncio.create_task(send())
                got = [value async for value in channel]
                await sending
                assert got == (VALUES * 3 if prefix is None else [[prefix, value] for value in VALUES * 3])
                assert channel.over
            await poll(lambda: talk.ended == ["end"])

    run(main())


def test_write_during_read_by_many_tasks(run, address):
    """Fault 25: senders share one channel, each finds its values in its own order."""

    async def main():
        async with pair(Talk(), address, server=SMALL, client=SMALL) as (_, client):
            async with client.channel("Talk.echo") as channel:

                async def send(who):
                    for number in range(50):
                        await channel.send([who, number, b"x" * (number * 331 % 9000)])

                senders = asyncio.gather(*map(send, range(100)))
                got = {who: [] for who in range(100)}
                for _ in range(5000):
                    who, number, _ = await channel.receive()
                    got[who].append(number)
                await senders
                assert all(numbers == list(range(50)) for numbers in got.values())

    run(main())


def test_iterators_can_be_left_and_go_on(run, address):
    async def main():
        async with pair(Talk(), address) as (_, client):
            async with client.channel("Talk.echo") as channel:
                for number in range(10):
                    await channel.send(number)
                async for value in channel:
                    if value == 3:
                        break
                gc.collect()
                await turns()
                assert await channel.receive() == 4
                async for value in channel:
                    assert value == 5
                    break
                channel.end()
                assert [value async for value in channel] == [6, 7, 8, 9]
                with pytest.raises(EOFError, match=r"Talk.echo: the other end has sent its last value"):
                    await channel.receive()

    run(main())


def test_the_handler_returns_first(run, address):
    async def main():
        async with pair(Talk(), address) as (_, client):
            async with client.channel("Talk.first_only") as channel:
                await channel.send(1)
                with pytest.raises(EOFError):
                    await channel.receive()
                await poll(lambda: channel.over)
                with pytest.raises(rpcproto.CallCancelled, match="the call is over"):
                    channel.send(2)
            async with client.channel("Talk.returns_at_once") as channel:
                assert [value async for value in channel] == ["only this"]

    run(main())


@pytest.mark.parametrize(
    ("method", "before", "text"),
    [
        ("Talk.fails", ["before"], "talk"),
        ("Talk.fails_at_once", [], "at once"),
        ("Talk.consumer_fails", [], "consumer"),
    ],
)
def test_a_handler_that_fails(run, address, method, before, text):
    async def main():
        async with pair(Talk(), address) as (server, client):
            async with client.channel(method) as channel:
                got = []
                channel.send("something")
                with pytest.raises(rpcproto.RemoteError, match=text):
                    async for value in channel:
                        got.append(value)  # noqa: PERF401  the ones before the error count
                assert got == before
            await poll(lambda: server.peers[0].stats()["calls_running"] == 0)
            assert client.stats()["flows_open"] == server.peers[0].stats()["flows_open"] == 0

    run(main())


def test_leaving_the_block_gives_the_call_up(run, address):
    async def main():
        talk = Talk()
        async with pair(talk, address) as (_, client):
            async with client.channel("Talk.echo") as channel:
                await channel.send(1)
                assert await channel.receive() == 1
            await poll(lambda: talk.ended)
            assert talk.ended == [asyncio.CancelledError]
            with pytest.raises(rpcproto.CallCancelled):
                channel.send(2)

    run(main())


def test_a_channel_that_is_dropped_is_given_up(run, address):
    async def main():
        talk = Talk()
        async with pair(talk, address) as (_, client):
            channel = client.channel("Talk.echo")
            await channel.send(1)
            assert await channel.receive() == 1
            gone = weakref.ref(channel)
            del channel
            gc.collect()
            assert gone() is None
            await poll(lambda: talk.ended == [asyncio.CancelledError])

    run(main())


def test_a_slow_consumer_makes_send_wait(run, address):
    async def main():
        talk = Talk()
        async with pair(talk, address, server=SMALL) as (_, client):
            async with client.channel("Talk.deaf") as channel:
                sent = 0

                async def send():
                    nonlocal sent
                    while True:
                        await channel.send(b"x" * 1000)
                        sent += 1

                sending = asyncio.create_task(send())
                await client.ping()
                await turns(20)
                assert WINDOW // 1100 <= sent <= WINDOW // 1000 + 1
                assert not channel.ready()
                # Nobody else is held up.
                async with client.channel("Talk.echo") as other:
                    for number in range(500):
                        await other.send([number, b"y" * 1000])
                        assert (await other.receive())[0] == number
                sending.cancel()
                await turns()
            await poll(lambda: talk.ended)

    run(main())


@pytest.mark.parametrize("how", ["handler", "peer", "connection"])
def test_a_sender_that_waits_is_told_when_the_call_ends(run, address, how):
    async def main():
        talk = Talk()
        async with pair(talk, address, server=SMALL) as (_, client):
            channel = client.channel("Talk.deaf")
            waiting = [asyncio.ensure_future(failure(channel.send(bytes(60_000)))) for _ in range(4)]
            await client.ping()
            if how == "handler":
                talk.gate.set()
            elif how == "peer":
                channel.cancel()
            else:
                await client.close(grace=0)
            results = await asyncio.gather(*waiting)
            kind = rpcproto.ConnectionClosed if how == "connection" else rpcproto.CallCancelled
            assert results[0] is None
            assert isinstance(results[-1], kind)

    run(main())


def test_a_buffer_may_be_used_again_when_send_is_done(run, address):
    async def main():
        async with pair(Talk(), address) as (_, client):
            async with client.channel("Talk.echo") as channel:
                data = bytearray(300_000)
                for number in range(5):
                    data[:] = bytes([number]) * len(data)
                    await channel.send(data)
                for number in range(5):
                    assert bytes(await channel.receive()) == bytes([number]) * len(data)

    run(main())


def test_bad_values_are_refused_at_once_and_harm_nothing(run, address):
    async def main():
        limits = {"limits": rpcproto.Limits(max_message=100_000)}
        async with pair(Talk(), address, server=limits) as (_, client):
            async with client.channel("Talk.echo") as channel:
                with pytest.raises(rpcproto.SerializationError, match="object"):
                    channel.send(object())
                with pytest.raises(rpcproto.MessageTooLarge, match="max_message of 100000"):
                    channel.send(bytes(100_100))
                await channel.send("good")
                assert await channel.receive() == "good"
                channel.end()
                channel.end()
                with pytest.raises(rpcproto.LocalProtocolError, match="after the end of this side"):
                    channel.send("late")

    run(main())


def test_the_caller_is_known_in_a_plain_handler(run, address):
    async def main():
        async with pair(Talk(), address) as (_, client):
            async with client.channel("Talk.who") as channel:
                assert "://" in await channel.receive()

    run(main())


def test_the_connection_ends_under_a_channel(run, address):
    async def main():
        talk = Talk()
        async with pair(talk, address) as (_, client):
            plain, task = client.channel("Talk.batches"), client.channel("Talk.echo")
            for channel in (plain, task):
                await channel.send(1)
                await channel.receive()
            await client.close(grace=0)
            await poll(lambda: len(talk.ended) == 2)
            assert {type(one) if isinstance(one, Exception) else one for one in talk.ended} == {
                rpcproto.ConnectionLost,
                asyncio.CancelledError,
            }
            for channel in (plain, task):
                with pytest.raises(rpcproto.ConnectionClosed):
                    await channel.receive()
                assert repr(channel).endswith("over>")

    run(main())
