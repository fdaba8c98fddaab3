"""Peers that fall silent, say the wrong thing, or are only busy."""

from __future__ import annotations

import asyncio
import socket
import threading
import time
from contextlib import asynccontextmanager

import pytest

import rpcproto
from rpcproto.testing import pair, proxied_pair
from rpcproto.wire.greeting import Greeting
from rpcproto.wire.spec import GREETING_SIZE, Role
from tests.aio._ends import Kit, poll, turns

pytestmark = pytest.mark.smoke


def quick(**changes):
    return {"timeouts": rpcproto.Timeouts(**{"heartbeat": 0.08, "linger": 0.05, "greeting": 0.05, **changes})}


@pytest.mark.parametrize("stopped", ["both", "up", "down"])
def test_row_35_both_sides_notice_that_nothing_gets_through(run, stopped):
    async def main():
        kit = Kit()
        async with proxied_pair(kit, server=quick(), client=quick()) as (server, client, proxy):
            call = client.request("Kit.wait", timeout=None)
            await kit.until(lambda: kit.started)
            if stopped != "down":
                proxy.up.stop()
            if stopped != "up":
                proxy.down.stop()
            with pytest.raises(rpcproto.ConnectionLost) as caught:
                await call
            assert caught.value.maybe_executed
            if stopped == "both":
                assert "nothing was heard of" in str(caught.value)
            await client.wait_closed()
            await poll(lambda: not server.peers)
            assert kit.cancelled

    run(main())


def test_heartbeats_keep_an_idle_connection(run, address):
    async def main():
        async with pair(Kit(), address, server=quick(), client=quick()) as (_server, client):
            await asyncio.sleep(0.3)
            assert await client.request("Kit.echo", 1) == 1
            assert client.stats()["bytes_received"] > 200, "some pings must have come"

    run(main())


@pytest.mark.parametrize("side", ["server", "client"])
def test_one_heartbeat_is_enough_for_both(run, side):
    """The peer is told how often this side wants to hear of it, and obeys though it has no heartbeat of its own."""

    async def main():
        options = {side: quick(), ({"server", "client"} - {side}).pop(): quick(heartbeat=None)}
        async with proxied_pair(Kit(), **options) as (server, client, proxy):
            await asyncio.sleep(0.3)
            assert await client.request("Kit.echo", 1) == 1
            proxy.up.stop()
            proxy.down.stop()
            if side == "client":
                await client.wait_closed()
            else:
                await poll(lambda: not server.peers)

    run(main())


def test_fault_66_a_busy_loop_does_not_make_a_live_peer_look_dead(run, address):
    """A handler blocks the loop for longer than the silence: what came meanwhile is read before the peer is judged."""

    def block():
        time.sleep(0.2)

    async def main():
        options = quick(slow_handler=10)
        async with pair([{"block": block}, Kit()], address, server=options, client=options) as (server, client):
            for _ in range(2):
                await client.request("block")
                await asyncio.sleep(0.03)
            assert await client.request("Kit.echo", 1) == 1
            assert server.peers

    run(main())


def test_fault_66_a_peer_in_another_loop_is_judged_by_what_it_sent(run):
    """This side's loop stands still while the peer's goes on and sends: it must not be taken for dead."""
    ready = threading.Event()
    stop = threading.Event()
    address = []

    def serve():
        async def main():
            async with rpcproto.serve(Kit(), "tcp://127.0.0.1:0", **quick(heartbeat=5)) as server:
                address.append(server.address)
                ready.set()
                while not stop.is_set():
                    await asyncio.sleep(0.005)

        asyncio.run(main())

    thread = threading.Thread(target=serve)
    thread.start()
    try:
        ready.wait(5)

        async def main():
            async with rpcproto.connect(address[0], **quick()) as client:
                for _ in range(3):
                    await client.request("Kit.echo", 1)
                    time.sleep(0.15)
                    await turns()
                assert await client.request("Kit.echo", 2) == 2

        run(main())
    finally:
        stop.set()
        thread.join(5)


def test_a_large_message_that_stops_half_way_ends_the_connection(run):
    async def main():
        for options in ({"heartbeat": None}, {"heartbeat": 5}):
            timeouts = quick(message=0.05, **options)
            async with proxied_pair(Kit(), server=timeouts, client=quick(**options)) as (server, client, proxy):
                proxy.up.limit(300_000, "stop")
                call = client.request("Kit.digest", bytes(900_000))
                with pytest.raises(rpcproto.ConnectionLost, match=r"of its message came, then none for 0\.05 s"):
                    await call
                await poll(lambda: not server.peers)

    run(main())


# -- Greetings ---------------------------------------------------------------------------------------------------------


