"""TCP: ``tcp://host:port``, and what TLS has in common with it: reaching an address, and listening.

Binding rule: what is not a loopback address needs authentication or ``insecure=True``. The addresses that a name stands
for are checked, not the name, and for a socket that was given, what it is bound to.
"""

from __future__ import annotations

import asyncio
import errno
import ipaddress
import socket
from collections.abc import Awaitable, Callable, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from typing import TypeVar

from ..errors import ConfigurationError, ConnectFailed
from ._race import Target, connect_first, interleave
from ._sockets import SocketListener, adopt, check_given, reason
from .address import Address
from .base import BACKLOG, Listener, P, ProtocolFactory, is_loopback, socket_address

__all__ = ["TcpTransport", "open_listening", "reach", "set_options"]

USER_TIMEOUT = 20_000
"""Milliseconds that sent bytes may stay unacknowledged, or the peer's window shut, before the connection is given up.
The default would be some 15 minutes. As long as the heartbeat's default, which notices a silent peer."""

KEEPALIVE = {"TCP_KEEPIDLE": 10, "TCP_KEEPINTVL": 5, "TCP_KEEPCNT": 3}
"""For connections without a heartbeat: seconds of silence before the first probe, between two, and how many."""

NOTSENT_LOWAT = 1024 * 1024
"""Bytes in the send buffer that were not put on the wire yet, above which the socket takes no more. What waits in the
system cannot be overtaken by a ping; what waits in our own queue can. With 128 KiB, the usual figure, messages of 1 MB
cost the sender half as much again in system calls and wake-ups; with this they cost what they do without a limit."""

_PORT_ATTEMPTS = 16
_FAMILY_MISSING = (errno.EAFNOSUPPORT, errno.EADDRNOTAVAIL)

R = TypeVar("R")


class TcpTransport:
    """The transport of ``tcp://``. See :class:`~rpcproto.transports.base.Transport`."""

    async def connect(
        self, address: Address, protocol_factory: Callable[[], P], *, timeout: float
    ) -> tuple[asyncio.Transport, P]:
        """Connect to the first address of the name that answers."""
        return await reach(address, partial(adopt, protocol_factory=protocol_factory), timeout)

    async def listen(
        self,
        address: Address,
        protocol_factory: ProtocolFactory,
        *,
        backlog: int = BACKLOG,
        insecure: bool = False,
        sock: socket.socket | None = None,
    ) -> Listener:
        """Listen on every address of the name, all with the same port."""
        socks, addresses = await open_listening(address, backlog=backlog, insecure=insecure, sock=sock)
        return SocketListener(socks, addresses, protocol_factory)


async def reach(address: Address, take: Callable[[socket.socket], Awaitable[R]], timeout: float) -> R:
    """Connect to the first address of the name that answers, and make what is wanted of the socket.

    Args:
        address: where to.
        take: given the connected socket, which belongs to it from then on. An OSError of it fails the connecting.
        timeout: seconds for all of it.

    Raises:
        ConnectFailed, ConfigurationError: as :meth:`Transport.connect <rpcproto.transports.base.Transport.connect>`.
    """
    if not address.host or not address.port:
        raise ConfigurationError(f"{address} is for listening; to connect, give a host and a port above 0")
    outcome: dict[Address, OSError | None] = {}
    connected = False
    try:
        async with asyncio.timeout(timeout) as limit:
            targets = interleave(await _resolve(address))
            sock = await connect_first(targets, set_options, outcome)
            connected = True
            return await take(sock)
    except OSError as exc:
        if connected and limit.expired():
            story = f"cannot connect to {address}: it accepted, and was not ready in {timeout:g} s"
        elif limit.expired():
            story = _story(address, outcome, f"in {timeout:g} s")
        elif connected or not outcome:
            story = f"cannot connect to {address}: {reason(exc)}"
        else:
            story = _story(address, outcome)
        raise ConnectFailed(story, address=str(address)) from exc


async def open_listening(
    address: Address, *, backlog: int, insecure: bool, sock: socket.socket | None
) -> tuple[list[socket.socket], list[Address]]:
    """Sockets that listen on every address of the name, all with the same port, and their actual addresses.

    Raises:
        ConnectFailed, ConfigurationError: as :meth:`Transport.listen <rpcproto.transports.base.Transport.listen>`.
    """
    try:
        if sock is not None:
            check_given(sock, address.scheme, (socket.AF_INET, socket.AF_INET6))
            _check_reach(address, [Target(sock.family, sock.getsockname())], insecure)
            set_options(sock)
            sock.setblocking(False)
            sock.listen(backlog)
            socks = [sock]
        else:
            targets = await _resolve(address, passive=True)
            _check_reach(address, targets, insecure)
            socks = _bind_all(targets, backlog)
    except OSError as exc:
        raise ConnectFailed(f"cannot listen on {address}: {reason(exc)}", address=str(address)) from exc
    return socks, [socket_address(each.family, each.getsockname(), address.scheme) for each in socks]


