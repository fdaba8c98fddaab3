"""The other end of a connection, for threads that wait: the blocking form of a peer."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any, Literal, TypedDict, Unpack

from rpcproto.aio.blocking_stream import BlockingChannel, BlockingStream
from rpcproto.aio.portal import CallFuture, Done, Portal

if TYPE_CHECKING:
    from rpcproto.aio.peer import Peer
    from rpcproto.serialization.codec import Codec
    from rpcproto.transports import Credentials

__all__ = ["BlockingPeer", "CallOptions", "NotifyOptions"]


class NotifyOptions(TypedDict, total=False):
    """Keyword arguments of a notify."""

    codec: str | Codec | None
    metadata: Mapping[str, Any] | None


class CallOptions(TypedDict, total=False):
    """Keyword arguments of the other calls."""

    timeout: float | None
    codec: str | Codec | None
    metadata: Mapping[str, Any] | None


class BlockingPeer:
    """The other end of one connection, to be called from any thread in which no event loop runs.

    Got from :attr:`Peer.blocking`; in a handler with ``thread=True`` that is ``rpcproto.peer().blocking``. It can be
    shared by threads. A wait that is interrupted, as by Ctrl-C, gives the call up.

    Every method that waits raises LocalProtocolError where an event loop runs in the calling thread, and ConnectionLost
    in a process that was forked off.

    Args:
        peer: the peer.
        portal: of its loop.
    """

    __slots__ = ("__weakref__", "_peer", "_portal")

    def __init__(self, peer: Peer, portal: Portal) -> None:
        self._peer = peer
        self._portal = portal

    @property
    def address(self) -> str:
        """Where the peer is, as text."""
        return self._peer.address

    @property
    def closed(self) -> bool:
        """Whether the connection has ended."""
        return self._peer.closed or self._portal.ended is not None

    @property
    def role(self) -> Literal["client", "server"]:
        """What the peer is in this connection; see :attr:`Peer.role`."""
        return self._peer.role

    @property
    def authenticated(self) -> bool:
        """Whether it is known who the peer is; see :attr:`Peer.authenticated`."""
        return self._peer.authenticated

    @property
    def credentials(self) -> Credentials | None:
        """Process, user and group of the peer at a ``unix:`` address; see :attr:`Peer.credentials`."""
        return self._peer.credentials

    @property
    def certificate(self) -> dict[str, Any] | None:
        """See :attr:`Peer.certificate <rpcproto.aio.peer.Peer.certificate>`."""
        return self._peer.certificate

    @property
    def certificate_der(self) -> bytes | None:
        """See :attr:`Peer.certificate_der <rpcproto.aio.peer.Peer.certificate_der>`."""
        return self._peer.certificate_der

    @property
    def state(self) -> dict[Any, Any]:
        """A dict for the application's own use: the one of :class:`Peer`."""
        return self._peer.state

    def request(self, method: str, *args: Any, **options: Unpack[CallOptions]) -> Any:
        """Call a method of the peer and wait for its answer.

        Args:
            method: its name.
            args: positional arguments.
            options: ``timeout`` in seconds until DeadlineExceeded, None for no limit, by default
                ``Timeouts.request``; ``codec``, the name of the codec of this call; ``metadata``, a small dict for the
                handler.

        Returns:
            What the method returned.

        Raises:
            SerializationError: the arguments cannot be encoded, or are larger than the peer receives.
            RpcError: the call cannot be made, or has failed.
        """
        return self._portal.call(self._peer.request, method, *args, **options)

    def submit(self, method: str, *args: Any, **options: Unpack[CallOptions]) -> Future[Any]:
        """Call a method of the peer, and do not wait: many calls can be under way.

        Args:
            method, args, options: as for :meth:`request`. Buffers larger than 4 KiB must not be changed until the call
                has ended.

        Returns:
            A future. Cancelling it gives the call up. Its callbacks run on the event loop and must not block.

        Raises:
            ConnectionLost: there is no event loop any more. Whatever else goes wrong is for the future.
        """
        return CallFuture(self._portal, self._peer.request, (method, *args), dict(options))

    def notify(self, method: str, *args: Any, **options: Unpack[NotifyOptions]) -> None:
        """Call a method of the peer that does not answer. Waits until the message was handed to the operating system.

        Args:
            method, args: as for :meth:`request`.
            options: ``codec`` and ``metadata``, as for :meth:`request`.

        Raises:
            RpcError: as for :meth:`request`; Overloaded if ``max_queued`` bytes wait to be sent already.
        """
        self._portal.call(self._peer.notify, method, *args, **options)

    def stream(self, method: str, *args: Any, **options: Unpack[CallOptions]) -> BlockingStream:
        """Call a method of the peer that sends many values.

        Args:
            method, args: as for :meth:`request`.
            options: ``timeout`` in seconds until the whole call must have ended, none by default; ``codec``,
                ``metadata``.

        Returns:
            An iterator. Giving it up gives the call up.

        Raises:
            RpcError: as for :meth:`request`.
        """
        return BlockingStream(self._portal.call(self._open, self._peer.stream, method, args, options), self._portal)

    def channel(self, method: str, *args: Any, **options: Unpack[CallOptions]) -> BlockingChannel:
        """Call a method of the peer with which both sides exchange many values.

        Args:
            method, args, options: as for :meth:`stream`.

        Returns:
            The channel, to iterate and to send to.

        Raises:
            RpcError: as for :meth:`request`.
        """
        return BlockingChannel(self._portal.call(self._open, self._peer.channel, method, args, options), self._portal)

    @staticmethod
    def _open(open_call: Any, method: str, args: tuple[Any, ...], options: CallOptions) -> Done:
        return Done(open_call(method, *args, **options))

    def ping(self, timeout: float | None = 10.0) -> float:
        """Round-trip time to the peer's protocol machinery, in seconds; see :meth:`Peer.ping`."""
        seconds: float = self._portal.run(self._peer.ping, timeout)
        return seconds

    def stats(self) -> dict[str, int]:
        """Counters of the connection since it was made."""
        return self._peer.stats()

    def close(self, grace: float = 5.0) -> None:
        """Close the connection: calls under way, in both directions, get ``grace`` seconds to end.

        In a handler of this connection use 0: the handler is one of those calls.
        """
        self._portal.run(self._peer.close, grace)

    def __repr__(self) -> str:
        return f"<{type(self).__name__} {self.address}{' closed' if self.closed else ''}>"
