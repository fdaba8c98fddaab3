"""What every transport does alike in connecting and listening: one body of tests, run on each of them."""

from __future__ import annotations

import asyncio
import contextvars

import pytest

from rpcproto.errors import ConnectFailed, RpcError
from tests.transports.peers import Accepting, BufferedPeer, PlainPeer, close, connect, listen


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
