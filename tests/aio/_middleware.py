"""What the tests of middleware share: a service with handlers of every form, and middleware that takes notes."""

from __future__ import annotations

import asyncio
from typing import Any

import rpcproto
from tests.aio._ends import poll


class Bench(rpcproto.Service):
    """For each kind of call handlers of every form. ``ended`` tells how those of the long calls ended."""

    def __init__(self) -> None:
        self.noted: list[Any] = []
        self.ended: list[Any] = []
        self.begun = asyncio.Event()
        self.over = asyncio.Event()

    @rpcproto.request
    def plain(self, value: Any) -> Any:
        return value

    @rpcproto.request
    async def task(self, value: Any) -> Any:
        await asyncio.sleep(0)
        return value

    @rpcproto.request
    def awaitable(self, value: Any) -> Any:
        return self.task(value)

    @rpcproto.request(thread=True)
    def thread(self, value: Any) -> Any:
        return value

    @rpcproto.notify
    def note(self, value: Any) -> None:
        self.noted.append(value)

    @rpcproto.notify
    async def note_task(self, value: Any) -> None:
        self.noted.append(value)

    @rpcproto.notify(thread=True)
    def note_thread(self, value: Any) -> None:
        self.noted.append(value)

    @rpcproto.stream
    async def items(self, count: int) -> Any:
        for number in range(count):
            yield number

    @rpcproto.stream
    def plain_items(self, count: int) -> Any:
        yield from range(count)

    @rpcproto.stream
    async def later_items(self, count: int) -> Any:
        return range(count)

    @rpcproto.channel
    async def talk(self, channel: Any, factor: int = 1) -> None:
        async for value in channel:
            await channel.send(value * factor)

    @rpcproto.channel
    def plain_talk(self, channel: Any, factor: int = 1) -> None:
        channel.on_items(
            lambda values: [channel.send(value * factor) for value in values], on_end=lambda error: channel.end()
        )

    @rpcproto.channel
    def awaitable_talk(self, channel: Any, factor: int = 1) -> Any:
        return self.talk(channel, factor)

    @rpcproto.request
    async def wait(self) -> None:
        await self._wait()

    @rpcproto.stream
    async def endless(self) -> Any:
        yield "first"
        await self._wait()

    @rpcproto.channel
    async def silent(self, channel: Any) -> None:
        await self._wait()

    @rpcproto.request
    def fail(self, text: str) -> None:
        raise KeyError(text)

    @rpcproto.stream
    async def fail_late(self, text: str) -> Any:
        yield 1
        raise KeyError(text)

    @rpcproto.request
    async def call_back(self, method: str, *args: Any) -> Any:
        return await rpcproto.peer().request(method, *args)

    async def _wait(self) -> None:
        self.begun.set()
        try:
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            self.ended.append("cancelled")
            raise
        finally:
            self.over.set()


class Notes:
    """Middleware that notes what it sees, as one list for all of a test."""

    def __init__(self, log: list[Any] | None = None, name: str = "") -> None:
        self.log: list[Any] = [] if log is None else log
        self.name = name

    def note(self, *what: Any) -> None:
        self.log.append((self.name, *what) if self.name else what if len(what) > 1 else what[0])

    async def __call__(self, call: rpcproto.Call, proceed: rpcproto.Proceed) -> Any:
        self.note("begin", call.kind, call.args)
        call.on_sent(lambda item: self._item("sent", item))
        call.on_received(lambda item: self._item("received", item))
        try:
            result = await proceed(call)
        except BaseException as error:
            self.note("raised", type(error).__name__)
            raise
        self.note("end", result)
        return result

    def _item(self, direction: str, item: Any) -> Any:
        self.note(direction, item)
        return item


async def use(client: Any, kind: str, method: str, *args: Any) -> Any:
    """Make a call of any kind, and return what comes of it. In a channel, the items 1 and 2 are sent."""
    if kind == "request":
        return await client.request(method, *args)
    if kind == "notify":
        return await client.notify(method, *args)
    if kind == "stream":
        return [item async for item in client.stream(method, *args)]
    async with client.channel(method, *args) as channel:
        await channel.send(1)
        await channel.send(2)
        channel.end()
        return [item async for item in channel]


async def collect(stream: Any, got: list[Any]) -> None:
    """Put the items into a list, as they come."""
    async for item in stream:
        got += [item]


async def until_idle(*peers: Any) -> None:
    """Wait until neither of the ends has a handler at work, or a stream or channel open."""
    await poll(lambda: all(peer.stats()["flows_open"] == peer.stats()["calls_running"] == 0 for peer in peers))


FORMS = [
    ("request", "plain", ("x",), "x"),
    ("request", "task", ("x",), "x"),
    ("request", "awaitable", ("x",), "x"),
    ("request", "thread", ("x",), "x"),
    ("notify", "note", ("x",), None),
    ("notify", "note_task", ("x",), None),
    ("notify", "note_thread", ("x",), None),
    ("stream", "items", (2,), [0, 1]),
    ("stream", "plain_items", (2,), [0, 1]),
    ("stream", "later_items", (2,), [0, 1]),
    ("channel", "talk", (3,), [3, 6]),
    ("channel", "plain_talk", (3,), [3, 6]),
    ("channel", "awaitable_talk", (3,), [3, 6]),
]
"""Kind, method, arguments and result of each form of handler."""
