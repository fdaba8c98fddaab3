"""Replies are woken in batches, never within a task, and never without end."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from rpcproto.aio.reply import Reply, WakeList, new_reply
from tests.aio._replies import FakeLoop, opened, settled, turns, wait_for_reply


def test_one_callback_wakes_all(fake: FakeLoop) -> None:
    wakes = WakeList(fake)
    seen: list[Reply] = []
    replies = [settled(wakes, seen.append) for _ in range(10)]
    assert len(fake.soon) == 1
    fake.turn()
    assert seen == replies
    assert fake.soon == []
    late = settled(wakes, seen.append)
    assert len(fake.soon) == 1
    fake.turn()
    assert seen == [*replies, late]


def test_wake_now(fake: FakeLoop) -> None:
    wakes = WakeList(fake)
    seen: list[Reply] = []
    first = settled(wakes, seen.append)
    wakes.wake_now()
    assert seen == [first]
    second = settled(wakes, seen.append)
    assert len(fake.soon) == 1, "the callback that is under way serves both"
    fake.turn()
    assert seen == [first, second]
    wakes.wake_now()
    assert fake.soon == []


def test_hold_asks_nothing_of_the_loop(fake: FakeLoop) -> None:
    wakes = WakeList(fake)
    seen: list[Reply] = []
    wakes.hold()
    first = settled(wakes, seen.append)
    wakes.hold()
    second = settled(wakes, seen.append)
    wakes.release()
    assert seen == []
    wakes.release()
    assert seen == [first, second]
    assert fake.soon == []
    third = settled(wakes, seen.append)
    fake.turn()
    assert seen == [first, second, third]


@pytest.mark.parametrize("wake", ["turn", "wake_now", "release"])
def test_what_waiters_settle_is_woken_in_the_next_turn(fake: FakeLoop, wake: str) -> None:
    wakes = WakeList(fake)
    seen: list[int] = []

    def again(_: Reply) -> None:
        seen.append(len(seen))
        wakes.wake_now()  # re-entered: leaves the rest to the sweep that is under way
        settled(wakes, again)
        wakes.wake_now()

    if wake == "release":
        wakes.hold()
    settled(wakes, again)
    settled(wakes, again)
    fake.turn() if wake == "turn" else getattr(wakes, wake)()
    assert seen == [0, 1], "a sweep ends although its waiters go on settling"
    assert len(fake.soon) == 1
    fake.turn()
    assert seen == [0, 1, 2, 3]


def test_what_was_settled_first_is_woken_first_after_an_interrupt(fake: FakeLoop) -> None:
    wakes = WakeList(fake)
    seen: list[str] = []

    def settle_and_interrupt(_: Reply) -> None:
        settled(wakes, lambda _: seen.append("later"))
        raise KeyboardInterrupt

    settled(wakes, settle_and_interrupt)
    settled(wakes, lambda _: seen.append("earlier"))
    with pytest.raises(KeyboardInterrupt):
        fake.turn()
    assert len(fake.soon) == 1
    fake.turn()
    assert seen == ["earlier", "later"]


def test_an_interrupt_during_release(fake: FakeLoop) -> None:
    wakes = WakeList(fake)
    seen: list[Reply] = []

    def interrupt(_: Reply) -> None:
        raise KeyboardInterrupt

    wakes.hold()
    settled(wakes, interrupt)
    other = settled(wakes, seen.append)
    with pytest.raises(KeyboardInterrupt):
        wakes.release()
    assert seen == []
    fake.turn()
    assert seen == [other]


def test_tasks_are_not_resumed_within_a_task(run: Any) -> None:
    async def main() -> None:
        wakes = WakeList(asyncio.get_running_loop())
        reply = opened(wakes=wakes)
        task = asyncio.create_task(wait_for_reply(reply))
        await turns()
        wakes.hold()
        reply.settle(1)
        wakes.release()
        wakes.wake_now()
        assert not task.done()
        assert await task == 1

    run(main())


def test_tasks_are_resumed_within_a_callback(run: Any) -> None:
    async def main() -> None:
        loop = asyncio.get_running_loop()
        wakes = WakeList(loop)
        reply = opened(wakes=wakes)
        task = asyncio.create_task(wait_for_reply(reply))
        await turns()
        seen: list[bool] = []

        def read() -> None:
            wakes.hold()
            reply.settle(1)
            wakes.release()
            seen.append(task.done())

        loop.call_soon(read)
        assert await task == 1
        assert seen == [True]

    run(main())


def test_a_closed_loop_wakes_nobody(fake: FakeLoop) -> None:
    wakes = WakeList(fake)
    reply = new_reply(wakes, None, 1)
    reply.add_done_callback(print)
    fake.closed = True
    assert reply.settle(1)
    assert reply.result() == 1


def test_an_error_of_a_running_loop_is_not_hidden(fake: FakeLoop) -> None:
    def wrong_thread(*args: Any, **kwargs: Any) -> None:
        raise RuntimeError("Non-thread-safe operation")

    fake.call_soon = wrong_thread
    reply = new_reply(WakeList(fake), None, 1)
    reply.add_done_callback(print)
    with pytest.raises(RuntimeError, match="Non-thread-safe"):
        reply.settle(1)
