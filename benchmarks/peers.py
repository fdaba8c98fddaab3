"""Peers: the same work over what else there is, as subjects of ``rpcproto.bench``.

Each does the plainest good thing its documentation shows: raw bytes, a window of calls in flight, nothing tuned for one
side only. asyncio streams are always there; pyzmq, grpc.aio and distributed when they are installed. They reach their
``SUBJECTS`` names through the same client loop as rpcproto.
"""

from __future__ import annotations

import asyncio
import importlib
import importlib.metadata
from collections.abc import Awaitable, Callable, Mapping
from typing import Any

from rpcproto.bench import SubjectMissing, Workload, certificates

SMALL = 4
"""Bytes of a length or a call id in the peers that need one."""


class Peer:
    """What all peers share: raw bytes and handlers that do nothing, over tcp."""

    handlers: tuple[str, ...] = ("sync",)
    codecs: tuple[str, ...] = ("raw",)
    transports: tuple[str, ...] = ("tcp",)
    distribution = ""
    module = ""

    def prepare(self) -> None:
        if self.module:
            try:
                importlib.import_module(self.module)
            except ImportError:
                raise SubjectMissing(f"not installed (pip install {self.distribution})") from None

    def versions(self) -> Mapping[str, str | None]:
        return {self.distribution: importlib.metadata.version(self.distribution)} if self.distribution else {}

    def method(self, workload: Workload) -> str:
        return "Echo.echo"


class Endpoint:
    """A server or a client of a peer: an address, a request function, and how to close it."""

    def __init__(
        self,
        close: Callable[[], Awaitable[object]],
        *,
        address: str = "",
        request: Callable[[str, Any], Awaitable[object]] | None = None,
    ) -> None:
        self._close = close
        self.address = address
        if request is not None:
            self.request = request

    def counters(self) -> None:
        return None

    async def close(self) -> None:
        await self._close()


def answer(workload: Workload) -> Callable[[bytes], bytes]:
    """The handler."""
    reply = workload.reply()
    assert isinstance(reply, bytes)
    return (lambda payload: payload) if workload.echo else (lambda payload: reply)


def tcp_port(address: str) -> tuple[str, int]:
    host, _, port = address.partition("://")[2].rpartition(":")
    return host, int(port)


