"""The way from other threads to an event loop, and back.

There: jobs wait in a queue that the loop empties. Whoever finds that the loop has not been woken since it last did so
wakes it; so the calls that many threads make at once share a wake-up, which costs a system call.

Back: each call has a lock of its own, held from the start, which the loop lets go of. Nothing else that a thread can
wait on is as cheap: a :class:`threading.Event` takes 2 us more, a :class:`concurrent.futures.Future` 4 us.

Nothing waits for ever for a loop that is gone: a waiting thread looks after it once a second. That also makes good for
a wake-up that an exception out of a signal handler has prevented.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from collections import deque
from collections.abc import Callable, Coroutine
from concurrent.futures import Future, InvalidStateError
from contextvars import Context, copy_context
from typing import Any

from rpcproto._logs import log
from rpcproto.aio.context import calling, slot_of
from rpcproto.aio.threads import waiting_load
from rpcproto.errors import ConnectionClosed, ConnectionLost, DeadlineExceeded, LocalProtocolError

__all__ = ["CallFuture", "Done", "Portal", "check_thread", "refuse_in_loop"]

_LOOK = 1.0
"""Seconds after which a waiting thread looks whether the loop is still there."""

_FORKED = "this process was forked from the one that made the connection: connect again here"


class Portal:
    """Runs functions on one loop for threads that it does not run in.

    Args:
        loop: that loop.
    """

    __slots__ = ("__weakref__", "_jobs", "_woken", "ended", "loop")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.ended: ConnectionLost | None = None  # why nothing runs here any more
        self._jobs: deque[Callable[[], object]] = deque()
        self._woken = False
        _portals.add(self)

    # -- From any thread -----------------------------------------------------------------------------------------------

    def call(self, begin: Callable[..., Any], *args: Any, **options: Any) -> Any:
        """Call ``begin`` on the loop, and wait for the future-like object that it returns.

        Returns:
            Its result.

        Raises:
            LocalProtocolError: an event loop runs in this thread.
            ConnectionLost: this loop does not run any more.
            BaseException: what ``begin`` raises, what the call fails with, and what interrupts the wait; then the call
                is given up.
        """
        refuse_in_loop()
        call = _Call(self, begin, args, options)
        try:
            return call.wait()
        finally:
            del call  # an error's traceback has this frame, and the call the error

    def run(self, function: Callable[..., Coroutine[Any, Any, Any]], *args: Any) -> Any:
        """Run a coroutine function in a task on the loop, and wait for its result. Raises as :meth:`call`."""
        return self.call(self._spawn, function, args)

    def put(self, job: Callable[[], object], at_once: bool = False) -> None:
        """Have ``job()`` called on the loop soon. It must not raise.

        Args:
            job: what to call.
            at_once: wake the loop in any case.

        Raises:
            ConnectionLost: this loop does not run any more.
        """
        self._jobs.append(job)
        if at_once or not self._woken or self.ended is not None:  # asked last: see end()
            self._woken = True
            self._wake()

    def give_up(self, job: Callable[[], object]) -> None:
        """As :meth:`put`, for a thread that does not wait for it, nor ask whether it can be done."""
        try:
            self.put(job, at_once=True)
        except ConnectionLost:
            pass

    def context_of_caller(self) -> Context:
        """The context to make a call in: what a handler's calls take over from its own, they find there."""
        if calling.get(None) is not None:
            slot_of(self.loop).nests = True
        return copy_context()

    def look_after(self) -> None:
        """Find out why nothing happens.

        Raises:
            ConnectionLost: this loop does not run any more.
        """
        if self.ended is not None or self._jobs or self.loop.is_closed():
            self._wake()

    def _wake(self) -> None:
        if self.ended is not None:
            self._woken = False
            raise _copy(self.ended)
        try:
            self.loop.call_soon_threadsafe(self._drain)
        except RuntimeError:
            self._woken = False
            if not self.loop.is_closed():
                raise
            raise ConnectionLost("the event loop of the connection is closed") from None

    # -- On the loop ---------------------------------------------------------------------------------------------------

    def end(self, error: ConnectionLost) -> None:
        """The loop has ended. What was put and not run is run now, and finds its connection closed."""
        self.ended = error
        while self._jobs:
            self._jobs.popleft()()

    def _drain(self) -> None:
        # First of all: what is put from now on wakes the loop again. So what comes meanwhile is left to the next turn.
        self._woken = False
        jobs = self._jobs
        try:
            for _ in range(len(jobs)):
                jobs.popleft()()
        except BaseException:
            self.loop.call_soon(self._drain)
            raise

    def _spawn(self, function: Callable[..., Coroutine[Any, Any, Any]], args: tuple[Any, ...]) -> asyncio.Task[Any]:
        if self.ended is not None:
            raise _copy(self.ended)
        return self.loop.create_task(function(*args))


