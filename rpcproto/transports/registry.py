"""Which transport an address belongs to: the one door through which connections are made and accepted."""

from __future__ import annotations

import asyncio
import socket
import sys
from collections.abc import Callable

from ..errors import ConfigurationError
from .address import Address, Parser, parse, register_scheme
from .base import BACKLOG, Listener, P, ProtocolFactory, Transport
from .inproc import InprocTransport
from .tcp import TcpTransport
from .tls import Security, TlsTransport

__all__ = ["connect", "listen", "register", "transport_of"]

_transports: dict[str, Transport] = {"tcp": TcpTransport(), "tls": TlsTransport(), "inproc": InprocTransport()}
if sys.platform != "win32":
    from .unix import UnixTransport

    _transports["unix"] = UnixTransport()


def register(scheme: str, transport: Transport, parser: Parser | None = None) -> None:
    """Use ``transport`` for a scheme, new or known.

    Args:
        scheme: in lower case, without the colon.
        transport: what makes the connections.
        parser: takes an address of the scheme apart; not needed for one that is known.
    """
    if parser is not None:
        register_scheme(scheme, parser)
    _transports[scheme] = transport


def transport_of(address: Address) -> Transport:
    """The transport for an address.

    Raises:
        ConfigurationError: there is none on this system.
    """
    transport = _transports.get(address.scheme)
    if transport is None:
        raise ConfigurationError(f"{address}: there is no transport for {address.scheme}: on this system")
    return transport


async def connect(
    address: str | Address, protocol_factory: Callable[[], P], *, timeout: float, security: Security | None = None
) -> tuple[asyncio.Transport, P]:
    """Make a connection; arguments and errors as in :meth:`~rpcproto.transports.base.Transport.connect`.

    ``security`` is for addresses with TLS, and ignored with others.
    """
    where = address if isinstance(address, Address) else parse(address)
    transport = transport_of(where)
    if isinstance(transport, TlsTransport):
        return await transport.connect(where, protocol_factory, timeout=timeout, security=security)
    return await transport.connect(where, protocol_factory, timeout=timeout)


async def listen(
    address: str | Address,
    protocol_factory: ProtocolFactory,
    *,
    backlog: int = BACKLOG,
    insecure: bool = False,
    sock: socket.socket | None = None,
    security: Security | None = None,
) -> Listener:
    """Accept connections; arguments and errors as in :meth:`~rpcproto.transports.base.Transport.listen`.

    ``security`` is for addresses with TLS, and ignored with others.
    """
    where = address if isinstance(address, Address) else parse(address)
    transport = transport_of(where)
    if isinstance(transport, TlsTransport):
        return await transport.listen(
            where, protocol_factory, backlog=backlog, insecure=insecure, sock=sock, security=security
        )
    return await transport.listen(where, protocol_factory, backlog=backlog, insecure=insecure, sock=sock)