class Streams(Peer):
    """asyncio streams: 4-byte length, payload; replies come in order, so a queue of futures is all that is needed."""

    transports = ("tcp", "tls", "unix")

    async def serve(self, workload: Workload, address: str) -> Endpoint:
        handler = answer(workload)

        async def connected(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
            try:
                while True:
                    size = int.from_bytes(await reader.readexactly(SMALL), "little")
                    reply = handler(await reader.readexactly(size))
                    writer.write(len(reply).to_bytes(SMALL, "little") + reply)
                    await writer.drain()
            except (asyncio.IncompleteReadError, ConnectionError):
                writer.close()

        if address.startswith("unix://"):
            server = await asyncio.start_unix_server(connected, address.removeprefix("unix://"), limit=2**18)
        else:
            ssl = certificates.of_this_run().server().context(server=True) if workload.transport == "tls" else None
            server = await asyncio.start_server(connected, "127.0.0.1", 0, limit=2**18, ssl=ssl)
            address = f"{workload.transport}://127.0.0.1:{server.sockets[0].getsockname()[1]}"

        async def close() -> None:
            server.close()

        return Endpoint(close, address=address)

    async def connect(self, workload: Workload, address: str) -> Endpoint:
        if address.startswith("unix://"):
            reader, writer = await asyncio.open_unix_connection(address.removeprefix("unix://"), limit=2**18)
        else:
            ssl = certificates.of_this_run().client().context(server=False) if workload.transport == "tls" else None
            reader, writer = await asyncio.open_connection(*tcp_port(address), limit=2**18, ssl=ssl)
        loop = asyncio.get_running_loop()
        waiting: asyncio.Queue[asyncio.Future[bytes]] = asyncio.Queue()

        async def receive() -> None:
            while True:
                size = int.from_bytes(await reader.readexactly(SMALL), "little")
                payload = await reader.readexactly(size)
                waiting.get_nowait().set_result(payload)

        async def request(method: str, value: bytes) -> bytes:
            future: asyncio.Future[bytes] = loop.create_future()
            waiting.put_nowait(future)
            writer.write(len(value).to_bytes(SMALL, "little") + value)
            await writer.drain()
            return await future

        task = loop.create_task(receive())

        async def close() -> None:
            task.cancel()
            writer.close()

        return Endpoint(close, request=request)


class Pyzmq(Peer):
    """pyzmq's asyncio sockets: ROUTER and DEALER, a call id before the payload."""

    distribution, module = "pyzmq", "zmq.asyncio"

    async def serve(self, workload: Workload, address: str) -> Endpoint:
        import zmq
        import zmq.asyncio

        handler = answer(workload)
        context = zmq.asyncio.Context()
        socket = context.socket(zmq.ROUTER)
        port = socket.bind_to_random_port("tcp://127.0.0.1")

        async def receive() -> None:
            while True:
                who, call, payload = await socket.recv_multipart()
                await socket.send_multipart([who, call, handler(payload)])

        task = asyncio.get_running_loop().create_task(receive())

        async def close() -> None:
            task.cancel()
            context.destroy(linger=0)

        return Endpoint(close, address=f"tcp://127.0.0.1:{port}")

    async def connect(self, workload: Workload, address: str) -> Endpoint:
        import zmq
        import zmq.asyncio

        loop = asyncio.get_running_loop()
        context = zmq.asyncio.Context()
        socket = context.socket(zmq.DEALER)
        socket.connect(address)
        waiting: dict[bytes, asyncio.Future[bytes]] = {}
        last = 0

        async def receive() -> None:
            while True:
                call, payload = await socket.recv_multipart()
                waiting.pop(call).set_result(payload)

        async def request(method: str, value: bytes) -> bytes:
            nonlocal last
            last = (last + 1) % 2**32
            call = last.to_bytes(SMALL, "little")
            future = waiting[call] = loop.create_future()
            await socket.send_multipart([call, value])
            return await future

        task = loop.create_task(receive())

        async def close() -> None:
            task.cancel()
            context.destroy(linger=0)

        return Endpoint(close, request=request)


class Grpc(Peer):
    """grpc.aio with unary calls of bytes, no protobuf. Its handler is a coroutine: it has no other on the loop."""

    distribution, module = "grpcio", "grpc.aio"
    options = (("grpc.max_send_message_length", -1), ("grpc.max_receive_message_length", -1))

    async def serve(self, workload: Workload, address: str) -> Endpoint:
        import grpc

        handler = answer(workload)

        async def echo(request: bytes, context: object) -> bytes:
            return handler(request)

        server = grpc.aio.server(options=self.options)
        handlers = {"echo": grpc.unary_unary_rpc_method_handler(echo)}
        server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler("Echo", handlers),))
        port = server.add_insecure_port("127.0.0.1:0")
        await server.start()

        async def close() -> None:
            await server.stop(0)

        return Endpoint(close, address=f"tcp://127.0.0.1:{port}")

    async def connect(self, workload: Workload, address: str) -> Endpoint:
        import grpc

        channel = grpc.aio.insecure_channel(address.removeprefix("tcp://"), options=self.options)
        call = channel.unary_unary("/Echo/echo")

        async def request(method: str, value: bytes) -> object:
            reply: object = await call(value)
            return reply

        return Endpoint(channel.close, request=request)


class Distributed(Peer):
    """distributed's own rpc: a ``Server`` with a handler, one pooled connection for each call in flight."""

    distribution, module = "distributed", "distributed.core"

    async def serve(self, workload: Workload, address: str) -> Endpoint:
        from distributed.core import Server

        handler = answer(workload)

        def echo(value: bytes) -> bytes:
            return handler(value)

        server = Server({"echo": echo})
        await server.listen("tcp://127.0.0.1:0")
        return Endpoint(server.close, address=server.address)

    async def connect(self, workload: Workload, address: str) -> Endpoint:
        from distributed.core import ConnectionPool

        pool = ConnectionPool(limit=workload.concurrency)
        await pool.start()
        remote = pool(address)

        async def request(method: str, value: bytes) -> object:
            reply: object = await remote.echo(value=value)
            return reply

        return Endpoint(pool.close, request=request)


SUBJECTS: dict[str, Callable[[], Peer]] = {
    "streams": Streams,
    "pyzmq": Pyzmq,
    "grpc": Grpc,
    "distributed": Distributed,
}
