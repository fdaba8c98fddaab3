"""A server and a client that are connected."""

from __future__ import annotations

import itertools
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import rpcproto
from rpcproto.testing.proxy import FaultProxy

__all__ = ["pair", "proxied_pair"]

_numbers = itertools.count(1)


@asynccontextmanager
async def pair(
    service: Any,
    address: str | None = None,
    *,
    server: Mapping[str, Any] | None = None,
    client: Mapping[str, Any] | None = None,
) -> AsyncIterator[tuple[rpcproto.Server, rpcproto.Client]]:
    """Serve ``service``, and connect to it: ``async with pair(service) as (server, client)``.

    Args:
        service: as for :func:`rpcproto.serve`.
        address: where to serve it; within this process by default.
        server: further keyword arguments of :func:`rpcproto.serve`.
        client: further keyword arguments of :func:`rpcproto.connect`, such as ``service`` for callbacks.
    """
    if address is None:
        address = f"inproc://pair-{next(_numbers)}"
    async with rpcproto.serve(service, address, **(server or {})) as serving:
        async with rpcproto.connect(serving.address, **(client or {})) as connected:
            yield serving, connected


@asynccontextmanager
async def proxied_pair(
    service: Any, *, server: Mapping[str, Any] | None = None, client: Mapping[str, Any] | None = None
) -> AsyncIterator[tuple[rpcproto.Server, rpcproto.Client, FaultProxy]]:
    """The same over TCP and through a :class:`FaultProxy`: ``async with ... as (server, client, proxy)``.

    When the block is left the proxy cuts what still goes through it, so that a test need not undo its faults.
    """
    async with rpcproto.serve(service, "tcp://127.0.0.1:0", **(server or {})) as serving:
        async with FaultProxy(serving.address) as proxy:
            async with rpcproto.connect(proxy.address, **(client or {})) as connected:
                yield serving, connected, proxy
                proxy.reset()
