from __future__ import annotations

import asyncio
import errno
import os
import socket
import sys

import pytest

from rpcproto.errors import ConfigurationError, ConnectFailed
from rpcproto.transports import connect, listen, parse, tcp
from tests.transports.conftest import has_ipv6
from tests.transports.peers import Accepting, PlainPeer
from tests.transports.test_race import dead_server

needs_ipv6 = pytest.mark.skipif(not has_ipv6(), reason="this machine has no IPv6")


def resolve(run, monkeypatch, **names):
    """Let the loop's resolver know these names: each stands for the addresses given."""

    async def getaddrinfo(host, port, **options):
        assert options["type"] == socket.SOCK_STREAM
        found = names[host]
        if isinstance(found, BaseException):
            raise found
        if found is None:
            await asyncio.get_running_loop().create_future()
        return [
            (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (number, port, 0, 0))
            if ":" in number
            else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (number, port))
            for number in found
        ]

    monkeypatch.setattr(run.loop, "getaddrinfo", getaddrinfo)


async def close(listener, *transports):
    for transport in transports:
        protocol = transport.get_protocol()
        transport.close()
        await protocol.lost()
    listener.close()
    await listener.wait_closed()


# Who may listen where


@pytest.mark.parametrize(
    "address",
    [
        "tcp://:0",
        "tcp://0.0.0.0:0",
        "tcp://192.0.2.1:0",
        "tcp://10.1.2.3:80",
        pytest.param("tcp://[::]:0", marks=needs_ipv6),
        "tcp://[::ffff:10.0.0.1]:0",
        pytest.param("tcp://[2001:db8::1]:0", marks=needs_ipv6),
    ],
)
def test_what_others_can_reach_is_refused(run, address):
    with pytest.raises(ConfigurationError, match=r"other machines.*secret=.*certificates.*insecure=True") as caught:
        run(listen(address, PlainPeer))
    assert str(parse(address)) in str(caught.value)


@pytest.mark.parametrize("numbers", [["192.0.2.1"], ["127.0.0.1", "192.0.2.1"], ["127.0.0.1", "::"]])
def test_a_name_is_judged_by_all_its_addresses(run, monkeypatch, numbers):
    resolve(run, monkeypatch, name=numbers)
    with pytest.raises(ConfigurationError, match=rf"tcp://name:80 can be reached .* \(at {numbers[-1]}\)"):
        run(listen("tcp://name:80", PlainPeer))


def test_the_sockets_are_bound_to_loopback(run):
    async def main():
        listener = await listen("tcp://127.0.0.1:0", PlainPeer)
        assert [sock.getsockname() for sock in listener._socks] == [("127.0.0.1", listener.address.port)]
        await close(listener)

    run(main())


def test_insecure_listens_everywhere(run):
    async def main():
        listener = await listen("tcp://:0", Accepting(), insecure=True)
        assert {address.host for address in listener.addresses} == ({"0.0.0.0", "::"} if has_ipv6() else {"0.0.0.0"})
        assert len({address.port for address in listener.addresses}) == 1
        await close(listener)

    run(main())


def test_another_loopback_address_needs_nothing(run):
    async def main():
        listener = await listen("tcp://127.7.7.7:0", Accepting())
        assert listener.address.host == "127.7.7.7"
        await close(listener)

    run(main())


# Listening


@needs_ipv6
def test_a_name_is_listened_at_in_both_families(run, monkeypatch):
    resolve(run, monkeypatch, localhost=["::1", "127.0.0.1", "::1"])

    async def main():
        accepting = Accepting(echo=True)
        listener = await listen("tcp://localhost:0", accepting)
        port = listener.address.port
        assert port > 0
        assert [str(address) for address in listener.addresses] == [f"tcp://[::1]:{port}", f"tcp://127.0.0.1:{port}"]
        assert listener.address == listener.addresses[0]
        ends = [await connect(address, PlainPeer, timeout=10) for address in listener.addresses]
        for transport, protocol in ends:
            transport.write(b"x")
            assert await protocol.receive(1) == b"x"
        await close(listener, *(transport for transport, _ in ends))
        for peer in accepting.peers:
            await peer.lost()

    run(main())


@needs_ipv6
def test_ipv6_does_not_take_ipv4_with_it(run):
    async def main():
        listener = await listen("tcp://[::]:0", PlainPeer, insecure=True)
        [sock] = listener._socks
        assert sock.getsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY) == 1
        await close(listener)

    run(main())


