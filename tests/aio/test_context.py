"""What handlers know of their calls, what goes along both ways, and what calls made by handlers take over."""

from __future__ import annotations

import asyncio

import pytest

import rpcproto
from rpcproto.aio.reply import new_reply
from rpcproto.testing import pair
from tests.aio._ends import WAYS, failure, in_each_way, poll

TRACE = {"traceparent": "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01", "tracestate": "a=1"}


@pytest.mark.smoke  # tasks begin at once on Python 3.12 and later
@pytest.mark.parametrize("way", WAYS)
def test_metadata_goes_both_ways(run, address, way):
    def handler(value):
        call = rpcproto.current_call()
        assert call.peer is rpcproto.peer()
        call.reply_metadata = {"got": call.metadata.get("n"), "method": call.method}
        return [value, call.metadata]

    async def main():
        async with pair(in_each_way(handler), address) as (_, client):
            for sent in ({"n": 1}, {"n": b"x" * 16_000}, None, {}, {"n": None, "ü": 1.5}):
                reply = client.request(way, "v", metadata=sent)
                assert reply.metadata == {}
                assert await reply == ["v", sent or {}]
                assert reply.metadata == {"got": (sent or {}).get("n"), "method": way}

    run(main())


@pytest.mark.parametrize("size", [10, 5000, 100_000, 3_000_000])
def test_metadata_beside_messages_of_all_sizes(run, address, size):
    def handler(data):
        rpcproto.current_call().reply_metadata = {"size": len(data)}
        return data

    async def main():
        async with pair({"f": handler}, address) as (_, client):
            reply = client.request("f", bytes(size), metadata={"a": "b" * 10_000})
            assert len(await reply) == size
            assert reply.metadata == {"size": size}

    run(main())


def test_metadata_of_a_notify_a_stream_and_a_channel(run, address):
    class Kinds(rpcproto.Service):
        def __init__(self):
            self.got = []

        @rpcproto.notify
        def note(self):
            self.got.append(rpcproto.current_call().metadata)

        @rpcproto.stream
        async def stream(self):
            yield rpcproto.current_call().metadata

        @rpcproto.channel
        async def channel(self, channel):
            await channel.send(rpcproto.current_call().metadata)

        @rpcproto.channel
        def plain(self, channel):
            channel.send(rpcproto.current_call().metadata)

    async def main():
        kinds = Kinds()
        async with pair(kinds, address) as (_, client):
            await client.notify("Kinds.note", metadata={"kind": "notify"})
            await poll(lambda: kinds.got == [{"kind": "notify"}])
            assert [value async for value in client.stream("Kinds.stream", metadata={"kind": 1})] == [{"kind": 1}]
            for method in ("Kinds.channel", "Kinds.plain"):
                async with client.channel(method, metadata={"kind": 2}) as channel:
                    assert await channel.receive() == {"kind": 2}

    run(main())


def test_bad_metadata_is_refused_at_the_call(run, address):
    async def main():
        async with pair({"f": lambda: 1}, address) as (_, client):
            for open_call in (client.request, client.notify, client.stream, client.channel):
                with pytest.raises(rpcproto.SerializationError, match="metadata"):
                    open_call("f", metadata={"a": []})
            assert await client.request("f") == 1

    run(main())


@pytest.mark.parametrize("way", ["inline", "task", "thread"])
def test_bad_metadata_of_an_answer_fails_the_call(run, address, way):
    def handler():
        rpcproto.current_call().reply_metadata = {"a": object()}

    async def main():
        async with pair(in_each_way(handler), address) as (_, client):
            error = await failure(client.request(way))
            assert isinstance(error, rpcproto.RpcError)
            assert "metadata['a']" in str(error)

    run(main())


def test_metadata_that_is_none_is_refused_where_it_is_read(run, address):
    """A peer may send any bytes as metadata."""

    def handler():
        return rpcproto.current_call().metadata

    async def main():
        async with pair({"f": handler}, address) as (_, client):
            session = client.peer._session
            call = new_reply(session.runtime.wakes, None, 0)
            session.connection.request(call, "f", 2, b"\x90", None, 1, 0.0, b"\xc1rubbish")
            error = await failure(call)
            assert isinstance(error, rpcproto.RemoteError)
            assert error.type_name.endswith("SerializationError")

    run(main())


