"""Middleware where calls are served: a handler that is covered is exchanged for one that runs the middleware.

It is a coroutine function, so its calls run in tasks, as those of other coroutine functions; streams and channels give
their items to hooks. Handlers that are not covered stay the objects they are.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Sequence
from contextvars import copy_context
from typing import TYPE_CHECKING, Any, cast

from rpcproto import _clock
from rpcproto._logs import log
from rpcproto.aio import tasks
from rpcproto.aio.context import CallContext, calling
from rpcproto.aio.handler import Handler
from rpcproto.aio.middleware import IncomingCall, Kind
from rpcproto.aio.middleware_items import CoveredItems
from rpcproto.aio.middleware_layers import Layer, check_patterns, choose, run_layers
from rpcproto.aio.serving import SLOW
from rpcproto.aio.stream import Channel
from rpcproto.wire.spec import FrameType

if TYPE_CHECKING:
    from rpcproto.aio.items import Items
    from rpcproto.aio.session import Session
    from rpcproto.connection.calls import RunningCall

__all__ = ["CoveredHandler", "cover"]


def cover(handlers: dict[str, Handler], layers: tuple[Layer, ...]) -> dict[str, Handler]:
    """The handlers, with middleware around those that it covers.

    Raises:
        ConfigurationError: a middleware is for methods that are not served.
    """
    check_patterns(layers, handlers)
    covered = dict(handlers)
    for name, handler in handlers.items():
        chosen = choose(layers, "server", handler.kind.name.lower(), name)
        if chosen:
            covered[name] = CoveredHandler(handler, chosen)
    return covered


class CoveredHandler(Handler):
    """A handler with middleware around it.

    Args:
        original: the handler.
        layers: the middleware.
    """

    __slots__ = ("layers", "original", "slow_told")

    def __init__(self, original: Handler, layers: tuple[Layer, ...]) -> None:
        self.original = original
        self.layers = layers
        self.name = original.name
        self.kind = original.kind
        self.owner = original.owner
        self.signature = original.signature
        self.slow_told = False
        if original.kind in (FrameType.STREAM, FrameType.CHANNEL):
            self.function = self._accept
            self.mode = "covered"
        else:
            self.function = self._serve
            self.mode = "task"

    @property
    def within(self) -> Handler:
        return self.original

    def blame_arguments(self, error: TypeError, args: Sequence[Any]) -> str | None:
        if self.kind == FrameType.CHANNEL:
            args = [None, *args]  # in place of the Channel
        return self.original.blame_arguments(error, args)

    def _call(self, args: Sequence[Any], context: CallContext) -> IncomingCall:
        return IncomingCall(cast(Kind, self.kind.name.lower()), args, context)

    # -- Requests and notifies -----------------------------------------------------------------------------------------

    async def _serve(self, *args: Any) -> Any:
        return await run_layers(self.layers, self._call(args, calling.get()), self._run)

    async def _run(self, call: IncomingCall) -> Any:
        if self.original.mode == "thread":
            return await self._run_in_thread(call)
        started = _clock.monotonic()
        result = self.original.function(*call.args)
        seconds = _clock.monotonic() - started
        if seconds > call.peer._session.timeouts.slow_handler and not self.slow_told:
            self.slow_told = log.warning(SLOW, self.name, seconds * 1000)
        if type(result) not in tasks.PLAIN and tasks.is_awaitable(result):
            result = await result
        return result

    async def _run_in_thread(self, call: IncomingCall) -> Any:
        work = call.peer._link.executor().submit(copy_context().run, self.original.function, *call.args)
        result = asyncio.wrap_future(work)
        result.add_done_callback(_retrieve)
        try:
            return await asyncio.shield(result)
        except asyncio.CancelledError:
            if not work.cancel():  # a thread cannot be stopped: the call counts until it ends
                await asyncio.wait([result])
            raise

    # -- Streams and channels ------------------------------------------------------------------------------------------

    def _accept(
        self, session: Session, running: RunningCall, items: Items, args: Sequence[Any]
    ) -> tuple[CoveredItems, Awaitable[None]]:
        """Put items with hooks in the place of those of the call, to which nothing has come yet.

        Returns:
            These, and what serves the call.
        """
        assert session.connection is not None
        call = self._call(args, running.context)
        covered = CoveredItems(call, session, items.codec)
        session.connection.accept_flow(covered, running)
        serve = self._send if self.kind == FrameType.STREAM else self._exchange
        return covered, self._serve_items(call, covered, serve)

    async def _serve_items(self, call: IncomingCall, items: CoveredItems, serve: Any) -> None:
        await run_layers(self.layers, call, lambda call: serve(items, call.args))

    async def _send(self, items: CoveredItems, args: Sequence[Any]) -> None:
        await tasks.send_all(items, self.original.function, args)

    async def _exchange(self, items: CoveredItems, args: Sequence[Any]) -> None:
        items.channel = Channel(items)
        items.catching = self.original.mode == "inline"
        result = self.original.function(items.channel, *args)
        if tasks.is_awaitable(result):
            items.catching = False
            await result
        elif items.consumed():
            await items.until_over()


def _retrieve(result: asyncio.Future[Any]) -> None:
    """Nobody may be there any more to ask for an error, which is no fault."""
    if not result.cancelled():
        result.exception()
