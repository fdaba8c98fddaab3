"""A client process of a run: ``python -m rpcproto.bench._client``, started by the engine only.

How the measuring is kept from disturbing what it measures: each loop times one call in eight (with fewer in flight, one
in as many), and the loops are set off against each other, so that every turn has its share of timed calls. A timed call
costs two readings of the clock and one count in a histogram, 0.2 us together, hence 0.03 us on the average; with one
call in flight 0.2 us of 50 or more. Calls are counted as often.
"""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

from ._child import Channel, Meter, main, sleep_until
from .errors import BenchmarkFailed
from .histogram import Histogram
from .subjects import Client, find_subject
from .workload import Workload

STRIDE = 8
"""One call in so many is timed, and counted for all of them."""


class Load:
    """The loops of one client."""

    def __init__(self, client: Client, method: str, workload: Workload) -> None:
        self.client = client
        self.method = method
        self.value = workload.value()
        self.stride = min(STRIDE, workload.concurrency)
        self.running = True
        self.calls = 0
        self.latencies = Histogram()

    async def check(self, expected: object) -> None:
        """One call, whose reply must be right."""
        reply = plain(await self.client.request(self.method, self.value))
        if reply != expected:
            raise BenchmarkFailed(f"{self.method} answered {reply!r:.100}, not {expected!r:.100}")

    async def loop(self, number: int) -> None:
        """Calls, one after the other, until told to stop."""
        request, method, value, stride = self.client.request, self.method, self.value, self.stride
        clock = time.perf_counter_ns
        others = range(stride - 1)
        for _ in range(number % stride):
            await request(method, value)
        while self.running:
            start = clock()
            await request(method, value)
            took = clock() - start
            self.latencies.record(took)
            for _ in others:
                await request(method, value)
            self.calls += stride

    def restart(self) -> None:
        """Forget what was measured so far."""
        self.calls = 0
        self.latencies = Histogram()


def plain(value: object) -> object:
    """``value`` with ``bytes`` for every other kind of buffer, to be compared."""
    if isinstance(value, (bytearray, memoryview)):
        return bytes(value)
    if isinstance(value, dict):
        return {key: plain(item) for key, item in value.items()}
    return value


async def body(job: dict[str, Any], workload: Workload, channel: Channel) -> None:
    subject = find_subject(job["subject"], Path(job["benchmarks"]) if job["benchmarks"] else None)
    subject.prepare()
    client = await subject.connect(workload, job["address"])
    load = Load(client, subject.method(workload), workload)
    await load.check(workload.reply())
    channel.report(ready=True)
    span = await channel.command()
    async with asyncio.TaskGroup() as group:
        for number in range(workload.concurrency):
            group.create_task(load.loop(number))
        await sleep_until(span["start"])
        load.restart()
        meter = Meter(client.counters)
        await sleep_until(span["end"])
        figures = meter.figures()
        calls, latencies = load.calls, load.latencies
        load.running = False
    channel.report(calls=calls, latencies=latencies.pairs(), **figures)
    await client.close()


if __name__ == "__main__":
    main(body)
