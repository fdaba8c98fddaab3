"""Who owns the bytes: buffers that are sent, by type, and buffers that were received and kept."""

from __future__ import annotations

import array
import asyncio
import gc
import hashlib
import mmap
import random
import threading

import numpy as np
import pytest

import rpcproto
from rpcproto.testing import pair, proxied_pair
from tests.aio._ends import RAW, Kit, poll, turns

pytestmark = pytest.mark.smoke

SMALL = 4_000
"""Copied when the call is made."""

LARGE = 300_000
"""Sent from where it is: must not be changed until the call is over."""


def mapped(size):
    memory = mmap.mmap(-1, size)
    memory[:] = b"a" * size
    return memory


BUFFERS = {
    "bytes": lambda size: b"a" * size,
    "bytearray": lambda size: bytearray(b"a" * size),
    "memoryview": lambda size: memoryview(bytearray(b"a" * size)),
    "array": lambda size: array.array("B", b"a" * size),
    "mmap": mapped,
    "numpy": lambda size: np.full(size, 97, "u1"),
}


def overwrite(value):
    if isinstance(value, np.ndarray):
        value[:] = 98
    elif isinstance(value, array.array):
        for index in range(0, len(value), 97):
            value[index] = 98
    elif not isinstance(value, bytes):
        value[0 : len(value)] = b"b" * len(value)


def resize(value):
    if isinstance(value, (bytearray, array.array)):
        value.extend(value[:1])
    elif isinstance(value, mmap.mmap):
        value.close()


@pytest.mark.parametrize("kind", BUFFERS)
@pytest.mark.parametrize("call", ["request", "notify"])
def test_fault_8_row_71_small_buffers_are_copied_at_the_call(run, address, kind, call):
    async def main():
        kit = Kit()
        async with pair(kit, address, client=RAW, server=RAW) as (_, client):
            for size in (1, SMALL, 4_096):
                value = BUFFERS[kind](size)
                handle = client.notify("Kit.note", value) if call == "notify" else client.request("Kit.echo", value)
                overwrite(value)
                resize(value)
                answer = await handle
                if call == "notify":
                    await client.ping()
                    answer = kit.notes[-1]
                assert bytes(answer) == b"a" * size

    run(main())


@pytest.mark.parametrize("kind", BUFFERS)
@pytest.mark.parametrize("call", ["request", "notify"])
@pytest.mark.parametrize("size", [5_000, 60_000, LARGE, 2_000_000])
def test_fault_8_row_71_large_buffers_are_free_again_when_the_call_is_done(run, address, kind, call, size):
    async def main():
        kit = Kit()
        async with pair(kit, address, client=RAW, server=RAW) as (_, client):
            value = BUFFERS[kind](size)
            expected = hashlib.sha256(value).digest()
            if call == "request":
                answer = await client.request("Kit.echo", value)
                overwrite(value)
                resize(value)
            else:
                await client.notify("Kit.note", value)
                overwrite(value)
                resize(value)
                await kit.until(lambda: kit.notes)
                answer = kit.notes[-1]
            assert hashlib.sha256(answer).digest() == expected

    run(main())


@pytest.mark.parametrize("kind", ["bytearray", "array", "mmap"])
def test_row_71_what_is_on_its_way_cannot_be_resized(run, kind):
    async def main():
        kit = Kit()
        async with proxied_pair(kit, client=RAW, server=RAW) as (_, client, proxy):
            proxy.up.stop()
            value = BUFFERS[kind](20_000_000)
            handle = client.notify("Kit.note", value)
            await turns(3)
            with pytest.raises(BufferError):
                resize(value)
            overwrite(value)  # allowed, and the peer sees some of it: never a crash, never a torn stream
            proxy.up.resume()
            await handle
            resize(value)
            await kit.until(lambda: kit.notes)
            assert len(kit.notes[0]) == 20_000_000
            assert await client.request("Kit.echo", b"alive") == b"alive"

    run(main())


def test_row_71_a_call_that_is_cancelled_lets_its_buffers_go(run):
    async def main():
        async with proxied_pair(Kit(), client=RAW) as (_, client, proxy):
            proxy.up.stop()
            waiting = [bytearray(20_000_000) for _ in range(3)]
            calls = [client.request("Kit.echo", value) for value in waiting]
            await turns(3)
            for call in calls:
                call.cancel()
            proxy.up.resume()
            assert await client.request("Kit.echo", b"next") == b"next"
            for value in waiting:
                value.extend(b"x")

    run(main())


@pytest.mark.parametrize("end", ["close", "reset"])
def test_row_71_a_connection_that_ends_lets_buffers_go(run, end):
    async def main():
        async with proxied_pair(Kit(), client=RAW) as (_, client, proxy):
            proxy.up.stop()
            values = [bytearray(900_000) for _ in range(20)]
            calls = [client.request("Kit.echo", value) for value in values]
            await turns(3)
            if end == "close":
                await client.close(0)
            else:
                proxy.reset()
                await client.wait_closed()
            for call in calls:
                with pytest.raises(rpcproto.ConnectionLost):
                    await call
            for value in values:
                value.extend(b"x")

    run(main())


