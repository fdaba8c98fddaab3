"""What TLS has beyond what all transports do alike: handshakes that are given up, and ending one direction."""

from __future__ import annotations

import asyncio
import socket

import pytest

from rpcproto.errors import ConfigurationError, ConnectFailed
from rpcproto.transports import end_writing, listen, parse, secure
from rpcproto.transports.tls import TlsTransport
from tests._certificates import mutual
from tests.transports import peers
from tests.transports.peers import Accepting, BufferedPeer, PlainPeer, close, connect, same, turns

ADDRESS = "tls://127.0.0.1:0"


@pytest.mark.parametrize("pause", range(40))
def test_connecting_can_be_cancelled_at_any_turn_of_the_handshake(run, pause):
    async def main():
        accepting = Accepting()
        listener = await peers.listen(ADDRESS, accepting)
        made = []
        task = asyncio.ensure_future(connect(listener.address, lambda: made.append(PlainPeer()) or made[0], timeout=10))
        await turns(pause)
        task.cancel()
        try:
            transport, _ = await task
        except asyncio.CancelledError:
            pass
        else:
            await close(transport)
        for protocol in made:
            await protocol.lost()
        await close(listener)
        for peer in accepting.peers:
            await peer.lost()

    run(main())


@pytest.mark.parametrize("pause", range(0, 40, 3))
def test_a_listener_can_be_closed_at_any_turn_of_the_handshake(run, pause):
    async def main():
        accepting = Accepting()
        listener = await peers.listen(ADDRESS, accepting)
        connecting = asyncio.ensure_future(connect(listener.address, PlainPeer, timeout=10))
        await turns(pause)
        listener.close()
        await listener.wait_closed()
        count = len(accepting.peers)
        try:
            transport, protocol = await connecting
        except ConnectFailed:
            pass
        else:
            transport.abort()
            await protocol.lost()
        for peer in accepting.peers:
            await peer.lost()
        assert len(accepting.peers) == count

    run(main())


def test_no_protocol_is_made_for_a_handshake_that_fails(run, caplog):
    async def main():
        accepting = Accepting()
        listener = await peers.listen(ADDRESS, accepting)
        with socket.create_connection(("127.0.0.1", listener.address.port)) as plain:
            plain.send(bytes(1000))
            while not caplog.records:
                await asyncio.sleep(0)
        await close(listener)
        assert accepting.peers == []

    run(main())


def test_a_factory_that_fails_at_the_listener(run):
    def broken():
        raise RuntimeError("no protocol today")

    async def main():
        listener = await peers.listen(ADDRESS, broken)
        _, protocol = await connect(listener.address, PlainPeer, timeout=10)
        await protocol.lost()
        await close(listener)
        [context] = run.errors
        assert "no protocol for a connection accepted by" in context["message"]
        assert str(context["exception"]) == "no protocol today"
        run.errors.clear()

    run(main())


def test_a_given_socket(run):
    async def main():
        sock = socket.create_server(("127.0.0.1", 0))
        listener = await peers.listen(ADDRESS, Accepting(BufferedPeer, echo=True), sock=sock)
        assert listener.address == parse(f"tls://127.0.0.1:{sock.getsockname()[1]}")
        transport, protocol = await connect(listener.address, PlainPeer, timeout=10)
        transport.write(b"hello")
        assert await protocol.receive(5) == b"hello"
        await close(transport, listener)

    run(main())


def test_listening_needs_a_certificate(run):
    with pytest.raises(ConfigurationError, match="needs a certificate: pass ssl="):
        run(listen(ADDRESS, PlainPeer))
    with pytest.raises(ConfigurationError, match=r"tls://127\.0\.0\.1:0 needs a certificate"):
        secure(None, [ADDRESS], server=True, timeout=1, limit=1)
    assert secure(None, ["tcp://127.0.0.1:1"], server=False, timeout=1, limit=1) is None


def test_connecting_trusts_the_system_by_default(run, monkeypatch):
    monkeypatch.setenv("SSL_CERT_FILE", str(mutual().ca))

    async def main():
        security = secure(mutual(), [ADDRESS], server=True, timeout=10, limit=1)
        security.contexts.get().verify_mode = 0  # ask clients for nothing
        security.contexts.demands_certificate = False
        listener = await listen(ADDRESS, Accepting(), security=security)
        transport, _ = await TlsTransport().connect(listener.address, PlainPeer, timeout=10)
        await close(transport, listener)

    run(main())


# ---- ending one direction --------------------------------------------------------------------------------------------


def test_what_was_written_arrives_before_the_end(run):
    async def main():
        accepting = Accepting(BufferedPeer, size=65536)
        listener = await peers.listen(ADDRESS, accepting)
        transport, protocol = await connect(listener.address, PlainPeer, timeout=10)
        data = bytes(range(256)) * 8192
        transport.write(data)
        end_writing(transport)
        peer = await accepting.peer()
        await peer.lost()
        assert peer.eof
        assert same(peer.data, data)
        await protocol.lost()
        await close(listener)

    run(main())


def test_the_end_arrives_though_the_peer_goes_on_sending(run):
    async def main():
        accepting = Accepting(BufferedPeer, size=65536)
        listener = await peers.listen(ADDRESS, accepting)
        transport, protocol = await connect(listener.address, PlainPeer, timeout=10)
        peer = await accepting.peer()
        for _ in range(20):
            peer.transport.write(bytes(50_000))
            await asyncio.sleep(0)
        transport.write(b"the reason")
        end_writing(transport)
        while not peer.is_lost:
            if not peer.eof:
                peer.transport.write(bytes(50_000))
            await asyncio.sleep(0)
        assert peer.data == b"the reason"
        assert peer.eof
        await protocol.lost()
        await close(listener)

    run(main())


def test_both_ends_end_at_once(run):
    async def main():
        accepting = Accepting()
        listener = await peers.listen(ADDRESS, accepting)
        transport, protocol = await connect(listener.address, PlainPeer, timeout=10)
        peer = await accepting.peer()
        end_writing(transport)
        end_writing(peer.transport)
        await protocol.lost()
        await peer.lost()
        await close(listener)

    run(main())


def test_a_transport_that_cannot():
    class Odd(asyncio.Transport):
        def can_write_eof(self):
            return False

    with pytest.raises(NotImplementedError, match="cannot end its writing alone"):
        end_writing(Odd())
