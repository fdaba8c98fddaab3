"""Middleware where calls are made: it stands in for the methods of a peer that make calls.

A covered call is a task, which runs the middleware and in the end makes the call. Its caller has a Reply, Stream or
Channel at once. The link knows these tasks, so that closing waits for them as for calls.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from contextvars import copy_context
from functools import lru_cache, partial
from typing import TYPE_CHECKING, Any, Unpack

from rpcproto import _clock
from rpcproto.aio.context import calling
from rpcproto.aio.link import Link
from rpcproto.aio.middleware import Kind, OutgoingCall
from rpcproto.aio.middleware_items import LateItems
from rpcproto.aio.middleware_layers import Innermost, Layer, choose, run_layers
from rpcproto.aio.portal import check_thread
from rpcproto.aio.reply import Reply, new_reply
from rpcproto.aio.stream import Channel, Stream
from rpcproto.aio.streaming import to_seconds
from rpcproto.errors import CallCancelled, ConnectionClosed, DeadlineExceeded, RpcError
from rpcproto.serialization import registry
from rpcproto.serialization.metadata import encode_metadata
from rpcproto.wire import spec

if TYPE_CHECKING:
    from rpcproto.aio.blocking_peer import CallOptions, NotifyOptions
    from rpcproto.aio.session import Session
    from rpcproto.serialization.codec import Codec

__all__ = ["CoveredCalls", "CoveredLink", "link_for"]

_GRACE = 0.1
"""Seconds that middleware gets after the deadline, to make of the error what it likes."""

_CLOSE_WAIT = 0.25
"""Seconds that cancelled middleware gets to end when the connection is closed."""

_DEFAULT: Any = object()


def link_for(layers: tuple[Layer, ...]) -> Callable[..., Link]:
    """What makes the links of one client or server: those of :class:`Link`, if no middleware covers calls made."""
    outgoing = tuple(layer for layer in layers if "client" in layer.sides)
    return partial(CoveredLink, outgoing) if outgoing else Link


class CoveredLink(Link):
    """A link that has middleware for the calls made over it.

    Args:
        layers: the middleware.
        args: as for :class:`Link`.

    Attributes:
        covered: the calls under way.
    """

    def __init__(self, layers: tuple[Layer, ...], *args: Any) -> None:
        super().__init__(*args)
        self.covered: dict[_Run, None] = {}
        CoveredCalls(self, layers).install()

    def done(self, run: _Run) -> None:
        """A covered call has ended, with its middleware."""
        del self.covered[run]
        self.on_call_done()

    async def close(self, grace: float) -> None:
        if self.covered:
            try:
                await asyncio.sleep(0)  # calls made just now are sent first, as others are
            except asyncio.CancelledError:
                self.finish()
                raise
        await super().close(grace)

    async def wait_closed(self) -> None:
        await super().wait_closed()
        current = asyncio.current_task()
        runs = [run for run in self.covered if run.task is not current]
        for run in runs:
            run.stop(ConnectionClosed(f"{run.call.method}: closed by this side", peer=self.connection.peer))
        if runs:
            await asyncio.wait([run.task for run in runs], timeout=_CLOSE_WAIT)

    async def _calls_done(self, grace: float) -> None:
        end = _clock.monotonic() + grace
        await super()._calls_done(grace)
        current = asyncio.current_task()
        tasks = [run.task for run in self.covered if run.task is not current]
        if tasks:
            await asyncio.wait(tasks, timeout=max(0.0, end - _clock.monotonic()))


class CoveredCalls:
    """The methods of one peer that make calls, with middleware.

    A call that none covers costs a look-up by its name, if others of its kind may be covered; else nothing.

    Args:
        link: of the peer.
        layers: the middleware.
    """

    def __init__(self, link: CoveredLink, layers: tuple[Layer, ...]) -> None:
        self._link = link
        self._session: Session = link.session
        self._layers = layers
        # Kept, since patterns take long to compare; not without bound, since nobody knows where names come from.
        self._chosen = lru_cache(maxsize=1024)(partial(choose, layers, "client"))

    def install(self) -> None:
        """Stand in for the peer's methods, of those kinds that are covered."""
        for kind in {kind for layer in self._layers for kind in layer.kinds}:
            setattr(self._link.peer, kind, getattr(self, kind))

    def request(self, method: str, *args: Any, **options: Unpack[CallOptions]) -> Reply:
        """As :meth:`Session.request <rpcproto.aio.session.Session.request>`."""
        layers = self._covering("request", method)
        if not layers:
            return self._session.request(method, *args, **options)
        run = self._prepare("request", method, args, self._session.timeouts.request, **options)
        return self._send(run, layers, self._request)

    def notify(self, method: str, *args: Any, **options: Unpack[NotifyOptions]) -> Reply:
        """As :meth:`Session.notify <rpcproto.aio.session.Session.notify>`."""
        layers = self._covering("notify", method)
        if not layers:
            return self._session.notify(method, *args, **options)
        run = self._prepare("notify", method, args, None, **options)
        return self._send(run, layers, self._notify)

    def stream(self, method: str, *args: Any, **options: Unpack[CallOptions]) -> Stream:
        """As :meth:`Session.stream <rpcproto.aio.streaming.Streaming.stream>`."""
        layers = self._covering("stream", method)
        if not layers:
            return self._session.stream(method, *args, **options)
        run = self._prepare("stream", method, args, None, **options)
        return Stream(self._flow(run, layers, spec.STREAM))

    def channel(self, method: str, *args: Any, **options: Unpack[CallOptions]) -> Channel:
        """As :meth:`Session.channel <rpcproto.aio.streaming.Streaming.channel>`."""
        layers = self._covering("channel", method)
        if not layers:
            return self._session.channel(method, *args, **options)
        run = self._prepare("channel", method, args, None, **options)
        return Channel(self._flow(run, layers, spec.CHANNEL))

    # -- Beginning -----------------------------------------------------------------------------------------------------

    def _covering(self, kind: Kind, method: object) -> tuple[Layer, ...]:
        """The middleware of a call; of what is no name none, as the session will say what is wrong with it."""
        return self._chosen(kind, method) if isinstance(method, str) else ()

    def _prepare(
        self,
        kind: Kind,
        method: str,
        args: tuple[Any, ...],
        default: float | None,
        *,
        timeout: Any = _DEFAULT,
        codec: str | Codec | None = None,
        metadata: Any = None,
    ) -> _Run:
        """The call as middleware will see it. Raises for options that make no sense, as without middleware."""
        session = self._session
        assert session.connection is not None
        assert session.peer is not None
        check_thread(session.loop, session.connection.peer)
        chosen = session.codec if codec is None else registry.get(codec)
        seconds = to_seconds(default if timeout is _DEFAULT else timeout)
        handled = session.slot.context()  # asked now: an inline handler's is gone when the task begins
        if handled is not None:
            session.slot.nests = True
            seconds = handled.seconds(seconds)
            metadata = handled.passed_on(metadata)
        if metadata is not None:
            encode_metadata(metadata)
        context = copy_context()
        if handled is not None:
            context.run(calling.set, handled)
        deadline = _clock.monotonic() + seconds if seconds else 0.0
        call = OutgoingCall(kind, method, args, session.peer, deadline, dict(metadata or {}))
        return _Run(self._link, call, chosen, context)

    def _send(self, run: _Run, layers: tuple[Layer, ...], innermost: Callable[[Codec, OutgoingCall], Any]) -> Reply:
        reply = new_reply(self._session.runtime.wakes, run, 0)
        reply.method = run.call.method
        run.start(layers, partial(innermost, run.codec), partial(_settle, reply, run.call))
        return reply

    def _flow(self, run: _Run, layers: tuple[Layer, ...], kind: int) -> LateItems:
        items = LateItems(run.call, kind, self._session, run.codec, run.cancel)
        run.start(layers, partial(self._open, items), lambda _, error: items.conclude(error))
        return items

    # -- What the calls come to ----------------------------------------------------------------------------------------

    async def _request(self, codec: Codec, call: OutgoingCall) -> Any:
        left = _time_left(call)
        reply = self._session.request(
            call.method, *call.args, timeout=left, codec=codec, metadata=call.metadata or None
        )
        try:
            return await reply
        finally:
            call.set_reply(reply.given_metadata)
            del reply  # see Reply.result()

    async def _notify(self, codec: Codec, call: OutgoingCall) -> None:
        await self._session.notify(call.method, *call.args, codec=codec, metadata=call.metadata or None)

    async def _open(self, items: LateItems, call: OutgoingCall) -> None:
        _time_left(call)
        items.begin(call)
        try:
            await items.until_over()
        finally:
            items.withdraw()