def test_fault_6_typed_and_shaped_views_lose_nothing_on_partial_writes(run):
    async def main():
        async with proxied_pair(Kit()) as (_, client, proxy):
            proxy.up.slice = proxy.down.slice = 50_000
            values = [
                np.random.default_rng(6).random((300, 300)),
                array.array("H", range(60_000)),
                memoryview(array.array("d", range(30_000))),
                memoryview(bytearray(200_000)).cast("B", (400, 500)),
                np.arange(200_000, dtype=">i4").reshape(10, 20, 1000),
            ]
            for value in values[:1] + values[2:]:
                answer = await client.request("Kit.echo", value)
                assert np.array_equal(np.asarray(answer), np.asarray(value))
            for value in values:
                answer = await client.request("Kit.echo", memoryview(value).cast("B"), codec="raw")
                assert bytes(answer) == memoryview(value).tobytes()

    run(main())


def test_fault_7_buffers_that_are_not_contiguous(run, address):
    base = np.arange(120_000, dtype="i8").reshape(300, 400)
    values = [
        base[:, ::2],
        base[::-1],
        base.T,
        np.asfortranarray(base),
        np.broadcast_to(base[0], (50, 400))[:, ::-1],
        base[:0],
    ]

    async def main():
        async with pair(Kit(), address) as (_, client):
            others = [client.request("Kit.echo", n) for n in range(5)]
            for value in values:
                assert np.array_equal(await client.request("Kit.echo", value), value)
            strided = memoryview(bytes(range(200)) * 1000)[::2]
            assert bytes(await client.request("Kit.echo", strided)) == strided.tobytes()
            assert bytes(await client.request("Kit.echo", strided, codec="raw")) == strided.tobytes()
            assert await asyncio.gather(*others) == list(range(5))

    run(main())


def test_fault_10_empty_buffers_and_shapes_round_trip(run, address):
    values = [
        b"",
        bytearray(),
        [b"", b"x", b""],
        [bytearray(5_000), bytearray(), bytearray(5_000)],
        np.empty((2, 0)),
        np.empty((0,), "u1"),
        np.empty((0, 3), "f4"),
        [],
        {},
        "",
    ]

    async def main():
        async with pair(Kit(), address) as (_, client):
            for value in values:
                answer = await client.request("Kit.echo", value)
                if isinstance(value, np.ndarray):
                    assert (answer.shape, answer.dtype) == (value.shape, value.dtype)
                else:
                    assert answer == value
                    assert type(answer) is type(value)
            assert bytes(await client.request("Kit.echo", memoryview(bytearray()))) == b""
            assert await client.request("Kit.echo", b"", codec="raw") == b""
            with pytest.raises(rpcproto.Refused):
                await client.request("Kit.echo")

    run(main())


def test_fault_4_row_70_received_buffers_that_are_kept_never_change(run, address):
    """Kept over more traffic, over the close, in another thread and over collections of garbage."""
    chance = random.Random(70)

    async def main():
        kept = []

        @rpcproto.notify
        def keep(data):
            kept.append((data, hashlib.sha256(data).digest()))

        service = [{"keep": keep}, Kit()]
        async with pair(service, address, client=RAW, server=RAW) as (_, client):
            sizes = [chance.choice((1, 100, 5_000, 66_000, 200_000, 1_100_000)) for _ in range(60)]
            replies = []
            for number, size in enumerate(sizes):
                data = bytes([number]) * size
                client.notify("keep", data) if number % 2 else replies.append(client.request("Kit.echo", data))
                if number % 10 == 9:
                    await client.ping()
            answers = await asyncio.gather(*replies)
            mine = [(answer, hashlib.sha256(answer).digest()) for answer in answers]
            del answers, replies
            for _ in range(3):
                await asyncio.gather(*(client.request("Kit.echo", b"z" * size) for size in sizes[:20]))
                gc.collect()
            await poll(lambda: len(kept) == 30)
            check(kept + mine)
        check(kept + mine)
        thread = threading.Thread(target=check, args=(kept + mine,))
        thread.start()
        thread.join()

    def check(pairs):
        assert all(hashlib.sha256(data).digest() == digest for data, digest in pairs)

    run(main())


def test_row_70_a_small_view_of_a_large_buffer_is_no_leak_of_others(run, address):
    """What is received is in memory of its own: keeping one message keeps no other."""

    async def main():
        async with pair(Kit(), address, client=RAW, server=RAW) as (_, client):
            kept = [await client.request("Kit.echo", bytes([n]) * 70_000) for n in range(20)]
            assert len({id(each.obj) for each in kept}) == 20
            assert [each[0] for each in kept] == list(range(20))
            assert all(not each.readonly for each in kept)

    run(main())
