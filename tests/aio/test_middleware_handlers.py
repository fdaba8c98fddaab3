"""Middleware where calls are served: what handlers and callers notice of it, and what stays as it is without."""

from __future__ import annotations

import asyncio
import threading

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import failure, poll, turns
from tests.aio._middleware import Bench, Notes


async def passing(call, proceed):
    return await proceed(call)


def covered(service, *middleware, **options):
    """``pair`` with middleware at the server."""
    return pair(service, server={"middleware": list(middleware or (passing,)), **options})


@pytest.mark.parametrize("way", ["plain", "task", "thread"])
def test_handler_and_middleware_are_within_the_same_call(run, way):
    seen = []

    async def look(call, proceed):
        seen.append((rpcproto.current_call().method, rpcproto.peer()))
        return await proceed(call)

    def plain():
        seen.append((rpcproto.current_call().method, rpcproto.peer()))

    async def task():
        plain()

    functions = {"plain": plain, "task": task, "thread": rpcproto.request(thread=True)(plain)}

    async def main():
        async with covered(functions, look) as (server, client):
            await client.request(way)
            assert seen == [(way, server.peers[0])] * 2

    run(main())


def test_wrong_arguments_are_the_callers_fault(run):
    """As without middleware; what middleware makes of the arguments is its own."""

    async def spoil(call, proceed):
        call.args = ()
        return await proceed(call)

    async def main():
        async with covered(Bench()) as (_, client):
            error = await failure(client.request("Bench.plain"))
            assert type(error) is rpcproto.Refused
            assert "Bench.plain() takes 1 argument, 0 given" in str(error)
            with pytest.raises(rpcproto.Refused, match=r"takes 1 to 2 arguments, 3 given"):
                await client.channel("Bench.talk", 1, 2).receive()
            with pytest.raises(rpcproto.Refused, match=r"takes 1 argument, 0 given"):
                await anext(client.stream("Bench.items"))
        async with covered(Bench(), spoil) as (_, client):
            error = await failure(client.request("Bench.plain", 1))
            assert (type(error), error.type_name) == (rpcproto.RemoteError, "TypeError")

    run(main())


def test_other_refusals_pass_it_by(run):
    notes = Notes()

    async def main():
        async with covered(Bench(), notes) as (_, client):
            assert type(await failure(client.request("Bench.absent"))) is rpcproto.NoSuchMethod
            assert type(await failure(client.request("Bench.items", 1))) is rpcproto.NoSuchMethod

    run(main())
    assert notes.log == []


def test_what_the_handler_raises_is_seen_and_told(run):
    notes = Notes()

    async def main():
        async with covered(Bench(), notes, tracebacks=True) as (_, client):
            error = await failure(client.request("Bench.fail", "x"))
            assert (error.type_name, error.text) == ("KeyError", "'x'")
            assert "in fail" in error.traceback

    run(main())
    assert notes.log[-1] == ("raised", "KeyError")


def test_a_result_that_cannot_be_sent(run):
    async def spoil(call, proceed):
        return object()

    async def main():
        async with covered(Bench(), spoil) as (_, client):
            error = await failure(client.request("Bench.plain", 1))
            assert type(error) is rpcproto.RemoteError
            assert "the result of Bench.plain" in str(error)

    run(main())


def test_a_notify_whose_middleware_raises_is_logged(run, caplog):
    async def refuse(call, proceed):
        raise PermissionError("not you")

    async def main():
        bench = Bench()
        async with covered(bench, refuse) as (server, client):
            await client.notify("Bench.note", 1)
            await poll(lambda: server.peers[0].stats()["handlers_failed"] == 1)
            assert bench.noted == []

    run(main())
    assert "notify Bench.note of" in caplog.text


def test_a_covered_handler_that_holds_the_loop_is_told_of_once(run, caplog):
    async def main():
        options = {"timeouts": rpcproto.Timeouts(slow_handler=1e-9)}
        async with covered(Bench(), **options) as (_, client):
            await client.request("Bench.plain", 1)
            await client.request("Bench.plain", 2)

    run(main())
    assert [record.getMessage()[:30] for record in caplog.records] == ["handler Bench.plain held the l"]


def test_calls_begin_in_the_order_of_arrival(run):
    order = []

    async def note(call, proceed):
        order.append(call.args[0])
        return await proceed(call)

    async def main():
        async with covered(Bench(), note) as (_, client):
            await asyncio.gather(*(client.request("Bench.plain", number) for number in range(50)))

    run(main())
    assert order == list(range(50))