def set_options(sock: socket.socket) -> None:
    """Set the options that every connection has. On a listening socket: what it accepts inherits them.

    Options that the system does not have are left out.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
    options = {**KEEPALIVE, "TCP_USER_TIMEOUT": USER_TIMEOUT, "TCP_NOTSENT_LOWAT": NOTSENT_LOWAT}
    for name, value in options.items():
        option = getattr(socket, name, None)
        if option is not None:
            with suppress(OSError):
                sock.setsockopt(socket.IPPROTO_TCP, option, value)


async def _resolve(address: Address, *, passive: bool = False) -> list[Target]:
    """All addresses that ``address`` stands for. Numbers are not looked up: that would take a thread."""
    host: str | None = address.host or None
    flags = socket.AI_PASSIVE if passive else 0
    if host is None or _is_number(host):
        infos = socket.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=flags | socket.AI_NUMERICHOST)
    else:
        loop = asyncio.get_running_loop()
        infos = await loop.getaddrinfo(host, address.port, type=socket.SOCK_STREAM, flags=flags)
    targets = [Target(info[0], info[4]) for info in infos if info[0] in (socket.AF_INET, socket.AF_INET6)]
    return list(dict.fromkeys(targets))


def _is_number(host: str) -> bool:
    try:
        ipaddress.ip_address(host)
    except ValueError:
        return False
    return True


def _story(address: Address, outcome: dict[Address, OSError | None], when: str = "") -> str:
    """What was tried and what came of it, for the text of an error."""
    if not outcome:
        return f"cannot connect to {address}: the name was not resolved {when}"
    tries = {
        replace(tried, scheme=address.scheme): f"no answer {when}" if error is None else reason(error)
        for tried, error in outcome.items()
    }
    if list(tries) == [address]:
        return f"cannot connect to {address}: {tries[address]}"
    return f"cannot connect to {address}: {'; '.join(f'{tried}: {what}' for tried, what in tries.items())}"


def _check_reach(address: Address, targets: Sequence[Target], insecure: bool) -> None:
    if insecure:
        return
    for target in targets:
        if not is_loopback(target.name[0]):
            raise ConfigurationError(
                f"{address} can be reached from other machines (at {target.name[0]}), and nobody would be asked who"
                f" they are. Listen for this machine alone, at {address.scheme}://127.0.0.1:{address.port} or"
                " unix:///path; or pass secret=..., which clients then have to prove; or demand certificates of them,"
                " at tls:// with ssl=rpcproto.TLS(certificate=..., key=..., ca=...); or pass insecure=True if everyone"
                " who can reach it may use it."
            )


def _bind_all(targets: Sequence[Target], backlog: int) -> list[socket.socket]:
    """Make a listening socket for each target. If the port is 0, all get the one that the system gives the first."""
    attempts = _PORT_ATTEMPTS if len(targets) > 1 and targets[0].name[1] == 0 else 1
    while True:
        attempts -= 1
        try:
            return _bind_each(targets, backlog)
        except OSError as exc:
            # The port that was free for one family is taken in another: draw again.
            if exc.errno != errno.EADDRINUSE or not attempts:
                raise


def _bind_each(targets: Sequence[Target], backlog: int) -> list[socket.socket]:
    socks: list[socket.socket] = []
    missing: OSError | None = None
    try:
        for family, (host, port, *rest) in targets:
            port = socks[0].getsockname()[1] if socks else port
            try:
                socks.append(_bind(family, (host, port, *rest), backlog))
            except OSError as exc:
                if len(targets) == 1:
                    raise
                # A name may stand for an IPv6 address on a machine that has none. One of its addresses must do.
                if exc.errno not in _FAMILY_MISSING:
                    raise OSError(exc.errno, f"{exc.strerror} ({host} port {port})") from exc
                missing = exc
        if missing is not None and not socks:
            raise missing
    except BaseException:
        for sock in socks:
            sock.close()
        raise
    return socks


def _bind(family: int, name: tuple[object, ...], backlog: int) -> socket.socket:
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections of a server before us may linger
        if family == socket.AF_INET6:
            sock.setsockopt(socket.IPPROTO_IPV6, socket.IPV6_V6ONLY, 1)  # IPv4 gets a socket of its own
        set_options(sock)
        sock.bind(name)
        sock.listen(backlog)
    except BaseException:
        sock.close()
        raise
    return sock