class _Call:
    """A call that a thread waits for."""

    __slots__ = ("_args", "_begin", "_context", "_error", "_given_up", "_lock", "_options", "_portal", "_reply")

    def __init__(
        self, portal: Portal, begin: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        self._portal = portal
        self._begin: Callable[..., Any] | None = begin
        self._args = args
        self._options = options
        self._context = portal.context_of_caller()
        self._lock = threading.Lock()
        self._reply: Any = None
        self._error: BaseException | None = None
        self._given_up = False

    def wait(self) -> Any:
        """Make the call and wait for its end."""
        lock = self._lock
        load = waiting_load()
        try:
            lock.acquire()
            self._portal.put(self._run)
            if load is None:
                while not lock.acquire(True, _LOOK):
                    self._portal.look_after()
            else:
                with load:
                    while not lock.acquire(True, _LOOK):
                        self._portal.look_after()
        except BaseException:
            self._given_up = True
            self._portal.give_up(self._cancel)
            raise
        try:
            if self._error is not None:
                raise self._error
            return self._reply.result()
        except asyncio.CancelledError:
            raise ConnectionClosed("the event loop of the connection was stopped meanwhile") from None
        except DeadlineExceeded as error:
            if load is not None and load.stuck:
                error.add_note(load.describe())
            raise
        finally:
            del self  # see Portal.call()

    def _run(self) -> None:
        begin = self._begin
        if self._given_up or begin is None:
            return
        try:
            reply = self._reply = self._context.run(begin, *self._args, **self._options)
            self._begin = None
            self._args = ()
            self._options = {}
            reply.add_done_callback(self._done, context=self._context)
        except BaseException as error:
            self._error = error
            self._lock.release()

    def _done(self, reply: Any) -> None:
        if not reply.cancelled():
            reply.exception()  # a task would complain that nobody asks, should the thread have given up
        self._lock.release()

    def _cancel(self) -> None:
        if self._reply is not None:
            self._reply.cancel()


class CallFuture(Future[Any]):
    """A call that no thread waits for yet. :meth:`cancel` gives it up, at any time until it has ended.

    Args:
        portal: of the loop.
        begin, args, options: called on the loop; returns something future-like.

    Raises:
        ConnectionLost: the loop does not run any more.
    """

    def __init__(
        self, portal: Portal, begin: Callable[..., Any], args: tuple[Any, ...], options: dict[str, Any]
    ) -> None:
        super().__init__()
        self._portal = portal
        self._reply: Any = None
        self._once = threading.Lock()
        self._context = portal.context_of_caller()
        self._work: Any = (begin, args, options)
        portal.put(self._run)

    def cancel(self) -> bool:
        """Give the call up. Returns False if it had ended before."""
        if not super().cancel():
            return False
        if self._once.acquire(blocking=False):
            self.set_running_or_notify_cancel()  # for wait() and as_completed(), which look for this state only
            self._portal.give_up(self._cancel)
        return True

    def result(self, timeout: float | None = None) -> Any:
        """The result of the call; raises what it failed with. ``timeout`` is for this wait, not for the call."""
        if not self.done():
            refuse_in_loop()
        return super().result(timeout)

    def exception(self, timeout: float | None = None) -> BaseException | None:
        """What the call failed with, None if it did not. ``timeout`` is for this wait, not for the call."""
        if not self.done():
            refuse_in_loop()
        return super().exception(timeout)

    def _run(self) -> None:
        begin, args, options = self._work
        self._work = None
        if self.cancelled():
            return
        try:
            self._reply = self._context.run(begin, *args, **options)
            self._reply.add_done_callback(self._settle, context=self._context)
        except BaseException as error:
            self._end(self.set_exception, error)

    def _settle(self, reply: Any) -> None:
        self._reply = None
        if reply.cancelled():
            self.cancel()
        elif (error := reply.exception()) is not None:
            self._end(self.set_exception, error)
        else:
            self._end(self.set_result, reply.result())

    def _end(self, how: Callable[[Any], None], what: Any) -> None:
        try:
            how(what)
        except InvalidStateError:  # cancelled just now
            pass
        except BaseException as error:  # SystemExit and its like: the loop is not only this future's
            log.error("a callback of the future of a call raised", exc_info=error)

    def _cancel(self) -> None:
        if self._reply is not None:
            self._reply.cancel()


class Done:
    """Something future-like that is done."""

    __slots__ = ("_value",)

    def __init__(self, value: Any) -> None:
        self._value = value

    def result(self) -> Any:
        """The value."""
        return self._value

    def exception(self) -> None:
        """None: it has not failed."""

    def cancelled(self) -> bool:
        """False."""
        return False

    def cancel(self) -> bool:
        """False: too late."""
        return False

    def add_done_callback(self, callback: Callable[[Done], object], *, context: Any = None) -> None:
        """Call it right now."""
        callback(self)


def refuse_in_loop() -> None:
    """Refuse to block a thread in which an event loop runs.

    If it is the loop of the connection it would wait for itself; and any other one serves nobody meanwhile.

    Raises:
        LocalProtocolError: one runs in this thread.
    """
    if asyncio._get_running_loop() is not None:
        raise LocalProtocolError(
            "a blocking call would hold up the event loop that runs in this thread: use rpcproto.connect() and await"
            " its calls, or make the blocking call in a thread (asyncio.to_thread, @rpcproto.request(thread=True))"
        )


def check_thread(loop: asyncio.AbstractEventLoop, peer: str) -> int:
    """Whether this thread may use a connection that was last used in another one: if its loop runs here now.

    Args:
        loop: of the connection.
        peer: its other end, for the error.

    Returns:
        The id of this thread.

    Raises:
        LocalProtocolError: it may not.
    """
    if asyncio._get_running_loop() is not loop:
        raise LocalProtocolError(
            f"the connection to {peer} belongs to the event loop of another thread: in this thread use `peer.blocking`"
            " instead of the peer (in a handler: rpcproto.peer().blocking), or a client made by"
            " rpcproto.connect_blocking()"
        )
    return threading.get_ident()


def _copy(error: ConnectionLost) -> ConnectionLost:
    """The same error for another caller, who will add to its traceback."""
    return type(error)(*error.args)


_portals: weakref.WeakSet[Portal] = weakref.WeakSet()


def _after_fork() -> None:
    """In a forked child no loop of its parent runs. Waking one would be to write to a descriptor of the parent."""
    for portal in list(_portals):
        portal.ended = ConnectionLost(_FORKED)
        portal._jobs.clear()


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
