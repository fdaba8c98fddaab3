"""rpcproto as a subject: through its public names, with every default on (deadline, credit, limits)."""

from __future__ import annotations

from collections.abc import Mapping

import rpcproto

from . import certificates
from .subjects import Client, Server
from .workload import CODECS, HANDLERS, SMALL_REPLY, TRANSPORTS, Workload

__all__ = ["Echo", "Rpcproto"]


class Echo(rpcproto.Service):
    """Every kind of handler, echoing or answering with a small reply."""

    @rpcproto.request
    def echo(self, value: object) -> object:
        return value

    @rpcproto.request
    async def echo_async(self, value: object) -> object:
        return value

    @rpcproto.request(thread=True)
    def echo_thread(self, value: object) -> object:
        return value

    @rpcproto.request
    def take(self, value: object) -> bytes:
        return SMALL_REPLY

    @rpcproto.request
    async def take_async(self, value: object) -> bytes:
        return SMALL_REPLY

    @rpcproto.request(thread=True)
    def take_thread(self, value: object) -> bytes:
        return SMALL_REPLY


class _Server:
    def __init__(self, server: rpcproto.Server) -> None:
        self._server = server
        self.address = server.address

    def counters(self) -> tuple[int, int]:
        stats = [peer.stats() for peer in self._server.peers]
        return sum(s["messages_sent"] for s in stats), sum(s["sends"] for s in stats)

    async def close(self) -> None:
        await self._server.close(grace=1.0)


class _Client:
    def __init__(self, client: rpcproto.Client) -> None:
        self._client = client
        self.request = client.request

    def counters(self) -> tuple[int, int]:
        stats = self._client.stats()
        return stats["messages_sent"], stats["sends"]

    async def close(self) -> None:
        await self._client.close(grace=1.0)


class Rpcproto:
    """The library as a user has it."""

    handlers = HANDLERS
    codecs = CODECS
    transports = TRANSPORTS

    def prepare(self) -> None:
        pass

    def versions(self) -> Mapping[str, str | None]:
        return {}

    def method(self, workload: Workload) -> str:
        name = "echo" if workload.echo else "take"
        return "Echo." + name + ("" if workload.handler == "sync" else f"_{workload.handler}")

    async def serve(self, workload: Workload, address: str) -> Server:
        ssl = certificates.of_this_run().server() if workload.transport == "tls" else None
        return _Server(await rpcproto.serve(Echo(), address, ssl=ssl))

    async def connect(self, workload: Workload, address: str) -> Client:
        ssl = certificates.of_this_run().client() if workload.transport == "tls" else None
        return _Client(await rpcproto.connect(address, codec=workload.codec, ssl=ssl))
