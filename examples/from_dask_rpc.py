"""From Dask's rpc (distributed.core) to rpcproto: what is called what, what behaves differently, and a program to read.

Run it: python examples/from_dask_rpc.py (needs numpy)

    distributed.core                              rpcproto
    ============================================  ================================================================
    Server({"add": add}); await listen(address)   async with rpcproto.serve({"add": add}, address) as server
    handlers that are methods                     class Worker(rpcproto.Service) with @rpcproto.request
    handler(comm, x, y)                           handler(x, y); rpcproto.peer() is who called
    rpc(address).add(x=1, y=2)                    client.request("add", 1, 2), or client.of(Calculator).add(x=1, y=2)
    ConnectionPool(), pool(address)               a dict of clients by address: one connection has all calls
    Status.dont_reply, {..., "reply": False}      @rpcproto.notify and client.notify(...)
    stream_handlers, handle_stream, {"op": ...}   @rpcproto.channel, and a dict of your own
    comm.write(message)                           await channel.send(message)
    BatchedSend(interval="2ms").send(message)     channel.send(message), not awaited; there is no interval
    comm.read()                                   await channel.receive(), or `async for message in channel`
    comm.read() of what BatchedSend sent: tuples  channel.on_items(function), which gets a list
    comm.close()                                  channel.end(); the other direction goes on
    CommClosedError                               ConnectionLost, which says whether the call may have run
    the exception of a handler, raised again      RemoteError: .type_name, .text; .traceback if the server tells it
    to_serialize(array)                           the array
    serializers=, deserializers=                  codec=, rpcproto.register_codec
    distributed.comm.timeouts.connect, 30 s       Timeouts.connect, 10 s

Differently from Dask:

- All calls share the connection. Dask opens one for each call under way, up to the pool's limit of 512, since the ops
  of a comm are handled one after the other.
- Arguments travel by position. Keywords need a Protocol (Calculator below), which has the order.
- connect() tries once; Dask's goes on until its time is over. A client that has lost its connection stays closed:
  from_pyzmq.py has one that connects again.
- Calls have 30 s unless they say otherwise; with Dask they wait. Giving a call up cancels the handler; with Dask it
  runs on.
- An unknown method is NoSuchMethod; Dask logs a warning, and answers None.
- Lists stay lists; from Dask they come as tuples.
- Nothing is pickled. None, numbers, text, bytes, lists, dicts, tuples, sets, dates and numpy arrays can be sent; other
  values are refused where they are sent. Exceptions come by name, and no class is looked up by it.
- `await channel.send(...)` waits for a peer that is behind; comm.write() over TCP does not, and queues without limit.
- Without a host, as in tcp://:0, Dask listens for all machines. Here an address that others can reach needs clients
  that prove who they are, or insecure=True.

Not here: families of serializers, pickle among them, and compression; messages that are left serialized
(deserialize=False) or serialized in a thread; ws:// and ucx://; the periodic callbacks of a Server.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

import rpcproto


class Calculator(Protocol):
    """Not needed to call, but for keywords, and for type checkers."""

    async def add(self, x: int, y: int = 1) -> int: ...
    async def divide(self, x: int, y: int) -> float: ...


async def handlers_and_rpc() -> None:
    def add(x: int, y: int = 1) -> int:
        return x + y

    async def divide(x: int, y: int) -> float:
        return x / y

    def get_data(keys: list[str]) -> dict[str, Any]:
        return {key: np.full(1_000_000, len(key)) for key in keys}

    handlers = {"Calculator.add": add, "Calculator.divide": divide, "get_data": get_data}
    async with rpcproto.serve(handlers, "tcp://127.0.0.1:0", implements=Calculator) as server:
        async with rpcproto.connect(server.address) as client:
            calculator = client.of(Calculator)
            print("rpc:", await client.request("Calculator.add", 1, 2), await calculator.add(x=40, y=2))

            sums = await asyncio.gather(*(calculator.add(n) for n in range(1000)))
            print("1000 calls at once:", sum(sums), "over", len(server.peers), "connection")

            data = await client.request("get_data", ["a", "bc"])
            print("data:", {key: (array.nbytes, int(array[0])) for key, array in data.items()})

            try:
                await calculator.divide(1, 0)
            except rpcproto.RemoteError as error:
                known: dict[str, type[Exception]] = {"ZeroDivisionError": ZeroDivisionError}
                print("exception:", repr(known.get(error.type_name, RuntimeError)(error.text)))
            try:
                await client.request("Calculator.add", {"x": object()})
            except rpcproto.SerializationError as error:
                print("refused:", error)


class Scheduler(rpcproto.Service):
    """Has a channel with each worker, on which both send ops whenever they like."""

    def __init__(self, tasks: dict[str, int]) -> None:
        self.tasks = tasks
        self.results: dict[str, int] = {}
        self.batches = 0
        self.ops: dict[str, Callable[..., None]] = {"task-finished": self.task_finished, "keep-alive": lambda: None}

    @rpcproto.channel
    def register(self, channel: rpcproto.Channel, name: str) -> None:
        """A plain function: it sets what is called with all messages that a read brings, and returns."""

        def handle(messages: list[dict[str, Any]]) -> None:
            self.batches += 1
            for message in messages:
                self.ops[message.pop("op")](**message)
            if len(self.results) == len(self.tasks):
                channel.end()

        channel.on_items(handle)
        for key, number in self.tasks.items():
            channel.send({"op": "compute-task", "key": key, "number": number})  # as with BatchedSend: not awaited

    def task_finished(self, key: str, result: int) -> None:
        self.results[key] = result


async def ops_in_batches() -> None:
    scheduler = Scheduler({f"square-{n}": n for n in range(1000)})
    async with rpcproto.serve(scheduler, "tcp://127.0.0.1:0") as server:
        async with rpcproto.connect(server.address) as client:
            async with client.channel("Scheduler.register", "alice") as channel:
                channel.send({"op": "keep-alive"})
                async for message in channel:
                    assert message.pop("op") == "compute-task"
                    key, number = message["key"], message["number"]
                    channel.send({"op": "task-finished", "key": key, "result": number**2})
            sends = client.stats()["sends"]
    print("tasks finished:", len(scheduler.results), "sum:", sum(scheduler.results.values()))
    print("in batches:", scheduler.batches < 500, "in few system calls:", sends < 500)


async def main() -> None:
    await handlers_and_rpc()
    await ops_in_batches()


if __name__ == "__main__":
    asyncio.run(main())
