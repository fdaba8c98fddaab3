"""How each kind of function is run, and who is to blame for a TypeError."""

from __future__ import annotations

import asyncio
import asyncio.coroutines
import functools
import inspect
import types
from collections.abc import AsyncIterator, Iterator
from typing import Any
from unittest.mock import AsyncMock, Mock

import pytest

from rpcproto.aio.handler import Handler
from rpcproto.aio.service import Service, build_registry, request
from rpcproto.errors import ConfigurationError
from rpcproto.wire.spec import FrameType
from tests.aio._services import Echo, handler_of, refusal, traced

# ---- kinds of functions --------------------------------------------------------------------------------------------


async def coroutine(value: object = None) -> object:
    return value


def plain(value: object = None) -> object:
    return value


def generator() -> Iterator[int]:
    yield 1


async def async_generator() -> AsyncIterator[int]:
    yield 1


@types.coroutine
def old_coroutine() -> Iterator[None]:
    yield


class AsyncCall:
    async def __call__(self) -> None:
        pass

    def plain(self) -> None:
        pass

    async def method(self) -> None:
        pass


class PlainCall:
    def __call__(self) -> None:
        pass


class TracedCall:
    @traced
    async def __call__(self) -> None:
        pass


class AsyncGeneratorCall:
    async def __call__(self) -> AsyncIterator[int]:
        yield 1


class Compiled:
    """A callable as compilers make them: no function of Python's, but with the flags of one."""

    def __init__(self, function: Any) -> None:
        self.__code__ = function.__code__

    def __call__(self) -> None:
        pass


class Marked:
    """A callable that says it is a coroutine function in the way older compilers do."""

    _is_coroutine = getattr(asyncio.coroutines, "_is_coroutine", None)

    def __call__(self) -> None:
        pass


TASKS = {
    "async def": coroutine,
    "partial": functools.partial(coroutine, 1),
    "partial of partial": functools.partial(functools.partial(coroutine), 1),
    "wraps": traced(coroutine),
    "wraps twice": traced(traced(coroutine)),
    "partial of wraps of partial": functools.partial(traced(functools.partial(coroutine))),
    "bound method": AsyncCall().method,
    "partial of a bound method": functools.partial(AsyncCall().method),
    "callable object": AsyncCall(),
    "partial of a callable object": functools.partial(AsyncCall()),
    "callable object with wraps": TracedCall(),
    "method of a callable object": AsyncCall().__call__,
    "types.coroutine": old_coroutine,
    "compiled": Compiled(coroutine),
    "lambda under wraps": functools.wraps(coroutine)(lambda: None),
    "mock": AsyncMock(),
}
INLINE = {
    "def": plain,
    "partial": functools.partial(plain, 1),
    "wraps": traced(plain),
    "bound method": AsyncCall().plain,
    "callable object": PlainCall(),
    "compiled": Compiled(plain),
    "builtin": len,
    "builtin method": [].append,
    "class": int,
    "mock": Mock(),
    "collected generator": functools.wraps(generator)(lambda: list(generator())),
}


@pytest.mark.parametrize("kind", TASKS)
def test_coroutine_functions_are_tasks(kind: str) -> None:
    assert handler_of(TASKS[kind]).mode == "task"


@pytest.mark.parametrize("kind", INLINE)
def test_plain_functions_are_inline(kind: str) -> None:
    assert handler_of(INLINE[kind]).mode == "inline"


@pytest.mark.skipif(Marked._is_coroutine is None, reason="Python 3.14 knows no such mark")
def test_marked_functions_are_tasks() -> None:
    assert handler_of(Marked()).mode == "task"


@pytest.mark.skipif(not hasattr(inspect, "markcoroutinefunction"), reason="Python 3.12")
def test_functions_marked_by_inspect_are_tasks() -> None:
    assert handler_of(inspect.markcoroutinefunction(lambda: coroutine())).mode == "task"


@pytest.mark.parametrize("kind", INLINE)
def test_plain_functions_in_a_thread(kind: str) -> None:
    handler = Handler("name", FrameType.REQUEST, INLINE[kind], thread=True, owner="owner")
    assert handler.mode == "thread"


@pytest.mark.parametrize("function", [coroutine, functools.partial(coroutine), AsyncCall(), AsyncCall().method])
def test_coroutine_functions_in_a_thread_are_refused(function: Any) -> None:
    with pytest.raises(ConfigurationError, match=r"owner is a coroutine function.*leave out thread=True"):
        Handler("name", FrameType.REQUEST, function, thread=True, owner="owner")


