"""The shell's half of a stream or channel: values that have arrived, whoever waits for them, and sending.

Values are decoded as they arrive, and handed out in batches. What a batch cost is given back to the peer with the next
one, when its last value has been taken. A batch is a quarter of the window at most, so that the peer can go on while a
slow consumer works.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Any

from rpcproto._logs import log
from rpcproto.aio.reply import Reply, WakeList, new_reply
from rpcproto.connection.calls import Flow
from rpcproto.errors import CallCancelled, ConfigurationError, RpcError
from rpcproto.wire import _tuning as tuning
from rpcproto.wire.spec import ErrorCode

if TYPE_CHECKING:
    from rpcproto.aio.serving import Serving
    from rpcproto.connection.calls import RunningCall
    from rpcproto.connection.connection import Connection
    from rpcproto.serialization.codec import Codec

__all__ = ["Items"]


class Items(Flow):
    """One stream or channel, of either side.

    Attributes:
        session, wakes, connection: whose call it is.
        spare: an empty list for the buffers of the next value.
        codec: for the items sent.
        values, costs: what has arrived and was not taken.
        batch: what was taken last and not yet consumed, the next value at the end.
        lent: what the batch cost.
        waiter: the reply on which the consumer waits, or None.
        consumer: called with a list of values after each read, instead of a consumer that waits.
        on_end: called when nothing more will come: with None, or the error.
        error: why the call failed.
        fresh: whether something has arrived in this read.
        last: of the last value sent that had to wait.
        running: of a call of the peer whose handler has returned, while a consumer or what was sent goes on.
    """

    __slots__ = (
        "batch",
        "codec",
        "connection",
        "consumer",
        "costs",
        "error",
        "fresh",
        "last",
        "lent",
        "on_end",
        "running",
        "session",
        "spare",
        "values",
        "waiter",
        "wakes",
    )

    def __init__(self, session: Serving, wakes: WakeList, connection: Connection, codec: Codec) -> None:
        self.session = session
        self.wakes = wakes
        self.connection = connection
        self.codec = codec
        self.values: list[Any] = []
        self.costs: list[int] = []
        self.batch: list[Any] = []
        self.lent = 0
        self.waiter: Reply | None = None
        self.consumer: Callable[[list[Any]], object] | None = None
        self.on_end: Callable[[BaseException | None], object] | None = None
        self.error: BaseException | None = None
        self.fresh = False
        self.running: RunningCall | None = None
        self.last: Reply | None = None
        self.spare: list[Any] | None = None
        self.over = False
        self.received_all = False

    # -- Receiving -----------------------------------------------------------------------------------------------------

    def add(self, value: Any, cost: int) -> None:
        """A value has arrived."""
        self.values.append(value)
        self.costs.append(cost)

    def take(self) -> list[Any] | None:
        """The values to consume next, the first one at the end: each is to be popped. Empty if there are none yet; None
        after the last one.

        Raises:
            RpcError: the call has failed, and what came before that was consumed.
        """
        if self.batch:
            return self.batch
        if self.lent:
            cost = self.lent
            self.lent = 0
            self.connection.taken(self, cost)
        count = len(self.values)
        if count == 0:
            if self.error is not None:
                raise self.error
            return None if self.received_all or self.over else self.batch
        most = self.window.size >> 2
        cost = 0
        index = 0
        while index < count and cost < most:
            cost += self.costs[index]
            index += 1
        self.lent = cost
        if index == count:
            self.batch = self.values
            self.values = []
            self.costs.clear()
        else:
            self.batch = self.values[:index]
            del self.values[:index]
            del self.costs[:index]
        self.batch.reverse()
        return self.batch

    def wait(self) -> Reply:
        """An awaitable that is done when :meth:`take` has something to tell."""
        if self.waiter is not None and not self.waiter.done():
            raise RuntimeError(f"{self.method}: another task waits for its items already")
        self.waiter = new_reply(self.wakes, None, 0)
        if self.values or self.received_all or self.over:
            self.waiter.settle(None)
        return self.waiter

    def deliver(self) -> None:
        """Hand over what has arrived: after a read, or when the call has ended."""
        self.fresh = False
        consumer = self.consumer
        if consumer is None:
            if self.waiter is not None:
                self.waiter.settle(None)
                self.waiter = None
            return
        if self.values:
            values = self.values
            cost = sum(self.costs)
            self.values = []
            self.costs.clear()
            try:
                consumer(values)
            except Exception as error:
                if not (self.over and isinstance(error, RpcError)):  # it may find that nothing can be answered any more
                    self.consumer_failed(error)
                    return
            self.connection.taken(self, cost)
        if self.received_all or self.over:
            self.tell_end()

    def consume(
        self, consumer: Callable[[list[Any]], object], on_end: Callable[[BaseException | None], object] | None
    ) -> None:
        """Have ``consumer(values)`` called with everything that each read brings.

        Raises:
            ConfigurationError: the items have a consumer already.
        """
        if self.consumer is not None:
            raise ConfigurationError(f"{self.method}: its items have a consumer already")
        self.consumer = consumer
        self.on_end = on_end
        if self.batch:
            self.values = self.batch[::-1] + self.values
            self.batch = []
        if self.lent:  # given back also for what is left of the batch, since that is consumed now
            cost = self.lent
            self.lent = 0
            self.connection.taken(self, cost)
        if self.values or self.received_all or self.over:
            self.deliver()

    def consumed(self) -> bool:
        """Whether a plain function consumes the values."""
        return self.consumer is not None

    def loop(self) -> AbstractEventLoop:
        """The loop of the connection."""
        loop: AbstractEventLoop = self.wakes.loop
        return loop

    def consumer_failed(self, error: BaseException) -> None:
        """The plain consumer raised: the call ends."""
        self.error = error
        running = self.running
        if running is not None:
            self.running = None
            if self.connection.finished(running):
                self.session.send_error(running.call_id, error)
            self.session.link.on_call_done()
        else:
            log.error("the consumer of the items of %s raised", self.method, exc_info=error)
            self.abandon()
        self.tell_end()

    def tell_end(self) -> None:
        """Nothing more will come."""
        on_end = self.on_end
        self.on_end = None
        if on_end is not None:
            try:
                on_end(self.error)
            except Exception as error:
                log.error("on_end of %s raised", self.method, exc_info=error)

    # -- Sending -------------------------------------------------------------------------------------------------------

    def send(self, value: Any) -> Reply | None:
        """Send a value.

        Returns:
            None if it is on its way and what it was made of may be changed; otherwise what is done then.

        Raises:
            SerializationError: it cannot be encoded.
            RpcError: it cannot be sent.
        """
        buffers = self.spare
        if buffers is None:
            buffers = []
        else:
            self.spare = None
        body = self.codec.encode_value(value, buffers)
        size = len(body)
        if not buffers:
            self.spare = buffers
        if not buffers and size <= tuning.PACK_MAX and self.connection.may_send(self):
            self.connection.send_item(self, self.codec.id, body, None, size, None)
            return None
        for buffer in buffers:
            size += len(buffer)
        handle = new_reply(self.wakes, None, 0)
        handle.method = self.method
        if self.connection.send_item(self, self.codec.id, body, buffers or None, size, handle):
            return None
        self.last = handle
        return handle

    def send_from(self, values: Iterator[Any], most: int) -> bool:
        """Send values that an iterator gives, until one has to wait (which is :attr:`last` then), or ``most`` of them.

        Returns:
            Whether the iterator has ended.
        """
        for value in values:
            most -= 1
            if self.send(value) is not None or most == 0:
                return False
        return True

    def flushed(self) -> Reply | None:
        """What is done when all values sent so far have been handed over; None if they have been."""
        last = self.last
        if last is not None and not last.done():
            return last
        handle = new_reply(self.wakes, None, 0)
        handle.method = self.method
        return handle if not self.over and self.connection.note_flushed(handle) else None

    def end(self, leave: bool) -> None:
        """Send nothing more; ``leave``: nor receive."""
        self.connection.end_items(self, leave)

    def leave(self, running: RunningCall) -> None:
        """The handler has returned: end the call, which counts as running until all is sent."""
        if running.over or self.over:
            self.connection.finished(running)
        else:
            self.running = running
            self.connection.end_items(self, True)

    def abandon(self) -> None:
        """Give the call up, unless it is over, and forget what has arrived. Nobody is told: see :meth:`cancel`."""
        if not self.over:
            self.connection.give_up_flow(self, ErrorCode.CANCELLED)
            self.finish(None)
        self.values.clear()
        self.costs.clear()
        self.batch = []

    def cancel(self) -> None:
        """:meth:`abandon`, and whoever waits for values, or consumes them, is told."""
        was_over = self.over
        self.abandon()
        if not was_over:
            self.error = CallCancelled(f"{self.method}: given up by this side", method=self.method)
            self.deliver()

    # -- The end -------------------------------------------------------------------------------------------------------

    def finish(self, error: BaseException | None) -> None:
        """The call is over. To be followed by :meth:`deliver`."""
        self.over = True
        if self.error is None:
            self.error = error
        running = self.running
        if running is not None:
            self.running = None
            self.connection.finished(running)
        self.session.link.on_call_done()
