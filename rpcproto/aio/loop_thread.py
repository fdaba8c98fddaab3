"""The event loop behind blocking clients, in a thread of its own.

One for the process, shared by all of its blocking clients: they take turns for the interpreter anyway, and share its
wake-ups. It begins with the first client and ends with the last one. The thread is a daemon, so that a client which
was never closed does not keep a program from ending; at exit what is left is closed.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import threading
from typing import TYPE_CHECKING

from rpcproto._logs import log
from rpcproto.aio.runtime import runtime
from rpcproto.errors import ConnectionClosed, ConnectionLost

if TYPE_CHECKING:
    from rpcproto.aio.client import Client
    from rpcproto.aio.portal import Portal

__all__ = ["LoopThread"]

_PATIENCE = 5.0
"""Seconds to wait for the thread to end. Work that handlers have put into the loop's executor can hold it up."""

_CLOSING = 1.0
"""Seconds that clients which were not closed get to close at exit."""


class LoopThread:
    """A running event loop. Get it by :meth:`enter`.

    Attributes:
        portal: runs functions on it.
    """

    portal: Portal

    def __init__(self) -> None:
        self._users = 0
        self._clients: set[Client] = set()
        self._failure: BaseException | None = None
        started = threading.Event()
        self._thread = threading.Thread(target=self._run, args=(started,), name="rpcproto loop", daemon=True)
        self._thread.start()
        started.wait()
        if self._failure is not None:
            raise self._failure

    @classmethod
    def enter(cls) -> LoopThread:
        """The loop of this process; each call needs one of :meth:`leave`.

        Raises:
            ConnectionClosed: the interpreter is exiting.
        """
        global _current
        with _lock:
            if _exiting:
                raise ConnectionClosed("the interpreter is exiting")
            if _current is None or not _current._thread.is_alive():
                _current = cls()
            _current._users += 1
            return _current

    def leave(self) -> None:
        """The loop is not needed any more. Ends it, and waits for its thread, unless others need it."""
        global _current
        with _lock:
            self._users -= 1
            if self._users:
                return
            if _current is self:
                _current = None
        self.stop(_PATIENCE)

    def keep(self, client: Client) -> None:
        """Close this client if the loop ends before :meth:`forget`."""
        self._clients.add(client)

    def forget(self, client: Client) -> None:
        """The client is closed."""
        self._clients.discard(client)

    def stop(self, patience: float) -> None:
        """End the loop, and wait at most ``patience`` seconds for the thread. Does nothing in a forked child."""
        try:
            self.portal.put(self._stopped.set, at_once=True)
        except ConnectionLost:
            return
        self._thread.join(patience)

    def _run(self, started: threading.Event) -> None:
        try:
            with asyncio.Runner(loop_factory=_new_loop) as runner:
                runner.run(self._live(started))
        except BaseException as error:
            if started.is_set():
                log.error("the event loop of the blocking clients has ended", exc_info=error)
            else:
                self._failure = error
        finally:
            if started.is_set():
                self.portal.end(ConnectionClosed("the event loop of the blocking client has ended"))
            started.set()

    async def _live(self, started: threading.Event) -> None:
        self._stopped = asyncio.Event()
        self._runtime = runtime()
        self.portal = self._runtime.portal
        started.set()
        await self._stopped.wait()
        if self._clients:
            await asyncio.wait([asyncio.ensure_future(each.close(0.0)) for each in self._clients], timeout=_CLOSING)


_lock = threading.Lock()
_current: LoopThread | None = None
_exiting = False


def _new_loop() -> asyncio.AbstractEventLoop:
    try:
        import uvloop
    except ModuleNotFoundError:
        return asyncio.new_event_loop()
    loop: asyncio.AbstractEventLoop = uvloop.new_event_loop()
    return loop


def _at_exit() -> None:
    global _exiting
    _exiting = True
    if _current is not None:
        _current.stop(_PATIENCE)


def _after_fork() -> None:
    """The thread is not in the child, which may make one of its own."""
    global _current, _lock
    _current = None
    _lock = threading.Lock()  # some thread of the parent may have held it


atexit.register(_at_exit)
if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_after_fork)
