"""What a blocking call costs beside an asynchronous one: one call in flight, against the same server.

The two take turns, so that whatever disturbs the machine disturbs both: some calls of a blocking client, then some of
an asynchronous one on a loop of the main thread. What counts is the ratio of their medians. The server is a process of
its own, on the first CPU; the clients are on the second. A blocking call has two thread switches more than an
asynchronous one. On one CPU each costs a few microseconds; with ``--no-pin`` the system may put the two threads on CPUs
that have fallen asleep, and waking a virtual one costs as much as the rest of the call: then the ratio is anything from
1.4 to 7, from run to run.

``python benchmarks/blocking.py [--rounds 20] [--calls 200] [--threads 32] [--no-pin] [--json]``; exits with 1 if the
ratio is above its goal.
"""

from __future__ import annotations

import argparse
import asyncio
import json
import multiprocessing
import statistics
import threading
import time
from multiprocessing.connection import Connection
from typing import Any

import uvloop

import rpcproto
from rpcproto.bench.environment import build, choose_cpus, pin, versions

SMALL = b"0123456789"

GOAL = 3.0
"""Round trip of a blocking call, in those of an asynchronous one, at most."""


class Service(rpcproto.Service):
    @rpcproto.request
    def echo(self, value: bytes) -> bytes:
        return value


def serve(ready: Connection, cpu: int | None) -> None:
    """The server's process: tells its address, and ends when the other end of the pipe does."""
    if cpu is not None:
        pin(cpu)

    async def main() -> None:
        async with rpcproto.serve(Service(), "tcp://127.0.0.1:0") as server:
            ready.send(server.address)
            ended = asyncio.Event()
            asyncio.get_running_loop().add_reader(ready.fileno(), ended.set)
            await ended.wait()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(main())


def measure(address: str, rounds: int, calls: int) -> tuple[list[float], list[float]]:
    """Seconds that each blocking and each asynchronous call took."""
    blocking: list[float] = []
    awaited: list[float] = []
    clock = time.perf_counter

    async def some(client: rpcproto.Client, count: int) -> None:
        for _ in range(count):
            start = clock()
            await client.request("Service.echo", SMALL)
            awaited.append(clock() - start)

    async def connect() -> rpcproto.Client:
        return await rpcproto.connect(address, codec="raw")

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        other = runner.run(connect())
        with rpcproto.connect_blocking(address, codec="raw") as client:
            for each in range(rounds + 1):
                for _ in range(calls):
                    start = clock()
                    client.request("Service.echo", SMALL)
                    blocking.append(clock() - start)
                runner.run(some(other, calls))
                if each == 0:  # to warm up
                    blocking.clear()
                    awaited.clear()
        runner.run(other.close())
    return blocking, awaited


def throughput(address: str, threads: int, calls: int) -> float:
    """Calls a second of many threads on one connection."""
    start = threading.Barrier(threads + 1)

    def work() -> None:
        start.wait()
        for _ in range(calls):
            client.request("Service.echo", SMALL)

    with rpcproto.connect_blocking(address, codec="raw") as client:
        workers = [threading.Thread(target=work) for _ in range(threads)]
        for worker in workers:
            worker.start()
        start.wait()
        begin = time.perf_counter()
        for worker in workers:
            worker.join()
        return threads * calls / (time.perf_counter() - begin)


def p50(times: list[float]) -> float:
    """Their median in microseconds."""
    return round(statistics.median(times) * 1e6, 1)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--calls", type=int, default=200, help="of each kind, a round")
    parser.add_argument("--threads", type=int, default=32)
    parser.add_argument(
        "--pin", action=argparse.BooleanOptionalAction, default=True, help="server and clients on a CPU each"
    )
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    ours, theirs = multiprocessing.Pipe()
    context = multiprocessing.get_context("spawn")
    placement = choose_cpus() if options.pin else None
    server = context.Process(target=serve, args=(theirs, placement[0] if placement else None))
    server.start()
    theirs.close()
    if placement:
        pin(placement[1])
    address = ours.recv()
    blocking, awaited = measure(address, options.rounds, options.calls)
    rate = throughput(address, options.threads, options.calls)
    ours.close()
    server.join()
    ratio = p50(blocking) / p50(awaited)
    result: dict[str, Any] = {
        "blocking_p50_us": p50(blocking),
        "async_p50_us": p50(awaited),
        "ratio": round(ratio, 2),
        "goal": GOAL,
        f"calls_per_second_of_{options.threads}_threads": round(rate),
        "pinned": placement is not None,
        "build": build(),
        "versions": versions(),
    }
    if options.json:
        print(json.dumps(result, indent=2))
    else:
        for name, value in result.items():
            print(f"{name}: {value}")
    return 0 if ratio <= GOAL else 1


if __name__ == "__main__":
    raise SystemExit(main())
