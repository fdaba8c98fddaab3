"""Connections that this side accepts."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any

from rpcproto import transports
from rpcproto._logs import log
from rpcproto.aio.conformance import check_all
from rpcproto.aio.health import Health
from rpcproto.aio.inspector import Inspector, check_told
from rpcproto.aio.introspection import Told
from rpcproto.aio.link import Link
from rpcproto.aio.middleware_calls import CoveredLink
from rpcproto.aio.options import MAX_THREADS, Allocate, Middlewares, Options
from rpcproto.aio.peer import Peer
from rpcproto.aio.secret import SecretSource
from rpcproto.config import Limits, Timeouts
from rpcproto.connection.budget import ReassemblyBudget
from rpcproto.errors import ConfigurationError, LocalProtocolError
from rpcproto.serialization.codec import Codec
from rpcproto.transports import Security, TLSSource
from rpcproto.wire.spec import Role

if TYPE_CHECKING:
    import socket

    from rpcproto.transports import Listener

__all__ = ["Server", "serve"]

_GRACE = 30.0


class Server:
    """Listeners and the connections they accepted. Made by :func:`serve`; an async context manager, and awaitable.

    Attributes:
        health: whether calls are welcome, for those who ask; see :class:`~rpcproto.Health`.
    """

    def __init__(
        self, addresses: tuple[str, ...], options: Options, sock: socket.socket | None, security: Security | None
    ) -> None:
        self._wanted = addresses
        self._options = options
        self.health = Health(options.entries)
        self._sock = sock
        self._security = security
        self._listeners: list[Listener] = []
        self._links: dict[Link, int] = {}  # with their numbers
        self._numbers = itertools.count(1)
        self._arriving: dict[Link, None] = {}  # those that may not call yet, the oldest first
        self._ending: dict[Link, None] = {}  # those lost whose handlers have yet to end
        self._started = False
        self._entered = False
        self._closing = False
        self._closed = asyncio.Event()

    @property
    def address(self) -> str:
        """The first address listened on, with its actual port.

        Raises:
            LocalProtocolError: not started yet.
        """
        return self.addresses[0]

    @property
    def addresses(self) -> list[str]:
        """All addresses listened on, with their actual ports."""
        if not self._listeners:
            raise LocalProtocolError("the server does not listen: use `async with serve(...)`, or await it first")
        return [str(address) for listener in self._listeners for address in listener.addresses]

    @property
    def peers(self) -> list[Peer]:
        """The clients connected now, in the order of their connecting."""
        return [link.peer for link in self._links if link.opened and not link.peer.closed]

    async def close(self, grace: float = _GRACE) -> None:
        """Shut down: accept nothing more, refuse new calls, let running ones end, then close. Can be called again.

        Args:
            grace: seconds that running calls get; a second call with a shorter one cuts the first one's short. In a
                handler of this server use 0, or close it from another task: the handler is one of those calls.
        """
        self._closing = True
        for listener in self._listeners:
            listener.close()
        try:
            for listener in self._listeners:
                await listener.wait_closed()
            while self._links:
                await asyncio.gather(*(link.close(grace) for link in self._links))
            await asyncio.gather(*(link.wait_closed() for link in self._ending))
        finally:
            self._options.close()
            self._closed.set()

    async def serve_forever(self) -> None:
        """Wait until the server is closed; when cancelled, close it with the default grace."""
        try:
            await self._closed.wait()
        except asyncio.CancelledError:
            await self.close()
            raise

    async def __aenter__(self) -> Server:
        if not self._started or self._entered or self._closing:  # one that was awaited just before is entered as it is
            await self._start()
        self._entered = True
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        await self.close(_GRACE if error is None else 0.0)

    def __await__(self) -> Generator[Any, None, Server]:
        return self._start().__await__()

    def __repr__(self) -> str:
        where = ", ".join(self.addresses) if self._listeners else ", ".join(self._wanted)
        state = "closed" if self._closed.is_set() else "closing" if self._closing else f"{len(self._links)} connections"
        return f"<Server {where} {state}>"

    async def _start(self) -> Server:
        if self._started:
            raise ConfigurationError("this server was started before; make another one by serve()")
        self._started = True
        try:
            secrets = self._options.secrets
            if secrets is not None:
                secrets.now()  # a function that fails does so here
            open_to_all = self._options.insecure or secrets is not None
            for address in self._wanted:
                self._listeners.append(
                    await transports.listen(
                        address, self._accept, insecure=open_to_all, sock=self._sock, security=self._security
                    )
                )
                if self._closing:
                    raise ConfigurationError("the server was closed while it was starting")
        except BaseException:
            await self.close(0.0)
            raise
        return self

    def _accept(self) -> Link:
        link = self._options.link(Role.ACCEPTOR, self._arrived, self._forget)
        limit = self._options.limits.max_arriving
        if len(self._arriving) >= limit:
            oldest = next(iter(self._arriving))
            del self._arriving[oldest]
            log.warning("%s was cut: more than max_arriving=%d connect and do not greet", oldest.peer.address, limit)
            oldest.abort()
        self._arriving[link] = None
        self._links[link] = next(self._numbers)
        return link

    def _arrived(self, link: Link) -> None:
        self._arriving.pop(link, None)

    def _forget(self, link: Link) -> None:
        self._links.pop(link, None)
        self._arriving.pop(link, None)
        self._ending.pop(link, None)
        if link.connection.running or (isinstance(link, CoveredLink) and link.covered):
            self._ending[link] = None


def serve(
    service: Any,
    *addresses: str,
    implements: Any = (),
    ssl: TLSSource | None = None,
    insecure: bool = False,
    sock: socket.socket | None = None,
    codec: str | Codec = "msgpack",
    limits: Limits | None = None,
    timeouts: Timeouts | None = None,
    tracebacks: bool = False,
    allocate: Allocate | None = None,
    max_threads: int = MAX_THREADS,
    budget: ReassemblyBudget | None = None,
    secret: SecretSource | None = None,
    introspection: Told = "authenticated",
    middleware: Middlewares = (),
) -> Server:
    """Serve calls: ``async with serve(service, address) as server`` or ``server = await serve(service, address)``.

    Args:
        service: a :class:`~rpcproto.Service`, a mapping ``{name: function}``, or a sequence of these.
        addresses: where to listen, such as ``tcp://127.0.0.1:0`` (any free port), ``tls://0.0.0.0:1234`` or
            ``unix:///run/x.sock``.
        ssl: for ``tls://``: a :class:`~rpcproto.TLS`, an :class:`ssl.SSLContext`, or a function that returns one for
            each handshake.
        implements: a Protocol, or a sequence of them, whose methods must all be there: as for :func:`~rpcproto.check`.
        insecure: without a secret, allow addresses that other machines can reach, and processes of other users at
            ``unix:`` addresses.
        sock: a bound stream socket to listen on; then there is one address, which only says the scheme.
        codec: name of the codec of calls to clients that name none.
        limits, timeouts: of this side.
        tracebacks: tell callers the tracebacks of handlers that raise. They show code and paths.
        allocate: hook ``allocate(sizes) -> writable buffers`` for the memory of large received messages.
        max_threads: threads for handlers declared with ``thread=True``.
        budget: reassembly budget; by default that of the process.
        secret: what clients must prove that they know, and the server to them, without telling it: bytes or text (its
            UTF-8 bytes), at least 16 bytes. Of a sequence each one is accepted. To change it while serving: a function
            without arguments that returns one or a sequence, called at the start and for each connection; should it
            fail, the client is turned away. Proofs do not encrypt what follows them.
        introspection: who may call the built-in methods (:class:`~rpcproto.Introspection`), which tell what is served
            and what goes on: "authenticated" peers, "all" or "none". The one that tells the health is for all.
        middleware: coroutine functions around the calls served, or what :func:`~rpcproto.covering` makes of
            them, the outermost first. See :class:`~rpcproto.Middleware`.

    Raises:
        ConfigurationError: an argument makes no sense, or needs ``secret=`` or ``insecure=True``.
        ConnectFailed: when it is entered or awaited: an address cannot be listened on.
    """
    if not addresses:
        raise ConfigurationError('serve() needs an address, such as "tcp://127.0.0.1:0"')
    if sock is not None and len(addresses) != 1:
        raise ConfigurationError("serve() with sock= takes one address, which only says the scheme")
    for address in addresses:
        transports.parse(address)
    check_all(service, implements)
    check_told(introspection)
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
        several=True,
        insecure=insecure,
        middleware=middleware,
        side="server",
    )
    security = transports.secure(
        ssl, addresses, server=True, timeout=options.timeouts.handshake, limit=options.limits.max_handshakes
    )
    server = Server(addresses, options, sock, security)
    Inspector(server, service, options, server._links, introspection)
    return server