def test_covered_calls_count_as_running(run):
    gate = []

    async def hold(call, proceed):
        gate.append(asyncio.get_running_loop().create_future())
        await gate[-1]
        return await proceed(call)

    async def main():
        options = {"limits": rpcproto.Limits(max_running=2)}
        covering = rpcproto.covering(hold, methods="Bench.plain")
        async with covered(Bench(), covering, **options) as (server, client):
            replies = [client.request("Bench.plain", number) for number in range(3)]
            assert type(await failure(replies[2])) is rpcproto.Overloaded
            assert server.peers[0].stats()["calls_running"] == 2
            for future in gate:
                future.set_result(None)
            assert await asyncio.gather(*replies[:2]) == [0, 1]
            assert server.peers[0].stats()["calls_running"] == 0

    run(main())


def test_a_thread_counts_until_it_ends(run):
    """It cannot be stopped; middleware learns of the cancel when it has ended."""
    begun, release = threading.Event(), threading.Event()
    notes = Notes()

    @rpcproto.request(thread=True)
    def work():
        begun.set()
        assert release.wait(20)
        raise KeyError("late")

    async def main():
        async with covered({"work": work}, notes) as (server, client):
            reply = client.request("work")
            await asyncio.to_thread(begun.wait)
            reply.cancel()
            await client.ping()
            await turns()
            assert server.peers[0].stats()["calls_running"] == 1
            assert notes.log == [("begin", "request", ())]
            release.set()
            await poll(lambda: server.peers[0].stats()["calls_running"] == 0)
            assert notes.log[-1] == ("raised", "CancelledError")

    run(main())


def test_a_thread_that_has_not_begun_never_does(run):
    begun, release = threading.Event(), threading.Event()
    ran = []

    @rpcproto.request(thread=True)
    def block():
        begun.set()
        assert release.wait(20)

    @rpcproto.request(thread=True)
    def work():
        ran.append(True)

    async def main():
        async with covered({"block": block, "work": work}, max_threads=1) as (server, client):
            first = client.request("block")
            await asyncio.to_thread(begun.wait)
            second = client.request("work")
            await poll(lambda: server.peers[0].stats()["calls_running"] == 2)
            await turns()
            second.cancel()
            await poll(lambda: server.peers[0].stats()["calls_running"] == 1)
            release.set()
            await first
            assert ran == []

    run(main())


def test_swallowing_a_cancel_leaves_nothing(run):
    async def stubborn(call, proceed):
        try:
            return await proceed(call)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
            return "instead"

    async def main():
        bench = Bench()
        async with covered(bench, stubborn) as (server, client):
            reply = client.request("Bench.wait")
            stream = client.stream("Bench.endless")
            assert await anext(stream) == "first"
            await bench.begun.wait()
            reply.cancel()
            stream.cancel()
            await poll(lambda: server.peers[0].stats()["calls_running"] == 0)
            assert server.peers[0].stats()["flows_open"] == client.stats()["flows_open"] == 0
            assert await client.request("Bench.plain", 1) == 1

    run(main())


def test_a_call_given_up_before_its_task_began(run):
    """The request and its cancel come with one read."""
    notes = Notes()

    async def main():
        async with covered(Bench(), notes) as (server, client):
            await client.request("Bench.plain", 0)
            notes.log.clear()
            for call in (
                client.request("Bench.task", 1),
                client.stream("Bench.items", 1),
                client.channel("Bench.talk"),
            ):
                call.cancel()
            await client.ping()
            await poll(lambda: server.peers[0].stats()["calls_running"] == 0)
            assert server.peers[0].stats()["flows_open"] == 0

    run(main())


def test_a_handler_that_is_over_drops_its_channel_in_time(run):
    """Middleware that goes on after the handler does not have the call given up."""

    async def linger(call, proceed):
        await proceed(call)
        for _ in range(10):
            await asyncio.sleep(0)

    @rpcproto.channel
    async def handler(channel):
        await channel.send(await channel.receive())

    async def main():
        async with covered({"handler": handler}, linger) as (_, client):
            async with client.channel("handler") as channel:
                await channel.send("x")
                assert [item async for item in channel] == ["x"]

    run(main())


def test_closing_the_server_lets_covered_calls_end(run):
    async def main():
        bench = Bench()
        async with covered(bench) as (server, client):
            reply = client.request("Bench.task", "x")
            wait = client.request("Bench.wait")
            await bench.begun.wait()
            await server.close(0.05)
            assert await reply == "x"
            assert isinstance(await failure(wait), rpcproto.RpcError)
            assert bench.ended == ["cancelled"]

    run(main())


def test_implements_is_checked_as_without(run):
    with pytest.raises(rpcproto.ConfigurationError, match="Bench is not implemented"):
        rpcproto.serve({"Bench.plain": len}, "tcp://127.0.0.1:0", implements=Bench, middleware=[passing])
    rpcproto.serve(Bench(), "tcp://127.0.0.1:0", implements=Bench, middleware=[passing])
