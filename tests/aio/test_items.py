"""Items as they are taken: by plain consumers, in batches, by one task; and what is known of those sent."""

from __future__ import annotations

import asyncio
import contextlib
import gc

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import failure, poll, turns
from tests.aio.test_channels import SMALL, WINDOW, Talk
from tests.aio.test_streams import Source
from tests.conftest import loop_factory


def test_on_items_gets_what_each_read_brings(run, address):
    async def main():
        async with pair(Source(), address) as (_, client):
            batches, ended = [], asyncio.Event()
            stream = client.stream("Source.count", 10_000)
            stream.on_items(batches.append, on_end=lambda error: ended.set())
            with pytest.raises(rpcproto.ConfigurationError, match="have a consumer already"):
                stream.on_items(batches.append)
            await ended.wait()
            assert [value for batch in batches for value in batch] == list(range(10_000))
            assert max(map(len, batches)) > 100
            assert all(batches)

    run(main())


@pytest.mark.parametrize("kind", ["stream", "channel"])
def test_a_consumer_goes_on_though_nobody_keeps_the_call(run, address, kind):
    async def main():
        talk = Talk()
        async with pair([Source(), talk], address) as (_, client):
            got, ended = [], asyncio.Event()
            call = client.stream("Source.count", 100) if kind == "stream" else client.channel("Talk.echo")
            if kind == "channel":
                for number in range(100):
                    call.send(number)
                call.end()
            call.on_items(got.extend, on_end=lambda error: ended.set())
            del call
            gc.collect()
            await ended.wait()
            assert got == list(range(100))

    run(main())


def test_on_items_after_some_were_iterated_gets_the_rest(run, address):
    async def main():
        async with pair(Source(), address) as (_, client):
            got, ended = [], asyncio.Event()
            stream = client.stream("Source.count", 5000)
            values = aiter(stream)
            for number in range(10):
                assert await anext(values) == number
            stream.on_items(got.extend, on_end=lambda error: ended.set())
            await ended.wait()
            assert got == list(range(10, 5000))

    run(main())


def test_a_consumer_that_raises_gives_its_call_up_and_is_logged(run, address, caplog):
    def consume(values):
        raise ValueError("consumer")

    async def main():
        source = Source()
        async with pair(source, address) as (_, client):
            ends = []
            stream = client.stream("Source.count", 10**9)
            stream.on_items(consume, on_end=ends.append)
            await poll(lambda: source.closed)
            assert [type(error) for error in ends] == [ValueError]
            assert client.stats()["flows_open"] == 0
            assert "the consumer of the items of Source.count raised" in caplog.text
            caplog.clear()

    run(main())


def test_a_consumer_that_finds_the_call_over_is_no_fault(run, address):
    async def main():
        async with pair(Talk(), address) as (_, client):
            got, ends = [], []
            channel = client.channel("Talk.returns_at_once")
            await poll(lambda: channel.over)

            def consume(values):
                got.extend(values)
                channel.send("too late")

            channel.on_items(consume, on_end=ends.append)
            assert got == ["only this"]
            assert ends == [None]

    run(main())


def test_an_interrupt_of_a_consumer_ends_the_program_not_the_connection():
    done = []

    async def main():
        async with pair(Source(), "tcp://127.0.0.1:0") as (_, client):

            def consume(values):
                raise KeyboardInterrupt

            client.stream("Source.count", 10).on_items(consume)
            try:
                await asyncio.Event().wait()
            finally:
                done.append(client.closed)

    with asyncio.Runner(loop_factory=loop_factory()) as runner, pytest.raises(KeyboardInterrupt):
        runner.run(main())
    assert done == [False]


def test_a_call_counts_as_running_until_all_its_handler_sent_is_gone(run, address):
    """Else a peer that takes nothing could have any number of them kept."""

    @rpcproto.channel
    def pours(channel):
        for _ in range(200):
            channel.send(bytes(1000))

    async def main():
        limits = rpcproto.Limits(max_running=3)
        async with pair({"pours": pours}, address, server={"limits": limits}, client=SMALL) as (server, client):
            channels = [client.channel("pours") for _ in range(5)]
            await client.ping()
            await poll(lambda: server.peers[0].stats()["calls_refused"] == 2)
            assert server.peers[0].stats()["calls_running"] == 3
            for channel in channels[:3]:
                assert len([value async for value in channel]) == 200
            await poll(lambda: server.peers[0].stats()["calls_running"] == 0)
            for channel in channels[3:]:
                with pytest.raises(rpcproto.Overloaded):
                    await channel.receive()

    run(main())


def test_a_call_that_ends_with_the_flush_of_a_read_wakes_whoever_waits(run, address):
    """The last item is large, so its end is queued when the item has left: after the read that caused it."""

    @rpcproto.channel
    def answers(channel):
        def consume(values):
            channel.send(b"x" * 200_000)
            channel.end()

        channel.on_items(consume)

    async def main():
        async with pair({"answers": answers}, address) as (server, client):
            for _ in range(3):
                async with client.channel("answers") as channel:
                    channel.send(1)
                    channel.end()
                    assert [len(value) async for value in channel] == [200_000]
            await poll(lambda: server.peers[0].stats()["flows_open"] == 0)
            waiting = server.peers[0].ping()
            assert await asyncio.wait_for(waiting, 5) > 0

    run(main())


