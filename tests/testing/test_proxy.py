"""Each fault of the proxy does what it says, to exactly the bytes it says."""

from __future__ import annotations

import asyncio
import time
from contextlib import asynccontextmanager

import pytest

import rpcproto
from rpcproto.testing import FaultProxy


@asynccontextmanager
async def plain():
    """A proxy with a plain client before it and a plain server behind it: the streams of both."""
    accepted = asyncio.get_running_loop().create_future()
    server = await asyncio.start_server(lambda *streams: accepted.set_result(streams), "127.0.0.1", 0)
    async with FaultProxy(f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}") as proxy:
        near = await asyncio.open_connection("127.0.0.1", int(proxy.address.rpartition(":")[2]))
        far = await accepted
        try:
            yield proxy, near, far
        finally:
            for _, writer in (near, far):
                writer.transport.abort()
            server.close()
            await server.wait_closed()
            for _ in range(5):
                await asyncio.sleep(0)


def test_bytes_go_both_ways_and_so_does_their_end(run):
    async def main():
        async with plain() as (proxy, (near_reader, near), (far_reader, far)):
            data = bytes(range(256)) * 4000
            near.write(data)
            far.write(b"back")
            assert await far_reader.readexactly(len(data)) == data
            assert await near_reader.readexactly(4) == b"back"
            assert (proxy.up.forwarded, proxy.down.forwarded) == (len(data), 4)
            near.write_eof()
            assert await far_reader.read() == b""
            far.write(b"after the end of the other direction")
            far.write_eof()
            assert await near_reader.read() == b"after the end of the other direction"

    run(main())


def test_stop_and_resume(run):
    async def main():
        async with plain() as (proxy, (_, near), (far_reader, far)):
            proxy.up.stop()
            near.write(b"held")
            far.write(b"passes")
            await proxy.down.reached(6)
            assert proxy.up.forwarded == 0
            near.write(b" back")
            proxy.up.resume()
            assert await far_reader.readexactly(9) == b"held back"

    run(main())


def test_what_is_stopped_fills_up_and_blocks_the_sender(run):
    async def main():
        async with plain() as (proxy, (_, near), (far_reader, _)):
            proxy.up.stop()
            near.write(bytes(50_000_000))
            drain = asyncio.ensure_future(near.drain())
            await asyncio.sleep(0.05)
            assert not drain.done()
            proxy.up.resume()
            assert len(await far_reader.readexactly(50_000_000)) == 50_000_000
            await drain

    run(main())


@pytest.mark.parametrize("size", [1, 7])
def test_slices(run, size):
    async def main():
        async with plain() as (proxy, (_, near), (far_reader, _)):
            proxy.up.slice = size
            near.write(b"0123456789")
            pieces = []
            while sum(map(len, pieces)) < 10:
                pieces.append(await far_reader.read(100))
            assert b"".join(pieces) == b"0123456789"
            assert proxy.up.forwarded == 10

    run(main())


def test_delay_and_rate(run):
    async def main():
        async with plain() as (proxy, (_, near), (far_reader, _)):
            proxy.up.delay = 0.03
            start = time.monotonic()
            near.write(b"late")
            assert await far_reader.readexactly(4) == b"late"
            assert time.monotonic() - start >= 0.029
            proxy.up.delay = 0
            proxy.up.rate = 100_000
            proxy.up.slice = 1_000
            start = time.monotonic()
            near.write(bytes(5_000))
            await far_reader.readexactly(5_000)
            assert time.monotonic() - start >= 0.035

    run(main())


@pytest.mark.parametrize("size", [0, 1, 9])
def test_a_limit_that_resets(run, size):
    async def main():
        async with plain() as (proxy, (near_reader, near), (far_reader, _)):
            proxy.up.limit(size)
            near.write(b"0123456789")
            with pytest.raises(ConnectionResetError):
                await near_reader.read()
            assert proxy.up.forwarded == size
            with pytest.raises(ConnectionResetError):
                while await far_reader.read(1):
                    pass

    run(main())


def test_a_limit_that_ends_one_direction(run):
    async def main():
        async with plain() as (proxy, (near_reader, near), (far_reader, far)):
            proxy.up.limit(4, "end")
            near.write(b"0123456789")
            assert await far_reader.read() == b"0123"
            near.write(b"thrown away")
            far.write(b"goes on")
            assert await near_reader.readexactly(7) == b"goes on"

    run(main())


def test_a_limit_that_stops(run):
    async def main():
        async with plain() as (proxy, (_, near), (far_reader, _)):
            proxy.up.limit(4, "stop")
            near.write(b"0123456789")
            assert await far_reader.readexactly(4) == b"0123"
            await asyncio.sleep(0.01)
            assert proxy.up.forwarded == 4
            proxy.up.resume()
            assert await far_reader.readexactly(6) == b"456789"

    run(main())


def test_half_close_and_reset_of_all(run):
    async def main():
        async with plain() as (proxy, (near_reader, near), (far_reader, _far)):
            proxy.end(proxy.down)
            assert await near_reader.read() == b""
            near.write(b"up goes on")
            assert await far_reader.readexactly(10) == b"up goes on"
            proxy.reset()
            with pytest.raises(ConnectionResetError):
                await far_reader.read()

    run(main())


def test_a_unix_target_and_none_at_all(run, tmp_path):
    async def main():
        async with rpcproto.serve({"one": lambda: 1}, f"unix://{tmp_path}/s") as server:
            async with FaultProxy(server.address) as proxy:
                async with rpcproto.connect(proxy.address) as client:
                    assert await client.request("one") == 1
        async with FaultProxy(f"unix://{tmp_path}/s") as proxy:
            with pytest.raises(rpcproto.ConnectFailed):
                await rpcproto.connect(proxy.address)
        with pytest.raises(rpcproto.ConfigurationError, match="tcp://, tls:// and unix://"):
            FaultProxy("inproc://x")

    run(main())
