from __future__ import annotations

import socket

import pytest

from rpcproto.transports import Address, describe_peer, direct_descriptor, is_local_peer, peer_address
from rpcproto.transports.base import is_loopback, socket_address


class Transport:
    """Knows what a transport would tell."""

    def __init__(self, **info):
        self.info = info

    def get_extra_info(self, name, default=None):
        return self.info.get(name, default)


def tcp(peername, family=socket.AF_INET, **info):
    return Transport(socket=FakeSocket(family), peername=peername, **info)


class FakeSocket:
    def __init__(self, family, type=socket.SOCK_STREAM):
        self.family = family
        self.type = type

    def fileno(self):
        return 77


@pytest.mark.parametrize(
    ("host", "expected"),
    [
        ("127.0.0.1", True),
        ("127.255.0.9", True),
        ("::1", True),
        ("::ffff:127.0.0.1", True),
        ("0.0.0.0", False),
        ("::", False),
        ("::ffff:10.0.0.1", False),
        ("10.0.0.1", False),
        ("192.168.1.1", False),
        ("169.254.0.1", False),
        ("8.8.8.8", False),
        ("fe80::1%eth0", False),
        ("2001:db8::1", False),
        ("localhost", False),
        ("", False),
    ],
)
def test_loopback_is_told_by_number(host, expected):
    assert is_loopback(host) is expected


@pytest.mark.parametrize(
    ("family", "name", "expected"),
    [
        (socket.AF_INET, ("10.0.0.1", 80), "tcp://10.0.0.1:80"),
        (socket.AF_INET6, ("::1", 80, 0, 0), "tcp://[::1]:80"),
        (socket.AF_INET6, ("::ffff:10.0.0.1", 80, 0, 0), "tcp://10.0.0.1:80"),
        (socket.AF_INET6, ("fe80::1%eth0", 80, 0, 2), "tcp://[fe80::1%eth0]:80"),
        (socket.AF_UNIX, "/run/x.sock", "unix:///run/x.sock"),
        (socket.AF_UNIX, b"\0name", "unix:@name"),
    ],
)
def test_socket_names_become_addresses(family, name, expected):
    assert str(socket_address(family, name)) == expected


def test_peers_are_described():
    assert describe_peer(tcp(("10.0.0.1", 80))) == "tcp://10.0.0.1:80"
    assert describe_peer(tcp("/x", socket.AF_UNIX)) == "unix:///x"
    assert describe_peer(tcp("", socket.AF_UNIX, sockname="/x")) == "unix:///x"
    assert describe_peer(Transport(peer_address=Address("inproc", path="x"))) == "inproc://x"


@pytest.mark.parametrize("transport", [Transport(), tcp(None), tcp("", socket.AF_UNIX)])
def test_an_unknown_peer_is_not_local(transport):
    assert peer_address(transport) is None
    assert describe_peer(transport) == "unknown peer"
    assert not is_local_peer(transport)


def test_local_peers():
    assert is_local_peer(tcp(("127.0.0.1", 80)))
    assert is_local_peer(tcp(("::ffff:127.0.0.1", 80, 0, 0), socket.AF_INET6))
    assert not is_local_peer(tcp(("10.0.0.1", 80)))
    assert is_local_peer(tcp("/x", socket.AF_UNIX))
    assert is_local_peer(Transport(peer_address=Address("inproc", path="x")))
    assert not is_local_peer(Transport(peer_address=Address("other", path="x")))


def test_direct_writing_only_on_plain_stream_sockets():
    assert direct_descriptor(tcp(("127.0.0.1", 80))) == 77
    assert direct_descriptor(tcp("/x", socket.AF_UNIX)) == 77
    assert direct_descriptor(tcp(("127.0.0.1", 80), sslcontext=object())) == -1
    assert direct_descriptor(Transport()) == -1
    assert direct_descriptor(Transport(socket=FakeSocket(socket.AF_INET, socket.SOCK_DGRAM))) == -1
    assert direct_descriptor(Transport(socket=FakeSocket(999))) == -1
