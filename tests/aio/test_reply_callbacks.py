"""The waiters of a reply run in order, each in its own context, and none is lost."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import Callable
from typing import Any

import pytest

from rpcproto.aio.reply import Reply, WakeList, new_reply
from tests.aio._replies import CustomError, FakeLoop, opened, turns

variable: contextvars.ContextVar[str] = contextvars.ContextVar("variable", default="unset")


def test_callbacks_run_in_order_and_once(fake: FakeLoop) -> None:
    reply = new_reply(WakeList(fake), None, 1)
    seen: list[int] = []
    for number in range(5):
        reply.add_done_callback(lambda _, number=number: seen.append(number))
    reply.settle(None)
    assert seen == [], "settling calls nobody"
    reply.add_done_callback(lambda _: seen.append(5))
    fake.turn()
    fake.turn()
    assert seen == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize("waiters", [0, 1, 2])
def test_callbacks_run_in_their_own_contexts(fake: FakeLoop, waiters: int) -> None:
    reply = new_reply(WakeList(fake), None, 1)
    for _ in range(waiters):
        reply.add_done_callback(lambda _: None)
    seen: list[str] = []
    given = contextvars.copy_context()
    given.run(variable.set, "given")
    reply.add_done_callback(lambda _: seen.append(variable.get()), context=given)
    token = variable.set("copied")
    reply.add_done_callback(lambda _: seen.append(variable.get()))
    variable.reset(token)
    reply.add_done_callback(lambda _: (seen.append(variable.get()), variable.set("leaked")))
    reply.settle(None)
    fake.turn()
    assert seen == ["given", "copied", "unset"]
    assert variable.get() == "unset"


def test_a_callback_added_later_keeps_its_context(run: Any) -> None:
    async def main() -> None:
        reply = opened()
        reply.settle(1)
        seen: list[str] = []
        given = contextvars.copy_context()
        given.run(variable.set, "given")
        reply.add_done_callback(lambda _: seen.append(variable.get()), context=given)
        assert seen == []
        await turns()
        assert seen == ["given"]

    run(main())


def test_tasks_keep_their_contexts(run: Any) -> None:
    async def waiter(reply: Reply, name: str) -> str:
        variable.set(name)
        await reply
        return variable.get()

    async def main() -> None:
        wakes = WakeList(asyncio.get_running_loop())
        reply, other = opened(wakes=wakes), opened(wakes=wakes)
        tasks = [asyncio.create_task(waiter(each, name)) for each, name in ((reply, "a"), (reply, "b"), (other, "c"))]
        await turns()
        reply.settle(1)
        other.settle(1)
        assert await asyncio.gather(*tasks) == ["a", "b", "c"]

    run(main())
    assert variable.get() == "unset"


def test_remove_done_callback(fake: FakeLoop) -> None:
    reply = new_reply(WakeList(fake), None, 1)
    seen: list[str] = []

    def first(_: Reply) -> None:
        seen.append("first")

    def second(_: Reply) -> None:
        seen.append("second")

    assert reply.remove_done_callback(first) == 0
    for callback in (first, second, first, second, first):
        reply.add_done_callback(callback)
    assert reply.remove_done_callback(first) == 3
    assert reply.remove_done_callback(first) == 0
    reply.add_done_callback(first)
    reply.settle(None)
    fake.turn()
    assert seen == ["second", "second", "first"]


def test_remove_the_only_callback(fake: FakeLoop) -> None:
    reply = new_reply(WakeList(fake), None, 1)
    reply.add_done_callback(print)
    assert reply.remove_done_callback(print) == 1
    reply.settle(None)
    assert fake.soon == []


def test_an_exception_of_a_callback_goes_to_the_loop(fake: FakeLoop) -> None:
    wakes = WakeList(fake)
    seen: list[Reply] = []

    def broken(_: Reply) -> None:
        raise raised

    for raised in (CustomError("broken"), asyncio.CancelledError(), GeneratorExit()):
        one, other = new_reply(wakes, None, 1), new_reply(wakes, None, 3)
        one.add_done_callback(broken)
        one.add_done_callback(seen.append)
        other.add_done_callback(seen.append)
        one.settle(1)
        other.settle(1)
        fake.turn()
        assert seen == [one, other]
        (context,) = fake.errors
        assert (context["exception"], context["future"]) == (raised, one)
        assert "broken" in context["message"]
        seen.clear()
        fake.errors.clear()


@pytest.mark.parametrize("interrupt", [KeyboardInterrupt, SystemExit])
@pytest.mark.parametrize("at", [0, 1, 2])
def test_an_interrupt_loses_no_waiter(fake: FakeLoop, interrupt: type[BaseException], at: int) -> None:
    wakes = WakeList(fake)
    seen: list[int] = []

    def callback(number: int) -> Callable[[Reply], None]:
        def run(_: Reply) -> None:
            seen.append(number)
            if number == at:
                raise interrupt

        return run

    one, other = new_reply(wakes, None, 1), new_reply(wakes, None, 3)
    one.add_done_callback(callback(0))
    one.add_done_callback(callback(1))
    other.add_done_callback(callback(2))
    other.add_done_callback(callback(3))
    one.settle(1)
    other.settle(1)
    with pytest.raises(interrupt):
        fake.turn()
    late = new_reply(wakes, None, 5)
    late.add_done_callback(callback(4))
    late.settle(1)
    fake.turn()
    assert seen == [0, 1, 2, 3, 4]
    assert fake.errors == []


def test_an_interrupt_on_a_real_loop(run: Any) -> None:
    wakes = WakeList(run.loop)
    seen: list[Reply] = []

    def interrupt(_: Reply) -> None:
        raise KeyboardInterrupt

    one, other = new_reply(wakes, None, 1), new_reply(wakes, None, 3)
    one.add_done_callback(interrupt)
    other.add_done_callback(seen.append)
    one.settle(1)
    other.settle(1)
    with pytest.raises(KeyboardInterrupt):
        run.loop.run_forever()
    run(turns())
    assert seen == [other]
