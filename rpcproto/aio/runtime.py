"""What all connections of a loop share: receive memory, the replies to wake, a coarse timer, the way in for threads."""

from __future__ import annotations

import asyncio
import heapq
import weakref
from typing import TYPE_CHECKING

from rpcproto import _clock
from rpcproto.aio.portal import Portal
from rpcproto.aio.reply import WakeList
from rpcproto.connection.budget import ReassemblyBudget
from rpcproto.wire.memory import LoopMemory

if TYPE_CHECKING:
    from rpcproto.aio.session import Session

__all__ = ["Runtime", "Ticker", "default_budget", "runtime"]

_TICK = 0.01
"""Deadlines are met within this many seconds: one timer serves all of them, and is not set for each call."""

_FOREVER = float("inf")

_SPARE = 64
"""Alarms that may be out of date before they are cleared away, beyond one for each session."""


class _Alarm:
    """When to wake which session. One that is superseded stays in the heap, but keeps no session alive."""

    __slots__ = ("number", "session", "when")

    def __init__(self, when: float, number: int, session: Session) -> None:
        self.when = when
        self.number = number
        self.session: Session | None = session

    def __lt__(self, other: _Alarm) -> bool:
        return self.when < other.when or (self.when == other.when and self.number < other.number)


class Ticker:
    """Calls ``on_time`` of the sessions of a loop when they asked for it, by one timer of the loop.

    A session gives a lower bound for when it next has something to do. So a call with a deadline costs nothing as
    long as it ends before: the bound stands, and when it passes the session looks through its calls.
    """

    __slots__ = ("at", "count", "heap", "loop", "timer", "wanted")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.wanted: dict[Session, _Alarm] = {}
        self.heap: list[_Alarm] = []
        self.count = 0
        self.at = _FOREVER
        self.timer: asyncio.TimerHandle | None = None

    def wake_at(self, session: Session, when: float) -> None:
        """Call ``session.on_time(now)`` at ``when`` (monotonic seconds), or sooner."""
        alarm = self.wanted.get(session)
        if alarm is not None:
            if when >= alarm.when:
                return
            alarm.session = None
        elif when == _FOREVER:
            return
        self.count += 1
        alarm = self.wanted[session] = _Alarm(when, self.count, session)
        heapq.heappush(self.heap, alarm)
        if len(self.heap) > 2 * len(self.wanted) + _SPARE:
            self.heap = [each for each in self.heap if each.session is not None]
            heapq.heapify(self.heap)
        if when < self.at:
            self._arm(when)

    def forget(self, session: Session) -> None:
        """The session has ended."""
        alarm = self.wanted.pop(session, None)
        if alarm is not None:
            alarm.session = None
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
        while self.heap and self.heap[0].when <= now:
            session = heapq.heappop(self.heap).session
            if session is not None:
                del self.wanted[session]
                due.append(session)
        for session in due:
            self.wake_at(session, session.on_time(now))
        if self.heap and self.heap[0].when < self.at:
            self._arm(self.heap[0].when)


class Runtime:
    """The shared parts of one loop. Get it by :func:`runtime`."""

    __slots__ = ("__weakref__", "loop", "memory", "portal", "ticker", "wakes")

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self.loop = loop
        self.memory = LoopMemory()
        self.wakes = WakeList(loop)
        self.ticker = Ticker(loop)
        self.portal = Portal(loop)


_runtimes: weakref.WeakValueDictionary[asyncio.AbstractEventLoop, Runtime] = weakref.WeakValueDictionary()
"""Those who use a runtime keep it: it refers to its loop, so anything more would keep every loop for ever."""

_budget: list[ReassemblyBudget] = []


def runtime() -> Runtime:
    """The shared parts of the running loop. They live as long as somebody holds them.

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
