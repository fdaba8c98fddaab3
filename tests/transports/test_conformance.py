"""What every transport does alike: one body of tests, run on each of them."""

from __future__ import annotations

import asyncio
import contextvars
import os

import pytest

from rpcproto.errors import ConnectFailed, RpcError
from rpcproto.transports import Listener, connect, describe_peer, direct_descriptor, is_local_peer, listen, parse
from tests.transports.peers import Accepting, BufferedPeer, PlainPeer

MANY = bytes(range(256)) * 4096 * 3  # 3 MiB: more than the buffers of a socket pair take at once

kinds = pytest.mark.parametrize("kind", [PlainPeer, BufferedPeer])


def same(data, expected):
    """Compare without pytest's explanation, which takes minutes for megabytes."""
    return data == expected


def descriptors():
    """The open descriptors of this process, without the one that lists them."""
    return {int(number) for number in os.listdir("/proc/self/fd") if os.path.lexists(f"/proc/self/fd/{number}")}


async def close(*items):
    """Close transports, wait until their protocols know, and close listeners."""
    for item in items:
        item.close()
    for item in items:
        if isinstance(item, Listener):
            await item.wait_closed()
        elif (protocol := item.get_protocol()) is not None:
            await protocol.lost()


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
        assert protocol.calls == ["made", "lost"]
        assert peer.calls == ["made", "eof", "lost"]
        await close(listener)

    run(main())


@kinds
def test_a_half_closed_connection_still_carries_the_answer(run, place, kind):
    async def main():
        accepting = Accepting(kind, keep_open=True)
        listener = await listen(place(), accepting)
        transport, protocol = await connect(listener.address, kind, timeout=10)
        assert transport.can_write_eof()
        transport.write(b"question")
        transport.write_eof()
        peer = await accepting.peer()
        await peer.until(lambda: peer.eof)
        assert peer.data == b"question"
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
        transport.set_write_buffer_limits(0, 0)
        peer = await accepting.peer()
        peer.transport.pause_reading()
        written = 0
        while not protocol.writing_paused:
            transport.write(MANY[:65536])
            written += 65536
        assert transport.get_write_buffer_size() > 0
        for _ in range(5):
            await asyncio.sleep(0)
        assert protocol.writing_paused
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
        assert isinstance(peer.error, ConnectionError)
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
        assert isinstance(await protocol.lost(), ConnectionResetError)
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
        plain = listener.address.scheme != "inproc"
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


def test_two_listeners_do_not_mix(run, place):
    async def main():
        first, second = Accepting(), Accepting()
        one, other = await listen(place(), first), await listen(place(), second)
        assert one.address != other.address
        assert one.addresses == (one.address,)
        transport, _ = await connect(other.address, PlainPeer, timeout=10)
        peer = await second.peer()
        assert not first.peers
        await close(transport, one, other)
        await peer.lost()

    run(main())


def test_many_connections_at_once(run, place):
    async def main():
        accepting = Accepting(echo=True)
        listener = await listen(place(), accepting)
        made = await asyncio.gather(*(connect(listener.address, BufferedPeer, timeout=10) for _ in range(60)))
        for number, (transport, _) in enumerate(made):
            transport.write(b"%d" % number)
        for number, (_, protocol) in enumerate(made):
            assert await protocol.receive(len(b"%d" % number)) == b"%d" % number
        await close(*(transport for transport, _ in made), listener)
        for peer in accepting.peers:
            await peer.lost()

    run(main())


def test_connections_outlive_their_listener(run, place):
    async def main():
        accepting = Accepting(echo=True)
        listener = await listen(place(), accepting)
        transport, protocol = await connect(listener.address, PlainPeer, timeout=10)
        await close(listener)
        await close(listener)
        transport.write(b"still here")
        assert await protocol.receive(10) == b"still here"
        with pytest.raises(ConnectFailed):
            await connect(listener.address, PlainPeer, timeout=10)
        await close(transport)
        await (await accepting.peer()).lost()

    run(main())


def test_an_address_can_be_used_again(run, place):
    async def main():
        listener = await listen(place(), Accepting())
        await close(listener)
        again = await listen(listener.address, Accepting())
        assert again.address == listener.address
        await close(again)

    run(main())


