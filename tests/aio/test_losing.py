"""Connections that break: every waiter ends once, and learns of peer, cause and whether the call may have run."""

from __future__ import annotations

import asyncio
import socket

import pytest

import rpcproto
from rpcproto.testing import proxied_pair
from tests.aio._ends import Kit, failure, gone, poll, turns

pytestmark = pytest.mark.smoke


def fill(peer):
    """Waiters of every kind on one connection: some sent, some waiting on this side."""
    waiters = [peer.request("Kit.wait", n, timeout=None) for n in range(100)]
    waiters += [asyncio.ensure_future(peer.ping(None)) for _ in range(3)]
    waiters += [peer.request("Kit.wait", bytes(size), timeout=None) for size in (5_000, 70_000, 900_000, 3_000_000)]
    waiters += [peer.notify("Kit.note", bytes(size)) for size in (10, 70_000, 900_000, 20_000_000, 10, 3_000_000)]
    waiters += [peer.request("Kit.wait", bytes(900_000), timeout=None) for _ in range(12)]
    return waiters


@pytest.mark.parametrize("way", ["reset", "end", "stop"])
@pytest.mark.parametrize("caller", ["client", "server"])
def test_fault_14_every_waiter_ends_with_one_typed_error(run, way, caller):
    async def main():
        timeouts = {"timeouts": rpcproto.Timeouts(heartbeat=0.1 if way == "stop" else 20, linger=0.05)}
        kits = Kit(), Kit()
        async with proxied_pair(kits[0], server=timeouts, client={"service": kits[1], **timeouts}) as (
            server,
            client,
            proxy,
        ):
            peer = client.peer if caller == "client" else server.peers[0]
            _out, back = (proxy.up, proxy.down) if caller == "client" else (proxy.down, proxy.up)
            await peer.request("Kit.echo", 1)
            proxy.up.stop()
            proxy.down.stop()
            waiters = fill(peer)
            unsent = peer.request("Kit.echo", bytes(900_000), timeout=None)
            await turns(3)
            if way == "reset":
                proxy.reset()
            elif way == "end":
                proxy.end(back)
            outcomes = await asyncio.gather(*(failure(waiter) for waiter in [*waiters, unsent]))
            assert {type(each) for each in outcomes} <= {rpcproto.ConnectionLost, type(None)}
            for each, waiter in zip(outcomes, [*waiters, unsent], strict=True):
                if each is None:
                    assert "Kit.note" in repr(waiter), "only a notify that was handed over is done"
                    continue
                assert peer.address in str(each)
                assert each.peer == peer.address
                assert each.__cause__ is not None
                assert ("it may have run" in str(each)) == each.maybe_executed
                assert ("it was not sent" in str(each)) == (not each.maybe_executed)
            assert outcomes[0].maybe_executed
            assert not outcomes[-1].maybe_executed, "it waited for credit and was never sent"
            for call in (lambda: peer.request("Kit.echo", 1), lambda: peer.notify("Kit.note", 1)):
                with pytest.raises(rpcproto.ConnectionLost) as caught:
                    call()
                assert not caught.value.maybe_executed
            with pytest.raises(rpcproto.ConnectionLost):
                await peer.ping()
            await asyncio.wait_for(client.wait_closed() if caller == "client" else poll(lambda: not server.peers), 5)

    run(main())


def test_fault_14_the_handlers_of_a_lost_peer_are_cancelled(run):
    async def main():
        kit = Kit()
        async with proxied_pair(kit) as (server, client, proxy):
            calls = [client.request("Kit.wait", n) for n in range(10)]
            await kit.until(lambda: len(kit.started) == 10)
            proxy.reset()
            await kit.until(lambda: len(kit.cancelled) == 10)
            for call in calls:
                assert type(await failure(call)) is rpcproto.ConnectionLost
            assert server.peers == []

    run(main())


@pytest.mark.parametrize("direction", ["up", "down"])
def test_row_41_cut_after_any_byte(run, direction):
    """In-flight calls fail once, with ConnectionLost; no part of a message is delivered."""

    async def main():
        kit = Kit()
        payload = bytes(range(256)) * 2
        # One run without a cut tells how many bytes there are to cut after.
        async with proxied_pair(kit) as (_, client, proxy):
            before = getattr(proxy, direction).forwarded
            await exchange(client, payload)
            size = getattr(proxy, direction).forwarded - before
        assert size > 1000
        kit.notes.clear()
        for offset in [*range(70), *range(70, size, 41)]:
            async with proxied_pair(kit) as (_, client, proxy):
                getattr(proxy, direction).limit(offset, "reset" if offset % 2 else "end")
                results = await exchange(client, payload)
                assert any(isinstance(each, rpcproto.ConnectionLost) for each in results), offset
                for each in results:
                    assert each in (None, payload) or type(each) is rpcproto.ConnectionLost
                assert all(note == payload for note in kit.notes)
                lost = [each for each in results if each not in (None, payload)]
                assert all(isinstance(each.maybe_executed, bool) for each in lost)

    async def exchange(client, payload):
        waiters = [
            client.request("Kit.echo", payload),
            client.notify("Kit.note", payload),
            client.request("Kit.echo_task", payload),
            asyncio.ensure_future(client.ping()),
        ]
        results = await asyncio.gather(*(failure(waiter) for waiter in waiters))
        return [None if isinstance(each, float) else each for each in results]

    run(main())


