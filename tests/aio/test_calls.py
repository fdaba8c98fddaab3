"""Calls of every kind over every transport: what comes back, in which order, and what is counted."""

from __future__ import annotations

import asyncio
import logging
import random
import time

import numpy as np
import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import RAW, Kit, poll

pytestmark = pytest.mark.smoke


class Who(rpcproto.Service):
    """Tells the caller, and counts its calls, in each way of running a handler."""

    def _count(self) -> list[object]:
        caller = rpcproto.peer()
        caller.state["count"] = caller.state.get("count", 0) + 1
        return [caller.address, caller.state["count"]]

    @rpcproto.request
    def inline(self) -> list[object]:
        return self._count()

    @rpcproto.request
    async def task(self) -> list[object]:
        first = rpcproto.peer()
        await asyncio.sleep(0)
        assert rpcproto.peer() is first
        return self._count()

    @rpcproto.request(thread=True)
    def thread(self) -> list[object]:
        return self._count()

    @rpcproto.request
    def awaitable(self) -> object:
        return self.task()


class Back(rpcproto.Service):
    """Calls its caller back."""

    @rpcproto.request
    async def call(self, method: str, value: object) -> object:
        return await rpcproto.peer().request(method, value)

    @rpcproto.request
    def note(self, value: object) -> None:
        rpcproto.peer().notify("Kit.note", value)

    @rpcproto.request
    async def nested(self, depth: int) -> int:
        if depth == 0:
            return 0
        return 1 + await rpcproto.peer().request("Back.nested", depth - 1)


@pytest.mark.parametrize("method", ["Kit.echo", "Kit.echo_task", "Kit.echo_thread"])
def test_a_request_brings_the_answer(run, address, method):
    values = [None, True, 7, 2.5, "text", b"bytes", [1, [2]], {"a": {"b": 1}}, (1, 2), {3, 4}, 2**100, b"x" * 100_000]

    async def main():
        async with pair(Kit(), address) as (_, client):
            for value in values:
                assert await client.request(method, value) == value
            array = np.arange(12, dtype="<f4").reshape(3, 4)
            answer = await client.request(method, array)
            assert answer.dtype == array.dtype
            assert np.array_equal(answer, array)

    run(main())


def test_a_notify_arrives_and_its_handle_is_done(run, address):
    async def main():
        kit = Kit()
        async with pair(kit, address) as (_, client):
            assert await client.notify("Kit.note", "first") is None
            client.notify("Kit.note", "second")
            await client.ping()
            assert kit.notes == ["first", "second"]

    run(main())


def test_a_notify_that_fails_is_logged_and_harms_nothing(run, address, caplog):
    def explode(value):
        raise ValueError("never mind")

    async def task(value):
        raise ValueError("never mind")

    service = {"inline": rpcproto.notify(explode), "task": rpcproto.notify(task)}

    async def main():
        async with pair([service, Kit()], address) as (server, client):
            client.notify("inline", 1)
            client.notify("task", 1)
            client.notify("absent", 1)
            assert await client.request("Kit.echo", 1) == 1
            await poll(lambda: server.peers[0].stats()["handlers_failed"] == 2)

    run(main())
    assert [record.getMessage().split()[:2] for record in caplog.records] == [["notify", "inline"], ["notify", "task"]]


def test_calls_start_in_the_order_issued(run, address):
    async def main():
        kit = Kit()
        kit.gate.set()
        async with pair(kit, address) as (_, client):
            replies = []
            for number in range(300):
                match number % 3:
                    case 0:
                        replies.append(client.request("Kit.wait", number))
                    case 1:
                        client.notify("Kit.note", number)
                    case 2:
                        replies.append(client.request("Kit.echo", number))
            await asyncio.gather(*replies)
            assert kit.started == list(range(0, 300, 3))
            assert kit.notes == list(range(1, 300, 3))

    run(main())


def test_plain_handlers_run_in_the_order_of_arrival_whatever_their_size(run, address):
    async def main():
        kit = Kit()
        async with pair(kit, address) as (_, client):
            sizes = [random.Random(7).choice((1, 100, 4_096, 5_000, 65_000)) for _ in range(200)]
            handles = [client.notify("Kit.note", bytes([index]) * size) for index, size in enumerate(sizes)]
            await asyncio.gather(*handles)
            await client.ping()
            assert [(note[0], len(note)) for note in kit.notes] == list(enumerate(sizes))

    run(main())