def test_a_port_that_is_taken_in_one_family_is_drawn_again(run, monkeypatch):
    resolve(run, monkeypatch, name=["127.0.0.1", "127.0.0.2"])
    bind = tcp._bind
    taken = []

    def bind_later(family, name, backlog):
        if name[0] == "127.0.0.2" and len(taken) < 3:
            taken.append(name[1])
            raise OSError(errno.EADDRINUSE, os.strerror(errno.EADDRINUSE))
        return bind(family, name, backlog)

    monkeypatch.setattr(tcp, "_bind", bind_later)

    async def main():
        listener = await listen("tcp://name:0", PlainPeer)
        one, other = listener.addresses
        assert one.port == other.port
        assert len(taken) == 3
        await close(listener)
        taken.clear()
        with pytest.raises(ConnectFailed, match=r"in use \(127.0.0.2 port 80\)"):  # not drawn: not drawn again
            await listen("tcp://name:80", PlainPeer)

    run(main())


@pytest.mark.parametrize("code", [errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL])
def test_a_family_that_the_machine_lacks_is_left_out(run, monkeypatch, code):
    resolve(run, monkeypatch, name=["::1", "127.0.0.1"], six=["::1"])
    bind = tcp._bind

    def bind_ipv4(family, name, backlog):
        if family == socket.AF_INET6:
            raise OSError(code, os.strerror(code))
        return bind(family, name, backlog)

    monkeypatch.setattr(tcp, "_bind", bind_ipv4)

    async def main():
        listener = await listen("tcp://name:0", PlainPeer)
        assert [address.host for address in listener.addresses] == ["127.0.0.1"]
        await close(listener)
        with pytest.raises(ConnectFailed, match="cannot listen on tcp://six:0"):
            await listen("tcp://six:0", PlainPeer)

    run(main())


def test_a_port_with_lingering_connections_can_be_listened_at(run):
    async def main():
        accepting = Accepting()
        listener = await listen("tcp://127.0.0.1:0", accepting)
        _, protocol = await connect(listener.address, PlainPeer, timeout=10)
        peer = await accepting.peer()
        peer.transport.close()  # the side that closes first keeps the port for a minute
        await protocol.lost()
        await close(listener)
        again = await listen(listener.address, PlainPeer)
        await close(again)

    run(main())


def test_a_port_that_is_not_ours_to_take(run, monkeypatch):
    def bind(family, name, backlog):
        raise PermissionError(errno.EACCES, "Permission denied")  # as the system says to all but root

    monkeypatch.setattr(tcp, "_bind", bind)
    with pytest.raises(ConnectFailed, match=r"cannot listen on tcp://127.0.0.1:1: Permission denied") as caught:
        run(listen("tcp://127.0.0.1:1", PlainPeer))
    assert isinstance(caught.value.__cause__, PermissionError)


def test_an_unknown_name_cannot_be_listened_at(run, monkeypatch):
    resolve(run, monkeypatch, name=socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    with pytest.raises(ConnectFailed, match="cannot listen on tcp://name:80: Name or service not known"):
        run(listen("tcp://name:80", PlainPeer))


# A socket that is given


def test_a_given_socket_is_taken_over(run):
    async def main():
        with socket.socket() as sock:
            sock.bind(("127.0.0.1", 0))
            port = sock.getsockname()[1]
            accepting = Accepting(echo=True)
            listener = await listen("tcp://127.0.0.1:0", accepting, sock=sock)
            assert str(listener.address) == f"tcp://127.0.0.1:{port}"
            transport, protocol = await connect(listener.address, PlainPeer, timeout=10)
            transport.write(b"x")
            assert await protocol.receive(1) == b"x"
            await close(listener, transport)
            assert sock.fileno() == -1
            await accepting.peers[0].lost()

    run(main())


@pytest.mark.parametrize(
    ("arguments", "complaint"),
    [
        ((socket.AF_INET, socket.SOCK_DGRAM), "a stream socket of its own family is needed"),
        ((socket.AF_UNIX, socket.SOCK_STREAM), "a stream socket of its own family is needed"),
        ((socket.AF_INET, socket.SOCK_STREAM), "is not bound"),
    ],
)
def test_a_wrong_socket_is_refused_and_left_alone(run, arguments, complaint):
    with socket.socket(*arguments) as sock:
        with pytest.raises(ConfigurationError, match=complaint):
            run(listen("tcp://127.0.0.1:0", PlainPeer, sock=sock))
        assert sock.fileno() != -1


def test_a_given_socket_is_judged_by_what_it_is_bound_to(run):
    async def main():
        with socket.socket() as sock:
            sock.bind(("0.0.0.0", 0))
            with pytest.raises(ConfigurationError, match="insecure=True"):
                await listen("tcp://127.0.0.1:0", PlainPeer, sock=sock)
            listener = await listen("tcp://127.0.0.1:0", PlainPeer, sock=sock, insecure=True)
            await close(listener)

    run(main())


# Options


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have other options")
def test_options_hold_at_both_ends(run):
    async def main():
        accepting = Accepting()
        listener = await listen("tcp://127.0.0.1:0", accepting)
        transport, _ = await connect(listener.address, PlainPeer, timeout=10)
        peer = await accepting.peer()
        for end in (transport, peer.transport):
            sock = end.get_extra_info("socket")
            assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) != 0
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPIDLE) == 10
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPINTVL) == 5
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_KEEPCNT) == 3
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT) == 20_000
            assert sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_NOTSENT_LOWAT) == 1024 * 1024
        await close(listener, transport)
        await peer.lost()

    run(main())


