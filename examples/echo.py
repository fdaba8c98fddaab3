"""A service and a client of it, in one process for brevity. Run it: python examples/echo.py"""

from __future__ import annotations

import asyncio

import rpcproto


class Echo(rpcproto.Service):
    @rpcproto.request
    def echo(self, value: object) -> object:
        """A plain method runs at once, on the event loop: for what is quick."""
        return value

    @rpcproto.request
    async def wait(self, seconds: float) -> str:
        """A coroutine runs beside others."""
        await asyncio.sleep(seconds)
        return f"waited {seconds} s"


async def main() -> None:
    async with rpcproto.serve(Echo(), "tcp://127.0.0.1:0") as server, rpcproto.connect(server.address) as client:
        print(await client.request("Echo.echo", {"answer": 42, "list": [1.5, None, "text"]}))

        # Calls share the connection: a slow one does not hold up the others.
        slow = client.request("Echo.wait", 0.1)
        quick = await asyncio.gather(*(client.request("Echo.echo", n) for n in range(1000)))
        print("sum of 1000 answers:", sum(quick))
        print(await slow)

        # A call ends in its result or in one error that says what happened.
        try:
            await client.request("Echo.wait", 60, timeout=0.05)
        except rpcproto.DeadlineExceeded:
            print("not within 0.05 s")
        try:
            await client.request("Echo.wait", "soon")
        except rpcproto.RemoteError as error:
            print("remote error:", error.type_name)


if __name__ == "__main__":
    asyncio.run(main())