def test_what_was_iterated_is_given_back_when_a_consumer_takes_over(run, address):
    """A large item comes only when all before it have been given back."""

    @rpcproto.stream
    def items():
        yield from range(5)
        yield bytes(300_000)

    async def main():
        async with pair({"items": items}, address, client=SMALL) as (_, client):
            stream = client.stream("items")
            values = aiter(stream)
            assert [await anext(values) for _ in range(5)] == list(range(5))
            got, ended = [], asyncio.Event()
            stream.on_items(got.extend, on_end=lambda error: ended.set())
            await asyncio.wait_for(ended.wait(), 5)
            assert [len(value) for value in got] == [300_000]

    run(main())


@pytest.mark.parametrize("how", ["cancel", "aclose"])
@pytest.mark.parametrize("kind", ["stream", "channel"])
def test_giving_up_wakes_the_task_that_waits(run, address, kind, how):
    async def main():
        async with pair([Source(), Talk()], address) as (server, client):
            call = client.stream("Source.silent") if kind == "stream" else client.channel("Talk.deaf")
            waiting = asyncio.create_task(failure(anext(aiter(call))))
            await turns()
            if how == "cancel":
                call.cancel()
            else:
                await call.aclose()
            error = await waiting
            assert isinstance(error, rpcproto.CallCancelled)
            assert "given up by this side" in str(error)
            await poll(lambda: server.peers[0].stats()["calls_running"] == 0)

    run(main())


def test_giving_up_tells_the_consumer_once(run, address):
    async def main():
        async with pair(Source(), address) as (_, client):
            ends = []
            stream = client.stream("Source.silent")
            stream.on_items(lambda values: None, on_end=ends.append)
            stream.cancel()
            stream.cancel()
            assert [type(error) for error in ends] == [rpcproto.CallCancelled]

    run(main())


def test_a_consumer_of_the_server_can_give_the_call_up(run, address):
    @rpcproto.channel
    def enough(channel):
        channel.on_items(lambda values: channel.cancel())

    async def main():
        async with pair({"enough": enough}, address) as (server, client):
            async with client.channel("enough") as channel:
                channel.send(1)
                with pytest.raises(rpcproto.CallCancelled):
                    await channel.receive()
            assert server.peers[0].stats()["calls_running"] == 0

    run(main())


def test_a_handler_that_fails_after_setting_a_consumer_tells_it(run, address):
    ends = []

    @rpcproto.channel
    def fails(channel):
        channel.on_items(lambda values: None, on_end=ends.append)
        raise ValueError("after all")

    async def main():
        async with pair({"fails": fails}, address) as (_, client):
            with pytest.raises(rpcproto.RemoteError, match="after all"):
                await client.channel("fails").receive()
            assert ends == [None]

    run(main())


def test_closing_with_grace_ends_when_the_last_stream_is_given_up(run, address):
    async def main():
        async with pair(Source(), address) as (_, client):
            stream = client.stream("Source.silent")
            await client.ping()
            closing = asyncio.create_task(client.close(grace=3600))
            await turns()
            assert not closing.done()
            stream.cancel()
            await asyncio.wait_for(closing, 5)

    run(main())


def test_two_tasks_cannot_wait_for_the_same_items(run, address):
    async def main():
        async with pair(Source(), address) as (_, client):
            stream = client.stream("Source.silent")
            first = asyncio.create_task(failure(anext(aiter(stream))))
            await turns()
            with pytest.raises(RuntimeError):
                await anext(aiter(stream))
            first.cancel()
            with contextlib.suppress(asyncio.CancelledError):
                await first

    run(main())


def test_a_plain_handler_consumes_what_each_read_brings(run, address):
    async def main():
        talk = Talk()
        async with pair(talk, address) as (server, client):
            async with client.channel("Talk.batches") as channel:
                for number in range(1000):
                    channel.send(number)
                channel.end()
                answers = [value async for value in channel]
                assert sum(answers) == 1000
                assert len(answers) < 100
            assert talk.got == list(range(1000))
            assert talk.ended == [None]
            assert server.peers[0].stats()["calls_running"] == 0

    run(main())


def test_flush_reports_that_everything_was_handed_over(run, address):
    async def main():
        async with pair(Talk(), address) as (_, client):
            async with client.channel("Talk.echo") as channel:
                await channel.flush()
                sends = client.stats()["sends"]
                for number in range(10):
                    channel.send(number)
                assert client.stats()["sends"] == sends
                await channel.flush()
                assert client.stats()["sends"] > sends
                assert client.stats()["bytes_queued"] == 0
                channel.send(b"z" * 3_000_000)
                await channel.flush()
                assert client.stats()["bytes_queued"] == 0
                assert [await channel.receive() for _ in range(10)] == list(range(10))
                assert len(await channel.receive()) == 3_000_000
            await channel.flush()

    run(main())


def test_row_22_a_stalled_stream_leaves_the_others_alone(run, address):
    """And holds no more than its window."""

    class Flood(rpcproto.Service):
        @rpcproto.stream
        async def zeros(self, size):
            while True:
                yield bytes(size)

    async def main():
        async with pair(Flood(), address, client=SMALL) as (_, client):
            stalled = aiter(client.stream("Flood.zeros", 1000))
            await anext(stalled)
            received = client.stats()["bytes_received"]
            others = [aiter(client.stream("Flood.zeros", 1000)) for _ in range(3)]
            for _ in range(300):
                for other in others:
                    assert len(await anext(other)) == 1000
            assert client.stats()["bytes_received"] - received > 900 * 1000
            held = stalled.ag_frame.f_locals["items"].held
            assert held <= WINDOW + 1064
            for values in (stalled, *others):
                await values.aclose()

    run(main())