@pytest.mark.parametrize("function", [rpcproto.current_call, rpcproto.peer])
def test_outside_of_a_handler_there_is_no_call(run, function):
    with pytest.raises(rpcproto.ConfigurationError, match=f"{function.__name__}.. was called outside of a handler"):
        function()

    async def main():
        with pytest.raises(rpcproto.ConfigurationError):
            function()

    run(main())


class Chain(rpcproto.Service):
    """Each hop calls the next one, at the caller over the same connection, and tells what it had."""

    def __init__(self):
        self.seen = []
        self.hanging = 0
        self.cancelled = 0

    @rpcproto.request
    async def hop(self, left):
        call = rpcproto.current_call()
        self.seen.append((call.time_left, call.metadata))
        if left == 0:
            return len(self.seen)
        return await rpcproto.peer().request("Chain.hop", left - 1)

    @rpcproto.request
    async def hang(self, left):
        self.hanging += 1
        try:
            if left == 0:
                await asyncio.Event().wait()
            return await rpcproto.peer().request("Chain.hang", left - 1)
        except asyncio.CancelledError:
            self.cancelled += 1
            raise

    @rpcproto.request
    def inline(self):
        self.seen.append((rpcproto.current_call().time_left, rpcproto.current_call().metadata))
        return rpcproto.peer().request("Chain.hop", 0)

    @rpcproto.request
    async def leaves_a_task(self):
        started = asyncio.Event()

        async def later():
            started.set()
            await asyncio.sleep(0.06)
            return await peer.request("Chain.hop", 0)

        peer = rpcproto.peer()
        self.task = asyncio.create_task(later())
        await started.wait()

    @rpcproto.stream
    async def items(self, left):
        yield rpcproto.current_call().time_left
        if left:
            async for value in rpcproto.peer().stream("Chain.items", left - 1):
                yield value


def test_row_33_a_deadline_and_the_trace_are_passed_on(run, address):
    async def main():
        chain = Chain()
        async with pair(chain, address, client={"service": chain}) as (_, client):
            assert await client.request("Chain.hop", 3, timeout=5, metadata={**TRACE, "private": 1}) == 4
            times, metadata = zip(*chain.seen, strict=True)
            assert 5 >= times[0] >= times[1] >= times[2] >= times[3] > 0
            assert metadata == ({**TRACE, "private": 1}, TRACE, TRACE, TRACE)
            chain.seen.clear()
            await client.request("Chain.inline", timeout=5, metadata=TRACE)
            assert 5 >= chain.seen[0][0] >= chain.seen[1][0] > 0
            assert chain.seen[1][1] == TRACE
            left = [value async for value in client.stream("Chain.items", 3, timeout=5)]
            assert 5 >= left[0] >= left[1] >= left[2] >= left[3] > 0

    run(main())


def test_row_33_a_call_that_is_given_up_takes_those_that_it_made_with_it(run, address):
    async def main():
        chain = Chain()
        async with pair(chain, address, client={"service": chain}) as (server, client):
            reply = client.request("Chain.hang", 3)
            await poll(lambda: chain.hanging == 4)
            reply.cancel()
            await poll(lambda: chain.cancelled == 4)
            assert client.stats()["calls_pending"] == server.peers[0].stats()["calls_pending"] == 0

    run(main())


def test_an_own_timeout_can_only_be_shorter(run, address):
    def handler(timeout):
        return rpcproto.peer().request("f", timeout=timeout)

    async def main():
        service = {"f": lambda: rpcproto.current_call().time_left}
        async with pair({"handler": handler}, address, client={"service": service}) as (_, client):
            for own, least, most in ((1, 0.5, 1), (1000, 5, 10), (None, 5, 10)):
                assert least < await client.request("handler", own, timeout=10) <= most
            assert await client.request("handler", None, timeout=None) is None

    run(main())


def test_tasks_that_outlive_their_handler_take_over_nothing(run, address):
    async def main():
        chain = Chain()
        async with pair(chain, address, client={"service": chain}) as (_, client):
            await client.request("Chain.leaves_a_task", timeout=0.05, metadata=TRACE)
            assert await chain.task == 1
            ((left, metadata),) = chain.seen
            assert left > 1
            assert metadata == {}

    run(main())


def test_repr_tells_no_metadata(run):
    texts = []

    def handler():
        texts.append(repr(rpcproto.current_call()))

    async def main():
        async with pair({"handler": handler}) as (_, client):
            await client.request("handler", metadata={"token": "secret"})
        assert "CallContext handler of inproc://" in texts[0]
        assert "secret" not in texts[0]

    run(main())
