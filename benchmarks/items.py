"""How many small items a second go through one stream, beside asyncio streams on the same loop.

A server process, pinned to the first CPU, sends; this process, pinned to the second, takes. Three ways to take them:

- ``iterator``: ``async for`` over ``client.stream(...)``, which credit holds to the consumer's pace;
- ``on_items``: a plain function called once a read;
- ``streams``: asyncio streams, each item a length and bytes: ``write`` and a ``drain`` for every hundred items, and two
  ``readexactly`` for each.

All send the same bytes (raw codec) and take turns in rounds; the median of the rounds counts.

``python benchmarks/items.py [--items 1000000] [--bytes 10] [--rounds 5] [--loop uvloop|asyncio] [--json]``
"""

from __future__ import annotations

import argparse
import asyncio
import itertools
import json
import statistics
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable, Iterator

import rpcproto
from rpcproto.bench.environment import choose_cpus, pin, versions

GOALS = {"iterator": ("streams", 4.0), "on_items": ("iterator", 1.5)}
"""What each must reach, and of what (issue 3)."""


class Source(rpcproto.Service):
    @rpcproto.stream
    def items(self, job: bytes) -> Iterator[bytes]:
        count, size = json.loads(job)
        return itertools.repeat(bytes(size), count)  # what a handler does costs as little as it can


async def serve(count: int, size: int) -> None:
    """The server process: both servers, until its input ends."""
    item = size.to_bytes(4, "little") + bytes(size)

    async def write(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        for number in range(count):
            writer.write(item)
            if number % 100 == 0:
                await writer.drain()
        writer.close()
        await writer.wait_closed()

    async with rpcproto.serve(Source(), "tcp://127.0.0.1:0", codec="raw") as server:
        streams = await asyncio.start_server(write, "127.0.0.1", 0)
        print(json.dumps([server.address, streams.sockets[0].getsockname()[1]]), flush=True)
        await asyncio.to_thread(sys.stdin.read)
        streams.close()


class Takers:
    """The three ways, each a coroutine that takes ``count`` items."""

    def __init__(self, client: rpcproto.Client, port: int, count: int, size: int) -> None:
        self.client = client
        self.port = port
        self.count = count
        self.size = size

    def stream(self) -> rpcproto.Stream:
        return self.client.stream("Source.items", json.dumps([self.count, self.size]).encode(), codec="raw")

    async def iterator(self) -> None:
        taken = 0
        async for _ in self.stream():
            taken += 1
        assert taken == self.count

    async def on_items(self) -> None:
        taken, over = [0], asyncio.Event()

        def take(values: list[bytes]) -> None:
            taken[0] += len(values)

        self.stream().on_items(take, on_end=lambda error: over.set())
        await over.wait()
        assert taken == [self.count]

    async def streams(self) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        for _ in range(self.count):
            size = int.from_bytes(await reader.readexactly(4), "little")
            await reader.readexactly(size)
        writer.close()
        await writer.wait_closed()


async def measure(address: str, port: int, count: int, size: int, rounds: int) -> dict[str, list[float]]:
    """Items a second of each way, by round."""
    found: dict[str, list[float]] = {"iterator": [], "on_items": [], "streams": []}
    async with rpcproto.connect(address) as client:
        takers = Takers(client, port, count, size)
        ways: dict[str, Callable[[], Awaitable[None]]] = {name: getattr(takers, name) for name in found}
        for _ in range(rounds):
            for name, take in ways.items():
                start = time.perf_counter()
                await take()
                found[name].append(count / (time.perf_counter() - start))
    return found


def settle(place: int) -> None:
    """Stay on the CPU of the server (0) or the client (1)."""
    if placement := choose_cpus():
        pin(placement[place])


def report(found: dict[str, list[float]], as_json: bool) -> None:
    """Print medians and ratios."""
    medians = {name: statistics.median(rates) for name, rates in found.items()}
    ratios = {name: medians[name] / medians[base] for name, (base, _) in GOALS.items()}
    if as_json:
        print(json.dumps({"items_per_s": found, "ratios": ratios, "versions": versions()}))
        return
    for name, median in medians.items():
        text = f"{name:10} {median:12,.0f} items/s"
        if name in GOALS:
            text += f"   {ratios[name]:.2f} x {GOALS[name][0]} (goal {GOALS[name][1]:g})"
        print(text)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--items", type=int, default=1_000_000)
    parser.add_argument("--bytes", type=int, default=10)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--loop", choices=["uvloop", "asyncio"], default="uvloop")
    parser.add_argument("--json", action="store_true")
    parser.add_argument("--serve", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    factory = None
    if options.loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    with asyncio.Runner(loop_factory=factory) as runner:
        if options.serve:
            settle(0)
            runner.run(serve(options.items, options.bytes))
            return
        command = [sys.executable, __file__, "--serve", *sys.argv[1:]]
        with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as child:
            assert child.stdin is not None
            assert child.stdout is not None
            settle(1)
            address, port = json.loads(child.stdout.readline())
            try:
                found = runner.run(measure(address, port, options.items, options.bytes, options.rounds))
            finally:
                child.stdin.close()
        report(found, options.json)


if __name__ == "__main__":
    main()
