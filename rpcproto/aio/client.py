"""A connection that this side makes."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Generator, Mapping
from types import TracebackType
from typing import Any

from rpcproto import transports
from rpcproto.aio.link import Link
from rpcproto.aio.options import MAX_THREADS, Allocate, Middlewares, Options
from rpcproto.aio.peer import Peer
from rpcproto.aio.reply import Reply
from rpcproto.aio.secret import Secret
from rpcproto.aio.stream import Channel, Stream
from rpcproto.aio.typed import Typed
from rpcproto.config import Limits, Timeouts
from rpcproto.connection.budget import ReassemblyBudget
from rpcproto.errors import ConfigurationError, ConnectFailed, ConnectionClosed, ConnectionLost, LocalProtocolError
from rpcproto.serialization.codec import Codec
from rpcproto.transports import Security, TLSSource
from rpcproto.wire.spec import Role

__all__ = ["Client", "connect"]


class Client(Typed):
    """One connection to a server. Made by :func:`connect`; use it as an async context manager, or await it and close
    it.

    ``request`` and ``notify`` are those of :attr:`peer`.
    """

    def __init__(self, address: str, options: Options, security: Security | None = None) -> None:
        self._address = address
        self._options = options
        self._security = security
        self._link: Link | None = None
        self._attempt: asyncio.Task[Link] | None = None
        self._entered = False
        self._closing = False
        self._proxies = None

    @property
    def address(self) -> str:
        """The address connected to."""
        return self._address

    @property
    def peer(self) -> Peer:
        """The server.

        Raises:
            LocalProtocolError: not connected yet.
            ConnectionClosed: closed before it was connected.
        """
        if self._link is not None:
            return self._link.peer
        if self._closing:
            raise ConnectionClosed(f"{self._address}: the client was closed before it was connected")
        raise LocalProtocolError(f"not connected to {self._address} yet: use `async with`, or await the client first")

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self._closing if self._link is None else self._link.peer.closed

    def request(
        self,
        method: str,
        *args: Any,
        timeout: float | None = None,
        codec: str | Codec | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Reply:
        """See :meth:`Session.request <rpcproto.aio.session.Session.request>`, which takes this place once connected."""
        return self.peer.request(method, *args, timeout=timeout, codec=codec, metadata=metadata)

    def notify(
        self, method: str, *args: Any, codec: str | Codec | None = None, metadata: Mapping[str, Any] | None = None
    ) -> Reply:
        """See :meth:`Session.notify <rpcproto.aio.session.Session.notify>`, which takes this place once connected."""
        return self.peer.notify(method, *args, codec=codec, metadata=metadata)

    def stream(
        self,
        method: str,
        *args: Any,
        timeout: float | None = None,
        codec: str | Codec | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Stream:
        """See :meth:`Session.stream <rpcproto.aio.session.Session.stream>`."""
        return self.peer.stream(method, *args, timeout=timeout, codec=codec, metadata=metadata)

    def channel(
        self,
        method: str,
        *args: Any,
        timeout: float | None = None,
        codec: str | Codec | None = None,
        metadata: Mapping[str, Any] | None = None,
    ) -> Channel:
        """See :meth:`Session.channel <rpcproto.aio.session.Session.channel>`."""
        return self.peer.channel(method, *args, timeout=timeout, codec=codec, metadata=metadata)

    async def ping(self, timeout: float | None = 10.0) -> float:
        """Round-trip time in seconds; see :meth:`Peer.ping <rpcproto.aio.peer.Peer.ping>`."""
        return await self.peer.ping(timeout)

    def stats(self) -> dict[str, int]:
        """Counters of the connection since it was made."""
        return self.peer.stats()

    async def close(self, grace: float = 5.0) -> None:
        """Close the connection, or give up making one. Can be called again; a shorter grace counts.

        Args:
            grace: seconds that calls under way, in both directions, get to end. In a handler of this connection use 0,
                or close it from another task: the handler is one of those calls.
        """
        self._closing = True
        if self._attempt is not None:
            self._attempt.cancel()
            await asyncio.wait([self._attempt])
        try:
            if self._link is not None:
                await self._link.close(grace)
        finally:
            self._options.close()

    async def wait_closed(self) -> None:
        """Wait until the connection has ended, for whatever reason."""
        if self._link is not None:
            await self._link.closed.wait()

    async def __aenter__(self) -> Client:
        if self._link is None or self._entered or self._closing:  # one that was awaited just before is entered as it is
            await self._connect()
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(5.0 if error is None else 0.0)

    def __await__(self) -> Generator[Any, None, Client]:
        return self._connect().__await__()

    def __repr__(self) -> str:
        state = "closed" if self.closed else "not connected" if self._link is None else "connected"
        return f"<Client {self._address} {state}>"

    async def _connect(self) -> Client:
        if self._link is not None or self._attempt is not None:
            raise ConfigurationError(f"a client connects once; make another one by connect({self._address!r})")
        if self._closing:
            raise ConnectionClosed(f"{self._address}: the client was closed before it was connected")
        # In a task of its own, so that close() can end it.
        attempt = self._attempt = asyncio.get_running_loop().create_task(self._open())
        try:
            self._link = await attempt
        except asyncio.CancelledError:
            if attempt.cancelled() and self._closing:
                raise ConnectionClosed(f"{self._address}: the client was closed while it was connecting") from None
            if not attempt.cancelled() and attempt.exception() is None:  # connected just when this was cancelled
                attempt.result().abort()
                await attempt.result().closed.wait()
            raise
        finally:
            self._attempt = None
        self.request = self._link.peer.request  # type: ignore[method-assign]
        self.notify = self._link.peer.notify  # type: ignore[method-assign]
        return self

    async def _open(self) -> Link:
        """Make a connection, and wait until the server has greeted, and proved what it has to."""
        opened: asyncio.Future[None] = asyncio.get_running_loop().create_future()

        def on_open(link: Link) -> None:
            if not opened.done():
                opened.set_result(None)

        def on_close(link: Link) -> None:
            if not opened.done():
                error = link.connection.end
                hint = transports.early_end(self._address) if isinstance(error, ConnectionLost) else ""
                failed = ConnectFailed(f"{self._address}: {error}{hint}", address=self._address)
                failed.__cause__ = error
                opened.set_exception(failed)

        link = self._options.link(Role.INITIATOR, on_open, on_close)
        try:
            await transports.connect(
                self._address, lambda: link, timeout=self._options.timeouts.connect, security=self._security
            )
            await opened
            if link.connection.end is not None:  # turned away in the same breath
                raise ConnectFailed(f"{self._address}: {link.connection.end}", address=self._address)
        except BaseException:
            opened.cancel()
            link.abort()
            if link.transport is not None:
                await link.closed.wait()
            raise
        return link


def connect(
    address: str,
    *,
    ssl: TLSSource | None = None,
    server_hostname: str | None = None,
    service: Any = None,
    codec: str | Codec = "msgpack",
    limits: Limits | None = None,
    timeouts: Timeouts | None = None,
    tracebacks: bool = False,
    allocate: Allocate | None = None,
    max_threads: int = MAX_THREADS,
    budget: ReassemblyBudget | None = None,
    secret: Secret | Callable[[], Secret] | None = None,
    insecure: bool = False,
    middleware: Middlewares = (),
) -> Client:
    """Connect to a server: ``async with connect(address) as client`` or ``client = await connect(address)``.

    Args:
        address: such as ``tcp://127.0.0.1:1234``, ``tls://host:1234``, ``unix:///run/x.sock`` or ``inproc://name``.
        ssl: for ``tls://``: a :class:`~rpcproto.TLS`, an :class:`ssl.SSLContext`, or a function that returns one for
            each handshake. None: who has a certificate for the host name from an authority that the system trusts.
        server_hostname: the name that the server's certificate must be for, if not that of the address.
        service: what the server may call back over this connection: as for :func:`~rpcproto.serve`.
        codec: name of the codec of calls that name none.
        limits, timeouts: of this side.
        tracebacks: tell the server the traceback when a handler called back raises.
        allocate: hook ``allocate(sizes) -> writable buffers`` for the memory of large received messages.
        max_threads: threads for handlers declared with ``thread=True``.
        budget: reassembly budget; by default that of the process.
        secret: what both sides must prove that they know, without telling it: bytes or text (its UTF-8 bytes), at least
            16 bytes; or a function without arguments that returns one, called at each connecting.
        insecure: at a ``unix:`` address, accept a server of another user than this one or root, who has no secret to
            prove.
        middleware: coroutine functions around the calls made, or what :func:`~rpcproto.covering` makes of
            them, the outermost first. See :class:`~rpcproto.Middleware`.

    Raises:
        ConfigurationError: an argument makes no sense.
        ConnectFailed: when it is entered or awaited: nobody was reached, it does not speak this protocol, or one side
            did not accept the other.
    """
    transports.parse(address)
    options = Options(
        service=service,
        codec=codec,
        limits=limits,
        timeouts=timeouts,
        tracebacks=tracebacks,
        allocate=allocate,
        max_threads=max_threads,
        budget=budget,
        secret=secret,
        several=False,
        insecure=insecure,
        middleware=middleware,
        side="client",
    )
    security = transports.secure(
        ssl,
        [address],
        server=False,
        timeout=options.timeouts.handshake,
        limit=options.limits.max_handshakes,
        server_hostname=server_hostname,
    )
    return Client(address, options, security)