def test_an_address_in_use_is_refused(run, place):
    async def main():
        accepting = Accepting()
        listener = await listen(place(), accepting)
        with pytest.raises(ConnectFailed, match=r"cannot listen on .* (in use|another server)") as caught:
            await listen(listener.address, Accepting())
        assert caught.value.address == str(listener.address)
        transport, _ = await connect(listener.address, PlainPeer, timeout=10)  # the first one was not harmed
        await close(transport, listener)
        for peer in accepting.peers:
            await peer.lost()

    run(main())


def test_connecting_to_nothing_says_so(run, place):
    async def main():
        listener = await listen(place(), Accepting())
        address = listener.address
        await close(listener)
        with pytest.raises(ConnectFailed) as caught:
            await connect(address, PlainPeer, timeout=10)
        assert caught.value.address == str(address)
        assert str(address) in str(caught.value)
        if address.scheme != "inproc":
            assert isinstance(caught.value.__cause__, OSError)

    run(main())


@pytest.mark.parametrize("turns", range(7))
def test_connecting_can_be_cancelled_at_any_turn(run, place, turns):
    async def main():
        accepting = Accepting()
        listener = await listen(place(), accepting)
        made = []
        task = asyncio.ensure_future(connect(listener.address, lambda: made.append(PlainPeer()) or made[0], timeout=10))
        for _ in range(turns):
            await asyncio.sleep(0)
        task.cancel()
        try:
            transport, _ = await task
        except asyncio.CancelledError:
            pass
        else:
            await close(transport)
        for protocol in made:
            if protocol.transport is not None:
                await protocol.lost()
        await close(listener)
        for peer in accepting.peers:
            await peer.lost()

    run(main())


def test_a_listener_closed_while_connections_arrive_makes_no_more(run, place):
    async def main():
        accepting = Accepting()
        listener = await listen(place(), accepting)
        tasks = [asyncio.ensure_future(connect(listener.address, PlainPeer, timeout=10)) for _ in range(5)]
        await asyncio.sleep(0)
        listener.close()
        await listener.wait_closed()
        made = len(accepting.peers)
        assert all(peer.calls for peer in accepting.peers)
        for task in tasks:
            try:
                transport, _ = await task
            except RpcError:
                continue
            await close(transport)
        assert len(accepting.peers) == made
        for peer in accepting.peers:
            await peer.lost()

    run(main())


@pytest.mark.parametrize("how", ["close", "abort"])
def test_closing_in_connection_made(run, place, how):
    class Shy(PlainPeer):
        def connection_made(self, transport):
            super().connection_made(transport)
            getattr(transport, how)()

    async def main():
        accepting = Accepting(Shy)
        listener = await listen(place(), accepting)
        transport, protocol = await connect(listener.address, PlainPeer, timeout=10)
        await protocol.lost()
        peer = await accepting.peer()
        assert await peer.lost() is None
        assert transport.is_closing()

        accepting = Accepting()
        other = await listen(place(), accepting)
        try:
            _, shy = await connect(other.address, Shy, timeout=10)
            await shy.lost()
        except RpcError:
            pass  # uvloop says that the connection is gone before it was handed over
        await close(listener, other)
        for peer in accepting.peers:
            await peer.made()
            await peer.lost()

    run(main())


def test_a_failing_factory_fails_the_connect(run, place):
    async def main():
        accepting = Accepting()
        listener = await listen(place(), accepting)

        def broken():
            raise RuntimeError("no protocol today")

        with pytest.raises(RuntimeError, match="no protocol today"):
            await connect(listener.address, broken, timeout=10)
        await close(listener)
        for peer in accepting.peers:
            await peer.made()
            await peer.lost()

    run(main())


def test_context_variables_of_the_writer_do_not_reach_the_reader(run, place):
    name = contextvars.ContextVar("name", default="nobody")
    seen = []

    class Curious(PlainPeer):
        def data_received(self, data):
            seen.append(name.get())
            super().data_received(data)

    async def main():
        accepting = Accepting(Curious)
        listener = await listen(place(), accepting)
        transport, _ = await connect(listener.address, PlainPeer, timeout=10)
        peer = await accepting.peer()
        name.set("writer")
        transport.write(b"?")
        await peer.receive(1)
        await close(transport, listener)
        await peer.lost()

    run(main())
    assert seen == ["nobody"]
