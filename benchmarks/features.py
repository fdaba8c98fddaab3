"""What each feature costs, in nanoseconds of CPU time per call, both ends together.

Server and client share one loop and one process, over a unix socket with 64 calls in flight, so that nothing but the
code differs between two rows: system calls are spread over a whole window, and no process has to be woken up. Rows take
turns in rounds, and the least of a row's rounds counts: whatever disturbs can only add.

Two ladders; each row names the row it is compared with. Most features of rpcproto cannot be switched off, so the first
ladder adds them to the featureless prototype, one at a time and all at once. The second one goes from there to rpcproto
(what cancel, fairness, fragments and two layers more cost on top), and on to what a caller chooses.

``python benchmarks/features.py [--rounds 15] [--calls 6400] [--loop asyncio] [--json] [NAME ...]``
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import importlib.util
import itertools
import json
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import rpcproto
from rpcproto import Limits
from rpcproto.bench import SubjectMissing, Workload
from rpcproto.bench.environment import build, versions
from rpcproto.bench.subjects import load_file

HERE = Path(__file__).resolve().parent
WINDOW = 64
SMALL = b"0123456789"
DICT = {"op": "echo", "id": 1234567, "data": SMALL}
NARROW = Limits(call_window=65_536, connection_window=65_536, max_connection_window=65_536)

Call = Callable[[], Awaitable[object]]
"""Makes one call."""


class Service(rpcproto.Service):
    @rpcproto.request
    def take(self, value: object) -> bytes:
        return SMALL

    @rpcproto.request
    def echo(self, value: object) -> object:
        return value

    @rpcproto.request
    async def take_async(self, value: object) -> bytes:
        return SMALL

    @rpcproto.request(thread=True)
    def take_thread(self, value: object) -> bytes:
        return SMALL

    @rpcproto.notify
    def log(self, value: object) -> None:
        pass


@dataclass(frozen=True, kw_only=True)
class Prototype:
    """A row of the first ladder."""

    name: str
    base: str | None = "prototype"
    features: Sequence[str] = ()


@dataclass(frozen=True, kw_only=True)
class Row:
    """A row of the second ladder: the row ``base`` with one thing changed."""

    name: str
    base: str
    method: str = "Service.take"
    value: Any = SMALL
    codec: str = "raw"
    timeout: float | None = None
    timeouts: Sequence[float] = ()
    notify: bool = False
    cancel: bool = False
    limits: Limits = field(default_factory=Limits)
    methods: int = 0
    """Serve so many functions and call each of them first, so that no method id is left for the one measured."""


FEATURES = ("METHODS", "CODECS", "CREDIT", "DEADLINE", "LIMITS", "COUNTERS")

ROWS: tuple[Prototype | Row, ...] = (
    Prototype(name="prototype", base=None),
    Prototype(name="+ method ids", features=["METHODS"]),
    Prototype(name="+ codec ids", features=["CODECS"]),
    Prototype(name="+ credit", features=["CREDIT"]),
    Prototype(name="+ deadline", features=["DEADLINE"]),
    Prototype(name="+ limits", features=["LIMITS"]),
    Prototype(name="+ counters", features=["COUNTERS"]),
    Prototype(name="+ all of these", features=FEATURES),
    Row(name="rpcproto, no deadline", base="+ all of these"),
    Row(name="deadline", base="rpcproto, no deadline", timeout=30.0),
    Row(name="deadlines that differ", base="deadline", timeouts=[20.0 + i * 0.1 for i in range(100)]),
    Row(name="credit returned often", base="rpcproto, no deadline", limits=NARROW),
    Row(name="name instead of id", base="rpcproto, no deadline", method="Last.take", methods=4095),
    Row(name="coroutine handler", base="rpcproto, no deadline", method="Service.take_async"),
    Row(
        name="cancelled by the caller",
        base="coroutine handler",
        method="Service.take_async",
        cancel=True,
        limits=Limits(cancel_burst=2**31 - 1),
    ),
    Row(name="thread handler", base="rpcproto, no deadline", method="Service.take_thread"),
    Row(name="echo", base="rpcproto, no deadline", method="Service.echo"),
    Row(name="dict, msgpack", base="echo", method="Service.echo", value=DICT, codec="msgpack"),
    Row(name="4 KiB, copied", base="rpcproto, no deadline", value=bytes(4096)),
    Row(name="4 KiB + 1, pinned", base="4 KiB, copied", value=bytes(4097)),
    Row(name="100 KB, two fragments", base="4 KiB + 1, pinned", value=bytes(100_000)),
    Row(name="notify", base="rpcproto, no deadline", method="Service.log", notify=True),
)


def caller(client: Any, row: Row) -> Call:
    """The function that makes one call of the row."""
    method, value = row.method, row.value
    if row.notify:
        return lambda: client.notify(method, value)
    if row.timeouts:
        timeouts = itertools.cycle(row.timeouts)
        return lambda: client.request(method, value, timeout=next(timeouts))
    if not row.cancel:
        return lambda: client.request(method, value, timeout=row.timeout)

    async def cancelled() -> None:
        reply = client.request(method, value, timeout=row.timeout)
        await asyncio.sleep(0)  # let it be sent
        reply.cancel()

    return cancelled


async def start(row: Row, address: str, stack: AsyncExitStack) -> Call:
    """Serve and connect for a row."""
    services: list[Any] = [Service()]
    if row.methods:
        services.append({f"Many.m{i}": Service().take for i in range(row.methods)} | {"Last.take": Service().take})
    server = await stack.enter_async_context(rpcproto.serve(services, address, limits=row.limits))
    client = await stack.enter_async_context(rpcproto.connect(server.address, codec=row.codec, limits=row.limits))
    for i in range(row.methods):
        await client.request(f"Many.m{i}", b"")
    return caller(client, row)


async def start_prototype(row: Prototype, address: str, stack: AsyncExitStack) -> Call:
    """The same with the prototype."""
    subject = load_file(HERE / "prototype" / "subject.py", HERE).Prototype(row.features)
    subject.prepare()
    server = await subject.serve(Workload(), address)
    stack.push_async_callback(server.close)
    client = await subject.connect(Workload(), server.address)
    stack.push_async_callback(client.close)
    request = client.request
    return lambda: request("Echo.echo", SMALL)


async def loops(call: Call, calls: int) -> None:
    """``calls`` calls by as many loops as the window is wide."""

    async def loop(count: int) -> None:
        for _ in range(count):
            await call()

    async with asyncio.TaskGroup() as group:
        for _ in range(WINDOW):
            group.create_task(loop(calls // WINDOW))


async def measure(rows: Sequence[Prototype | Row], rounds: int, calls: int) -> tuple[dict[str, float], str]:
    """Nanoseconds per call of each row, and why the prototype is missing, if it is."""
    least: dict[str, float] = {}
    missing = ""
    with tempfile.TemporaryDirectory() as folder:
        async with AsyncExitStack() as stack:
            made: dict[str, Call] = {}
            for number, row in enumerate(rows):
                address = f"unix://{folder}/{number}"
                if isinstance(row, Row):
                    made[row.name] = await start(row, address, stack)
                    continue
                try:
                    made[row.name] = await start_prototype(row, address, stack)
                except SubjectMissing as error:
                    missing = str(error)
            gc.collect()
            gc.freeze()
            for _ in range(rounds):
                for name, call in made.items():
                    await loops(call, WINDOW * 4)
                    begin = time.process_time_ns()
                    await loops(call, calls)
                    spent = (time.process_time_ns() - begin) / (calls // WINDOW * WINDOW)
                    least[name] = min(spent, least.get(name, spent))
    return least, missing


def wanted(names: Sequence[str]) -> list[Prototype | Row]:
    """The rows of these names and what they are compared with; all, if no name is given."""
    rows = {row.name: row for row in ROWS}
    if unknown := [name for name in names if name not in rows]:
        sys.exit(f"no row {unknown[0]!r}; there are: {', '.join(rows)}")
    keep: set[str] = set()
    for name in names or rows:
        row: Prototype | Row | None = rows[name]
        while row is not None:
            keep.add(row.name)
            row = rows[row.base] if row.base else None
    return [row for row in ROWS if row.name in keep]


def table(rows: Sequence[Prototype | Row], figures: Mapping[str, float]) -> str:
    lines = [f"{'':26} {'ns/call':>8} {'step':>8}"]
    for row in rows:
        if row.name in figures:
            step = f"{figures[row.name] - figures[row.base]:+8.0f}  to {row.base}" if row.base in figures else ""
            lines.append(f"{row.name:26} {figures[row.name]:8.0f} {step}")
    return "\n".join(lines)


def main() -> int:
    parser = argparse.ArgumentParser(description="The cost of each feature in ns per call.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="rows to measure (default all)")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--calls", type=int, default=6400, help="calls of each row in a round (default %(default)s)")
    parser.add_argument("--loop", choices=["uvloop", "asyncio"], default=None)
    parser.add_argument("--json", action="store_true", help="print JSON")
    options = parser.parse_args()
    loop = options.loop or ("uvloop" if importlib.util.find_spec("uvloop") else "asyncio")
    factory: Callable[[], asyncio.AbstractEventLoop] | None = None
    if loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    rows = wanted(options.names)
    with asyncio.Runner(loop_factory=factory) as runner:
        figures, missing = runner.run(measure(rows, options.rounds, max(options.calls, WINDOW)))
    found = versions()
    if options.json:
        steps = {row.name: {"base": row.base, "ns": figures.get(row.name)} for row in rows}
        print(json.dumps({"rows": steps, "build": build(), "loop": loop, "versions": found, "missing": missing}))
        return 0
    print(f"{build()} build, {loop}, {found['python']}, uvloop {found['uvloop']}, msgpack {found['msgpack']}")
    print(table(rows, figures))
    if missing:
        print(f"prototype: {missing}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
