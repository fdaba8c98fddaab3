"""How many may do something costly at once, such as handshakes, when whoever comes is not to be trusted yet.

Those inside go at their own pace as long as nobody waits. When the gate is full, others wait; whoever has been inside
for longer than an honest one needs is put out in their favour, and the one that came last is let in first. So a crowd
that enters and does nothing, however large, costs an honest newcomer no more than ``patience``, and a crowd of honest
ones is merely served one group after the other. The waiting room has a size as well; when it overflows, the one that
has waited longest is turned away.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["Gate", "PutOut"]

PATIENCE = 0.5
"""Seconds inside after which one may be put out: several times what a handshake takes over a long way."""

ROOM = 8
"""Places to wait for each one inside. They cost a descriptor and a task."""


class PutOut(OSError):
    """Put out, or turned away, so that others get in."""


class Gate:
    """Lets a limited number pass at once. For one event loop.

    Args:
        limit: how many may be inside at once.
        patience: seconds that each may stay inside while others wait.
    """

    def __init__(self, limit: int, patience: float = PATIENCE) -> None:
        self.limit = limit
        self.patience = patience
        self._loop = asyncio.get_running_loop()
        self._taken = 0  # places inside, those included that were given to one who has not woken up yet
        self._inside: dict[asyncio.Timeout, float] = {}  # with the times of entering, the oldest first
        self._put_out: set[asyncio.Timeout] = set()
        self._waiting: deque[asyncio.Future[None]] = deque()  # the newest last
        self._timer: asyncio.TimerHandle | None = None
        self._closed = False

    def __repr__(self) -> str:
        return f"<Gate {self._taken} of {self.limit} inside, {len(self._waiting)} waiting>"

    @asynccontextmanager
    async def passing(self, timeout: float) -> AsyncIterator[None]:
        """Pass: ``async with gate.passing(timeout)``, the costly thing in its block.

        Args:
            timeout: seconds for waiting and passing together.

        Raises:
            TimeoutError: the time is over.
            PutOut: others came and wanted in, or the gate was closed.
        """
        limit = asyncio.timeout(timeout)
        try:
            async with limit:
                await self._enter()
                try:
                    if self._closed:
                        raise PutOut("closed meanwhile")
                    self._inside[limit] = self._loop.time()
                    self._watch()
                    yield
                finally:
                    self._inside.pop(limit, None)
                    self._leave()
        except TimeoutError:
            if limit in self._put_out:
                text = f"not done within {self.patience:g} s while others waited"
                raise PutOut(f"{text} (limit max_handshakes {self.limit})") from None
            raise
        finally:
            self._put_out.discard(limit)

    def close(self, patience: float) -> None:
        """Turn those waiting away, and give those inside ``patience`` seconds more at most."""
        self._closed = True
        while self._waiting:
            self._turn_away("closed meanwhile")
        at = self._loop.time() + patience
        for limit in self._inside:
            when = limit.when()
            if when is not None and when > at and not limit.expired():
                limit.reschedule(at)

    async def _enter(self) -> None:
        if self._taken < self.limit:
            self._taken += 1
            return
        turn = self._loop.create_future()
        self._waiting.append(turn)
        if len(self._waiting) > ROOM * self.limit:
            self._turn_away(f"more than {self.limit} at once and {ROOM * self.limit} waiting (limit max_handshakes)")
        self._watch()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled() and turn.exception() is None:
                self._leave()  # its place was given to it just when it gave up
            elif turn in self._waiting:
                self._waiting.remove(turn)
            raise

    def _leave(self) -> None:
        while self._waiting:
            turn = self._waiting.pop()
            if not turn.done():
                turn.set_result(None)  # the place goes over
                return
        self._taken -= 1

    def _turn_away(self, why: str) -> None:
        turn = self._waiting.popleft()
        if not turn.done():
            turn.set_exception(PutOut(why))

    def _watch(self) -> None:
        """See to it that the oldest inside is looked at when its time is over, if anybody waits."""
        if self._timer is None and self._inside and len(self._waiting) > len(self._put_out):
            oldest = next(iter(self._inside.values()))
            self._timer = self._loop.call_at(oldest + self.patience, self._put_out_oldest)

    def _put_out_oldest(self) -> None:
        self._timer = None
        now = self._loop.time()
        for _ in range(len(self._waiting) - len(self._put_out)):  # those put out may not be gone yet
            limit, entered = next(iter(self._inside.items()), (None, now))
            if limit is None or entered + self.patience > now:
                break
            del self._inside[limit]
            if not limit.expired():
                self._put_out.add(limit)
                limit.reschedule(now)
        self._watch()
