"""What the tests of blocking clients share: a server in a thread, and a service controlled from other threads."""

from __future__ import annotations

import asyncio
import os
import signal
import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import rpcproto
from tests.conftest import loop_factory

PATIENCE = 20.0
"""Seconds that a test waits for another thread before it fails."""


class Desk(rpcproto.Service):
    """Handlers whose progress other threads can wait for."""

    address = ""

    def __init__(self) -> None:
        self.arrived = threading.Event()
        self.cancelled = threading.Event()
        self.noted = threading.Event()
        self.notes: list[Any] = []
        self.on_arrival: Callable[[], object] = lambda: None

    @rpcproto.request
    def echo(self, value: Any) -> Any:
        return value

    @rpcproto.request
    async def wait(self) -> None:
        """Waits until it is cancelled."""
        try:
            self.arrived.set()
            self.on_arrival()
            await asyncio.sleep(600)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise

    @rpcproto.request
    def fail(self, text: str) -> None:
        raise KeyError(text)

    @rpcproto.request
    def call_back(self, method: str, *args: Any) -> Any:
        return rpcproto.peer().request(method, *args)

    @rpcproto.notify
    def note(self, value: Any) -> None:
        self.notes.append(value)
        self.noted.set()

    @rpcproto.stream
    async def count(self, stop: int) -> Any:
        try:
            for number in range(stop):
                yield number
        except (asyncio.CancelledError, GeneratorExit):
            self.cancelled.set()
            raise

    @rpcproto.stream
    async def count_and_fail(self, stop: int) -> Any:
        for number in range(stop):
            yield number
        raise KeyError("no more")

    @rpcproto.channel
    async def double(self, channel: rpcproto.Channel) -> None:
        try:
            async for value in channel:
                await channel.send(2 * value)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@contextmanager
def served(service: Any, address: str = "tcp://127.0.0.1:0", **options: Any) -> Iterator[rpcproto.Server]:
    """Serve ``service`` on a loop in another thread, which is running as long as the block."""
    found: list[Any] = []
    ready = threading.Event()

    async def main() -> None:
        stop = asyncio.Event()
        async with rpcproto.serve(service, address, **options) as server:
            found.extend((server, asyncio.get_running_loop(), stop))
            ready.set()
            await stop.wait()
            await server.close(0)

    def work() -> None:
        try:
            with asyncio.Runner(loop_factory=loop_factory()) as runner:
                runner.run(main())
        finally:
            ready.set()

    thread = threading.Thread(target=work, name="server of the test")
    thread.start()
    ready.wait(PATIENCE)
    server, loop, stop = found
    try:
        yield server
    finally:
        loop.call_soon_threadsafe(stop.set)
        thread.join(PATIENCE)
        assert not thread.is_alive()


def together(count: int, work: Callable[[int], None]) -> list[BaseException]:
    """Run ``work(number)`` in so many threads that begin at once. Returns what they raised."""
    errors: list[BaseException] = []
    start = threading.Barrier(count)

    def run(number: int) -> None:
        try:
            start.wait(PATIENCE)
            work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(PATIENCE)
        assert not thread.is_alive()
    return errors


def in_child(work: Callable[[], object]) -> int:
    """Fork, run ``work`` in the child, and return its exit code: 0 if it raised nothing, -SIGALRM if it hung."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later: forking with threads
        child = os.fork()
    if child == 0:
        signal.alarm(int(PATIENCE))
        code = 1
        try:
            work()
            code = 0
        except BaseException:
            import traceback

            traceback.print_exc()
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
