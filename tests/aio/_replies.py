"""What the tests of replies share: stand-ins for the connection and the loop, and ways to make a reply."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from typing import Any

from rpcproto.aio.reply import Reply, WakeList, new_reply


class Owner:
    """Stands in for the connection; remembers what was cancelled."""

    def __init__(self) -> None:
        self.cancelled: list[int] = []

    def cancel_call(self, call_id: int) -> None:
        self.cancelled.append(call_id)


class FakeLoop:
    """Remembers what it is asked to call, and calls it when the test says so."""

    def __init__(self) -> None:
        self.soon: list[Callable[[], object]] = []
        self.errors: list[dict[str, Any]] = []
        self.closed = False

    def call_soon(self, callback: Callable[..., object], *args: Any, context: Any = None) -> None:
        if self.closed:
            raise RuntimeError("Event loop is closed")
        self.soon.append(lambda: callback(*args))

    def is_closed(self) -> bool:
        return self.closed

    def get_debug(self) -> bool:
        return False

    def call_exception_handler(self, context: dict[str, Any]) -> None:
        self.errors.append(context)

    def turn(self) -> int:
        """Run what is due. Returns how many callbacks that were."""
        due = self.soon
        self.soon = []
        while due:
            try:
                due.pop(0)()
            except BaseException:
                self.soon = due + self.soon
                raise
        return len(due)


class Value:
    """Something that can be referred to weakly."""


class CustomError(Exception):
    pass


async def wait_for_reply(reply: Awaitable[Any]) -> Any:
    return await reply


def opened(owner: Owner | None = None, call_id: int = 7, wakes: WakeList | None = None) -> Reply:
    """A pending reply on the running loop."""
    return new_reply(wakes or WakeList(asyncio.get_running_loop()), owner, call_id)


async def turns(count: int = 3) -> None:
    for _ in range(count):
        await asyncio.sleep(0)


def settled(wakes: WakeList, callback: Callable[[Reply], object]) -> Reply:
    """A reply that is settled and has one waiter."""
    reply = new_reply(wakes, None, 1)
    reply.add_done_callback(callback)
    reply.settle(None)
    return reply
