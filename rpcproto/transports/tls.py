"""TLS over TCP: ``tls://host:port``.

Addresses are reached, bound and listened on as those of :mod:`~rpcproto.transports.tcp`. Here is what comes between the
socket and the protocol: which contexts (``_contexts``), the handshake (``_handshake``), and how many at once
(``_gate``).

Binding rule: as for TCP, except that a server that demands certificates of its clients needs no ``insecure=True``. One
that only shows its own does: anybody could connect.
"""

from __future__ import annotations

import asyncio
import socket
import ssl
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import partial

from .._logs import log
from ..errors import ConfigurationError
from ._contexts import TLS, Contexts, TLSSource
from ._gate import Gate
from ._handshake import encrypt
from ._sockets import SocketListener, reason
from .address import Address, parse
from .base import BACKLOG, Listener, P, ProtocolFactory, socket_address
from .tcp import open_listening, reach

__all__ = ["TLS", "Security", "TLSSource", "TlsTransport", "early_end", "end_writing", "secure"]

CLOSE_WAIT = 0.25
"""Seconds that handshakes under way get to end when their listener is closed."""

_READ_SIZE = 64 * 1024


@dataclass(frozen=True, slots=True)
class Security:
    """What a TLS transport needs besides an address. Made by :func:`secure`."""

    contexts: Contexts
    timeout: float
    """Seconds for one handshake."""

    limit: int
    """Handshakes at once, for listeners."""

    server_hostname: str | None = None
    """The name that the server's certificate must be for; None: that of the address."""


def secure(
    source: TLSSource | None,
    addresses: Sequence[str],
    *,
    server: bool,
    timeout: float,
    limit: int,
    server_hostname: str | None = None,
) -> Security | None:
    """Check ``ssl=`` and ``server_hostname=`` against the addresses they are meant for.

    Returns:
        What to pass to :func:`~rpcproto.transports.connect` or :func:`~rpcproto.transports.listen` for those that are
        ``tls://``; None if none is.

    Raises:
        ConfigurationError: they do not fit, or ``source`` makes no sense.
    """
    encrypted = [address for address in addresses if parse(address).scheme == "tls"]
    if not encrypted:
        if source is not None or server_hostname is not None:
            name = "ssl=" if source is not None else "server_hostname="
            where = parse(addresses[0])
            better = str(replace(where, scheme="tls")) if where.scheme == "tcp" else "tls://host:port"
            raise ConfigurationError(f"{name} is for addresses with TLS, not for {where}: write {better}")
        return None
    if source is None and server:
        raise ConfigurationError(
            f"{encrypted[0]} needs a certificate: pass ssl=rpcproto.TLS(certificate=..., key=...), with ca=... to"
            " demand certificates of the clients as well, or an ssl.SSLContext"
        )
    if server_hostname is not None and (not isinstance(server_hostname, str) or not server_hostname):
        raise ConfigurationError(f"server_hostname must be a name or an IP address, not {server_hostname!r}")
    return Security(Contexts(source, server=server), timeout, limit, server_hostname)


class TlsTransport:
    """The transport of ``tls://``. See :class:`~rpcproto.transports.base.Transport`.

    Both methods take one argument more than those of other transports, ``security``.
    """

    async def connect(
        self,
        address: Address,
        protocol_factory: Callable[[], P],
        *,
        timeout: float,
        security: Security | None = None,
    ) -> tuple[asyncio.Transport, P]:
        """Connect to the first address of the name that answers, and do the handshake there."""
        if security is None:
            security = Security(Contexts(None, server=False), timeout, 1)
        take = partial(
            encrypt,
            context=security.contexts.get(),
            protocol_factory=protocol_factory,
            server_hostname=security.server_hostname or address.host.partition("%")[0].rstrip("."),
            alpn=security.contexts.own,
            timeout=security.timeout,
        )
        return await reach(address, take, timeout)

    async def listen(
        self,
        address: Address,
        protocol_factory: ProtocolFactory,
        *,
        backlog: int = BACKLOG,
        insecure: bool = False,
        sock: socket.socket | None = None,
        security: Security | None = None,
    ) -> Listener:
        """Listen on every address of the name, all with the same port."""
        if security is None:
            raise ConfigurationError(f"{address} needs a certificate: pass ssl=")
        allowed = insecure or security.contexts.demands_certificate
        socks, addresses = await open_listening(address, backlog=backlog, insecure=allowed, sock=sock)
        return TlsListener(socks, addresses, protocol_factory, security)


class TlsListener(SocketListener):
    """Does the handshake with whoever connects; only then a protocol is made. A handshake that fails is one line in the
    log, and never an exception.
    """

    def __init__(
        self,
        socks: Sequence[socket.socket],
        addresses: Sequence[Address],
        protocol_factory: ProtocolFactory,
        security: Security,
    ) -> None:
        super().__init__(socks, addresses, protocol_factory)
        self._security = security
        self._gate = Gate(security.limit)

    def close(self) -> None:
        super().close()
        self._gate.close(CLOSE_WAIT)

    async def _take(self, sock: socket.socket) -> None:
        security = self._security
        peer = "unknown peer"
        with suppress(OSError):
            peer = str(socket_address(sock.family, sock.getpeername(), "tls"))
        owned = True
        try:
            async with self._gate.passing(security.timeout):
                context = security.contexts.get()
                owned = False
                await encrypt(
                    sock,
                    context,
                    self._protocol_factory,
                    server_hostname=None,
                    alpn=security.contexts.own,
                    timeout=None,
                )
        except TimeoutError:
            self._report(peer, f"no TLS handshake within {security.timeout:g} s")
        except OSError as exc:
            self._report(peer, reason(exc))
        except ConfigurationError as exc:
            log.error("%s was turned away: %s", peer, exc)
        finally:
            if owned:
                sock.close()

    def _report(self, peer: str, why: str) -> None:
        if self._socks:  # not those that were cut short by close()
            log.warning("%s was turned away: %s", peer, why)


def early_end(address: str) -> str:
    """What it may mean that a server ended a connection before its greeting, to be added to the text of the error."""
    scheme = parse(address).scheme
    if scheme == "tcp":
        return "; a server with TLS does so: is its address tls://?"
    if scheme == "tls":
        return "; a server that demands certificates does so if it does not accept the client's, or there is none"
    return ""


def end_writing(transport: asyncio.Transport) -> None:
    """Tell the peer that nothing more will be written, and go on reading.

    TLS can do so as well as TCP (RFC 8446, 6.1), though the transports of the loops only know how to close both ways.
    There, what has arrived and was not read yet is thrown away.

    Raises:
        OSError: the connection is broken.
        NotImplementedError: this kind of transport cannot.
    """
    if transport.can_write_eof():
        transport.write_eof()
        return
    encrypted: ssl.SSLObject | None = transport.get_extra_info("ssl_object")
    if encrypted is None:
        raise NotImplementedError(f"{transport!r} cannot end its writing alone")
    with suppress(ssl.SSLWantReadError, ssl.SSLZeroReturnError):
        while encrypted.read(_READ_SIZE):  # OpenSSL takes no end past it
            pass
    try:
        encrypted.unwrap()
    except ssl.SSLWantReadError:  # for the peer's end, which the transport will read
        transport.pause_reading()
        transport.resume_reading()  # makes it look at what there is to read, and to write
    else:
        transport.close()  # the peer had ended before
