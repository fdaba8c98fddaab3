"""What handlers may do to their caller and connection: raise or return anything, never end, close, call back."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import Kit, poll, turns

pytestmark = pytest.mark.smoke


class Own(BaseException):
    """An exception that `except Exception` does not catch."""


class Mute(Exception):
    """An exception that cannot tell what it is."""

    def __str__(self):
        raise ValueError("no words")

    __repr__ = __str__


KINDS = [
    ValueError,
    Own,
    SystemExit,
    KeyboardInterrupt,
    asyncio.CancelledError,
    StopIteration,
    StopAsyncIteration,
    GeneratorExit,
    Mute,
    MemoryError,
    RecursionError,
]


def in_each_way(function):
    """A service that runs ``function`` inline, as a task, after a turn of the loop, and in a thread."""

    async def task(*args):
        return function(*args)

    async def later(*args):
        await asyncio.sleep(0)
        return function(*args)

    def awaitable(*args):
        return task(*args)

    threaded = rpcproto.request(thread=True)(lambda *args: function(*args))
    return {"inline": function, "task": task, "later": later, "awaitable": awaitable, "thread": threaded}


WAYS = ["inline", "task", "later", "awaitable", "thread"]


@pytest.mark.parametrize("way", WAYS)
def test_fault_20_row_19_whatever_a_handler_raises_reaches_its_caller(run, address, way):
    def explode(index):
        raise KINDS[index]

    async def main():
        async with pair([in_each_way(explode), Kit()], address) as (server, client):
            for index, kind in enumerate(KINDS):
                with pytest.raises((rpcproto.RemoteError, rpcproto.CallCancelled)) as caught:
                    await client.request(way, index)
                if isinstance(caught.value, rpcproto.RemoteError):
                    expected = {kind.__name__, "RuntimeError"} if kind in (StopIteration,) else {kind.__name__}
                    assert caught.value.type_name.rpartition(".")[2] in expected
                else:
                    assert kind is asyncio.CancelledError
                assert len(caught.value.args[0]) <= 4096 + 300
            assert await client.request("Kit.echo", "alive") == "alive"
            assert server.peers[0].stats()["calls_running"] == 0

    run(main())


@pytest.mark.parametrize("way", WAYS)
def test_row_19_the_text_of_an_error_is_cut(run, address, way):
    def explode():
        raise ValueError("\N{SNOWMAN}\ud800" * 100_000)

    async def main():
        async with pair(in_each_way(explode), address, server={"tracebacks": True}) as (_, client):
            with pytest.raises(rpcproto.RemoteError) as caught:
                await client.request(way)
            assert len(caught.value.text.encode()) <= 4096
            assert caught.value.text.startswith("\N{SNOWMAN}")
            assert len(caught.value.traceback.encode()) <= 16_384

    run(main())


@pytest.mark.parametrize("way", WAYS)
def test_row_19_a_result_that_cannot_be_sent(run, address, way):
    results = [object(), [1, {"deep": object()}], {1: print}, float, 2**10_000, "\ud800"]

    async def main():
        async with pair([in_each_way(lambda index: results[index]), Kit()], address) as (server, client):
            for index in range(len(results)):
                with pytest.raises(rpcproto.RemoteError, match=f"the result of {way}: ") as caught:
                    await client.request(way, index)
                assert caught.value.code == 0x0209
            assert server.peers[0].stats()["handlers_failed"] == len(results)
            assert await client.request("Kit.echo", "alive") == "alive"

    run(main())


def test_row_19_a_handler_that_never_returns_holds_up_nobody(run, address):
    async def main():
        kit = Kit()
        async with pair(kit, address) as (server, client):
            forever = client.request("Kit.wait", timeout=None)
            assert [await client.request("Kit.echo", n) for n in range(20)] == list(range(20))
            assert not forever.done()
            assert server.peers[0].stats()["calls_running"] == 1
            forever.cancel()
            await kit.until(lambda: kit.cancelled)

    run(main())


def test_row_28_a_handler_that_ignores_cancelling_counts_until_it_ends(run, address):
    async def main():
        gate = asyncio.Event()
        ignored = asyncio.Event()

        async def stubborn():
            try:
                await gate.wait()
            except asyncio.CancelledError:
                ignored.set()
            await gate.wait()

        limits = rpcproto.Limits(max_running=2)
        async with pair([{"stubborn": stubborn}, Kit()], address, server={"limits": limits}) as (server, client):
            running = [client.request("stubborn") for _ in range(2)]
            await client.ping()
            await turns()
            running[0].cancel()
            await ignored.wait()
            assert server.peers[0].stats()["calls_running"] == 2
            with pytest.raises(rpcproto.Overloaded, match=r"2 calls of this peer run.* max_running"):
                await client.request("Kit.echo_task", 1)
            assert await client.request("Kit.echo", "inline calls need no slot") == "inline calls need no slot"
            gate.set()
            await running[1]
            await poll(lambda: server.peers[0].stats()["calls_running"] == 0)
            assert await client.request("Kit.echo_task", 1) == 1

    run(main())


def test_running_handlers_are_bounded_by_the_bytes_they_hold(run, address):
    async def main():
        kit = Kit()
        limits = rpcproto.Limits(max_running_bytes=100_000)
        async with pair(kit, address, server={"limits": limits}) as (server, client):
            first = client.request("Kit.wait", b"x" * 60_000)
            second = client.request("Kit.wait", b"x" * 60_000)
            with pytest.raises(rpcproto.Overloaded, match=r"hold 600\d\d bytes.* max_running_bytes is 100000"):
                await second
            kit.gate.set()
            await first
            # One call is always admitted, however large.
            assert len(await client.request("Kit.wait", b"x" * 600_000)) == 600_000
            assert server.peers[0].stats()["calls_running"] == 0

    run(main())


def test_fault_39_a_handler_sees_the_cancel_and_a_thread_counts_until_it_ends(run, address):
    release = threading.Event()

    def block():
        release.wait(10)

    service = {"block": rpcproto.request(thread=True)(block)}

    async def main():
        kit = Kit()
        async with pair([kit, service], address, server={"max_threads": 1}) as (server, client):
            peer = server.peers[0]
            calls = [client.request("Kit.wait", 1), client.request("block"), client.request("block")]
            await kit.until(lambda: kit.started)
            for call in calls:
                call.cancel()
            await kit.until(lambda: kit.cancelled == [1])
            # The second thread handler had not begun and is gone; the first one cannot be stopped.
            await poll(lambda: peer.stats()["calls_running"] == 1)
            release.set()
            await poll(lambda: peer.stats()["calls_running"] == 0)
            assert client.stats()["calls_pending"] == 0

    try:
        run(main())
    finally:
        release.set()


@pytest.mark.parametrize("way", WAYS)
def test_fault_72_what_a_failed_call_held_is_let_go_at_once(run, address, way):
    class Data:
        pass

    held = []

    def explode():
        data = Data()
        held.append(weakref.ref(data))
        raise ValueError("and the traceback holds the frame")

    async def main():
        async with pair(in_each_way(explode), address) as (_, client):
            gc.collect()
            gc.disable()
            try:
                with pytest.raises(rpcproto.RemoteError):
                    await client.request(way)
                await turns()
                if way == "thread":
                    await poll(lambda: held[0]() is None)
                assert held[0]() is None
            finally:
                gc.enable()

    run(main())


@pytest.mark.parametrize("way", WAYS)
def test_fault_72_what_a_call_brought_is_let_go_at_once(run, address, way):
    class Data(bytearray):
        pass

    held = []

    def make(value):
        data = Data(100_000)
        held.append(weakref.ref(data))
        return memoryview(data)

    async def main():
        async with pair([in_each_way(make), Kit()], address) as (_, client):
            gc.collect()
            gc.disable()
            try:
                await client.request(way, b"x" * 100_000)
                await client.request("Kit.echo", 1)
                if way == "thread":
                    await poll(lambda: held[0]() is None)
                assert held[0]() is None
            finally:
                gc.enable()

    run(main())


# -- Row 75: handlers that reach back into the connection -------------------------------------------------------------


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