class _Run:
    """One covered call under way: the task of its middleware, and what ends with it.

    Attributes:
        call, codec: what is called, and how it is encoded.
        task: runs the middleware.
    """

    __slots__ = ("__weakref__", "_context", "_finish", "_link", "_timer", "call", "codec", "task")

    task: asyncio.Task[None]

    def __init__(self, link: CoveredLink, call: OutgoingCall, codec: Codec, context: Any) -> None:
        self.call = call
        self.codec = codec
        self._link = link
        self._context = context
        self._finish: Callable[[Any, BaseException | None], object] | None = None
        self._timer: asyncio.TimerHandle | None = None

    def start(
        self, layers: tuple[Layer, ...], innermost: Innermost, finish: Callable[[Any, BaseException | None], object]
    ) -> None:
        """Run the middleware; ``finish(result, error)`` tells the caller."""
        self._finish = finish
        loop = self._link.session.loop
        left = self.call.time_left
        if left is not None:
            self._timer = loop.call_later(left + _GRACE, self._expire)
        self._link.covered[self] = None
        self.task = loop.create_task(self._conduct(layers, innermost), context=self._context)
        self.task.add_done_callback(self._done)

    def cancel_call(self, call_id: int) -> None:
        """The caller has cancelled the Reply."""
        self.cancel()

    def cancel(self) -> None:
        """The caller has given the call up."""
        self.task.cancel()

    def stop(self, error: RpcError) -> None:
        """End the call with an error, and its middleware."""
        self._end(None, error)
        self.task.cancel()

    def _expire(self) -> None:
        peer = self._link.connection.peer
        text = f"{self.call.method} at {peer}: its middleware did not end within its timeout"
        self.stop(DeadlineExceeded(text, method=self.call.method, peer=peer))

    async def _conduct(self, layers: tuple[Layer, ...], innermost: Innermost) -> None:
        try:
            result = await run_layers(layers, self.call, innermost)
        except asyncio.CancelledError:
            raise  # see _done()
        except BaseException as error:
            self._end(None, error)
            if not isinstance(error, Exception):
                raise
        else:
            self._end(result, None)

    def _end(self, result: Any, error: BaseException | None) -> None:
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        finish, self._finish = self._finish, None
        if finish is not None:
            finish(result, error)

    def _done(self, task: asyncio.Task[None]) -> None:
        if self._finish is not None:  # cancelled, perhaps before it had begun; if by the caller, then nobody listens
            text = f"{self.call.method}: given up by its middleware"
            self._end(None, CallCancelled(text, method=self.call.method, peer=self._link.connection.peer))
        self._link.done(self)


def _settle(reply: Reply, call: OutgoingCall, result: Any, error: BaseException | None) -> None:
    if error is None:
        try:
            reply.given_metadata = call.encode_reply_metadata()
        except RpcError as wrong:
            reply.settle_error(wrong)
            return
        reply.settle(result)
    else:
        reply.settle_error(error)


def _time_left(call: OutgoingCall) -> float | None:
    """The time-out of what is sent now.

    Raises:
        DeadlineExceeded: it is over.
    """
    left = call.time_left
    if left == 0.0:
        text = f"{call.method} at {call.peer.address}: not sent, its time was over before middleware proceeded"
        raise DeadlineExceeded(text, method=call.method, peer=call.peer.address)
    return left
