"""What the tests of connected ends share: one service with a method of each kind, and small ways to wait."""

from __future__ import annotations

import asyncio
import gc
import hashlib
from collections.abc import Callable
from typing import Any

import rpcproto

RAW = {"codec": "raw"}
"""Keyword arguments of :func:`rpcproto.serve` and :func:`rpcproto.connect` for bytes as they are."""


class Kit(rpcproto.Service):
    """Handlers that tests control from outside: those that wait do so until ``release`` is called."""

    def __init__(self) -> None:
        self.started: list[Any] = []
        self.cancelled: list[Any] = []
        self.ended: list[Any] = []
        self.notes: list[Any] = []
        self.gate = asyncio.Event()
        self._changed = asyncio.Event()

    def record(self, where: list[Any], what: Any) -> None:
        where.append(what)
        self._changed.set()

    async def until(self, condition: Callable[[], object]) -> None:
        """Wait until the condition holds; it is asked again whenever something was recorded."""
        while not condition():
            self._changed.clear()
            await self._changed.wait()

    @rpcproto.request
    def echo(self, value: Any) -> Any:
        return value

    @rpcproto.request
    async def echo_task(self, value: Any) -> Any:
        await asyncio.sleep(0)
        return value

    @rpcproto.request(thread=True)
    def echo_thread(self, value: Any) -> Any:
        return value

    @rpcproto.request
    def digest(self, data: Any) -> str:
        return hashlib.sha256(data).hexdigest()

    @rpcproto.request
    def produce(self, size: int) -> bytes:
        return bytes(size)

    @rpcproto.request
    async def wait(self, name: Any = None) -> Any:
        """Waits for the gate, and tells how it went."""
        self.record(self.started, name)
        try:
            await self.gate.wait()
        except asyncio.CancelledError:
            self.record(self.cancelled, name)
            raise
        finally:
            self.record(self.ended, name)
        return name

    @rpcproto.notify
    def note(self, value: Any) -> None:
        self.record(self.notes, value)


async def turns(count: int = 5) -> None:
    """Let the loop turn some times, for what needs no waiting but a turn."""
    for _ in range(count):
        await asyncio.sleep(0)


async def poll(condition: Callable[[], object]) -> None:
    """Wait for what no event tells, such as a counter."""
    while not condition():
        await asyncio.sleep(0.001)


def gone(*references: Callable[[], object]) -> bool:
    """Whether all of these weak references are dead, after a garbage collection."""
    gc.collect()
    return not any(reference() is not None for reference in references)


def sha(data: Any) -> str:
    return hashlib.sha256(data).hexdigest()


async def failure(awaitable: Any) -> Any:
    """The error that ends it; its result, should it have one."""
    try:
        return await asyncio.wait_for(awaitable, 5)
    except rpcproto.RpcError as error:
        return error


WAYS = ["inline", "task", "later", "awaitable", "thread"]
"""What :func:`in_each_way` makes."""


def in_each_way(function: Callable[..., Any]) -> dict[str, Callable[..., Any]]:
    """A service that runs ``function`` inline, as a task, after a turn, as an awaitable, and in a thread."""

    async def task(*args: Any) -> Any:
        return function(*args)

    async def later(*args: Any) -> Any:
        await asyncio.sleep(0)
        return function(*args)

    def awaitable(*args: Any) -> Any:
        return task(*args)

    threaded = rpcproto.request(thread=True)(lambda *args: function(*args))
    return {"inline": function, "task": task, "later": later, "awaitable": awaitable, "thread": threaded}