def test_options_that_the_system_lacks_are_left_out(monkeypatch):
    monkeypatch.setattr(tcp, "KEEPALIVE", {"TCP_OF_ANOTHER_SYSTEM": 1})
    with socket.socket() as sock:
        tcp.set_options(sock)
        assert sock.getsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE) == 1


# Connecting


@needs_ipv6
def test_localhost_is_found_in_the_other_family(run, monkeypatch):
    resolve(run, monkeypatch, localhost=["::1", "127.0.0.1"])

    async def main():
        accepting = Accepting()
        listener = await listen("tcp://127.0.0.1:0", accepting)
        transport, _ = await connect(f"tcp://localhost:{listener.address.port}", PlainPeer, timeout=10)
        assert transport.get_extra_info("peername")[0] == "127.0.0.1"
        await close(listener, transport)
        await accepting.peers[0].lost()

    run(main())


def test_every_address_tried_is_told(run, monkeypatch):
    resolve(run, monkeypatch, name=["127.0.0.2", "127.0.0.3", "127.0.0.4"])

    async def main():
        with socket.socket() as reserved:
            reserved.bind(("127.0.0.1", 0))  # a port with nobody at the other addresses
            port = reserved.getsockname()[1]
            with pytest.raises(ConnectFailed) as caught:
                await connect(f"tcp://name:{port}", PlainPeer, timeout=10)
        assert str(caught.value) == (
            f"cannot connect to tcp://name:{port}: "
            f"tcp://127.0.0.2:{port}: Connection refused; "
            f"tcp://127.0.0.3:{port}: Connection refused; "
            f"tcp://127.0.0.4:{port}: Connection refused"
        )
        assert caught.value.address == f"tcp://name:{port}"
        assert isinstance(caught.value.__cause__, ConnectionRefusedError)

    run(main())


def test_a_single_address_is_told_once(run):
    with socket.socket() as reserved:
        reserved.bind(("127.0.0.1", 0))
        address = f"tcp://127.0.0.2:{reserved.getsockname()[1]}"
        with pytest.raises(ConnectFailed) as caught:
            run(connect(address, PlainPeer, timeout=10))
    assert str(caught.value) == f"cannot connect to {address}: Connection refused"


def test_the_timeout_bounds_the_attempts(run):
    async def main():
        with dead_server() as target:
            with pytest.raises(ConnectFailed) as caught:
                await connect(target.address, PlainPeer, timeout=0.05)
            assert str(caught.value) == f"cannot connect to {target.address}: no answer in 0.05 s"
            assert isinstance(caught.value.__cause__, TimeoutError)

    run(main())


def test_the_timeout_bounds_the_lookup(run, monkeypatch):
    resolve(run, monkeypatch, name=None)
    with pytest.raises(ConnectFailed, match=r"cannot connect to tcp://name:80: the name was not resolved in 0.05 s"):
        run(connect("tcp://name:80", PlainPeer, timeout=0.05))


def test_an_unknown_name_is_told(run, monkeypatch):
    resolve(run, monkeypatch, name=socket.gaierror(socket.EAI_NONAME, "Name or service not known"))
    with pytest.raises(ConnectFailed, match="cannot connect to tcp://name:80: Name or service not known"):
        run(connect("tcp://name:80", PlainPeer, timeout=10))


def test_numbers_are_not_looked_up(run, monkeypatch):
    resolve(run, monkeypatch)

    async def main():
        accepting = Accepting()
        listener = await listen("tcp://127.0.0.1:0", accepting)
        transport, _ = await connect(listener.address, PlainPeer, timeout=10)
        await close(listener, transport)
        await accepting.peers[0].lost()

    run(main())


@pytest.mark.parametrize("address", ["tcp://:80", "tcp://127.0.0.1:0", "tcp://:0"])
def test_an_address_for_listening_cannot_be_connected_to(run, address):
    with pytest.raises(ConfigurationError, match="is for listening"):
        run(connect(address, PlainPeer, timeout=10))
