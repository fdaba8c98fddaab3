"""What the tests of services and of handlers share."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import pytest

from rpcproto.aio.handler import Handler
from rpcproto.aio.service import Service, build_registry, notify, request
from rpcproto.errors import ConfigurationError


class Echo(Service):
    @request
    def echo(self, value: object) -> object:
        return value

    @request(thread=True)
    def slow(self, number: int, times: int = 1) -> int:
        return number * times

    @request(name="Other.name")
    async def wait(self) -> str:
        return "waited"

    @notify
    def log(self, line: str) -> None:
        pass

    def helper(self) -> None:
        pass


def traced(function: Callable[..., Any]) -> Callable[..., Any]:
    """The usual decorator: a plain function around any kind of function."""

    @functools.wraps(function)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        return function(*args, **kwargs)

    return wrapper


def handler_of(function: Callable[..., Any], name: str = "name") -> Handler:
    return build_registry({name: function})[name]


def refusal(services: Any) -> str:
    with pytest.raises(ConfigurationError) as caught:
        build_registry(services)
    return str(caught.value)
