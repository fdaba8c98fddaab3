"""What a caller awaits, and the list by which many callers are woken at once.

A :class:`Reply` behaves like an :class:`asyncio.Future` for everybody who awaits it. It is not one, because a future
costs too much where several hundred thousand calls a second end: cancelling it must reach the connection, for which a
subclass or a done-callback would pay with every call, and each future that is done goes to the loop on its own.

Rules:

1. Settling never calls anybody. It puts the reply on the :class:`WakeList` of its loop, and the waiters run later,
   each in its own context: from one callback of the loop, or when the shell ends a read callback.
2. Settling twice, or after a cancel, does nothing and says so by returning False: an answer may cross a cancel.
3. A reply is settled, cancelled and awaited in the thread of its loop.
4. An error that nobody retrieves is silent, unlike a future's. A call that failed is not a fault of the loop, and
   most often nobody asks because the caller has given up already.
5. Once a waiter has run nothing here refers to it, so neither result nor error is kept alive by a cycle.
"""

from __future__ import annotations

from asyncio import AbstractEventLoop, CancelledError, Future, InvalidStateError, current_task
from collections import deque
from collections.abc import Callable, Generator
from contextvars import Context, copy_context
from types import GenericAlias, TracebackType
from typing import Any, NoReturn, Protocol

from rpcproto.aio import _reply
from rpcproto.connection.calls import PendingCall
from rpcproto.serialization.metadata import decode_metadata

__all__ = ["Reply", "ReplyOwner", "WakeList", "new_reply"]


class ReplyOwner(Protocol):
    """What a reply needs to know of the connection that will settle it."""

    def cancel_call(self, call_id: int) -> None:
        """The caller has given up. Called at most once, while the reply is cancelled already. Must not raise."""


class WakeList:
    """The replies of one loop that are settled and whose waiters have not run yet.

    Args:
        loop: the loop in which the waiters run.
    """

    __slots__ = ("done", "held", "loop", "ready", "scheduled", "sweeping")

    def __init__(self, loop: AbstractEventLoop) -> None:
        self.loop = loop
        # What tasks are woken with when there is a result. Given the reply they would ask it, by a name that they make
        # a string of each time, whether there is an error to throw in: a tenth of a caller's time.
        self.done: Future[None] = Future(loop=loop)
        self.done.set_result(None)
        self.ready: list[Reply] | None = None
        self.held = 0
        self.scheduled = False
        self.sweeping = False

    def add(self, reply: Reply) -> None:
        """Have the waiters of a settled reply run soon."""
        if self.ready is None:
            self.ready = [reply]
        else:
            self.ready.append(reply)
        if not (self.scheduled or self.held):
            self.schedule()

    def hold(self) -> None:
        """Promise that :meth:`release` follows before the loop runs anything else, so the loop need not be asked.

        Saves a callback and, in uvloop, a turn of the loop. Pairs may be nested; the outermost counts. Use ``finally``.
        """
        self.held += 1

    def release(self) -> None:
        """End :meth:`hold` and wake what was settled meanwhile, as :meth:`wake_now` does."""
        self.held -= 1
        if self.held == 0:
            self.wake_now()

    def wake_now(self) -> None:
        """Run the waiters of all replies settled so far.

        What they settle in turn is left to the loop's next turn, so this always ends. Called by one of the waiters,
        or while a task runs, it leaves everything to the loop: a task cannot be resumed within another one.

        Raises:
            KeyboardInterrupt, SystemExit: from a waiter; the remaining ones run in the loop's next turn. Any other
                exception of a waiter goes to the loop's exception handler.
        """
        if self.ready is None or self.sweeping:
            return
        if current_task(self.loop) is None:
            self.sweep()
        elif not self.scheduled:
            self.schedule()

    def schedule(self) -> None:
        try:
            self.loop.call_soon(self._wake_scheduled)
        except RuntimeError:
            if not self.loop.is_closed():
                raise
            self.ready = None  # nobody is left who could run in a closed loop
        else:
            self.scheduled = True

    def _wake_scheduled(self) -> None:
        self.scheduled = False
        if self.ready is not None:
            self.sweep()

    def sweep(self) -> None:
        ready = self.ready
        assert ready is not None
        self.ready = None
        self.sweeping = True
        ready.reverse()
        try:
            while ready:
                reply = ready[-1]
                reply.run_callbacks()
                ready.pop()  # now, not at the end: a large result must not wait for the others to be given up
                del reply  # see Reply.result()
        finally:
            self.sweeping = False
            if ready:
                ready.reverse()
                self.ready = ready if self.ready is None else ready + self.ready
            if self.ready is not None and not self.scheduled:
                self.schedule()