def test_row_18_tiny_calls_in_random_order_of_reply(run, address):
    """10,000 calls of mixed kinds, each answered when it likes: every answer reaches its own call."""
    order = random.Random(18)

    async def later(number):
        for _ in range(order.randrange(4)):
            await asyncio.sleep(0)
        return number

    async def main():
        async with pair([Kit(), {"later": later}], address) as (server, client):
            for _ in range(10):
                numbers = list(range(1_000))
                order.shuffle(numbers)
                methods = ["later", "Kit.echo", "Kit.echo_task"]
                answers = await asyncio.gather(*(client.request(methods[n % 3], n) for n in numbers))
                assert answers == numbers
            assert client.stats()["calls_pending"] == server.peers[0].stats()["calls_running"] == 0

    run(main())


@pytest.mark.parametrize("method", ["inline", "task", "thread", "awaitable"])
def test_a_handler_knows_its_caller_and_has_state_for_it(run, address, method):
    async def main():
        async with pair(Who(), address) as (server, client):
            async with rpcproto.connect(server.address) as other:
                for count in (1, 2, 3):
                    assert await client.request(f"Who.{method}") == [server.peers[0].address, count]
                assert (await other.request(f"Who.{method}"))[1] == 1
        with pytest.raises(rpcproto.ConfigurationError, match="outside of a handler"):
            rpcproto.peer()

    run(main())


def test_concurrent_callers_are_told_apart(run, address):
    def of(peer):
        return id(peer)

    def inline():
        return of(rpcproto.peer())

    async def task():
        for _ in range(3):
            await asyncio.sleep(0)
        return of(rpcproto.peer())

    async def main():
        async with rpcproto.serve({"inline": inline, "task": task}, address) as server:
            clients = [await rpcproto.connect(server.address) for _ in range(5)]
            answers = [
                await asyncio.gather(*(client.request(method) for _ in range(20) for method in ("inline", "task")))
                for client in clients
            ]
            together = await asyncio.gather(*(client.request("task") for client in clients * 10))
            assert {len(set(each)) for each in answers} == {1}
            assert len({each[0] for each in answers}) == 5
            assert together == [each[0] for each in answers] * 10
            await asyncio.gather(*(client.close() for client in clients))

    run(main())


def test_both_ends_call_each_other(run, address):
    async def main():
        kit = Kit()
        async with pair([Back(), Kit()], address, client={"service": [kit, Back()]}) as (server, client):
            assert await client.request("Back.call", "Kit.echo", 5) == 5
            assert await client.request("Back.call", "Kit.echo_thread", 6) == 6
            assert await client.request("Back.nested", 10) == 10
            await client.request("Back.note", "x")
            await client.ping()
            assert kit.notes == ["x"]
            peer = server.peers[0]
            assert await peer.request("Kit.echo_task", 7) == 7
            assert await asyncio.gather(*(peer.request("Kit.echo", n) for n in range(50))) == list(range(50))
            with pytest.raises(rpcproto.NoSuchMethod):
                await peer.request("Kit.absent")

    run(main())


def test_a_client_without_a_service_offers_nothing(run, address):
    async def main():
        async with pair(Back(), address) as (server, _):
            with pytest.raises(rpcproto.NoSuchMethod):
                await server.peers[0].request("Kit.echo", 1)

    run(main())


