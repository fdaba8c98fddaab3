"""Items of streams and channels that middleware covers: hooks see each of them, of both sides."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from rpcproto._logs import log
from rpcproto.aio.items import Items
from rpcproto.aio.reply import Reply, new_reply
from rpcproto.connection.window import ItemWindow
from rpcproto.errors import CallCancelled, LocalProtocolError, Overloaded, RpcError
from rpcproto.serialization.metadata import encode_metadata
from rpcproto.wire import spec

if TYPE_CHECKING:
    import asyncio

    from rpcproto.aio.middleware import Call, OutgoingCall
    from rpcproto.aio.session import Session
    from rpcproto.aio.stream import Channel
    from rpcproto.serialization.codec import Codec

__all__ = ["CoveredItems", "LateItems"]

Consumer = Callable[[list[Any]], object]
OnEnd = Callable[[BaseException | None], object]

_WAITING_MAX = 1000
"""Values that wait for middleware to proceed, if nobody awaits that they are sent."""


class CoveredItems(Items):
    """A stream or channel, of either side, with the hooks of its middleware.

    Attributes:
        catching: what the plain consumer raises is kept as ``failure``, for the middleware, instead of ending the call.
        channel: of the handler, kept until the call is over: dropped before, it would give the call up.
        failure: what the plain consumer raised.
        ended: a future that is done when the call is over, or the consumer has failed.
    """

    __slots__ = ("_broken", "_hooked", "_received", "_sent", "catching", "channel", "ended", "failure")

    def __init__(self, call: Call, session: Session, codec: Codec) -> None:
        assert session.connection is not None
        super().__init__(session, session.runtime.wakes, session.connection, codec)
        self._sent = call._sent
        self._received = call._received
        self._hooked: list[Any] = []  # what has been through the hooks and was not taken, the next value at the end
        self._broken: BaseException | None = None
        self.catching = False
        self.channel: Channel | None = None
        self.failure: BaseException | None = None
        self.ended: asyncio.Future[None] = session.loop.create_future()

    def send(self, value: Any) -> Reply | None:
        for hook in self._sent:
            value = hook(value)
        return super().send(value)

    def take(self) -> list[Any] | None:
        if self._hooked:
            return self._hooked
        if self._broken is not None:
            raise self._broken
        batch = super().take()
        if batch and self._received:
            self._through_hooks(batch)
            if self._broken is not None and not batch:
                raise self._broken
        if batch:
            self._hooked = batch
        return batch

    def _through_hooks(self, batch: list[Any]) -> None:
        """Have the hooks see a batch, the first value of which is at the end."""
        for index in range(len(batch) - 1, -1, -1):
            try:
                batch[index] = self._hook(batch[index])
            except Exception as error:
                self._broken = error
                del batch[: index + 1]  # those before it are to be had
                return

    def _hook(self, value: Any) -> Any:
        for hook in self._received:
            value = hook(value)
        return value

    def _hook_all(self) -> None:
        """Have the hooks see all that has arrived."""
        values = self._hooked[::-1]
        self._hooked.clear()
        try:
            while self._broken is None and (batch := super().take()):
                self._through_hooks(batch)
                values += batch[::-1]
                batch.clear()
        except RpcError:  # what the call failed with, which is told later
            pass
        self._hooked = values[::-1]

    def consume(self, consumer: Consumer, on_end: OnEnd | None) -> None:
        if self.consumed():
            super().consume(consumer, on_end)  # which is an error
        rest = self._hooked[::-1]
        self._hooked.clear()

        def consume(values: list[Any]) -> None:
            nonlocal rest
            if self.failure is not None:
                return
            try:
                if self._received:
                    values = [self._hook(value) for value in values]
                values, rest = rest + values, []
                consumer(values)
            except Exception as error:
                if not self.catching:
                    raise
                if not (self.over and isinstance(error, RpcError)):  # as Items.deliver has it
                    self.fail(error)

        def end(error: BaseException | None) -> None:
            if rest:
                consume([])
            if on_end is not None:
                self._told_end(on_end, error)

        super().consume(consume, end)
        if rest:
            try:
                consume([])
            except Exception as error:
                log.error("the consumer of the items of %s raised", self.method, exc_info=error)
                self.abandon()

    def _told_end(self, on_end: OnEnd, error: BaseException | None) -> None:
        on_end(self.failure or error)

    def fail(self, error: BaseException) -> None:
        """The plain consumer has failed."""
        self.failure = error
        self._end()

    def abandon(self) -> None:
        super().abandon()
        self._hooked = []

    def finish(self, error: BaseException | None) -> None:
        super().finish(error)
        self._end()
        self.channel = None

    def _end(self) -> None:
        if not self.ended.done():
            self.ended.set_result(None)

    async def until_over(self) -> None:
        """Wait until the call is over.

        Raises:
            BaseException: what it failed with.
        """
        await self.ended
        if self._received and not self.consumed():
            self._hook_all()
        failure = self.failure or self._broken
        if failure is not None:
            raise failure
        if self.error is not None:
            raise self.error


class LateItems(CoveredItems):
    """A stream or channel of ours, which its caller has before middleware lets it be opened.

    What is sent meanwhile waits. The end is told to the caller when the middleware has ended: so it can tell an error
    as another one, or not at all.

    Args:
        call: what middleware sees of it.
        kind: STREAM or CHANNEL.
        session, codec: as for all items.
        give_up: called when the caller has given the call up.
    """

    __slots__ = (
        "_concluded",
        "_ends",
        "_give_up",
        "_given_up",
        "_late_end",
        "_opened",
        "_outcome",
        "_waiting",
        "_waits",
        "_wakes",
    )

    def __init__(self, call: Call, kind: int, session: Session, codec: Codec, give_up: Callable[[], object]) -> None:
        super().__init__(call, session, codec)
        limits = session.limits
        window = ItemWindow("items", limits.call_window, limits.max_connection_window, 0, spec.ITEMS, 0)
        self.open(kind, 0, call.method, 0, window, True)
        self._wakes = session.runtime.wakes
        self._give_up = give_up
        self._opened = False
        self._given_up = False
        self._concluded = False
        self._outcome: BaseException | None = None
        self._waiting: list[tuple[Any, Reply]] = []
        self._ends = False
        self._late_end: Callable[[], object] | None = None
        self._waits: Reply | None = None

    # -- Opening -------------------------------------------------------------------------------------------------------

    def begin(self, call: OutgoingCall) -> None:
        """Open the call.

        Raises:
            RpcError: it cannot be opened.
        """
        buffers: list[Any] = []
        body = self.codec.encode_args(call.args, buffers)
        size = len(body) + sum(len(buffer) for buffer in buffers)
        metadata = encode_metadata(call.metadata) if call.metadata else None
        seconds = call.time_left or 0.0
        connection = self.connection
        connection.open_flow(
            self, self.kind, self.method, self.codec.id, body, buffers or None, size, seconds, metadata
        )
        self._opened = True
        waiting, self._waiting = self._waiting, []
        for value, handle in waiting:
            try:
                sent = self.send(value)
            except Exception as error:
                handle.settle_error(error)
            else:
                if sent is None:
                    handle.settle(None)
                else:
                    sent.add_done_callback(partial(_pass_on, handle))
        if self._ends:
            self.end(False)

    def send(self, value: Any) -> Reply | None:
        if self._opened or self.over:
            return super().send(value)
        if self._ends or self.kind == spec.STREAM:
            raise LocalProtocolError(f"{self.method}: an item was sent after the end of this side")
        if len(self._waiting) == _WAITING_MAX:
            raise Overloaded(
                f"{self.method}: an item was not sent, since {_WAITING_MAX} wait for middleware to proceed; await each"
                " send",
                method=self.method,
            )
        handle = new_reply(self._wakes, None, 0)
        handle.method = self.method
        self._waiting.append((value, handle))
        return handle

    def flushed(self) -> Reply | None:
        if self._waiting:
            return self._waiting[-1][1]
        return super().flushed() if self._opened else None

    def end(self, leave: bool) -> None:
        self._ends = True
        if self._opened:
            super().end(leave)

    # -- The end -------------------------------------------------------------------------------------------------------

    def abandon(self) -> None:
        was_over = self.over
        super().abandon()
        if not was_over:
            self._given_up = True
            self._give_up()

    def withdraw(self) -> None:
        """Middleware has given the call up, if it is not over, but may yet tell its caller something else."""
        if not self.over:
            super().abandon()

    def conclude(self, error: BaseException | None) -> None:
        """The middleware has ended: tell the caller the end.

        Args:
            error: what the middleware raised, None if it returned.
        """
        self._concluded = True
        self._outcome = error
        self.withdraw()
        waiting, self._waiting = self._waiting, []
        for _, handle in waiting:
            text = f"{self.method}: an item was not sent, the call has ended"
            handle.settle_error(error or CallCancelled(text, method=self.method))
        late_end, self._late_end = self._late_end, None
        if late_end is not None:
            late_end()
        if self._waits is not None:
            self._waits.settle(None)
        self.deliver()

    def _held(self) -> bool:
        """Whether the end is not to be told yet. That of one direction of a channel is, as the other one may go on."""
        ended = self.over or (self.kind == spec.STREAM and self.received_all)
        return ended and not self._concluded and not self._given_up

    def take(self) -> list[Any] | None:
        failed = False
        batch = None
        try:
            batch = super().take()
        except RpcError as error:
            if error is not self.error:  # a hook's
                raise
            failed = True
        if batch is not None:
            return batch
        if self._held():
            return []
        if self._concluded and not self._given_up:
            failed = False
            if self._outcome is not None:
                raise self._outcome
        if failed:
            assert self.error is not None
            raise self.error
        return None

    def wait(self) -> Reply:
        if not self._held():
            return super().wait()
        self._waits = new_reply(self._wakes, None, 0)
        return self._waits

    def _told_end(self, on_end: OnEnd, error: BaseException | None) -> None:
        if self._held():
            self._late_end = partial(self._tell_end_late, on_end)
        else:
            on_end(error if self._given_up or not self._concluded else self._outcome)

    def _tell_end_late(self, on_end: OnEnd) -> None:
        try:
            on_end(self._outcome)
        except Exception as error:
            log.error("on_end of %s raised", self.method, exc_info=error)


def _pass_on(handle: Reply, sent: Reply) -> None:
    """An item that had waited was sent, or not."""
    error = None if sent.cancelled() else sent.exception()
    if error is None:
        handle.settle(None)
    else:
        handle.settle_error(error)
