"""The built-in methods that servers have beside those of their services, as callers see them.

What is told has no arguments, results or metadata of calls, and every answer is bounded: it says how many were left
out. :mod:`rpcproto.aio.inspector` is the other end, section 10 of ``wire/PROTOCOL.md`` the same for other languages.
"""

from __future__ import annotations

from typing import Literal, Protocol, TypedDict

from rpcproto.aio.describing import MethodInfo
from rpcproto.connection.snapshot import CallSnapshot, ConnectionSnapshot

__all__ = [
    "RESERVED",
    "CallInfo",
    "CallsPage",
    "ConnectionInfo",
    "ConnectionsPage",
    "Introspection",
    "MethodsPage",
    "ServerInfo",
    "ServiceInfo",
    "Told",
]

RESERVED = "rpcproto."
"""What the names of built-in methods begin with. No service may have such names."""

Told = Literal["authenticated", "all", "none"]
"""Whom a server tells: authenticated peers, everybody who may call, or nobody."""


class ServiceInfo(TypedDict):
    """One service."""

    name: str
    """What its wire names have before the dot."""
    defined: str
    """Its class, by module and name; empty for functions of a mapping."""
    doc: str
    methods: int
    health: str


class ServerInfo(TypedDict):
    """The server as a whole. Sizes are in bytes, times in seconds."""

    version: str
    """Of rpcproto."""
    build: str
    """``compiled`` or ``pure``."""
    python: str
    pid: int
    uptime: float
    addresses: list[str]
    health: str
    services: list[ServiceInfo]
    connections: int
    greeting: int
    """Connections that are not open yet: they have not greeted, or not proved what they must."""
    running: int
    """Handlers that run."""
    budget: dict[str, int]
    """The reassembly budget: its ``size``, what is ``reserved`` of it, the number of messages ``waiting``."""
    limits: dict[str, int]
    timeouts: dict[str, float | None]


class MethodsPage(TypedDict):
    """Methods by name."""

    methods: list[MethodInfo]
    left_out: int


class ConnectionInfo(ConnectionSnapshot):
    """One connection."""

    id: int
    """Numbers rise in the order of connecting."""
    address: str
    """Of the peer."""
    authenticated: bool
    certificate: str | None
    """The common name in the certificate that the peer has proved to hold."""
    process: int | None
    user: int | None
    """Of the peer, at a ``unix:`` address."""
    age: float
    """Seconds since it was made."""
    stats: dict[str, int]
    """Counters since then: :meth:`Peer.stats <rpcproto.Peer.stats>`."""


class ConnectionsPage(TypedDict):
    """Connections in the order of their ids."""

    connections: list[ConnectionInfo]
    left_out: int


class CallInfo(CallSnapshot):
    """One call."""

    connection: int
    """Id of its connection; a call's own id is unique within that."""


class CallsPage(TypedDict):
    """Calls that are open: :func:`~rpcproto.connection.snapshot.calls_of`."""

    calls: list[CallInfo]
    left_out: int


class Introspection(Protocol):
    """The built-in methods of every server, for typed clients: ``client.of(rpcproto.Introspection)``.

    ``health`` is for all that may call. The others are for authenticated peers
    (:attr:`Peer.authenticated <rpcproto.Peer.authenticated>`), unless ``serve(introspection=...)`` says otherwise;
    others get :exc:`~rpcproto.NotPermitted`. They need the codec msgpack.
    """

    service_name: str = "rpcproto"

    async def health(self, service: str = "") -> str:
        """Whether calls are welcome: ``serving`` or ``not serving``; ``unknown`` if there is no such service.

        For all who may call: it tells them no more than they would find out by calling, and those who balance load need
        no secret for it.

        Args:
            service: what its wire names have before the dot; the whole server if left out.
        """
        ...

    async def server(self) -> ServerInfo:
        """Version, uptime, services, limits, and what the server has to do."""
        ...

    async def methods(self, prefix: str = "", most: int = 1000) -> MethodsPage:
        """The methods that can be called, with signatures and documentation.

        Args:
            prefix: only those whose names begin so. The built-in ones are told only if theirs does.
            most: how many at most, up to 1,000.
        """
        ...

    async def connections(self, after: int = 0, most: int = 100) -> ConnectionsPage:
        """The connections that are open.

        Args:
            after: only those with higher ids, to go on where the last page ended.
            most: how many at most, up to 1,000.
        """
        ...

    async def calls(self, connection: int = 0, most: int = 100) -> CallsPage:
        """The calls that are open.

        Args:
            connection: only those of the connection with this id; 0 for all.
            most: how many at most, up to 1,000.
        """
        ...