@asynccontextmanager
async def fake_server(answer):
    """A server that sends ``answer`` to whoever connects, and keeps the connection open."""
    writers = []

    async def talk(reader, writer):
        writers.append(writer)
        writer.write(answer)
        await reader.read()  # until the other end has closed
        writer.close()

    server = await asyncio.start_server(talk, "127.0.0.1", 0)
    try:
        yield f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
    finally:
        server.close()
        for writer in writers:
            writer.close()
        await server.wait_closed()
        await turns(10)


def greeting(role=Role.ACCEPTOR, **changes):
    fields = {
        "role": role,
        "incarnation": 1,
        "max_frame": 1 << 20,
        "max_message": 1 << 30,
        "call_window": 1 << 20,
        "connection_window": 8 << 20,
        "max_running": 10,
        "silence_ms": 0,
    }
    return Greeting(**{**fields, **changes}).encode()


ANSWERS = {
    "nothing": (b"", "no greeting within 0.05 s"),
    "half a greeting": (greeting()[:40], "no greeting within 0.05 s"),
    "HTTP": (b"HTTP/1.1 400 Bad Request\r\nConnection: close\r\n\r\n", "rpcproto"),
    "TLS": (b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(100), "rpcproto"),
    "SSH": (b"SSH-2.0-OpenSSH_9.6\r\n", "rpcproto"),
    "garbage": (bytes(range(256)) * 256, "rpcproto"),
    "another version": (greeting()[:8] + b"\x02" + greeting()[9:], "version"),
    "a must-capability": (greeting()[:12] + b"\x01\0\0\0" + greeting()[16:], "capabilit"),
    "the same role": (greeting(Role.INITIATOR), "role"),
    "another mechanism": (greeting()[:11] + b"\x01" + greeting()[12:], "shared secret"),
    "an unknown mechanism": (greeting()[:11] + b"\x09" + greeting()[12:], "mechanism 9"),
    "an absurd limit": (greeting()[:20] + b"\0\0\0\0" + greeting()[24:], "frame"),
}


@pytest.mark.parametrize("name", ANSWERS)
def test_row_1_row_3_connecting_to_what_is_no_peer(run, name):
    answer, text = ANSWERS[name]
    assert len(greeting()) == GREETING_SIZE

    async def main():
        async with fake_server(answer) as address:
            start = time.monotonic()
            with pytest.raises(rpcproto.ConnectFailed) as caught:
                await rpcproto.connect(address, **quick())
            assert time.monotonic() - start < 2
            assert str(caught.value).startswith(address)
            assert caught.value.address == address
            assert text in str(caught.value)

    run(main())


def test_a_greeting_of_a_higher_minor_version_and_unknown_may_bits_is_accepted(run):
    data = bytearray(greeting())
    data[9] = 7
    data[16:20] = b"\xff\xff\xff\xff"
    data[56:64] = b"reserved"

    async def main():
        async with fake_server(bytes(data)) as address:
            async with rpcproto.connect(address, **quick(heartbeat=None)) as client:
                assert not client.closed
                await client.close(0)

    run(main())


@pytest.mark.parametrize("sent", [b"", greeting(Role.INITIATOR)[:63], b"GET / HTTP/1.1\r\n\r\n", bytes(1000)])
def test_row_1_a_server_closes_on_what_is_no_peer(run, sent):
    async def main():
        async with rpcproto.serve(Kit(), "tcp://127.0.0.1:0", **quick()) as server:
            host, port = server.address.removeprefix("tcp://").split(":")
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(sent)
            got = await asyncio.wait_for(reader.read(), 5)
            assert got[:8] == greeting()[:8]
            assert len(got) < 64 + 16 + 1032
            writer.close()
            await writer.wait_closed()
            assert server.peers == []
            async with rpcproto.connect(server.address) as client:
                assert await client.request("Kit.echo", 1) == 1

    run(main())


def test_connections_that_say_nothing_do_not_keep_others_out(run):
    async def main():
        async with rpcproto.serve(Kit(), "tcp://127.0.0.1:0", **quick(greeting=0.3)) as server:
            host, port = server.address.removeprefix("tcp://").split(":")
            silent = [socket.create_connection((host, int(port))) for _ in range(50)]
            try:
                async with rpcproto.connect(server.address) as client:
                    assert await client.request("Kit.echo", 1) == 1
                    assert len(server.peers) == 1
            finally:
                for sock in silent:
                    sock.close()

    run(main())


def test_nobody_listens(run, tmp_path):
    async def main():
        with socket.create_server(("127.0.0.1", 0)) as sock:
            port = sock.getsockname()[1]
        for address in (f"tcp://127.0.0.1:{port}", f"unix://{tmp_path}/absent", "inproc://absent"):
            with pytest.raises(rpcproto.ConnectFailed, match="absent" if "absent" in address else str(port)):
                await rpcproto.connect(address)

    run(main())
