from __future__ import annotations

import os
import socket
import threading

import pytest

from rpcproto.errors import ConfigurationError, ConnectFailed
from rpcproto.transports import connect, inproc, listen
from tests.conftest import loop_factory
from tests.transports.peers import Accepting, PlainPeer


@pytest.fixture(autouse=True)
def _nothing_left():
    yield
    assert not inproc._listeners


def test_the_other_end_is_made_in_a_later_turn(run):
    async def main():
        accepting = Accepting()
        listener = await listen("inproc://x", accepting)
        transport, protocol = await connect("inproc://x", PlainPeer, timeout=10)
        assert not accepting.peers
        transport.write(b"early")
        peer = await accepting.peer()
        assert await peer.receive(5) == b"early"
        listener.close()
        transport.close()
        await protocol.lost()
        await peer.lost()

    run(main())


def test_what_connected_before_the_close_is_accepted(run):
    async def main():
        accepting = Accepting()
        listener = await listen("inproc://x", accepting)
        transport, protocol = await connect("inproc://x", PlainPeer, timeout=10)
        listener.close()
        await listener.wait_closed()
        [peer] = accepting.peers
        transport.close()
        await protocol.lost()
        await peer.lost()

    run(main())


def test_a_failing_factory_resets_the_other_end(run):
    def broken():
        raise RuntimeError("no protocol")

    async def main():
        listener = await listen("inproc://x", broken)
        _, protocol = await connect("inproc://x", PlainPeer, timeout=10)
        assert isinstance(await protocol.lost(), ConnectionResetError)
        listener.close()

    run(main())
    [error] = run.errors
    assert str(error["exception"]) == "no protocol"
    run.errors.clear()


def test_another_loop_is_refused(run):
    errors = []

    def elsewhere():
        loop = loop_factory()()
        try:
            loop.run_until_complete(connect("inproc://x", PlainPeer, timeout=10))
        except ConfigurationError as exc:
            errors.append(str(exc))
        finally:
            loop.close()

    async def main():
        listener = await listen("inproc://x", Accepting())
        thread = threading.Thread(target=elsewhere)
        thread.start()
        thread.join()
        listener.close()

    run(main())
    assert len(errors) == 1
    assert "inproc://x belongs to another event loop" in errors[0]
    assert "use unix:// or tcp://" in errors[0]


def test_a_name_of_a_closed_loop_is_free(run):
    loop = loop_factory()()
    forgotten = loop.run_until_complete(listen("inproc://x", Accepting()))
    loop.close()

    async def main():
        with pytest.raises(ConnectFailed, match="nobody listens there in this process"):
            await connect("inproc://x", PlainPeer, timeout=10)
        listener = await listen("inproc://x", Accepting())
        forgotten.close()
        transport, protocol = await connect("inproc://x", PlainPeer, timeout=10)  # the name was not taken away
        listener.close()
        transport.close()
        await protocol.lost()

    run(main())


def test_a_child_process_has_no_names(run, monkeypatch):
    async def main():
        listener = await listen("inproc://x", Accepting())
        parent = os.getpid()
        monkeypatch.setattr(os, "getpid", lambda: parent + 1)
        with pytest.raises(ConnectFailed):
            await connect("inproc://x", PlainPeer, timeout=10)
        own = await listen("inproc://x", Accepting())
        own.close()
        monkeypatch.undo()
        assert inproc._listeners
        listener.close()

    run(main())


def test_a_socket_makes_no_sense(run):
    with socket.socket() as sock, pytest.raises(ConfigurationError, match="no use for a socket"):
        run(listen("inproc://x", Accepting(), sock=sock))


def test_listeners_have_a_repr(run):
    async def main():
        listener = await listen("inproc://x", Accepting())
        assert repr(listener) == "<InprocListener inproc://x>"
        listener.close()

    run(main())
