"""From grpc.aio to rpcproto: what is called what, what behaves differently, and a program to read.

Run it: python examples/from_grpc_aio.py

    grpc.aio                                      rpcproto
    ============================================  ================================================================
    service in a .proto file, generated stub      class of signatures (Protocol), client.of(Trips); no code generation
    servicer, add_TripsServicer_to_server         class TripsService(rpcproto.Service)
    aio.server(), add_insecure_port, start        async with rpcproto.serve(TripsService(), address) as server
    server.stop(grace)                            server.close(grace=...), or leaving the `async with`: 30 s
    aio.insecure_channel(target)                  async with rpcproto.connect(address) as client
    unary-unary                                   @rpcproto.request
    unary-stream                                  @rpcproto.stream
    stream-unary, stream-stream                   @rpcproto.channel; channel.end() is done_writing()
    stub.Distance(request, timeout=, metadata=)   client.of(Trips, timeout=, metadata=).distance("Bern", "Thun"), or
                                                  client.request("Trips.distance", "Bern", "Thun", timeout=, metadata=)
    context.invocation_metadata()                 rpcproto.current_call().metadata, a dict
    context.set_trailing_metadata(...)            rpcproto.current_call().reply_metadata = {...}, of requests only
    context.time_remaining()                      rpcproto.current_call().time_left
    context.peer()                                rpcproto.peer().address
    await context.abort(code, details)            raise an exception: callers get its name and its text
    AioRpcError: .code(), .details()              a class for each cause; status() below has the nearest codes
    call.cancel()                                 reply.cancel(), stream.cancel(), or cancel the task that awaits
    maximum_concurrent_rpcs of a server           Limits.max_running, 1,024 for each client
    grpc.max_receive_message_length, 4 MiB        Limits.max_message, 1 GiB; 16 MiB from strangers on other machines

Differently from grpc.aio:

- A plain `def` handler runs on the event loop, where grpc.aio has a thread for it. Declare what blocks or computes with
  @rpcproto.request(thread=True).
- A request without `timeout` has 30 s, not for ever. Calls that a handler makes get no more time than it has left.
- connect() connects at once, or raises. A client is one connection and stays closed once that is lost, while a channel
  connects at its first call and again when needed. There is no wait_for_ready; from_pyzmq.py has a call that repeats.
- No call is repeated by the library (retryPolicy), and none spread over several servers (round_robin).
- Both ends call: rpcproto.peer() in a handler is the client, and its service= can be called over the same connection.
- Metadata values are text, bytes, numbers, True, False or None, whatever their key is called.
- An address that other machines can reach needs clients that prove who they are, or insecure=True.

Not here: other languages; messages with a schema, whose fields are numbered (arguments travel by position; those added
at the end with a default may be left out by callers); compression; HTTP/2 and what understands it on the way.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from typing import Protocol

import rpcproto

ROAD = {"Bern": 0, "Thun": 28, "Spiez": 39, "Brig": 98}


class Trips(Protocol):
    """What callers see: it takes the place of the .proto file and of the stub."""

    async def distance(self, start: str, end: str) -> int: ...
    def stops(self, start: str, end: str) -> AsyncIterator[str]: ...
    def record(self) -> rpcproto.Channel: ...
    def chat(self, name: str) -> rpcproto.Channel: ...
    async def wait_for_train(self) -> None: ...


class NotFound(Exception):
    """The application's own: what abort(StatusCode.NOT_FOUND, ...) is for."""


class TripsService(rpcproto.Service):
    service_name = "Trips"

    def __init__(self) -> None:
        self.given_up = asyncio.Event()

    @rpcproto.request
    def distance(self, start: str, end: str) -> int:
        for town in (start, end):
            if town not in ROAD:
                raise NotFound(f"no road to {town}")
        return abs(ROAD[end] - ROAD[start])

    @rpcproto.stream
    async def stops(self, start: str, end: str) -> AsyncIterator[str]:
        towns = list(ROAD)
        for town in towns[towns.index(start) : towns.index(end) + 1]:
            yield town

    @rpcproto.channel
    async def record(self, channel: rpcproto.Channel) -> None:
        """Many in, one out: the one is sent when the caller has ended its side."""
        distances = [distance async for distance in channel]
        await channel.send({"trips": len(distances), "km": sum(distances)})

    @rpcproto.channel
    async def chat(self, channel: rpcproto.Channel, name: str) -> None:
        async for question in channel:
            await channel.send(f"{name}, {question}? Yes.")

    @rpcproto.request
    async def wait_for_train(self) -> None:
        try:
            await asyncio.sleep(3600)
        finally:
            self.given_up.set()

    @rpcproto.request
    def whoami(self) -> str:
        call = rpcproto.current_call()
        call.reply_metadata = {"served-by": "node-7"}
        return f"{call.metadata['user']}, who waits no longer than a minute: {(call.time_left or 3600) <= 60}"


def status(error: rpcproto.RpcError) -> str:
    """The status code that gRPC would have for an error."""
    match error:
        case rpcproto.DeadlineExceeded():
            return "DEADLINE_EXCEEDED"
        case rpcproto.NoSuchMethod():
            return "UNIMPLEMENTED"
        case rpcproto.Overloaded() | rpcproto.MessageTooLarge():
            return "RESOURCE_EXHAUSTED"
        case rpcproto.ConnectFailed() | rpcproto.ConnectionLost() | rpcproto.GoingAway():
            return "UNAVAILABLE"
        case rpcproto.CallCancelled():
            return "CANCELLED"
        case rpcproto.Refused() | rpcproto.SerializationError():
            return "INVALID_ARGUMENT"
        case rpcproto.RemoteError() if error.type_name.endswith("NotFound"):
            return "NOT_FOUND"
        case rpcproto.RemoteError():
            return "UNKNOWN"
    return "INTERNAL"


async def main() -> None:
    service = TripsService()
    async with (
        rpcproto.serve(service, "tcp://127.0.0.1:0", implements=Trips) as server,
        rpcproto.connect(server.address) as client,
    ):
        trips = client.of(Trips)
        print("unary:", await trips.distance("Bern", end="Spiez"), "km")
        print("server streaming:", [town async for town in trips.stops("Bern", "Spiez")])

        async with trips.record() as record:
            for distance in (28, 11, 59):
                await record.send(distance)
            record.end()
            print("client streaming:", await record.receive())

        async with trips.chat("Ada") as chat:
            for question in ("is it far", "is it steep"):
                await chat.send(question)
                print("bidirectional:", await chat.receive())

        reply = client.request("Trips.whoami", timeout=60, metadata={"user": "ada"})
        print("metadata:", await reply, reply.metadata)

        try:
            await client.of(Trips, timeout=0.05).wait_for_train()
        except rpcproto.DeadlineExceeded as error:
            print("deadline:", status(error), error.method)
        await service.given_up.wait()  # the handler was cancelled

        for method, *args in (("distance", "Bern", "Rome"), ("distance", "Bern"), ("teleport",), ("distance", print)):
            try:
                await client.request(f"Trips.{method}", *args)
            except rpcproto.RpcError as error:
                print(f"status {status(error)}: {type(error).__name__}")
    try:
        await rpcproto.connect(server.address)
    except rpcproto.RpcError as error:
        print(f"status {status(error)}: {type(error).__name__}")


if __name__ == "__main__":
    asyncio.run(main())
