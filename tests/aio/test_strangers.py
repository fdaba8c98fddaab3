"""What has proved nothing gets nothing, and not for long: rows 48 and 52 of the fault plan, end to end.

``tests/connection/test_authentication_breaches.py`` has each frame at each moment.
"""

from __future__ import annotations

import asyncio

import pytest

import rpcproto
from rpcproto.wire.spec import GREETING_SIZE, ErrorCode, FrameType, Role
from tests.aio import _hostile
from tests.aio._ends import Kit, poll
from tests.wire import frames

SECRET = "correct horse battery staple"
WRONG_PROOF = "wrong proof of the shared secret: do both sides have the same one?"

pytestmark = pytest.mark.smoke


async def connect(address):
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    return await asyncio.open_connection(host, int(port))


def hello(role=Role.INITIATOR):
    return frames.greeting(role, mechanism=1)


async def ask(address, data):
    """Send ``data`` to a server and read what it says, in a thread."""
    return await asyncio.get_running_loop().run_in_executor(None, _hostile.flood, address, data)


@pytest.mark.parametrize(
    "data",
    [
        frames.auth(1, bytes(31)),
        frames.auth(2, bytes(32)),
        frames.auth(1, bytes(32)) * 9,
        frames.auth(1, bytes(32)) + frames.auth(2, bytes(32)),
        frames.auth(1, bytes(16 * 1024 + 1)),
        frames.HEADER.pack(1 << 20, FrameType.REQUEST, 0x17, 1, 1),
        frames.opening(1, b"x", name="call"),
        frames.auth(1, bytes(32)) + frames.opening(1, b"x", name="call"),
        frames.ping(),
        frames.credit(1 << 20),
        frames.goaway(),
        frames.opening(1, b"x", name="call") * 10_000,
    ],
    ids=["short", "step", "nine", "wrong", "16 KiB", "1 MiB", "call", "call late", "ping", "credit", "goaway", "flood"],
)
def test_row_48_row_52_what_proves_nothing_is_turned_away(run, data):
    async def main():
        called = []
        async with rpcproto.serve({"call": called.append}, "tcp://127.0.0.1:0", secret=SECRET) as server:
            found = await ask(server.address, hello() + data)
            code, _ = _hostile.goaway(found)
            assert code == ErrorCode.AUTHENTICATION
            assert [frame.kind for frame in found] in ([FrameType.GOAWAY], [FrameType.AUTH, FrameType.GOAWAY])
            assert sum(16 + len(frame.payload) for frame in found) + GREETING_SIZE < 4096
            await poll(lambda: not server._links)
        assert called == []

    run(main())


@pytest.mark.parametrize("sent", [b"", hello()[:40], hello(), hello() + frames.auth(1, bytes(32))])
@pytest.mark.parametrize("seconds", [10, 3])
def test_row_52_ten_seconds_for_greeting_and_proof(run, sent, seconds):
    """Counted from the connecting, so that dripping bytes win no time; the test lets the time pass by saying so."""

    async def main():
        options = {"secret": SECRET, "timeouts": rpcproto.Timeouts(greeting=seconds)}
        async with rpcproto.serve(Kit(), "tcp://127.0.0.1:0", **options) as server:
            reader, writer = await connect(server.address)
            writer.write(sent)
            await reader.readexactly(GREETING_SIZE)
            (link,) = server._links
            await poll(lambda: link.decoder.bytes_received == len(sent))
            begun = link.heard
            link.session.on_time(begun + seconds - 0.001)
            assert link.connection.end is None
            link.session.on_time(begun + seconds)
            found = frames.split(await reader.read())
            code, text = _hostile.goaway(found)
            if len(sent) < GREETING_SIZE:
                assert (code, text) == (ErrorCode.GREETING, f"no greeting within {seconds} s (Timeouts.greeting)")
            else:
                assert (code, text) == (
                    ErrorCode.AUTHENTICATION,
                    f"no proof of the shared secret within {seconds} s (Timeouts.greeting)",
                )
            writer.close()
            await writer.wait_closed()

    run(main())


def test_row_52_a_client_waits_no_longer_for_a_server(run):
    """A server that greets and then says nothing."""

    async def main():
        async def greet(reader, writer):
            writer.write(hello(Role.ACCEPTOR))
            await reader.read()
            writer.close()

        silent = await asyncio.start_server(greet, "127.0.0.1", 0)
        address = f"tcp://127.0.0.1:{silent.sockets[0].getsockname()[1]}"
        timeouts = rpcproto.Timeouts(greeting=0.05, linger=0.05)
        with pytest.raises(rpcproto.ConnectFailed, match="no proof of the shared secret within 0"):
            await rpcproto.connect(address, secret=SECRET, timeouts=timeouts)
        silent.close()
        await silent.wait_closed()

    run(main())


def test_row_42_closing_while_proving(run):
    """The proofs never come; close() does not wait for them."""

    async def main():
        options = {"secret": SECRET}
        async with rpcproto.serve(Kit(), "tcp://127.0.0.1:0", **options) as server:
            reader, writer = await connect(server.address)
            writer.write(hello())
            await reader.readexactly(GREETING_SIZE + 48)
            await asyncio.wait_for(server.close(), 5)
            assert await reader.read() == b"", "nothing is owed to a stranger"
            writer.close()

    run(main())


def test_row_48_a_recorded_exchange_replayed(run):
    """What a client sent once does not open a second connection."""

    async def main():
        async with rpcproto.serve(Kit(), "tcp://127.0.0.1:0", secret=SECRET) as server:
            recorded = await record(server.address)
            reader, writer = await connect(server.address)
            writer.write(recorded)
            code, text = _hostile.goaway(frames.split((await reader.read())[GREETING_SIZE:]))
            assert (code, text) == (ErrorCode.AUTHENTICATION, WRONG_PROOF)
            writer.close()
            await poll(lambda: not server._links)

    run(main())


async def record(address):
    """All that a client sends that connects to ``address`` and makes a call, by way of a tap."""
    recorded = bytearray()
    over = asyncio.Event()

    async def copy(source, target, sink):
        while data := await source.read(65536):
            sink.extend(data)
            target.write(data)
        target.close()

    async def tap(reader, writer):
        up_reader, up_writer = await connect(address)
        await asyncio.gather(copy(reader, up_writer, recorded), copy(up_reader, writer, bytearray()))
        over.set()

    listener = await asyncio.start_server(tap, "127.0.0.1", 0)
    async with rpcproto.connect(f"tcp://127.0.0.1:{listener.sockets[0].getsockname()[1]}", secret=SECRET) as client:
        assert await client.request("Kit.echo", 1) == 1
    await over.wait()
    listener.close()
    await listener.wait_closed()
    return bytes(recorded)
