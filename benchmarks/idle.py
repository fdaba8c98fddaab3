"""What an idle connection costs: memory of each, and the CPU time of their heartbeats.

``python benchmarks/idle.py --count 10000`` starts a server in a fresh process and connects to it from another one,
first with a bare ``BufferedProtocol`` on both sides, then with rpcproto, and compares resident memory per connection.
Python's and the loop's own part (transport, socket object) is what the bare one needs; the difference is ours.
The first connections are left out: they pay for what all share. Linux only (/proc).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import json
import os
import resource
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import rpcproto

TARGET = 8 * 1024
"""Bytes of our memory for an idle connection, at most."""

WARM = 200
"""Connections made before the first reading."""

BATCH = 100
"""Connections made at once."""


class Bare(asyncio.BufferedProtocol):
    """A connection that does nothing, with one buffer for all."""

    memory = bytearray(64 * 1024)

    def get_buffer(self, sizehint: int) -> bytearray:
        return self.memory

    def buffer_updated(self, nbytes: int) -> None:
        pass


class Service(rpcproto.Service):
    @rpcproto.request
    def echo(self, value: object) -> object:
        return value


def readings() -> dict[str, float]:
    """This process's resident memory in bytes, its CPU time in seconds, and the time."""
    gc.collect()
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return {"rss": pages * os.sysconf("SC_PAGE_SIZE"), "cpu": time.process_time(), "time": time.monotonic()}


def raise_descriptor_limit(needed: int) -> None:
    """Let this process open so many descriptors, or end with what to do about it."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft >= needed:
        return
    if hard != resource.RLIM_INFINITY and hard < needed:
        sys.exit(f"{needed} descriptors are needed and the hard limit is {hard}: use a smaller --count, or raise it")
    resource.setrlimit(resource.RLIMIT_NOFILE, (needed, hard))


# ---- the processes ----


async def command() -> str:
    """The next command of the parent; ends the process with it."""
    line = await asyncio.get_running_loop().run_in_executor(None, sys.stdin.readline)
    if not line:
        os._exit(1)
    return line.strip()


def report(**values: Any) -> None:
    print(json.dumps(values), flush=True)


async def server(kind: str) -> None:
    loop = asyncio.get_running_loop()
    if kind == "bare":
        listener = await loop.create_server(Bare, "127.0.0.1", 0, backlog=1024)
        report(address=f"tcp://127.0.0.1:{listener.sockets[0].getsockname()[1]}")
    else:
        served = await rpcproto.serve(Service(), "tcp://127.0.0.1:0")
        report(address=served.address)
    while await command() == "read":
        report(**readings())
    os._exit(0)  # closing 10,000 connections in good order is not what is measured


async def clients(kind: str, address: str) -> None:
    loop = asyncio.get_running_loop()
    host, _, port = address.removeprefix("tcp://").rpartition(":")
    kept: list[object] = []

    async def connect() -> None:
        if kind == "bare":
            kept.append(await loop.create_connection(Bare, host, int(port)))
        else:
            kept.append(await rpcproto.connect(address))

    while (wanted := await command()) != "stop":
        if wanted != "read":
            while len(kept) < int(wanted):
                await asyncio.gather(*(connect() for _ in range(min(BATCH, int(wanted) - len(kept)))))
        report(**readings())
    os._exit(0)


# ---- the parent ----


class Child:
    """One of the two processes; ends when its input does, so none is left behind."""

    def __init__(self, *arguments: str) -> None:
        command = [sys.executable, __file__, "--child", *arguments]
        self.process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)

    def tell(self, word: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(word + "\n")
        self.process.stdin.flush()

    def answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None
        line = self.process.stdout.readline()
        if not line:
            sys.exit("a process failed; its error is above")
        values: dict[str, Any] = json.loads(line)
        return values

    def ask(self, word: str) -> dict[str, Any]:
        self.tell(word)
        return self.answer()

    def close(self) -> None:
        self.process.kill()
        self.process.wait()


def measure(kind: str, count: int, watch: float, loop: str) -> dict[str, float]:
    """Bytes per connection on each side, and the shares of a core that idling takes."""
    serving = Child("server", kind, loop)
    try:
        connecting = Child("clients", kind, loop, serving.answer()["address"])
        try:
            client0, server0 = connecting.ask(str(WARM)), serving.ask("read")
            client1, server1 = connecting.ask(str(count)), serving.ask("read")
            time.sleep(watch)
            client2, server2 = connecting.ask("read"), serving.ask("read")
        finally:
            connecting.close()
    finally:
        serving.close()
    return {
        "server_bytes": (server1["rss"] - server0["rss"]) / (count - WARM),
        "client_bytes": (client1["rss"] - client0["rss"]) / (count - WARM),
        "server_bytes_later": (server2["rss"] - server0["rss"]) / (count - WARM),
        "server_core": (server2["cpu"] - server1["cpu"]) / (server2["time"] - server1["time"]),
        "client_core": (client2["cpu"] - client1["cpu"]) / (client2["time"] - client1["time"]),
    }


def loop_factory(name: str) -> Callable[[], asyncio.AbstractEventLoop]:
    if name == "asyncio":
        return asyncio.new_event_loop
    import uvloop

    factory: Callable[[], asyncio.AbstractEventLoop] = uvloop.new_event_loop
    return factory


def child(role: str, kind: str, loop: str, *address: str) -> None:
    with asyncio.Runner(loop_factory=loop_factory(loop)) as runner:
        runner.run(server(kind) if role == "server" else clients(kind, *address))


def main() -> int:
    parser = argparse.ArgumentParser(description="Memory and CPU time of idle connections.")
    parser.add_argument("--count", type=int, default=10_000, help="connections (default %(default)s)")
    parser.add_argument("--watch", type=float, default=10.0, help="seconds to idle (default %(default)s)")
    parser.add_argument("--loop", choices=["uvloop", "asyncio"], default="uvloop")
    parser.add_argument("--json", action="store_true", help="print JSON")
    parser.add_argument("--child", nargs="+", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.count <= WARM:
        parser.error(f"--count must be above {WARM}")
    raise_descriptor_limit(options.count + 100)
    if options.child:
        child(*options.child)
        return 0
    kinds = ("bare", "rpcproto")
    found = {kind: measure(kind, options.count, options.watch, options.loop) for kind in kinds}
    ours = max(found["rpcproto"][key] - found["bare"][key] for key in ("server_bytes", "server_bytes_later"))
    met = ours <= TARGET
    if options.json:
        print(json.dumps(found | {"ours_bytes": ours, "target_bytes": TARGET, "met": met, "count": options.count}))
        return 0 if met else 1
    print(f"{options.count:,} idle connections, {options.loop}")
    print(f"{'':10} {'server':>10} {'later':>10} {'client':>10}  {'core, server':>12} {'client':>8}")
    for kind, row in found.items():
        sizes = " ".join(
            f"{row[key] / 1024:6.1f} KiB" for key in ("server_bytes", "server_bytes_later", "client_bytes")
        )
        print(f"{kind:10} {sizes}  {row['server_core']:11.1%} {row['client_core']:8.1%}")
    print(f"ours: {ours / 1024:.1f} KiB each; at most {TARGET / 1024:g} KiB: {'met' if met else 'MISSED'}")
    return 0 if met else 1


if __name__ == "__main__":
    raise SystemExit(main())
