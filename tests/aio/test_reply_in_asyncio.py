"""A reply is a future to everything in asyncio that takes one."""

from __future__ import annotations

import asyncio
import inspect
import sys
from collections.abc import Awaitable
from typing import Any

import pytest

from rpcproto.aio import _reply
from rpcproto.aio.reply import Reply, WakeList, new_reply
from tests.aio._replies import CustomError, Owner, opened, turns, wait_for_reply


def test_it_is_a_future_to_asyncio(run: Any) -> None:
    async def main() -> None:
        reply = opened()
        assert asyncio.isfuture(reply)
        assert asyncio.ensure_future(reply) is reply
        assert asyncio.wrap_future(reply) is reply
        assert inspect.isawaitable(reply)
        assert isinstance(reply, Awaitable)
        assert reply._asyncio_future_blocking is False
        reply._asyncio_future_blocking = True
        assert reply._asyncio_future_blocking is True

    run(main())


class Observed(asyncio.Future[None]):
    """Notes how a task wants to be woken."""

    wakeup: Any = None

    def add_done_callback(self, fn: Any, *, context: Any = None) -> None:
        type(self).wakeup = fn
        super().add_done_callback(fn, context=context)


def test_the_wakeup_of_a_task_is_known_from_other_callbacks(run: Any) -> None:
    """It is told by its name. Where that changed, each reply would be asked for its result in vain, at 0.1 us."""

    async def main() -> None:
        task = asyncio.create_task(wait_for_reply(Observed()))
        await turns()
        assert _reply.is_task_wakeup(Observed.wakeup)
        assert not _reply.is_task_wakeup(task.cancel)
        task.cancel()

    run(main())


def test_only_tasks_are_woken_with_something_else(run: Any) -> None:
    async def main() -> None:
        reply = opened()
        seen: list[Any] = []
        reply.add_done_callback(seen.append)  # a C function too
        reply.add_done_callback(lambda done: seen.append(done))
        reply.settle(5)
        await turns()
        assert seen == [reply, reply]

    run(main())


class Yields:
    """Awaits by yielding the reply itself, as can be done with a future."""

    def __init__(self, reply: Reply) -> None:
        self.reply = reply

    def __await__(self) -> Any:
        self.reply._asyncio_future_blocking = True
        yield self.reply
        return self.reply.result()


@pytest.mark.parametrize("outcome", ["result", "error", "cancel"])
def test_yielded_by_other_awaitables(run: Any, outcome: str) -> None:
    """What went wrong is thrown in at the yield; so a cancel of the task is not lost."""

    async def main() -> None:
        reply = opened()
        thrown: list[BaseException] = []

        async def wait() -> Any:
            try:
                return await Yields(reply)
            except BaseException as error:
                thrown.append(error)
                raise

        task = asyncio.create_task(wait())
        await turns()
        if outcome == "result":
            reply.settle(5)
            assert await task == 5
        elif outcome == "error":
            reply.settle_error(CustomError())
            with pytest.raises(CustomError):
                await task
        else:
            task.cancel()
            with pytest.raises(asyncio.CancelledError):
                await task
        assert len(thrown) == (outcome != "result")

    run(main())


def test_run_until_complete(run: Any) -> None:
    reply = new_reply(WakeList(run.loop), None, 1)
    run.loop.call_soon(reply.settle, 5)
    assert run.loop.run_until_complete(reply) == 5


def test_wait(run: Any) -> None:
    async def main() -> None:
        wakes = WakeList(asyncio.get_running_loop())
        replies = [opened(wakes=wakes) for _ in range(3)]
        done, pending = await asyncio.wait(replies, timeout=0.001)
        assert (done, pending) == (set(), set(replies))
        asyncio.get_running_loop().call_soon(replies[1].settle, 1)
        done, pending = await asyncio.wait(replies, return_when=asyncio.FIRST_COMPLETED)
        assert (done, pending) == ({replies[1]}, {replies[0], replies[2]})
        asyncio.get_running_loop().call_soon(replies[0].settle, 1)
        asyncio.get_running_loop().call_soon(replies[2].settle_error, CustomError())
        done, pending = await asyncio.wait(replies)
        assert (done, pending) == (set(replies), set())

    run(main())


