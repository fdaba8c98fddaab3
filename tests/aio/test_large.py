"""Large messages: beside small ones, over every limit, into memory that the receiver chooses."""

from __future__ import annotations

import asyncio
import itertools

import pytest

import rpcproto
from rpcproto.connection.budget import ReassemblyBudget
from rpcproto.testing import pair, proxied_pair
from tests.aio._ends import RAW, Kit, poll, sha, turns

pytestmark = pytest.mark.smoke

WINDOW = 1024 * 1024
SIZES = [0, 1, 4_096, 4_097, 65_536, 65_537, 131_072, WINDOW - 1, WINDOW, WINDOW + 1, 3_000_000]


def pattern(size, seed=0):
    return (bytes(range(seed, 256)) * (size // (256 - seed) + 1))[:size]


def test_fault_26_messages_around_every_border(run, address):
    async def main():
        async with pair(Kit(), address, client=RAW, server=RAW) as (_, client):
            for size in SIZES:
                data = pattern(size)
                answer = await client.request("Kit.echo", data)
                assert answer == data
                assert await client.notify("Kit.note", data) is None
            answers = await asyncio.gather(*(client.request("Kit.echo", pattern(size, 7)) for size in SIZES))
            assert answers == [pattern(size, 7) for size in SIZES]

    run(main())


@pytest.mark.parametrize("window", [64 * 1024, 100_000])
def test_fault_26_messages_larger_than_a_small_window(run, address, window):
    """Nothing deadlocks though the window holds one message, and sizes leave a remainder below what is given back."""
    limits = rpcproto.Limits(call_window=64 * 1024, connection_window=window, max_connection_window=window)

    async def main():
        options = {"limits": limits}
        async with pair(Kit(), address, server=options, client=options) as (server, client):
            sizes = [window - 1, window, window + 1, 40_000, 40_000, 33_000, 1, 1_000_000] * 3
            data = [pattern(size, index) for index, size in enumerate(sizes)]
            assert await asyncio.gather(*(client.request("Kit.echo", each) for each in data)) == data
            assert await asyncio.gather(*(server.peers[0].ping() for _ in range(3)))

    run(main())


@pytest.mark.parametrize("first", [70_000, 900_000, 3_000_000])
def test_row_18_small_calls_pass_a_large_message(run, address, first):
    """What is issued in the same turn as a large message, behind it, neither waits for it nor breaks anything."""

    async def main():
        kit = Kit()
        order = []

        async def call(name, reply):
            await reply
            order.append(name)

        async with pair(kit, address) as (_, client):
            calls = [call("large", client.request("Kit.digest", bytes(first)))]
            calls += [call(n, client.request("Kit.echo", n)) for n in range(10)]
            client.notify("Kit.note", "behind")
            calls.append(call("second", client.request("Kit.digest", bytes(first))))
            calls += [call(n, client.request("Kit.echo_task", n)) for n in range(10, 20)]
            await asyncio.gather(*calls)
            assert kit.notes == ["behind"]
            assert sorted(map(str, order)) == sorted(map(str, ["large", "second", *range(20)]))

    run(main())


def test_row_18_a_ping_and_small_calls_overtake_a_slow_large_message(run):
    async def main():
        async with proxied_pair(Kit(), client=RAW) as (_, client, proxy):
            proxy.up.buffer = 64 * 1024
            proxy.up.stop()
            large = client.request("Kit.digest", bytes(8_000_000), timeout=None)
            await turns(5)
            proxy.up.resume()
            proxy.up.rate = 20_000_000
            await client.ping()
            assert await client.request("Kit.echo", b"small") == b"small"
            assert not large.done()
            assert client.stats()["bytes_queued"] > 1_000_000
            proxy.up.rate = None
            # The digest is text, which raw bytes cannot carry.
            with pytest.raises(rpcproto.RemoteError):
                await large

    run(main())


async def hash_many(client, count, up, down):
    data = [pattern(up, index % 100) for index in range(100)]

    async def one(index):
        reply = await client.request("answer", data[index % 100], down, index % 100)
        assert reply[0] == sha(data[index % 100])
        assert sha(reply[1]) == sha(pattern(down, index % 100))

    await asyncio.gather(*(one(index) for index in range(count)))


def answer(data, size, seed):
    return [sha(data), pattern(size, seed)]


def test_row_18_parallel_large_calls_are_not_mixed_up(run, address):
    async def main():
        async with pair({"answer": answer}, address) as (_, client):
            await hash_many(client, 40, 270_000, 314_000)
            assert client.stats()["calls_pending"] == client.stats()["bytes_queued"] == 0

    run(main())


@pytest.mark.slow
def test_row_18_at_full_size(run, address):
    async def main():
        limits = rpcproto.Limits(max_queued=1 << 30)
        options = {"timeouts": rpcproto.Timeouts(request=None), "limits": limits}
        async with pair({"answer": answer}, address, client=options, server={"limits": limits}) as (_, client):
            await hash_many(client, 1_000, 270_000, 314_000)

    run(main(), timeout=120)


# -- Limits ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("limit", [1_000, 100_000, 2_000_000])
def test_fault_96_one_byte_too_many_in_a_request(run, address, limit):
    async def main():
        options = {"limits": rpcproto.Limits(max_message=limit), **RAW}
        async with pair(Kit(), address, server=options, client=RAW) as (server, client):
            for size in (limit - 1, limit):
                await client.notify("Kit.note", bytes(size))
            for send in (client.request, client.notify):
                with pytest.raises(rpcproto.MessageTooLarge) as caught:
                    send("Kit.note", bytes(limit + 1))
                assert (caught.value.size, caught.value.limit) == (limit + 1, limit)
                for part in ("Kit.note", str(limit), str(limit + 1), "the peer's max_message"):
                    assert part in str(caught.value)
            assert await client.request("Kit.echo", b"alive") == b"alive"
            assert server.peers[0].stats()["calls_refused"] == 0

    run(main())


@pytest.mark.parametrize("limit", [1_000, 100_000, 2_000_000])
@pytest.mark.parametrize("method", ["produce", "produce_task"])
def test_fault_96_one_byte_too_many_in_a_reply(run, address, limit, method):
    def produce(size):
        return bytes(int(size))

    async def produce_task(size):
        return bytes(int(size))

    async def main():
        options = {"limits": rpcproto.Limits(max_message=limit), **RAW}
        service = [{"produce": produce, "produce_task": produce_task}, Kit()]
        async with pair(service, address, server=RAW, client=options) as (server, client):
            for size in (limit - 1, limit):
                assert len(await client.request(method, str(size).encode())) == size
            with pytest.raises(rpcproto.MessageTooLarge) as caught:
                await client.request(method, str(limit + 1).encode())
            for part in (method, str(limit), str(limit + 1), "the caller's max_message"):
                assert part in str(caught.value)
            assert await client.request("Kit.echo", b"alive") == b"alive"
            assert client.stats()["calls_pending"] == server.peers[0].stats()["calls_running"] == 0

    run(main())


def test_fault_13_very_many_buffers(run, address):
    # What is above 4 KiB and no plain bytes travels as a buffer.

    async def main():
        async with pair(Kit(), address) as (_, client):
            for count in (1, 2, 1_023, 1_024, 1_025, 5_000):
                data = [bytearray(4_097) for _ in range(count)]
                for index, each in enumerate(data):
                    each[0] = index % 256
                assert await client.request("Kit.echo", data) == data
            tiny = [bytearray(b"x")] * 100_000
            assert await client.request("Kit.echo", tiny) == tiny

    run(main())


def test_fault_13_more_buffers_than_a_message_may_have(run):
    class Split(rpcproto.Codec):
        """Every item a buffer."""

        def __init__(self):
            super().__init__("split", 65_003)

        def encode_args(self, args, buffers):
            buffers.extend(args)
            return b""

        def decode_args(self, body, buffers):
            return [len(buffers or ())]

        def encode_value(self, value, buffers):
            return str(value).encode()

        def decode_value(self, body, buffers):
            return int(bytes(body))

    options = {"codec": Split(), "limits": rpcproto.Limits(max_frame=4 * 1024 * 1024)}

    async def main():
        async with pair(Kit(), server=options, client=options) as (_, client):
            for count in (0, 1, 1_024, 65_535):
                assert await client.request("Kit.echo", *[b"16 bytes of data"] * count) == count
            for count in (65_536, 100_000):
                with pytest.raises(rpcproto.MessageTooLarge, match=r"buffers are too many.* at most 65,535"):
                    client.request("Kit.echo", *[b"16 bytes of data"] * count)
            assert await client.request("Kit.echo", b"alive") == 1

    run(main())


def test_fault_13_very_many_notifies_at_once(run, address):
    async def main():
        kit = Kit()
        async with pair(kit, address, client=RAW) as (_, client):
            handles = [client.notify("Kit.note", b"x" * 64) for _ in range(20_000)]
            await handles[-1]
            assert all(handle.done() for handle in handles)
            await client.ping()
            assert len(kit.notes) == 20_000

    run(main())


# -- The allocate hook -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("side", ["server", "client"])
def test_the_allocate_hook_gives_the_memory_of_large_messages(run, address, side):
    made = []

    def allocate(sizes):
        made.append([memoryview(bytearray(size)) for size in sizes])
        return made[-1]

    async def main():
        options = {side: {"allocate": allocate, **RAW}, ({"server", "client"} - {side}).pop(): RAW}
        seen = []

        def keep(data):
            seen.append(data)
            return data

        async with pair({"keep": keep}, address, **options) as (_, client):
            for size in (100_000, 3_000_000):
                answer = await client.request("keep", pattern(size))
                assert answer == pattern(size)
                got = seen[-1] if side == "server" else answer
                assert got.obj is made[-1][0].obj
            assert [[view.nbytes for view in each] for each in made] == [[100_000], [3_000_000]]
            assert await client.request("keep", b"small") == b"small"
            assert len(made) == 2

    run(main())


BAD = {
    "raises": lambda sizes: 1 / 0,
    "none": lambda sizes: None,
    "too few": lambda sizes: [],
    "too small": lambda sizes: [memoryview(bytearray(size - 1)) for size in sizes],
    "read-only": lambda sizes: [memoryview(bytes(size)) for size in sizes],
    "no buffers": lambda sizes: [object() for _ in sizes],
    "no memory": lambda sizes: [bytearray(2**62)],
}


@pytest.mark.parametrize("fault", BAD)
@pytest.mark.parametrize("size", [100_000, 3_000_000])
def test_an_allocate_hook_that_fails_fails_that_call_only(run, address, fault, size):
    budget = ReassemblyBudget(10_000_000)

    async def main():
        options = {"allocate": BAD[fault], "budget": budget}
        async with pair(Kit(), address, server=options, client=options) as (_, client):
            for _ in range(3):
                with pytest.raises(rpcproto.Overloaded, match=r"no memory for a message of \d+ bytes"):
                    await client.request("Kit.digest", bytearray(size))
                with pytest.raises(rpcproto.Overloaded, match="no memory for a message of"):
                    await client.request("Kit.produce", size)
                await client.notify("Kit.note", bytearray(size))
                assert await client.request("Kit.echo", "alive") == "alive"
            await poll(lambda: budget.reserved == 0)
            assert client.stats()["calls_pending"] == client.stats()["bytes_queued"] == 0

    run(main())


def test_the_budget_admits_large_messages_one_after_another(run, address):
    budget = ReassemblyBudget(5_000_000)

    async def main():
        async with pair(Kit(), address, server={"budget": budget}) as (server, client):
            async with rpcproto.connect(server.address) as other:
                sizes = [3_000_000, 4_000_000, 2_000_000, 9_000_000]
                calls = [
                    each.request("Kit.digest", pattern(size))
                    for size, each in zip(sizes, itertools.cycle((client, other)))
                ]
                peak = 0
                while not all(call.done() for call in calls):
                    peak = max(peak, budget.reserved)
                    await asyncio.sleep(0)
                assert [await call for call in calls] == [sha(pattern(size)) for size in sizes]
                assert peak < 9_001_000
                assert budget.reserved == 0

    run(main())


def test_a_budget_is_given_back_when_a_connection_breaks(run):
    budget = ReassemblyBudget(5_000_000)

    async def main():
        async with proxied_pair(Kit(), server={"budget": budget}) as (server, client, proxy):
            proxy.up.limit(500_000, "stop")
            client.request("Kit.digest", bytes(4_000_000))
            await poll(lambda: budget.reserved > 4_000_000)
            async with rpcproto.connect(server.address) as other:
                waits = other.request("Kit.digest", bytes(3_000_000))
                await turns(10)
                assert not waits.done()
                proxy.reset()
                assert await waits == sha(bytes(3_000_000))
            assert budget.reserved == 0

    run(main())
