from __future__ import annotations

import asyncio
import logging
import os
import resource
import socket
from contextlib import contextmanager

import pytest

from rpcproto.errors import ConfigurationError
from rpcproto.transports import _sockets, connect, listen
from rpcproto.transports._sockets import SocketListener, adopt, check_given, reason
from tests.transports.peers import Accepting, BufferedPeer, PlainPeer


@contextmanager
def no_descriptors():
    """The system gives this process no more descriptors."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    probe = os.dup(0)  # the lowest free number
    os.close(probe)
    resource.setrlimit(resource.RLIMIT_NOFILE, (probe, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


async def close(listener, *protocols):
    listener.close()
    await listener.wait_closed()
    for protocol in protocols:
        protocol.transport.close()
        await protocol.lost()


def test_a_burst_is_accepted_in_several_turns(run, monkeypatch):
    monkeypatch.setattr(_sockets, "_BURST", 2)

    async def main():
        accepting = Accepting()
        listener = await listen("tcp://127.0.0.1:0", accepting)
        ends = await asyncio.gather(*(connect(listener.address, PlainPeer, timeout=10) for _ in range(7)))
        await accepting.peer(6)
        await close(listener, *(protocol for _, protocol in ends))
        for peer in accepting.peers:
            await peer.lost()

    run(main())


def test_without_descriptors_connections_wait(run, monkeypatch, caplog):
    monkeypatch.setattr(_sockets, "_RETRY", 0.001)
    caplog.set_level(logging.WARNING, "rpcproto")

    async def main():
        accepting = Accepting(echo=True)
        listener = await listen("tcp://127.0.0.1:0", accepting)
        first, before = await connect(listener.address, PlainPeer, timeout=10)
        await accepting.peer()
        with socket.create_connection((listener.address.host, listener.address.port)) as client, no_descriptors():
            while not caplog.records:
                await asyncio.sleep(0)
            first.write(b"x")
            assert await before.receive(1) == b"x"  # those that were accepted live on
            assert len(accepting.peers) == 1
            retry = dict(listener._retries)
            while listener._retries == retry or not listener._retries:  # one more attempt, which is not told again
                await asyncio.sleep(0)
        assert client.fileno() == -1
        second = await accepting.peer(1)
        await second.lost()
        await close(listener, before)
        await accepting.peers[0].lost()

    run(main())
    assert "cannot accept on <SocketListener tcp://127.0.0.1:" in caplog.text
    assert "Too many open files; trying again every 0.001 s" in caplog.text
    assert len(caplog.records) == 1


def test_a_listener_can_be_closed_while_it_waits_for_descriptors(run, caplog):
    async def main():
        listener = await listen("tcp://127.0.0.1:0", Accepting())
        with socket.create_connection((listener.address.host, listener.address.port)):
            with no_descriptors():
                while not caplog.records:
                    await asyncio.sleep(0)
            await close(listener)

    run(main())


def test_a_failing_factory_costs_one_connection(run):
    def factory():
        if not run.errors:
            raise RuntimeError("not this one")
        return accepting()

    accepting = Accepting()

    async def main():
        listener = await listen("tcp://127.0.0.1:0", factory)
        _, refused = await connect(listener.address, PlainPeer, timeout=10)
        await refused.lost()
        transport, _ = await connect(listener.address, PlainPeer, timeout=10)
        peer = await accepting.peer()
        await close(listener, transport.get_protocol())
        await peer.lost()

    run(main())
    [error] = run.errors
    assert "no protocol for a connection accepted by <SocketListener tcp://127.0.0.1:" in error["message"]
    assert str(error["exception"]) == "not this one"
    run.errors.clear()


def test_accepted_connections_do_not_see_each_others_context(run):
    import contextvars

    name = contextvars.ContextVar("name", default="nobody")
    seen = []

    class Named(PlainPeer):
        def connection_made(self, transport):
            seen.append(name.get())
            name.set("somebody")
            super().connection_made(transport)

    async def main():
        name.set("listener")
        accepting = Accepting(Named)
        listener = await listen("tcp://127.0.0.1:0", accepting)
        name.set("later")
        for index in range(2):
            _, protocol = await connect(listener.address, PlainPeer, timeout=10)
            peer = await accepting.peer(index)
            protocol.transport.close()
            await protocol.lost()
            await peer.lost()
        await close(listener)

    run(main())
    assert seen == ["listener", "listener"]


@pytest.mark.parametrize("family", [socket.AF_UNIX, socket.AF_INET])
@pytest.mark.parametrize("kind", [PlainPeer, BufferedPeer])
def test_a_connected_socket_is_adopted(run, family, kind):
    async def main():
        if family == socket.AF_UNIX:
            one, other = socket.socketpair()
        else:
            with socket.create_server(("127.0.0.1", 0)) as server:
                one = socket.create_connection(server.getsockname())
                other, _ = server.accept()
        one.setblocking(False)
        _, protocol = await adopt(one, kind)
        with other:
            other.sendall(b"hello")
            assert await protocol.receive(5) == b"hello"
        await protocol.lost()
        assert one.fileno() == -1

    run(main())


def test_a_socket_that_cannot_be_adopted_is_closed(run):
    def broken():
        raise RuntimeError("no protocol")

    async def main():
        one, other = socket.socketpair()
        with other:
            with pytest.raises(RuntimeError, match="no protocol"):
                await adopt(one, broken)
        assert one.fileno() == -1

    run(main())


@pytest.mark.parametrize("turns", range(1, 5))
def test_a_cancelled_adoption_still_tells_the_protocol(run, turns):
    async def main():
        one, other = socket.socketpair()
        one.setblocking(False)
        made = []
        task = asyncio.ensure_future(adopt(one, lambda: made.append(PlainPeer()) or made[0]))
        for _ in range(turns):
            await asyncio.sleep(0)
        finished = task.done()
        task.cancel()
        with other:
            try:
                transport, _ = await task
                transport.close()
            except asyncio.CancelledError:
                assert not finished
            for protocol in made:
                await protocol.lost()
                assert protocol.calls == ["made", "lost"]
        await asyncio.sleep(0)
        assert one.fileno() == -1

    run(main())


def test_listeners_show_their_state(run):
    async def main():
        listener = await listen("tcp://127.0.0.1:0", Accepting())
        assert isinstance(listener, SocketListener)
        assert repr(listener) == f"<SocketListener {listener.address}>"
        await close(listener)
        assert repr(listener) == f"<SocketListener closed {listener.address}>"

    run(main())


def test_a_given_socket_is_checked():
    with socket.socket() as sock:
        with pytest.raises(ConfigurationError, match="is not bound"):
            check_given(sock, "tcp", [socket.AF_INET])
        sock.bind(("127.0.0.1", 0))
        check_given(sock, "tcp", [socket.AF_INET])
        with pytest.raises(ConfigurationError, match="unix:// cannot listen on"):
            check_given(sock, "unix", [socket.AF_UNIX])


def test_reasons_are_the_systems_words():
    assert reason(ConnectionRefusedError(111, "Connection refused")) == "Connection refused"
    assert reason(OSError("in words")) == "in words"
    assert reason(TimeoutError()) == "TimeoutError"
