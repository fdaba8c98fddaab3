"""From pyzmq to rpcproto: what is called what, what behaves differently, and a program to read.

Run it: python examples/from_pyzmq.py

    pyzmq                                         rpcproto
    ============================================  ================================================================
    zmq.asyncio.Context(), socket(...)            nothing: serve() and connect() are all
    bind("tcp://127.0.0.1:5555")                  async with rpcproto.serve(service, "tcp://127.0.0.1:5555") as server
    connect(...)                                  async with rpcproto.connect(...) as client
    ipc:///tmp/x, inproc://x                      unix:///tmp/x, inproc://x
    tcp://*:5555                                  tcp://0.0.0.0:5555, which needs clients that prove who they are
    REQ, REP                                      client.request("method", ...) and @rpcproto.request
    DEALER, ROUTER, ids in frames, a dict of      the same: any number of requests are under way at once, and each
    what is waited for                            await gets its own answer
    identity frame of a ROUTER                    rpcproto.peer() in the handler; keep it to call back
    PUSH, PULL                                    request, if it matters whether it was done; notify, if not;
                                                  a channel, if the order and the pace matter
    PUB, SUB                                      a loop over server.peers, or a stream for each subscriber
    PAIR                                          channel
    send_multipart([a, b]), send_json, send_pyobj arguments: client.request("method", a, b); no pickle
    send(data, copy=False, track=True)            buffers above 4 KiB are not copied; yours again after `await`
    RCVTIMEO, poll(timeout)                       timeout=5, which the handler is told; 30 s for a plain request
    SNDHWM, RCVHWM: 1,000 messages                bytes: call_window, connection_window, max_queued of rpcproto.Limits
    MAXMSGSIZE, no limit                          Limits.max_message, 1 GiB; 16 MiB from strangers on other machines
    HEARTBEAT_IVL, off                            Timeouts.heartbeat, 20 s
    close(linger=...), term()                     close(grace=...), 5 s for clients; always comes to an end

Differently from pyzmq:

- connect() connects at once, or raises. The server has to be there first, and a client that has lost its connection
  stays closed. So nothing is queued for somebody who may come later. Redial below connects again.
- Every call has an end. If the peer is gone, that is an error, which says whether the call may have run. A zmq socket
  is not told: a REQ whose server was restarted waits on, and what a PULL had received when it went is lost.
- Nothing is dropped to make room, as PUB and ROUTER do at their high-water mark: who awaits waits for the peer, and who
  does not gets Overloaded at max_queued.
- A handler is a function. There is no loop of recv() and send(), so none that is out of step (EFSM).
- A client has one connection. One that deals out among several servers is a list of clients.

Not here: PUB/SUB with topics, filters and late joiners; brokers and devices such as zmq.proxy; sockets that bind and
connect in any order and reconnect by themselves; other languages.
"""

from __future__ import annotations

import asyncio
import random
import tempfile
from collections import deque

import rpcproto


class Kitchen(rpcproto.Service):
    def __init__(self) -> None:
        self.tea_is_ready = asyncio.Event()

    @rpcproto.request
    def tea(self) -> str:
        self.tea_is_ready.set()
        return "tea"

    @rpcproto.request
    async def dinner(self) -> str:
        await self.tea_is_ready.wait()
        return "dinner"


async def req_rep_and_dealer_router() -> None:
    async with rpcproto.serve(Kitchen(), "inproc://kitchen"), rpcproto.connect("inproc://kitchen") as client:
        print("REQ/REP:", await client.request("Kitchen.tea"))

    async with rpcproto.serve(Kitchen(), "inproc://kitchen"), rpcproto.connect("inproc://kitchen") as client:
        orders = [client.request("Kitchen.dinner"), client.request("Kitchen.tea")]  # both are sent
        print("DEALER/ROUTER:", *[await answer for answer in asyncio.as_completed(orders)])


async def deal(server: rpcproto.Server, tasks: list[int], in_hand: int = 2) -> dict[int, int]:
    """PUSH, but each worker has only a few tasks in hand, and those of one that is lost go to the others."""
    waiting, results = deque(tasks), {}

    async def feed(worker: rpcproto.Peer) -> None:
        while waiting:
            task = waiting.popleft()
            try:
                results[task] = await worker.request("square", task)
            except (rpcproto.ConnectionLost, rpcproto.GoingAway):
                waiting.appendleft(task)  # it may have run: tasks have to bear that
                return

    while waiting and server.peers:
        await asyncio.gather(*(feed(worker) for worker in server.peers for _ in range(in_hand)))
    return results


async def push_pull_and_pub_sub() -> None:
    """The workers connect and are called over the connections that they made."""
    news: asyncio.Queue[str] = asyncio.Queue()

    @rpcproto.notify
    def weather(report: str) -> None:
        news.put_nowait(report)

    async def vanish(task: int) -> int:
        await bob.close(grace=0)
        return task

    async with rpcproto.serve({"hello": lambda: "hello"}, "tcp://127.0.0.1:0") as server:
        bob = rpcproto.connect(server.address, service={"square": vanish})
        alice = rpcproto.connect(server.address, service={"square": lambda task: task**2, "weather": weather})
        async with alice, bob:
            results = await deal(server, list(range(6)))
            print("PUSH/PULL:", [results[task] for task in range(6)])

            for subscriber in server.peers:
                subscriber.notify("weather", "rain")
            print("PUB/SUB:", await news.get())


class Redial:
    """Connects when it has to, and repeats what failed. For calls that do no harm when they run twice."""

    def __init__(self, address: str) -> None:
        self.address = address
        self.client: rpcproto.Client | None = None
        self.connecting = asyncio.Lock()
        self.has_failed = asyncio.Event()

    async def request(self, method: str, *args: object) -> object:
        for pause in (0.05, 0.1, 0.2, 0.4, 0.8, 1.6, 3.2):
            try:
                async with self.connecting:
                    if self.client is None or self.client.closed:
                        self.client = await rpcproto.connect(self.address)
                return await self.client.request(method, *args)
            except (rpcproto.ConnectFailed, rpcproto.ConnectionLost, rpcproto.GoingAway) as error:
                failed = error
                self.has_failed.set()
            await asyncio.sleep(pause * random.uniform(0.8, 1.2))
        raise failed

    async def close(self) -> None:
        if self.client is not None:
            await self.client.close()


async def restart(address: str) -> None:
    here = asyncio.Event()

    async def wait_for_ever() -> None:
        here.set()
        await asyncio.Event().wait()

    server = await rpcproto.serve({"version": lambda: 1, "wait": wait_for_ever}, address)
    redial = Redial(address)
    print("before the restart: version", await redial.request("version"))

    async with rpcproto.connect(address) as client:
        waiting = client.request("wait", timeout=None)
        await here.wait()
        await server.close(grace=0)
        try:
            await waiting
        except rpcproto.ConnectionLost as error:
            print("a call that was waiting:", type(error).__name__, error.maybe_executed)

    answer = asyncio.create_task(redial.request("version"))
    await redial.has_failed.wait()
    async with rpcproto.serve({"version": lambda: 2}, address):
        print("after the restart: version", await answer)
        await redial.close()


async def main() -> None:
    await req_rep_and_dealer_router()
    await push_pull_and_pub_sub()
    with tempfile.TemporaryDirectory() as folder:
        await restart(f"unix://{folder}/service.sock")


if __name__ == "__main__":
    asyncio.run(main())
