"""Middleware: who may call, how long it took, and trying again where that is safe.

Run it: python examples/middleware.py
"""

import asyncio
import time
from typing import Any

import rpcproto


async def checked(call: rpcproto.Call, proceed: rpcproto.Proceed) -> Any:
    """At the server: nothing runs without the token. What is raised is what the caller gets."""
    if call.metadata.get("token") != "sesame":
        raise PermissionError(f"{call.method} needs a token")
    return await proceed(call)


async def signed(call: rpcproto.Call, proceed: rpcproto.Proceed) -> Any:
    """At the client: the token goes along with every call."""
    call.metadata["token"] = "sesame"
    return await proceed(call)


async def timed(call: rpcproto.Call, proceed: rpcproto.Proceed) -> Any:
    """At either end, around calls of every kind."""
    started = time.perf_counter()
    try:
        return await proceed(call)
    finally:
        quick = time.perf_counter() - started < 10
        print(f"{call.kind} {call.method}{call.args} took {'less' if quick else 'more'} than 10 s")


async def retried(call: rpcproto.Call, proceed: rpcproto.Proceed) -> Any:
    """At the client: what was refused has not run, so it can be sent again, as long as there is time."""
    while True:
        try:
            return await proceed(call)
        except rpcproto.Overloaded:
            await asyncio.sleep(0.01)


async def sell(item: str) -> str:
    await asyncio.sleep(0.05)
    return f"{item} sold"


async def main() -> None:
    busy = rpcproto.Limits(max_running=1)
    async with rpcproto.serve({"sell": sell}, "tcp://127.0.0.1:0", middleware=[checked], limits=busy) as server:
        again = rpcproto.covering(retried, kinds="request")
        async with rpcproto.connect(server.address, middleware=[timed, again, signed]) as client:
            print(await asyncio.gather(client.request("sell", "tea"), client.request("sell", "cake")))
        async with rpcproto.connect(server.address) as client:
            print(repr((await asyncio.gather(client.request("sell", "tea"), return_exceptions=True))[0]))


asyncio.run(main())
