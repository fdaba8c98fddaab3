"""Typed clients over connections: each kind of call arrives, and errors say what to do."""

from __future__ import annotations

import asyncio
import gc
import weakref
from typing import Any, Protocol

import pytest

import rpcproto
from rpcproto.testing import pair
from tests.aio._ends import failure, turns
from tests.aio._shop import Shop, ShopService


@pytest.mark.smoke
def test_calls_over_a_connection(run: Any) -> None:
    async def main() -> None:
        service = ShopService()
        async with pair(service, server={"implements": Shop}) as (_, client):
            shop = client.of(Shop)
            assert await shop.price("tea", 2) == ["tea", 2, "CHF"]  # the default of the handler counts
            assert await shop.price("tea", currency="USD") == ["tea", 1, "USD"]
            assert [price async for price in shop.prices("tea")] == [0, 1, 2]
            assert await anext(shop.prices("tea")) == 0
            async with shop.trade("EUR") as channel:
                await channel.send("cake")
                assert await channel.receive() == ["cake", "EUR"]
            assert shop.log("sold") is None
            await shop.flush("x")
            assert await shop.pay(True) is True
            assert service.lines == ["sold", "flush x"]
            assert repr(shop) == f"<Shop of {client!r}>"

    run(main())


def test_tasks_and_time_outs(run: Any) -> None:
    async def main() -> None:
        async with pair(ShopService()) as (_, client):
            async with asyncio.TaskGroup() as group:
                tasks = [group.create_task(client.of(Shop).price("tea", n)) for n in range(3)]
            assert [task.result()[1] for task in tasks] == [0, 1, 2]
            reply = client.of(Shop).soon("tea")
            assert isinstance(reply, rpcproto.Reply)
            assert reply.cancel()
            error = await failure(client.of(Shop, timeout=0.01).soon("tea"))
            assert isinstance(error, rpcproto.DeadlineExceeded)

    run(main())


def test_a_server_calls_its_client(run: Any) -> None:
    async def main() -> None:
        service = ShopService()
        async with pair(service, client={"service": ShopService()}) as (server, client):
            (peer,) = server.peers
            assert await peer.of(Shop).price("tea") == ["tea", 1, "CHF"]
            assert peer.of(Shop) is peer.of(Shop)
            assert client.peer.of(Shop) is not client.of(Shop)

    run(main())


def test_before_and_after_the_connection(run: Any) -> None:
    async def main() -> None:
        async with rpcproto.serve(ShopService(), "tcp://127.0.0.1:0") as server:
            client = rpcproto.connect(server.address)
            shop = client.of(Shop)
            with pytest.raises(rpcproto.LocalProtocolError, match="not connected"):
                await shop.price("tea")
            with pytest.raises(rpcproto.LocalProtocolError, match="not connected"):
                shop.log("sold")
            async with client:
                assert await shop.price("tea") == ["tea", 1, "CHF"]
                assert client.of(Shop) is shop
            assert isinstance(await failure(shop.price("tea")), rpcproto.ConnectionClosed)

    run(main())


def test_a_name_that_is_not_served(run: Any) -> None:
    class ShopApi(Protocol):
        async def price(self, item: str) -> int: ...
        @rpcproto.request(name="Bank.rob")
        async def rob(self) -> int: ...

    async def main() -> None:
        async with pair(ShopService()) as (_, client):
            error = await failure(client.of(ShopApi).price("tea"))
            assert isinstance(error, rpcproto.NoSuchMethod)
            (note,) = error.__notes__
            assert note == (
                f"It was called by <ShopApi of {client!r}>, which takes the part before the dot from prefix=, else from"
                " service_name of ShopApi, else from the name of that class."
            )
            assert not hasattr(await failure(client.of(ShopApi).rob()), "__notes__")
            assert await client.of(ShopApi, prefix="Shop").price("tea") == ["tea", 1, "CHF"]

    run(main())


def test_a_proxy_keeps_no_connection_alive(run: Any) -> None:
    async def main() -> None:
        async with rpcproto.serve(ShopService(), "tcp://127.0.0.1:0") as server:
            async with rpcproto.connect(server.address) as client:
                await client.of(Shop).price("tea")
                client.of(Shop, timeout=5)
                client.peer.of(Shop)
                kept = [weakref.ref(client), weakref.ref(client.peer)]
            del client
            await turns()
            gc.collect()
            assert [reference() for reference in kept] == [None, None]

    run(main())