def test_a_wrapper_may_run_its_coroutine_in_a_thread() -> None:
    @request(thread=True)
    @functools.wraps(coroutine)
    def blocking(value: object) -> object:
        return asyncio.run(coroutine(value))

    assert handler_of(blocking).mode == "thread"


@pytest.mark.parametrize(
    ("function", "text"),
    [
        (async_generator, "is an async generator, which gives many values: declare it with @stream"),
        (functools.partial(async_generator), "is an async generator"),
        (traced(async_generator), "is an async generator"),
        (AsyncGeneratorCall(), "is an async generator"),
        (Compiled(async_generator), "is an async generator"),
        (generator, "is a generator, which cannot be sent: return a list"),
        (functools.partial(generator), "is a generator"),
    ],
)
def test_generators_are_refused(function: Any, text: str) -> None:
    assert text in refusal({"name": function})


def test_what_wraps_itself_ends() -> None:
    def endless() -> None:
        pass

    endless.__wrapped__ = endless
    assert Handler("name", FrameType.REQUEST, Mock(__wrapped__=endless), thread=False, owner="owner").mode == "inline"


# ---- arguments -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "takes"),
    [
        (lambda: None, "no arguments"),
        (lambda a: None, "1 argument"),
        (lambda a, b, /: None, "2 arguments"),
        (lambda a, b=1: None, "1 to 2 arguments"),
        (lambda a=1: None, "0 to 1 argument"),
        (lambda a, *, c=1, **d: None, "1 argument"),
        (functools.partial(lambda a, b: None, 1), "1 argument"),
        (Echo().slow, "1 to 2 arguments"),
    ],
)
def test_too_many_arguments(function: Any, takes: str) -> None:
    assert handler_of(function).misfit([1, 2, 3]) == f"name() takes {takes}, 3 given"


def test_too_few_arguments() -> None:
    assert handler_of(lambda a, *rest: None).misfit([]) == "name() takes at least 1 argument, 0 given"
    assert handler_of(lambda a, *rest: None).misfit([1, 2, 3]) is None
    assert handler_of(lambda *rest: None).misfit([]) is None


def call(handler: Handler, *args: object) -> str | None:
    """Call a handler as a server does, and say who is to blame."""
    try:
        handler.function(*args)
    except TypeError as error:
        return handler.blame_arguments(error, args) or "the handler"
    return None


def test_who_is_to_blame() -> None:
    def raises(value: object) -> None:
        raise TypeError("its own")

    def calls_wrongly(value: object) -> None:
        plain(1, 2, 3)

    def is_given_more(session: object, value: object) -> None:
        raise TypeError("its own")

    @functools.wraps(is_given_more)
    def gives_more(value: object) -> None:
        is_given_more("session", value)

    class Raises:
        def __call__(self, *values: object) -> None:
            self.inner(*values)

        def inner(self) -> None:
            pass

    arguments = "Echo.echo() takes 1 argument, 2 given"
    echo = build_registry(Echo())["Echo.echo"]
    assert call(echo, 1) is None
    assert call(echo, 1, 2) == arguments
    assert call(handler_of(coroutine), 1, 2) == "name() takes 0 to 1 argument, 2 given"
    assert call(handler_of(AsyncCall()), 1) == "name() takes no arguments, 1 given"
    assert call(handler_of(raises), 1) == "the handler"
    assert call(handler_of(raises)) == "name() takes 1 argument, 0 given"
    assert call(handler_of(calls_wrongly), 1) == "the handler"
    assert call(handler_of(gives_more), 1) == "the handler", "it had started"
    assert call(handler_of(Raises()), 1) == "the handler"
    assert call(handler_of(len)) == "name() takes 1 argument, 0 given"
    assert call(handler_of(len), 1) == "the handler"


def test_a_function_that_does_not_tell_its_parameters() -> None:
    handler = handler_of(max)
    if handler.signature is None:
        assert handler.misfit([]) is None
        assert call(handler) == "the handler"


def test_methods_that_cannot_be_called() -> None:
    class NoSelf(Service):
        @request
        def method() -> None:
            pass

    class KeywordOnly(Service):
        @request
        def method(self, a: int, *, b: int) -> None:
            pass

    assert "NoSelf.method is a method without a parameter for self" in refusal(NoSelf())
    assert "its parameter 'b' is keyword-only without a default" in refusal(KeywordOnly())
