"""Workers connect to a scheduler, register, and are called back over the connection they made.

So only the scheduler needs an address. Run it: python examples/worker.py (it starts two workers as processes).
"""

from __future__ import annotations

import asyncio
import sys

import rpcproto


class Scheduler(rpcproto.Service):
    def __init__(self) -> None:
        self.workers: asyncio.Queue[tuple[str, rpcproto.Peer]] = asyncio.Queue()

    @rpcproto.request
    def register(self, name: str) -> None:
        """Called by a worker: ``rpcproto.peer()`` is the other end of its connection."""
        self.workers.put_nowait((name, rpcproto.peer()))


class Worker(rpcproto.Service):
    @rpcproto.request(thread=True)
    def count_primes(self, start: int, stop: int) -> int:
        """In a thread, so that a long computation leaves the event loop free to answer."""
        return sum(all(n % d for d in range(2, int(n**0.5) + 1)) for n in range(max(start, 2), stop))


async def work(name: str, address: str) -> None:
    async with rpcproto.connect(address, service=Worker()) as client:
        await client.request("Scheduler.register", name)
        await client.wait_closed()


async def main() -> None:
    scheduler = Scheduler()
    async with rpcproto.serve(scheduler, "tcp://127.0.0.1:0") as server:
        names = ("alice", "bob")
        processes = [await asyncio.create_subprocess_exec(sys.executable, __file__, n, server.address) for n in names]
        workers = dict([await scheduler.workers.get() for _ in names])
        print("registered:", *sorted(workers))

        chunks = [(workers[names[i % 2]], i * 5000, (i + 1) * 5000) for i in range(8)]
        counts = await asyncio.gather(*(peer.request("Worker.count_primes", a, b) for peer, a, b in chunks))
        print("primes below 40000:", sum(counts))
    # The server is closed: the workers' connections are, so they end.
    print("exit codes:", *[await process.wait() for process in processes])


if __name__ == "__main__":
    asyncio.run(main() if len(sys.argv) == 1 else work(*sys.argv[1:]))
