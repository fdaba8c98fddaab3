"""What a transport is, and what can be asked about a connection that one made.

A :class:`Transport` turns an :class:`~rpcproto.transports.address.Address` into connections: pairs of an asyncio
transport and the protocol object that drives it. Everything above works on those pairs and does not know which
transport made them. The rules that all of them keep:

1. ``connect`` returns after the protocol's ``connection_made``, or raises and leaves nothing behind.
2. Errors are of :mod:`rpcproto.errors`: ConfigurationError for what can never work (a wrong address, a bind that the
   rules forbid), ConnectFailed, with the system's error as its cause, for what does not work now.
3. Without ``insecure=True`` nobody on another machine can reach a listener, and no other user a socket file.
4. Every descriptor is closed on exec.

The loop must know ``add_reader`` and ``add_writer``, as uvloop and asyncio's selector loops do.
"""

from __future__ import annotations

import asyncio
import ipaddress
import os
import socket
from abc import ABC, abstractmethod
from collections.abc import Callable
from typing import Protocol, TypeVar

from .address import Address

__all__ = [
    "BACKLOG",
    "Listener",
    "ProtocolFactory",
    "Transport",
    "describe_peer",
    "direct_descriptor",
    "is_encrypted",
    "is_local_peer",
    "is_loopback",
    "peer_address",
    "socket_address",
]

_AF_UNIX = getattr(socket, "AF_UNIX", None)
_HAS_GATHERED_WRITES = hasattr(os, "writev")
_LOCAL_SCHEMES = frozenset({"unix", "inproc"})

BACKLOG = 1024
"""Connections that may wait to be accepted. A cluster's workers all connect in the same second."""

P = TypeVar("P", bound=asyncio.BaseProtocol)
ProtocolFactory = Callable[[], asyncio.BaseProtocol]


class Listener(ABC):
    """A place where connections are accepted. Made by :meth:`Transport.listen`, accepting at once."""

    @property
    def address(self) -> Address:
        """The actual address: with the port that the system chose. The first one, where there are several."""
        return self.addresses[0]

    @property
    @abstractmethod
    def addresses(self) -> tuple[Address, ...]:
        """All actual addresses: a name may stand for several."""

    @abstractmethod
    def close(self) -> None:
        """Stop accepting, and let go of the address. Connections live on. Can be called again."""

    @abstractmethod
    async def wait_closed(self) -> None:
        """Wait, after :meth:`close`, until no more connection will be made. Does not wait for those that were."""


class Transport(Protocol):
    """One kind of transport."""

    async def connect(
        self, address: Address, protocol_factory: Callable[[], P], *, timeout: float
    ) -> tuple[asyncio.Transport, P]:
        """Make a connection.

        Args:
            address: where to; of this transport's scheme.
            protocol_factory: makes the protocol; called once, and only when the other end was reached.
            timeout: seconds for all of it, names looked up and every address tried.

        Raises:
            ConnectFailed: nobody was reached; the text names each address tried and what happened there.
            ConfigurationError: nobody can be reached at such an address.
        """

    async def listen(
        self,
        address: Address,
        protocol_factory: ProtocolFactory,
        *,
        backlog: int = BACKLOG,
        insecure: bool = False,
        sock: socket.socket | None = None,
    ) -> Listener:
        """Accept connections.

        Args:
            address: where; of this transport's scheme.
            protocol_factory: makes one protocol for each connection.
            backlog: how many connections may wait to be accepted.
            insecure: allow a place that other machines, or other users by way of a socket file, can reach; also where
                clients have to authenticate.
            sock: a bound stream socket to take over instead of making one; it belongs to the listener then. The
                address only says the scheme.

        Raises:
            ConfigurationError: ``insecure`` would be needed, or the arguments make no sense.
            ConnectFailed: the system refuses, because the address is in use for example.
        """


def peer_address(transport: asyncio.BaseTransport) -> Address | None:
    """The address of the other end; None if it is not known.

    For an accepted connection of a socket file it is the file's path, since the other end has no name of its own.
    """
    address = transport.get_extra_info("peer_address")
    if address is not None:
        return address  # type: ignore[no-any-return]
    sock = transport.get_extra_info("socket")
    name = transport.get_extra_info("peername")
    if sock is None:
        return None
    if sock.family == _AF_UNIX:
        name = name or transport.get_extra_info("sockname")
    return socket_address(sock.family, name, "tls" if is_encrypted(transport) else "tcp") if name else None


def describe_peer(transport: asyncio.BaseTransport) -> str:
    """The address of the other end as text, for messages."""
    return str(peer_address(transport) or "unknown peer")


def is_local_peer(transport: asyncio.BaseTransport) -> bool:
    """True if the other end is surely on this machine: a socket file, this process, or a loopback address.

    A proxy or a tunnel that ends on this machine counts as this machine.
    """
    address = peer_address(transport)
    if address is None:
        return False
    return address.scheme in _LOCAL_SCHEMES or is_loopback(address.host)


def is_encrypted(transport: asyncio.BaseTransport) -> bool:
    """True if the transport speaks TLS."""
    return transport.get_extra_info("sslcontext") is not None


def direct_descriptor(transport: asyncio.BaseTransport) -> int:
    """The descriptor of a plain stream socket, for writing past the transport; -1 where that must not be done.

    Not under TLS, whose bytes only the transport can make, not within a process, and not on anything that has no
    stream socket. Ask in ``connection_made``: the number means something else once the transport is closed.
    """
    if not _HAS_GATHERED_WRITES or is_encrypted(transport):
        return -1
    sock = transport.get_extra_info("socket")
    if sock is None or sock.type != socket.SOCK_STREAM:
        return -1
    if sock.family not in (socket.AF_INET, socket.AF_INET6, _AF_UNIX):
        return -1
    return int(sock.fileno())


def is_loopback(host: str) -> bool:
    """True if ``host`` is an IP address, written as a number, that only this machine can reach."""
    try:
        number = ipaddress.ip_address(host)
    except ValueError:
        return False
    if isinstance(number, ipaddress.IPv6Address) and number.ipv4_mapped is not None:
        number = number.ipv4_mapped
    return number.is_loopback


def socket_address(family: int, name: object, scheme: str = "tcp") -> Address:
    """An :class:`Address` from what ``getsockname`` or ``getpeername`` told; ``scheme`` is for those with a port."""
    if isinstance(name, bytes):  # the abstract namespace
        return Address("unix", path="@" + name[1:].decode("utf-8", "surrogateescape"))
    if isinstance(name, str):
        return Address("unix", path=name)
    assert isinstance(name, tuple)
    host, port = name[:2]
    if family == socket.AF_INET6:
        number = ipaddress.IPv6Address(host)
        if number.ipv4_mapped is not None:
            host = str(number.ipv4_mapped)
    return Address(scheme, host, port)
