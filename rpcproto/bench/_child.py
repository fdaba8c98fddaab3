"""What the server and the client processes of a run have in common.

The parent writes commands to a child's standard input, one JSON object a line, and reads its reports from its standard
output. The end of the input means that the parent is gone, however it ended: the child then ends at once, so no run
leaves orphans. Clocks of the processes agree, as ``time.monotonic`` is the system's.
"""

from __future__ import annotations

import asyncio
import json
import os
import resource
import sys
import time
from collections.abc import Callable, Coroutine
from typing import Any

from . import environment
from .workload import Workload

__all__ = ["Channel", "Meter", "main", "sleep_until"]

ORPHANED = 3
"""Exit code of a child whose parent is gone."""


class Channel:
    """Commands from the parent, reports to it."""

    def __init__(self) -> None:
        # Reports get a descriptor of their own: what a library prints must not get between them.
        self._reports = os.fdopen(os.dup(1), "w", encoding="utf-8")
        os.dup2(2, 1)
        self._lines: asyncio.Queue[str] = asyncio.Queue()
        self._partial = b""

    def report(self, **values: Any) -> None:
        """Send a report."""
        print(json.dumps(values), file=self._reports, flush=True)

    def listen(self, loop: asyncio.AbstractEventLoop) -> None:
        """From now on take commands, and notice the parent's end, whatever else the loop is doing."""
        os.set_blocking(0, False)
        loop.add_reader(0, self._readable)

    def _readable(self) -> None:
        data = os.read(0, 65536)
        if not data:
            os._exit(ORPHANED)
        *lines, self._partial = (self._partial + data).split(b"\n")
        for line in lines:
            self._lines.put_nowait(line.decode())

    async def command(self) -> dict[str, Any]:
        """The next command."""
        command: dict[str, Any] = json.loads(await self._lines.get())
        return command


class Meter:
    """CPU time and counters of this process over the measured span.

    Args:
        counters: gives messages and system calls sent so far, or None.
    """

    def __init__(self, counters: Callable[[], tuple[int, int] | None]) -> None:
        self._counters = counters
        self._begin = self._read()

    def _read(self) -> tuple[float, float, tuple[int, int] | None]:
        usage = resource.getrusage(resource.RUSAGE_SELF)
        return time.monotonic(), usage.ru_utime + usage.ru_stime, self._counters()

    def figures(self) -> dict[str, Any]:
        """``seconds`` since the meter was made, ``cpu_s`` used, and messages and system calls ``sent`` meanwhile."""
        (t0, cpu0, sent0), (t1, cpu1, sent1) = self._begin, self._read()
        sent = [b - a for a, b in zip(sent0, sent1, strict=True)] if sent0 and sent1 else None
        return {"seconds": t1 - t0, "cpu_s": cpu1 - cpu0, "sent": sent}


async def sleep_until(when: float) -> None:
    """Sleep until ``time.monotonic()`` is ``when``."""
    await asyncio.sleep(max(0.0, when - time.monotonic()))


def main(body: Callable[[dict[str, Any], Workload, Channel], Coroutine[Any, Any, None]]) -> None:
    """Run a child: read its job, pin it, run ``body(job, workload, channel)`` on the loop asked for."""
    channel = Channel()
    job = json.loads(sys.stdin.readline())
    workload = Workload(**job["workload"])
    if job["cpu"] is not None:
        environment.pin(job["cpu"])

    async def run() -> None:
        channel.listen(asyncio.get_running_loop())
        await body(job, workload, channel)

    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if workload.uvloop:
        import uvloop

        factory = uvloop.new_event_loop
    try:
        with asyncio.Runner(loop_factory=factory) as runner:
            runner.run(run())
    except BaseExceptionGroup as group:
        raise _first(group) from None  # its last line is what the parent tells


def _first(error: BaseException) -> BaseException:
    while isinstance(error, BaseExceptionGroup):
        error = error.exceptions[0]
    return error
