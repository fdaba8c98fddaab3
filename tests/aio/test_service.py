"""What is served and under which name; and what is refused, with which words."""

from __future__ import annotations

import functools
import inspect
import types
from collections.abc import Callable
from typing import Any
from unittest.mock import AsyncMock

import pytest

from rpcproto.aio.service import Service, build_registry, notify, request
from rpcproto.errors import ConfigurationError
from rpcproto.wire.spec import FrameType
from tests.aio._services import Echo, refusal, traced

# ---- services ------------------------------------------------------------------------------------------------------


def test_a_service() -> None:
    echo = Echo()
    registry = build_registry(echo)
    assert [(name, handler.name, handler.kind, handler.mode) for name, handler in registry.items()] == [
        ("Echo.echo", "Echo.echo", FrameType.REQUEST, "inline"),
        ("Echo.slow", "Echo.slow", FrameType.REQUEST, "thread"),
        ("Other.name", "Other.name", FrameType.REQUEST, "task"),
        ("Echo.log", "Echo.log", FrameType.NOTIFY, "inline"),
    ]
    assert type(registry) is dict
    assert registry["Echo.echo"].function(5) == 5
    assert registry["Echo.slow"].function.__self__ is echo
    assert str(registry["Echo.slow"].signature) == "(number: 'int', times: 'int' = 1) -> 'int'"
    assert repr(registry["Echo.log"]) == "<Handler Echo.log notify inline>"


def test_decorated_methods_stay_what_they_were() -> None:
    assert Echo().echo(1) == 1
    assert inspect.isfunction(Echo.echo)
    assert inspect.iscoroutinefunction(Echo.wait)


def test_service_name_on_class_and_instance() -> None:
    class Renamed(Echo):
        service_name = "Public"

    class Below(Renamed):
        pass

    assert list(build_registry(Renamed())) == ["Public.echo", "Public.slow", "Other.name", "Public.log"]
    assert "Public.echo" in build_registry(Below())

    class Single(Service):
        @request
        def get(self) -> None:
            pass

    one, other = Single(), Single()
    one.service_name, other.service_name = "One", "Other"
    assert list(build_registry([one, other])) == ["One.get", "Other.get"]


def test_an_override_takes_over_the_declaration() -> None:
    class Child(Echo):
        def echo(self, value: object) -> object:
            return "overridden"

        async def log(self, line: str) -> None:
            pass

        def wait(self) -> str:
            return "did not wait"

    registry = build_registry(Child())
    assert list(registry) == ["Child.echo", "Child.slow", "Other.name", "Child.log"]
    assert registry["Child.echo"].function(1) == "overridden"
    assert (registry["Child.log"].kind, registry["Child.log"].mode) == (FrameType.NOTIFY, "task")
    assert registry["Other.name"].mode == "inline"


def test_a_new_declaration_replaces_the_old_one() -> None:
    class Child(Echo):
        @request
        async def slow(self, number: int, times: int = 1) -> int:
            return 0

        @notify
        def wait(self) -> None:
            pass

    registry = build_registry(Child())
    assert registry["Child.slow"].mode == "task"
    assert registry["Child.wait"].kind == FrameType.NOTIFY
    assert "Other.name" not in registry


def test_an_override_that_contradicts_the_declaration() -> None:
    class Child(Echo):
        async def slow(self, number: int, times: int = 1) -> int:
            return 0

    assert "Child.slow is a coroutine function" in refusal(Child())
    assert "decorate it again where that is inherited" in refusal(Child())


def test_none_takes_a_method_off() -> None:
    class Child(Echo):
        slow = None

    class Again(Child):
        @request
        def slow(self) -> None:
            pass

    assert list(build_registry(Child())) == ["Child.echo", "Other.name", "Child.log"]
    assert "Again.slow" in build_registry(Again())


def test_several_bases() -> None:
    class Left(Service):
        @request
        def both(self) -> str:
            return "left"

    class Right(Service):
        @notify
        def both(self) -> str:
            return "right"

        @request
        def right(self) -> None:
            pass

    class Mixin:
        def right(self) -> str:
            return "mixin"

    class Child(Mixin, Left, Right):
        pass

    registry = build_registry(Child())
    assert registry.keys() == {"Child.both", "Child.right"}
    assert (registry["Child.both"].kind, registry["Child.both"].function()) == (FrameType.REQUEST, "left")
    assert registry["Child.right"].function() == "mixin"


def test_static_and_class_methods() -> None:
    class Odd(Service):
        @request
        @staticmethod
        def outer_static(value: int) -> int:
            return value

        @staticmethod
        @request
        def inner_static(value: int) -> int:
            return value

        @request
        @classmethod
        def outer_class(cls, value: int) -> tuple[type, int]:
            return cls, value

        @classmethod
        @request
        async def inner_class(cls, value: int) -> tuple[type, int]:
            return cls, value

    registry = build_registry(Odd())
    assert registry["Odd.outer_static"].function(1) == 1
    assert registry["Odd.inner_static"].function(2) == 2
    assert registry["Odd.outer_class"].function(3) == (Odd, 3)
    assert registry["Odd.inner_class"].mode == "task"


def test_a_method_set_on_the_instance_counts() -> None:
    echo = Echo()
    echo.echo = AsyncMock()
    handler = build_registry(echo)["Echo.echo"]
    assert handler.function is echo.echo
    assert handler.mode == "task"
    echo.echo = 5
    assert "Echo.echo is declared as a method but is 5" in refusal(echo)