def test_gather(run: Any, owner: Owner) -> None:
    async def main() -> None:
        wakes = WakeList(asyncio.get_running_loop())
        replies = [opened(owner, call_id, wakes) for call_id in (1, 3, 5)]
        gathered = asyncio.gather(*replies, replies[0])
        for value, reply in enumerate(replies):
            reply.settle(value)
        assert await gathered == [0, 1, 2, 0]

        replies = [opened(owner, call_id, wakes) for call_id in (11, 13, 15)]
        gathered = asyncio.gather(*replies, return_exceptions=True)
        replies[0].settle_error(error := CustomError())
        replies[1].cancel("not this one")
        replies[2].settle(2)
        first, second, third = await gathered
        assert (first, third) == (error, 2)
        assert isinstance(second, asyncio.CancelledError)
        assert second.args == ("not this one",)

        replies = [opened(owner, call_id, wakes) for call_id in (21, 23)]
        gathered = asyncio.gather(*replies)
        await turns()
        gathered.cancel()
        with pytest.raises(asyncio.CancelledError):
            await gathered

    run(main())
    assert owner.cancelled == [13, 21, 23]


def test_shield(run: Any, owner: Owner) -> None:
    async def main() -> None:
        reply = opened(owner)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(asyncio.shield(reply), 0.001)
        assert not reply.done()
        reply.settle(1)
        assert await asyncio.shield(reply) == 1

    run(main())
    assert owner.cancelled == []


def test_wait_for(run: Any, owner: Owner) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(opened(owner, 1), 0.001)
        with pytest.raises(TimeoutError):
            await asyncio.wait_for(opened(owner, 3), 0)
        reply = opened(owner, 5)
        asyncio.get_running_loop().call_soon(reply.settle, 5)
        assert await asyncio.wait_for(reply, 10) == 5
        assert await asyncio.wait_for(reply, 0) == 5
        reply = opened(owner, 7)
        asyncio.get_running_loop().call_soon(reply.settle_error, CustomError())
        with pytest.raises(CustomError):
            await asyncio.wait_for(reply, 10)

    run(main())
    assert owner.cancelled == [1, 3]


def test_timeout(run: Any, owner: Owner) -> None:
    async def main() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.001):
                await opened(owner, 1)
        reply = opened(owner, 3)
        asyncio.get_running_loop().call_soon(reply.settle, 3)
        async with asyncio.timeout(10):
            assert await reply == 3

    run(main())
    assert owner.cancelled == [1]


def test_as_completed(run: Any) -> None:
    async def main() -> None:
        replies = [opened() for _ in range(3)]
        loop = asyncio.get_running_loop()
        for number in (2, 0, 1):
            loop.call_soon(replies[number].settle, number)
        assert [await reply for reply in asyncio.as_completed(replies)] == [2, 0, 1]

    run(main())


def test_task_group(run: Any, owner: Owner) -> None:
    async def main() -> None:
        replies = [opened(owner, call_id) for call_id in (1, 3, 5)]
        replies[1].settle_error(CustomError())
        with pytest.raises(ExceptionGroup) as caught:
            async with asyncio.TaskGroup() as group:
                for reply in replies:
                    group.create_task(wait_for_reply(reply))
        assert [type(error) for error in caught.value.exceptions] == [CustomError]

    run(main())
    assert sorted(owner.cancelled) == [1, 5]


@pytest.mark.skipif(sys.version_info < (3, 12), reason="Python 3.12")
def test_eager_tasks(run: Any) -> None:
    async def main() -> None:
        def start(reply: Reply) -> asyncio.Task[Any]:
            return asyncio.Task(wait_for_reply(reply), loop=asyncio.get_running_loop(), eager_start=True)

        early, late = opened(), opened()
        early.settle(1)
        assert start(early).result() == 1
        task = start(late)
        late.settle(2)
        assert await task == 2

    run(main())
