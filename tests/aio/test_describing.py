"""Methods in words: signatures, documentation, and what must not get out or break."""

from __future__ import annotations

import functools
from collections.abc import AsyncIterator, Callable
from typing import Any

import pytest

import rpcproto
from rpcproto.aio.describing import MAX_DOC, MAX_TEXT, describe, doc_of
from rpcproto.aio.service import build_registry


def described(function: Callable[..., Any]) -> Any:
    return describe(build_registry({"m": function})["m"])


class Shop(rpcproto.Service):
    """Sells."""

    @rpcproto.request
    def price(self, item: str, count: int = 1) -> int:
        """What it costs.

        More of it is indented.
        """
        return 3

    @rpcproto.request(thread=True)
    def pay(self, *coins: int) -> None:
        pass

    @rpcproto.notify
    async def thank(self, words: list[str]) -> None:
        pass

    @rpcproto.stream
    async def offers(self, /, below: float = 1e9, *, note: str = "") -> AsyncIterator[str]:
        yield ""

    @rpcproto.channel
    async def trade(self, channel: rpcproto.Channel, currency="EUR"):
        pass


def test_a_method_in_full() -> None:
    assert describe(build_registry(Shop())["Shop.price"]) == {
        "name": "Shop.price",
        "kind": "request",
        "runs": "inline",
        "signature": "(item: str, count: int = 1) -> int",
        "parameters": [
            {"name": "item", "annotation": "str", "default": None},
            {"name": "count", "annotation": "int", "default": "1"},
        ],
        "returns": "int",
        "doc": "What it costs.\n\nMore of it is indented.",
        "defined": f"{__name__}.Shop.price",
    }


@pytest.mark.parametrize(
    ("method", "kind", "runs", "signature"),
    [
        ("pay", "request", "thread", "(*coins: int) -> None"),
        ("thank", "notify", "task", "(words: list[str]) -> None"),
        ("offers", "stream", "task", "(below: float = 1000000000.0) -> AsyncIterator[str]"),
        ("trade", "channel", "task", "(currency='EUR')"),
    ],
)
def test_all_kinds_as_callers_see_them(method: str, kind: str, runs: str, signature: str) -> None:
    told = describe(build_registry(Shop())[f"Shop.{method}"])
    assert (told["kind"], told["runs"], told["signature"].replace('"', "").replace("'list[str]'", "list[str]")) == (
        kind,
        runs,
        signature,
    )


def test_functions_of_many_sorts() -> None:
    def add(a, b=2):
        """Sum."""
        return a + b

    class Caller:
        """An object that can be called."""

        def __call__(self, x: int) -> int:
            return x

    @functools.wraps(add)
    def wrapped(*args):
        return add(*args)

    assert described(lambda: None)["signature"] == "()"
    assert described(lambda: None)["doc"] == ""
    assert (described(functools.partial(add, 1))["signature"], described(functools.partial(add, 1))["doc"]) == (
        "(b=2)",
        "Sum.",
    )
    assert (described(Caller())["signature"], described(Caller())["doc"]) == (
        "(x: int) -> int",
        "An object that can be called.",
    )
    assert (described(wrapped)["signature"], described(wrapped)["doc"]) == ("(a, b=2)", "Sum.")
    unknown = described(max)
    assert (unknown["signature"], unknown["parameters"], unknown["returns"]) == ("(...)", None, None)


def test_annotations_that_are_types() -> None:
    def function(a, b):
        return a

    function.__annotations__ = {"a": int, "b": list[str], "return": dict[str, Any]}
    assert described(function)["signature"] == "(a: int, b: list[str]) -> dict[str, typing.Any]"


def test_what_is_long_is_cut_off() -> None:
    def function(a="x" * 1000):
        pass

    function.__doc__ = "word " * 2000
    told = described(function)
    assert len(told["parameters"][0]["default"]) == MAX_TEXT
    assert told["parameters"][0]["default"].endswith("xxx...")
    assert len(told["doc"]) == MAX_DOC
    assert told["doc"].endswith("...")


def test_no_places_in_memory() -> None:
    def function(a=object(), b=Shop().price):  # noqa: B008
        pass

    assert [one["default"] for one in described(function)["parameters"]] == [
        "<object object>",
        f"<bound method Shop.price of <{__name__}.Shop object>>",
    ]


def test_a_default_that_cannot_be_shown() -> None:
    class Bad:
        def __repr__(self) -> str:
            raise RuntimeError("no")

    def function(a=Bad()):  # noqa: B008
        pass

    assert described(function)["signature"] == "(a=...)"


def test_the_documentation_of_a_class() -> None:
    assert doc_of(Shop) == "Sells."