def test_each_call_may_choose_its_codec(run, address):
    class Upper(rpcproto.Codec):
        """Text in capitals."""

        def __init__(self):
            super().__init__("upper", 65_001)

        def encode_args(self, args, buffers):
            return args[0].upper().encode()

        def decode_args(self, body, buffers):
            return [bytes(body).decode()]

        def encode_value(self, value, buffers):
            return value.encode()

        def decode_value(self, body, buffers):
            return bytes(body).decode()

    upper = Upper()

    async def main():
        async with pair(Kit(), address) as (_, client):
            assert await client.request("Kit.echo", b"raw bytes", codec="raw") == b"raw bytes"
            assert await client.request("Kit.echo", "msgpack") == "msgpack"
            with pytest.raises(rpcproto.Refused, match="no codec with id 65001"):
                await client.request("Kit.echo", "quiet", codec=upper)
            with pytest.raises(rpcproto.ConfigurationError, match="no codec is called 'nothing'"):
                client.request("Kit.echo", 1, codec="nothing")
            with pytest.raises(rpcproto.SerializationError, match="raw takes one"):
                client.request("Kit.echo", 1, codec="raw")
            client.notify("Kit.note", b"raw", codec="raw")
            assert await client.request("Kit.echo", 1) == 1
        async with pair(Kit(), address, server={"codec": upper}, client={"codec": upper}) as (_, client):
            assert await client.request("Kit.echo", "loud") == "LOUD"
        async with pair(Kit(), address, client=RAW) as (_, client):
            assert await client.request("Kit.echo", b"x") == b"x"

    run(main())


def test_row_66_payloads_get_into_no_repr_and_no_log(run, address, caplog):
    caplog.set_level(logging.DEBUG)
    canary = "cAnArY"

    def slow(value):
        time.sleep(0.02)
        return value

    async def main():
        kit = Kit()
        options = {"timeouts": rpcproto.Timeouts(slow_handler=0.01)}
        async with pair([kit, {"slow": slow}], address, server=options) as (server, client):
            reply = client.request("slow", canary)
            handle = client.notify("Kit.note", canary)
            texts = [repr(each) for each in (client, server, client.peer, server.peers[0], reply, handle)]
            await reply
            texts += [repr(reply), repr(handle)]
            with pytest.raises(rpcproto.NoSuchMethod) as caught:
                await client.request("absent", canary)
            waiting = client.request("Kit.wait", canary, timeout=0.01)
            with pytest.raises(rpcproto.DeadlineExceeded) as late:
                await waiting
            texts += [repr(caught.value), repr(late.value), repr(waiting)]
            texts += [repr(client), repr(server)]
        return texts

    texts = run(main())
    assert canary not in "".join(texts) + caplog.text
    assert caplog.text.count("held the loop") == 1


def test_a_slow_handler_is_logged_once(run, address, caplog):
    def slow():
        time.sleep(0.02)

    def quick():
        pass

    async def main():
        options = {"timeouts": rpcproto.Timeouts(slow_handler=0.01)}
        async with pair({"slow": slow, "quick": quick}, address, server=options) as (_, client):
            await asyncio.gather(*(client.request(name) for name in ["quick", "slow", "quick", "slow"]))

    run(main())
    (record,) = caplog.records
    assert record.name == "rpcproto"
    assert record.getMessage().startswith("handler slow held the loop for ")


def test_several_listeners_serve_the_same(run, tmp_path):
    async def main():
        kit = Kit()
        places = ["tcp://127.0.0.1:0", f"unix://{tmp_path}/s", "inproc://several", "tcp://127.0.0.1:0"]
        async with rpcproto.serve(kit, *places) as server:
            assert len(server.addresses) == len(set(server.addresses)) == 4
            assert server.address == server.addresses[0]
            clients = [await rpcproto.connect(place) for place in server.addresses]
            assert len(server.peers) == 4
            assert await asyncio.gather(*(client.request("Kit.echo", 1) for client in clients)) == [1] * 4
            for client in clients:
                await client.close()
        for place in server.addresses:
            with pytest.raises(rpcproto.ConnectFailed):
                await rpcproto.connect(place)

    run(main())


def test_counters(run, address):
    async def main():
        async with pair(Kit(), address) as (server, client):
            for _ in range(10):
                await client.request("Kit.echo", 1)
            client.notify("Kit.note", 1)
            with pytest.raises(rpcproto.NoSuchMethod):
                await client.request("absent")
            ours, theirs = client.stats(), server.peers[0].stats()
            assert ours["calls_opened"] == 12
            assert theirs["calls_served"] == 10
            assert theirs["calls_refused"] == 1
            assert ours["calls_pending"] == theirs["calls_running"] == theirs["bytes_queued"] == 0
            assert ours["bytes_sent"] + 64 == theirs["bytes_received"]
            assert theirs["bytes_sent"] + 64 == ours["bytes_received"]
            assert theirs["messages_received"] == 12
            assert ours["messages_received"] == 10

    run(main())
