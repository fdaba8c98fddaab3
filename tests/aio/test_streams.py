"""Streams over real transports: values in order, at the pace of the consumer, and every way to end."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import weakref

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import failure, poll, turns


class Source(rpcproto.Service):
    """Streams of each shape; ``closed`` tells how their handlers ended."""

    def __init__(self):
        self.given = 0
        self.closed = []

    @rpcproto.stream
    async def count(self, n):
        try:
            for number in range(n):
                yield number
                self.given += 1
        except BaseException as error:
            self.closed.append(type(error))
            raise
        else:
            self.closed.append("end")

    @rpcproto.stream
    def plain(self, n):
        try:
            yield from range(n)
        finally:
            self.closed.append("closed")

    @rpcproto.stream
    def listed(self, n):
        return list(range(n))

    @rpcproto.stream
    async def later(self, n):
        await asyncio.sleep(0)
        return (number for number in range(n))

    @rpcproto.stream
    async def sized(self, sizes):
        for number, size in enumerate(sizes):
            yield bytes([number % 256]) * size

    @rpcproto.stream
    async def fails(self, after, error):
        for number in range(after):
            yield number
        raise error_named(error)

    @rpcproto.stream
    def nothing_to_iterate(self):
        return 5

    @rpcproto.stream
    async def unencodable(self):
        yield 1
        yield object()

    @rpcproto.stream
    async def silent(self):
        self.closed.append("begun")
        try:
            await asyncio.Event().wait()
            yield
        finally:
            self.closed.append("cancelled")


def error_named(name):
    return {"ValueError": ValueError("bad"), "StopIteration": StopIteration(1), "KeyError": KeyError("k")}[name]


@pytest.mark.parametrize("method", ["count", "plain", "listed", "later"])
@pytest.mark.parametrize("n", [0, 1, 10, 5000])
def test_every_shape_of_handler(run, address, method, n):
    async def main():
        async with pair(Source(), address) as (server, client):
            assert [value async for value in client.stream(f"Source.{method}", n)] == list(range(n))
            assert client.stats()["flows_open"] == 0
            await poll(lambda: server.peers[0].stats()["calls_running"] == 0)

    run(main())


SIZES = [0, 1, 4096, 4097, 65_536, 65_537, 300_000, 1 << 20, (1 << 20) + 1, 5 << 20, 10]


def test_items_of_all_sizes(run, address):
    async def main():
        async with pair(Source(), address) as (_, client):
            got = [bytes(value) async for value in client.stream("Source.sized", SIZES)]
            assert [len(value) for value in got] == SIZES
            assert all(
                value == bytes([number]) * size for number, (size, value) in enumerate(zip(SIZES, got, strict=True))
            )

    run(main())


def test_the_handler_goes_at_the_pace_of_its_consumer(run, address):
    limits = rpcproto.Limits(call_window=64 * 1024)

    async def main():
        source = Source()
        async with pair(source, address, client={"limits": limits}) as (_, client):
            stream = client.stream("Source.count", 1_000_000)
            values = aiter(stream)
            assert await anext(values) == 0
            await poll(lambda: source.given >= 1024)
            await client.ping()
            await turns(20)
            ahead = source.given  # a window of items that cost 64 bytes each, and what waits to be sent
            assert 1024 <= ahead <= 1024 + 2
            for number in range(1, 3000):
                assert await anext(values) == number
            assert source.given <= 3000 + 1026
            stream.cancel()
            await poll(lambda: source.closed)

    run(main())


@pytest.mark.parametrize("way", ["break", "error", "aclose", "async with", "cancel", "task"])
def test_fault_22_leaving_an_iterator_gives_the_call_up(run, address, way):
    async def main():
        source = Source()
        async with pair(source, address) as (server, client):

            async def consume():
                stream = client.stream("Source.count", 10**9)
                if way == "async with":
                    async with stream:
                        async for _ in stream:
                            return
                async for value in stream:
                    if value < 10:
                        continue
                    if way == "break":
                        break
                    if way == "error":
                        raise ValueError
                    if way == "aclose":
                        await stream.aclose()
                        return
                    if way == "cancel":
                        stream.cancel()
                        return
                    await asyncio.Event().wait()

            task = asyncio.create_task(consume())
            if way == "task":
                await poll(lambda: client.stats()["flows_open"] and source.given > 10)
                task.cancel()
            with contextlib.suppress(ValueError, asyncio.CancelledError):
                await task
            del task
            gc.collect()
            await poll(lambda: source.closed)
            assert source.closed in ([asyncio.CancelledError], [GeneratorExit])
            assert client.stats()["flows_open"] == server.peers[0].stats()["flows_open"] == 0
            assert [value async for value in client.stream("Source.count", 3)] == [0, 1, 2]

    run(main())


def test_fault_22_a_stream_that_nobody_iterates_is_given_up_when_it_is_dropped(run, address):
    async def main():
        source = Source()
        async with pair(source, address) as (_, client):
            stream = client.stream("Source.silent")
            await poll(lambda: source.closed == ["begun"])
            gone = weakref.ref(stream)
            del stream
            gc.collect()
            assert gone() is None
            await poll(lambda: source.closed == ["begun", "cancelled"])

    run(main())


@pytest.mark.parametrize("after", [0, 3])
@pytest.mark.parametrize("name", ["ValueError", "KeyError", "StopIteration"])
def test_fault_21_an_error_comes_after_the_items_before_it(run, address, after, name):
    async def main():
        async with pair(Source(), address) as (_, client):
            got = []
            with pytest.raises(rpcproto.RemoteError) as caught:
                async for value in client.stream("Source.fails", after, name):
                    got.append(value)  # noqa: PERF401  the ones before the error count
            assert got == list(range(after))
            # In an asynchronous generator Python itself makes a RuntimeError of this one.
            assert caught.value.type_name == ("RuntimeError" if name == "StopIteration" else name)
            assert client.stats()["flows_open"] == 0

    run(main())


@pytest.mark.parametrize(
    ("method", "args", "kind", "text"),
    [
        ("Source.count", (), rpcproto.Refused, "takes 1 argument, 0 given"),
        ("Source.count", (1, 2), rpcproto.Refused, "takes 1 argument, 2 given"),
        ("Source.missing", (), rpcproto.NoSuchMethod, "no such method"),
        ("Source.nothing_to_iterate", (), rpcproto.RemoteError, "TypeError"),
        ("Source.unencodable", (), rpcproto.RemoteError, "SerializationError"),
    ],
)
def test_calls_that_fail(run, address, method, args, kind, text):
    async def main():
        async with pair(Source(), address) as (_, client):
            with pytest.raises(kind, match=text):
                async for _ in client.stream(method, *args):
                    pass
            assert await failure(client.request("Source.count", 1)) is not None

    run(main())


def test_kinds_are_not_mixed_up(run, address):
    async def main():
        async with pair({"f": lambda: 1}, address) as (_, client):
            with pytest.raises(rpcproto.NoSuchMethod, match="another kind of call"):
                async for _ in client.stream("f"):
                    pass
        async with pair(Source(), address) as (_, client):
            with pytest.raises(rpcproto.NoSuchMethod, match="another kind of call"):
                await client.request("Source.count", 3)

    run(main())


class Odd(rpcproto.Codec):
    """Sends bytes as they are, and finds one value that it cannot decode."""

    def __init__(self):
        super().__init__("odd", 200)

    def encode_args(self, args, buffers):
        return b""

    def decode_args(self, body, buffers):
        return ()

    def encode_value(self, value, buffers):
        return value

    def decode_value(self, body, buffers):
        if body == b"bad":
            raise ValueError("bad item")
        return body


ODD = Odd()


def test_an_item_that_cannot_be_decoded_fails_its_call_alone(run, address):
    async def items():
        yield b"good"
        yield b"bad"
        yield b"good"

    odd = {"codec": ODD}

    async def main():
        async with pair({"items": rpcproto.stream(items)}, address, server=odd, client=odd) as (_, client):
            got = []
            with pytest.raises(rpcproto.SerializationError, match="an item cannot be decoded: ValueError: bad item"):
                async for value in client.stream("items"):
                    got.append(value)  # noqa: PERF401  the ones before the error count
            assert got == [b"good"]
            assert await client.ping() > 0

    run(main())


def test_a_timeout_is_for_the_whole_call(run, address):
    async def main():
        source = Source()
        async with pair(source, address) as (_, client):
            with pytest.raises(rpcproto.DeadlineExceeded, match="did not end within "):
                async for _ in client.stream("Source.silent", timeout=0.05):
                    pass
            await poll(lambda: source.closed == ["begun", "cancelled"])

    run(main())


@pytest.mark.parametrize("end", ["server", "client", "abort"])
def test_the_connection_ends_while_a_stream_runs(run, address, end):
    async def main():
        source = Source()
        async with pair(source, address) as (server, client):
            stream = client.stream("Source.silent")
            await poll(lambda: source.closed == ["begun"])
            task = asyncio.create_task(failure(anext(aiter(stream))))
            await turns()
            if end == "server":
                await server.close(grace=0)
            elif end == "client":
                await client.close(grace=0)
            else:
                client.peer._link.abort()
            error = await task
            assert isinstance(error, rpcproto.ConnectionLost)
            assert error.maybe_executed
            await poll(lambda: source.closed == ["begun", "cancelled"])

    run(main())


def test_closing_with_grace_lets_a_stream_end(run, address):
    async def main():
        gate = asyncio.Event()

        async def numbers():
            yield 1
            await gate.wait()
            yield 2

        async with pair({"numbers": rpcproto.stream(numbers)}, address) as (_, client):
            values = aiter(client.stream("numbers"))
            assert await anext(values) == 1
            closing = asyncio.create_task(client.close(grace=5))
            await turns()
            with pytest.raises(rpcproto.GoingAway):
                client.stream("numbers")
            gate.set()
            assert [value async for value in values] == [2]
            await closing

    run(main())


def test_many_streams_at_once_each_get_their_own(run, address):
    async def main():
        async with pair(Source(), address) as (_, client):

            async def total(n):
                return sum([value async for value in client.stream("Source.count", n)])

            sizes = [0, 1, 7, 100, 2000] * 20
            assert await asyncio.gather(*map(total, sizes)) == [n * (n - 1) // 2 for n in sizes]

    run(main())


def test_the_peer_can_be_streamed_from_as_well(run, address):
    """A handler streams from its caller, over the same connection."""

    class Caller(rpcproto.Service):
        @rpcproto.stream
        async def numbers(self, n):
            for number in range(n):
                yield number

    async def total(n):
        return sum([value async for value in rpcproto.peer().stream("Caller.numbers", n)])

    async def main():
        async with pair({"total": total}, address, client={"service": Caller()}) as (_, client):
            assert await client.request("total", 100) == 4950

    run(main())
