"""Middleware: code around calls, of every kind and at both ends, written once::

    async def timed(call, proceed):
        started = time.perf_counter()
        try:
            return await proceed(call)  # the result of a request; None of the other kinds, when the call has ended
        finally:
            print(call.side, call.kind, call.method, time.perf_counter() - started)

    rpcproto.serve(service, address, middleware=[timed])
    rpcproto.connect(address, middleware=[timed])

Rules:

1. The first of a list is the outermost: it sees the call first and the result last.
2. A list covers what its end is for: that of ``serve`` the calls served, that of ``connect`` the calls made. Calls back
   over the same connection are covered where :func:`covering` says so, by ``sides=``.
3. What is not covered runs as if there was no middleware. What is covered runs in a task. So the calls of a plain
   handler begin in the order of arrival, but what their middleware waits for lets others pass; and a covered call is
   sent a turn of the loop later than one that is not, and its arguments must not be changed before it has ended.
4. What a middleware raises fails the call, as it would if the handler had raised it (at the server) or the call had (at
   the client). What it returns without proceeding is the result.
5. A call that is given up, or whose time is over at the server, cancels its middleware. At the client the error of the
   call comes out of ``proceed``; a tenth of a second after its deadline the call ends, whatever its middleware does.
6. ``proceed`` can be called again, after it has ended, for requests and notifies: so a middleware can retry. Changes of
   ``args``, ``deadline`` and, at the client, ``metadata`` by those further in are undone before it returns. Streams and
   channels proceed once.
7. What is refused before a handler would begin does not reach the server's middleware: unknown methods, calls beyond a
   limit, arguments that cannot be decoded.

How the list is read and run is in ``middleware_layers``, the server's end in ``middleware_handlers``, the client's in
``middleware_calls``, and items, of both, in ``middleware_items``.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal, Protocol

from rpcproto import _clock
from rpcproto.aio.handler import is_coroutine_function
from rpcproto.errors import ConfigurationError
from rpcproto.serialization.metadata import decode_metadata, encode_metadata

if TYPE_CHECKING:
    from rpcproto.aio.context import CallContext
    from rpcproto.aio.peer import Peer

__all__ = ["Call", "Covering", "IncomingCall", "Kind", "Middleware", "OutgoingCall", "Proceed", "Side", "covering"]

Kind = Literal["request", "notify", "stream", "channel"]
Side = Literal["client", "server"]
ItemHook = Callable[[Any], Any]


class Call:
    """One call as middleware sees it, at the end that makes it or at the one that serves it.

    Attributes:
        method: its wire name.
        kind: "request", "notify", "stream" or "channel".
        side: "client" where the call is made, "server" where it is served.
        peer: the other end.
        deadline: monotonic time in seconds at which the call is over, 0.0 for never. At the client it may be set before
            proceeding, for what is further in; the caller's own holds nevertheless.
    """

    __slots__ = ("_args", "_received", "_sent", "deadline", "kind", "method", "peer", "side")

    def __init__(self, side: Side, kind: Kind, method: str, args: Sequence[Any], peer: Peer, deadline: float) -> None:
        self.side: Side = side
        self.kind: Kind = kind
        self.method = method
        self.peer = peer
        self.deadline = deadline
        self._args = tuple(args)
        self._sent: list[ItemHook] = []
        self._received: list[ItemHook] = []

    @property
    def args(self) -> tuple[Any, ...]:
        """The arguments; those of a channel without the Channel. Can be replaced before proceeding.

        Raises:
            ConfigurationError: by setting: it is no tuple or list.
        """
        return self._args

    @args.setter
    def args(self, args: Sequence[Any]) -> None:
        if not isinstance(args, (tuple, list)):
            raise ConfigurationError(f"args of the call of {self.method} must be a tuple or list, not {args!r:.100}")
        self._args = tuple(args)

    @property
    def metadata(self) -> dict[str, Any]:
        """What goes along with the call, at the client, or came with it. It can be changed before proceeding: by that,
        more is sent, or the handler finds more.

        Raises:
            SerializationError: what the peer sent is no metadata.
        """
        return self._get_metadata()

    @property
    def reply_metadata(self) -> dict[str, Any]:
        """What came along with the answer of a request, at the client, or will be sent with it, once it has been
        proceeded with. It can be changed then, or set.

        Raises:
            SerializationError: what the peer sent is no metadata.
        """
        return self._get_reply_metadata()

    @reply_metadata.setter
    def reply_metadata(self, metadata: dict[str, Any]) -> None:
        self._set_reply_metadata(metadata)

    @property
    def time_left(self) -> float | None:
        """Seconds until the call is over, 0.0 if it is; None if it has no deadline."""
        return max(0.0, self.deadline - _clock.monotonic()) if self.deadline else None

    def on_sent(self, hook: ItemHook) -> None:
        """Have ``hook(item)`` called for each item that this side sends in a stream or channel, and its result sent.

        The hooks of several middleware are called in the order of the nesting, as the item passes from the caller to
        the handler or back. For requests and notifies there is nothing to call it for.

        Args:
            hook: a plain function. What it raises is raised where the item is sent.

        Raises:
            ConfigurationError: it is no plain function.
        """
        self._add(self._sent, hook, self.side == "client")

    def on_received(self, hook: ItemHook) -> None:
        """Have ``hook(item)`` called for each item that this side receives in a stream or channel. What it returns is
        received. It is called when the item is taken, together with others that have arrived; at the client, at the
        latest before ``proceed`` returns.

        Args:
            hook: as for :meth:`on_sent`. What it raises is raised where the item would be received.

        Raises:
            ConfigurationError: it is no plain function.
        """
        self._add(self._received, hook, self.side == "server")

    def _add(self, hooks: list[ItemHook], hook: ItemHook, to_handler: bool) -> None:
        if not callable(hook) or is_coroutine_function(hook):
            raise ConfigurationError(f"a hook for items is a plain function that returns the item, not {hook!r:.100}")
        hooks.insert(len(hooks) if to_handler else 0, hook)

    def _get_metadata(self) -> dict[str, Any]:
        raise NotImplementedError

    def _get_reply_metadata(self) -> dict[str, Any]:
        raise NotImplementedError

    def _set_reply_metadata(self, metadata: dict[str, Any]) -> None:
        raise NotImplementedError

    def __repr__(self) -> str:
        return f"<Call of {self.kind} {self.method}, {self.side} side, peer {self.peer.address}>"


class Proceed(Protocol):
    """What goes on with a call: the next middleware, in the end the handler or the connection."""

    async def __call__(self, call: Call, /) -> Any:
        """Go on, and wait for the end of the call.

        Args:
            call: the one that the middleware was given.

        Returns:
            The result of a request, None of the other kinds.

        Raises:
            LocalProtocolError: it was called in a way that the rules of the module forbid.
            Exception: what the call failed with: at the client an RpcError, at the server what the handler raised.
        """


class Middleware(Protocol):
    """A coroutine function, or an object with such a ``__call__``. See the rules of the module."""

    def __call__(self, call: Call, proceed: Proceed, /) -> Awaitable[Any]:
        """Have a call go on, by ``await proceed(call)``, and return its result."""


class Covering:
    """A middleware, and what it covers. Made by :func:`covering`."""

    __slots__ = ("function", "kinds", "methods", "sides")

    def __init__(self, function: Any, methods: Any, kinds: Any, sides: Any) -> None:
        self.function = function
        self.methods = methods
        self.kinds = kinds
        self.sides = sides

    def __repr__(self) -> str:
        return f"covering({self.function!r}, methods={self.methods!r}, kinds={self.kinds!r}, sides={self.sides!r})"


def covering(
    middleware: Middleware,
    *,
    methods: str | Sequence[str] | None = None,
    kinds: Kind | Sequence[Kind] | None = None,
    sides: Side | Sequence[Side] | None = None,
) -> Covering:
    """Have a middleware cover only some calls: ``serve(..., middleware=[covering(check, methods="Store.*")])``.

    Args:
        middleware: the coroutine function.
        methods: wire names, or patterns of these with ``*``, ``?`` and ``[...]``. By default all.
        kinds: "request", "notify", "stream" or "channel", or several of these. By default all.
        sides: "server" for the calls that this end serves, "client" for those that it makes, or both. By default
            "server" in a list for ``serve`` and "client" in one for ``connect``.

    Returns:
        What to put into the list. It is checked by ``serve`` and ``connect``.
    """
    return Covering(middleware, methods, kinds, sides)


class OutgoingCall(Call):
    """A call of ours."""

    __slots__ = ("_metadata", "_raw", "_replied")

    def __init__(
        self, kind: Kind, method: str, args: Sequence[Any], peer: Peer, deadline: float, metadata: dict[str, Any]
    ) -> None:
        super().__init__("client", kind, method, args, peer, deadline)
        self._metadata = metadata
        self._raw: bytes | None = None
        self._replied: dict[str, Any] | None = None

    def set_reply(self, raw: bytes | None) -> None:
        """Metadata have come with the answer, or not."""
        self._raw = raw
        self._replied = None

    def encode_reply_metadata(self) -> bytes | None:
        """What the caller is to find with the answer.

        Raises:
            SerializationError: a middleware has put something else there.
        """
        return self._raw if self._replied is None else encode_metadata(self._replied)

    def _get_metadata(self) -> dict[str, Any]:
        return self._metadata

    def _get_reply_metadata(self) -> dict[str, Any]:
        if self._replied is None:
            self._replied = {} if self._raw is None else decode_metadata(self._raw)
        return self._replied

    def _set_reply_metadata(self, metadata: dict[str, Any]) -> None:
        self._replied = metadata


class IncomingCall(Call):
    """A call of the peer."""

    __slots__ = ("_context",)

    def __init__(self, kind: Kind, args: Sequence[Any], context: CallContext) -> None:
        super().__init__("server", kind, context.method, args, context.peer, context.deadline)
        self._context = context

    def _get_metadata(self) -> dict[str, Any]:
        return self._context.metadata

    def _get_reply_metadata(self) -> dict[str, Any]:
        found = self._context.reply_metadata
        if type(found) is not dict:
            found = self._context.reply_metadata = dict(found or {})
        return found

    def _set_reply_metadata(self, metadata: dict[str, Any]) -> None:
        self._context.reply_metadata = metadata
