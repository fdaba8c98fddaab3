"""What the tests of typed clients share: a shop as its callers see it, and one that serves them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Awaitable
from typing import Any, Protocol, runtime_checkable

import rpcproto


@runtime_checkable
class Shop(Protocol):
    """What a shop offers."""

    async def price(self, item: str, count: int = 1, currency: str = "EUR") -> int:
        """The price of some of an item."""
        ...

    def soon(self, item: str) -> Awaitable[int]: ...
    def prices(self, item: str) -> AsyncIterator[int]: ...
    def trade(self, currency: str) -> rpcproto.Channel: ...
    @rpcproto.notify
    def log(self, line: str) -> None: ...
    @rpcproto.notify
    async def flush(self, line: str = "") -> None: ...
    @rpcproto.request(name="Bank.pay")
    async def pay(self, self_service: bool = False) -> int: ...


class ShopService(rpcproto.Service):
    service_name = "Shop"

    def __init__(self) -> None:
        self.lines: list[str] = []
        self.peers: list[rpcproto.Peer] = []

    @rpcproto.request
    def price(self, item: str, count: int = 1, currency: str = "CHF") -> Any:
        return [item, count, currency]

    @rpcproto.request
    async def soon(self, item: str) -> int:
        self.peers.append(rpcproto.peer())
        await asyncio.Event().wait()
        return 1

    @rpcproto.stream
    async def prices(self, item: str) -> AsyncIterator[int]:
        for day in range(3):
            yield day

    @rpcproto.channel
    async def trade(self, channel: rpcproto.Channel, currency: str) -> None:
        async for order in channel:
            await channel.send([order, currency])

    @rpcproto.notify
    def log(self, line: str) -> None:
        self.lines.append(line)

    @rpcproto.notify
    def flush(self, line: str = "") -> None:
        self.lines.append(f"flush {line}")

    @rpcproto.request(name="Bank.pay")
    def pay(self, self_service: bool = False) -> bool:
        return self_service