class Reply(PendingCall):
    """The answer to one call, awaited like an :class:`asyncio.Future`.

    It is the record of the call in the connection's table as well. It can be awaited by several tasks, cancelled, and
    given to ``asyncio.wait``, ``gather``, ``shield``, ``wait_for`` and their like. Cancelling it, or a task that awaits
    it, gives the call up.

    Attributes:
        owner: where a cancel is reported; None once settled.
    """

    __slots__ = (
        "_asyncio_future_blocking",
        "callback",
        "callback_context",
        "error",
        "error_traceback",
        "further",
        "given_metadata",
        "owner",
        "pending",
        "value",
        "wakes",
        "was_cancelled",
    )

    wakes: WakeList
    owner: ReplyOwner | None
    pending: bool
    was_cancelled: bool
    _asyncio_future_blocking: bool  # how a task tells `await reply` from `yield reply`
    value: Any  # the result, or the message of a cancel
    error: BaseException | None
    error_traceback: TracebackType | None
    callback: Callable[[Reply], object] | None  # the first one stands apart: nearly always it is the only one
    callback_context: Any
    given_metadata: bytes | None
    further: deque[tuple[Callable[[Reply], object], Context]] | None

    def __init__(self) -> None:
        raise TypeError("a Reply is made by request() and notify(), not by its class")

    # ---- for the shell -------------------------------------------------------------------------------------------

    def settle(self, value: Any) -> bool:
        """Give the reply its result.

        Returns:
            False if it was settled or cancelled before; then nothing happens.
        """
        if not self.pending:
            return False
        self.value = value
        self.finish()
        return True

    def settle_error(self, error: BaseException) -> bool:
        """Let the call fail with ``error``.

        Returns:
            False if it was settled or cancelled before; then nothing happens.
        """
        if not self.pending:
            return False
        self.error = error
        self.error_traceback = error.__traceback__
        self.finish()
        return True

    def finish(self) -> None:
        self.pending = False
        self.owner = None
        if self.callback is not None:
            self.wakes.add(self)

    def run_callbacks(self) -> None:
        # Each callback is taken off before it runs: what is left when one is interrupted runs in the next sweep.
        callback = self.callback
        try:
            while callback is not None:
                context = self.callback_context
                if self.further:
                    self.callback, self.callback_context = self.further.popleft()
                else:
                    self.callback = self.callback_context = None
                plain = self.error is None and not self.was_cancelled and _reply.is_task_wakeup(callback)
                try:
                    _reply.run_in(context, callback, self.wakes.done if plain else self)
                except (KeyboardInterrupt, SystemExit):
                    raise
                except BaseException as error:  # as the loop does with its own callbacks
                    self.report(callback, error)
                callback = self.callback
        finally:
            del self  # see result()

    def report(self, callback: Callable[[Reply], object], error: BaseException) -> None:
        message = f"Exception in callback {callback!r} of {self!r}"
        self.get_loop().call_exception_handler({"message": message, "exception": error, "future": self})

    # ---- the interface of asyncio.Future ---------------------------------------------------------------------------

    def get_loop(self) -> AbstractEventLoop:
        """The loop in which the waiters run."""
        wakes: Any = self.wakes
        if wakes is None:  # in C, for Reply.__new__(Reply) or after the garbage collector; must not crash
            raise RuntimeError("the reply was never opened")
        loop: AbstractEventLoop = wakes.loop
        return loop

    def done(self) -> bool:
        """True once there is a result or an error, or the reply was cancelled."""
        return not self.pending

    def cancelled(self) -> bool:
        """True if :meth:`cancel` ended it. A call given up by the peer has failed, it is not cancelled."""
        return self.was_cancelled

    def result(self) -> Any:
        """The result of the call.

        Raises:
            RpcError: the call failed.
            asyncio.CancelledError: the reply was cancelled.
            asyncio.InvalidStateError: it is not settled yet.
        """
        if self.pending:
            raise InvalidStateError("the reply has not arrived")
        if self.error is None and not self.was_cancelled:
            return self.value
        try:
            raise self.failure()
        finally:
            # The error's traceback holds this frame and those that called it, and the reply holds the error. So that
            # this is no cycle, none of these frames keeps the reply when it ends. (C functions have no frames.)
            del self

    @property
    def metadata(self) -> dict[str, Any]:
        """What came along with the result (``CallContext.reply_metadata``). SerializationError if it is none."""
        return {} if self.given_metadata is None else decode_metadata(self.given_metadata)

    def exception(self) -> BaseException | None:
        """The error the call failed with, None if it did not.

        Raises:
            asyncio.CancelledError: the reply was cancelled.
            asyncio.InvalidStateError: it is not settled yet.
        """
        if self.pending:
            raise InvalidStateError("the reply has not arrived")
        if self.was_cancelled:
            raise self._make_cancelled_error()
        return self.error

    def cancel(self, msg: Any = None) -> bool:
        """Give the call up: tell the peer, and wake the waiters with :exc:`asyncio.CancelledError`.

        ``msg`` is passed on to the error. Returns False, and does nothing, if it was settled or cancelled before.
        """
        if not self.pending:
            return False
        owner = self.owner
        self.was_cancelled = True
        self.value = msg
        self.finish()
        if owner is not None:
            owner.cancel_call(self.call_id)
        return True

    def add_done_callback(self, callback: Callable[[Reply], object], *, context: Context | None = None) -> None:
        """Have ``callback(reply)`` run in ``context`` (default: a copy of the current one) once this is settled."""
        if not self.pending:
            self.get_loop().call_soon(callback, self, context=context)
            return
        if context is None:
            context = copy_context()
        if self.callback is None:
            self.callback = callback
            self.callback_context = context
        else:
            if self.further is None:
                self.further = deque()
            self.further.append((callback, context))

    def remove_done_callback(self, callback: Callable[[Reply], object]) -> int:
        """Forget every callback that equals ``callback``. Returns how many there were."""
        if self.callback is None:
            return 0
        present = [(self.callback, self.callback_context), *(self.further or ())]
        kept = deque([pair for pair in present if pair[0] != callback])
        removed = len(present) - len(kept)
        if removed:
            self.callback, self.callback_context = kept.popleft() if kept else (None, None)
            self.further = kept
        return removed

    def __await__(self) -> Generator[Any, None, Any]:
        # A generator, not an iterator of its own: compiled ones hand their result over without a StopIteration.
        try:
            if self.pending:
                self._asyncio_future_blocking = True
                yield self
                if self.pending:
                    raise RuntimeError("a reply was resumed before it was settled: await it in a task, do not yield it")
            if self.error is None and not self.was_cancelled:
                return self.value
            raise self.failure()
        finally:
            del self  # see result(). A task throws the error in at the yield.

    def __iter__(self) -> Generator[Any, None, Any]:
        return self.__await__()

    def failure(self) -> BaseException:
        # The traceback starts afresh, as a future's does: it must not grow with every waiter.
        if self.error is None:
            return self._make_cancelled_error()
        return self.error.with_traceback(self.error_traceback)

    # asyncio.gather uses these two by their names.
    def _make_cancelled_error(self) -> CancelledError:
        return CancelledError() if self.value is None else CancelledError(self.value)

    @property
    def _cancel_message(self) -> Any:
        return self.value if self.was_cancelled else None

    @classmethod
    def __class_getitem__(cls, item: Any) -> GenericAlias:
        return GenericAlias(cls, item)

    def __reduce__(self) -> NoReturn:
        raise TypeError("a Reply cannot be copied or pickled: await it and send the result")

    def __repr__(self) -> str:
        # Neither value nor text of the error: both may hold what must not get into a log.
        if self.pending:
            state = "pending"
        elif self.was_cancelled:
            state = "cancelled"
        elif self.error is not None:
            state = f"failed with {type(self.error).__name__}"
        else:
            state = "done"
        return f"<Reply {state}>" if not self.method else f"<Reply {self.method} {state}>"


def new_reply(wakes: WakeList, owner: ReplyOwner | None, call_id: int) -> Reply:
    """Make a pending reply.

    Args:
        wakes: the list of the loop in which it is awaited.
        owner: told by ``owner.cancel_call(call_id)`` if the caller gives up.
        call_id: the id of the call; 0 until the connection gives it one.
    """
    reply = Reply.__new__(Reply)  # __init__ would cost 80 ns when it is compiled
    _reply.set_defaults(reply)
    reply.wakes = wakes
    reply.owner = owner
    reply.call_id = call_id
    reply.method = ""
    reply.pending = True
    return reply