# ---- mappings and sequences ----------------------------------------------------------------------------------------


def test_a_mapping() -> None:
    def add(a: int, b: int) -> int:
        return a + b

    @request(thread=True, name="ignored")
    def slow() -> None:
        pass

    @notify
    async def log(line: str) -> None:
        pass

    registry = build_registry({"add": add, "pkg.slow": slow, "log": log, "len": len, "bound": Echo().log})
    assert {name: (handler.kind.name, handler.mode) for name, handler in registry.items()} == {
        "add": ("REQUEST", "inline"),
        "pkg.slow": ("REQUEST", "thread"),
        "log": ("NOTIFY", "task"),
        "len": ("REQUEST", "inline"),
        "bound": ("NOTIFY", "inline"),
    }
    assert registry["add"].function(1, 2) == 3
    proxy = types.MappingProxyType({"add": add})
    assert list(build_registry(proxy)) == ["add"]


def test_a_sequence() -> None:
    for sequence in (list, tuple):
        registry = build_registry(sequence([Echo(), {"len": len}]))
        assert list(registry) == ["Echo.echo", "Echo.slow", "Other.name", "Echo.log", "len"]


def test_a_name_used_twice() -> None:
    text = refusal([Echo(), {"Echo.echo": len}])
    assert "method name 'Echo.echo' is used twice" in text
    assert ".Echo.echo and by builtins.len (key 'Echo.echo')" in text
    assert "'Echo.echo' is used twice" in refusal([Echo(), Echo()])


@pytest.mark.parametrize(
    ("services", "text"),
    [
        ([], "nothing to serve"),
        ({}, "nothing to serve"),
        (Echo, "Echo is a class; pass an instance of it: Echo(...)"),
        ([Echo], "Echo is a class; pass an instance of it: Echo(...)"),
        (int, "int is a class, and not a Service"),
        (len, 'builtins.len is a function; give it a wire name: {"name": function}'),
        ("Echo", "can be served, not 'Echo'"),
        (None, "can be served, not None"),
        ([[Echo()]], "can be served, not [<"),
        ({"echo": 5}, "'echo': 5 is not callable"),
        ({"echo": Echo()}, "'echo': a mapping holds functions; pass a service itself, or in a list"),
        ({"echo": Echo}, "'echo': a mapping holds functions"),
        ({5: len}, "a key of the mapping must be a string, not 5"),
    ],
)
def test_what_is_no_service(services: Any, text: str) -> None:
    assert text in refusal(services)


def test_forgotten_decorators() -> None:
    class Forgot(Service):
        def echo(self) -> None:
            pass

        async def wait(self) -> None:
            pass

        def _private(self) -> None:
            pass

    assert "Forgot declares no methods; decorate them with @rpcproto.request" in refusal(Forgot())
    assert "(undecorated: echo, wait)" in refusal(Forgot())
    assert refusal(Service()).endswith("@rpcproto.channel")


def test_a_forgotten_base_class() -> None:
    class Forgot:
        @request
        def echo(self) -> None:
            pass

    assert "Forgot has decorated methods but is not a Service" in refusal(Forgot())


# ---- decorators ----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("decorate", "text"),
    [
        (lambda: request("Echo.echo"), "a wire name is given as @request(name=...)"),
        (lambda: notify(property(len)), "@notify goes on a function, not on <property"),
        (lambda: request(Echo), "@request goes on a method, not on the class Echo"),
        (lambda: request(len), "@request cannot mark builtins.len, which takes no attributes"),
        (
            lambda: request(Echo().helper),
            "takes no attributes; decorate it in its class, derived from rpcproto.Service",
        ),
        (lambda: request(Echo.echo), "Echo.echo is decorated twice"),
        (lambda: request(notify(lambda: None)), "is decorated twice"),
        (lambda: request(notify(staticmethod(lambda: None))), "is decorated twice"),
        (lambda: request(thread=1), "thread= of @request must be True or False, not 1"),
    ],
)
def test_wrong_decorations(decorate: Callable[[], object], text: str) -> None:
    with pytest.raises(ConfigurationError) as caught:
        decorate()
    assert text in str(caught.value)


def plain_method(self: object, a: int) -> int:
    return a


async def coroutine_method(self: object, a: int) -> int:
    return a


def test_other_decorators_above_and_below() -> None:
    class Mixed(Service):
        @request
        @traced
        def below(self, a: int) -> int:
            return a

        @traced
        @notify
        def above(self, a: int) -> None:
            pass

        cached = request(functools.lru_cache(plain_method))
        partial = request(functools.partialmethod(below, 5))
        partial_coroutine = request(functools.partialmethod(coroutine_method, 5))

    registry = build_registry(Mixed())
    assert {name: handler.kind.name for name, handler in registry.items()} == {
        "Mixed.below": "REQUEST",
        "Mixed.above": "NOTIFY",
        "Mixed.cached": "REQUEST",
        "Mixed.partial": "REQUEST",
        "Mixed.partial_coroutine": "REQUEST",
    }
    assert registry["Mixed.cached"].function(1) == 1
    assert registry["Mixed.partial_coroutine"].mode == "task"
    assert registry["Mixed.below"].function(1) == 1
    assert registry["Mixed.partial"].function() == 5
    assert registry["Mixed.below"].misfit([1, 2]) == "Mixed.below() takes 1 argument, 2 given"
