"""Handlers that do not answer at once: coroutines in tasks, blocking functions in threads.

Not compiled: compiled coroutines are not what ``inspect`` and debuggers expect (cython issue 2273).
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import inspect
import sys
import traceback as traceback_module
from collections.abc import Awaitable, Callable, Sequence
from concurrent.futures import Future
from typing import TYPE_CHECKING, Any

from rpcproto._logs import log
from rpcproto.aio import _tuning as tuning
from rpcproto.aio.context import calling
from rpcproto.aio.stream import Channel
from rpcproto.wire import spec
from rpcproto.wire.spec import ErrorCode

if TYPE_CHECKING:
    from rpcproto.aio.items import Items
    from rpcproto.aio.serving import Entry, Serving
    from rpcproto.connection.calls import RunningCall
    from rpcproto.serialization.codec import Codec

PLAIN = frozenset({bytes, str, int, float, bool, type(None), list, dict, tuple, memoryview, bytearray})
"""Types of results that are no awaitables, for a quick look."""
_TURN = 1000
"""Values that a stream may send before others get their turn."""
_EAGER = sys.version_info >= (3, 12)


def is_awaitable(result: object) -> bool:
    """Whether a handler returned something to be awaited. Ask :data:`PLAIN` first."""
    return inspect.isawaitable(result)


def start(session: Serving, running: RunningCall, entry: Entry, codec: Codec, args: Sequence[Any]) -> None:
    """Run a handler that is a coroutine function, or one for a thread."""
    if entry.mode == tuning.THREAD:
        _start_thread(session, running, entry, codec, args)
    else:
        _start_task(session, _call(session, running, entry, codec, args))


def start_awaitable(session: Serving, running: RunningCall, entry: Entry, codec: Codec, result: Awaitable[Any]) -> None:
    """Await what a plain handler returned."""
    _start_task(session, _call(session, running, entry, codec, (), result))


def start_flow(
    session: Serving, running: RunningCall, entry: Entry, codec: Codec, items: Items, args: Sequence[Any]
) -> None:
    """Run the handler of a stream or channel."""
    if entry.mode == tuning.COVERED:  # by middleware, which exchanges the items for others, with hooks
        items, serving = entry.function(session, running, items, args)
        _start_task(session, _call(session, running, entry, codec, args, serving, items))
        return
    if entry.kind == spec.STREAM:
        serving = send_all(items, entry.function, args)
        _start_task(session, _call(session, running, entry, codec, args, serving, items))
        return
    args = [Channel(items), *args]
    if entry.mode == tuning.TASK:
        _start_task(session, _call(session, running, entry, codec, args, None, items))
        return
    context = contextvars.copy_context()
    context.run(calling.set, running.context)
    try:
        result = context.run(entry.function, *args)
    except BaseException as error:
        _failed(session, running, entry, args, error)
    else:
        if is_awaitable(result):
            _start_task(session, _call(session, running, entry, codec, args, result, items))
        elif items.consumed() and not items.over:
            items.running = running
        else:
            items.leave(running)


async def send_all(items: Items, function: Callable[..., Any], args: Sequence[Any]) -> None:
    """Send what the handler of a stream gives, at the pace of its consumer."""
    values = function(*args)
    if is_awaitable(values):
        values = await values
    if hasattr(values, "__aiter__"):
        count = 0
        try:
            async for value in values:
                handle = items.send(value)
                if handle is not None:
                    await handle
                elif (count := count + 1) % _TURN == 0:
                    await asyncio.sleep(0)
        finally:
            if hasattr(values, "aclose"):
                await values.aclose()
        return
    values = iter(values)
    while not items.send_from(values, _TURN):
        if items.last is not None and not items.last.done():
            await items.last
        else:
            await asyncio.sleep(0)


def cancel(running: RunningCall) -> None:
    """Stop the work of a call that is over. A thread cannot be stopped; it counts until it ends.

    A task that has not begun is left alone, and will find out: cancelled now, it would never run, and so never tell.
    """
    work = running.work
    if work is not None:
        work.cancel()  # type: ignore[attr-defined]


def describe_error(error: BaseException, with_traceback: bool) -> tuple[str, str, str]:
    """Type name, text and traceback of an exception; an exception that cannot tell its text harms nothing."""
    cls = type(error)
    name = cls.__qualname__ if cls.__module__ == "builtins" else f"{cls.__module__}.{cls.__qualname__}"
    try:
        text = str(error)
    except BaseException:
        text = "(its text could not be made)"
    traceback = ""
    if with_traceback:
        try:
            traceback = "".join(traceback_module.format_exception(error))
        except BaseException:
            traceback = "(its traceback could not be made)"
    return name, text, traceback


def _start_task(session: Serving, coroutine: Any) -> None:
    # The task keeps itself as the work of its call, from its first step on. Until then the loop keeps it.
    # asyncio.Task directly: loop.create_task costs 0.3 us more in uvloop, for a name and a wrapper (layered.md, 3).
    loop = session.loop
    if loop.get_task_factory() is None:
        if _EAGER and asyncio.current_task(loop) is None:
            context = contextvars.copy_context()
            asyncio.Task(coroutine, loop=loop, name="rpcproto call", context=context, eager_start=True)  # type: ignore[call-arg]
        else:
            asyncio.Task(coroutine, loop=loop, name="rpcproto call")
    else:
        loop.create_task(coroutine)


async def _call(
    session: Serving,
    running: RunningCall,
    entry: Entry,
    codec: Codec,
    args: Sequence[Any],
    awaitable: Awaitable[Any] | None = None,
    items: Items | None = None,
) -> None:
    """The whole life of a handler in a task; ``awaitable`` is what it returned, if it was called already; ``items`` is
    the stream or channel it serves."""
    if running.over:
        if awaitable is not None and hasattr(awaitable, "close"):
            awaitable.close()
        session.connection.finished(running)  # type: ignore[union-attr]
        session.link.on_call_done()
        return
    running.work = asyncio.current_task(session.loop)
    calling.set(running.context)
    try:
        try:
            result = await (entry.function(*args) if awaitable is None else awaitable)
        finally:
            running.work = None
            running.context.over = True
    except BaseException as error:
        if session.loop.is_closed():  # the task was left over, and is destroyed with the loop: there is nobody to tell
            raise
        _failed(session, running, entry, args, error)
    else:
        if items is None:
            session.finish(running, entry.name, codec, result)
        else:
            items.leave(running)
    session.link.on_call_done()


def _failed(session: Serving, running: RunningCall, entry: Entry, args: Sequence[Any], error: BaseException) -> None:
    connection = session.connection
    assert connection is not None
    wanted = connection.finished(running)
    if not wanted:
        if not isinstance(error, asyncio.CancelledError) and running.kind == spec.NOTIFY and not running.over:
            session.failed_handlers += 1
            log.error("notify %s of %s raised", entry.name, connection.peer, exc_info=error)
        return
    if isinstance(error, asyncio.CancelledError):
        connection.fail(running.call_id, ErrorCode.CANCELLED, "", "the handler was cancelled at the server", "")
        return
    if isinstance(error, TypeError):
        blame = entry.handler.blame_arguments(error, args)
        if blame is not None:
            connection.refuse(running.kind, running.call_id, ErrorCode.BAD_MESSAGE, blame)
            return
    session.send_error(running.call_id, error)


def _start_thread(session: Serving, running: RunningCall, entry: Entry, codec: Codec, args: Sequence[Any]) -> None:
    context = contextvars.copy_context()
    context.run(calling.set, running.context)
    loop = session.loop

    def done(work: Future[Any]) -> None:
        running.context.over = True
        if work.cancelled():
            session.connection.finished(running)  # type: ignore[union-attr]
        elif (error := work.exception()) is not None:
            _failed(session, running, entry, args, error)
        elif session.connection.finished(running):  # type: ignore[union-attr]
            session.send_result(entry.name, codec, running.call_id, work.result(), running.context)
        session.link.on_call_done()

    def done_in_thread(work: Future[Any]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop was closed while the thread ran on
            loop.call_soon_threadsafe(done, work)

    # Not run_in_executor: cancelling its future hides that the thread runs on, and it must count until it ends.
    work = session.link.executor().submit(context.run, entry.function, *args)
    running.work = work
    work.add_done_callback(done_in_thread)
