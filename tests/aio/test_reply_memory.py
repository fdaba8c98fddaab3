"""A reply keeps nothing alive and gives nothing away."""

from __future__ import annotations

import asyncio
import copy
import pickle
import weakref
from typing import Any

import pytest

from rpcproto.aio.reply import Reply, WakeList, new_reply
from tests.aio._replies import CustomError, FakeLoop, Owner, Value, opened, turns, wait_for_reply


def test_an_error_nobody_retrieves_is_silent(run: Any) -> None:
    async def main() -> None:
        opened().settle_error(CustomError())
        task = asyncio.create_task(wait_for_reply(reply := opened()))
        await turns()
        task.cancel()
        await asyncio.wait([task])
        reply.settle_error(CustomError())

    run(main())  # the fixture fails if anything reaches the loop's exception handler


@pytest.mark.parametrize("late", [True, False])
def test_a_result_is_not_kept_alive(run: Any, no_gc: None, late: bool) -> None:
    async def caller(reply: Reply) -> weakref.ref[Value]:
        return weakref.ref(await reply)

    async def main() -> None:
        reply = opened(Owner())
        tag = reply.method = Value()
        alive = weakref.ref(tag)
        del tag
        task = asyncio.create_task(caller(reply))
        if late:
            await turns()
        reply.settle(Value())
        del reply
        result = await task
        del task
        assert result() is None
        assert alive() is None, "the reply itself is in a cycle"

    run(main())


@pytest.mark.parametrize("late", [True, False])
@pytest.mark.parametrize("cancel", [True, False])
def test_an_error_is_not_kept_alive(run: Any, no_gc: None, late: bool, cancel: bool) -> None:
    requests: list[Reply] = []
    errors: list[weakref.ref[BaseException]] = []
    tags: list[weakref.ref[Value]] = []

    def request() -> Reply:
        reply = opened(Owner())
        tag = reply.method = Value()
        tags.append(weakref.ref(tag))
        requests.append(reply)
        return reply

    def settle() -> None:
        reply = requests.pop()
        if cancel:
            reply.cancel()
        else:
            error = CustomError()
            errors.append(weakref.ref(error))
            reply.settle_error(error)

    async def caller() -> str:
        reply = request()
        if not late:
            settle()
        try:
            await reply
        except (CustomError, asyncio.CancelledError):
            return "failed"
        finally:
            del reply  # as in `await client.request(...)`, where it has no name
        return "not failed"

    async def main() -> None:
        task = asyncio.create_task(caller())
        await turns()
        if late:
            settle()
        assert await task == "failed"
        del task
        assert [error() for error in errors] == [None] * len(errors)
        assert tags[0]() is None, "the reply itself is in a cycle"

    run(main())


def test_each_result_is_given_up_before_the_next_waiter_runs(fake: FakeLoop, no_gc: None) -> None:
    wakes = WakeList(fake)
    results: list[weakref.ref[Value]] = []
    alive: list[int] = []

    def look(_: Reply) -> None:
        alive.append(sum(result() is not None for result in results))

    for _ in range(3):
        reply = new_reply(wakes, None, 1)
        reply.add_done_callback(look)
        value = Value()
        results.append(weakref.ref(value))
        reply.settle(value)
    del reply, value
    fake.turn()
    assert alive == [3, 2, 1]


def test_repr(fake: FakeLoop) -> None:
    wakes = WakeList(fake)
    reply = new_reply(wakes, None, 1)
    assert repr(reply) == "<Reply pending>"
    reply.method = "Echo.echo"
    assert repr(reply) == "<Reply Echo.echo pending>"
    reply.settle("secret")
    assert repr(reply) == "<Reply Echo.echo done>"
    reply = new_reply(wakes, None, 1)
    reply.settle_error(CustomError("secret"))
    assert repr(reply) == "<Reply failed with CustomError>"
    reply = new_reply(wakes, None, 1)
    reply.cancel("secret")
    assert repr(reply) == "<Reply cancelled>"


def test_generic() -> None:
    assert Reply[int].__origin__ is Reply


def test_only_new_reply_makes_one(fake: FakeLoop) -> None:
    with pytest.raises(TypeError, match=r"made by request\(\)"):
        Reply()
    reply = new_reply(WakeList(fake), None, 1)
    for duplicate in (copy.copy, copy.deepcopy, pickle.dumps):
        with pytest.raises(TypeError, match="await it and send the result"):
            duplicate(reply)


def test_a_reply_that_was_never_opened_does_not_crash() -> None:
    reply = Reply.__new__(Reply)
    for attempt in (
        lambda: reply.settle(1),
        lambda: reply.settle_error(CustomError()),
        lambda: reply.cancel(),
        lambda: reply.add_done_callback(print),
        lambda: reply.remove_done_callback(print),
        lambda: next(reply.__await__()),
        lambda: reply.result(),
        lambda: repr(reply),
    ):
        try:
            attempt()
        except (RuntimeError, AttributeError, StopIteration):
            pass