@pytest.mark.parametrize("then", ["reset", "end"])
def test_row_41_cut_within_a_large_message(run, then):
    async def main():
        for size in (100_000, 2_000_000):
            for offset in (10, 16_000, 66_000, 90_000):
                kit = Kit()
                async with proxied_pair(kit) as (_, client, proxy):
                    proxy.up.limit(offset, then)
                    call = client.request("Kit.digest", bytes(size))
                    note = client.notify("Kit.note", bytes(size))
                    error = await failure(call)
                    assert type(error) is rpcproto.ConnectionLost
                    assert error.maybe_executed
                    assert type(await failure(note)) in (rpcproto.ConnectionLost, type(None))
                    assert kit.notes == []
                async with proxied_pair(kit) as (_, client, proxy):
                    proxy.down.limit(offset, then)
                    assert type(await failure(client.request("Kit.produce", size))) is rpcproto.ConnectionLost

    run(main())


def test_bytes_may_come_one_by_one(run):
    async def main():
        kit = Kit()
        async with proxied_pair(kit) as (_, client, proxy):
            proxy.up.slice = proxy.down.slice = 1
            calls = [client.request("Kit.echo", n) for n in range(5)]
            await client.notify("Kit.note", "x")
            assert await asyncio.gather(*calls) == list(range(5))
            proxy.up.slice = proxy.down.slice = 7
            assert await client.request("Kit.echo", b"y" * 3_000) == b"y" * 3_000
            assert kit.notes == ["x"]

    run(main())


def test_row_44_a_peer_that_half_closes_ends_the_connection(run):
    async def main():
        kit = Kit()
        async with proxied_pair(kit) as (server, client, proxy):
            call = client.request("Kit.wait")
            await kit.until(lambda: kit.started)
            proxy.end(proxy.up)
            await kit.until(lambda: kit.cancelled)
            error = await failure(call)
            assert "the peer closed the connection" in str(error)
            await poll(lambda: not server.peers)

    run(main())


def test_fault_14_a_peer_that_is_gone_is_an_error_of_the_next_call_at_once(run):
    async def main():
        async with proxied_pair(Kit()) as (_, client, proxy):
            proxy.reset()
            await client.wait_closed()
            assert client.closed
            with pytest.raises(rpcproto.ConnectionLost, match="it was not sent"):
                client.request("Kit.echo", 1)

    run(main())


def test_fault_15_an_exception_in_a_codec_fails_the_call_alone(run, address):
    class Broken(rpcproto.Codec):
        """Fails where it is told to."""

        def __init__(self):
            super().__init__("broken", 65_002)
            self.fails = ""

        def _step(self, name, value):
            if self.fails == name:
                raise ZeroDivisionError(name)
            return value

        def encode_args(self, args, buffers):
            return self._step("encode_args", args[0])

        def decode_args(self, body, buffers):
            return self._step("decode_args", [bytes(body)])

        def encode_value(self, value, buffers):
            return self._step("encode_value", value)

        def decode_value(self, body, buffers):
            return self._step("decode_value", bytes(body))

    codec = Broken()

    async def main():
        kit = Kit()
        options = {"codec": codec}
        async with (
            rpcproto.serve(kit, address, **options) as server,
            rpcproto.connect(server.address, **options) as client,
        ):
            for step in ("decode_args", "encode_value", "decode_value"):
                codec.fails = step
                with pytest.raises(rpcproto.RpcError, match=step):
                    await client.request("Kit.echo", b"x")
                with pytest.raises(rpcproto.RpcError, match=step):
                    await client.request("Kit.echo_task", b"x")
            codec.fails = "encode_args"
            with pytest.raises((rpcproto.RpcError, ZeroDivisionError)):
                client.request("Kit.echo", b"x")
            codec.fails = ""
            assert await client.request("Kit.echo", b"fine") == b"fine"
            assert client.stats()["calls_pending"] == 0

    run(main())


def test_fault_15_an_exception_in_a_done_callback_goes_to_the_loop_and_harms_no_call(run, address):
    async def main():
        async with rpcproto.serve(Kit(), address) as server, rpcproto.connect(server.address) as client:
            replies = [client.request("Kit.echo", n) for n in range(10)]
            replies[3].add_done_callback(lambda _: 1 / 0)
            assert await asyncio.gather(*replies) == list(range(10))
            assert await client.request("Kit.echo", "alive") == "alive"

    run(main())
    (context,) = run.errors
    run.errors.clear()
    assert isinstance(context["exception"], ZeroDivisionError)


def test_fault_23_failures_that_nobody_retrieves_are_silent(run):
    async def main():
        kit = Kit()
        for end in ("reset", "close", "late"):
            async with proxied_pair(kit, client={"timeouts": rpcproto.Timeouts(request=0.01)}) as (_, client, proxy):
                for method in ("Kit.absent", "Kit.wait", "Kit.produce", "Kit.digest"):
                    client.request(method, 1)
                    client.request(method)
                client.notify("Kit.absent", 1)
                client.notify("Kit.note", bytes(3_000_000))
                await turns(2)
                if end == "reset":
                    proxy.reset()
                    await client.wait_closed()
                elif end == "close":
                    await client.close(0)
                else:
                    await poll(lambda: client.stats()["calls_pending"] == 0)
            assert gone()

    run(main())


def test_no_number_of_connections_that_break_leaves_anything(run):
    async def main():
        kit = Kit()
        async with rpcproto.serve(kit, "tcp://127.0.0.1:0") as server:
            host, port = server.address.removeprefix("tcp://").split(":")
            loop = asyncio.get_running_loop()
            for number in range(50):
                with socket.socket() as sock:
                    sock.setblocking(False)
                    await loop.sock_connect(sock, (host, int(port)))
                    await loop.sock_sendall(sock, b"GET / HTTP/1.1\r\n\r\n"[:number])
            async with rpcproto.connect(server.address) as client:
                assert await client.request("Kit.echo", 1) == 1
                await poll(lambda: len(server.peers) == 1)

    run(main())
