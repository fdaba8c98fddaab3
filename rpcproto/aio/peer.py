"""The other end of a connection, for calling it: the same object on both sides, in clients and in handlers."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Literal

from rpcproto import _clock
from rpcproto.aio.blocking_peer import BlockingPeer
from rpcproto.aio.typed import Typed
from rpcproto.errors import DeadlineExceeded
from rpcproto.wire.spec import Role

if TYPE_CHECKING:
    from rpcproto.aio.link import Link
    from rpcproto.aio.session import Session
    from rpcproto.transports import Credentials

__all__ = ["Peer"]

_DEFAULT: Any = object()


class Peer(Typed):
    """The other end of one connection.

    Got from :attr:`Client.peer`, :attr:`Server.peers`, or, in a handler, :func:`rpcproto.peer`.

    Attributes:
        state: a dict for the application's own use, as long as the connection lives.
    """

    __slots__ = ("__weakref__", "_link", "_session", "channel", "notify", "request", "state", "stream")

    def __init__(self, session: Session, link: Link) -> None:
        self._session = session
        self._link = link
        self._proxies = None
        self.request = session.request
        self.notify = session.notify
        self.stream = session.stream
        self.channel = session.channel
        self.state: dict[Any, Any] = {}

    @property
    def address(self) -> str:
        """Where the peer is, as text."""
        return self._link.connection.peer

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self._link.connection.end is not None

    @property
    def role(self) -> Literal["client", "server"]:
        """What the peer is in this connection: "client" if it made it, "server" if it accepted it."""
        return "client" if self._link.role == Role.ACCEPTOR else "server"

    @property
    def authenticated(self) -> bool:
        """Whether it is known who the peer is: it proved the shared secret; or holds a certificate that was verified
        (``tls:``); or is a process of this user or root (``unix:``), or this process (``inproc:``)."""
        return self._link.identity.authenticated

    @property
    def credentials(self) -> Credentials | None:
        """Process, user and group of the peer at a ``unix:`` address, as they were at connecting; None elsewhere, and
        where the system does not tell (neither Linux nor macOS)."""
        return self._link.identity.credentials

    @property
    def blocking(self) -> BlockingPeer:
        """The same peer for threads other than that of the loop, such as handlers declared with ``thread=True``."""
        return BlockingPeer(self, self._session.runtime.portal)

    @property
    def certificate(self) -> dict[str, Any] | None:
        """The certificate that the peer has proved to hold, with the fields of :meth:`ssl.SSLSocket.getpeercert`.

        None without TLS, if the peer showed none, or if the context does not verify it.
        """
        certificate = self._link.identity.certificate
        return None if certificate is None else certificate.fields

    @property
    def certificate_der(self) -> bytes | None:
        """The whole of :attr:`certificate`, in DER."""
        certificate = self._link.identity.certificate
        return None if certificate is None else certificate.der

    async def ping(self, timeout: float | None = 10.0) -> float:
        """Round-trip time to the peer's protocol machinery, in seconds. It needs no credit and passes all queued calls.

        Args:
            timeout: seconds until DeadlineExceeded, None for no limit.

        Raises:
            DeadlineExceeded: no answer within ``timeout`` seconds.
            RpcError: the connection ended.
        """
        start = _clock.monotonic()
        try:
            async with asyncio.timeout(timeout):
                await self._session.ping()
        except TimeoutError:
            text = f"ping of {self.address}: no answer within {timeout:g} s"
            raise DeadlineExceeded(text, method="ping", peer=self.address) from None
        return _clock.monotonic() - start

    def stats(self) -> dict[str, int]:
        """Counters of the connection since it was made."""
        return self._session.stats()

    async def close(self, grace: float = 5.0) -> None:
        """Close the connection: calls under way, in both directions, get ``grace`` seconds to end.

        In a handler of this connection use 0, or close it from another task: the handler is one of those calls.
        """
        await self._link.close(grace)

    def __repr__(self) -> str:
        return f"<Peer {self.address}{' closed' if self.closed else ''}>"
