"""Uses of typed clients, right and wrong, as type checkers see them. Read by ``test_clients.py``, never run.

``assert_type`` says what a checker must take an expression for. A line that it must report ends in ``# error:`` with
the rules by which mypy and pyright do; all other lines must pass.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Awaitable, Coroutine
from typing import Any, Protocol, TypeVar, assert_type

import rpcproto

T = TypeVar("T")


class Shop(Protocol):
    async def price(self, item: str, count: int = 1) -> int: ...

    def soon(self, item: str) -> Awaitable[int]: ...

    def prices(self, item: str) -> AsyncIterator[int]: ...

    def trade(self, currency: str) -> rpcproto.Channel: ...

    @rpcproto.notify
    def log(self, line: str) -> None: ...

    @rpcproto.notify(name="Log.flush")
    async def flush(self) -> None: ...


class Counter(rpcproto.Service):
    def __init__(self, start: int) -> None:
        self.total = start

    @rpcproto.request
    async def add(self, n: int) -> int:
        self.total += n
        return self.total

    @rpcproto.request(thread=True)
    def blocking(self, n: int) -> int:
        return n

    @rpcproto.stream
    async def count(self, n: int) -> AsyncGenerator[int, None]:
        for number in range(n):
            yield number


class Store(Protocol[T]):
    async def get(self, key: str) -> T: ...

    async def put(self, key: str, value: T) -> None: ...


class ShopService(rpcproto.Service):
    """Has the methods of Shop that it needs to be one, apart from how they are declared."""

    service_name = "Shop"

    @rpcproto.request
    async def price(self, item: str, count: int = 1) -> int:
        return len(item) * count


class OnlyPrice(Protocol):
    async def price(self, item: str, count: int = 1) -> int: ...


async def buy(shop: OnlyPrice) -> int:
    return await shop.price("tea")


async def right(client: rpcproto.Client, peer: rpcproto.Peer) -> None:
    shop = client.of(Shop)
    assert_type(shop, Shop)
    assert_type(peer.of(Shop), Shop)
    assert_type(client.of(Shop, prefix="Other", timeout=5, codec="msgpack", metadata={"tenant": 1}), Shop)
    assert_type(client.of(Shop, timeout=None), Shop)
    pending: Coroutine[Any, Any, int] = shop.price("tea")
    assert_type(await pending, int)
    assert_type(await shop.price("tea"), int)
    assert_type(await shop.price(count=2, item="tea"), int)
    assert_type(await shop.soon("tea"), int)
    async for price in shop.prices("tea"):
        assert_type(price, int)
    assert_type(await anext(shop.prices("tea")), int)
    async with shop.trade("EUR") as channel:
        assert_type(channel, rpcproto.Channel)
    shop.log("bought")
    await shop.flush()
    async with asyncio.TaskGroup() as group:
        assert_type(group.create_task(shop.price("tea")), asyncio.Task[int])
    assert_type(await asyncio.gather(shop.price("tea"), shop.soon("tea")), tuple[int, int])

    counter = client.of(Counter)
    assert_type(counter, Counter)
    assert_type(await counter.add(1), int)
    async for number in counter.count(3):
        assert_type(number, int)

    assert_type(client.of(Store[int]), Store[int])
    assert_type(await client.of(Store[int]).get("key"), int)

    looking = client.of(rpcproto.Introspection)
    assert_type(await looking.health("Shop"), str)
    assert_type((await looking.methods())["methods"][0]["signature"], str)
    assert_type((await looking.connections())["connections"][0]["credit_calls"], int)
    assert_type((await looking.calls())["calls"][0]["time_left"], float | None)

    # The same function takes a service of this process and one that is called.
    await buy(ShopService())
    await buy(client.of(OnlyPrice))
    await buy(client.of(ShopService))


async def wrong(client: rpcproto.Client) -> None:
    shop = client.of(Shop)
    await shop.prize("tea")  # error: mypy[attr-defined] pyright[reportAttributeAccessIssue]
    await shop.price(5)  # error: mypy[arg-type] pyright[reportArgumentType]
    await shop.price()  # error: mypy[call-arg] pyright[reportCallIssue]
    await shop.price("tea", 1, 2)  # error: mypy[call-arg] pyright[reportCallIssue]
    await shop.price("tea", amount=2)  # error: mypy[call-arg] pyright[reportCallIssue]
    await shop.price("tea", timeout=5)  # error: mypy[call-arg] pyright[reportCallIssue]
    shop.price("tea")  # error: mypy[unused-coroutine] pyright[reportUnusedCoroutine]
    name: str = await shop.price("tea")  # error: mypy[assignment] pyright[reportAssignmentType]
    await shop.prices("tea")  # error: mypy[misc] pyright[reportGeneralTypeIssues]
    for price in shop.prices("tea"):  # error: mypy[attr-defined] pyright[reportGeneralTypeIssues]
        print(price, name)
    await shop.log("bought")  # error: mypy[misc] pyright[reportGeneralTypeIssues]
    client.of(Shop, codec=5)  # error: mypy[arg-type] pyright[reportArgumentType]
    client.of(Shop, "Shop")  # error: mypy[call-arg] pyright[reportCallIssue]
    client.of("Shop")  # error: mypy[arg-type] pyright[reportArgumentType]
    await client.of(Store[int]).put("key", "value")  # error: mypy[arg-type] pyright[reportArgumentType]
    # At run time a plain def of a service is not offered: nothing could make its result an int at once.
    await client.of(Counter).blocking(1)  # error: mypy[misc] pyright[reportGeneralTypeIssues]
    await buy(client.of(Counter))  # error: mypy[arg-type] pyright[reportArgumentType]
