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

__all__ = ["connect", "listen", "register", "transport_of"]

_transports: dict[str, Transport] = {"tcp": TcpTransport(), "inproc": InprocTransport()}
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
    address: str | Address, protocol_factory: Callable[[], P], *, timeout: float
) -> tuple[asyncio.Transport, P]:
    """Make a connection; arguments and errors as in :meth:`~rpcproto.transports.base.Transport.connect`."""
    where = address if isinstance(address, Address) else parse(address)
    return await transport_of(where).connect(where, protocol_factory, timeout=timeout)


async def listen(
    address: str | Address,
    protocol_factory: ProtocolFactory,
    *,
    backlog: int = BACKLOG,
    insecure: bool = False,
    sock: socket.socket | None = None,
) -> Listener:
    """Accept connections; arguments and errors as in :meth:`~rpcproto.transports.base.Transport.listen`."""
    where = address if isinstance(address, Address) else parse(address)
    transport = transport_of(where)
    return await transport.listen(where, protocol_factory, backlog=backlog, insecure=insecure, sock=sock)
