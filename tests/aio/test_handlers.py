"""What handlers may do to their caller and connection: raise or return anything, never end, close, call back."""

from __future__ import annotations

import asyncio
import gc
import threading
import weakref

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import WAYS, Kit, in_each_way, poll, turns

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
