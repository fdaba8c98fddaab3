"""What every transport does alike with a connection: one body of tests, run on each of them."""

from __future__ import annotations

import asyncio
import os

import pytest

from rpcproto.transports import (
    describe_peer,
    direct_descriptor,
    end_writing,
    is_encrypted,
    is_local_peer,
    parse,
    peer_certificate,
)
from tests.transports.peers import Accepting, BufferedPeer, PlainPeer, close, connect, listen, same

MANY = bytes(range(256)) * 4096 * 3  # 3 MiB: more than the buffers of a socket pair take at once

kinds = pytest.mark.parametrize("kind", [PlainPeer, BufferedPeer])


def descriptors():
    """The open descriptors of this process, without the one that lists them."""
    return {int(number) for number in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{number}")}


@kinds
@pytest.mark.parametrize("size", [1, 998, 999, 1000, len(MANY)])
def test_an_echo_comes_back_whole(run, place, kind, size):
    async def main():
        accepting = Accepting(kind, echo=True)
        listener = await listen(place(), accepting)
        transport, protocol = await connect(str(listener.address), kind, timeout=10)
        transport.write(MANY[:size])
        assert same(await protocol.receive(size), MANY[:size])
        await close(transport, listener)
        assert await (await accepting.peer()).lost() is None

    run(main())


@kinds
def test_writelines_keeps_order(run, place, kind):
    async def main():
        accepting = Accepting(kind)
        listener = await listen(place(), accepting)
        transport, _ = await connect(listener.address, kind, timeout=10)
        transport.writelines([b"one ", bytearray(b"two "), memoryview(b"three "), b"", MANY])
        transport.write(b" end")
        peer = await accepting.peer()
        expected = b"one two three " + MANY + b" end"
        assert same(await peer.receive(len(expected)), expected)
        await close(transport, listener)
        await peer.lost()

    run(main())


@kinds
def test_connection_made_comes_first_and_lost_last(run, place, kind):
    async def main():
        accepting = Accepting(kind)
        listener = await listen(place(), accepting)
        transport, protocol = await connect(listener.address, kind, timeout=10)
        assert protocol.calls == ["made"]
        assert protocol.transport is transport
        assert transport.get_protocol() is protocol
        assert not transport.is_closing()
        transport.close()
        assert transport.is_closing()
        assert await protocol.lost() is None
        peer = await accepting.peer()
        await peer.lost()
        assert protocol.calls == ["made", "lost"] or (
            is_encrypted(transport) and protocol.calls[0::2] == ["made", "lost"]
        )
        assert peer.calls == ["made", "eof", "lost"]
        await close(listener)

    run(main())


@kinds
def test_a_half_closed_connection_still_carries_the_answer(run, place, kind):
    async def main():
        accepting = Accepting(kind, keep_open=True)
        listener = await listen(place(), accepting)
        transport, protocol = await connect(listener.address, kind, timeout=10)
        transport.write(b"question")
        end_writing(transport)
        peer = await accepting.peer()
        await peer.until(lambda: peer.eof)
        assert peer.data == b"question"
        if is_encrypted(transport):
            await close(transport, listener)
            return
        peer.transport.write(MANY)
        peer.transport.close()
        assert same(await protocol.receive(len(MANY)), MANY)
        assert await protocol.lost() is None
        assert await peer.lost() is None
        await close(listener)

    run(main())


@kinds
def test_close_delivers_what_was_written(run, place, kind):
    async def main():
        accepting = Accepting(kind)
        listener = await listen(place(), accepting)
        transport, protocol = await connect(listener.address, kind, timeout=10)
        transport.write(MANY)
        transport.close()
        peer = await accepting.peer()
        assert await peer.lost() is None
        assert same(peer.data, MANY)
        assert await protocol.lost() is None
        await close(listener)

    run(main())


def test_abort_ends_both_ends(run, place):
    async def main():
        accepting = Accepting(keep_open=False)
        listener = await listen(place(), accepting)
        transport, protocol = await connect(listener.address, PlainPeer, timeout=10)
        peer = await accepting.peer()
        peer.transport.pause_reading()
        transport.write(MANY)
        transport.abort()
        assert await protocol.lost() is None
        peer.transport.resume_reading()
        error = await peer.lost()
        assert error is None or isinstance(error, ConnectionError)
        assert len(peer.data) < len(MANY)
        await close(listener)

    run(main())


def test_nothing_is_called_after_an_abort(run, place):
    async def main():
        accepting = Accepting()
        listener = await listen(place(), accepting)
        transport, protocol = await connect(listener.address, PlainPeer, timeout=10)
        peer = await accepting.peer()
        peer.transport.write(b"late")
        transport.abort()
        transport.abort()
        transport.close()
        await protocol.lost()
        await peer.lost()
        assert protocol.data == b""
        assert protocol.calls == ["made", "lost"]
        await close(listener)

    run(main())


@kinds
def test_a_paused_reader_pauses_the_writer(run, place, kind):
    async def main():
        accepting = Accepting(kind)
        listener = await listen(place(), accepting)
        transport, protocol = await connect(listener.address, kind, timeout=10)
        transport.set_write_buffer_limits(65536 if is_encrypted(transport) else 0, 0)
        peer = await accepting.peer()
        peer.transport.pause_reading()
        written = 0
        while not protocol.writing_paused:
            while not protocol.writing_paused:
                transport.write(MANY[:65536])
                written += 65536
            assert transport.get_write_buffer_size() > 0
            for _ in range(5):
                await asyncio.sleep(0)
            assert protocol.writing_paused or is_encrypted(transport)  # whose reader holds some before it pauses
        before = len(peer.data)
        peer.transport.resume_reading()
        await protocol.until(lambda: not protocol.writing_paused)
        assert transport.get_write_buffer_size() == 0
        await peer.receive(written - before)
        await close(transport, listener)
        await peer.lost()

    run(main())


def test_a_peer_that_is_gone_ends_the_writer(run, place):
    async def main():
        accepting = Accepting(keep_open=True)
        listener = await listen(place(), accepting)
        transport, protocol = await connect(listener.address, PlainPeer, timeout=10)
        peer = await accepting.peer()
        transport.close()
        await protocol.lost()
        await peer.until(lambda: peer.eof or peer.is_lost)
        while not peer.is_lost:
            peer.transport.write(b"anybody there?")
            await asyncio.sleep(0)
        assert isinstance(peer.error, ConnectionError) or is_encrypted(transport)
        await close(listener)

    run(main())


def test_input_that_nobody_read_resets_the_peer(run, place):
    async def main():
        accepting = Accepting(keep_open=True)
        listener = await listen(place(), accepting)
        transport, protocol = await connect(listener.address, PlainPeer, timeout=10)
        protocol.keep_open = True
        peer = await accepting.peer()
        peer.transport.pause_reading()
        transport.write(b"x" * 1000)
        for _ in range(3):
            await asyncio.sleep(0)
        peer.transport.close()
        await peer.lost()
        assert isinstance(await protocol.lost(), ConnectionResetError) or is_encrypted(transport)
        await close(listener)

    run(main())


def test_both_ends_know_each_other(run, place):
    async def main():
        accepting = Accepting()
        listener = await listen(place(), accepting)
        transport, _ = await connect(listener.address, PlainPeer, timeout=10)
        peer = await accepting.peer()
        assert describe_peer(transport) == str(listener.address)
        assert parse(describe_peer(peer.transport)).scheme == listener.address.scheme
        assert is_local_peer(transport)
        assert is_local_peer(peer.transport)
        plain = listener.address.scheme not in ("inproc", "tls")
        assert is_encrypted(transport) == (listener.address.scheme == "tls")
        assert (peer_certificate(peer.transport) is None) == (listener.address.scheme != "tls")
        assert (direct_descriptor(transport) >= 0) == plain
        assert (direct_descriptor(peer.transport) >= 0) == plain
        await close(transport, listener)
        await peer.lost()
        assert direct_descriptor(transport) == -1

    run(main())


def test_descriptors_are_closed_on_exec(run, place):
    async def main():
        before = descriptors()
        accepting = Accepting()
        listener = await listen(place(), accepting)
        transport, _ = await connect(listener.address, PlainPeer, timeout=10)
        peer = await accepting.peer()
        ours = descriptors() - before
        sockets = [number for number in ours if os.readlink(f"/proc/self/fd/{number}").startswith("socket:")]
        assert len(sockets) == (3 if listener.address.scheme != "inproc" else 0)
        assert not any(os.get_inheritable(number) for number in ours)
        await close(transport, listener)
        await peer.lost()

    run(main())
