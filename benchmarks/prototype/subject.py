"""The featureless prototype as a subject of ``rpcproto.bench``: built on the spot from ``monolith.pyx``."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

from building import CannotBuild, extension

from rpcproto.bench import SubjectMissing, Workload


def load(features: Sequence[str] = ()) -> ModuleType:
    """The compiled prototype, built if need be.

    Args:
        features: names of the ``WITH_`` constants of ``monolith.pyx`` to set, without that prefix.

    Raises:
        SubjectMissing: no Cython or no compiler.
    """
    key = "-".join(["monolith", *features])
    if key not in sys.modules:
        flags = [f"-DWITH_{feature}=1" for feature in features]
        try:
            built = extension(Path(__file__).with_name("monolith.pyx"), "monolith", flags)
        except CannotBuild as error:
            raise SubjectMissing(f"cannot be built: {error}") from None
        spec = importlib.util.spec_from_file_location("monolith", built)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        sys.modules[key] = module
    return sys.modules[key]


class Server:
    def __init__(self, server: asyncio.Server, address: str, links: list[Any]) -> None:
        self._server = server
        self._links = links
        self.address = address

    def counters(self) -> tuple[int, int]:
        return sum(link.messages_sent for link in self._links), sum(link.sends for link in self._links)

    async def close(self) -> None:
        self._server.close()


class Client:
    def __init__(self, transport: asyncio.BaseTransport, link: Any, request: Callable[..., Awaitable[object]]) -> None:
        self._transport = transport
        self._link = link
        self.request = request

    def counters(self) -> tuple[int, int]:
        return self._link.messages_sent, self._link.sends

    async def close(self) -> None:
        self._transport.close()


class Prototype:
    """Bytes only; a dict is packed and unpacked around it, by the plainest code there is.

    Args:
        features: see :func:`load`.
    """

    def __init__(self, features: Sequence[str] = ()) -> None:
        self.features = features

    handlers = ("sync",)
    codecs = ("raw", "msgpack")
    transports = ("tcp", "unix")

    def prepare(self) -> None:
        load(self.features)

    def versions(self) -> Mapping[str, str | None]:
        return {}

    def method(self, workload: Workload) -> str:
        return "Echo.echo"

    async def serve(self, workload: Workload, address: str) -> Server:
        loop = asyncio.get_running_loop()
        monolith = load(self.features)
        handler = _handler(workload)
        links: list[Any] = []

        def protocol() -> asyncio.BaseProtocol:
            links.append(monolith.Link(loop, handler))
            made: asyncio.BaseProtocol = monolith.LinkProtocol(links[-1])
            return made

        if address.startswith("unix://"):
            server = await loop.create_unix_server(protocol, address.removeprefix("unix://"))
        else:
            server = await loop.create_server(protocol, "127.0.0.1", 0)
            address = f"tcp://127.0.0.1:{server.sockets[0].getsockname()[1]}"
        return Server(server, address, links)

    async def connect(self, workload: Workload, address: str) -> Client:
        loop = asyncio.get_running_loop()
        monolith = load(self.features)
        link = monolith.Link(loop)

        def protocol() -> asyncio.BaseProtocol:
            made: asyncio.BaseProtocol = monolith.LinkProtocol(link)
            return made

        kind, _, where = address.partition("://")
        transport: asyncio.BaseTransport
        if kind == "unix":
            transport, _made = await loop.create_unix_connection(protocol, where)
        else:
            host, _, port = where.rpartition(":")
            transport, _made = await loop.create_connection(protocol, host, int(port))
        return Client(transport, link, _request(link, workload))


def _handler(workload: Workload) -> Callable[[bytes], bytes]:
    reply = workload.reply()
    if workload.codec == "raw":
        assert isinstance(reply, bytes)
        return (lambda payload: payload) if workload.echo else (lambda payload: reply)
    import msgpack

    pack, unpack = msgpack.Packer().pack, msgpack.unpackb

    def handler(payload: bytes) -> bytes:
        (value,) = unpack(payload)
        packed: bytes = pack(value if workload.echo else reply)
        return packed

    return handler


def _request(link: Any, workload: Workload) -> Callable[..., Awaitable[object]]:
    if workload.codec == "raw":
        request: Callable[..., Awaitable[object]] = link.request
        return request
    import msgpack

    pack, unpack = msgpack.Packer().pack, msgpack.unpackb

    async def packed(method: str, value: object) -> object:
        return unpack(await link.request(method, pack([value])))

    return packed


SUBJECTS = {"prototype": Prototype}
