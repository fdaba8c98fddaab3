"""A reply is settled once and awaited like a future."""

from __future__ import annotations

import asyncio
import traceback
import types
from typing import Any

import pytest

from rpcproto.aio.reply import Reply, WakeList, new_reply
from rpcproto.errors import RemoteError
from tests.aio._replies import CustomError, FakeLoop, Owner, opened, turns, wait_for_reply

# ---- settling ------------------------------------------------------------------------------------------------------


def test_a_new_reply_is_pending(owner: Owner, fake: FakeLoop) -> None:
    reply = new_reply(WakeList(fake), owner, 2**48 - 1)
    assert (reply.done(), reply.cancelled()) == (False, False)
    assert (reply.owner, reply.call_id, reply.method) == (owner, 2**48 - 1, "")
    assert (reply.deadline, reply.sent) == (0.0, False)
    assert reply.get_loop() is fake
    with pytest.raises(asyncio.InvalidStateError, match="has not arrived"):
        reply.result()
    with pytest.raises(asyncio.InvalidStateError, match="has not arrived"):
        reply.exception()


def test_a_result(owner: Owner, fake: FakeLoop) -> None:
    reply = new_reply(WakeList(fake), owner, 1)
    assert reply.settle("value") is True
    assert (reply.done(), reply.cancelled(), reply.result(), reply.exception()) == (True, False, "value", None)
    assert reply.owner is None
    assert fake.soon == [], "nobody waits, so nobody is woken"


def test_an_error(owner: Owner, fake: FakeLoop) -> None:
    reply = new_reply(WakeList(fake), owner, 1)
    error = CustomError("no")
    assert reply.settle_error(error) is True
    assert (reply.done(), reply.cancelled(), reply.exception()) == (True, False, error)
    assert reply.owner is None
    with pytest.raises(CustomError) as caught:
        reply.result()
    assert caught.value is error


def test_only_the_first_outcome_counts(owner: Owner, fake: FakeLoop) -> None:
    wakes = WakeList(fake)
    first, second, third = (new_reply(wakes, owner, call_id) for call_id in (1, 3, 5))
    assert first.settle(1)
    assert second.settle_error(CustomError())
    assert third.cancel()
    for reply in (first, second, third):
        assert reply.settle(2) is False
        assert reply.settle_error(KeyError()) is False
        assert reply.cancel() is False
    assert first.result() == 1
    assert isinstance(second.exception(), CustomError)
    assert third.cancelled()
    assert owner.cancelled == [5]


def test_a_cancel_tells_the_owner_once(owner: Owner, fake: FakeLoop) -> None:
    reply = new_reply(WakeList(fake), owner, 9)
    assert reply.cancel(msg="no longer wanted") is True
    assert reply.cancel() is False
    assert owner.cancelled == [9]
    assert (reply.done(), reply.cancelled(), reply.owner) == (True, True, None)
    for read in (reply.result, reply.exception):
        with pytest.raises(asyncio.CancelledError) as caught:
            read()
        assert caught.value.args == ("no longer wanted",)


def test_the_owner_sees_the_reply_cancelled(fake: FakeLoop) -> None:
    class Settler:
        def cancel_call(self, call_id: int) -> None:
            assert reply.cancelled()
            assert reply.settle_error(CustomError()) is False
            assert reply.cancel() is False

    reply = new_reply(WakeList(fake), Settler(), 9)
    assert reply.cancel()


def test_an_owner_that_fails_does_not_leave_the_waiter_behind(fake: FakeLoop) -> None:
    class Broken:
        def cancel_call(self, call_id: int) -> None:
            raise CustomError

    reply = new_reply(WakeList(fake), Broken(), 9)
    seen: list[Reply] = []
    reply.add_done_callback(seen.append)
    with pytest.raises(CustomError):
        reply.cancel()
    fake.turn()
    assert seen == [reply]
    assert reply.cancelled()


def test_a_reply_without_owner_can_be_cancelled(fake: FakeLoop) -> None:
    reply = new_reply(WakeList(fake), None, 0)
    assert reply.cancel()
    assert reply.cancelled()


# ---- awaiting ------------------------------------------------------------------------------------------------------


VALUES = [None, 0, "text", (), (1, 2), CustomError("as a value"), StopIteration("as a value"), [StopIteration]]


@pytest.mark.parametrize("value", VALUES, ids=repr)
def test_await_before_and_after(run: Any, value: Any) -> None:
    async def main() -> None:
        reply = opened()
        task = asyncio.create_task(wait_for_reply(reply))
        await turns()
        assert not task.done()
        reply.settle(value)
        assert await task is value
        assert await reply is value

    run(main())


