"""What all connections of one loop share: receive memory, the list of replies to wake, and one coarse timer."""

from __future__ import annotations

import asyncio
import heapq
import weakref
from typing import TYPE_CHECKING

from rpcproto import _clock
from rpcproto.aio.reply import WakeList
from rpcproto.connection.budget import ReassemblyBudget
from rpcproto.wire.memory import LoopMemory

if TYPE_CHECKING:
    from rpcproto.aio.session import Session

__all__ = ["Runtime", "Ticker", "default_budget", "runtime"]

_TICK = 0.01
"""Deadlines are met within this many seconds: one timer serves all of them, and is not set for each call."""

_FOREVER = float("inf")


class Ticker:
    """Calls ``on_time`` of the sessions of a loop when they asked for it, by one timer of the loop.

    A session gives a lower bound for when it next has something to do. So a call with a deadline costs nothing as
    long as it ends before: the bound stands, and when it passes the session looks through its calls.
    """

    __slots__ = ("at", "count", "heap", "loop", "timer", "wanted")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.wanted: dict[Session, float] = {}
        self.heap: list[tuple[float, int, Session]] = []
        self.count = 0
        self.at = _FOREVER
        self.timer: asyncio.TimerHandle | None = None

    def wake_at(self, session: Session, when: float) -> None:
        """Call ``session.on_time(now)`` at ``when`` (monotonic seconds), or sooner."""
        if when < self.wanted.get(session, _FOREVER):
            self.wanted[session] = when
            self.count += 1
            heapq.heappush(self.heap, (when, self.count, session))
            if when < self.at:
                self._arm(when)

    def forget(self, session: Session) -> None:
        """The session has ended."""
        self.wanted.pop(session, None)
        if not self.wanted:
            self.heap.clear()
            if self.timer is not None:
                self.timer.cancel()
                self.timer = None
            self.at = _FOREVER

    def _arm(self, when: float) -> None:
        if self.timer is not None:
            self.timer.cancel()
        self.at = when
        self.timer = self.loop.call_later(max(_TICK, when - _clock.monotonic()), self._fire)

    def _fire(self) -> None:
        self.timer = None
        self.at = _FOREVER
        now = _clock.monotonic()
        due = []
        while self.heap and self.heap[0][0] <= now:
            when, _, session = heapq.heappop(self.heap)
            if self.wanted.get(session) == when:  # else the entry is an old one, superseded or forgotten
                del self.wanted[session]
                due.append(session)
        for session in due:
            self.wake_at(session, session.on_time(now))
        if self.heap and self.heap[0][0] < self.at:
            self._arm(self.heap[0][0])


class Runtime:
    """The shared parts of one loop. Get it by :func:`runtime`."""

    __slots__ = ("__weakref__", "loop", "memory", "ticker", "wakes")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.memory = LoopMemory()
        self.wakes = WakeList(loop)
        self.ticker = Ticker(loop)


_runtimes: weakref.WeakKeyDictionary[asyncio.AbstractEventLoop, Runtime] = weakref.WeakKeyDictionary()
_budget: list[ReassemblyBudget] = []


def runtime() -> Runtime:
    """The shared parts of the running loop.

    Raises:
        RuntimeError: no loop is running.
    """
    loop = asyncio.get_running_loop()
    found = _runtimes.get(loop)
    if found is None:
        found = _runtimes[loop] = Runtime(loop)
    return found


def default_budget() -> ReassemblyBudget:
    """The reassembly budget of this process."""
    if not _budget:
        _budget.append(ReassemblyBudget())
    return _budget[0]
