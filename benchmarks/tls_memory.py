"""Whether memory stays flat over many TLS connections, one after the other, and much traffic (reliability row 50).

``python benchmarks/tls_memory.py`` serves in this process and connects, calls once and closes 10,000 times over TLS,
and meanwhile sends 1 GiB there and back in messages of 1 MiB; on each event loop in a process of its own. After a
warm-up of a fifth of that again, resident memory, read ten times along the way, must not have grown by 2 MiB or more.
Nor may anything be in the log. Linux only (/proc).
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import logging
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import rpcproto
from rpcproto.bench import certificates

ALLOWED = 2 << 20
"""Bytes that memory may grow by after the warm-up."""

MIB = 1 << 20
STEPS = 12
WARM = 2
LOOPS = ("uvloop", "asyncio")


class Lines(logging.Handler):
    """Keeps what is logged."""

    def __init__(self) -> None:
        super().__init__()
        self.texts: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.texts.append(record.getMessage())


def rss() -> int:
    gc.collect()
    return int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * os.sysconf("SC_PAGE_SIZE")


async def readings(issued: certificates.Certificates, connections: int, megabytes: int) -> list[int]:
    """Resident memory after the warm-up, and after each tenth of the work behind it."""
    found = []
    async with rpcproto.serve({"echo": bytes}, "tls://127.0.0.1:0", ssl=issued.server(), codec="raw") as server:

        async def connect() -> rpcproto.Client:
            return await rpcproto.connect(server.address, ssl=issued.client(), codec="raw")

        async with await connect() as client:
            for step in range(STEPS):
                for _ in range(connections // (STEPS - WARM)):
                    async with await connect() as other:
                        await other.request("echo", b"x")
                for _ in range(megabytes // (STEPS - WARM)):
                    await client.request("echo", bytes(MIB))
                if step >= WARM - 1:
                    found.append(rss())
    return found


def child(loop: str, connections: int, megabytes: int) -> int:
    lines = Lines()
    logging.getLogger().addHandler(lines)
    factory: Callable[[], asyncio.AbstractEventLoop] = asyncio.new_event_loop
    if loop == "uvloop":
        import uvloop

        factory = uvloop.new_event_loop
    with tempfile.TemporaryDirectory() as folder, asyncio.Runner(loop_factory=factory) as runner:
        found = runner.run(readings(certificates.make(Path(folder)), connections, megabytes))
    growth = found[-1] - found[0]
    steps = " ".join(f"{(value - found[0]) / 1024:+.0f}" for value in found[1:])
    met = growth < ALLOWED and not lines.texts
    print(f"{loop:8} {connections:,} connections, {megabytes:,} MiB: {growth / 1024:+.0f} KiB ({steps})")
    for text in lines.texts[:5]:
        print(f"         in the log: {text}")
    print(f"         below {ALLOWED / 1024:.0f} KiB and nothing in the log: {'met' if met else 'MISSED'}", flush=True)
    return 0 if met else 1


def main() -> int:
    parser = argparse.ArgumentParser(description="Memory over many TLS connections.")
    parser.add_argument("--connections", type=int, default=10_000, help="default %(default)s")
    parser.add_argument("--megabytes", type=int, default=1024, help="MiB there and back (default %(default)s)")
    parser.add_argument("--loop", choices=LOOPS, help="one loop only")
    parser.add_argument("--child", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child:
        return child(options.loop, options.connections, options.megabytes)
    work = ["--connections", str(options.connections), "--megabytes", str(options.megabytes), "--child"]
    loops = [options.loop] if options.loop else LOOPS
    return max(
        subprocess.run([sys.executable, __file__, *work, "--loop", loop], check=False).returncode for loop in loops
    )


if __name__ == "__main__":
    raise SystemExit(main())