def test_await_in_two_tasks(run: Any, owner: Owner) -> None:
    async def main() -> None:
        reply = opened(owner)
        tasks = [asyncio.create_task(wait_for_reply(reply)) for _ in range(5)]
        await turns()
        reply.settle("for all")
        assert [await task for task in tasks] == ["for all"] * 5

    run(main())
    assert owner.cancelled == []


def test_cancelling_one_of_two_waiters_cancels_the_call_as_it_does_with_a_future(run: Any, owner: Owner) -> None:
    async def main() -> None:
        reply = opened(owner)
        one, other = (asyncio.create_task(wait_for_reply(reply)) for _ in range(2))
        await turns()
        one.cancel()
        await asyncio.wait([one, other])
        assert one.cancelled()
        assert other.cancelled()

    run(main())
    assert owner.cancelled == [7]


def test_await_an_error_twice(run: Any) -> None:
    async def main() -> None:
        reply = opened()
        error = RemoteError("ValueError: no")
        task = asyncio.create_task(wait_for_reply(reply))
        await turns()
        reply.settle_error(error)
        with pytest.raises(RemoteError) as caught:
            await task
        assert caught.value is error
        depths = []
        for _ in range(3):
            with pytest.raises(RemoteError):
                await reply
            depths.append(len(traceback.extract_tb(error.__traceback__)))
        assert len(set(depths)) == 1, "the traceback grew"

    run(main())


def test_where_an_error_comes_from_stays_in_its_traceback(run: Any) -> None:
    def fail_to_decode() -> None:
        raise CustomError

    async def main() -> None:
        reply = opened()
        try:
            fail_to_decode()
        except CustomError as error:
            reply.settle_error(error)
        for _ in range(2):
            with pytest.raises(CustomError) as caught:
                await reply
            names = [frame.name for frame in traceback.extract_tb(caught.value.__traceback__)]
            assert names.count("fail_to_decode") == 1

    run(main())


def test_stop_iteration_does_not_pass_for_a_result(run: Any) -> None:
    async def main() -> None:
        early, late = opened(), opened()
        early.settle_error(StopIteration(1))
        with pytest.raises(RuntimeError):
            await early
        task = asyncio.create_task(wait_for_reply(late))
        await turns()
        late.settle_error(StopIteration(1))
        with pytest.raises(RuntimeError):
            await task

    run(main())


def test_cancelling_the_task_that_waits(run: Any, owner: Owner) -> None:
    async def main() -> None:
        reply = opened(owner)
        task = asyncio.create_task(wait_for_reply(reply))
        await turns()
        task.cancel("enough")
        with pytest.raises(asyncio.CancelledError) as caught:
            await task
        assert caught.value.args == ("enough",)
        assert reply.cancelled()
        with pytest.raises(asyncio.CancelledError):
            await reply

    run(main())
    assert owner.cancelled == [7]


def test_cancelling_a_task_whose_reply_has_just_arrived(run: Any, owner: Owner) -> None:
    async def main() -> None:
        reply = opened(owner)
        task = asyncio.create_task(wait_for_reply(reply))
        await turns()
        reply.settle(1)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
        assert reply.result() == 1

    run(main())
    assert owner.cancelled == []


def test_a_cancelled_task_may_go_on(run: Any, owner: Owner) -> None:
    async def main() -> str:
        async def stubborn() -> str:
            try:
                await opened(owner, 1)
            except asyncio.CancelledError:
                return await opened_late
            return "not cancelled"

        opened_late = opened(owner, 3)
        task = asyncio.create_task(stubborn())
        await turns()
        task.cancel()
        await turns()
        opened_late.settle("went on")
        return await task

    assert run(main()) == "went on"
    assert owner.cancelled == [1]


def test_yield_instead_of_await_is_an_error(run: Any) -> None:
    async def main() -> None:
        reply = opened()

        @types.coroutine
        def wrong() -> Any:
            yield reply

        with pytest.raises(RuntimeError, match="yield was used instead of yield from"):
            await asyncio.create_task(wait_for_reply(wrong()))

        @types.coroutine
        def right() -> Any:
            return (yield from reply)

        task = asyncio.create_task(wait_for_reply(right()))
        await turns()
        reply.settle(3)
        assert await task == 3

    run(main())


def test_resumed_before_it_is_settled(fake: FakeLoop) -> None:
    reply = new_reply(WakeList(fake), None, 1)
    steps = reply.__await__()
    assert next(steps) is reply
    with pytest.raises(RuntimeError, match="resumed before it was settled"):
        next(steps)
